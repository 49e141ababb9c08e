//! One log for many small partitions (C-5, DF-12).
//!
//! A partition that writes little still costs a log of its own: a segment, and a sync for each interval in which it
//! writes. A shared log is one physical [`Log`], whose records are tagged with the *member* that appended them. Each
//! member has a [`MemberLog`], which is a [`WriteAheadLog`] like any other: code that uses one does not know that
//! others write to the same files.
//!
//! 1. A member's records have consecutive indexes of its own, from 1 on, as in a log of its own: engines, anchors and
//!    checks rely on that. Where a record stands among those of all members is its *place*; only this folder knows it.
//! 2. The guarantees after a crash hold for each member: the log as a whole ends after a prefix of its places, so each
//!    member's records end after a prefix of its indexes.
//! 3. A segment is removed when every member in it, and in all older ones, has flushed past it (DF-12). The place up to
//!    which that is so is the log's *floor*. It is made durable elsewhere ([`ClaimKeeper`]) before any segment is
//!    removed, and the next opening begins behind it. The place up to which the log is *durable* is stored with it: a
//!    log that ends before that is refused.
//! 4. One member that writes next to nothing keeps all segments behind its last flush. So from a certain size on the
//!    log [names](SharedLog::cascade) the members that keep the oldest segment, and its owner has them flushed: a
//!    cascade of flushes. The log itself never waits for that: a member with room in its memtables writes on.
//! 5. A failed write or sync fences all members, for nobody knows whose records are lost. The log goes on when all of
//!    them hold in tables what they appended.
//! 6. A member that cannot flush does not hold up the others: its unflushed records are [carried](SharedLog::carry) out
//!    of the log, into one of its own. After a failure, records that cannot be carried stay in the member's memory, and
//!    only this member stays fenced.
//!
//! Lock order: `replacing`, a member's turn (never the other way round), then `members`, `carried`, `claimed`. Each of
//! these three is taken alone or before the physical log's state.
//!
//! On a node the partitions of tenants with `--log shared` are its members.

mod carried;
mod carry;
mod member;
mod members;
mod replay;
mod sorted;
mod survey;
mod tag;
mod unflushed;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};

use futures_util::lock::Mutex as AsyncMutex;
use parking_lot::Mutex;
use weir_io::{BoxFuture, Class, Error, ErrorKind, Fs, Op, Owner, Result, Tag};
use weir_model::LogIndex;

use crate::log::Log;
use crate::options::LogOptions;
use crate::record::HEADER_BYTES;
use crate::recover::{Recovery, check_persisted};
use crate::stats::LogStats;
use crate::write_ahead_log::WriteAheadLog;

use self::carried::CarriedLogs;
pub use self::member::MemberLog;
use self::members::{Held, Members};
use self::sorted::Sorted;
pub use self::survey::SharedSurvey;
pub use self::tag::{MemberId, RecordTag, TAG_BYTES, bytes_by_member};

/// Bytes of a member's record in front of its payload.
const FRONT_BYTES: u64 = (HEADER_BYTES + TAG_BYTES) as u64;

/// What is remembered of a shared log outside of it. A claim that is true once is true for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedClaim {
    /// Nobody needs records up to this place any more.
    pub floor: LogIndex,
    /// Every record up to this place was on the device.
    pub durable: LogIndex,
}

impl SharedClaim {
    /// The larger of each place.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { floor: self.floor.max(other.floor), durable: self.durable.max(other.durable) }
    }
}

/// Most bytes of records that are kept in memory until their members are opened.
const SORTED_BYTES_MAX: u64 = 64 << 20;

/// Remembers durably, outside of the shared log, the facts that no file of it can tell.
pub trait ClaimKeeper: Send + Sync + 'static {
    /// Makes `claim` durable. Neither place ever falls; of two calls at the same time the larger of each place has to
    /// last.
    ///
    /// # Errors
    /// I/O: then no segment is removed.
    fn hold(&self, claim: SharedClaim) -> BoxFuture<Result<()>>;
}

