//! Values that a command has in hand while it waits for something else.
//!
//! A value keeps the memtable in memory that it was read from, and with it some of the write memory of all tenants. A command may wait until other clients have
//! read what they asked for, or for that memory itself: so it copies what it has before it waits.

use std::future::{Future, poll_fn};
use std::ops::Deref;
use std::pin::pin;

use crate::store::Entry;

/// Values in the order of their keys.
pub(super) struct InHand<V> {
    values: Vec<Value<V>>,
    /// So many of the first are copies.
    owned: usize,
}

enum Value<V> {
    Nothing,
    Shared(V),
    Own(Box<[u8]>),
}

impl<V: Deref<Target = [u8]>> InHand<V> {
    /// Nothing yet, with room for `count` values.
    pub(super) fn with_capacity(count: usize) -> Self {
        Self { values: Vec::with_capacity(count), owned: 0 }
    }

    /// The next one. One that does not exist has no bytes.
    pub(super) fn push(&mut self, entry: Option<Entry<V>>) {
        self.values.push(entry.map_or(Value::Nothing, |entry| Value::Shared(entry.value)));
    }

    /// The bytes of each.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.values.iter().map(|value| match value {
            Value::Nothing => &[][..],
            Value::Shared(value) => value,
            Value::Own(value) => value,
        })
    }

    /// Copies what is not copied yet, so that nothing of the store stays in memory for it.
    pub(super) fn own(&mut self) {
        for value in &mut self.values[self.owned..] {
            if let Value::Shared(shared) = value {
                *value = Value::Own(shared[..].into());
            }
        }
        self.owned = self.values.len();
    }
}

/// Awaits `future`, and calls `let_go` whenever it must wait.
pub(super) async fn letting_go<T>(future: impl Future<Output = T>, mut let_go: impl FnMut()) -> T {
    let mut future = pin!(future);
    poll_fn(|cx| {
        let polled = future.as_mut().poll(cx);
        if polled.is_pending() {
            let_go();
        }
        polled
    })
    .await
}
