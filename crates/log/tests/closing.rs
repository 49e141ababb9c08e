//! A log that cannot be closed.

use futures_util::FutureExt;
use weir_io::sim::{Fault, FaultPlan, OpKind, Sim, SimFs};
use weir_io::{Owner, sleep_until};
use weir_log::{LogOptions, SyncMode, WriteAheadLog};

use crate::common::{device, open};

/// Its directory may be opened again.
#[test]
fn a_log_that_cannot_be_closed_leaves_nothing_under_way() {
    let sim = Sim::new(1);
    let fs = SimFs::new(sim.clock(), device(), FaultPlan::none(), sim.rng());
    sim.block_on(async {
        let options =
            LogOptions { sync: SyncMode::Always, segment_bytes: 4 << 20, ..LogOptions::new(Owner::default(), 1) };
        let (log, ..) = open(&fs, options, 0).await.expect("a fresh disk");
        let append = || log.append(b"record").expect("no failure is known yet");
        log.commit(append()).await.expect("nothing fails yet");
        fs.fail_next(Some(OpKind::Write), Fault::Error);
        assert!(log.commit(append()).now_or_never().is_none(), "its write is under way, and fails");
        let clock = sim.clock();
        sleep_until(&clock, clock.now() + 10_000).await;
        assert!(log.commit(append()).now_or_never().is_none(), "so is this one, which ends later");
        log.close().await.expect_err("a write fails");
        assert!(!log.wants_maintenance(), "no write is under way");
    });
}
