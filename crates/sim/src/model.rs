//! What must be true after a power cut: the recovered keys are those of a *prefix* of the batches that were sent.
//!
//! The model is the list of batches since the last known state. After a cut at which `sent` batches had been sent and
//! the first `durable` of them were promised, there must be a cut `c` with `durable <= c <= sent` such that applying
//! exactly the first `c` batches gives what was found. So nothing promised is lost, no batch is torn, there is no hole,
//! and nothing comes from nowhere.

use std::collections::BTreeMap;
use std::fmt;

use weir_model::{Batch, BatchRef, Change};

use crate::span::Span;

/// A value and the first millisecond at which it is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The bytes.
    pub value: Vec<u8>,
    /// Milliseconds since 1970; `None` = lives for ever.
    pub expire_at_ms: Option<u64>,
}

/// Keys and values as a reader sees them.
pub type Visible = Vec<(Vec<u8>, Vec<u8>)>;

/// Keys, each with what was last written to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyValues(BTreeMap<Vec<u8>, Stored>);

impl KeyValues {
    /// Applies a batch.
    pub fn apply(&mut self, batch: &Batch) {
        self.apply_ref(batch.as_ref());
    }

    /// Applies a batch that is borrowed.
    pub fn apply_ref(&mut self, batch: BatchRef<'_>) {
        for change in batch.iter() {
            match change {
                Change::Put { key, value, expire_at_ms } => {
                    self.0.insert(key.to_vec(), Stored { value: value.to_vec(), expire_at_ms });
                }
                Change::Delete { key } => drop(self.0.remove(key)),
                Change::Head { .. } | Change::Cover { .. } => unreachable!("this model has strings only"),
            }
        }
    }

    /// The value of `key` at `now_ms`.
    pub fn get(&self, key: &[u8], now_ms: u64) -> Option<&[u8]> {
        let stored = self.0.get(key)?;
        lives(stored, now_ms).then_some(stored.value.as_slice())
    }

    /// Everything that lives at `now_ms`, ascending.
    pub fn visible(&self, now_ms: u64) -> Visible {
        self.iter(now_ms).map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
    }

    /// What of `span` lives at `now_ms`, in the order of the span.
    pub fn span(&self, span: &Span, now_ms: u64) -> Visible {
        if span.is_empty() {
            return Visible::new();
        }
        let range = self.0.range((span.from.clone(), span.to.clone()));
        let living = range.filter(|(_, stored)| lives(stored, now_ms));
        let pairs = living.map(|(key, stored)| (key.clone(), stored.value.clone()));
        if span.reverse { pairs.rev().take(span.limit).collect() } else { pairs.take(span.limit).collect() }
    }

    fn iter(&self, now_ms: u64) -> impl Iterator<Item = (&[u8], &[u8])> {
        let living = self.0.iter().filter(move |(_, stored)| lives(stored, now_ms));
        living.map(|(key, stored)| (key.as_slice(), stored.value.as_slice()))
    }

    fn shows(&self, found: &Visible, now_ms: u64) -> bool {
        self.iter(now_ms).eq(found.iter().map(|(key, value)| (key.as_slice(), value.as_slice())))
    }
}

fn lives(stored: &Stored, now_ms: u64) -> bool {
    stored.expire_at_ms.is_none_or(|at| at > now_ms)
}

/// The state a store must be in, except for what a cut may take.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// The state before the first of `sent`.
    base: KeyValues,
    /// The state after the last of `sent`.
    present: KeyValues,
    sent: Vec<Batch>,
}

/// Why a recovered state is wrong.
#[derive(Debug)]
pub struct Mismatch {
    durable: usize,
    sent: usize,
    /// The nearest prefix, and in how many keys it differs.
    nearest: (usize, usize),
    /// A few of the differences to the nearest prefix.
    examples: Vec<String>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cut, keys) = self.nearest;
        let where_ = match cut {
            cut if cut < self.durable => "a prefix that lacks acknowledged batches",
            _ => "no prefix of what was sent",
        };
        write!(
            f,
            "found {where_}: {} sent, {} promised, nearest cut {cut} ({keys} keys differ)",
            self.sent, self.durable
        )?;
        self.examples.iter().try_for_each(|example| write!(f, "\n    {example}"))
    }
}

impl Model {
    /// Notes a batch that is about to be sent.
    pub fn send(&mut self, batch: Batch) {
        self.present.apply(&batch);
        self.sent.push(batch);
    }

    /// How many batches were sent since the last settled state.
    pub fn sent(&self) -> usize {
        self.sent.len()
    }

