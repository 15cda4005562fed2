//! Bytes with a length before them, and a buffer that tells whole ones.

use anyhow::{Result, bail};

/// How much is read at once.
const ROOM: usize = 128 * 1024;

/// Received bytes.
#[derive(Default)]
pub struct Frames {
    buffer: Vec<u8>,
    filled: usize,
}

impl Frames {
    /// Where to read into; at least a whole frame fits.
    pub fn room(&mut self) -> &mut [u8] {
        let missing = self
            .first()
            .map_or(0, |length| length.saturating_sub(self.filled));
        let wanted = self.filled + ROOM.max(missing);
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        &mut self.buffer[self.filled..]
    }

    /// Takes note of what was read; nothing is the end of the stream.
    pub fn read(&mut self, length: usize) -> Result<()> {
        if length == 0 {
            bail!("the stream ended");
        }
        self.filled += length;
        Ok(())
    }

    fn first(&self) -> Option<usize> {
        length_at(&self.buffer[..self.filled], 0)
    }

    /// The whole frames in front, and how many there are.
    pub fn whole(&self) -> (&[u8], usize) {
        let received = &self.buffer[..self.filled];
        let (mut end, mut count) = (0, 0);
        while let Some(length) = length_at(received, end)
            && end + length <= received.len()
        {
            end += length;
            count += 1;
        }
        (&received[..end], count)
    }

    /// Forgets what was taken from the front.
    pub fn consume(&mut self, length: usize) {
        self.buffer.copy_within(length..self.filled, 0);
        self.filled -= length;
    }
}

/// The length of the frame that begins at `at`, its own four bytes included.
fn length_at(bytes: &[u8], at: usize) -> Option<usize> {
    let length = bytes.get(at..)?.first_chunk()?;
    Some(4 + u32::from_be_bytes(*length) as usize)
}

/// A frame that is `size` bytes long altogether.
pub fn frame(size: usize) -> Vec<u8> {
    let body = u32::try_from(size - 4).expect("frames here are small");
    let mut frame = body.to_be_bytes().to_vec();
    frame.resize(size, b'x');
    frame
}
