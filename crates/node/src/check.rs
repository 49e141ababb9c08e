//! Checking a node's directory off line.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_io::{Error, Fs, Owner, Result};
use weir_log::Recovery;
use weir_lsm::check::CheckReport;

use crate::layout;

/// What was found in one partition.
#[derive(Debug)]
pub struct NodeCheck {
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
    let (_lock, partitions) = layout::survey(fs, dir).await?;
    let mut checks = Vec::new();
    for dir in partitions {
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
        checks.push(NodeCheck { dir, tree, log, problems });
    }
    Ok(checks)
}
