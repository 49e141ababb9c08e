//! Backups: a tenant's partitions copied while they serve, verified, and made a tenant again. `docs/format/backup.md`.
//!
//! - Each partition is copied as it was at one moment: its memtable is flushed, the tables of that moment are held and copied. A
//!   hold keeps files, not writers: the tenant serves meanwhile, and compactions go on.
//! - The manifest is written last. A backup without one was broken off.
//! - A restore copies under partition numbers that are reserved but belong to nobody; one edit of the catalogue then makes them a
//!   tenant. What a crash leaves before that is removed at the next start, like anything the catalogue does not name.

mod copy;
mod manifest;

use std::path::Path;
use std::sync::Arc;

use weir_io::{Error, ErrorKind, Fs, Owner, Result, Tag};
use weir_lsm::version::journal::Journal;
use weir_model::{TenantId, TenantName};

use self::copy::{content, copy};
use self::manifest::{BackupFile, BackupManifest, partition_name};
use crate::carried::carried;
use crate::catalogue::{CatalogueEdit, Listing};
use crate::layout;
use crate::node::{Node, commit};
use crate::shared::NodeShared;
use crate::tenant::{StoredSecret, Tenant};

/// What is in a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupReport {
    /// The tenant it was made of.
    pub tenant: TenantName,
    /// Its partitions.
    pub partitions: usize,
    /// Files, the manifest not counted.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl BackupReport {
    fn of(manifest: &BackupManifest) -> Self {
        let files = || manifest.partitions.iter().flatten();
        Self {
            tenant: manifest.tenant.name.clone(),
            partitions: manifest.partitions.len(),
            files: files().count() as u64,
            bytes: files().map(|file| file.content.bytes).sum(),
        }
    }
}

impl Node {
    /// Copies the tenant called `name` into the directory `to`, which is new or empty, while it is served. Everything acknowledged before
    /// this was called is in it; each partition is as it was at one moment.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` if `to` is no directory for a backup; I/O; `Closed` if the tenant was dropped or emptied meanwhile. What
    /// was written before an error stays, without a manifest.
    pub async fn backup(&self, name: &TenantName, to: &Path) -> Result<BackupReport> {
        let tenant = self.tenant(name).ok_or_else(|| unknown(name))?;
        let (shared, to) = (Arc::clone(self.shared()), to.to_path_buf());
        carried(&Arc::clone(&shared.workers), async move {
            check_target(&shared, &to).await?;
            let mut partitions = Vec::new();
            for index in 0..tenant.partitions().len() {
                partitions.push(back_up_partition(&shared, &tenant, index, &to).await?);
            }
            let numbers = tenant.partitions().iter().map(|home| home.owner().partition).collect();
            let mut settings = (*tenant.settings()).clone();
            settings.secret = None;
            let manifest = BackupManifest { tenant: tenant.listing(numbers, settings), partitions };
            shared.own_fs.sync_dir(&to, layout::TAG).await?;
            Journal::create(&shared.own_fs, &to, layout::TAG, 1, &manifest).await?;
            Ok(BackupReport::of(&manifest))
        })
        .await
    }

