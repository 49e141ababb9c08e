//! Numbers as Redis reads and writes them.

/// A whole number, written the one way Redis accepts: no sign `+`, no spaces, no leading zeros, no `-0`.
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut magnitude = 0_u64;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        // 19 digits are below 10^19 < 2^64: no overflow.
        magnitude = magnitude * 10 + u64::from(digit - b'0');
    }
    if negative { 0_i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// A whole number without a sign, such as a scan's cursor.
pub fn parse_u64(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 20 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    text.iter().try_fold(0_u64, |value, digit| value.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
}

/// Appends `value` in decimal.
#[inline]
pub fn push_u64(out: &mut Vec<u8>, mut value: u64) {
    if value < 10 {
        out.push(b'0' + value as u8);
        return;
    }
    let mut digits = [0_u8; 20];
    let mut first = digits.len();
    while value > 0 {
        first -= 1;
        digits[first] = b'0' + (value % 10) as u8;
        value /= 10;
    }
    out.extend_from_slice(&digits[first..]);
}

/// Appends `value` in decimal, with `-` where it is negative.
pub fn push_i64(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    push_u64(out, value.unsigned_abs());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_the_canonical_spelling_is_a_number() {
        for text in ["", "-", "+1", " 1", "1 ", "01", "-0", "-01", "1.0", "0x1", "9223372036854775808", "1e3"] {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(parse_i64(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(parse_i64(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(parse_i64(b"-9223372036854775809"), None);
        assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_u64(b"18446744073709551616"), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(value: i64, unsigned: u64) {
            let mut out = Vec::new();
            push_i64(&mut out, value);
            prop_assert_eq!(&out, &value.to_string().into_bytes());
            prop_assert_eq!(parse_i64(&out), Some(value));
            out.clear();
            push_u64(&mut out, unsigned);
            prop_assert_eq!(parse_u64(&out), Some(unsigned));
        }

        #[test]
        fn a_number_that_is_read_is_spelled_the_same_when_written(text in "-?[0-9]{1,20}") {
            if let Some(value) = parse_i64(text.as_bytes()) {
                prop_assert_eq!(value.to_string(), text);
            }
        }
    }
}
