//! One log for many small partitions (C-5, DF-12).
//!
//! A partition that writes little still costs a log of its own: a segment, and a sync for each interval in which it
//! writes. A shared log is one physical [`Log`], whose records are tagged with the *member* that appended them. Each
//! member has a [`MemberLog`], which is a [`WriteAheadLog`] like any other: whoever holds one does not know that
//! others write to the same files.
//!
//! 1. A member's records have consecutive indexes of its own, from 1 on, as in a log of its own: engines, anchors and
//!    checks rely on that. Where a record stands among those of all members is its *place*; only this folder knows it.
//! 2. What holds after a crash holds for each member: the log as a whole ends after a prefix of its places, so each
//!    member's records end after a prefix of its indexes.
//! 3. A segment goes when every member in it, and in all older ones, has flushed past it (DF-12). Up to where that is
//!    so is the log's *floor*. It is made durable elsewhere ([`FloorKeeper`]) before any segment goes, and the next
//!    opening begins behind it.
//! 4. One member that writes next to nothing keeps all segments behind its last flush. So from a number of bytes on
//!    the log [names](SharedLog::cascade) those who keep the oldest segment, and its owner has them flushed: a cascade
//!    of flushes. The log itself never waits for that: whoever has room in its memtables writes on.
//! 5. A failed write or sync fences all members, for nobody knows whose records are lost. The log goes on when all of
//!    them hold in tables what they appended.
//!
//! On a node the partitions of tenants with `--log shared` are its members.

mod member;
mod members;
mod replay;
mod survey;
mod tag;
mod unflushed;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::lock::Mutex as AsyncMutex;
use parking_lot::Mutex;
use weir_io::{BoxFuture, Error, ErrorKind, Fs, Op, Owner, Result};
use weir_model::LogIndex;

use crate::log::Log;
use crate::options::LogOptions;
use crate::record::HEADER_BYTES;
use crate::recover::Recovery;
use crate::stats::LogStats;
use crate::write_ahead_log::WriteAheadLog;

pub use self::member::MemberLog;
use self::members::Members;
pub use self::survey::SharedSurvey;
pub use self::tag::{MemberId, RecordTag, TAG_BYTES};

/// Bytes of a member's record in front of its payload.
const FRONT_BYTES: u64 = (HEADER_BYTES + TAG_BYTES) as u64;

/// Remembers durably, outside of the shared log, up to where nobody needs it any more.
pub trait FloorKeeper: Send + Sync + 'static {
    /// Makes `floor` durable. It never falls; of two calls at the same time the larger one has to last.
    ///
    /// # Errors
    /// I/O: then no segment is removed.
    fn hold(&self, floor: LogIndex) -> BoxFuture<Result<()>>;
}

/// How to open a shared log.
#[derive(Clone, Copy, Debug)]
pub struct SharedOptions {
    /// Of the physical log: its owner is whom the I/O of all members is booked to.
    pub log: LogOptions,
    /// From so many bytes in segments on, those who keep the oldest segment are to flush.
    pub cap_bytes: u64,
}

/// What a member is opened with.
#[derive(Clone, Copy, Debug)]
pub struct MemberOpening {
    /// Which.
    pub member: MemberId,
    /// Whom the reading of its records is booked to.
    pub owner: Owner,
    /// Its engine holds every record up to here.
    pub persisted: LogIndex,
    /// Every record of it up to here was on the device, as is known from elsewhere; 0 if nothing is.
    pub durable: LogIndex,
}

/// How a shared log stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedStats {
    /// Of the physical log; indexes are places.
    pub log: LogStats,
    /// Members that have it open, or have something unflushed in it.
    pub members: usize,
    /// Cascades since it was opened: segments for which members were named.
    pub cascades: u64,
}

/// See the module. Clones are the same log.
#[derive(Clone)]
pub struct SharedLog(Arc<Shared>);

struct Shared {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    options: SharedOptions,
    log: Log,
    keeper: Arc<dyn FloorKeeper>,
    recovery: Recovery,
    /// Lock order: before the physical log's state.
    members: Mutex<Members>,
    cascades: Mutex<Cascades>,
    /// Every member that has flushed wants the log replaced after a failure: one does it at a time. Before all locks.
    replacing: AsyncMutex<()>,
}

#[derive(Default)]
struct Cascades {
    count: u64,
    /// The last place of the segment for which members were named last.
    named: LogIndex,
}

impl SharedLog {
    /// Opens the shared log in `dir`, of which nobody needs anything up to the place `floor`, as its `keeper` was told
    /// last. Records of members that do not exist any more, as `exists` says, are passed over: they keep nothing.
    /// Reads the whole log once, and keeps in memory where its records stand, not the records.
    ///
    /// # Errors
    /// As [`Log::open`]; `Corruption` for records that no shared log has.
    pub async fn open(
        fs: Arc<dyn Fs>,
        dir: &Path,
        options: SharedOptions,
        floor: LogIndex,
        exists: &(dyn Fn(MemberId) -> bool + Send + Sync),
        keeper: Arc<dyn FloorKeeper>,
    ) -> Result<Self> {
        let mut members = Members::default();
        let mut found = |place, payload: &[u8]| Op::ready(survey::note(&mut members, exists, dir, place, payload));
        let (log, recovery) = Log::open(Arc::clone(&fs), dir, options.log, floor, &mut found).await?;
        let (dir, members) = (dir.to_path_buf(), Mutex::new(members));
        let (cascades, replacing) = Default::default();
        let shared = Shared { fs, dir, options, log, keeper, recovery, members, cascades, replacing };
        Ok(Self(Arc::new(shared)))
    }

