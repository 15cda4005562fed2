//! Pictures for a model: sent as they are, or shrunk to what providers take.

use std::io::Cursor;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bezel_session_types::ImageContent;
use image::codecs::jpeg::JpegEncoder;
use image::{DynamicImage, ImageFormat, ImageReader, Limits, imageops::FilterType};

use crate::bound::size;
use crate::text::is_text;

/// What providers take.
const BOUNDS: Bounds = Bounds {
    side: 2_000,
    encoded: 4_500_000,
};
/// Files larger than this are not even opened.
const MOST_BYTES: u64 = 64 * 1024 * 1024;
/// Memory that decoding may take.
const MOST_MEMORY: u64 = 512 * 1024 * 1024;
/// JPEG qualities tried in turn until a picture is small enough.
const QUALITIES: [u8; 3] = [85, 70, 50];

/// What may be sent.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// Longest side in pixels.
    side: u32,
    /// Most bytes, counted in base64 as providers do.
    encoded: usize,
}

/// Formats that models read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Format(ImageFormat);

#[derive(Debug, thiserror::Error)]
pub(super) enum ImageError {
    #[error(
        "{path} looks like {format} but cannot be decoded: {source}. The file is damaged or unusual; convert it to PNG with a program through bash."
    )]
    Damaged {
        path: String,
        format: &'static str,
        source: image::ImageError,
    },
    #[error(
        "{path} is a picture of {size}, too large to show. Shrink it with a program through bash and read the result."
    )]
    TooLarge { path: String, size: String },
}

/// A picture that can be sent.
#[derive(Debug)]
pub(super) struct Picture {
    pub(super) content: ImageContent,
    /// Pixels of the file.
    pub(super) size: (u32, u32),
    /// Pixels of what is sent, when they differ or the picture was encoded again.
    pub(super) sent: Option<(u32, u32)>,
    pub(super) first_frame_only: bool,
}

impl Format {
    /// The format that the first bytes show, whatever the file is called.
    pub(super) fn of(head: &[u8]) -> Option<Self> {
        if is_text(head) {
            return None;
        }
        let format = match infer::get(head)?.mime_type() {
            "image/png" => ImageFormat::Png,
            "image/jpeg" => ImageFormat::Jpeg,
            "image/gif" => ImageFormat::Gif,
            "image/webp" => ImageFormat::WebP,
            _ => return None,
        };
        Some(Format(format))
    }

    pub(super) fn media_type(self) -> &'static str {
        self.0.to_mime_type()
    }
}

/// Refuses what must not even be loaded.
pub(super) fn check_size(path: &str, bytes: u64) -> Result<(), ImageError> {
    if bytes > MOST_BYTES {
        Err(ImageError::TooLarge {
            path: path.into(),
            size: size(bytes),
        })
    } else {
        Ok(())
    }
}

/// Makes a picture that a model takes from a file's content.
pub(super) fn prepare(path: &str, content: Vec<u8>, format: Format) -> Result<Picture, ImageError> {
    prepare_within(BOUNDS, path, content, format)
}

fn prepare_within(
    bounds: Bounds,
    path: &str,
    content: Vec<u8>,
    format: Format,
) -> Result<Picture, ImageError> {
    let damaged = |source| ImageError::Damaged {
        path: path.into(),
        format: format.media_type(),
        source,
    };
    let original = reader(&content, format)
        .into_dimensions()
        .map_err(damaged)?;
    let fits = original.0.max(original.1) <= bounds.side
        && encoded_length(content.len()) <= bounds.encoded;
    // Decoding also proves that a small file is whole: providers answer a damaged one with an error for the
    // entire request.
    let image = reader(&content, format).decode().map_err(damaged)?;
    if fits {
        let content = ImageContent {
            media_type: format.media_type().into(),
            data: STANDARD.encode(&content),
        };
        return Ok(Picture {
            content,
            size: original,
            sent: None,
            first_frame_only: false,
        });
    }
    let shrunk = shrink(image, bounds).map_err(damaged)?;
    Ok(Picture {
        content: ImageContent {
            media_type: shrunk.media_type.into(),
            data: STANDARD.encode(shrunk.bytes),
        },
        size: original,
        sent: Some(shrunk.size),
        first_frame_only: format.0 == ImageFormat::Gif,
    })
}

fn reader(content: &[u8], format: Format) -> ImageReader<Cursor<&[u8]>> {
    let mut reader = ImageReader::with_format(Cursor::new(content), format.0);
    let mut limits = Limits::default();
    limits.max_alloc = Some(MOST_MEMORY);
    reader.limits(limits);
    reader
}

