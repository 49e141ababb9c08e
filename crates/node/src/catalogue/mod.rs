//! The catalogue: which tenants there are, durably. A journal of edits in `catalogue/`; bytes in `docs/format/catalogue.md`.
//!
//! - An edit counts once it is durable. When making it durable failed, nobody knows which way a crash would decide; the next edit, or
//!   [`Catalogue::settle`], replaces the file by what is in memory, where the failed edit did not happen.
//! - Numbers of tenants and partitions are never used twice: what a crash left of a dropped tenant can never be taken for something
//!   of a new one.

mod edit;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_io::{Error, Fs, Result, Tag};
use weir_lsm::version::journal::{self, Journal};
use weir_model::TenantId;

pub use self::edit::{CatalogueEdit, Listing};
pub(crate) use self::edit::{put_listing, take_listing};

/// The tenants, and the numbers that are free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listings {
    /// By number.
    pub tenants: BTreeMap<TenantId, Listing>,
    /// First tenant number never used.
    pub next_tenant: u32,
    /// First partition number never used.
    pub next_partition: u32,
    /// The partitions that have been opened once, and so have files.
    pub used: BTreeSet<u32>,
}

impl Listings {
    fn empty() -> Self {
        // 0 is the node itself.
        Self { next_tenant: 1, next_partition: 1, ..Self::default() }
    }

    /// The edit that makes these listings of nothing.
    fn snapshot(&self) -> CatalogueEdit {
        CatalogueEdit {
            next_tenant: Some(self.next_tenant),
            next_partition: Some(self.next_partition),
            put: self.tenants.values().cloned().collect(),
            removed: Vec::new(),
            used: self.used.iter().copied().collect(),
        }
    }

    fn apply(&mut self, edit: CatalogueEdit) {
        self.next_tenant = edit.next_tenant.unwrap_or(self.next_tenant);
        self.next_partition = edit.next_partition.unwrap_or(self.next_partition);
        for id in edit.removed {
            for number in self.tenants.remove(&id).into_iter().flat_map(|listing| listing.partitions) {
                self.used.remove(&number);
            }
        }
        for listing in edit.put {
            let partitions = listing.partitions.clone();
            let old = self.tenants.insert(listing.id, listing).map(|old| old.partitions).unwrap_or_default();
            if old != partitions {
                self.used.retain(|number| !old.contains(number) || partitions.contains(number));
            }
        }
        self.used.extend(edit.used);
    }

    /// What cannot be, if anything: a name, a tenant or a partition twice, or a number that is said to be free.
    fn fault(&self) -> Option<String> {
        let (mut names, mut partitions) = (BTreeSet::new(), BTreeSet::new());
        for listing in self.tenants.values() {
            if !names.insert(&listing.name) {
                return Some(format!("two tenants are called {}", listing.name));
            }
            if listing.id.0 == 0 || listing.id.0 >= self.next_tenant {
                return Some(format!("tenant {} has number {}", listing.name, listing.id.0));
            }
            for &number in &listing.partitions {
                if number == 0 || number >= self.next_partition || !partitions.insert(number) {
                    return Some(format!("tenant {} has partition {number}", listing.name));
                }
            }
        }
        if let Some(number) = self.used.difference(&partitions).next() {
            return Some(format!("partition {number} is used, and nobody's"));
        }
        None
    }

    /// The numbers of all partitions.
    pub fn partitions(&self) -> BTreeSet<u32> {
        self.tenants.values().flat_map(|listing| &listing.partitions).copied().collect()
    }
}

/// See the module.
pub struct Catalogue {
    listings: Listings,
    journal: Journal<CatalogueEdit>,
    /// First file number never used, not even by an attempt that failed.
    next_file: u64,
    fs: Arc<dyn Fs>,
    tag: Tag,
}

/// The directory of the catalogue of the node in `dir`.
fn catalogue_dir(dir: &Path) -> PathBuf {
    dir.join("catalogue")
}

impl Catalogue {
    /// What the catalogue of the node in `dir` says, and the number of its file; `None` if there is no catalogue. Changes nothing.
    ///
    /// # Errors
    /// `Corruption`, with file and offset.
    pub async fn read(fs: &Arc<dyn Fs>, dir: &Path, tag: Tag) -> Result<Option<(Listings, u64)>> {
        let dir = catalogue_dir(dir);
        let Some(recovered) = Journal::<CatalogueEdit>::recover(fs, &dir, tag).await? else { return Ok(None) };
        let mut listings = Listings::empty();
        recovered.edits.into_iter().for_each(|edit| listings.apply(edit));
        match listings.fault() {
            Some(fault) => {
                Err(Error::corruption(dir.join(journal::file_name::<CatalogueEdit>(recovered.number)), 0, fault))
            }
            None => Ok(Some((listings, recovered.number))),
        }
    }

    /// Opens the catalogue of the node in `dir`, durably made if it is missing. What it says is on the device when this returns, so that
    /// what it does not name may be removed.
    ///
    /// # Errors
    /// As [`Catalogue::read`].
    pub async fn open(fs: &Arc<dyn Fs>, dir: &Path, tag: Tag) -> Result<Self> {
        let own = catalogue_dir(dir);
        fs.create_dir_all(&own, tag).await?;
        fs.sync_dir(dir, tag).await?;
        let (listings, journal) = match Self::read(fs, dir, tag).await? {
            Some((listings, number)) => {
                let journal = Journal::resume(fs, &own, tag, number).await?;
                let current = journal::file_name::<CatalogueEdit>(number);
                for entry in fs.list(&own, tag).await? {
                    if entry.name != "CURRENT" && entry.name != current {
                        fs.remove(&own.join(entry.name), tag).await?;
                    }
                }
                (listings, journal)
            }
            None => {
                // A crash may have left the first file without its CURRENT.
                for entry in fs.list(&own, tag).await? {
                    fs.remove(&own.join(entry.name), tag).await?;
                }
                let listings = Listings::empty();
                let journal = Journal::create(fs, &own, tag, 1, &listings.snapshot()).await?;
                (listings, journal)
            }
        };
        let next_file = journal.number() + 1;
        Ok(Self { listings, journal, next_file, fs: Arc::clone(fs), tag })
    }

    /// What it says.
    pub fn listings(&self) -> &Listings {
        &self.listings
    }

    /// Makes `edit` durable.
    ///
    /// # Errors
    /// It has not happened as far as this process is concerned. What the next one would find is not known before
    /// [`Catalogue::settle`], or another edit, has succeeded.
    pub async fn commit(&mut self, edit: CatalogueEdit) -> Result<()> {
        if !self.journal.needs_roll() {
            self.journal.append(&edit).await?;
            self.listings.apply(edit);
            return Ok(());
        }
        let mut listings = self.listings.clone();
        listings.apply(edit);
        self.roll(&listings).await?;
        self.listings = listings;
        Ok(())
    }

    /// After a failed [`Catalogue::commit`]: makes sure that it did not happen.
    pub async fn settle(&mut self) -> Result<()> {
        if !self.journal.needs_roll() {
            return Ok(());
        }
        let listings = self.listings.clone();
        self.roll(&listings).await
    }

    async fn roll(&mut self, listings: &Listings) -> Result<()> {
        let number = self.next_file;
        self.next_file += 1;
        let old = self.journal.roll(number, &listings.snapshot()).await?;
        // What cannot be removed now is removed at the next opening.
        if let Err(error) = self.fs.remove(&old, self.tag).await {
            tracing::debug!(%error, "cannot remove the old catalogue yet");
        }
        Ok(())
    }
}
