//! Turns: how far a long command goes before others are served (S14).

use weir_io::Yield;

/// How many keys a command looks at or changes between two turns.
pub const TURN_KEYS: usize = 1000;

/// To be called before the key with the number `index` is looked at. After every [`TURN_KEYS`] keys, others are served.
pub async fn end_turn(yields: Yield, index: usize) {
    if index % TURN_KEYS == TURN_KEYS - 1 {
        yields.now().await;
    }
}
