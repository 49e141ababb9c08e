//! A pattern as a list of items.
//!
//! ```text
//! pattern := '^'? item* '$'?
//! item    := class ( '*' | '+' | '-' | '?' )? | '(' | ')' | '()' | '%b' x y | '%f' set | '%' 1-9
//! class   := x | '.' | '%' letter | set
//! set     := '[' '^'? ( x | x '-' y | '%' letter )* ']'
//! ```
//!
//! As in Lua 5.1, a pattern ends at its first byte 0, and an error in it is reported only if a match gets that far.
//!
//! An item takes some fifty times as much memory as its byte in the pattern, which the machine does not see.

use crate::budget::Budget;

/// The bytes that a class contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class([u64; 4]);

impl Class {
    const NONE: Self = Self([0; 4]);
    const ALL: Self = Self([u64::MAX; 4]);

    fn add(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    fn of(is_in: impl Fn(u8) -> bool) -> Self {
        let mut class = Self::NONE;
        (0..=u8::MAX).filter(|&byte| is_in(byte)).for_each(|byte| class.add(byte));
        class
    }

    fn join(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(bits, more)| *bits |= more);
    }

    fn negated(self) -> Self {
        Self(self.0.map(|bits| !bits))
    }

    #[inline]
    pub(super) fn has(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
    }

    /// The class that `%` and this letter stand for.
    fn named(letter: u8) -> Self {
        let class = match letter.to_ascii_lowercase() {
            b'a' => Self::of(|byte| byte.is_ascii_alphabetic()),
            b'c' => Self::of(|byte| byte.is_ascii_control()),
            b'd' => Self::of(|byte| byte.is_ascii_digit()),
            b'l' => Self::of(|byte| byte.is_ascii_lowercase()),
            b'p' => Self::of(|byte| byte.is_ascii_punctuation()),
            b's' => Self::of(|byte| matches!(byte, b' ' | 9..=13)),
            b'u' => Self::of(|byte| byte.is_ascii_uppercase()),
            b'w' => Self::of(|byte| byte.is_ascii_alphanumeric()),
            b'x' => Self::of(|byte| byte.is_ascii_hexdigit()),
            b'z' => Self::of(|byte| byte == 0),
            _ => return Self::of(|byte| byte == letter),
        };
        if letter.is_ascii_uppercase() { class.negated() } else { class }
    }
}

/// How often a class matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Times {
    Once,
    /// At most once.
    Maybe,
    /// As often as possible, but at least this often.
    Most(usize),
    /// As seldom as possible.
    Least,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Some(Class, Times),
    /// A capture begins.
    Open,
    /// The place itself is captured.
    Here,
    /// The last open capture ends.
    Close,
    /// Balanced text between these two bytes.
    Balanced(u8, u8),
    /// A frontier: the class begins here.
    Frontier(Class),
    /// The text of the capture with this index.
    Again(usize),
    /// There is no such capture.
    NoCapture,
    /// The end of the text.
    End,
    /// The pattern is wrong from here on.
    Wrong(&'static str),
}

/// A pattern as a list of items.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    pub(super) items: Vec<Item>,
    /// The pattern matches only at the place where a search begins.
    pub(super) is_anchored: bool,
}

/// The part of `pattern` in front of its first byte 0.
pub(super) fn counted(pattern: &[u8]) -> &[u8] {
    &pattern[..pattern.iter().position(|&byte| byte == 0).unwrap_or(pattern.len())]
}

impl Pattern {
    /// Reads a pattern, which may be any bytes. A leading `^` is special if `anchors` is set.
    ///
    /// # Errors
    /// The items take more than there is left in `budget`, or the script has to end.
    pub(super) fn parse(pattern: &[u8], anchors: bool, budget: &mut Budget<'_>) -> mlua::Result<Self> {
        let pattern = counted(pattern);
        let rest = pattern.strip_prefix(b"^").filter(|_| anchors);
        let (mut rest, is_anchored) = (rest.unwrap_or(pattern), rest.is_some());
        let mut items = Vec::new();
        while !rest.is_empty() {
            budget.take(size_of::<Item>())?;
            match item(&mut rest, budget) {
                Ok(item) => items.push(item),
                Err(Fault::Wrong(what)) => {
                    items.push(Item::Wrong(what));
                    break;
                }
                Err(Fault::Ends(error)) => return Err(error),
            }
        }
        items.shrink_to_fit();
        Ok(Self { items, is_anchored })
    }

    /// How many bytes of memory the items take.
    pub(super) fn bytes(&self) -> usize {
        self.items.len() * size_of::<Item>()
    }
}

