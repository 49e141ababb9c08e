//! Where a pattern matches. It tries one way after the other, until one leads to the end of the pattern.

use super::parse::{Item, Pattern, Times};

/// Most captures of a pattern.
const CAPTURES_MAX: usize = 32;
/// How many steps are made between two checks whether the script has to end.
const STEPS: u32 = 4096;

/// Why a search has no result.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The pattern is wrong.
    Wrong(&'static str),
    /// The script has to end.
    Ends,
}

/// A capture of a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Capture {
    /// The capture begins here, and has not ended yet.
    Open(usize),
    /// The capture has the text from here to there.
    Text(usize, usize),
    /// The capture is a place, counted from 0.
    Place(usize),
}

/// The result of a match.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Match {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) captures: Vec<Capture>,
}

/// A way that was not tried yet.
struct Way {
    item: usize,
    at: usize,
    /// For a greedy item: how many bytes it may still give back.
    spare: usize,
    /// The captures at that time: how many there were, and how many changes of them.
    level: usize,
    changes: usize,
}

/// Searches one text. It counts the steps of all of its searches together.
pub(super) struct Search<'a> {
    pattern: &'a Pattern,
    text: &'a [u8],
    has_to_end: &'a dyn Fn() -> bool,
    steps: u32,
    captures: Vec<Capture>,
    /// Captures that were closed, in their earlier state, so that closing them can be undone.
    changed: Vec<(usize, Capture)>,
    ways: Vec<Way>,
}

impl<'a> Search<'a> {
    /// A search for `pattern` in `text`, which stops when `has_to_end` says so.
    pub(super) fn new(pattern: &'a Pattern, text: &'a [u8], has_to_end: &'a dyn Fn() -> bool) -> Self {
        Self { pattern, text, has_to_end, steps: 0, captures: Vec::new(), changed: Vec::new(), ways: Vec::new() }
    }