    /// Makes a tenant called `name` of the backup in `from`, with the limits that it had and with `secret`. It is there as a whole, and
    /// durable, when this returns; before that it is not there at all.
    ///
    /// # Errors
    /// `AlreadyExists`; `Corruption` if the backup is damaged, with the file; `NotFound` if it is none; I/O.
    pub async fn restore(&self, from: &Path, name: TenantName, secret: Option<StoredSecret>) -> Result<Arc<Tenant>> {
        let (shared, tenants, from) = (Arc::clone(self.shared()), Arc::clone(self.all_tenants()), from.to_path_buf());
        carried(&Arc::clone(&shared.workers), async move {
            let manifest = read(&shared.own_fs, &from).await?;
            let taken =
                || Error::new(ErrorKind::AlreadyExists, "restore", name.as_str(), "there is a tenant of that name");
            if tenants.read().has(&name) {
                return Err(taken());
            }
            let (id, numbers) = reserve(&shared, manifest.partitions.len()).await?;
            let restored = async {
                for (index, &partition) in numbers.iter().enumerate() {
                    let owner = Owner { tenant: id.0, partition };
                    restore_partition(&shared, &from.join(partition_name(index)), &manifest.partitions[index], owner)
                        .await?;
                }
                let mut settings = manifest.tenant.settings.clone();
                settings.secret = secret;
                let listing = Listing { id, name: name.clone(), partitions: numbers.clone(), settings };
                let mut catalogue = shared.catalogue.lock().await;
                // Somebody may have been faster while we copied.
                if tenants.read().has(&name) {
                    return Err(taken());
                }
                let edit =
                    CatalogueEdit { put: vec![listing.clone()], used: numbers.clone(), ..CatalogueEdit::default() };
                commit(&shared, &mut catalogue, edit).await?;
                let tenant = Tenant::new(&shared, listing);
                tenants.write().insert(Arc::clone(&tenant));
                Ok(tenant)
            };
            let outcome = restored.await;
            for &partition in &numbers {
                // The partition's account opens again when it is first used.
                shared.ledger.close(Owner { tenant: id.0, partition });
            }
            if outcome.is_err() {
                shared.ledger.forget(id.0);
                shared.remove_partitions(numbers);
            }
            outcome
        })
        .await
    }
}

/// Reads everything in the backup in `dir` and verifies every checksum, those inside the tables included. Changes nothing.
///
/// # Errors
/// `NotFound` if it is none, `Corruption` with the file that is damaged, I/O.
pub async fn verify(fs: &Arc<dyn Fs>, dir: &Path) -> Result<BackupReport> {
    let manifest = read(fs, dir).await?;
    for (index, files) in manifest.partitions.iter().enumerate() {
        let part = dir.join(partition_name(index));
        for file in files {
            let path = part.join(&file.name);
            compare(&path, file, content(fs, &path, layout::TAG).await?)?;
        }
        let report = weir_lsm::check::check(fs, &part, |_, _| ()).await?;
        if let Some(problem) = report.problems.into_iter().next() {
            return Err(problem);
        }
    }
    Ok(BackupReport::of(&manifest))
}

async fn read(fs: &Arc<dyn Fs>, dir: &Path) -> Result<BackupManifest> {
    let found = Journal::<BackupManifest>::recover(fs, dir, layout::TAG).await?;
    let none = || Error::new(ErrorKind::NotFound, "read", dir, "there is no finished backup here (no CURRENT)");
    let found = found.ok_or_else(none)?;
    let [manifest] = <[BackupManifest; 1]>::try_from(found.edits).map_err(|edits| {
        Error::corruption(dir, 0, format!("its manifest has {} records instead of one", edits.len()))
    })?;
    Ok(manifest)
}

fn compare(path: &Path, file: &BackupFile, found: copy::Content) -> Result<()> {
    if found == file.content {
        return Ok(());
    }
    let message = format!(
        "{} bytes with checksum {:08x}; the backup was made of {} bytes with checksum {:08x}",
        found.bytes, found.crc, file.content.bytes, file.content.crc
    );
    Err(Error::corruption(path, 0, message))
}

/// Makes the directory of a backup; it must be empty, and outside of the data.
async fn check_target(shared: &NodeShared, to: &Path) -> Result<()> {
    let invalid = |message: &str| Error::new(ErrorKind::Invalid, "back up to", to, message);
    if !to.is_absolute() || to.components().any(|part| part == std::path::Component::ParentDir) {
        return Err(invalid("an absolute path without `..` is needed"));
    }
    let data = std::path::absolute(&shared.config.dir).unwrap_or_else(|_| shared.config.dir.clone());
    if to.starts_with(&data) {
        return Err(invalid("that is inside the data directory, where the server removes what it does not know"));
    }
    layout::create_dir(&shared.own_fs, to).await?;
    match shared.own_fs.list(to, layout::TAG).await?.is_empty() {
        true => Ok(()),
        false => Err(invalid("it is not empty: choose a new directory for each backup")),
    }
}