/// How to open a shared log.
#[derive(Clone, Copy, Debug)]
pub struct SharedOptions {
    /// The options of the physical log. The I/O of all members is booked to its owner.
    pub log: LogOptions,
    /// From this many bytes in segments on, the members that keep the oldest segment are to flush.
    pub cap_bytes: u64,
}

/// How to open a member.
#[derive(Clone, Copy, Debug)]
pub struct MemberOpening {
    /// The number of the member.
    pub member: MemberId,
    /// The identity of its partition, drawn when that was made. Records under its number with another identity are not
    /// its own.
    pub identity: u64,
    /// The owner to which the reading of its records is booked.
    pub owner: Owner,
    /// Every record up to this one is in its engine.
    pub persisted: LogIndex,
    /// Every record up to this one was on the device, as is known from elsewhere; 0 if nothing is known.
    pub durable: LogIndex,
}

/// The state of a shared log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedStats {
    /// The counters of the physical log; indexes are places.
    pub log: LogStats,
    /// Members that have the log open, or have something unflushed in it.
    pub members: usize,
    /// Cascades since the log was opened: segments for which members were named.
    pub cascades: u64,
    /// Members that have carried logs, because they could not flush.
    pub carried: usize,
}

/// One log for many small partitions. Clones are the same log.
#[derive(Clone)]
pub struct SharedLog(Arc<Shared>);

struct Shared {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    options: SharedOptions,
    log: Log,
    keeper: Arc<dyn ClaimKeeper>,
    recovery: Recovery,
    members: Mutex<Members>,
    /// The records of members that were not opened yet in this life. Its lock is taken alone.
    sorted: Mutex<Sorted>,
    cascades: Mutex<Cascades>,
    /// The last claim that the keeper was given.
    claimed: Mutex<SharedClaim>,
    /// Every member that has flushed wants the log replaced after a failure: only one does it at a time.
    replacing: AsyncMutex<()>,
    /// See [`Shared::turn_of`]. Its lock is taken alone.
    turns: Mutex<BTreeMap<MemberId, Weak<AsyncMutex<()>>>>,
    carried: Mutex<CarriedLogs>,
    /// How often something was carried.
    carries: AtomicU64,
}

#[derive(Default)]
struct Cascades {
    count: u64,
    /// The last place of the segment for which members were named most recently.
    named: LogIndex,
}

impl SharedLog {
    /// Opens the shared log in `dir`. `floor` is the place up to which nobody needs anything, as its `keeper` was told
    /// last; the rest of what the keeper was told is in the options' anchor. Records of members that do not exist any
    /// more, as `exists` says, are passed over: they are not needed. The whole log is read once. The places of its
    /// records are kept in memory, and so are the records themselves, as far as they fit in a quarter of the cap, and
    /// 64 MiB. The others are in a file, sorted by member.
    ///
    /// # Errors
    /// As [`Log::open`]; `Corruption` for records that cannot be in a shared log.
    pub async fn open(
        fs: Arc<dyn Fs>,
        dir: &Path,
        options: SharedOptions,
        floor: LogIndex,
        exists: &(dyn Fn(MemberId) -> bool + Send + Sync),
        keeper: Arc<dyn ClaimKeeper>,
    ) -> Result<Self> {
        let mut members = Members::default();
        let memory = (options.cap_bytes / 4).min(SORTED_BYTES_MAX);
        let mut sorted = Sorted::new(&fs, dir, options.log.owner, memory).await?;
        let mut found = |place, payload: &[u8]| match survey::note(&mut members, exists, dir, place, payload) {
            Ok(Some((tag, appended))) => sorted.push(&tag, place, appended),
            Ok(None) => Op::ready(Ok(())),
            Err(wrong) => Op::ready(Err(wrong)),
        };
        let (log, recovery) = Log::open(Arc::clone(&fs), dir, options.log, floor, &mut found).await?;
        let found = carried::list_durable(&fs, dir, options.log.owner).await?;
        for log in &found.whole {
            members.carried(log.carrier.0, log.carrier.1, log.last);
        }
        let gone: BTreeSet<_> = found.whole.iter().map(|log| log.carrier.0).filter(|member| !exists(*member)).collect();
        let carried = Mutex::new(found.whole);
        let (dir, members) = (dir.to_path_buf(), Mutex::new(members));
        let claimed = Mutex::new(SharedClaim { floor, durable: options.log.anchor.durable });
        let (cascades, replacing, turns, carries) = Default::default();
        let sorted = Mutex::new(sorted);
        let shared = Shared {
            fs,
            dir,
            options,
            log,
            keeper,
            recovery,
            members,
            sorted,
            cascades,
            claimed,
            replacing,
            turns,
            carried,
            carries,
        };
        for member in gone {
            let _left_for_the_next_opening = shared.remove_carried(member, |_| true).await;
        }
        for log in found.unfinished {
            let tag = Tag::new(options.log.owner, Class::Log);
            let _left_for_the_next_attempt = carried::remove_unfinished(&shared.fs, &shared.dir, log, tag).await;
        }
        Ok(Self(Arc::new(shared)))
    }

