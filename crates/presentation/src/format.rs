//! Numbers as people read them.

use std::time::Duration;

/// A duration: `0.4s`, `12s`, `3m 05s`, `2h 10m`, `4d 6h`.
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => {
            let tenths = duration.as_millis() / 100;
            format!("{}.{}s", tenths / 10, tenths % 10)
        }
        10..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h {:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// How long ago something was, in one unit: `now`, `5m`, `3h`, `2d`, `6w`.
pub fn ago(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    match seconds {
        0..60 => "now".into(),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        86_400..1_209_600 => format!("{}d", seconds / 86_400),
        _ => format!("{}w", seconds / 604_800),
    }
}

/// A size in binary units: `512 B`, `1.4 KiB`, `20 MiB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut tenths = u128::from(bytes) * 10;
    let mut unit = 0;
    tenths /= 1024;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    if tenths < 100 {
        format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
    } else {
        format!("{} {}", tenths / 10, UNITS[unit])
    }
}

/// A count of tokens: `950`, `1.2k`, `45k`, `1.5M`.
pub fn tokens(tokens: u64) -> String {
    let scaled = |unit: u64, suffix: &str| {
        let tenths = tokens / (unit / 10);
        if tenths < 100 {
            format!("{}.{}{suffix}", tenths / 10, tenths % 10)
        } else {
            format!("{}{suffix}", tenths / 10)
        }
    };
    match tokens {
        0..1000 => tokens.to_string(),
        1000..1_000_000 => scaled(1000, "k"),
        _ => scaled(1_000_000, "M"),
    }
}

/// An amount of US dollars: `$0.0042` where cents would say nothing, `$0.42`, `$12.30`.
pub fn dollars(amount: f64) -> String {
    if amount > 0.0 && amount < 0.01 {
        format!("${amount:.4}")
    } else {
        format!("${amount:.2}")
    }
}

/// A share of a whole in percent, rounded; 100 only when it is all of it, 0 only when it is nothing.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 || part == 0 {
        return "0%".into();
    }
    let exact = u128::from(part) * 100;
    let rounded = (exact + u128::from(whole) / 2) / u128::from(whole);
    if part < whole {
        format!("{}%", rounded.clamp(1, 99))
    } else {
        format!("{rounded}%")
    }
}

/// A count with its noun: `1 file`, `3 files`.
pub fn count(count: usize, singular: &str, plural: &str) -> String {
    format!("{count} {}", if count == 1 { singular } else { plural })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        let spans = [
            (0, "0.0s"),
            (449, "0.4s"),
            (9_999, "9.9s"),
            (12_000, "12s"),
            (185_000, "3m 05s"),
            (7_800_000, "2h 10m"),
            (367_200_000, "4d 6h"),
        ];
        for (millis, text) in spans {
            assert_eq!(duration(Duration::from_millis(millis)), text);
        }
        let sizes = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1434, "1.4 KiB"),
            (51_200, "50 KiB"),
            (1_048_576, "1.0 MiB"),
            (1_048_575, "1023 KiB"),
            (u64::MAX, "15 EiB"),
        ];
        for (size, text) in sizes {
            assert_eq!(bytes(size), text);
        }
        for (count, text) in [
            (0, "0"),
            (999, "999"),
            (1234, "1.2k"),
            (45_678, "45k"),
            (999_999, "999k"),
            (1_500_000, "1.5M"),
        ] {
            assert_eq!(tokens(count), text);
        }
        for (seconds, text) in [
            (5, "now"),
            (300, "5m"),
            (7300, "2h"),
            (200_000, "2d"),
            (4_000_000, "6w"),
        ] {
            assert_eq!(ago(Duration::from_secs(seconds)), text);
        }
        assert_eq!(
            (dollars(0.0), dollars(0.0042), dollars(12.3)),
            ("$0.00".into(), "$0.0042".into(), "$12.30".into())
        );
        assert_eq!(
            (
                percent(1, 1000),
                percent(999, 1000),
                percent(1, 1),
                percent(3, 2)
            ),
            ("1%".into(), "99%".into(), "100%".into(), "150%".into())
        );
        assert_eq!(
            (count(1, "file", "files"), count(0, "file", "files")),
            ("1 file".into(), "0 files".into())
        );
    }
}