fn encoded_length(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

/// A picture encoded anew.
struct Shrunk {
    media_type: &'static str,
    bytes: Vec<u8>,
    size: (u32, u32),
}

/// Scales down to the longest side and encodes: PNG where that is small enough, else JPEG of falling quality
/// and, at last, of falling size.
fn shrink(image: DynamicImage, bounds: Bounds) -> Result<Shrunk, image::ImageError> {
    let mut image = image;
    let mut side = bounds.side;
    loop {
        if image.width().max(image.height()) > side {
            image = image.resize(side, side, FilterType::Triangle);
        }
        let size = (image.width(), image.height());
        let mut png = Vec::new();
        image.write_to(&mut Cursor::new(&mut png), ImageFormat::Png)?;
        if encoded_length(png.len()) <= bounds.encoded {
            return Ok(Shrunk {
                media_type: "image/png",
                bytes: png,
                size,
            });
        }
        let opaque = DynamicImage::ImageRgb8(image.to_rgb8());
        for quality in QUALITIES {
            let mut jpeg = Vec::new();
            opaque.write_with_encoder(JpegEncoder::new_with_quality(&mut jpeg, quality))?;
            if encoded_length(jpeg.len()) <= bounds.encoded {
                return Ok(Shrunk {
                    media_type: "image/jpeg",
                    bytes: jpeg,
                    size,
                });
            }
        }
        side = side * 3 / 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(width: u32, height: u32, pixel: impl Fn(u32, u32) -> [u8; 3]) -> Vec<u8> {
        let image = image::RgbImage::from_fn(width, height, |x, y| image::Rgb(pixel(x, y)));
        let mut bytes = Vec::new();
        image
            .write_to(&mut Cursor::new(&mut bytes), ImageFormat::Png)
            .expect("encoded");
        bytes
    }

    fn format(bytes: &[u8]) -> Format {
        Format::of(bytes).expect("a picture")
    }

    #[test]
    fn a_picture_that_fits_is_sent_as_it_is() {
        let bytes = png(30, 20, |_, _| [1, 2, 3]);
        let picture = prepare("a.png", bytes.clone(), format(&bytes)).expect("a picture");
        assert_eq!(picture.size, (30, 20));
        assert_eq!(picture.sent, None);
        assert_eq!(
            STANDARD.decode(&picture.content.data).expect("base64"),
            bytes
        );
    }

    #[test]
    fn a_picture_with_a_long_side_is_shrunk_in_proportion() {
        let bytes = png(2_400, 12, |_, _| [9, 9, 9]);
        let picture = prepare("a.png", bytes.clone(), format(&bytes)).expect("a picture");
        assert_eq!(picture.sent, Some((2_000, 10)));
        let sent = STANDARD.decode(&picture.content.data).expect("base64");
        let decoded = image::load_from_memory(&sent).expect("decodes");
        assert_eq!((decoded.width(), decoded.height()), (2_000, 10));
    }

    #[test]
    fn a_picture_with_too_many_bytes_is_encoded_smaller_and_then_shrunk() {
        let noise = |x: u32, y: u32| {
            let mixed = x.wrapping_mul(0x9e37_79b9) ^ y.wrapping_mul(0x85eb_ca6b);
            let mixed = (mixed ^ (mixed >> 15)).wrapping_mul(0xc2b2_ae35);
            let [a, b, c, _] = (mixed ^ (mixed >> 13))
                .wrapping_mul(0x27d4_eb2f)
                .to_be_bytes();
            [a, b, c]
        };
        let bytes = png(100, 80, noise);
        assert!(encoded_length(bytes.len()) > 30_000, "{}", bytes.len());
        for (encoded, sent) in [(30_000, (100, 80)), (6_000, (75, 60))] {
            let bounds = Bounds { side: 100, encoded };
            let picture = prepare_within(bounds, "a.png", bytes.clone(), format(&bytes));
            let picture = picture.expect("a picture");
            assert_eq!(picture.content.media_type, "image/jpeg");
            assert!(picture.content.data.len() <= encoded);
            assert_eq!(picture.sent, Some(sent));
        }
    }

    #[test]
    fn a_damaged_picture_is_refused_with_its_name() {
        let mut bytes = png(30, 20, |x, y| [x as u8, y as u8, 3]);
        bytes.truncate(bytes.len() / 2);
        let error = prepare("a.png", bytes.clone(), format(&bytes))
            .expect_err("damaged")
            .to_string();
        assert!(
            error.starts_with("a.png looks like image/png but cannot be decoded"),
            "{error}"
        );
    }
}
