//! The 80-bit numbers of `INCRBYFLOAT`.
//!
//! Redis adds in C's `long double`, with 64 bits of mantissa, and replies with 17 decimals. An `f64` would answer
//! 10.59999999999999964 where Redis answers 10.6. So this module has the little of that arithmetic that is needed:
//! reading, one addition and writing, each rounded to nearest-even as the processor does.

use std::cmp::Ordering;

/// Longest text that is read as a number; Redis' own limit.
const TEXT_BYTES_MAX: usize = 5 * 1024 - 1;
/// If the logarithm of a number to base ten, cut to a whole number, is outside this range, the number overflows or
/// vanishes, and need not be computed.
const DECIMAL_EXPONENTS: std::ops::RangeInclusive<i64> = -4952..=4933;
/// A number of at least 2 to this power overflows.
const BINARY_EXPONENT_MAX: i64 = 16_384;
/// A number below 2 to this power vanishes.
const BINARY_EXPONENT_MIN: i64 = -16_445;
const DECIMALS: usize = 17;

/// A finite number or an infinity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extended {
    negative: bool,
    magnitude: Magnitude,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Magnitude {
    Zero,
    /// `mantissa * 2^exponent`; the mantissa's highest bit is set.
    Finite {
        mantissa: u64,
        exponent: i64,
    },
    Infinite,
}

impl Extended {
    pub const ZERO: Self = Self { negative: false, magnitude: Magnitude::Zero };

    /// Reads a decimal number, or an infinity in words; `None` for anything else and for a number that is out of range.
    pub fn parse(text: &[u8]) -> Option<Self> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let (negative, rest) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        if rest.eq_ignore_ascii_case(b"inf") || rest.eq_ignore_ascii_case(b"infinity") {
            return Some(Self { negative, magnitude: Magnitude::Infinite });
        }
        let (digits, power) = decimal(rest)?;
        let magnitude = if digits.is_zero() {
            Magnitude::Zero
        } else if !DECIMAL_EXPONENTS.contains(&(digits.bits() as i64 * 30_103 / 100_000 + power)) {
            return None;
        } else {
            nearest(digits, power)?
        };
        Some(Self { negative, magnitude })
    }

    /// The sum; `None` if it is infinite or not a number.
    pub fn plus(self, other: Self) -> Option<Self> {
        use Magnitude::{Finite, Infinite, Zero};
        let (large, small) = match (self.magnitude, other.magnitude) {
            (Infinite, _) | (_, Infinite) => return None,
            (Zero, Zero) => return Some(Self { negative: self.negative && other.negative, magnitude: Zero }),
            (_, Zero) => return Some(self),
            (Zero, _) => return Some(other),
            (Finite { exponent: a, mantissa: m }, Finite { exponent: b, mantissa: n }) => {
                if (a, m) >= (b, n) {
                    (self, other)
                } else {
                    (other, self)
                }
            }
        };
        let (Finite { mantissa: m, exponent: e }, Finite { mantissa: n, exponent: f }) =
            (large.magnitude, small.magnitude)
        else {
            return None;
        };
        // 62 bits behind the mantissa. The bits that fall out below them can only decide a tie, so one bit stands for
        // all of them.
        const GUARD: u32 = 62;
        let (m, n) = (u128::from(m) << GUARD, u128::from(n) << GUARD);
        let distance = (e - f).min(127) as u32;
        let n = (n >> distance) | u128::from(n & ((1 << distance) - 1) != 0);
        let sum = if large.negative == small.negative { m + n } else { m - n };
        if sum == 0 {
            return Some(Self::ZERO);
        }
        let magnitude = round(sum, e - i64::from(GUARD), false)?;
        Some(Self { negative: large.negative, magnitude })
    }

    /// As text with up to 17 decimals, without zeros at the end.
    pub fn to_text(self) -> Vec<u8> {
        let mut digits = match self.magnitude {
            // An infinity is never a sum, and only sums are written.
            Magnitude::Zero | Magnitude::Infinite => b"0".to_vec(),
            Magnitude::Finite { mantissa, exponent } if exponent >= 0 => {
                let mut digits = Natural::from(u128::from(mantissa)).shifted(exponent as usize).to_decimal();
                digits.extend_from_slice(&[b'0'; DECIMALS]);
                digits
            }
            Magnitude::Finite { mantissa, exponent } => {
                // Below 2^64 * 10^17 < 2^121.
                let scaled = u128::from(mantissa) * 10_u128.pow(DECIMALS as u32);
                let shift = exponent.unsigned_abs().min(127) as u32;
                let (whole, rest) = (scaled >> shift, scaled & ((1 << shift) - 1));
                let up = match rest.cmp(&(1 << (shift - 1))) {
                    Ordering::Less => 0,
                    Ordering::Equal => whole & 1,
                    Ordering::Greater => 1,
                };
                (whole + up).to_string().into_bytes()
            }
        };
        while digits.len() <= DECIMALS {
            digits.insert(0, b'0');
        }
        digits.insert(digits.len() - DECIMALS, b'.');
        let kept = digits.iter().rposition(|&digit| digit != b'0').map_or(0, |last| last + 1);
        digits.truncate(kept);
        if digits.last() == Some(&b'.') {
            digits.pop();
        }
        if self.negative && digits != b"0" {
            digits.insert(0, b'-');
        }
        digits
    }
}

