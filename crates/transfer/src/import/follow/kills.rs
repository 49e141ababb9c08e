//! Tests an import into several partitions that is killed after any request, and begun again: everything is done once.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_io::Rng;
use weir_io::real::RealClock;

use super::*;
use crate::failure::Remedy;
use crate::import::fake_tenant::{FakeTenant, Rows, apply};
use crate::import::partitions::Partitions;
use crate::import::{Choice, is_own};
use crate::rdb::FileBytes;
use crate::resp::Requests;
use crate::target::Target;

pub(super) const PARTITIONS: usize = 3;
/// The position of the snapshot.
pub(super) const FIRST: u64 = 100;

/// The source's commands: some of every kind that must not be done twice, over all partitions and some databases.
fn lines() -> Vec<String> {
    let mut lines = Vec::new();
    for round in 0..4 {
        for key in ["a", "b", "c", "d", "e", "f"] {
            lines.extend([format!("INCR count-{key}"), format!("APPEND log-{key} {round};")]);
        }
        lines.extend(["MULTI", "INCR a", "INCR b", "INCR c", "APPEND t-d x", "EXEC"].map(ToOwned::to_owned));
        lines.push(format!("MSET m1 {round} m2 {round} m3 {round} m4 {round}"));
        lines.extend(
            ["DEL m1 m2 log-a", "SELECT 1", "INCR a", "APPEND t-b y", "SET t-c z", "SELECT 2"].map(ToOwned::to_owned),
        );
        lines.extend(["INCR a", "INCR b", "INCR c"].map(ToOwned::to_owned));
        match round {
            1 => lines.push("SWAPDB 0 1".to_owned()),
            2 => lines.push("FLUSHDB".to_owned()),
            _ => {}
        }
        lines.extend(["APPEND t-c q".to_owned(), "SELECT 0".to_owned()]);
    }
    lines
}

pub(super) fn words(line: &str) -> Words {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// The source's stream.
pub(super) fn stream() -> Vec<u8> {
    stream_of(&lines())
}

/// A stream of these commands.
pub(super) fn stream_of(lines: &[impl AsRef<str>]) -> Vec<u8> {
    let mut requests = Requests::default();
    lines.iter().for_each(|line| requests.push(&words(line.as_ref())));
    requests.bytes_from(0).to_vec()
}

/// The rows that all these commands lead to.
pub(super) fn expected() -> Rows {
    let (mut rows, mut changes, mut database) = (Rows::new(), BTreeMap::new(), 0);
    let lines = lines();
    for line in lines.iter().filter(|line| !["MULTI", "EXEC"].contains(&line.as_str())) {
        apply(&mut rows, &mut changes, &mut database, &words(line));
    }
    rows
}

pub(super) fn import(tenant: &FakeTenant, clock: Arc<dyn weir_io::Clock>) -> Import {
    let target = Target::new(tenant.address.clone(), Arc::clone(&clock));
    Import { target, choice: Choice::default(), tally: Arc::default(), whole_bytes_max: 1 << 20, clock }
}

/// Writes the first marks, as if the snapshot had been imported.
pub(super) async fn begin(import: &Import) {
    let first = Position { history: "h".repeat(40), offset: FIRST, database: 0, in_step_ms: 0 };
    let mut steps = Steps::new(&import.target, &import.tally, Partitions::new(PARTITIONS));
    steps.begin(0, &first).await.expect("it is there");
}

/// Follows the stream from the tenant's position on, in steps that are cut where `rng` says.
async fn follow_all(import: &Import, stream: &[u8], rng: &mut Rng) -> Result {
    let mut steps = Steps::new(&import.target, &import.tally, Partitions::new(PARTITIONS));
    let mut position = steps.resume_point().await?.expect("all partitions have a mark");
    let end = FIRST + stream.len() as u64;
    let mut rest = &stream[(position.offset - FIRST) as usize..];
    let mut taker = Taker { import, value_bytes_max: 1000, is_in_transaction: false, begun: None };
    let mut input = Input::new(FileBytes(&b""[..]), Vec::new());
    while position.offset < end {
        match taker.take(&mut input, &position)? {
            Some(taken) => {
                if !taken.step.commands.is_empty() {
                    steps.apply(&taken.step, &taken.end).await?;
                }
                position = taken.end;
            }
            None => {
                let (piece, behind) = rest.split_at(rest.len().min(1 + rng.below(300) as usize));
                let (_, mut held) = input.into_parts();
                held.extend_from_slice(piece);
                input = Input::new(FileBytes(&b""[..]), held);
                rest = behind;
            }
        }
    }
    Ok(())
}

/// The same; tries again if the tenant turns out to be at another position than it said.
pub(super) async fn follow_again(import: &Import, stream: &[u8], rng: &mut Rng) -> Result {
    loop {
        match follow_all(import, stream, rng).await {
            Err(failure) if failure.remedy == Remedy::Restart => {}
            done => return done,
        }
    }
}

/// Begins an import into a new tenant, and kills it after the numbers of requests in `kills`, until one gets to the
/// end. Gives whether any was killed.
async fn run(kills: &[u64], seed: u64) -> bool {
    let stream = stream();
    let tenant = FakeTenant::start(PARTITIONS).await;
    let import = import(&tenant, RealClock::new());
    begin(&import).await;
    let (mut rng, mut was_killed) = (Rng::new(seed), false);
    for &allowed in kills.iter().chain([&u64::MAX]) {
        let mut silent = tenant.allow(allowed, rng.below(120));
        let killed = silent.wait_for(|&silent| silent);
        match select(pin!(follow_again(&import, &stream, &mut rng)), pin!(killed)).await {
            Either::Left((done, _)) => {
                done.expect("nothing is refused");
                break;
            }
            Either::Right(_) => was_killed = true,
        }
    }
    assert_eq!(import.tally.refused().0, [], "{kills:?}, seed {seed}");
    let mut rows = tenant.rows();
    rows.retain(|(_, key), _| !is_own(key));
    assert_eq!(rows, expected(), "{kills:?}, seed {seed}");
    was_killed
}

pub(super) fn in_runtime<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime").block_on(future)
}