    /// Opens the log of a member, passing every record after the persisted one to `replay`, in order. If `replay` has
    /// to wait, so does the reading. The log itself is not read for this, unless the member was open before in this
    /// life. In that case long stretches between two of its records are skipped.
    ///
    /// # Errors
    /// `Invalid` if the member is open; `Corruption` if records are missing that must be there according to its engine
    /// or the anchor; errors of `replay`; I/O.
    pub async fn member(
        &self,
        opening: MemberOpening,
        replay: &mut (dyn FnMut(LogIndex, &[u8]) -> Op<()> + Send + Sync),
    ) -> Result<(MemberLog, Recovery)> {
        let MemberOpening { member, identity, persisted, .. } = opening;
        let shared = &self.0;
        check_persisted(&shared.dir, persisted)?;
        let (handle, foreign) = {
            // A carry of this member in progress is finished first, and no other begins until the member is open.
            let turn = shared.turn_of(member);
            let _turn = turn.lock().await;
            let held = shared.members.lock().hold(member, identity);
            let Held { number, foreign } = held.ok_or_else(|| shared.invalid(member, "open", "it is open already"))?;
            // From here on the handle, if it is dropped on the way out, releases the member.
            let handle = MemberLog::new(Arc::clone(shared), (member, identity), number);
            let is_foreign = |log: &carried::CarriedLog| log.carrier.1 != identity;
            let _left_for_the_next_opening = shared.remove_carried(member, is_foreign).await;
            (handle, foreign)
        };
        let last_place = handle.held(|held| {
            held.unflushed.drop_through(persisted);
            held.unflushed.last_place()
        })?;
        if last_place.is_some_and(|last| last > shared.log.progress().durable) {
            // Its last holder went without closing it. Records that cannot be written by now were not promised to
            // anybody.
            let _seen_in_what_is_committed = shared.log.sync().await;
        }
        let logs: CarriedLogs = carried::of_member(&shared.carried.lock(), member).collect();
        let carried =
            carried::read(&shared.fs, &shared.dir, shared.options.log.anchor.identity, &logs, opening, replay);
        let (carried, opening) = carried.await?;
        let committed = shared.log.progress().committed;
        let unflushed = handle.held(|held| {
            held.unflushed.drop_behind(committed);
            held.unflushed.drop_through(opening.persisted);
            held.last = held.unflushed.last_index().unwrap_or(0).max(opening.persisted);
            held.unflushed.clone()
        })?;
        let taken = shared.sorted.lock().take(member);
        let mut recovery = replay::replay(shared, &opening, &unflushed, taken, replay).await?;
        handle.held(|held| held.is_opening = false)?;
        let _left_for_the_next_flush = shared.drop_carried((member, identity), persisted).await;
        recovery.records += carried.records;
        recovery.payload_bytes += carried.payload_bytes;
        recovery.foreign = foreign;
        Ok((handle, recovery))
    }