    /// What the model was when only the first `sent` batches had been sent.
    #[must_use]
    pub fn when_sent(&self, sent: usize) -> Self {
        let mut earlier = Self { base: self.base.clone(), present: self.base.clone(), sent: Vec::new() };
        self.sent[..sent].iter().for_each(|batch| earlier.send(batch.clone()));
        earlier
    }

    /// The state after everything that was sent.
    pub fn present(&self) -> &KeyValues {
        &self.present
    }

    /// Finds the cut that explains `found` and settles on it: from now on it is the base state.
    pub fn settle(&mut self, found: &Visible, durable: usize, now_ms: u64) -> Result<usize, Mismatch> {
        let mut state = self.base.clone();
        self.sent[..durable].iter().for_each(|batch| state.apply(batch));
        for cut in durable..=self.sent.len() {
            if cut > durable {
                state.apply(&self.sent[cut - 1]);
            }
            if state.shows(found, now_ms) {
                self.base = state.clone();
                self.present = state;
                self.sent.clear();
                return Ok(cut);
            }
        }
        Err(self.mismatch(found, durable, now_ms))
    }

    /// Takes the present state as the base, because everything is known to be durable.
    pub fn settle_at_present(&mut self) {
        self.base = self.present.clone();
        self.sent.clear();
    }

    fn mismatch(&self, found: &Visible, durable: usize, now_ms: u64) -> Mismatch {
        let mut state = self.base.clone();
        let mut nearest = (usize::MAX, 0, Vec::new());
        for cut in 0..=self.sent.len() {
            if cut > 0 {
                state.apply(&self.sent[cut - 1]);
            }
            let differences = differences(&state.visible(now_ms), found);
            if differences.len() <= nearest.0 {
                nearest = (differences.len(), cut, differences);
            }
        }
        let (keys, cut, mut examples) = nearest;
        examples.truncate(5);
        Mismatch { durable, sent: self.sent.len(), nearest: (cut, keys), examples }
    }
}

/// One line for each key in which the two differ.
pub fn differences(expected: &Visible, found: &Visible) -> Vec<String> {
    let expected: BTreeMap<_, _> = expected.iter().cloned().collect();
    let found: BTreeMap<_, _> = found.iter().cloned().collect();
    let mut lines = Vec::new();
    for (key, value) in &expected {
        match found.get(key) {
            Some(other) if other == value => {}
            Some(other) => lines.push(format!("{}: expected {}, found {}", text(key), brief(value), brief(other))),
            None => lines.push(format!("{}: expected {}, found nothing", text(key), brief(value))),
        }
    }
    for (key, value) in found.iter().filter(|(key, _)| !expected.contains_key(*key)) {
        lines.push(format!("{}: expected nothing, found {}", text(key), brief(value)));
    }
    lines
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Generated values begin with what makes them unique; the rest is filling.
fn brief(value: &[u8]) -> String {
    format!("\"{}\" ({} bytes)", text(&value[..value.len().min(16)]), value.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &str, value: &str) -> Batch {
        let mut batch = Batch::new();
        batch.put(key.as_bytes(), value.as_bytes());
        batch
    }

    fn visible(pairs: &[(&str, &str)]) -> Visible {
        pairs.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
    }

    fn three_sent() -> Model {
        let mut model = Model::default();
        model.send(put("a", "1"));
        let mut pair = put("b", "2");
        pair.put(b"c", b"2");
        model.send(pair);
        model.send(put("a", "3"));
        model
    }

    #[test]
    fn every_prefix_from_the_promised_one_on_is_accepted() {
        let states = [visible(&[]), visible(&[("a", "1")]), visible(&[("a", "1"), ("b", "2"), ("c", "2")])];
        for durable in 0..=2 {
            for (cut, state) in states.iter().enumerate() {
                let settled = three_sent().settle(state, durable, 0);
                assert_eq!(settled.is_ok(), cut >= durable, "durable {durable}, cut {cut}");
            }
        }
    }

    #[test]
    fn torn_batches_holes_and_inventions_are_refused() {
        for wrong in [
            visible(&[("a", "1"), ("b", "2")]),
            visible(&[("b", "2"), ("c", "2")]),
            visible(&[("a", "1"), ("z", "9")]),
            visible(&[("a", "3")]),
        ] {
            assert!(three_sent().settle(&wrong, 0, 0).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_has_expired_may_not_come_back() {
        let mut model = Model::default();
        let mut batch = Batch::new();
        batch.push(Change::Put { key: b"a", value: b"1", expire_at_ms: Some(10) });
        model.send(batch);
        assert!(model.clone().settle(&visible(&[("a", "1")]), 1, 9).is_ok());
        assert!(model.clone().settle(&visible(&[("a", "1")]), 1, 10).is_err());
        assert!(model.settle(&visible(&[]), 1, 10).is_ok());
    }
}
