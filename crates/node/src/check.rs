//! Checking a node's directory off line.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_io::{Error, ErrorKind, Fs, Owner, Result};
use weir_log::{LogAnchor, MemberOpening, Recovery, SharedSurvey};
use weir_model::TenantName;
use weir_model::engine::CheckReport;

use crate::bill::BillBook;
use crate::catalogue::Listings;
use crate::catalogue::copy::CopyState;
use crate::catalogue::survey::{Agreement, Survey};
use crate::engines::{TREE, offline};
use crate::format::{self, Format};
use crate::layout;
use crate::log_kind::LogKind;
use crate::partition::anchor::{self, AnchorSlot};
use crate::shared_log;
use crate::strangers::Strangers;

/// The result of checking a node's directory.
#[derive(Debug, Default)]
pub struct NodeCheck {
    /// Problems of the directory as a whole: `FORMAT`, the copies of the catalogue, the bill, partitions that belong to
    /// nobody.
    pub problems: Vec<Error>,
    /// Things that an operator may wonder about, and need not mend.
    pub notes: Vec<String>,
    /// Partitions that exist, or should exist.
    pub partitions: Vec<PartitionCheck>,
    /// Partitions that nobody has used yet: they have no files.
    pub unused: usize,
}

impl NodeCheck {
    /// All problems, of the directory and of its partitions.
    pub fn all_problems(&self) -> impl Iterator<Item = &Error> {
        self.problems.iter().chain(self.partitions.iter().flat_map(|partition| &partition.problems))
    }
}

/// The result of checking one partition.
#[derive(Debug)]
pub struct PartitionCheck {
    /// Its tenant; `None` if no copy of the catalogue can be read.
    pub tenant: Option<TenantName>,
    /// Its directory.
    pub dir: PathBuf,
    /// The tree.
    pub tree: CheckReport,
    /// The log; `None` if it cannot be read, or was not looked at.
    pub log: Option<Recovery>,
    /// All problems of tree and log. A partition that was used and does not exist any more is lost.
    pub problems: Vec<Error>,
}

/// Reads everything in the node's directory `dir` and changes nothing. `progress` is told (tables done, tables in all).
///
/// # Errors
/// `Locked` while a server runs on the directory, `NotFound` if it is no node's directory, `Invalid` if it is a
/// backup's or another version's. Problems inside are in the answer.
pub async fn check(fs: &Arc<dyn Fs>, dir: &Path, mut progress: impl FnMut(usize, usize)) -> Result<NodeCheck> {
    identify(fs, dir, "check").await?;
    let _lock = fs.lock(&dir.join("LOCK")).await?;
    let mut found = NodeCheck::default();
    let format = Format::read(fs, dir).await?;
    if format == Format::Missing && format::is_new(fs, dir).await? {
        found.notes.push(
            "the first start of a server was interrupted before anything was stored: the next start begins anew".into(),
        );
        return Ok(found);
    }
    let survey = Survey::take(fs, dir, layout::TAG).await;
    let believed = newest(&survey);
    match format.refusal(dir) {
        // Nothing in the directory can be read.
        Some(refusal) if refusal.kind() == ErrorKind::Invalid && believed.is_none() => return Err(refusal),
        refusal => found.problems.extend(refusal),
    }
    match survey.verdict(dir) {
        Ok((_, Agreement::Equal)) => {}
        Ok((state, Agreement::MirrorLags)) => found.notes.push(format!(
            "the last process ended in the middle of edit {} of the catalogue: the next start completes it",
            state.stamp.epoch
        )),
        Err(refusal) => found.problems.push(refusal),
    }
    found.problems.extend(BillBook::read(fs, dir).await.err());
    let there = layout::partitions(fs, dir).await?;
    let Some(state) = believed else {
        // Nobody knows whose they are, but their state can be told all the same.
        for number in there {
            let own = layout::partition_path(dir, number);
            found.partitions.push(check_partition(fs, None, own, None, &mut progress).await);
        }
        return Ok(found);
    };
    let strangers = Strangers::among(&there, &state.listings);
    found.problems.extend(strangers.refusal(dir));
    found.problems.extend(strangers.problems(dir));
    check_partitions(fs, dir, &state.listings, &mut found, &mut progress).await?;
    Ok(found)
}