/// The digits of a decimal number as a whole number, and the power of ten that it has to be multiplied with.
fn decimal(text: &[u8]) -> Option<(Natural, i64)> {
    let (number, power) = match text.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(at) => (&text[..at], parse_power(&text[at + 1..])?),
        None => (text, 0),
    };
    let (whole, fraction) = match number.iter().position(|&byte| byte == b'.') {
        Some(at) => (&number[..at], &number[at + 1..]),
        None => (number, &[][..]),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut digits = Natural::default();
    // Nine digits at a time fit a limb. Going through all limbs for each single digit would be nine times the work.
    let (mut group, mut scale) = (0, 1);
    for &digit in whole.iter().chain(fraction) {
        if !digit.is_ascii_digit() {
            return None;
        }
        (group, scale) = (group * 10 + u32::from(digit - b'0'), scale * 10);
        if scale == 1_000_000_000 {
            digits.multiply_add(scale, group);
            (group, scale) = (0, 1);
        }
    }
    digits.multiply_add(scale, group);
    Some((digits, power - fraction.len() as i64))
}

fn parse_power(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let power = digits.iter().fold(0_i64, |power, digit| (power * 10 + i64::from(digit - b'0')).min(1 << 40));
    Some(if negative { -power } else { power })
}

/// The number nearest to `digits * 10^power`; `None` if it overflows or vanishes.
fn nearest(digits: Natural, power: i64) -> Option<Magnitude> {
    let ten_to_the = |power: u64| {
        let mut product = Natural::from(1);
        (0..power / 9).for_each(|_| product.multiply_add(1_000_000_000, 0));
        (0..power % 9).for_each(|_| product.multiply_add(10, 0));
        product
    };
    let (mut numerator, mut denominator) = (digits, Natural::from(1));
    if power >= 0 {
        numerator = numerator.times(&ten_to_the(power.unsigned_abs()));
    } else {
        denominator = ten_to_the(power.unsigned_abs());
    }
    // Shifted so that the quotient has 66 or 67 bits: 64 of mantissa and at least 2 to round by.
    let shift = 66 - (numerator.bits() as i64 - denominator.bits() as i64);
    if shift >= 0 {
        numerator = numerator.shifted(shift as usize);
    } else {
        denominator = denominator.shifted(shift.unsigned_abs() as usize);
    }
    let mut quotient = 0_u128;
    for bit in (0..=67).rev() {
        let part = denominator.shifted(bit);
        if numerator.compare(&part) != Ordering::Less {
            numerator.subtract(&part);
            quotient |= 1 << bit;
        }
    }
    round(quotient, -shift, !numerator.is_zero())
}

/// `value * 2^exponent`, rounded to 64 bits; `more` says that the true value is a little above.
fn round(value: u128, exponent: i64, more: bool) -> Option<Magnitude> {
    let bits = 128 - value.leading_zeros();
    if bits <= 64 {
        let shift = 64 - bits;
        return finite((value << shift) as u64, exponent - i64::from(shift));
    }
    let shift = bits - 64;
    let (kept, rest) = (value >> shift, value & ((1 << shift) - 1));
    let up = match rest.cmp(&(1 << (shift - 1))) {
        Ordering::Less => false,
        Ordering::Equal => more || kept & 1 == 1,
        Ordering::Greater => true,
    };
    let exponent = exponent + i64::from(shift);
    match (kept as u64).checked_add(u64::from(up)) {
        Some(mantissa) => finite(mantissa, exponent),
        None => finite(1 << 63, exponent + 1),
    }
}

fn finite(mantissa: u64, exponent: i64) -> Option<Magnitude> {
    let in_range = exponent + 64 <= BINARY_EXPONENT_MAX && exponent + 63 >= BINARY_EXPONENT_MIN;
    in_range.then_some(Magnitude::Finite { mantissa, exponent })
}

/// A natural number of any size: 32 bits a limb, the least significant limb first, no zero limbs at the end.
#[derive(Clone, Default)]
struct Natural(Vec<u32>);

impl Natural {
    fn from(mut value: u128) -> Self {
        let mut limbs = Vec::new();
        while value > 0 {
            limbs.push(value as u32);
            value >>= 32;
        }
        Self(limbs)
    }

    fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    fn bits(&self) -> usize {
        self.0.last().map_or(0, |last| self.0.len() * 32 - last.leading_zeros() as usize)
    }

