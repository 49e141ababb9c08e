//! Many clients, all commands on rows, in virtual time.

use std::path::PathBuf;

use weir_io::plant::{Plant, with_planted};
use weir_log::SyncMode;
use weir_node::EngineKind;
use weir_sim::clients::{Groups, Load, check, clients, dump, groups, history, judge, of_rows, write_dump};
use weir_sim::runner::{Plan, run};

#[test]
fn a_thousand_clients_repeat_and_their_answers_have_an_order() {
    for (sync, partitions) in [(SyncMode::Interval, 1), (SyncMode::Always, 4), (SyncMode::None, 1)] {
        let load = Load { clients: 1000, commands: 12, partitions, sync, only: Vec::new(), engine: EngineKind::Lsm };
        match run(&Plan::quiet(0..1), |seed| load.command(seed), |seed| clients(seed, &load)) {
            Ok(histories) => {
                println!("{sync:?}: {histories}");
                assert!(histories.overlapping > histories.commands / 10, "they hardly meet: {histories}");
            }
            Err(failure) => panic!("{sync:?}: {failure}"),
        }
    }
}

/// The numbers of the groups that are not linearizable.
fn refused(groups: Groups) -> Vec<usize> {
    groups.into_iter().filter_map(|(group, operations)| check(operations).is_err().then_some(group)).collect()
}

/// Commands that the model of `tests/porcupine` knows, too. `WEIR_DUMP=FILE` writes the dump for it.
#[test]
fn a_dump_of_a_run_with_a_planted_bug_is_refused_as_the_run_is() {
    let names = ["get", "mget", "set", "append", "incr", "setrange", "getdel", "mset", "del", "expire", "ttl"];
    let only = names.iter().map(|name| of_rows(name).expect("a command on rows")).collect();
    let load = Load { clients: 200, commands: 12, partitions: 1, sync: SyncMode::None, only, engine: EngineKind::Lsm };
    let (seed, answered) = (0..20)
        .map(|seed| (seed, with_planted(Some(Plant::RowsNotLatched), || history(seed, &load))))
        .find(|(seed, answered)| {
            with_planted(Some(Plant::RowsNotLatched), || judge(answered.clone(), *seed, &load)).is_err()
        })
        .expect("twenty seeds find it");
    let (by_group, mut bytes) = (groups(answered.clone()), Vec::new());
    dump::write(&mut bytes, &load.command(seed), &by_group).expect("memory");
    let read = dump::read(&bytes[..]).expect("as it was written");
    assert_eq!(read, by_group);
    assert!(read.values().flatten().any(|operation| operation.split));
    let bad = refused(read);
    println!("seed {seed}: groups {bad:?} are not linearizable");
    assert!(!bad.is_empty());
    assert!(refused(groups(history(seed, &load))).is_empty(), "refused without the bug, too");
    if let Some(path) = std::env::var_os("WEIR_DUMP").map(PathBuf::from) {
        write_dump(&path, &load.command(seed), &answered).expect("a file");
    }
}
