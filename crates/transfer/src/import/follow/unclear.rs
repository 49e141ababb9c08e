//! Tests what becomes of scripts and functions whose outcome is not known, because the tenant's log fails or a link
//! breaks.

use super::kills::{FIRST, PARTITIONS, begin, follow_again, import, in_runtime, stream_of, words};
use super::*;
use crate::failure::Remedy;
use crate::import::fake_tenant::FakeTenant;
use crate::import::hasty_clock::HastyClock;
use crate::import::partitions::Partitions;
use crate::import::{MARK, is_own};

/// Does a script once in a new tenant of `partitions`, to which `happen` does something before. Gives how often the
/// script was done, and the reasons for which commands were refused.
async fn do_script(partitions: usize, happen: impl FnOnce(&FakeTenant)) -> (FakeTenant, u64, Vec<String>) {
    let tenant = FakeTenant::start(partitions).await;
    let import = import(&tenant, HastyClock::new());
    let mut steps = Steps::new(&import.target, &import.tally, Partitions::new(partitions));
    let at = |offset| Position { history: "h".repeat(40), offset, database: 0, in_step_ms: 0 };
    steps.begin(0, &at(FIRST)).await.expect("it is there");
    happen(&tenant);
    let commands = vec![(words("EVAL count 0 counted"), FIRST + 50)];
    let step = Step { commands, is_alone: true, ..Step::default() };
    steps.apply(&step, &at(FIRST + 50)).await.expect("the tenant is there");
    let mark = tenant.rows().remove(&(0, MARK.to_vec()));
    assert_eq!(mark, Some(at(FIRST + 50).mark().into_bytes()));
    let count = tenant
        .rows()
        .get(&(0, b"counted".to_vec()))
        .map_or(0, |count| String::from_utf8_lossy(count).parse().expect("a number"));
    let reasons = import.tally.refused().0.into_iter().map(|refused| refused.reason).collect();
    (tenant, count, reasons)
}

#[test]
fn a_script_is_done_once_in_a_tenant_of_one_partition() {
    in_runtime(async {
        for is_done in [true, false] {
            for at in 0.. {
                let (tenant, count, reasons) = do_script(1, |tenant| tenant.cut(at, is_done)).await;
                assert_eq!((count, &reasons[..]), (1, &[][..]), "cut at {at}, done: {is_done}");
                if !tenant.has_cut() {
                    assert!(at > 5, "only {at} requests");
                    break;
                }
            }
            for (at, refusals) in [(0, 0), (0, 3), (1, 0), (1, 3), (2, 0)] {
                let (_, count, reasons) = do_script(1, |tenant| tenant.fail(at, is_done, refusals)).await;
                assert_eq!((count, &reasons[..]), (1, &[][..]), "write {at}, done: {is_done}, {refusals} refusals");
            }
        }
    });
}

#[test]
fn a_script_that_may_have_been_done_is_not_done_again_in_several_partitions() {
    in_runtime(async {
        let assert_at_most_once = |(count, reasons): (u64, Vec<String>), what: &str| {
            let is_told = reasons.len() == 1 && reasons[0].starts_with("it is not known whether this was done: ");
            assert!(is_told && count <= 1 || reasons.is_empty() && count == 1, "{what}: {count}, {reasons:?}");
            is_told
        };
        for is_done in [true, false] {
            let mut told = 0;
            for at in 0.. {
                let (tenant, count, reasons) = do_script(PARTITIONS, |tenant| tenant.cut(at, is_done)).await;
                let what = format!("cut at {at}, done: {is_done}");
                told += u32::from(assert_at_most_once((count, reasons), &what));
                if !tenant.has_cut() {
                    break;
                }
            }
            // Only where it is the script itself that is not answered.
            assert_eq!(told, 1);
            for at in 0..6 {
                let (_, count, reasons) = do_script(PARTITIONS, |tenant| tenant.fail(at, is_done, 0)).await;
                let what = format!("write {at}, done: {is_done}");
                // The first write is that of the probe.
                assert_eq!(assert_at_most_once((count, reasons), &what), at == 1, "{what}");
            }
        }
    });
}

#[test]
fn functions_are_loaded_and_deleted_whatever_happens() {
    in_runtime(async {
        let lines = ["FUNCTION LOAD one", "INCR a", "FUNCTION LOAD two", "FUNCTION DELETE one", "INCR a"];
        let expected = [("a", "2"), ("library:two", "code")];
        for (is_cut, is_done) in [(true, true), (true, false), (false, true), (false, false)] {
            for at in 0.. {
                let tenant = FakeTenant::start(PARTITIONS).await;
                let import = import(&tenant, HastyClock::new());
                begin(&import).await;
                match is_cut {
                    true => tenant.cut(at, is_done),
                    false => tenant.fail(at, is_done, 2),
                }
                let what = format!("at {at}, cut: {is_cut}, done: {is_done}");
                // The link may break before anything is followed. Then the import is started again.
                while let Err(failure) = follow_again(&import, &stream_of(&lines), &mut weir_io::Rng::new(at)).await {
                    assert_eq!(failure.remedy, Remedy::Reconnect, "{what}: {failure}");
                }
                assert_eq!(import.tally.refused().0, [], "{what}");
                let rows = tenant.rows().into_iter().filter(|((_, key), _)| !is_own(key));
                let rows: Vec<(Vec<u8>, Vec<u8>)> = rows.map(|((_, key), value)| (key, value)).collect();
                let expected = expected.map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec()));
                assert_eq!(rows, expected, "{what}");
                let is_over = if is_cut { !tenant.has_cut() } else { !tenant.has_failed() };
                if is_over {
                    assert!(at > 10, "only {at}");
                    break;
                }
            }
        }
    });
}

#[test]
fn a_command_that_ends_the_import_behind_its_mark_is_listed() {
    in_runtime(async {
        let tenant = FakeTenant::start(1).await;
        let import = import(&tenant, HastyClock::new());
        let mut steps = Steps::new(&import.target, &import.tally, Partitions::new(1));
        let at = |offset| Position { history: "h".repeat(40), offset, database: 0, in_step_ms: 0 };
        steps.begin(0, &at(FIRST)).await.expect("it is there");
        let commands = vec![(words("EVAL fail 0"), FIRST + 50)];
        let step = Step { commands, is_alone: true, ..Step::default() };
        let failure = steps.apply(&step, &at(FIRST + 50)).await.expect_err("nothing more is taken");
        assert!(failure.message.contains("OOM"), "{failure}");
        // The next import goes on behind it.
        assert_eq!(steps.resume_point().await.expect("it is there"), Some(at(FIRST + 50)));
        let refused = import.tally.refused().0;
        assert!(refused.len() == 1 && refused[0].what == "EVAL fail", "{refused:?}");
    });
}
