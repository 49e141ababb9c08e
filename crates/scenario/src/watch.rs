//! Looks at the node once a second.

use std::sync::Arc;

use parking_lot::Mutex;
use weir_admission::{Booked, Direction};
use weir_io::Class;
use weir_lsm::pick::Scope;
use weir_node::{Ledger, Partition};

use crate::load::Tally;
use crate::outcome::{Bytes, Second, Stalls};

/// See the module.
pub struct Watch {
    partitions: Vec<Arc<Partition>>,
    ledger: Arc<Ledger>,
    last: Bytes,
    /// Every second so far.
    pub series: Vec<Second>,
}

impl Watch {
    /// Begins now.
    pub fn new(partitions: Vec<Arc<Partition>>, ledger: Arc<Ledger>) -> Self {
        let last = bytes(&ledger.total());
        Self { partitions, ledger, last, series: Vec::new() }
    }

    /// All bytes so far, of all time.
    pub fn bytes(&self) -> Bytes {
        bytes(&self.ledger.total())
    }

    /// Writes slowed or stopped so far, of all time.
    pub fn stalls(&self) -> Stalls {
        let mut stalls = Stalls::default();
        for partition in &self.partitions {
            for times in partition.metrics().stalls {
                stalls.count += times.slowed + times.stopped;
                stalls.seconds += (times.slowed_nanos + times.stopped_nanos) as f64 / 1e9;
            }
        }
        stalls
    }

    /// Whether every tree is a pyramid: nothing sealed, nothing running, every level within its target.
    pub fn is_restored(&self) -> bool {
        self.partitions.iter().all(|partition| partition.tree().shape().is_settled())
    }

    /// Ends a second.
    pub fn tick(&mut self, tally: &Mutex<Tally>) -> &Second {
        let now = bytes(&self.ledger.total());
        let mut second = Second { bytes: now.since(&self.last), ..Second::default() };
        self.last = now;
        for partition in &self.partitions {
            let shape = partition.tree().shape();
            second.l0.push(shape.levels[0].tables as u16);
            second.sealed.push(shape.sealed as u16);
            second.stage.push(match partition.tree().knobs().scope {
                Scope::All => 0,
                Scope::L0ToL1 => 1,
                Scope::IntraL0 => 2,
            });
            let levels: u64 = shape.levels[..2].iter().map(|level| level.bytes).sum();
            second.memory += (shape.memtable_bytes + shape.sealed_bytes) as u64 + levels;
        }
        let mut tally = tally.lock();
        (second.served, second.normally) = std::mem::take(&mut tally.done_now);
        second.reads = std::mem::take(&mut tally.reads_done_now);
        second.write_us = percentiles(&mut tally.writes_now);
        second.read_us = percentiles(&mut tally.reads_now);
        drop(tally);
        self.series.push(second);
        self.series.last().expect("just pushed")
    }
}

fn percentiles(histogram: &mut hdrhistogram::Histogram<u64>) -> [f64; 3] {
    let found = [0.5, 0.99, 0.999].map(|quantile| histogram.value_at_quantile(quantile) as f64 / 1e3);
    histogram.reset();
    found
}

fn bytes(booked: &Booked) -> Bytes {
    let of = |class| booked[(class, Direction::Read)].bytes + booked[(class, Direction::Write)].bytes;
    Bytes {
        user: booked.user(Direction::Write).bytes,
        log: of(Class::Log),
        flush: of(Class::Flush),
        l0: of(Class::CompactL0),
        deep: of(Class::CompactDeep),
        read: of(Class::Read),
        other: of(Class::Maintenance),
    }
}
