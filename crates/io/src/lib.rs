//! The one door to the disk, with its clock, chance and simulation.
//!
//! Everything that touches the outside world from inside the data plane is handed in through the traits of this crate:
//!
//! - [`Fs`] and [`File`]: every byte to or from the disk, each call carrying a [`Tag`] (who and why);
//! - [`Clock`]: monotonic nanoseconds, timers, and the wall clock (for TTL only);
//! - [`Spawn`]: where background work runs;
//! - [`Rng`]: seeded chance.
//!
//! Production uses [`real`], tests and experiments use [`sim`]; the code in between cannot tell.

mod buf;
mod clock;
mod error;
mod event;
mod forward;
mod fs;
mod local;
mod memory;
mod op;
pub mod plant;
pub mod real;
mod rng;
pub mod sim;
mod spawn;
mod tag;
mod yielding;

pub use buf::{AlignedBuf, PAGE};
pub use clock::{Clock, Nanos, Sleep, sleep_until};
pub use error::{Error, ErrorKind, Result};
pub use event::Event;
pub use fs::{DirEntry, File, Fs, FsLock, OpenOptions, Volume};
pub use local::local_path;
pub use memory::{Memory, Unbooked};
pub use op::{BoxFuture, Op, Waiting};
pub use rng::Rng;
pub use spawn::Spawn;
pub use tag::{Class, Owner, Tag};
pub use yielding::{Turn, Yield, yield_now};