#[test]
fn everything_is_done_once_wherever_it_is_killed() {
    in_runtime(async {
        let mut rng = Rng::new(17);
        for behind in 0.. {
            let kills = [behind, rng.below(400), rng.below(400)];
            if !run(&kills, behind).await {
                assert!(behind > 300, "only {behind} requests");
                break;
            }
        }
    });
}

/// With an older position alone, commands would be done again. Without the note of the databases, an import of others
/// could go on from there.
#[test]
fn an_end_that_is_killed_leaves_the_newest_position_and_the_databases_or_no_position() {
    in_runtime(async {
        let at = |offset| Position { history: "h".repeat(40), offset, database: 0, in_step_ms: 0 };
        for allowed in 0.. {
            let tenant = FakeTenant::start(1).await;
            let import = import(&tenant, RealClock::new());
            let steps = || Steps::new(&import.target, &import.tally, Partitions::new(1));
            let mut ending = steps();
            ending.choose(9, "0 9".to_owned()).await.expect("it is there");
            ending.begin(9, &at(FIRST)).await.expect("it is there");
            let step = Step { commands: vec![(words("INCR a"), FIRST + 50)], ..Step::default() };
            ending.apply(&step, &at(FIRST + 50)).await.expect("it is there");
            let mut silent = tenant.allow(allowed, 0);
            let killed = silent.wait_for(|&silent| silent);
            let has_ended = match select(pin!(ending.end()), pin!(killed)).await {
                Either::Left((done, _)) => done.is_ok(),
                Either::Right(_) => false,
            };
            tenant.allow(u64::MAX, 0);
            let resumed = steps().resume_point().await.expect("it is there");
            let expected = if has_ended { None } else { resumed.as_ref().map(|_| at(FIRST + 50)) };
            assert_eq!(resumed, expected, "killed after {allowed} requests");
            let chosen = steps().chosen().await.expect("it is there");
            assert!(chosen.is_some() || resumed.is_none(), "killed after {allowed} requests");
            if has_ended {
                assert_eq!(chosen, None);
                assert!(allowed > 50, "only {allowed} requests");
                break;
            }
        }
    });
}