    /// Nothing of `member` is needed any more, because it was dropped. A handle that still has it open gets `Closed`
    /// from now on.
    ///
    /// # Errors
    /// I/O: unneeded segments stay; the next truncation tries again.
    pub async fn forget(&self, member: MemberId) -> Result<()> {
        let shared = &self.0;
        let removed = {
            // A carry of this member in progress is finished first, and its result is removed with the rest.
            let turn = shared.turn_of(member);
            let _turn = turn.lock().await;
            shared.members.lock().forget(member);
            shared.discard_sorted(member).await;
            shared.remove_carried(member, |_| true).await
        };
        shared.truncate().await.and(removed)
    }

    /// Carries the unflushed records of `member` out of this log, into one of its own: for a member that cannot flush,
    /// or cannot be opened. Then the member keeps nothing here, and is given its records back from there. It writes on
    /// to this log, unless that has failed. In that case records that may not have been written are in its memory
    /// alone, and it is fenced until it has flushed, while others go on.
    ///
    /// # Errors
    /// `Invalid` if the member is being opened, or its tags are of version 1 and it was not opened yet; I/O: then the
    /// member keeps the records that were not carried.
    pub async fn carry(&self, member: MemberId) -> Result<()> {
        self.0.carry(member).await
    }

    /// The members that have to flush before the log can become shorter, in the order of their numbers, each with the
    /// record up to which it has to flush. If the log is above its cap, these are the members whose unflushed records
    /// keep the oldest segment (DF-12); after a failure, all members that have unflushed records. Empty otherwise.
    /// Asking again changes nothing: a member that is flushing already is named until it has done so.
    pub fn cascade(&self) -> Vec<(MemberId, LogIndex)> {
        let shared = &self.0;
        if shared.log.failure().is_some() {
            return shared.members.lock().keeping(LogIndex::MAX);
        }
        if !self.is_long() {
            return Vec::new();
        }
        // Flushing records in the active segment would not give it back.
        let Some(oldest) = shared.log.oldest() else { return Vec::new() };
        let keeping = shared.members.lock().keeping(oldest);
        let mut cascades = shared.cascades.lock();
        if !keeping.is_empty() && cascades.named < oldest {
            (cascades.named, cascades.count) = (oldest, cascades.count + 1);
        }
        keeping
    }

    /// Whether the log is above its cap.
    pub fn is_long(&self) -> bool {
        self.0.log.stats().live_bytes >= self.0.options.cap_bytes
    }

    /// Removes the segments that nobody needs any more, if a member's truncation has failed to do so, or if no member
    /// is left.
    ///
    /// # Errors
    /// I/O: the segments stay; the next truncation tries again.
    pub async fn truncate(&self) -> Result<()> {
        self.0.truncate().await
    }

    /// Goes on after a failure, if everything that members have appended is in tables, or carried, or in doubt. Does
    /// nothing if the log has not failed. Members do this by themselves when they have flushed.
    ///
    /// # Errors
    /// `Invalid` if the log still holds records that a member needs; I/O. The log stays fenced, and replacing it may be
    /// tried again.
    pub async fn replace(&self) -> Result<()> {
        self.0.replace().await
    }

    /// The failure that fenced all members, until the log is replaced.
    pub fn failure(&self) -> Option<Error> {
        self.0.log.failure()
    }

    /// Whether the log is at twice its cap: the members that were named have not flushed while as much was written
    /// again.
    pub fn is_overlong(&self) -> bool {
        self.0.log.stats().live_bytes >= self.0.options.cap_bytes.saturating_mul(2)
    }

    /// The members that have something unflushed here, or carried. Before a member is opened, nobody knows what its
    /// engine holds: all its records in the log count.
    pub fn unflushed(&self) -> BTreeSet<MemberId> {
        let keeping = self.0.members.lock().keeping(LogIndex::MAX);
        let carried = self.0.carried.lock();
        keeping.into_iter().map(|(member, _)| member).chain(carried.iter().map(|log| log.carrier.0)).collect()
    }

