//! Repair of a tree's `CURRENT` that is missing or damaged: points it at the newest manifest.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_io::{Fs, Result};

use super::aside::Aside;
use super::{Finding, Remedy};
use crate::catalogue::Listings;
use crate::engines::TREE;
use crate::engines::offline::{Anchor, examine, manifest_name, point_at};
use crate::layout;

/// A manifest to believe.
#[derive(Debug)]
pub struct Point {
    tree: PathBuf,
    manifest: u64,
}

/// The partitions in use whose `CURRENT` names nothing that can be read.
pub async fn find(fs: &Arc<dyn Fs>, dir: &Path, listings: &Listings) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for listing in listings.tenants.values() {
        for &number in listing.partitions.iter().filter(|number| listings.used.contains(number)) {
            let tree = layout::partition_path(dir, number).join(TREE);
            let Anchor::Broken { why, newest } = examine(fs, &tree).await? else { continue };
            let problem = format!("{why} (a partition of tenant {})", listing.name);
            findings.push(match newest {
                Some(manifest) => Finding {
                    problem,
                    advice: format!(
                        "make {} the current manifest: it is the newest one that can be read, and all its tables are there",
                        manifest_name(manifest)
                    ),
                    remedy: Some(Remedy::Tree(Point { tree, manifest })),
                    loses: false,
                },
                None => Finding {
                    problem,
                    advice: format!(
                        "no manifest is left whose tables are all there: restore a backup of {}, or empty it (FLUSHALL)",
                        listing.name
                    ),
                    remedy: None,
                    loses: false,
                },
            });
        }
    }
    Ok(findings)
}

impl Point {
    /// Writes `CURRENT`.
    pub async fn apply(&self, fs: &Arc<dyn Fs>, aside: &Aside) -> Result<()> {
        aside.keep(fs, &self.tree.join("CURRENT")).await?;
        point_at(fs, &self.tree, self.manifest).await
    }
}