    /// Opens the log of a member, giving every record of it after the persisted one to `replay`, in order. What is long
    /// between two of them is not read; where `replay` must wait, so does the reading.
    ///
    /// # Errors
    /// `Invalid` if it is open; `Corruption` if records are missing that its engine or the anchor says must be there;
    /// what `replay` says; I/O.
    pub async fn member(
        &self,
        opening: MemberOpening,
        replay: &mut (dyn FnMut(LogIndex, &[u8]) -> Op<()> + Send + Sync),
    ) -> Result<(MemberLog, Recovery)> {
        let MemberOpening { member, persisted, .. } = opening;
        let shared = &self.0;
        let number = shared.members.lock().hold(member).ok_or_else(|| shared.invalid(member, "open", "it is open"))?;
        // From here on: dropped on the way out, it lets the member go.
        let handle = MemberLog::new(Arc::clone(shared), member, number);
        let last_place = handle.held(|held| {
            held.unflushed.drop_through(persisted);
            held.unflushed.last_place()
        })?;
        if last_place.is_some_and(|last| last > shared.log.progress().durable) {
            // Its last holder went without a word. What cannot be written by now was not promised to anybody.
            let _seen_in_what_is_committed = shared.log.sync().await;
        }
        let committed = shared.log.progress().committed;
        let unflushed = handle.held(|held| {
            held.unflushed.drop_behind(committed);
            held.last = held.unflushed.last_index().unwrap_or(0).max(persisted);
            held.unflushed.clone()
        })?;
        let recovery = replay::replay(shared, &opening, &unflushed, replay).await?;
        Ok((handle, recovery))
    }

    /// Nothing of `member` is needed any more: it was dropped. Whoever has it open gets `Closed` from now on.
    ///
    /// # Errors
    /// I/O: segments that are not needed stay; the next truncation tries again.
    pub async fn forget(&self, member: MemberId) -> Result<()> {
        self.0.members.lock().forget(member);
        self.0.truncate().await
    }

    /// Who has to flush before the log can become shorter, in the order of their numbers, and up to which of its
    /// records: where it is above its cap, the members whose unflushed records keep the oldest segment (DF-12); after a
    /// failure, all that have any. Empty otherwise. Asking again changes nothing: whoever flushes already is named
    /// until it has.
    pub fn cascade(&self) -> Vec<(MemberId, LogIndex)> {
        let shared = &self.0;
        if shared.log.failure().is_some() {
            return shared.members.lock().keeping(LogIndex::MAX);
        }
        if !self.is_long() {
            return Vec::new();
        }
        // What stands in the segment that is written to would not give it back.
        let Some(oldest) = shared.log.oldest() else { return Vec::new() };
        let keeping = shared.members.lock().keeping(oldest);
        let mut cascades = shared.cascades.lock();
        if !keeping.is_empty() && cascades.named < oldest {
            (cascades.named, cascades.count) = (oldest, cascades.count + 1);
        }
        keeping
    }

    /// Whether it is above its cap.
    pub fn is_long(&self) -> bool {
        self.0.log.stats().live_bytes >= self.0.options.cap_bytes
    }

    /// Removes the segments that nobody needs any more, where a truncation by a member has failed to, or there is no
    /// member left.
    ///
    /// # Errors
    /// I/O: they stay; the next truncation tries again.
    pub async fn truncate(&self) -> Result<()> {
        self.0.truncate().await
    }

    /// The members that have something unflushed, in the order of their numbers. Before a member is opened, what its
    /// engine holds is not known: all that the log has of it counts.
    pub fn unflushed(&self) -> Vec<MemberId> {
        self.0.members.lock().keeping(LogIndex::MAX).into_iter().map(|(member, _)| member).collect()
    }

    /// Makes everything durable and refuses appends from now on, of all members.
    ///
    /// # Errors
    /// The failure that fenced the log, unless all members hold everything in tables.
    pub async fn close(&self) -> Result<()> {
        let closed = self.0.log.close().await;
        if self.unflushed().is_empty() { Ok(()) } else { closed }
    }

    /// What opening found, of all members together; indexes are places.
    pub fn recovery(&self) -> &Recovery {
        &self.0.recovery
    }

    /// Counters.
    pub fn stats(&self) -> SharedStats {
        let (members, cascades) = (self.0.members.lock().count(), self.0.cascades.lock().count);
        SharedStats { log: self.0.log.stats(), members, cascades }
    }
}

impl Shared {
    /// Removes the segments that nobody needs any more.
    async fn truncate(&self) -> Result<()> {
        let floor = {
            // Under the lock of the members nobody appends: nothing up to `last` is missing from their runs.
            let members = self.members.lock();
            members.floor(self.log.progress().last)
        };
        if !self.log.would_truncate(floor) {
            return Ok(());
        }
        self.keeper.hold(floor).await?;
        self.log.truncate(floor).await
    }

    /// Goes on after a failure, if all members hold everything in tables.
    async fn replace(&self) -> Result<()> {
        let _turn = self.replacing.lock().await;
        if self.log.failure().is_none() {
            // Somebody else was first.
            return Ok(());
        }
        let last = {
            let members = self.members.lock();
            if let Some((member, _)) = members.keeping(LogIndex::MAX).first() {
                let message = format!("member {member} has not flushed everything yet");
                return Err(Error::new(ErrorKind::Invalid, "replace", &self.dir, message));
            }
            self.log.progress().last
        };
        // The places that are lost leave a hole: the next opening has to begin behind it.
        self.keeper.hold(last).await?;
        self.log.replace(last).await
    }

    fn invalid(&self, member: MemberId, action: &'static str, message: &str) -> Error {
        Error::new(ErrorKind::Invalid, action, &self.dir, format!("member {member}: {message}"))
    }
}
