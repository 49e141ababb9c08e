//! Over how many threads connections are spread, depending on how much work there is.

use crate::support::TestClock;
use crate::support::tenants::{read_for, start_open};
use weir_gateway::Settings;

/// More rounds than the gateway needs to look at its threads.
const ROUNDS_MAX: usize = 100_000;

#[test]
fn connections_go_to_a_second_thread_when_one_is_full_and_come_back_when_that_was_in_vain() {
    let clock = TestClock::new();
    clock.freeze();
    let (weir, keys) =
        start_open(&clock, Settings { threads: 2, long_threads: 0, idle_time: || None, ..Settings::default() });
    let mut clients = [weir.connect(), weir.connect()];
    // Time passes only during the first client's reads, so whichever thread serves that client is full.
    let mut served_by = || {
        let [first, second] = &mut clients;
        [read_for(first, &keys, "default", 10_000_000), read_for(second, &keys, "default", 0)]
    };
    let together = ["gateway-0", "gateway-0"];
    assert_eq!(served_by(), together);
    let spread = (0..ROUNDS_MAX).map(|_| served_by()).find(|by| by[..] != together).expect("spread");
    assert_ne!(spread[0], spread[1]);
    // Each waits for the other's reply, so that two threads serve no more than one did.
    assert!((0..ROUNDS_MAX).any(|_| served_by()[..] == together), "and back");
}
