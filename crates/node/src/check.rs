//! Checking a node's directory off line.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_io::{Error, Fs, Owner, Result};
use weir_log::Recovery;
use weir_lsm::check::CheckReport;
use weir_model::TenantName;

use crate::catalogue::Catalogue;
use crate::layout;

/// What was found in a node's directory.
#[derive(Debug, Default)]
pub struct NodeCheck {
    /// Those that are there, or should be.
    pub partitions: Vec<PartitionCheck>,
    /// Partitions that nobody has used yet: they have no files.
    pub unused: usize,
}

/// What was found in one partition.
#[derive(Debug)]
pub struct PartitionCheck {
    /// Whose it is.
    pub tenant: TenantName,
    /// Its directory.
    pub dir: PathBuf,
    /// The tree.
    pub tree: CheckReport,
    /// The log; `None` where it cannot be read.
    pub log: Option<Recovery>,
    /// Everything that is wrong, in tree or log. A partition that was used and is not there any more is lost.
    pub problems: Vec<Error>,
}

/// Reads everything in the node's directory `dir` and changes nothing. `progress` hears (tables done, tables in all).
///
/// # Errors
/// `Locked` while a server runs on it, `NotFound` if it is no node's directory. What is wrong inside is in the answer.
pub async fn check(fs: &Arc<dyn Fs>, dir: &Path, mut progress: impl FnMut(usize, usize)) -> Result<NodeCheck> {
    let _lock = layout::survey(fs, dir).await?;
    let listings = Catalogue::read(fs, dir, layout::TAG).await?.map(|(listings, _)| listings).unwrap_or_default();
    let named = listings.tenants.values();
    let named = named.flat_map(|listing| listing.partitions.iter().map(|&number| (&listing.name, number)));
    let mut found = NodeCheck::default();
    for (tenant, number) in named {
        let (tenant, own) = (tenant.clone(), layout::partition_path(dir, number));
        let has_tree = layout::has_tree(fs, dir, number).await?;
        match (has_tree, listings.used.contains(&number)) {
            (true, _) => found.partitions.push(check_partition(fs, tenant, own, &mut progress).await),
            (false, true) => {
                let (tree, log, problems) = (CheckReport::default(), None, vec![layout::lost(dir, number)]);
                found.partitions.push(PartitionCheck { tenant, dir: own, tree, log, problems });
            }
            (false, false) => found.unused += 1,
        }
    }
    Ok(found)
}

async fn check_partition(
    fs: &Arc<dyn Fs>,
    tenant: TenantName,
    dir: PathBuf,
    progress: &mut impl FnMut(usize, usize),
) -> PartitionCheck {
    let mut problems = Vec::new();
    let tree = match weir_lsm::check::check(fs, &dir.join("tree"), progress).await {
        Ok(mut tree) => {
            problems.append(&mut tree.problems);
            tree
        }
        Err(error) => {
            problems.push(error);
            CheckReport::default()
        }
    };
    let log = weir_log::check(fs, &dir.join("log"), Owner::default(), tree.persisted).await;
    let log = log.map_err(|error| problems.push(error)).ok();
    PartitionCheck { tenant, dir, tree, log, problems }
}
