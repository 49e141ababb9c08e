//! A log or an anchor that a partition is refused for. An anchor can be made anew where log and tree are whole. Of a
//! damaged log the beginning can be kept, and the rest is lost: only where the operator says so.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_io::{ErrorKind, Fs, Owner, Result, Rng};
use weir_log::{LogAnchor, LogIndex, Salvage};
use weir_model::TenantName;
use weir_model::engine::CheckReport;

use super::aside::Aside;
use super::{Finding, Remedy};
use crate::catalogue::Listings;
use crate::check::check_log;
use crate::engines::TREE;
use crate::engines::offline::{self, Anchor as Current, examine};
use crate::layout::{self, TAG};
use crate::partition::anchor::{self, AnchorClaim};

/// What is kept of a partition's log.
#[derive(Debug)]
pub struct Cut {
    dir: PathBuf,
    owner: Owner,
    persisted: LogIndex,
    kept: Salvage,
}

/// The partitions in use whose log or anchor they would be refused for.
pub async fn find(fs: &Arc<dyn Fs>, dir: &Path, listings: &Listings) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (&id, listing) in &listings.tenants {
        for &partition in listing.partitions.iter().filter(|number| listings.used.contains(number)) {
            let owner = Owner { tenant: id.0, partition };
            let own = layout::partition_path(dir, partition);
            findings.extend(look_at(fs, own, owner, &listing.name).await?);
        }
    }
    Ok(findings)
}

async fn look_at(fs: &Arc<dyn Fs>, dir: PathBuf, owner: Owner, tenant: &TenantName) -> Result<Option<Finding>> {
    let tree = dir.join(TREE);
    // What is wrong with the tree is said by those who repair that; its log can be judged afterwards.
    if examine(fs, &tree).await? != Current::Sound {
        return Ok(None);
    }
    let Ok((manifest, persisted)) = offline::persisted(fs, &tree).await else { return Ok(None) };
    let report = CheckReport { manifest, persisted, ..CheckReport::default() };
    let Err(refusal) = check_log(fs, &dir, owner, &report).await else { return Ok(None) };
    if refusal.kind() != ErrorKind::Corruption {
        return Err(refusal);
    }
    let anchor = anchor::read(fs, &dir, owner).await.ok();
    let log = dir.join("log");
    let kept = weir_log::salvage(fs, &log, owner, anchor.map(|slot| slot.identity), persisted).await?;
    let without = LogAnchor { identity: kept.identity.unwrap_or_default(), durable: 0 };
    let is_log_whole = match weir_log::check(fs, &log, owner, without, persisted).await {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::NotFound,
    };
    let loses = anchor.is_some() || !is_log_whole;
    let last = kept.last;
    let advice = match (loses, anchor) {
        (false, _) => format!(
            "make the anchor anew: log and tree are whole up to record {last}. Whether there were more nobody can tell any more"
        ),
        (true, slot) => {
            let lost = match slot.map(|slot| slot.claim.durable).filter(|&durable| durable > last) {
                Some(durable) => format!("records {} to {durable} at least are lost", last + 1),
                None => format!("what follows record {last} is lost"),
            };
            format!(
                "bring the file back, or restore a backup of {tenant}. Else `--accept-loss` keeps what is whole: {lost}"
            )
        }
    };
    let problem = format!("{refusal} (a partition of tenant {tenant})");
    let remedy = Some(Remedy::Log(Cut { dir, owner, persisted, kept }));
    Ok(Some(Finding { problem, advice, remedy, loses }))
}

impl Cut {
    /// Keeps the beginning of the log, and makes an anchor that says so. Last the anchor: until it is there, the
    /// partition is refused.
    pub async fn apply(self, fs: &Arc<dyn Fs>, aside: &Aside, rng: &mut Rng) -> Result<()> {
        let Cut { dir, owner, persisted, kept } = self;
        let log = dir.join("log");
        aside.keep_all(fs, &log).await?;
        aside.keep(fs, &dir.join(anchor::NAME)).await?;
        for lost in &kept.lost {
            fs.remove(lost, TAG).await?;
        }
        if let Some((path, end)) = &kept.cut {
            let beginning = log.join("beginning.tmp");
            match fs.remove(&beginning, TAG).await {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            weir_log::copy_beginning(fs, path, &beginning, *end, owner).await?;
            fs.rename(&beginning, path, TAG).await?;
        }
        if kept.cut.is_some() || !kept.lost.is_empty() {
            fs.sync_dir(&log, TAG).await?;
        }
        let identity = kept.identity.unwrap_or_else(|| rng.next_u64());
        let claim = AnchorClaim { durable: kept.last, persisted };
        anchor::create(fs, &dir, owner, identity, claim).await.map(drop)
    }
}