/// Refuses anything that is not a node's directory, before anything in it is touched. `action` is what was to be done.
pub(crate) async fn identify(fs: &Arc<dyn Fs>, dir: &Path, action: &'static str) -> Result<()> {
    let names = fs.list(dir, layout::TAG).await?;
    let has = |name: &str| names.iter().any(|entry| entry.name == name);
    if has("partition-000") || names.iter().any(|entry| entry.name.starts_with("BACKUP-")) {
        let message = format!("this is a backup, not a node's directory: use `weir backup --verify {}`", dir.display());
        return Err(Error::new(ErrorKind::Invalid, action, dir, message));
    }
    match ["FORMAT", "catalogue", "catalogue.mirror", "partitions"].into_iter().any(has) {
        true => Ok(()),
        false => {
            let message = "it contains no FORMAT, no catalogue and no partitions";
            Err(Error::new(ErrorKind::NotFound, action, dir, message))
        }
    }
}

/// The copy to go by: if the two do not agree, the one that knows more edits.
fn newest(survey: &Survey) -> Option<&CopyState> {
    let copies = survey.mirror.iter().chain(&survey.first);
    copies.max_by_key(|copy| copy.stamp.epoch)
}

async fn check_partitions(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    listings: &Listings,
    found: &mut NodeCheck,
    progress: &mut impl FnMut(usize, usize),
) -> Result<()> {
    let shared_log = match listings.sharing_a_log().is_empty() {
        true => None,
        // Nobody can tell what a damaged shared log has of its members: their logs are not looked at.
        false => shared_log::survey(fs, dir).await.map_err(|error| found.problems.push(error)).ok(),
    };
    let named = listings.tenants.values();
    for (listing, number) in named.flat_map(|listing| listing.partitions.iter().map(move |&number| (listing, number))) {
        let (tenant, own) = (Some(listing.name.clone()), layout::partition_path(dir, number));
        let (has_tree, is_used) = (layout::has_tree(fs, dir, number).await?, listings.used.contains(&number));
        match (has_tree, is_used) {
            (true, _) => {
                // Log and anchor of a partition that was never used mean nothing: they are made anew.
                let owner = is_used.then_some(Owner { tenant: listing.id.0, partition: number });
                let log = match (listing.log, &shared_log) {
                    (LogKind::Own, _) => owner.map(|owner| (owner, None)),
                    (LogKind::Shared, Some(survey)) => owner.map(|owner| (owner, Some(survey))),
                    (LogKind::Shared, None) => None,
                };
                found.partitions.push(check_partition(fs, tenant, own, log, progress).await);
            }
            (false, true) => {
                let (tree, log, problems) = (CheckReport::default(), None, vec![layout::lost(dir, number)]);
                found.partitions.push(PartitionCheck { tenant, dir: own, tree, log, problems });
            }
            (false, false) => found.unused += 1,
        }
    }
    Ok(())
}

/// `log` says who must be the owner of log and anchor, and gives the log if it is a shared one. `None` if that is not
/// known, or does not matter: then log and anchor are not looked at.
async fn check_partition(
    fs: &Arc<dyn Fs>,
    tenant: Option<TenantName>,
    dir: PathBuf,
    log: Option<(Owner, Option<&SharedSurvey>)>,
    progress: &mut impl FnMut(usize, usize),
) -> PartitionCheck {
    let mut problems = Vec::new();
    let tree = match offline::check(fs, &dir.join(TREE), progress).await {
        Ok(mut tree) => {
            problems.append(&mut tree.problems);
            tree
        }
        Err(error) => {
            problems.push(error);
            CheckReport::default()
        }
    };
    let log = match log {
        Some((owner, shared)) => {
            check_log(fs, &dir, owner, &tree, shared).await.map_err(|error| problems.push(error)).ok()
        }
        None => None,
    };
    PartitionCheck { tenant, dir, tree, log, problems }
}

/// Log and anchor, which have to agree with each other and with the `tree`. The log is in `dir`, or a `shared` one.
pub(crate) async fn check_log(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    owner: Owner,
    tree: &CheckReport,
    shared: Option<&SharedSurvey>,
) -> Result<Recovery> {
    if let Some(found) = tree.owner.filter(|&found| found != owner) {
        let message = format!("the manifest belongs to another tree: that of partition {}", found.partition);
        return Err(Error::corruption(&tree.manifest, 0, message));
    }
    let AnchorSlot { identity, claim, .. } = anchor::read(fs, dir, owner).await?;
    anchor::compare(claim, tree.persisted, &tree.manifest)?;
    if let Some(shared) = shared {
        let (persisted, durable) = (tree.persisted, claim.durable);
        return shared.member(&MemberOpening { member: owner.partition, identity, owner, persisted, durable }).await;
    }
    let anchor = LogAnchor { identity, durable: claim.durable };
    weir_log::check(fs, &dir.join("log"), owner, anchor, tree.persisted).await
}
