//! Checking a node's directory off line.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_io::{Error, Fs, Owner, Result};
use weir_log::Recovery;
use weir_lsm::check::CheckReport;
use weir_model::TenantName;

use crate::catalogue::Catalogue;
use crate::layout;

/// What was found in one partition.
#[derive(Debug)]
pub struct NodeCheck {
    /// Whose it is.
    pub tenant: TenantName,
    /// Its directory.
    pub dir: PathBuf,
    /// The tree.
    pub tree: CheckReport,
    /// The log; `None` where it cannot be read.
    pub log: Option<Recovery>,
    /// Everything that is wrong, in tree or log.
    pub problems: Vec<Error>,
}

/// Reads everything in the node's directory `dir` and changes nothing. `progress` hears (tables done, tables in all).
///
/// # Errors
/// `Locked` while a server runs on it, `NotFound` if it is no node's directory. What is wrong inside is in the answer.
pub async fn check(fs: &Arc<dyn Fs>, dir: &Path, mut progress: impl FnMut(usize, usize)) -> Result<Vec<NodeCheck>> {
    let _lock = layout::survey(fs, dir).await?;
    let listings =
        Catalogue::read(fs, dir, layout::TAG).await?.map(|(listings, _)| listings.tenants).unwrap_or_default();
    let there = layout::partitions(fs, dir).await?;
    let mut checks = Vec::new();
    let named = listings.values().flat_map(|listing| listing.partitions.iter().map(|&number| (&listing.name, number)));
    // A partition gets its directory when it is first used.
    for (tenant, number) in named.filter(|(_, number)| there.contains(number)) {
        let dir = layout::partition_path(dir, number);
        let mut problems = Vec::new();
        let tree = match weir_lsm::check::check(fs, &dir.join("tree"), &mut progress).await {
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
        checks.push(NodeCheck { tenant: tenant.clone(), dir, tree, log, problems });
    }
    Ok(checks)
}
