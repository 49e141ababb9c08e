//! Moments on a command line.

use jiff::Timestamp;

/// Seconds since 1970 of `text`: such a number, or RFC 3339 (`2026-11-21T14:03:00Z`, `2026-11-21T15:03:00+01:00`).
///
/// # Errors
/// `text` is neither, or before 1970; the error says so in words.
pub fn unix_seconds(text: &str) -> Result<u64, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(seconds);
    }
    let moment = text.parse::<Timestamp>().ok();
    let seconds = moment.and_then(|moment| u64::try_from(moment.as_second()).ok());
    seconds.ok_or_else(|| "a time is wanted, as 2026-11-21T14:03:00Z or in seconds since 1970".to_owned())
}

/// The other direction: `unix_ms` milliseconds since 1970 in the form `2026-11-21T14:03:00.250Z`. A moment after the
/// year 9999 stays a number.
pub fn utc(unix_ms: u64) -> String {
    let moment = i64::try_from(unix_ms).ok().and_then(|unix_ms| Timestamp::from_millisecond(unix_ms).ok());
    moment.map_or_else(|| format!("{unix_ms} ms"), |moment| format!("{moment:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_read_as_the_same_moment() {
        let year = 31_556_952_000;
        for unix_ms in [0, 951_782_399_999, 951_782_400_000, 1_709_164_800_001, 4_107_542_400_000, 7_000 * year] {
            assert_eq!(unix_seconds(&utc(unix_ms)), Ok(unix_ms / 1000), "{}", utc(unix_ms));
        }
        assert_eq!(utc(1_700_000_000_250), "2023-11-14T22:13:20.250Z");
        assert_eq!(utc(u64::MAX), format!("{} ms", u64::MAX));
    }

    #[test]
    fn moments_are_read() {
        for (text, seconds) in [
            ("0", 0),
            ("1700000000", 1_700_000_000),
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:00:00Z", 951_825_600),
            ("2023-11-14T22:13:20Z", 1_700_000_000),
            ("2023-11-14 23:13:20.999+01:00", 1_700_000_000),
            ("2023-11-14t21:43:20-00:30", 1_700_000_000),
            ("2100-03-01T00:00:00z", 4_107_542_400),
        ] {
            assert_eq!(unix_seconds(text), Ok(seconds), "{text}");
        }
        for text in [
            "",
            "-5",
            "now",
            "2023-11-14",
            "2023-02-29T00:00:00Z",
            "2023-13-01T00:00:00Z",
            "2023-00-01T00:00:00Z",
            "2023-11-14T24:00:00Z",
            "2023-11-14T22:13:20",
            "2023-11-14T22:13:20.Z",
            "2023-11-14T22:13:2éZ",
            "1969-12-31T23:59:59Z",
        ] {
            assert!(unix_seconds(text).is_err(), "{text}");
        }
    }
}