async fn back_up_partition(shared: &NodeShared, tenant: &Tenant, index: usize, to: &Path) -> Result<Vec<BackupFile>> {
    let home = &tenant.partitions()[index];
    let partition = home.partition().await?;
    let held = partition.flush_and_hold().await?;
    let (fs, tag) = (held.fs(), held.tag());
    let part = to.join(partition_name(index));
    fs.create_dir_all(&part, tag).await?;
    let mut files = Vec::new();
    for name in held.tables() {
        let copied = copy(fs, &held.dir().join(&name), &part.join(&name), tag).await;
        // The partition was closed: a hold does not outlive that.
        let gone = |error: Error| match error.kind() {
            ErrorKind::NotFound if !home.has(&partition) => Error::new(
                ErrorKind::Closed,
                "back up",
                tenant.name().as_str(),
                "it was emptied, dropped or put to sleep meanwhile: try again",
            ),
            _ => error,
        };
        files.push(BackupFile { name, content: copied.map_err(gone)? });
    }
    held.write_manifest(&part).await?;
    for entry in fs.list(&part, tag).await? {
        if !entry.name.ends_with(".sst") {
            let content = content(fs, &part.join(&entry.name), tag).await?;
            files.push(BackupFile { name: entry.name, content });
        }
    }
    fs.sync_dir(&part, tag).await?;
    tracing::debug!(tenant = %tenant.name(), index, files = files.len(), "backed up a partition");
    drop(held);
    if let Err(error) = partition.tree().tidy().await {
        // The partition's own tick tries again.
        tracing::debug!(node = %shared.config.dir.display(), %error, "cannot remove unneeded files yet");
    }
    Ok(files)
}

/// Numbers for a tenant and `count` partitions, durably taken: whatever happens, nobody else gets them.
async fn reserve(shared: &NodeShared, count: usize) -> Result<(TenantId, Vec<u32>)> {
    let mut catalogue = shared.catalogue.lock().await;
    let (id, first) = (catalogue.listings().next_tenant, catalogue.listings().next_partition);
    let next = u32::try_from(count).ok().and_then(|count| first.checked_add(count));
    let (next_tenant, next_partition) = id.checked_add(1).zip(next).ok_or_else(|| {
        Error::new(ErrorKind::Invalid, "restore", "the tenant", "four billion numbers have been used up")
    })?;
    let (next_tenant, next_partition) = (Some(next_tenant), Some(next_partition));
    commit(shared, &mut catalogue, CatalogueEdit { next_tenant, next_partition, ..CatalogueEdit::default() }).await?;
    Ok((TenantId(id), (first..first + count as u32).collect()))
}

async fn restore_partition(shared: &NodeShared, from: &Path, files: &[BackupFile], owner: Owner) -> Result<()> {
    let fs = shared.booked_to(owner);
    let tag = Tag::new(owner, weir_io::Class::Maintenance);
    let own = layout::partition_dir(&shared.own_fs, &shared.config.dir, owner.partition).await?;
    let tree = own.join("tree");
    fs.create_dir_all(&tree, tag).await?;
    for file in files {
        let (source, target) = (from.join(&file.name), tree.join(&file.name));
        compare(&source, file, copy(&fs, &source, &target, tag).await?)?;
    }
    fs.sync_dir(&tree, tag).await?;
    fs.sync_dir(&own, tag).await
}

fn unknown(name: &TenantName) -> Error {
    Error::new(ErrorKind::NotFound, "find tenant", name.as_str(), "there is no tenant of that name")
}
