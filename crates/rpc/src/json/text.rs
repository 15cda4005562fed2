//! Finds the bytes that end or interrupt a JSON string, 64 at a time, and writes text with those escaped.

/// The bit of each byte that is a quote, a backslash or a control character.
pub(crate) fn specials(block: &[u8; 64]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 processor has SSE2; it is part of the architecture.
        unsafe { sse2::specials(block) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        words::specials(block)
    }
}

/// Writes `text` in quotes at the end of `out`, as `serde_json` does.
pub(super) fn quoted(out: &mut Vec<u8>, text: &str) {
    // Most texts have few lines; the reserve is what those take.
    out.reserve(text.len() + text.len() / 32 + 2);
    out.push(b'"');
    let bytes = text.as_bytes();
    let (blocks, _) = bytes.as_chunks();
    let mut plain = 0;
    for (index, block) in blocks.iter().enumerate() {
        let mut specials = specials(block);
        while specials != 0 {
            let at = index * 64 + specials.trailing_zeros() as usize;
            specials &= specials - 1;
            out.extend_from_slice(&bytes[plain..at]);
            escape(out, bytes[at]);
            plain = at + 1;
        }
    }
    for at in blocks.len() * 64..bytes.len() {
        if matches!(bytes[at], b'"' | b'\\' | 0..0x20) {
            out.extend_from_slice(&bytes[plain..at]);
            escape(out, bytes[at]);
            plain = at + 1;
        }
    }
    out.extend_from_slice(&bytes[plain..]);
    out.push(b'"');
}

fn escape(out: &mut Vec<u8>, byte: u8) {
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0C => b'f',
        b'\r' => b'r',
        _ => {
            const HEX: &[u8; 16] = b"0123456789abcdef";
            let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', HEX[high], HEX[low]]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

#[cfg(target_arch = "x86_64")]
mod sse2 {
    //! Sixteen bytes an instruction.

    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set_epi64x,
        _mm_set1_epi8,
    };

    #[target_feature(enable = "sse2")]
    #[inline]
    pub(super) fn specials(block: &[u8; 64]) -> u64 {
        let (parts, _) = block.as_chunks::<16>();
        let mut found = 0;
        for (index, part) in parts.iter().enumerate() {
            let bytes = loaded(part);
            let quotes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'"' as i8));
            let backslashes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'\\' as i8));
            let controls = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1F)), bytes);
            let all = _mm_or_si128(_mm_or_si128(quotes, backslashes), controls);
            found |= u64::from(_mm_movemask_epi8(all) as u16) << (16 * index);
        }
        found
    }

    #[target_feature(enable = "sse2")]
    #[inline]
    fn loaded(part: &[u8; 16]) -> __m128i {
        let number = u128::from_le_bytes(*part);
        _mm_set_epi64x((number >> 64) as i64, number as i64)
    }
}

#[cfg(any(test, not(target_arch = "x86_64")))]
mod words {
    //! Eight bytes at a time, on any processor.

    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;

    pub(super) fn specials(block: &[u8; 64]) -> u64 {
        let (words, _) = block.as_chunks::<8>();
        let mut found = 0;
        for (index, word) in words.iter().enumerate() {
            let word = u64::from_le_bytes(*word);
            let quotes = zeros(word ^ (ONES * u64::from(b'"')));
            let backslashes = zeros(word ^ (ONES * u64::from(b'\\')));
            let all = quotes | backslashes | zeros(word & (ONES * 0xE0));
            // The high bits, gathered in the highest byte.
            let bits = (all >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56;
            found |= bits << (8 * index);
        }
        found
    }

    /// The high bit of each byte that is zero.
    fn zeros(word: u64) -> u64 {
        !(((word & !HIGH) + !HIGH) | word) & HIGH
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn text_is_written_as_serde_json_writes_it(text in "[ -~\\x00-\\x1f\"\\\\é漢]{0,300}", plain in "[ -~é]{0,200}") {
            let text = format!("{plain}{text}{plain}");
            let mut out = Vec::new();
            quoted(&mut out, &text);
            prop_assert_eq!(out, serde_json::to_vec(&text).expect("text"));
        }

        #[test]
        fn every_way_finds_the_same_bytes(bytes in prop::collection::vec(any::<u8>(), 64)) {
            let block: &[u8; 64] = bytes.first_chunk().expect("64 bytes");
            let slow = |byte: &u8| u64::from(matches!(byte, b'"' | b'\\' | 0..0x20));
            let slow = block.iter().rev().fold(0, |bits, byte| bits << 1 | slow(byte));
            prop_assert_eq!(specials(block), slow);
            prop_assert_eq!(words::specials(block), slow);
        }
    }
}
