//! Which threads serve whom while a tenant takes more than a quarter of a thread from others.

use crate::support::tenants::{Keys, connect, read_for, start_open};
use crate::support::{Client, Running, TestClock};
use weir_gateway::Settings;

/// One thread of each kind.
fn threads() -> Settings {
    Settings { threads: 1, long_threads: 1, ..Settings::default() }
}

const MILLISECOND: u64 = 1_000_000;

/// Lets a second pass, which somebody's reads take, and waits for the gateway's look at it. The look may come in the
/// middle of a read, before that is booked, so none of the reads is long.
fn pass_a_second(weir: &Running, keys: &Keys, eve: &mut Client) {
    let before = weir.seconds();
    for _ in 0..10 {
        read_for(eve, keys, "eve", 100 * MILLISECOND);
    }
    while weir.seconds() == before {
        std::thread::yield_now();
    }
}

#[test]
fn every_turn_of_a_long_command_is_booked() {
    let clock = TestClock::new();
    clock.freeze();
    let (weir, keys) = start_open(&clock, threads());
    let (mut default, mut bob, mut eve) = (weir.connect(), connect(&weir, "bob"), connect(&weir, "eve"));
    let words = |from| (from..from + 1000).flat_map(|i| [format!("key-{i:05}"), "v".to_owned()]);
    for from in (0..20_000).step_by(1000) {
        let mset: Vec<String> = std::iter::once("MSET".to_owned()).chain(words(from)).collect();
        assert_eq!(bob.ask(&mset), b"+OK\r\n");
    }
    pass_a_second(&weir, &keys, &mut eve);
    // Twenty pages and more, of 20 ms each.
    keys.tenants["bob"].1.read_nanos.store(20 * MILLISECOND, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(bob.say("DBSIZE"), ":20000\r\n");
    assert_eq!(bob.say("PING"), "+PONG\r\n");
    assert_eq!(default.say("PING"), "+PONG\r\n");
    pass_a_second(&weir, &keys, &mut eve);
    // The thread's processor time was read up to 50 ms before the look, which takes a tenth off what the tenant used. A
    // gateway that booked the last turn alone would say 20 ms.
    let used = &weir.processor_use()[&3];
    assert!(used.nanos >= 300 * MILLISECOND && used.is_noisy, "{used:?}");
}

#[test]
fn who_logs_in_at_a_noisy_neighbours_open_door_is_served_by_the_threads_of_light_ones() {
    let clock = TestClock::new();
    clock.freeze();
    let (weir, keys) = start_open(&clock, threads());
    let (mut default, mut bob, mut eve) = (weir.connect(), connect(&weir, "bob"), connect(&weir, "eve"));
    // Only after a first look does the gateway know how long ago the last one was.
    pass_a_second(&weir, &keys, &mut eve);
    assert_eq!(read_for(&mut default, &keys, "default", 900 * MILLISECOND), "gateway-0");
    assert_eq!(read_for(&mut bob, &keys, "bob", 50 * MILLISECOND), "gateway-0");
    pass_a_second(&weir, &keys, &mut eve);
    let used = weir.processor_use();
    let of = |tenant| (&*used[&tenant].name, used[&tenant].is_noisy);
    assert_eq!([of(1), of(3)], [("default", true), ("bob", false)]);
    assert!(used[&1].nanos > 800 * MILLISECOND && used[&3].nanos < 100 * MILLISECOND, "{used:?}");

    // A connection that exists already learns of it at the end of a round.
    read_for(&mut default, &keys, "default", 0);
    assert_eq!(read_for(&mut default, &keys, "default", 0), "gateway-long-1", "it goes behind");
    assert_eq!(read_for(&mut bob, &keys, "bob", 0), "gateway-0");
    let mut ada = connect(&weir, "ada");
    assert_eq!(read_for(&mut ada, &keys, "ada", 0), "gateway-0", "it was never served as the noisy one's");
    let mut another = weir.connect();
    read_for(&mut another, &keys, "default", 0);
    assert_eq!(
        read_for(&mut another, &keys, "default", 0),
        "gateway-long-1",
        "it has said nothing, and is the noisy one's"
    );
}