    /// Makes everything durable and refuses appends of all members from now on.
    ///
    /// # Errors
    /// The failure that fenced the log, unless all members hold everything in tables.
    pub async fn close(&self) -> Result<()> {
        let closed = self.0.log.close().await;
        if self.0.members.lock().keeping(LogIndex::MAX).is_empty() { Ok(()) } else { closed }
    }

    /// Has the keeper remember up to which place the log is durable by now. Call it now and then, and when the log is
    /// closed: if the log's files are lost, records behind that place are not missed.
    ///
    /// # Errors
    /// I/O: then fewer lost records would be noticed.
    pub async fn claim(&self) -> Result<()> {
        let (claim, claimed) = (self.0.claimable(), *self.0.claimed.lock());
        if claim == claimed { Ok(()) } else { self.0.hold(claim).await }
    }

    /// The claim that could be given to the keeper by now.
    pub fn claimable(&self) -> SharedClaim {
        self.0.claimable()
    }

    /// The findings of the opening, for all members together; indexes are places.
    pub fn recovery(&self) -> &Recovery {
        &self.0.recovery
    }

    /// Counters.
    pub fn stats(&self) -> SharedStats {
        let (members, cascades) = (self.0.members.lock().count(), self.0.cascades.lock().count);
        let carried = self.0.carried.lock().iter().map(|log| log.carrier).collect::<BTreeSet<_>>().len();
        SharedStats { log: self.0.log.stats(), members, cascades, carried }
    }
}

impl Shared {
    /// Removes the segments that nobody needs any more.
    async fn truncate(&self) -> Result<()> {
        let floor = {
            // Nobody appends under the lock of the members: no record up to `last` is missing from their runs.
            let members = self.members.lock();
            members.floor(self.log.progress().last)
        };
        if !self.log.would_truncate(floor) {
            return Ok(());
        }
        self.hold(SharedClaim { floor, ..self.claimable() }).await?;
        self.log.truncate(floor).await
    }

    /// Discards the records of `member` that the opening found: they are not to be given to it.
    async fn discard_sorted(&self, member: MemberId) {
        let taken = self.sorted.lock().take(member);
        if let Some(taken) = taken {
            taken.discard().await;
        }
    }

    /// The claim that is true by now.
    fn claimable(&self) -> SharedClaim {
        SharedClaim { floor: self.claimed.lock().floor, durable: self.log.progress().durable }
    }

    async fn hold(&self, claim: SharedClaim) -> Result<()> {
        // Records that nobody needs are as good as durable.
        let claim = SharedClaim { durable: claim.durable.max(claim.floor), ..claim };
        self.keeper.hold(claim).await?;
        let mut claimed = self.claimed.lock();
        *claimed = claimed.max(claim);
        Ok(())
    }

    /// Whether a full segment is durable and nobody remembers that: if the segment were lost, the log would seem to end
    /// before it.
    fn is_claim_due(&self) -> bool {
        let claimed = self.claimed.lock().durable;
        self.log.sealed().is_some_and(|sealed| sealed > claimed)
    }

    async fn maintain(&self) -> Result<()> {
        self.log.maintain().await?;
        match self.is_claim_due() {
            true => self.hold(self.claimable()).await,
            false => Ok(()),
        }
    }

    /// Goes on after a failure, if all members hold everything in tables.
    async fn replace(&self) -> Result<()> {
        let _turn = self.replacing.lock().await;
        if self.log.failure().is_none() {
            // Another member was first.
            return Ok(());
        }
        let last = {
            let members = self.members.lock();
            if let Some((member, _)) = members.keeping(LogIndex::MAX).first() {
                let message = format!("member {member} has not flushed all its records yet");
                return Err(Error::new(ErrorKind::Invalid, "replace", &self.dir, message));
            }
            self.log.progress().last
        };
        // The lost places leave a hole: the next opening has to begin behind it.
        self.hold(SharedClaim { floor: last, durable: last }).await?;
        self.log.replace(last).await
    }

    fn invalid(&self, member: MemberId, action: &'static str, message: &str) -> Error {
        Error::new(ErrorKind::Invalid, action, &self.dir, format!("member {member}: {message}"))
    }
}
