//! Whole comparisons on contestants in memory.

use std::cell::RefCell;

use super::*;
use crate::entry::Engine;
use crate::memory::Memory;
use crate::work::{self, Until};

/// Bytes that a run without the deletion is said to have written.
const BYTES_OF_KEEPING: u64 = 12_345;

/// Runs orders here, in memory, and notes them.
#[derive(Default)]
struct Here {
    orders: RefCell<Vec<(Engine, &'static str)>>,
}

impl Launch for Here {
    fn launch(&self, order: &Order, progress: &mut dyn FnMut(f64)) -> Result<Outcome> {
        self.orders.borrow_mut().push((order.entry.engine, order.task.name()));
        let open = |_: &_| Ok(Memory::open(&order.dir));
        let mut outcome = work::run(order.task, &open, &order.size, order.seed, &|_| ())?;
        if order.task == Task::KeepRow {
            outcome.bytes_written = BYTES_OF_KEEPING;
        }
        progress(1.0);
        outcome.engine = order.entry.engine.name().into();
        Ok(outcome)
    }
}

fn plan(name: &str, works: &[Work], rounds: u32) -> Plan {
    let entry = |engine| Entry { engine, library: None };
    Plan {
        works: works.to_vec(),
        entries: vec![entry(Engine::Weir), entry(Engine::Rocksdb)],
        rounds,
        size: Size {
            items: 200,
            value_bytes: 64,
            sync_items: 50,
            recovery_bytes: 8_000,
            parts: 800,
            reads: Until::Ops(100),
        },
        dir: std::env::temp_dir().join(format!("weir-bench-{name}-{}", std::process::id())),
        keep: false,
    }
}

#[test]
fn all_works_pass_through_all_rounds_and_leave_nothing_behind() {
    let plan = plan("all", &Work::ALL, 2);
    let outcomes = run(&plan, &Here::default()).expect("every work runs");
    assert_eq!(outcomes.len(), (Work::ALL.len() * 2 - 1) * 2, "one of them is not for RocksDB");
    let subjects = Work::ALL.map(|work| work.subject(&plan.size));
    let table = report::table(&outcomes, &subjects, &["weir", "rocksdb"]);
    for work in Work::ALL {
        assert!(table.contains(work.name()), "{table}");
    }
    fs::remove_dir(&plan.dir).expect("the directory is there and empty");
}

#[test]
fn a_deletion_comes_with_what_the_same_load_writes_without_it() {
    let plan = plan("deletes", &[Work::DeleteRow], 1);
    let here = Here::default();
    let outcomes = run(&plan, &here).expect("the work runs");
    assert_eq!(*here.orders.borrow(), [(Engine::Weir, "keep row"), (Engine::Weir, "deleterow")]);
    let kept = outcomes[0].deletion.expect("it deletes").bytes_kept;
    assert_eq!(kept, BYTES_OF_KEEPING);
    fs::remove_dir(&plan.dir).expect("the directory is there and empty");
}

#[test]
fn engines_take_turns_and_the_order_turns_round() {
    let plan = plan("turns", &[Work::FillSync], 3);
    let here = Here::default();
    run(&plan, &here).expect("the work runs");
    let order: Vec<_> = here.orders.borrow().iter().map(|(engine, _)| *engine).collect();
    use Engine::{Rocksdb, Weir};
    assert_eq!(order, [Weir, Rocksdb, Rocksdb, Weir, Weir, Rocksdb]);
    fs::remove_dir(&plan.dir).expect("the directory is there and empty");
}

#[test]
fn a_tree_is_loaded_once_unless_a_fill_makes_it_anew() {
    let loads = |works: &[Work]| {
        let plan = plan(&format!("loads{}", works.len()), works, 2);
        let here = Here::default();
        run(&plan, &here).expect("the works run");
        fs::remove_dir(&plan.dir).expect("the directory is there and empty");
        here.orders.into_inner().iter().filter(|(_, task)| *task == "load").count()
    };
    assert_eq!(loads(&[Work::ReadRandom]), 2);
    assert_eq!(loads(&[Work::ReadRandom, Work::FillRandom]), 0);
}

#[test]
fn a_kept_tree_is_used_again_only_if_it_is_of_the_same_size() {
    let mut plan = plan("kept", &[Work::Scan], 1);
    plan.keep = true;
    let loads = |plan: &Plan| {
        let here = Here::default();
        run(plan, &here).expect("the work runs");
        here.orders.into_inner().iter().filter(|(_, task)| *task == "load").count()
    };
    assert_eq!((loads(&plan), loads(&plan)), (2, 0));
    plan.size.items = 300;
    assert_eq!(loads(&plan), 2);
    fs::remove_dir_all(&plan.dir).expect("ours");
}

#[test]
fn a_child_that_dies_is_reported_with_its_work() {
    let plan = plan("dies", &[Work::FillSync], 1);
    let program = ChildProcess {
        program: Program { path: "/bin/false".into(), arguments: Vec::new() },
        children: Arc::default(),
    };
    let failure = run(&plan, &program).expect_err("it prints nothing").to_string();
    assert!(
        failure.contains("fillsync") && failure.contains("weir") && failure.contains("exit status: 1"),
        "{failure}"
    );
    fs::remove_dir_all(&plan.dir).expect("ours");
}
