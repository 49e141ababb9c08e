//! The catalogue: which tenants there are, durably, and which partition directories are to be removed. Two copies of a
//! journal of edits, `catalogue/` and `catalogue.mirror/`; bytes in `docs/format/catalogue.md`.
//!
//! 1. An edit goes to the first copy; when it is durable there, to the mirror; when it is durable there, too, it
//!    counts.
//! 2. An opening needs both copies, and they must agree ([`survey`]): a copy that has lost something, or is an older
//!    copy of itself, is never believed.
//! 3. When making an edit durable failed, nobody knows which way a crash would decide. The next edit, or
//!    [`Catalogue::settle`], replaces the first copy's file by the state in memory, in which the failed edit did not
//!    happen. A crash believes the first copy. Until then the partitions that the edit would have given up are
//!    [in doubt](Catalogue::is_in_doubt), and only those: a crash may find them condemned.
//! 4. On a full disk an edit that stores nothing new draws on the [`Reserve`]: so tenants can be dropped. An edit that
//!    does not fit in there leaves it alone.
//! 5. Only what an edit has condemned is ever removed: never a directory that the catalogue does not mention.
//! 6. Numbers of tenants and partitions are never used twice: what a crash left of a dropped tenant can never be taken
//!    for something of a new one.

mod commit;
pub(crate) mod copy;
mod edit;
mod listings;
mod stamp;
pub(crate) mod survey;
mod users;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use weir_io::{ErrorKind, Fs, Result, Rng, Tag};
use weir_journal::Entry;

pub(crate) use self::commit::commit;
use self::copy::{CopyState, CopyWriter, Role};
pub use self::edit::{CatalogueEdit, Listing};
pub(crate) use self::edit::{
    has_databases, has_plain_engine, has_request_units, has_terms, put_databases, put_engine, put_listing, put_log,
    put_request_units, put_terms, take_databases, take_engine, take_listing, take_log, take_request_units, take_terms,
};
pub use self::listings::Listings;
pub use self::stamp::Stamp;
use self::survey::{Agreement, Survey};
use crate::reserve::Reserve;

/// The open catalogue: its state in memory, and the two copies of its journal.
pub struct Catalogue {
    listings: Listings,
    first: CopyWriter,
    mirror: CopyWriter,
    identity: u64,
    /// The last edit that was tried.
    epoch: u64,
    /// The stamp that is known to be durable in the mirror.
    confirmed: Stamp,
    /// An edit has failed, and the first copy may have it all the same. These are the partitions that it gave up.
    doubt: Option<BTreeSet<u32>>,
    reserve: Arc<Reserve>,
    /// Bytes of a snapshot, at most.
    bytes: u64,
    /// Condemned partitions whose directories are gone for good. The next edit says so. Until then they stay condemned,
    /// which costs nothing.
    removed: BTreeSet<u32>,
    /// For nonces and salts.
    rng: Rng,
}

impl Catalogue {
    /// Makes the catalogue of a new node in `dir`, durably. An interrupted start may have left files there.
    ///
    /// # Errors
    /// I/O.
    pub async fn create(fs: &Arc<dyn Fs>, dir: &Path, tag: Tag, mut rng: Rng) -> Result<Self> {
        for role in Role::ALL {
            fs.create_dir_all(&role.dir(dir), tag).await?;
        }
        fs.sync_dir(dir, tag).await?;
        let reserve = Reserve::new(fs, dir);
        let fs = &reserve.fs();
        let first = CopyWriter::new(fs, Role::First.dir(dir), None, tag, rng.next_u64()).await?;
        let mirror = CopyWriter::new(fs, Role::Mirror.dir(dir), None, tag, rng.next_u64()).await?;
        let (listings, confirmed, identity) = (Listings::empty(), Stamp::default(), rng.next_u64());
        let mut catalogue = Self {
            listings,
            first,
            mirror,
            identity,
            epoch: 0,
            confirmed,
            doubt: None,
            reserve,
            bytes: 0,
            removed: BTreeSet::new(),
            rng,
        };
        catalogue.commit(CatalogueEdit::default()).await?;
        catalogue.tidy().await;
        Ok(catalogue)
    }

    /// Opens the catalogue of the node in `dir`. Everything that it says is on the device when this returns. If the
    /// last process ended between the two copies of an edit, the mirror is brought up to date.
    ///
    /// # Errors
    /// `Corruption` where a copy is missing, damaged or not of the same age as the other: the file, and the command
    /// that repairs it. I/O.
    pub async fn open(fs: &Arc<dyn Fs>, dir: &Path, tag: Tag, mut rng: Rng) -> Result<Self> {
        let reserve = Reserve::new(fs, dir);
        let fs = &reserve.fs();
        let survey = Survey::take(fs, dir, tag).await;
        let (state, agreement) = survey.verdict(dir)?;
        let mirror = survey.mirror.as_ref().ok();
        let first = CopyWriter::new(fs, Role::First.dir(dir), Some(state), tag, rng.next_u64()).await?;
        let mirror = CopyWriter::new(fs, Role::Mirror.dir(dir), mirror, tag, rng.next_u64()).await?;
        first.sync().await?;
        let CopyState { identity, stamp, confirmed, listings, .. } = state.clone();
        let mut catalogue = Self {
            listings,
            first,
            mirror,
            identity,
            epoch: stamp.epoch,
            // Not the stamp that was read: the mirror was not synced, and a power cut may take back what it has beyond
            // this.
            confirmed: confirmed.unwrap_or_default(),
            doubt: None,
            reserve,
            bytes: 0,
            removed: BTreeSet::new(),
            rng,
        };
        catalogue.bytes = catalogue.listings.snapshot().encode().len() as u64;
        catalogue.reserve.cover(catalogue.bytes);
        if agreement == Agreement::MirrorLags {
            tracing::info!(
                edit = stamp.epoch,
                "the last process ended in the middle of an edit of the catalogue: completing the edit"
            );
            // As after a failed edit, but nothing in memory depends on the outcome. So reads need no room on the disk.
            catalogue.doubt = Some(BTreeSet::new());
            if let Err(error) = catalogue.settle().await {
                tracing::warn!(%error, "cannot complete the edit of the catalogue yet: the next change tries again");
                catalogue.doubt = None;
            }
        }
        catalogue.tidy().await;
        Ok(catalogue)
    }

