//! Batches the plain writes of several connections into one write to the store.
//!
//! A thread serves its connections that have requests one after the other, and each of them yields to the others before
//! it waits for its commit. What they have gathered by then is a *write group*. The member that resumes first leads the
//! group and hands it over to the store as a whole. The store takes its lock once, writes one record to the log, and
//! looks for the places of all keys together. The other members find that done. No member waits for another, and none
//! fails because of another's write. A group is split if the store does not take it at once, or if a member has left;
//! then each member writes its own part.
//!
//! A group belongs to one tenant and one thread. If connections of several tenants alternate, each change of tenant
//! begins a new group.

use std::mem;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_model::Batch;

/// Limits on the changes and bytes that one member may add. They are copied into the group, and a larger batch gains
/// little from being grouped.
const MEMBER_CHANGES_MAX: usize = 8;
const MEMBER_BYTES_MAX: usize = 2 << 10;
/// Limits on the changes and bytes of a whole group, because the store's lock is held once for all of them.
const GROUP_CHANGES_MAX: usize = 128;
const GROUP_BYTES_MAX: usize = 32 << 10;

/// How far a group has come.
enum Stage {
    /// Other connections may join it.
    Gathers,
    HandedOver,
    /// Each of its members writes its own part.
    Split,
}

/// The gathered writes of some connections. `C` is a commit.
struct WriteGroup<C> {
    tenant: u32,
    batch: Batch,
    members: usize,
    stage: Stage,
    /// Commits that members have not fetched yet, one for each of them.
    commits: Vec<C>,
}

impl<C> WriteGroup<C> {
    fn of(tenant: u32) -> Self {
        Self { tenant, batch: Batch::new(), members: 0, stage: Stage::Gathers, commits: Vec::new() }
    }

    /// Turns this group into a new one that reuses its memory.
    fn begin_again(&mut self, tenant: u32) {
        let (mut batch, mut commits) = (mem::take(&mut self.batch), mem::take(&mut self.commits));
        batch.clear();
        commits.clear();
        *self = Self { batch, commits, ..Self::of(tenant) };
    }

    fn has_room_for(&self, tenant: u32, batch: &Batch) -> bool {
        matches!(self.stage, Stage::Gathers)
            && self.tenant == tenant
            && self.batch.len() + batch.len() <= GROUP_CHANGES_MAX
            && self.batch.as_bytes().len() + batch.as_bytes().len() <= GROUP_BYTES_MAX
    }

    fn split(&mut self) {
        self.stage = Stage::Split;
        self.batch.clear();
    }
}

type Shared<C> = Arc<Mutex<WriteGroup<C>>>;

/// For each thread, the group that others may join.
pub(crate) struct WriteGroups<C>(Box<[Mutex<Option<Shared<C>>>]>);

impl<C> WriteGroups<C> {
    /// Groups for this many threads.
    pub(crate) fn new(threads: usize) -> Self {
        Self((0..threads).map(|_| Mutex::default()).collect())
    }

    /// Adds `batch`, which a connection of `tenant` has gathered, to the group of the calling `thread`. `None` if
    /// `batch` must be written by itself.
    pub(crate) fn join(&self, thread: usize, tenant: u32, batch: &Batch) -> Option<Member<C>> {
        if batch.is_empty() || batch.len() > MEMBER_CHANGES_MAX || batch.as_bytes().len() > MEMBER_BYTES_MAX {
            return None;
        }
        let mut place = self.0.get(thread)?.lock();
        let group = place.get_or_insert_with(|| Arc::new(Mutex::new(WriteGroup::of(tenant))));
        if let Some(group) = Arc::get_mut(group) {
            // No member of the old group is left.
            group.get_mut().begin_again(tenant);
        } else if !group.lock().has_room_for(tenant, batch) {
            *group = Arc::new(Mutex::new(WriteGroup::of(tenant)));
        }
        let mut joined = group.lock();
        batch.as_ref().iter().for_each(|change| joined.batch.push(change));
        joined.members += 1;
        drop(joined);
        Some(Member { group: Arc::clone(group), is_done: false })
    }
}

/// A connection's part in a group. If a member is dropped before its group was handed over, it has left the group, and
/// its part is not written.
pub(crate) struct Member<C> {
    group: Shared<C>,
    is_done: bool,
}

impl<C> Member<C> {
    /// Hands over the group, unless another member has done so. `write` gets the group's batch and the number of its
    /// members. It adds a commit for each member, or returns `false` if it has written nothing. `None`: nothing of the
    /// group was written, and each member must write its own part.
    pub(crate) fn hand_over(mut self, write: impl FnOnce(&Batch, usize, &mut Vec<C>) -> bool) -> Option<C> {
        self.is_done = true;
        let mut group = self.group.lock();
        let WriteGroup { batch, members, stage, commits, .. } = &mut *group;
        if let Stage::Gathers = stage {
            match write(batch, *members, commits) {
                true => *stage = Stage::HandedOver,
                false => group.split(),
            }
        }
        group.commits.pop()
    }
}

