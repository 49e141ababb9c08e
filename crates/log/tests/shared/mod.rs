//! A log that several members share: the guarantees for each of them.

mod carry;
mod cascade;
mod crash;
mod failure;
mod identity;
mod late;
mod lost;
mod members;
mod sorted;

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_io::sim::SimFs;
use weir_io::{BoxFuture, Fs, Op, Owner, Result, Rng};
use weir_log::{
    ClaimKeeper, LogAnchor, LogIndex, LogOptions, MemberId, MemberLog, MemberOpening, SharedClaim, SharedLog,
    SharedOptions, SyncMode, WriteAheadLog,
};

use crate::common::{DIR, Promises, check_records, options, payload};

/// Small enough for a test to reach it.
pub const CAP_BYTES: u64 = 128 << 10;

/// The guarantees at some moment. A persisted index is durable when it is noted here.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// The last claim.
    pub claim: SharedClaim,
    /// The promises to each member.
    pub members: Vec<Promises>,
}

/// A group that is used by tasks and by the hook of a disk.
#[derive(Clone, Default)]
pub struct SharedGroup(pub Arc<Mutex<Group>>);

impl SharedGroup {
    /// A group of `members` members that have written nothing.
    pub fn of(members: usize) -> Self {
        Self(Arc::new(Mutex::new(Group { claim: SharedClaim::default(), members: vec![Promises::default(); members] })))
    }
}

impl ClaimKeeper for SharedGroup {
    fn hold(&self, claim: SharedClaim) -> BoxFuture<Result<()>> {
        let group = self.clone();
        Box::pin(async move {
            let mut group = group.0.lock();
            group.claim = group.claim.max(claim);
            Ok(())
        })
    }
}

/// A keeper of the claim alone.
#[derive(Default)]
pub struct Claimed(pub Mutex<SharedClaim>);

impl ClaimKeeper for Claimed {
    fn hold(&self, claim: SharedClaim) -> BoxFuture<Result<()>> {
        let mut held = self.0.lock();
        *held = held.max(claim);
        Box::pin(async { Ok(()) })
    }
}

/// The identity of a member that exists.
pub fn identity(member: usize) -> u64 {
    1_000 + member as u64
}

/// Opens the log on the disk, where the members up to `exist` exist.
pub async fn open(fs: &Arc<SimFs>, sync: SyncMode, group: &SharedGroup, salt: u64, exist: usize) -> Result<SharedLog> {
    let SharedClaim { floor, durable } = group.0.lock().claim;
    let fs: Arc<dyn Fs> = Arc::clone(fs) as Arc<dyn Fs>;
    let log = LogOptions { anchor: LogAnchor { identity: 0, durable }, ..options(sync, salt) };
    let options = SharedOptions { log, cap_bytes: CAP_BYTES };
    let exists = move |member: MemberId| (member as usize) < exist;
    SharedLog::open(fs, Path::new(DIR), options, floor, &exists, Arc::new(group.clone())).await
}

/// Opens a member, and checks the records it is given: a prefix of the appended ones, with everything promised. From
/// here on that prefix is noted as what it has appended.
pub async fn open_member(log: &SharedLog, sync: SyncMode, group: &SharedGroup, member: usize) -> Result<MemberLog> {
    let promises = group.0.lock().members[member].clone();
    let promised = match sync {
        SyncMode::Always => promises.acknowledged.max(promises.synced),
        SyncMode::Interval | SyncMode::None => promises.synced,
    };
    let mut records = Vec::new();
    let mut replay = |index, payload: &[u8]| {
        records.push((index, payload.to_vec()));
        Op::ready(Ok(()))
    };
    let opening = MemberOpening {
        member: member as MemberId,
        identity: identity(member),
        owner: Owner::default(),
        persisted: promises.persisted,
        durable: promised,
    };
    let (handle, recovery) = log.member(opening, &mut replay).await?;
    let last = check_records(&records, &promises);
    assert_eq!((recovery.last, handle.last()), (last, last), "member {member}");
    assert!(last >= promised, "member {member}: recovered up to {last}, promised up to {promised}");
    let promises = &mut group.0.lock().members[member];
    promises.appended.truncate(last as usize);
    (promises.acknowledged, promises.synced) = (last, last);
    Ok(handle)
}

/// All members of the group.
pub async fn open_members(log: &SharedLog, sync: SyncMode, group: &SharedGroup) -> Result<Vec<MemberLog>> {
    let count = group.0.lock().members.len();
    let mut members = Vec::new();
    for member in 0..count {
        members.push(open_member(log, sync, group, member).await?);
    }
    Ok(members)
}

/// Appends one record, mostly a small one, and books its acknowledgement.
pub async fn write_one(log: &MemberLog, group: &SharedGroup, rng: &mut Rng) -> Result<()> {
    write(log, group, |index| payload(index, rng)).await
}

/// The same for a record that `payload` makes from its index.
pub async fn write(log: &MemberLog, group: &SharedGroup, payload: impl FnOnce(LogIndex) -> Vec<u8>) -> Result<()> {
    let member = log.member() as usize;
    let index = {
        // The lock stands for the partition's write order.
        let promises = &mut group.0.lock().members[member];
        let bytes = payload(promises.appended.len() as u64 + 1);
        let index = log.append(&bytes)?;
        promises.appended.push(bytes);
        assert_eq!(index, promises.appended.len() as u64, "indexes are a member's own");
        index
    };
    log.commit(index).await?;
    let promises = &mut group.0.lock().members[member];
    promises.acknowledged = promises.acknowledged.max(index);
    Ok(())
}

/// The members that have to flush.
pub fn named(log: &SharedLog) -> Vec<MemberId> {
    log.cascade().into_iter().map(|(member, _)| member).collect()
}

/// The engine of `log` holds everything that was appended.
pub async fn flush(log: &MemberLog, group: &SharedGroup) -> Result<()> {
    let persisted = {
        let promises = &mut group.0.lock().members[log.member() as usize];
        promises.persisted = promises.appended.len() as u64;
        promises.persisted
    };
    log.truncate(persisted).await
}