    fn multiply_add(&mut self, factor: u32, summand: u32) {
        let mut carry = u64::from(summand);
        for limb in &mut self.0 {
            carry += u64::from(*limb) * u64::from(factor);
            *limb = carry as u32;
            carry >>= 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    fn times(&self, other: &Self) -> Self {
        let mut product = vec![0_u32; self.0.len() + other.0.len()];
        for (i, &a) in self.0.iter().enumerate() {
            let mut carry = 0_u64;
            for (j, &b) in other.0.iter().enumerate() {
                carry += u64::from(product[i + j]) + u64::from(a) * u64::from(b);
                product[i + j] = carry as u32;
                carry >>= 32;
            }
            product[i + other.0.len()] = carry as u32;
        }
        Self(product).trimmed()
    }

    fn shifted(&self, bits: usize) -> Self {
        let mut limbs = vec![0; bits / 32];
        let mut carry = 0_u64;
        for &limb in &self.0 {
            carry |= u64::from(limb) << (bits % 32);
            limbs.push(carry as u32);
            carry >>= 32;
        }
        limbs.push(carry as u32);
        Self(limbs).trimmed()
    }

    fn compare(&self, other: &Self) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    /// Subtracts `other`, which is at most `self`.
    fn subtract(&mut self, other: &Self) {
        let mut borrow = 0_i64;
        for (index, limb) in self.0.iter_mut().enumerate() {
            borrow += i64::from(*limb) - i64::from(other.0.get(index).copied().unwrap_or(0));
            *limb = borrow as u32;
            borrow >>= 32;
        }
        *self = std::mem::take(self).trimmed();
    }

    fn trimmed(mut self) -> Self {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        self
    }

    fn to_decimal(&self) -> Vec<u8> {
        let mut limbs = self.clone();
        let mut groups = Vec::new();
        while !limbs.is_zero() {
            let mut rest = 0_u64;
            for limb in limbs.0.iter_mut().rev() {
                rest = rest << 32 | u64::from(*limb);
                *limb = (rest / 1_000_000_000) as u32;
                rest %= 1_000_000_000;
            }
            groups.push(rest);
            limbs = limbs.trimmed();
        }
        let mut text = groups.pop().unwrap_or(0).to_string();
        groups.iter().rev().for_each(|group| text.push_str(&format!("{group:09}")));
        text.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sum(a: &str, b: &str) -> Option<String> {
        let sum = Extended::parse(a.as_bytes())?.plus(Extended::parse(b.as_bytes())?)?;
        Some(String::from_utf8(sum.to_text()).expect("digits"))
    }

    /// What Redis 7.0 on x86-64 replies.
    #[test]
    fn sums_are_those_of_a_long_double() {
        for (a, b, expected) in [
            ("10.5", "0.1", "10.6"),
            ("0.1", "0.2", "0.3"),
            ("5.0e3", "2.0e2", "5200"),
            ("3", "-5", "-2"),
            ("-0.5", "0.5", "0"),
            ("1", "1e-18", "1"),
            ("1e20", "8", "100000000000000000008"),
            ("1e20", "1", "100000000000000000000"),
            ("18446744073709551615", "1", "18446744073709551616"),
            ("18446744073709551616", "1", "18446744073709551616"),
            (".5", "5.", "5.5"),
            ("+1.5", "0", "1.5"),
        ] {
            assert_eq!(sum(a, b).as_deref(), Some(expected), "{a} + {b}");
        }
    }

    #[test]
    fn what_is_no_number_or_too_large_is_refused() {
        for text in [
            "",
            "-",
            ".",
            "e5",
            "1e",
            "1 ",
            " 1",
            "1.2.3",
            "abc",
            "nan",
            "1e5000",
            "1e-5000",
            "1e99999999999",
            "1.2e4932",
            "1e4933",
            "3.6e-4951",
            "9e-4952",
        ] {
            assert_eq!(Extended::parse(text.as_bytes()), None, "{text:?}");
        }
        // The largest and the smallest numbers there are, however they are written.
        let zeros = "0".repeat(4900);
        for text in
            ["1.18e4932", "3.7e-4951", &format!("1{zeros}e32"), &format!("0.{zeros}1e-49"), &format!("{zeros}1e4932")]
        {
            assert!(Extended::parse(text.as_bytes()).is_some(), "{text}");
        }
        assert_eq!(sum("inf", "1"), None);
        assert_eq!(sum("1.1e4932", "1.1e4932"), None);
        assert_eq!(sum("2e4000", "0").map(|text| text.len()), Some(4001));
    }

    proptest! {
        /// Whole numbers and sums that fit 64 bits are exact, so they can be checked by other means.
        #[test]
        fn small_sums_are_exact(a in -1_i64 << 62..1 << 62, b in -1_i64 << 62..1 << 62) {
            prop_assert_eq!(sum(&a.to_string(), &b.to_string()), Some((a + b).to_string()));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[-+]?[0-9.eEinf]{0,30}") {
            if let Some(number) = Extended::parse(text.as_bytes()) {
                number.plus(number);
                number.to_text();
            }
        }
    }
}
