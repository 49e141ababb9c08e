//! The fields of a subkey, in an order-preserving encoding: bytes compare as the values do, even where something
//! follows.

use std::fmt;

const SIGN: u64 = 1 << 63;
const ZERO: [u8; 2] = [0, 0xff];
const END: [u8; 2] = [0, 1];

/// Appends `bytes`, which may be any, in a form in which following bytes do not disturb their order.
fn escape(out: &mut Vec<u8>, bytes: &[u8]) {
    for piece in bytes.split_inclusive(|&byte| byte == 0) {
        match piece.split_last() {
            Some((0, rest)) => {
                out.extend_from_slice(rest);
                out.extend_from_slice(&ZERO);
            }
            _ => out.extend_from_slice(piece),
        }
    }
    out.extend_from_slice(&END);
}

/// How many bytes of `bytes` are what [`escape`] has written, its end mark included; `None` if `bytes` does not begin
/// with escaped bytes.
fn escaped_len(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += bytes[at..].iter().position(|&byte| byte == 0)?;
        match *bytes.get(at + 1)? {
            1 => return Some(at + END.len()),
            0xff => at += ZERO.len(),
            _ => return None,
        }
    }
}

/// The original of escaped bytes; `escaped` is as long as [`escaped_len`] says.
fn unescape(escaped: &[u8]) -> Vec<u8> {
    let content = &escaped[..escaped.len() - END.len()];
    let mut bytes = Vec::with_capacity(content.len());
    let mut rest = content.iter();
    while let Some(&byte) = rest.next() {
        bytes.push(byte);
        if byte == 0 {
            // Skip the second byte of a zero.
            rest.next();
        }
    }
    bytes
}

/// A number that has no place in an order: NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnorderedNumber;

impl fmt::Display for UnorderedNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a number")
    }
}

impl std::error::Error for UnorderedNumber {}

/// Appends bytes that are not the last field of a subkey. The last field is appended as it is.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    escape(out, bytes);
}

/// Appends a number: 8 bytes, big-endian.
pub fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_be_bytes());
}

/// Appends a number: 8 bytes, encoded by [`ordered_i64`].
pub fn put_i64(out: &mut Vec<u8>, number: i64) {
    out.extend_from_slice(&ordered_i64(number));
}

/// A number in big-endian order, with its sign bit inverted.
pub fn ordered_i64(number: i64) -> [u8; 8] {
    (number as u64 ^ SIGN).to_be_bytes()
}

/// Appends a number: 8 bytes. -0.0 becomes 0.0.
///
/// # Errors
/// If the number is NaN.
pub fn put_f64(out: &mut Vec<u8>, number: f64) -> Result<(), UnorderedNumber> {
    if number.is_nan() {
        return Err(UnorderedNumber);
    }
    // The addition turns -0.0 into 0.0, and leaves every other number as it is.
    let bits = (number + 0.0).to_bits();
    put_u64(out, if bits & SIGN == 0 { bits ^ SIGN } else { !bits });
    Ok(())
}

/// A score as the value of its member. It is encoded as by [`put_f64`], except that -0.0 has bytes of its own, directly
/// in front of those of 0.0, so that the score is returned as it was given.
///
/// # Errors
/// If the score is NaN.
pub fn score_value(number: f64) -> Result<[u8; 8], UnorderedNumber> {
    if number.is_nan() {
        return Err(UnorderedNumber);
    }
    let bits = number.to_bits();
    Ok((if bits & SIGN == 0 { bits ^ SIGN } else { !bits }).to_be_bytes())
}

/// The score in `value`; `None` if [`score_value`] cannot have written it.
pub fn score_of(value: &[u8]) -> Option<f64> {
    let ordered = u64::from_be_bytes(value.try_into().ok()?);
    let number = f64::from_bits(if ordered & SIGN == 0 { !ordered } else { ordered ^ SIGN });
    (!number.is_nan()).then_some(number)
}

/// Takes escaped bytes from the front of `subkey`; `None` if it does not begin with any.
pub fn take_bytes(subkey: &mut &[u8]) -> Option<Vec<u8>> {
    let (escaped, rest) = subkey.split_at(escaped_len(subkey)?);
    *subkey = rest;
    Some(unescape(escaped))
}

/// Takes a number from the front of `subkey`; `None` if `subkey` is too short.
pub fn take_u64(subkey: &mut &[u8]) -> Option<u64> {
    let (bytes, rest) = subkey.split_first_chunk()?;
    *subkey = rest;
    Some(u64::from_be_bytes(*bytes))
}

/// Takes a number from the front of `subkey`; `None` if `subkey` is too short.
pub fn take_i64(subkey: &mut &[u8]) -> Option<i64> {
    take_u64(subkey).map(|bits| (bits ^ SIGN) as i64)
}

