//! Values that a command holds while it waits for something else.
//!
//! A value keeps the memtable in memory that it was read from, and with it some of the write memory of all tenants. A
//! command may have to wait until other clients have read what they asked for, or for that memory itself. So it copies
//! the values that it holds before it waits.

use std::future::poll_fn;
use std::pin::pin;

use weir_model::{StringRow, Value as Shared};

/// Values in the order of their keys.
#[derive(Default)]
pub struct InHand {
    values: Vec<Value>,
    /// How many of the first values are copies.
    owned: usize,
}

enum Value {
    Nothing,
    Shared(Shared),
    Own(Box<[u8]>),
}

impl InHand {
    /// Adds the next value. A row that does not exist adds an empty one.
    pub fn push(&mut self, row: Option<StringRow>) {
        self.values.push(row.map_or(Value::Nothing, |row| Value::Shared(row.value)));
    }

    /// The bytes of each value.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.values.iter().map(|value| match value {
            Value::Nothing => &[][..],
            Value::Shared(value) => value,
            Value::Own(value) => value,
        })
    }

    /// Copies the values that are not copied yet, so that they keep nothing of the store in memory.
    pub fn own(&mut self) {
        for value in &mut self.values[self.owned..] {
            if let Value::Shared(shared) = value {
                *value = Value::Own(shared[..].into());
            }
        }
        self.owned = self.values.len();
    }
}

/// Awaits `future`, and calls `let_go` each time it has to wait.
pub async fn letting_go<T>(future: impl Future<Output = T>, mut let_go: impl FnMut()) -> T {
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