/// Why an item cannot be read.
enum Fault {
    /// The pattern is wrong.
    Wrong(&'static str),
    /// The script has to end.
    Ends(mlua::Error),
}

impl From<mlua::Error> for Fault {
    fn from(error: mlua::Error) -> Self {
        Fault::Ends(error)
    }
}

fn item(rest: &mut &[u8], budget: &mut Budget<'_>) -> Result<Item, Fault> {
    let (item, after) = match **rest {
        [b'(', b')', ref after @ ..] => (Item::Here, after),
        [b'(', ref after @ ..] => (Item::Open, after),
        [b')', ref after @ ..] => (Item::Close, after),
        [b'$'] => (Item::End, &[][..]),
        [b'%', b'b', from, to, ref after @ ..] => (Item::Balanced(from, to), after),
        [b'%', b'b', ..] => return Err(Fault::Wrong("unbalanced pattern")),
        [b'%', b'f', b'[', ref after @ ..] => {
            *rest = after;
            return set(rest, budget).map(Item::Frontier);
        }
        [b'%', b'f', ..] => return Err(Fault::Wrong("missing '[' after '%f' in pattern")),
        [b'%', b'0', ref after @ ..] => (Item::NoCapture, after),
        [b'%', digit @ b'1'..=b'9', ref after @ ..] => (Item::Again(usize::from(digit - b'1')), after),
        _ => return some(rest, budget),
    };
    *rest = after;
    Ok(item)
}

fn some(rest: &mut &[u8], budget: &mut Budget<'_>) -> Result<Item, Fault> {
    let class = class(rest, budget)?;
    let times = match rest.first() {
        Some(b'*') => Times::Most(0),
        Some(b'+') => Times::Most(1),
        Some(b'-') => Times::Least,
        Some(b'?') => Times::Maybe,
        _ => return Ok(Item::Some(class, Times::Once)),
    };
    *rest = &rest[1..];
    Ok(Item::Some(class, times))
}

fn class(rest: &mut &[u8], budget: &mut Budget<'_>) -> Result<Class, Fault> {
    let Some((&first, after)) = rest.split_first() else { return Err(Fault::Wrong("malformed pattern")) };
    *rest = after;
    match first {
        b'.' => Ok(Class::ALL),
        b'%' => {
            let ends = Fault::Wrong("malformed pattern (ends with '%')");
            let (&letter, after) = after.split_first().ok_or(ends)?;
            *rest = after;
            Ok(Class::named(letter))
        }
        b'[' => set(rest, budget),
        byte => {
            let mut class = Class::NONE;
            class.add(byte);
            Ok(class)
        }
    }
}

/// A set, behind its `[`. As in Lua, its end is searched first, and the byte behind each `%` is skipped. Then the set
/// is read: a range may end with a `%` that has kept a `]` from ending the set. A set may be as long as the pattern.
fn set(rest: &mut &[u8], budget: &mut Budget<'_>) -> Result<Class, Fault> {
    let negates = rest.first() == Some(&b'^');
    let cut = cut_set(&rest[usize::from(negates)..], budget)?;
    let (mut members, after) = cut.ok_or(Fault::Wrong("malformed pattern (missing ']')"))?;
    *rest = after;
    let mut class = Class::NONE;
    loop {
        budget.step()?;
        members = match *members {
            [] => return Ok(if negates { class.negated() } else { class }),
            [b'%', ref after @ ..] => {
                // If a range has left over a `%`, the byte behind it is the one that ends the set.
                let (&letter, after) = after.split_first().unwrap_or((&b']', &[]));
                class.join(Class::named(letter));
                after
            }
            [from, b'-', to, ref after @ ..] => {
                (from..=to).for_each(|byte| class.add(byte));
                after
            }
            [byte, ref after @ ..] => {
                class.add(byte);
                after
            }
        }
    }
}

/// The bytes in front of the `]` that ends a set, and the bytes behind it; `None` if nothing ends it. A set's first
/// byte never ends it.
fn cut_set<'p>(rest: &'p [u8], budget: &mut Budget<'_>) -> mlua::Result<Option<(&'p [u8], &'p [u8])>> {
    let mut end = 0;
    loop {
        budget.step()?;
        end += match rest.get(end..) {
            None | Some([]) => return Ok(None),
            Some([b'%', _, ..]) => 2,
            Some(_) => 1,
        };
        if rest.get(end) == Some(&b']') {
            return Ok(Some((&rest[..end], &rest[end + 1..])));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::Shared;
    use proptest::prelude::*;

    fn parsed(pattern: &[u8], anchors: bool) -> Pattern {
        Pattern::parse(pattern, anchors, &mut Budget::of(&Shared::new())).expect("room")
    }

    fn bytes(class: Class) -> Vec<u8> {
        (0..=u8::MAX).filter(|&byte| class.has(byte)).collect()
    }

    fn set_of(pattern: &str) -> Vec<u8> {
        match parsed(pattern.as_bytes(), true).items[..] {
            [Item::Some(class, Times::Once)] => bytes(class),
            ref items => panic!("{pattern}: {items:?}"),
        }
    }

    #[test]
    fn sets_are_those_of_lua() {
        for (pattern, members) in [
            ("[]]", "]"),
            ("[^]]", ""),
            ("[a-c]", "abc"),
            ("[a-]", "-a"),
            ("[%]x]", "]x"),
            ("[c-a]", ""),
            ("[%d]", "0123456789"),
            ("[+-%]]", "]"),
            ("[#-%%]", "#$%]"),
        ] {
            let expected = if pattern == "[^]]" {
                (0..=u8::MAX).filter(|&byte| byte != b']').collect()
            } else {
                members.as_bytes().to_vec()
            };
            assert_eq!(set_of(pattern), expected, "{pattern}");
        }
        assert!(matches!(parsed(b"[a-%]", true).items[..], [Item::Wrong(_)]));
        assert_eq!(set_of("%x"), b"0123456789ABCDEFabcdef");
        assert_eq!(set_of("%."), b".");
        assert_eq!(set_of("%D").len(), 246);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_pattern(pattern: Vec<u8>, likely in "[]\\[^$%()*+?.a-b0-9f-]{0,12}") {
            parsed(&pattern, true);
            parsed(likely.as_bytes(), false);
        }
    }
}
