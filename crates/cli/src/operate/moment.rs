//! Moments on a command line.

/// Seconds since 1970 of `text`: a number of them, or RFC 3339 (`2026-11-21T14:03:00Z`, `2026-11-21T15:03:00+01:00`).
///
/// # Errors
/// It is neither, or before 1970; in words.
pub fn unix_seconds(text: &str) -> Result<u64, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(seconds);
    }
    rfc_3339(text).ok_or_else(|| "a time is wanted, as 2026-11-21T14:03:00Z or in seconds since 1970".to_owned())
}

/// The same moments the other way: so many milliseconds since 1970 as `2026-11-21T14:03:00.250Z`.
pub fn utc(unix_ms: u64) -> String {
    let (days, second) = (unix_ms / 86_400_000, unix_ms / 1000 % 86_400);
    // Years begin in March here, so that the leap day is the last (H. Hinnant, "chrono-Compatible Low-Level Date Algorithms").
    let since_era = days + 719_468;
    let (era, day_of_era) = (since_era / 146_097, since_era % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}.{:03}Z", second % 60, unix_ms % 1000)
}

fn rfc_3339(text: &str) -> Option<u64> {
    let (date, rest) = text.split_once(['T', 't', ' '])?;
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let (clock, zone) = rest.split_at_checked(8)?;
    let [hour, minute, second] = numbers(clock, ':', [2, 2, 2])?;
    let zone = match zone.strip_prefix('.') {
        Some(fraction) => {
            let zone = fraction.trim_start_matches(|digit: char| digit.is_ascii_digit());
            (zone.len() < fraction.len()).then_some(zone)?
        }
        None => zone,
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_of = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let longest = *days_of.get(usize::try_from(month).ok()?.checked_sub(1)?)?;
    // A leap second is the first of the next minute.
    if !(1..=longest).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let before: i64 = days_of[..month as usize - 1].iter().sum();
    let leaps = |year: i64| year / 4 - year / 100 + year / 400;
    let days = (year - 1970) * 365 + leaps(year - 1) - leaps(1969) + before + day - 1;
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
    u64::try_from(seconds - offset(zone)?).ok()
}

/// Seconds that a zone is ahead.
fn offset(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let (sign, ahead) = match zone.split_at_checked(1)? {
        ("+", ahead) => (1, ahead),
        ("-", behind) => (-1, behind),
        _ => return None,
    };
    let [hours, minutes] = numbers(ahead, ':', [2, 2])?;
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60)
}

/// Numbers of so many digits each, with `between` between them.
fn numbers<const N: usize>(text: &str, between: char, digits: [usize; N]) -> Option<[i64; N]> {
    let mut numbers = [0; N];
    let mut parts = text.split(between);
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let part = parts.next()?;
        let plain = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
        *number = plain.then(|| part.parse().ok()).flatten()?;
    }
    parts.next().is_none().then_some(numbers)
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
