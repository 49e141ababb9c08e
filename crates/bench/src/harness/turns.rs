//! The order in which contestants run.

/// The order of the contestants turns round with every round (from 1), so that a disk that becomes slower hurts all
/// alike.
pub fn in_turn<T>(contestants: &[T], round: u32) -> Vec<&T> {
    let mut order: Vec<_> = contestants.iter().collect();
    if round.is_multiple_of(2) {
        order.reverse();
    }
    order
}