impl<C> Drop for Member<C> {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let mut group = self.group.lock();
        if let Stage::Gathers = group.stage {
            group.split();
        }
        let own = group.commits.pop();
        // What the commit keeps alive is dropped outside the lock.
        drop(group);
        drop(own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(key: &[u8]) -> Batch {
        let mut batch = Batch::new();
        batch.put(key, b"v");
        batch
    }

    /// Records the keys of the changes that were written, and gives each member its number as its commit.
    fn write(written: &mut Vec<Vec<u8>>) -> impl FnOnce(&Batch, usize, &mut Vec<usize>) -> bool {
        |batch, members, commits| {
            written.extend(batch.as_ref().iter().map(|change| change.key().to_vec()));
            commits.extend(0..members);
            true
        }
    }

    fn never(_: &Batch, _: usize, _: &mut Vec<usize>) -> bool {
        panic!("it is handed over once")
    }

    #[test]
    fn the_first_hands_over_for_all_and_each_has_a_commit() {
        let write_groups = WriteGroups::new(1);
        for round in 0..3 {
            let members: Vec<_> =
                [b"a", b"b", b"c"].map(|key| write_groups.join(0, 7, &batch(key)).expect("short")).into();
            let mut members = members.into_iter();
            let mut written = Vec::new();
            let first = members.next().expect("three").hand_over(write(&mut written));
            assert_eq!(written, [b"a", b"b", b"c"], "round {round}");
            // The first group is handed over, so whoever comes now is in another one.
            let late = write_groups.join(0, 7, &batch(b"d")).expect("short");
            let rest = members.map(|member| member.hand_over(never));
            let mut commits: Vec<_> = [first].into_iter().chain(rest).map(|commit| commit.expect("one each")).collect();
            commits.sort_unstable();
            assert_eq!(commits, [0, 1, 2]);
            written.clear();
            assert_eq!(late.hand_over(write(&mut written)), Some(0));
            assert_eq!(written, [b"d"]);
        }
    }

    #[test]
    fn what_is_refused_or_left_is_written_by_each() {
        let write_groups = WriteGroups::<usize>::new(1);
        let join = || write_groups.join(0, 7, &batch(b"k")).expect("short");
        let (one, other) = (join(), join());
        assert_eq!(one.hand_over(|_, _, _| false), None);
        assert_eq!(other.hand_over(never), None);

        let (one, other) = (join(), join());
        drop(one);
        assert_eq!(other.hand_over(never), None);
    }

    #[test]
    fn who_leaves_when_it_is_handed_over_takes_his_commit_along_and_no_other() {
        let write_groups = WriteGroups::<Arc<()>>::new(1);
        let commit = Arc::new(());
        let [one, two, three] = [b"a", b"b", b"c"].map(|key| write_groups.join(0, 7, &batch(key)).expect("short"));
        let first = one.hand_over(|_, members, commits| {
            commits.extend((0..members).map(|_| Arc::clone(&commit)));
            true
        });
        drop(two);
        assert!(first.is_some() && three.hand_over(|_, _, _| panic!("it is handed over once")).is_some());
        drop(first);
        assert_eq!(Arc::strong_count(&commit), 1, "nothing is kept");
    }

    #[test]
    fn tenants_and_threads_have_their_own_and_what_is_long_goes_alone() {
        let write_groups = WriteGroups::new(2);
        let members = [(0, 7), (0, 8), (1, 7), (0, 7)].map(|(thread, tenant)| {
            write_groups.join(thread, tenant, &batch(&[thread as u8, tenant as u8])).expect("short")
        });
        for (member, wanted) in members.into_iter().zip([[0_u8, 7], [0, 8], [1, 7], [0, 7]]) {
            let mut written = Vec::new();
            assert_eq!(member.hand_over(write(&mut written)), Some(0));
            assert_eq!(written, [wanted]);
        }
        assert!(write_groups.join(0, 7, &Batch::new()).is_none());
        assert!(write_groups.join(0, 7, &batch(&[0; MEMBER_BYTES_MAX])).is_none());
        let mut many = Batch::new();
        (0..=MEMBER_CHANGES_MAX).for_each(|_| many.put(b"k", b"v"));
        assert!(write_groups.join(0, 7, &many).is_none());
        assert!(write_groups.join(2, 7, &batch(b"k")).is_none(), "no such thread");
    }

    #[test]
    fn a_group_is_bounded() {
        let write_groups = WriteGroups::new(1);
        for (key_bytes, most) in [(1, GROUP_CHANGES_MAX), (1000, GROUP_BYTES_MAX / 1000)] {
            let members: Vec<_> =
                (0..200).map(|_| write_groups.join(0, 7, &batch(&vec![0; key_bytes])).expect("short")).collect();
            let mut sizes = Vec::new();
            for member in members {
                let commit = member.hand_over(|_, members, commits| {
                    sizes.push(members);
                    commits.extend(0..members);
                    true
                });
                assert!(commit.is_some());
            }
            assert_eq!(sizes.iter().sum::<usize>(), 200);
            assert!(sizes.len() > 1 && sizes.iter().all(|&size| size <= most), "{sizes:?}");
        }
    }
}
