//! Backups: a tenant's partitions copied while they serve, verified, and restored as a tenant. See
//! `docs/format/backup.md`.
//!
//! - Each partition is copied as it was at one moment: its memtable is flushed, and the tables of that moment are held
//!   and copied. A hold keeps files and does not stop writers: the tenant serves meanwhile, and compactions go on.
//! - A backup claims its directory ([`target`]): of several backups into one directory, one goes on.
//! - The manifest is written last. A backup without one was interrupted.
//! - A restore copies under partition numbers that are reserved and condemned; one edit of the catalogue then gives
//!   them to a tenant. What a crash leaves before that is removed at the next start, like everything that the catalogue
//!   has condemned.

mod copy;
mod manifest;
mod target;

use std::path::Path;
use std::sync::Arc;

use weir_io::{Error, ErrorKind, Fs, Owner, Result, Tag};
use weir_journal::Journal;
use weir_model::{TenantId, TenantName};

use self::copy::{content, copy};
use self::manifest::{BackupFile, BackupManifest, partition_name};
use self::target::BackupTarget;
use crate::carried::carried;
use crate::catalogue::{CatalogueEdit, Listing, commit};
use crate::engines::offline;
use crate::layout;
use crate::node::Node;
use crate::partition::Partition;
use crate::partition::anchor::{self, AnchorClaim};
use crate::shared::NodeShared;
use crate::tenant::{StoredSecret, Tenant};

/// The contents of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupReport {
    /// The tenant it was made of.
    pub tenant: TenantName,
    /// Its partitions.
    pub partitions: usize,
    /// Files, not counting the manifest.
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
    /// Copies the tenant called `name` into the directory `to`, which is new or empty, while the tenant is served. The
    /// backup has everything acknowledged before this was called; each partition is as it was at one moment. The
    /// directory is this backup's alone while it is made. When this returns, the files in it have been checked: names
    /// and lengths, not yet the checksums ([`verify`]).
    ///
    /// # Errors
    /// `NotFound`; `Invalid` if `to` is no directory for a backup; `AlreadyExists` if something is in it; `Locked` if
    /// another backup into it is being made; I/O; `Closed` if the tenant was dropped or emptied meanwhile, or two of
    /// its databases were swapped. What was written before an error is removed. A crash leaves it, without a manifest.
    pub async fn backup(&self, name: &TenantName, to: &Path) -> Result<BackupReport> {
        let tenant = self.tenant(name).ok_or_else(|| unknown(name))?;
        let (shared, to) = (Arc::clone(self.shared()), to.to_path_buf());
        carried(&Arc::clone(&shared.machine.spawn), async move {
            let target = BackupTarget::claim(&shared.own_fs, &shared.config.dir, &to).await?;
            match fill(&shared, &tenant, target.path()).await {
                Ok(report) => {
                    target.finish().await;
                    Ok(report)
                }
                Err(error) => {
                    target.clear().await;
                    Err(error)
                }
            }
        })
        .await
    }

    /// Makes a tenant called `name` from the backup in `from`, with the limits that it had and with `secret`. When this
    /// returns, the tenant exists as a whole, and durably; before that it does not exist at all.
    ///
    /// # Errors
    /// `AlreadyExists`; `Corruption` if the backup is damaged, with the file; `NotFound` if it is none; `Invalid` if
    /// `from` is no absolute path; I/O.
    pub async fn restore(&self, from: &Path, name: TenantName, secret: Option<StoredSecret>) -> Result<Arc<Tenant>> {
        let (shared, tenants, from) = (Arc::clone(self.shared()), Arc::clone(self.all_tenants()), from.to_path_buf());
        carried(&Arc::clone(&shared.machine.spawn), async move {
            let from = target::real(&shared.own_fs, &from).await?;
            let manifest = read(&shared.own_fs, &from).await?;
            let taken = || {
                Error::new(
                    ErrorKind::AlreadyExists,
                    "restore",
                    name.as_str(),
                    "a tenant of that name exists already: choose another name",
                )
            };
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
                // Its shares are not checked against the others': a tenant that was lost must come back, also where
                // others were promised more since the backup. Promises that cannot be kept are counted and logged.
                let mut settings = manifest.tenant.settings.clone();
                settings.secret = secret;
                let Listing { engine, log, databases, .. } = manifest.tenant;
                let partitions = numbers.clone();
                let listing = Listing { id, name: name.clone(), partitions, engine, log, databases, settings };
                let mut catalogue = shared.catalogue.lock().await;
                // Somebody else may have made the tenant while we copied.
                if tenants.read().has(&name) {
                    return Err(taken());
                }
                let edit =
                    CatalogueEdit { put: vec![listing.clone()], used: numbers.clone(), ..CatalogueEdit::default() };
                commit(&mut catalogue, edit).await?;
                let tenant = Tenant::new(&shared, listing, &numbers.iter().copied().collect());
                tenants.write().insert(Arc::clone(&tenant));
                Ok(tenant)
            };
            let outcome = restored.await;
            for &partition in &numbers {
                // The partition's account opens again when the partition is first used.
                shared.ledger.close(Owner { tenant: id.0, partition });
            }
            if outcome.is_err() {
                shared.ledger.forget(id.0);
                shared.terms.forget(id);
                // Not while a crash might find the tenant there after all. Then the next opening removes the
                // directories, or keeps them.
                if shared.catalogue.lock().await.settle().await.is_ok() {
                    shared.remove_partitions(numbers);
                }
            }
            outcome
        })
        .await
    }
}

