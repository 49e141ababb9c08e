//! What elements are sorted by. The sort runs in turns and is stable.

use std::cmp::Ordering;

use weir_model::Value;

use super::ELEMENT_BYTES;
use super::options::By;
use crate::context::Context;
use crate::error::{Error, Outcome};
use crate::room::Room;
use crate::turn::{end_turn, sort_in_turns};

const NOT_NUMBERS: Error = Error::new("ERR One or more scores can't be converted into double");

/// How many steps it takes to read an element as a number.
const WEIGHING_STEPS: usize = 12;

/// What an element is sorted by.
enum Weight {
    /// A number; elements with equal numbers are compared by their own bytes.
    Number(f64),
    /// A text from another key, if there is such a key.
    Text(Option<Value>),
    /// The element.
    Itself,
}

struct Weighed {
    weight: Weight,
    element: Vec<u8>,
}

impl Weighed {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.weight, &other.weight) {
            (Weight::Number(a), Weight::Number(b)) => {
                a.partial_cmp(b).unwrap_or(Ordering::Equal).then_with(|| self.element.cmp(&other.element))
            }
            (Weight::Text(a), Weight::Text(b)) => a.as_deref().cmp(&b.as_deref()),
            _ => self.element.cmp(&other.element),
        }
    }
}

/// `elements`, sorted.
pub(super) async fn sort(
    cx: &mut Context<'_>,
    elements: Vec<Vec<u8>>,
    by: &By<'_>,
    descending: bool,
    room: &mut Room,
) -> Outcome<Vec<Vec<u8>>> {
    let (mut weighed, mut are_numbers) = (Vec::with_capacity(elements.len()), true);
    // Each element is weighed, mostly as a number.
    cx.computed(elements.len().saturating_mul(WEIGHING_STEPS));
    for (index, element) in elements.into_iter().enumerate() {
        end_turn(cx.yields(), index).await;
        let mut as_number = |text: &[u8]| {
            let number = number(text);
            are_numbers &= number.is_some();
            Weight::Number(number.unwrap_or_default())
        };
        let weight = match by {
            By::Itself { alpha: false } => as_number(&element),
            By::Other { pattern, alpha } => match pattern.look_up(cx, &element, room).await? {
                value if *alpha => {
                    room.take(ELEMENT_BYTES + value.as_ref().map_or(0, |value| value.len()))?;
                    Weight::Text(value)
                }
                Some(value) => as_number(&value),
                None => Weight::Number(0.0),
            },
            By::Nothing | By::Itself { .. } => Weight::Itself,
        };
        weighed.push(Weighed { weight, element });
    }
    if !are_numbers {
        return Err(NOT_NUMBERS);
    }
    let compare = |a: &Weighed, b: &Weighed| if descending { b.cmp(a) } else { a.cmp(b) };
    let (sorted, comparisons) = sort_in_turns(cx.yields(), weighed, compare).await;
    cx.compared(comparisons);
    Ok(sorted.into_iter().map(|weighed| weighed.element).collect())
}

/// A number as C's `strtod` reads it, except for hexadecimal numbers; `None` if anything follows it, or if it is too
/// large or too small to be represented.
fn number(text: &[u8]) -> Option<f64> {
    let text = text.split(|&byte| byte == 0).next()?;
    if text.is_empty() {
        return Some(0.0);
    }
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let start = text.iter().position(|byte| !is_space(byte))?;
    let text = std::str::from_utf8(&text[start..]).ok()?;
    let number: f64 = text.parse().ok()?;
    let is_word = text.contains(['n', 'N']);
    let digits = text.split(['e', 'E']).next()?;
    let is_zero = !digits.contains(|digit: char| matches!(digit, '1'..='9'));
    let fits = if number.is_infinite() { is_word } else { number.is_normal() || is_zero };
    (fits && !number.is_nan()).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        for (text, expected) in [
            ("", Some(0.0)),
            ("0", Some(0.0)),
            ("-0", Some(0.0)),
            (" \t\n3.5", Some(3.5)),
            ("+5", Some(5.0)),
            ("1.", Some(1.0)),
            (".5e1", Some(5.0)),
            ("0e999", Some(0.0)),
            ("inf", Some(f64::INFINITY)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("7\0behind", Some(7.0)),
            ("\0", Some(0.0)),
            ("1e999", None),
            ("1e-999", None),
            ("nan", None),
            (" ", None),
            ("5 ", None),
            ("5x", None),
            ("x", None),
            (".", None),
            ("1e", None),
            ("- 1", None),
        ] {
            assert_eq!(number(text.as_bytes()), expected, "{text:?}");
        }
    }
}
