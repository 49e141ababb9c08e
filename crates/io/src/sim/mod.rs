//! A simulated machine: one seed gives one day.
//!
//! - [`Sim`]: one thread, virtual nanoseconds, an order of running that the seed decides;
//! - [`SimFs`]: a disk in memory on that clock, with a written fault model (at the top of `fs.rs`), a [`DeviceSpec`]
//!   that says how fast it is, and a [`FaultPlan`] that says what goes wrong;
//! - [`DiskImage`]: what a power cut leaves, cheap to copy, the start of the next run.
//!
//! A crash test lets a workload run once and looks at the disk at every change:
//!
//! ```
//! use std::{path::Path, sync::Arc};
//! use weir_io::{sim::*, *};
//!
//! let tag = Tag::new(Owner::default(), Class::Log);
//! let sim = Sim::new(7);
//! let fs = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
//! let mut rng = sim.rng();
//! let cuts = Arc::new(parking_lot::Mutex::new(Vec::new()));
//! let seen = Arc::clone(&cuts);
//! // Note with each image what was acknowledged by then.
//! fs.on_cut_point(move |fs, point| seen.lock().push((point.index, fs.crash(&mut rng))));
//! sim.block_on(async {
//!     let file = fs.open(Path::new("a"), OpenOptions::create_new(), tag).await?;
//!     file.write_at(0, AlignedBuf::with_len(PAGE), tag).await?;
//!     file.sync(tag).await?;
//!     fs.sync_dir(Path::new(""), tag).await
//! })?;
//! for (_index, image) in cuts.lock().drain(..) {
//!     let sim = Sim::new(8);
//!     let fs = SimFs::from_image(&image, sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
//!     sim.block_on(async { fs.list(Path::new(""), tag).await })?; // Recover, and compare with what was acknowledged.
//! }
//! # Ok::<(), Error>(())
//! ```

mod clock;
mod content;
mod counters;
mod crash;
mod cut;
mod device;
mod dirty_pages;
mod disk;
mod door;
mod events;
mod executor;
mod fate;
mod fault;
mod file;
mod fs;
mod hash;
mod image;
mod inode;
mod names;
mod path;

#[cfg(test)]
mod tests;

pub use clock::SimClock;
pub use counters::{Count, Counters, OpKind};
pub use cut::{CutPoint, Phase};
pub use device::{DeviceSpec, UNLIMITED};
pub use events::Event;
pub use executor::{Order, Sim};
pub use fate::Keep;
pub use fault::{Fault, FaultPlan};
pub use fs::SimFs;
pub use image::DiskImage;