/// Reads everything in the backup in `dir` and verifies every checksum, including those inside the tables. Changes
/// nothing.
///
/// # Errors
/// `NotFound` if there is no backup, `Corruption` with the file that is damaged, I/O.
pub async fn verify(fs: &Arc<dyn Fs>, dir: &Path) -> Result<BackupReport> {
    let manifest = read(fs, dir).await?;
    for (index, files) in manifest.partitions.iter().enumerate() {
        let part = dir.join(partition_name(index));
        for file in files {
            let path = part.join(&file.name);
            compare(&path, file, content(fs, &path, layout::TAG).await?)?;
        }
        let report = offline::check(fs, &part, |_, _| ()).await?;
        if let Some(problem) = report.problems.into_iter().next() {
            return Err(problem);
        }
    }
    Ok(BackupReport::of(&manifest))
}

async fn read(fs: &Arc<dyn Fs>, dir: &Path) -> Result<BackupManifest> {
    let found = Journal::<BackupManifest>::recover(fs, dir, layout::TAG).await?;
    let Some(found) = found else {
        let message = match target::is_claimed(fs, dir).await? {
            true => "there is no finished backup here (no CURRENT): a backup is being made, or was interrupted",
            false => "there is no finished backup here (no CURRENT)",
        };
        return Err(Error::new(ErrorKind::NotFound, "read", dir, message));
    };
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
        "the file has {} bytes with checksum {:08x}, but the backup was made with {} bytes with checksum {:08x}",
        found.bytes, found.crc, file.content.bytes, file.content.crc
    );
    Err(Error::corruption(path, 0, message))
}

/// Writes the backup of `tenant` into the directory `to`, which is claimed for it.
async fn fill(shared: &NodeShared, tenant: &Tenant, to: &Path) -> Result<BackupReport> {
    // In this order: the databases are those after as many swaps, or the swaps are found to be more in the end.
    let (swaps, databases) = (tenant.swaps(), tenant.databases());
    let (numbers, mut partitions) = (tenant.partition_numbers(), Vec::new());
    for index in 0..tenant.partitions().len() {
        partitions.push(back_up_partition(shared, tenant, index, to).await?);
    }
    if tenant.swaps() != swaps {
        // Some partitions may have been copied before that and some after, also if all databases are back by now.
        let message = "two of its databases were swapped while the backup was made: try again";
        return Err(Error::new(ErrorKind::Closed, "back up", tenant.name().as_str(), message));
    }
    if tenant.partition_numbers() != numbers {
        // Partitions that were copied after that are empty, or hold only what was written since.
        let message = "it was emptied while the backup was made: try again";
        return Err(Error::new(ErrorKind::Closed, "back up", tenant.name().as_str(), message));
    }
    let mut settings = (*tenant.settings()).clone();
    settings.secret = None;
    settings.users = Arc::default();
    // As they were while the partitions were copied: by now they may have been swapped.
    let listing = Listing { databases, ..tenant.listing(numbers, settings) };
    let manifest = BackupManifest { tenant: listing, partitions };
    shared.own_fs.sync_dir(to, layout::TAG).await?;
    Journal::create(&shared.own_fs, to, layout::TAG, shared.salt(), target::MANIFEST, &manifest).await?;
    look_back(&shared.own_fs, to, &manifest).await?;
    Ok(BackupReport::of(&manifest))
}

/// Checks that a restore would find in `dir` what `manifest` names: nobody is told of a backup that is not there.
async fn look_back(fs: &Arc<dyn Fs>, dir: &Path, manifest: &BackupManifest) -> Result<()> {
    if read(fs, dir).await? != *manifest {
        return Err(Error::corruption(
            dir,
            0,
            "the backup's manifest is not the one that was written: another program writes into this directory",
        ));
    }
    for (index, files) in manifest.partitions.iter().enumerate() {
        let part = dir.join(partition_name(index));
        let there = fs.list(&part, layout::TAG).await?;
        for file in files {
            let found = there.iter().find(|entry| entry.name == file.name).map(|entry| entry.len);
            if found != Some(file.content.bytes) {
                let found = found.map_or("it is missing".to_owned(), |bytes| format!("it has {bytes} bytes"));
                let message = format!(
                    "{found} after {} bytes were written: another program writes into this directory",
                    file.content.bytes
                );
                return Err(Error::corruption(part.join(&file.name), 0, message));
            }
        }
    }
    Ok(())
}

