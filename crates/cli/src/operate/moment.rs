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
