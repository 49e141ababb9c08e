//! Tests of the simulation itself: everything else trusts it.

mod crash;
mod device;
mod executor;
mod faults;
mod model;

use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::{AlignedBuf, Class, File, Fs, OpenOptions, Owner, PAGE, Rng, Tag};

const TAG: Tag = Tag::new(Owner { tenant: 1, partition: 2 }, Class::Log);
const ROOT: &str = "";
const DSYNC: OpenOptions = OpenOptions { dsync: true, ..OpenOptions::create_new() };
const REOPEN: OpenOptions = OpenOptions { create_new: false, ..OpenOptions::create_new_buffered() };

/// An instant disk without faults.
fn disk(sim: &Sim) -> Arc<SimFs> {
    SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng())
}

fn path(name: &str) -> &Path {
    Path::new(name)
}

fn page(byte: u8) -> AlignedBuf {
    AlignedBuf::copy_of(&[byte; PAGE])
}

fn bytes(text: &str) -> AlignedBuf {
    AlignedBuf::copy_of(text.as_bytes())
}

/// A file whose content and name are durable.
async fn durable_file(fs: &SimFs, name: &str, options: OpenOptions) -> Arc<dyn File> {
    let file = fs.open(path(name), options, TAG).await.unwrap();
    fs.sync_dir(path(ROOT), TAG).await.unwrap();
    file
}

/// Every outcome of `count` random power cuts.
fn outcomes(fs: &SimFs, name: &str, count: u64) -> std::collections::BTreeSet<Option<Vec<u8>>> {
    let mut rng = Rng::new(11);
    (0..count).map(|_| fs.crash(&mut rng).read(name)).collect()
}