/// Copies a partition into its directory below `to`. If it falls asleep meanwhile, it is woken and copied anew.
async fn back_up_partition(shared: &NodeShared, tenant: &Tenant, index: usize, to: &Path) -> Result<Vec<BackupFile>> {
    let slot = &tenant.partitions()[index];
    let (number, part) = (slot.owner().partition, to.join(partition_name(index)));
    let mut attempts = 0;
    loop {
        attempts += 1;
        let partition = slot.partition().await?;
        match copy_partition(shared, &partition, &part).await {
            Ok(files) => {
                tracing::debug!(tenant = %tenant.name(), index, files = files.len(), "backed up a partition");
                return Ok(files);
            }
            // Closed: nothing could be flushed. Not found: the partition was opened again, and has merged the tables
            // that were being copied.
            Err(error) if ![ErrorKind::Closed, ErrorKind::NotFound].contains(&error.kind()) || slot.has(&partition) => {
                return Err(error);
            }
            Err(error) if attempts == ATTEMPTS_MAX || slot.owner().partition != number => {
                let message =
                    format!("it was emptied, dropped or put to sleep while the backup was made ({error}): try again");
                return Err(Error::new(ErrorKind::Closed, "back up", tenant.name().as_str(), message));
            }
            Err(error) => {
                tracing::debug!(
                    tenant = %tenant.name(),
                    index,
                    %error,
                    "a partition fell asleep while it was backed up"
                );
                clear_dir(&shared.own_fs, &part).await?;
            }
        }
    }
}

/// How often a partition that falls asleep and wakes while it is copied is copied anew.
const ATTEMPTS_MAX: u32 = 10;

async fn copy_partition(shared: &NodeShared, partition: &Arc<Partition>, part: &Path) -> Result<Vec<BackupFile>> {
    let held = partition.flush_and_hold().await?;
    let (fs, tag) = (held.fs(), held.tag());
    fs.create_dir_all(part, tag).await?;
    let mut files = Vec::new();
    for name in held.files() {
        let content = copy(fs, &held.dir().join(&name), &part.join(&name), tag).await?;
        files.push(BackupFile { name, content });
    }
    held.write_manifest(part).await?;
    for entry in fs.list(part, tag).await? {
        if !files.iter().any(|file| file.name == entry.name) {
            let content = content(fs, &part.join(&entry.name), tag).await?;
            files.push(BackupFile { name: entry.name, content });
        }
    }
    fs.sync_dir(part, tag).await?;
    drop(held);
    // Once the partition is closed, its directory is another's, which may give a file the name of one that was never
    // finished here.
    if let Some(_background) = partition.background()
        && let Err(error) = partition.engine().tidy().await
    {
        // The partition's own tick tries again.
        tracing::debug!(node = %shared.config.dir.display(), %error, "cannot remove unneeded files yet");
    }
    Ok(files)
}

/// Removes every file of a directory that this backup has made.
async fn clear_dir(fs: &Arc<dyn Fs>, part: &Path) -> Result<()> {
    let entries = match fs.list(part, layout::TAG).await {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        fs.remove(&part.join(entry.name), layout::TAG).await?;
    }
    Ok(())
}

/// Durably takes numbers for a tenant and `count` partitions: whatever happens, nobody else gets them. The partitions
/// are condemned until a tenant has them.
async fn reserve(shared: &NodeShared, count: usize) -> Result<(TenantId, Vec<u32>)> {
    let mut catalogue = shared.catalogue.lock().await;
    let (id, first) = (catalogue.listings().next_tenant, catalogue.listings().next_partition);
    let next = u32::try_from(count).ok().and_then(|count| first.checked_add(count));
    let (next_tenant, next_partition) = id.checked_add(1).zip(next).ok_or_else(|| {
        Error::new(
            ErrorKind::Invalid,
            "restore",
            "the tenant",
            "all four billion numbers of tenants or partitions have been used",
        )
    })?;
    let numbers: Vec<u32> = (first..next_partition).collect();
    let (next_tenant, next_partition) = (Some(next_tenant), Some(next_partition));
    let edit = CatalogueEdit { next_tenant, next_partition, condemned: numbers.clone(), ..CatalogueEdit::default() };
    commit(&mut catalogue, edit).await?;
    Ok((TenantId(id), numbers))
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
    fs.sync_dir(&own, tag).await?;
    // It says nothing yet of the tables: the manifest that names them is the only one that there ever was.
    anchor::create(&fs, &own, owner, shared.identity(), AnchorClaim::default()).await.map(drop)
}

fn unknown(name: &TenantName) -> Error {
    Error::new(ErrorKind::NotFound, "find tenant", name.as_str(), "there is no tenant of that name")
}