/// Takes a number from the front of `subkey`; `None` if `subkey` is too short, or if [`put_f64`] cannot have written
/// its beginning.
pub fn take_f64(subkey: &mut &[u8]) -> Option<f64> {
    let mut rest = *subkey;
    let ordered = take_u64(&mut rest)?;
    let number = f64::from_bits(if ordered & SIGN == 0 { !ordered } else { ordered ^ SIGN });
    if number.is_nan() || (number == 0.0 && number.is_sign_negative()) {
        return None;
    }
    *subkey = rest;
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::cmp::Ordering;

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        vec(prop_oneof![Just(0), Just(1), Just(0xff), any::<u8>()], 0..5)
    }

    fn number() -> impl Strategy<Value = f64> {
        let special =
            [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE, 5e-324, -5e-324, f64::MAX, f64::MIN];
        prop_oneof![proptest::sample::select(special.to_vec()), any::<f64>().prop_filter("ordered", |n| !n.is_nan())]
    }

    fn encoded<T>(value: T, put: impl Fn(&mut Vec<u8>, T)) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, value);
        out
    }

    fn score(number: f64) -> Vec<u8> {
        encoded(number, |out, number| put_f64(out, number).expect("no NaN"))
    }

    proptest! {
        #[test]
        fn numbers_are_ordered_and_come_back(a: i64, b: i64, c: u64, d: u64, rest in bytes()) {
            prop_assert_eq!(encoded(a, put_i64).cmp(&encoded(b, put_i64)), a.cmp(&b));
            prop_assert_eq!(encoded(c, put_u64).cmp(&encoded(d, put_u64)), c.cmp(&d));
            let subkey = [encoded(a, put_i64), encoded(c, put_u64), rest.clone()].concat();
            let mut left = &subkey[..];
            prop_assert_eq!((take_i64(&mut left), take_u64(&mut left), left), (Some(a), Some(c), &rest[..]));
        }

        #[test]
        fn floating_numbers_are_ordered_and_come_back(a in number(), b in number()) {
            prop_assert_eq!(Some(score(a).cmp(&score(b))), a.partial_cmp(&b));
            let encoded = score(a);
            let mut left = &encoded[..];
            let back = take_f64(&mut left).expect("own bytes decode");
            prop_assert_eq!((back, back.is_sign_negative(), left.len()), (a, a < 0.0, 0));
        }

        #[test]
        fn scores_are_told_as_they_were_given(a in number(), b in number()) {
            let (left, right) = (score_value(a).expect("no NaN"), score_value(b).expect("no NaN"));
            prop_assert_eq!(left.cmp(&right), a.total_cmp(&b));
            prop_assert_eq!(score_of(&left).map(f64::to_bits), Some(a.to_bits()));
        }

        #[test]
        fn any_bytes_are_a_number_that_encodes_to_them_or_none(bytes: [u8; 8]) {
            if let Some(number) = take_f64(&mut &bytes[..]) {
                prop_assert_eq!(score(number), bytes);
            }
        }

        #[test]
        fn pairs_are_ordered_and_come_back(a in (bytes(), bytes()), b in (bytes(), bytes())) {
            let pair = |(first, second): &(Vec<u8>, Vec<u8>)| [encoded(&first[..], put_bytes), second.clone()].concat();
            prop_assert_eq!(pair(&a).cmp(&pair(&b)), a.cmp(&b));
            let subkey = pair(&a);
            let mut left = &subkey[..];
            prop_assert_eq!((take_bytes(&mut left), left), (Some(a.0), &a.1[..]));
        }

        #[test]
        fn any_bytes_begin_with_bytes_that_encode_to_them_or_with_none(bytes in bytes()) {
            let mut left = &bytes[..];
            match take_bytes(&mut left) {
                Some(taken) => prop_assert_eq!([&encoded(&taken[..], put_bytes), left].concat(), bytes),
                None => prop_assert_eq!(left, &bytes[..]),
            }
        }
    }

    #[test]
    fn what_has_no_order_is_refused() {
        assert_eq!(put_f64(&mut Vec::new(), f64::NAN), Err(UnorderedNumber));
        assert_eq!(score(-0.0).cmp(&score(0.0)), Ordering::Equal);
        assert_eq!([take_u64(&mut &[0; 7][..]), take_u64(&mut &[][..])], [None, None]);
        assert_eq!(take_f64(&mut &[0; 7][..]), None);
        assert_eq!(score_value(f64::NAN), Err(UnorderedNumber));
        assert_eq!([score_of(&[0; 7]), score_of(&[0; 8]), score_of(&[0xff; 8])], [None; 3]);
    }
}