    /// The tenants and partitions that it lists.
    pub fn listings(&self) -> &Listings {
        &self.listings
    }

    /// The space that is set aside for it.
    pub(crate) fn reserve(&self) -> &Arc<Reserve> {
        &self.reserve
    }

    /// Whether an edit has failed that a crash might find done and that gave partition `number` up. Writes that are
    /// acknowledged in that partition now would be lost.
    pub fn is_in_doubt(&self, number: u32) -> bool {
        self.doubt.as_ref().is_some_and(|numbers| numbers.contains(&number))
    }

    /// Makes `edit` durable in both copies. On a full disk, an edit that stores nothing new uses the space that is set
    /// aside.
    ///
    /// # Errors
    /// The edit has not happened as far as this process is concerned. What the next process would find is not known
    /// before [`Catalogue::settle`], or another edit, has succeeded.
    pub async fn commit(&mut self, mut edit: CatalogueEdit) -> Result<()> {
        edit.stamp = self.next_stamp();
        edit.removed.extend(&self.removed);
        let (given_up, may_draw) = (self.listings.given_up(&edit), !self.listings.is_growth(&edit));
        let was_in_doubt = self.doubt.is_some();
        // Before the first await: a caller that is dropped in the middle leaves the same doubt as an error.
        self.doubt.get_or_insert_default().extend(given_up);
        let mut next = None;
        for role in Role::ALL {
            let confirmed = (role == Role::First).then_some(self.confirmed);
            // A journal that may hold an edit that did not happen is not added to.
            if !was_in_doubt && !self.copy_mut(role).needs_roll() {
                let record = CatalogueEdit { confirmed, ..edit.clone() };
                match self.copy_mut(role).append(&record).await {
                    Ok(()) => continue,
                    // This journal has no room for it; a new one may have.
                    Err(error) if may_draw && error.kind() == ErrorKind::NoSpace => {}
                    Err(error) => return Err(error),
                }
            }
            let listings = next.get_or_insert_with(|| {
                let mut next = self.listings.clone();
                next.apply(edit.clone());
                next
            });
            let snapshot =
                CatalogueEdit { stamp: edit.stamp, confirmed, identity: Some(self.identity), ..listings.snapshot() };
            self.bytes = snapshot.encode().len() as u64;
            self.roll(role, &snapshot, may_draw).await?;
        }
        self.doubt = None;
        self.confirmed = edit.stamp;
        self.removed.retain(|number| !edit.removed.contains(number));
        self.bytes += edit.encode().len() as u64;
        self.reserve.cover(self.bytes);
        match next {
            Some(next) => self.listings = next,
            None => self.listings.apply(edit),
        }
        Ok(())
    }

    async fn roll(&mut self, role: Role, snapshot: &CatalogueEdit, may_draw: bool) -> Result<()> {
        match self.copy_mut(role).roll(snapshot).await {
            Err(error) if may_draw && error.kind() == ErrorKind::NoSpace && self.reserve.fits(self.bytes) => {
                tracing::warn!(
                    %error,
                    "the disk is full: the catalogue is written into the space that is set aside for it"
                );
                let _drawing = self.reserve.draw();
                self.copy_mut(role).roll(snapshot).await?;
            }
            rolled => return rolled,
        }
        if let Err(error) = self.reserve.fill().await {
            // Others wait for space, too, and may have taken what the old journal gave back for the next one. It is
            // tried again in the background.
            tracing::debug!(%error, "cannot set space aside for the catalogue again yet");
        }
        Ok(())
    }

    /// After a failed [`Catalogue::commit`]: makes sure that the edit did not happen. That is certain as soon as the
    /// first copy says so, because a crash believes that copy. The mirror follows with the next edit, if it cannot now.
    ///
    /// # Errors
    /// It is still not known whether the edit happened.
    pub async fn settle(&mut self) -> Result<()> {
        if self.doubt.is_none() {
            return Ok(());
        }
        match self.commit(CatalogueEdit::default()).await {
            Err(error) if self.first.was_rolled() => {
                tracing::warn!(
                    %error,
                    "cannot write the second copy of the catalogue yet: the next change tries again"
                );
                self.doubt = None;
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// The directories of these condemned partitions are gone, durably. The next edit says so.
    pub fn forget(&mut self, numbers: impl IntoIterator<Item = u32>) {
        self.removed.extend(numbers.into_iter().filter(|number| self.listings.condemned.contains(number)));
    }

    async fn tidy(&self) {
        for copy in [&self.first, &self.mirror] {
            if let Err(error) = copy.tidy().await {
                tracing::debug!(%error, "cannot remove old journals of the catalogue yet");
            }
        }
    }

    fn next_stamp(&mut self) -> Stamp {
        self.epoch += 1;
        Stamp { epoch: self.epoch, nonce: self.rng.next_u64() }
    }

    fn copy_mut(&mut self, role: Role) -> &mut CopyWriter {
        match role {
            Role::First => &mut self.first,
            Role::Mirror => &mut self.mirror,
        }
    }
}
