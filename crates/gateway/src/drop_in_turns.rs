//! Drops what consists of many pieces. To drop half a million keys takes a tenth of a second; in one turn, nobody else
//! would be served by the thread meanwhile.

use tokio::runtime::Handle;
use weir_command::{TURN_KEYS, end_turn};

use crate::yielding::YIELD;

/// Drops `pieces`, and then `booked`, which books them. A few pieces are dropped at once. More are dropped by a task of
/// this thread's event loop, which serves others in between; outside of an event loop nobody waits for that.
pub(crate) fn drop_in_turns<P, B>(pieces: P, booked: B)
where
    P: ExactSizeIterator<Item: Send> + Send + 'static,
    B: Send + 'static,
{
    let event_loop = Handle::try_current().ok().filter(|_| pieces.len() > TURN_KEYS);
    let Some(event_loop) = event_loop else {
        pieces.for_each(drop);
        return drop(booked);
    };
    drop(event_loop.spawn(async move {
        for (index, piece) in pieces.enumerate() {
            end_turn(YIELD, index).await;
            drop(piece);
        }
        drop(booked);
    }));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn many_pieces_are_dropped_in_turns_and_stay_booked_until_then() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let (piece, booking) = (Arc::new(()), Arc::new(()));
            let pieces = |count| std::iter::repeat_n(Arc::clone(&piece), count).collect::<Vec<_>>().into_iter();
            drop_in_turns(pieces(TURN_KEYS), Arc::clone(&booking));
            assert_eq!((Arc::strong_count(&piece), Arc::strong_count(&booking)), (1, 1), "at once");
            drop_in_turns(pieces(2 * TURN_KEYS), Arc::clone(&booking));
            let mut left = Vec::new();
            while Arc::strong_count(&booking) > 1 {
                left.push(Arc::strong_count(&piece) - 1);
                tokio::task::yield_now().await;
            }
            assert_eq!(left.first(), Some(&(2 * TURN_KEYS)));
            assert!(left.windows(2).all(|pair| pair[0] - pair[1] <= TURN_KEYS), "{left:?}");
            assert_eq!(Arc::strong_count(&piece), 1);
        });
    }

    #[test]
    fn outside_of_an_event_loop_nothing_is_put_off() {
        let booking = Arc::new(());
        drop_in_turns(0..2 * TURN_KEYS, Arc::clone(&booking));
        assert_eq!(Arc::strong_count(&booking), 1);
    }
}
