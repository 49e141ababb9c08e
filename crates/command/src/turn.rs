//! Turns: how far a long command goes before others are served (S14).

use std::cmp::Ordering;

use weir_io::Yield;

/// How many keys a command looks at or changes between two turns.
pub const TURN_KEYS: usize = 1000;

/// How many elements are sorted, or merged, between two turns.
pub const TURN_SORTED: usize = 4096;

/// To be called before the key with the number `index` is looked at. After every [`TURN_KEYS`] keys, others are served.
pub async fn end_turn(yields: Yield, index: usize) {
    end_turn_of(yields, TURN_KEYS, index).await;
}

/// As [`end_turn`], for work whose turns have so many `steps`: to be called before the step with the number `index`.
pub async fn end_turn_of(yields: Yield, steps: usize, index: usize) {
    if index % steps == steps - 1 {
        yields.now().await;
    }
}

/// Whether others are to be served before the key with the number `index`, for a command that takes a turn for one of
/// its parts: the [`TURN_KEYS`] keys of such a part are one turn.
pub fn begins_turn(index: usize) -> bool {
    index > 0 && index.is_multiple_of(TURN_KEYS)
}

/// Sorts pieces of `items`, and then merges them two by two, so equal items keep their order. Also gives how many
/// comparisons that took.
pub async fn sort_in_turns<T>(yields: Yield, items: Vec<T>, compare: impl Fn(&T, &T) -> Ordering) -> (Vec<T>, usize) {
    let (mut pieces, mut items, mut comparisons) = (Vec::new(), items.into_iter(), 0);
    loop {
        let mut piece: Vec<T> = items.by_ref().take(TURN_SORTED).collect();
        if piece.is_empty() {
            break;
        }
        if !pieces.is_empty() {
            yields.now().await;
        }
        piece.sort_by(|a, b| {
            comparisons += 1;
            compare(a, b)
        });
        pieces.push(piece);
    }
    while pieces.len() > 1 {
        let mut merged = Vec::with_capacity(pieces.len().div_ceil(2));
        let mut left = pieces.into_iter();
        while let Some(first) = left.next() {
            merged.push(match left.next() {
                Some(second) => merge(yields, first, second, &compare, &mut comparisons).await,
                None => first,
            });
        }
        pieces = merged;
    }
    (pieces.pop().unwrap_or_default(), comparisons)
}

/// Elements of `first` come before equal elements of `second`.
async fn merge<T>(
    yields: Yield,
    first: Vec<T>,
    second: Vec<T>,
    compare: &impl Fn(&T, &T) -> Ordering,
    comparisons: &mut usize,
) -> Vec<T> {
    let mut merged = Vec::with_capacity(first.len() + second.len());
    let (mut first, mut second) = (first.into_iter().peekable(), second.into_iter().peekable());
    loop {
        let takes_second = match (first.peek(), second.peek()) {
            (Some(a), Some(b)) => {
                *comparisons += 1;
                compare(b, a) == Ordering::Less
            }
            (first, _) => first.is_none(),
        };
        let Some(next) = (if takes_second { second.next() } else { first.next() }) else { return merged };
        merged.push(next);
        if merged.len().is_multiple_of(TURN_SORTED) {
            yields.now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::polled;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn sorting_in_turns_is_sorting(items in proptest::collection::vec(0..500_u32, 0..20_000)) {
            let items: Vec<(u32, usize)> = items.into_iter().enumerate().map(|(index, item)| (item, index)).collect();
            let mut expected = items.clone();
            expected.sort_by_key(|item| item.0);
            let asked = std::sync::atomic::AtomicUsize::new(0);
            let compare = |a: &(u32, usize), b: &(u32, usize)| {
                asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                a.0.cmp(&b.0)
            };
            let (turns, (sorted, comparisons)) = polled::turns(sort_in_turns(Yield::PLAIN, items, compare));
            prop_assert!(turns >= expected.len().saturating_sub(1) / TURN_SORTED, "{}", turns);
            prop_assert_eq!((sorted, comparisons), (expected, asked.into_inner()));
        }
    }
}
