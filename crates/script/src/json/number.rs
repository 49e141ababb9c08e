//! Numbers as C's `strtod` reads them.

/// Whether `text` begins with a number that JSON does not have.
pub(super) fn is_invalid(text: &[u8]) -> bool {
    match text.strip_prefix(b"-").unwrap_or(text) {
        [b'+', ..] => !text.starts_with(b"-"),
        [b'0', second, ..] => matches!(second, b'x' | b'X' | b'0'..=b'9'),
        unsigned => starts(unsigned, b"inf") || starts(unsigned, b"nan"),
    }
}

/// The number at the front of `text`, and how many bytes it takes; `None` if there is none.
pub(super) fn parse(text: &[u8]) -> Option<(f64, usize)> {
    let (sign, signs) = match text {
        [b'-', ..] => (-1.0, 1),
        [b'+', ..] => (1.0, 1),
        _ => (1.0, 0),
    };
    let rest = &text[signs..];
    let named = [(&b"infinity"[..], f64::INFINITY), (b"inf", f64::INFINITY), (b"nan", f64::NAN)];
    let named = named.into_iter().find(|(name, _)| starts(rest, name)).map(|(name, number)| (number, name.len()));
    let (number, len) = named.or_else(|| hexadecimal(rest)).or_else(|| decimal(rest))?;
    Some((number.copysign(sign), signs + len))
}

fn starts(text: &[u8], name: &[u8]) -> bool {
    text.get(..name.len()).is_some_and(|front| front.eq_ignore_ascii_case(name))
}

fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// How many bytes the power behind `letter` takes; 0 if it has no digits.
fn power(text: &[u8], letter: u8) -> usize {
    let [first, rest @ ..] = text else { return 0 };
    let signs = usize::from(matches!(rest.first(), Some(b'+' | b'-')));
    match digits(&rest[signs..]) {
        len if len > 0 && first.eq_ignore_ascii_case(&letter) => 1 + signs + len,
        _ => 0,
    }
}

fn decimal(text: &[u8]) -> Option<(f64, usize)> {
    let mut len = digits(text);
    let mut count = len;
    if text.get(len) == Some(&b'.') {
        let behind = digits(&text[len + 1..]);
        count += behind;
        len += 1 + behind;
    }
    if count == 0 {
        return None;
    }
    len += power(&text[len..], b'e');
    Some((std::str::from_utf8(&text[..len]).ok()?.parse().ok()?, len))
}

fn hexadecimal(text: &[u8]) -> Option<(f64, usize)> {
    let digit = |at: usize| text.get(at).and_then(|&byte| char::from(byte).to_digit(16));
    if !starts(text, b"0x") {
        return None;
    }
    let (mut number, mut count, mut at, mut scale) = (0.0, 0, 2, 1.0);
    while let Some(value) = digit(at) {
        number = number * 16.0 + f64::from(value);
        (count, at) = (count + 1, at + 1);
    }
    let end = at;
    if text.get(at) == Some(&b'.') {
        at += 1;
        while let Some(value) = digit(at) {
            scale /= 16.0;
            number += f64::from(value) * scale;
            (count, at) = (count + 1, at + 1);
        }
    }
    if count == 0 {
        return None;
    }
    // A point without digits behind it belongs to the number only if there are digits in front of it.
    let mut len = if at == end + 1 && end == 2 { end } else { at };
    let power_len = power(&text[len..], b'p');
    if power_len > 0 {
        let power: f64 = std::str::from_utf8(&text[len + 1..len + power_len]).ok()?.parse().ok()?;
        // Clamping does not change the result: the number overflows or vanishes either way.
        number *= 2f64.powi(power.clamp(-3000.0, 3000.0) as i32);
        len += power_len;
    }
    Some((number, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_by_strtod() {
        for (text, number, len) in [
            ("1.5abc", 1.5, 3),
            ("-007,", -7.0, 4),
            ("+5", 5.0, 2),
            ("1e", 1.0, 1),
            ("1e+", 1.0, 1),
            ("1E-2]", 0.01, 4),
            ("5.", 5.0, 2),
            ("-.5", -0.5, 3),
            ("0x10", 16.0, 4),
            ("0x1.8p1", 3.0, 7),
            ("0x", 0.0, 1),
            ("0xg", 0.0, 1),
            ("InfinityX", f64::INFINITY, 8),
            ("-inf", f64::NEG_INFINITY, 4),
            ("1e999", f64::INFINITY, 5),
        ] {
            assert_eq!(parse(text.as_bytes()), Some((number, len)), "{text}");
        }
        assert!(parse(b"-NaN").is_some_and(|(number, len)| number.is_nan() && len == 4));
        for none in ["", "-", ".", "e5", "-x", "+-1"] {
            assert_eq!(parse(none.as_bytes()), None, "{none}");
        }
    }

    #[test]
    fn what_json_does_not_have_is_known() {
        for text in ["+1", "0x1", "-0X1", "01", "-00", "inf", "-Infinity", "NaN"] {
            assert!(is_invalid(text.as_bytes()), "{text}");
        }
        for text in ["0", "-0.5", "1", "x", "-", "", "nul"] {
            assert!(!is_invalid(text.as_bytes()), "{text}");
        }
    }
}
