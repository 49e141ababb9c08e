//! Turns: how much of a long command is done before others are served (S14).

use weir_io::Yield;

/// Keys that a command looks at or changes between two turns.
pub const TURN_KEYS: usize = 1000;

/// To be called before the key number `index` is looked at: after [`TURN_KEYS`] of them others are served.
pub async fn end_turn(yields: Yield, index: usize) {
    if index % TURN_KEYS == TURN_KEYS - 1 {
        yields.now().await;
    }
}