    /// The first match from `from` on.
    pub(super) fn first_from(&mut self, from: usize) -> Result<Option<Match>, Stop> {
        let last = if self.pattern.is_anchored { from } else { self.text.len() };
        for from in from..=last {
            if let Some(found) = self.at(from)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The match that begins at `from`.
    pub(super) fn at(&mut self, from: usize) -> Result<Option<Match>, Stop> {
        self.captures.clear();
        self.changed.clear();
        self.ways.clear();
        let (mut item, mut at) = (0, from);
        loop {
            self.step(1)?;
            let Some(&next) = self.pattern.items.get(item) else {
                return Ok(Some(Match { from, to: at, captures: self.captures.clone() }));
            };
            match self.pass(next, item, at)? {
                Some(to) => (item, at) = (item + 1, to),
                None => match self.another_way()? {
                    Some(way) => (item, at) = way,
                    None => return Ok(None),
                },
            }
        }
    }

    fn step(&mut self, steps: usize) -> Result<(), Stop> {
        self.steps = self.steps.saturating_add(u32::try_from(steps).unwrap_or(u32::MAX));
        if self.steps >= STEPS {
            self.steps = 0;
            if (self.has_to_end)() {
                return Err(Stop::Ends);
            }
        }
        Ok(())
    }

    /// Where the text continues behind `next`, if `next` matches at `at`.
    fn pass(&mut self, next: Item, item: usize, at: usize) -> Result<Option<usize>, Stop> {
        let text = self.text;
        Ok(match next {
            Item::Some(class, times) => {
                let is_here = |at: usize| text.get(at).is_some_and(|&byte| class.has(byte));
                match times {
                    Times::Once => is_here(at).then_some(at + 1),
                    Times::Maybe if is_here(at) => {
                        self.remember(item + 1, at, 0);
                        Some(at + 1)
                    }
                    Times::Maybe => Some(at),
                    Times::Most(least) => {
                        let count = text[at..].iter().take_while(|&&byte| class.has(byte)).count();
                        self.step(count / 8)?;
                        if count > least {
                            self.remember(item, at + least, count - least);
                        }
                        (count >= least).then_some(at + count)
                    }
                    Times::Least => {
                        if is_here(at) {
                            self.remember(item, at + 1, 0);
                        }
                        Some(at)
                    }
                }
            }
            Item::Open => {
                self.capture(Capture::Open(at))?;
                Some(at)
            }
            Item::Here => {
                self.capture(Capture::Place(at))?;
                Some(at)
            }
            Item::Close => {
                let open = self.captures.iter().rposition(|capture| matches!(capture, Capture::Open(_)));
                let Some(index) = open else { return Err(Stop::Wrong("invalid pattern capture")) };
                if let Capture::Open(from) = self.captures[index] {
                    self.changed.push((index, self.captures[index]));
                    self.captures[index] = Capture::Text(from, at);
                }
                Some(at)
            }
            Item::Balanced(from, to) => self.balanced(from, to, at)?,
            Item::Frontier(class) => {
                let before = if at == 0 { 0 } else { text[at - 1] };
                let here = text.get(at).copied().unwrap_or(0);
                (!class.has(before) && class.has(here)).then_some(at)
            }
            Item::Again(index) => match self.captures.get(index) {
                Some(&Capture::Text(from, to)) => {
                    self.step((to - from) / 8)?;
                    text[at..].starts_with(&text[from..to]).then_some(at + to - from)
                }
                Some(Capture::Place(_)) => None,
                Some(Capture::Open(_)) | None => return Err(Stop::Wrong("invalid capture index")),
            },
            Item::NoCapture => return Err(Stop::Wrong("invalid capture index")),
            Item::End => (at == text.len()).then_some(at),
            Item::Wrong(what) => return Err(Stop::Wrong(what)),
        })
    }

    fn capture(&mut self, capture: Capture) -> Result<(), Stop> {
        if self.captures.len() == CAPTURES_MAX {
            return Err(Stop::Wrong("too many captures"));
        }
        self.captures.push(capture);
        Ok(())
    }

    fn balanced(&mut self, from: u8, to: u8, at: usize) -> Result<Option<usize>, Stop> {
        if self.text.get(at) != Some(&from) {
            return Ok(None);
        }
        let mut depth = 1;
        for (index, &byte) in self.text[at + 1..].iter().enumerate() {
            match byte {
                byte if byte == to => depth -= 1,
                byte if byte == from => depth += 1,
                _ => {}
            }
            if depth == 0 {
                self.step(index / 8)?;
                return Ok(Some(at + index + 2));
            }
        }
        self.step((self.text.len() - at) / 8)?;
        Ok(None)
    }

    fn remember(&mut self, item: usize, at: usize, spare: usize) {
        self.ways.push(Way { item, at, spare, level: self.captures.len(), changes: self.changed.len() });
    }

    /// Goes back to the last way that was not tried; gives the item and the place to continue with.
    fn another_way(&mut self) -> Result<Option<(usize, usize)>, Stop> {
        let Some(way) = self.ways.last_mut() else { return Ok(None) };
        while self.changed.len() > way.changes {
            let (index, capture) = self.changed.pop().unwrap_or((0, Capture::Open(0)));
            if let Some(place) = self.captures.get_mut(index) {
                *place = capture;
            }
        }
        self.captures.truncate(way.level);
        Ok(Some(if way.spare > 0 {
            way.spare -= 1;
            let next = (way.item + 1, way.at + way.spare);
            if way.spare == 0 {
                self.ways.pop();
            }
            next
        } else {
            let next = (way.item, way.at);
            self.ways.pop();
            next
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::shared::Shared;

    fn parsed(pattern: &[u8]) -> Pattern {
        Pattern::parse(pattern, true, &mut Budget::of(&Shared::new())).expect("room")
    }

    fn found(pattern: &str, text: &str) -> Result<Option<(usize, usize)>, Stop> {
        let pattern = parsed(pattern.as_bytes());
        let found = Search::new(&pattern, text.as_bytes(), &|| false).first_from(0);
        found.map(|found| found.map(|found| (found.from, found.to)))
    }

    #[test]
    fn matches_are_those_of_lua() {
        for (pattern, text, range) in [
            ("b", "abc", Some((1, 2))),
            ("a*", "aaab", Some((0, 3))),
            ("a-b", "aaab", Some((0, 4))),
            ("a+$", "baa", Some((1, 3))),
            ("^a", "ba", None),
            (".-x", "ax", Some((0, 2))),
            ("(a*(.)%w(%s*))", "aab c", Some((0, 4))),
            ("%b()", "f(a(b)c)d", Some((1, 8))),
            ("%f[%w]%w+", "  word ", Some((2, 6))),
            ("(.)%1", "abccd", Some((2, 4))),
            ("a?b?c?d", "abd", Some((0, 3))),
            ("", "x", Some((0, 0))),
        ] {
            assert_eq!(found(pattern, text), Ok(range), "{pattern} in {text}");
        }
        assert_eq!(found("(a", "a"), Ok(Some((0, 1))));
        for (pattern, what) in [
            ("%", "malformed pattern (ends with '%')"),
            ("[a", "malformed pattern (missing ']')"),
            ("a)", "invalid pattern capture"),
            ("%1", "invalid capture index"),
            ("%b(", "unbalanced pattern"),
            ("%fa", "missing '[' after '%f' in pattern"),
        ] {
            assert_eq!(found(pattern, "a"), Err(Stop::Wrong(what)), "{pattern}");
        }
        assert_eq!(found("x[", "a"), Ok(None), "a match does not get that far");
        assert_eq!(found(&"()".repeat(33), ""), Err(Stop::Wrong("too many captures")));
    }

    #[test]
    fn what_takes_for_ever_is_given_up_and_what_is_long_fills_no_stack() {
        let looks = std::cell::Cell::new(0);
        let has_to_end = || {
            looks.set(looks.get() + 1);
            looks.get() > 10
        };
        let pattern = parsed("a*".repeat(30).as_bytes());
        let pattern = Pattern { items: [pattern.items, vec![Item::End]].concat(), is_anchored: true };
        let text = [&[b'a'; 100][..], b"b"].concat();
        assert_eq!(Search::new(&pattern, &text, &has_to_end).first_from(0), Err(Stop::Ends));
        assert_eq!(looks.get(), 11);
        let (long, text) = ("a?".repeat(300_000), "a".repeat(300_000));
        assert_eq!(found(&long, &text), Ok(Some((0, 300_000))));
    }
}
