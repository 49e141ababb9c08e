//! Numbers with a fraction as Redis reads and writes them: C's `double`.

use crate::number::push_i64;

/// Longest text that is read as a number.
const TEXT_BYTES_MAX: usize = 5 * 1024 - 1;

/// How many digits are written: any number can be read back from this many.
const DIGITS: i32 = 17;

/// The smallest exponent of ten with which a number is written without an exponent.
const PLAIN_EXPONENT_MIN: i32 = -4;

/// A number, or an infinity in words; `None` for anything else, and for numbers so large or so small that they would be
/// read as an infinity or as zero.
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    let number = read(text)?;
    let is_lost = match number {
        0.0 => !is_zero(text),
        number => number.is_infinite() && text.iter().any(u8::is_ascii_digit),
    };
    (!is_lost).then_some(number)
}

/// An end of a range, read as C's `strtod` reads it: leading spaces are skipped, an empty text is 0, and a number that
/// is too large is infinite.
pub fn parse_end(text: &[u8]) -> Option<f64> {
    // A NUL ends a text in C.
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Some(0.0);
    }
    let is_space = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    read(&text[text.iter().position(|byte| !is_space(byte))?..])
}

fn read(text: &[u8]) -> Option<f64> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (!number.is_nan()).then_some(number)
}

/// Whether a text that was read as a number has no digits but zeros in front of its exponent.
fn is_zero(text: &[u8]) -> bool {
    let mantissa = text.split(|byte| matches!(byte, b'e' | b'E')).next().unwrap_or_default();
    !mantissa.iter().any(|byte| matches!(byte, b'1'..=b'9'))
}

/// Whether `number` has no fraction and is written as a whole number: many scores are whole, and finding the digits of
/// the others takes long.
pub fn is_whole(number: f64) -> bool {
    const WHOLE_MAX: f64 = 1e17;
    let is_negative_zero = number == 0.0 && number.is_sign_negative();
    number.abs() < WHOLE_MAX && number.fract() == 0.0 && !is_negative_zero
}

/// Appends `number` as C's `%.17g`: 17 digits, without zeros at the end.
pub fn push_f64(out: &mut Vec<u8>, number: f64) {
    if is_whole(number) {
        return push_i64(out, number as i64);
    }
    push_general(out, number, DIGITS);
}

/// Appends `number` as C's `%g` with up to `digits_max` digits, at least one, without zeros at the end.
pub fn push_general(out: &mut Vec<u8>, number: f64, digits_max: i32) {
    if number.is_nan() {
        return out.extend_from_slice(b"nan");
    }
    if !number.is_finite() {
        return out.extend_from_slice(if number > 0.0 { b"inf" } else { b"-inf" });
    }
    let text = format!("{number:.*e}", digits_max.max(1) as usize - 1);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if mantissa.starts_with('-') {
        out.push(b'-');
    }
    let digits: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).collect();
    let kept = digits.iter().rposition(|&digit| digit != b'0').map_or(1, |last| last + 1);
    let digits = &digits[..kept];
    if !(PLAIN_EXPONENT_MIN..digits_max).contains(&exponent) {
        push_point(out, digits, 1);
        let sign = if exponent < 0 { '-' } else { '+' };
        return out.extend_from_slice(format!("e{sign}{:02}", exponent.abs()).as_bytes());
    }
    match usize::try_from(exponent) {
        Ok(exponent) => push_point(out, digits, exponent + 1),
        Err(_) => {
            out.extend_from_slice(b"0.");
            out.extend(std::iter::repeat_n(b'0', exponent.unsigned_abs() as usize - 1));
            out.extend_from_slice(digits);
        }
    }
}

/// Appends `digits` with a point behind the first `whole` of them, and zeros where there are fewer digits.
fn push_point(out: &mut Vec<u8>, digits: &[u8], whole: usize) {
    let (front, rest) = digits.split_at(whole.min(digits.len()));
    out.extend_from_slice(front);
    out.extend(std::iter::repeat_n(b'0', whole - front.len()));
    if !rest.is_empty() {
        out.push(b'.');
        out.extend_from_slice(rest);
    }
}

/// Appends `number` as Redis keeps the scores of a small sorted set: a whole number with all its digits.
pub fn push_kept(out: &mut Vec<u8>, number: f64) {
    const WHOLE_MAX: f64 = (i64::MAX / 2) as f64;
    let is_negative_zero = number == 0.0 && number.is_sign_negative();
    if number.abs() <= WHOLE_MAX && number.fract() == 0.0 && !is_negative_zero {
        return push_i64(out, number as i64);
    }
    push_f64(out, number);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(number: f64, push: impl Fn(&mut Vec<u8>, f64)) -> String {
        let mut out = Vec::new();
        push(&mut out, number);
        String::from_utf8(out).expect("digits")
    }

    #[test]
    fn numbers_are_written_as_c_does() {
        for (number, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (3.0, "3"),
            (0.1, "0.10000000000000001"),
            (-2.5, "-2.5"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1e-4, "0.0001"),
            (1e-5, "1.0000000000000001e-05"),
            (1e-7, "9.9999999999999995e-08"),
            (5e-324, "4.9406564584124654e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(text(number, push_f64), expected);
        }
        for (number, expected) in [(1e17, "100000000000000000"), (-0.0, "-0"), (0.5, "0.5"), (1e19, "1e+19")] {
            assert_eq!(text(number, push_kept), expected);
        }
    }

    #[test]
    fn numbers_are_read_as_c_does() {
        for (text, expected) in [("1", 1.0), ("-.5", -0.5), ("+1e2", 100.0), ("inf", f64::INFINITY), ("0e9999", 0.0)] {
            assert_eq!(parse_f64(text.as_bytes()), Some(expected), "{text}");
        }
        for text in ["", " 1", "1 ", "nan", "1e400", "-1e400", "1e-400", "x", ".", "1e"] {
            assert_eq!(parse_f64(text.as_bytes()), None, "{text}");
        }
        for (text, expected) in [("", 0.0), (" \t1", 1.0), ("1e400", f64::INFINITY), ("1e-400", 0.0), ("2\0x", 2.0)] {
            assert_eq!(parse_end(text.as_bytes()), Some(expected), "{text}");
        }
        for text in [" ", "1 ", "nan", "x"] {
            assert_eq!(parse_end(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn whole_numbers_are_written_the_long_way_and_the_short_way_alike(
            number in prop_oneof![-1000_i64..1000, -100_000_000_000_000_000_i64..100_000_000_000_000_000],
        ) {
            let number = number as f64;
            prop_assert_eq!(text(number, push_f64), text(number, |out, number| push_general(out, number, DIGITS)));
        }

        #[test]
        fn what_is_written_is_read_back(number: f64) {
            prop_assume!(!number.is_nan());
            for push in [push_f64, push_kept] {
                let text = text(number, push);
                prop_assert_eq!(parse_f64(text.as_bytes()).map(f64::to_bits), Some(number.to_bits()));
            }
        }
    }
}
