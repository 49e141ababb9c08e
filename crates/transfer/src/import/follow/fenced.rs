//! Tests an import into a tenant whose log fails at any write, or whose limits are low: everything is done once,
//! whether the write that met the failure turns out to be done or not.

use super::kills::{PARTITIONS, begin, expected, follow_again, import, in_runtime, stream};
use super::*;
use crate::import::fake_tenant::FakeTenant;
use crate::import::hasty_clock::HastyClock;
use crate::import::is_own;
use crate::import::partitions::Partitions;
use crate::within::SECOND;

/// Imports everything into a tenant whose log fails at the write behind `writes` others, which `is_done` when the log
/// was replaced, after the tenant has refused `refusals` more. Gives the tenant, the import, and how it ended.
async fn run(writes: u64, is_done: bool, refusals: u64) -> (FakeTenant, Import, Result) {
    let tenant = FakeTenant::start(PARTITIONS).await;
    let import = import(&tenant, HastyClock::new());
    begin(&import).await;
    tenant.fail(writes, is_done, refusals);
    let done = follow_again(&import, &stream(), &mut weir_io::Rng::new(writes)).await;
    (tenant, import, done)
}

fn assert_done_once(tenant: &FakeTenant, import: &Import, done: Result, what: &str) {
    done.unwrap_or_else(|failure| panic!("{what}: {failure}"));
    assert_eq!(import.tally.refused().0, [], "{what}");
    let mut rows = tenant.rows();
    rows.retain(|(_, key), _| !is_own(key));
    assert_eq!(rows, expected(), "{what}");
}

#[test]
fn everything_is_done_once_at_whatever_write_the_log_fails() {
    in_runtime(async {
        for (is_done, refusals) in [(true, 0), (false, 0), (true, 3), (false, 3)] {
            for writes in 0.. {
                let (tenant, import, done) = run(writes, is_done, refusals).await;
                let what = format!("write {writes}, done: {is_done}, {refusals} refusals");
                assert_done_once(&tenant, &import, done, &what);
                if !tenant.has_failed() {
                    assert!(writes > 50, "only {writes} writes");
                    break;
                }
            }
        }
    });
}

#[test]
fn a_log_that_is_replaced_late_is_waited_for() {
    in_runtime(async {
        for is_done in [true, false] {
            let (tenant, import, done) = run(5, is_done, 15).await;
            assert_done_once(&tenant, &import, done, &format!("done: {is_done}"));
            assert!(import.clock.now() > 30 * SECOND, "it was not waited");
        }
    });
}

#[test]
fn a_log_that_is_never_replaced_ends_the_attempt() {
    in_runtime(async {
        let (_, import, done) = run(5, true, u64::MAX).await;
        let failure = done.expect_err("nothing can be written");
        assert!(failure.message.contains("the disk failed") && failure.message.contains("20 times"), "{failure}");
        assert!(import.clock.now() > 60 * SECOND, "it was not waited");
        assert_eq!(import.tally.refused().0, []);
    });
}

#[test]
fn a_transaction_that_never_passes_is_cut() {
    in_runtime(async {
        let tenant = FakeTenant::start(PARTITIONS).await;
        let import = import(&tenant, HastyClock::new());
        begin(&import).await;
        // The parts of one `MSET`, and the mark.
        tenant.limit(3);
        let done = follow_again(&import, &stream(), &mut weir_io::Rng::new(3)).await;
        assert_done_once(&tenant, &import, done, "three commands");
        assert!(tenant.put_off() > 0, "no transaction was longer");
    });
}

#[test]
fn a_transaction_that_needs_all_units_is_sent_when_they_are_there() {
    in_runtime(async {
        let tenant = FakeTenant::start(PARTITIONS).await;
        let import = import(&tenant, HastyClock::new());
        begin(&import).await;
        tenant.limit_rest(&import.clock, SECOND / 50);
        let done = follow_again(&import, &stream(), &mut weir_io::Rng::new(3)).await;
        assert_done_once(&tenant, &import, done, "a rest behind MULTI");
        assert!(tenant.put_off() > 0, "none was put off");
    });
}

/// All marks together are more requests than the tenant has units at once.
#[test]
fn an_import_goes_on_where_few_requests_pass_at_once_and_none_waits() {
    in_runtime(async {
        let tenant = FakeTenant::start(PARTITIONS).await;
        let import = import(&tenant, HastyClock::new());
        tenant.limit_units(&import.clock);
        begin(&import).await;
        let done = follow_again(&import, &stream(), &mut weir_io::Rng::new(5)).await;
        assert_done_once(&tenant, &import, done, "ten units");
        assert!(tenant.put_off() > 0);
        let mut steps = Steps::new(&import.target, &import.tally, Partitions::new(PARTITIONS));
        steps.end().await.expect("the tenant is there");
        assert!(!tenant.rows().keys().any(|(_, key)| is_own(key)));
    });
}

#[test]
fn nothing_is_done_outside_of_a_transaction_where_none_is_allowed() {
    in_runtime(async {
        let tenant = FakeTenant::start(PARTITIONS).await;
        let import = import(&tenant, HastyClock::new());
        begin(&import).await;
        let before = tenant.rows();
        tenant.forbid_transactions();
        let done = follow_again(&import, &stream(), &mut weir_io::Rng::new(3)).await;
        let failure = done.expect_err("no transactions");
        assert!(failure.message.contains("takes no transaction"), "{failure}");
        let mut rows = tenant.rows();
        rows.retain(|row, _| !row.1.ends_with(b":probe"));
        assert_eq!(rows, before);
    });
}
