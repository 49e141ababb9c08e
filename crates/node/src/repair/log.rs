//! Repairs of a log or an anchor because of which a partition is refused. An anchor can be made anew if log and tree
//! are whole. Of a damaged log the beginning can be kept, and the rest is lost: only if the operator says so.
//!
//! The same goes for the log that tenants share. The partitions that write to it are judged when it is whole: first it
//! is cut, and the next plan finds the partitions that have lost something by that.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_io::{Error, ErrorKind, Fs, Owner, Result, Rng};
use weir_log::{LogAnchor, LogIndex, MemberOpening, Salvage, SharedSurvey};
use weir_model::TenantName;
use weir_model::engine::CheckReport;

use super::aside::Aside;
use super::{Finding, Remedy, unless_damaged};
use crate::catalogue::Listings;
use crate::check::check_log;
use crate::engines::TREE;
use crate::engines::offline::{self, Anchor as Current, examine};
use crate::layout::{self, TAG};
use crate::log_kind::LogKind;
use crate::partition::anchor::{self, AnchorClaim};
use crate::shared_log;

/// The part of a partition's log that is kept.
#[derive(Debug)]
pub struct Cut {
    dir: PathBuf,
    owner: Owner,
    persisted: LogIndex,
    kept: Salvage,
}

/// Finds the partitions in use that would be refused because of their log or anchor.
pub async fn find(fs: &Arc<dyn Fs>, dir: &Path, listings: &Listings) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let shared = match listings.sharing_a_log().is_empty() {
        true => None,
        false => match shared_log::survey(fs, dir).await {
            Ok(survey) => Some(survey),
            Err(refusal) => {
                findings.push(look_at_shared(fs, dir, listings, refusal).await?);
                None
            }
        },
    };
    for (&id, listing) in &listings.tenants {
        for &partition in listing.partitions.iter().filter(|number| listings.used.contains(number)) {
            let owner = Owner { tenant: id.0, partition };
            let own = layout::partition_path(dir, partition);
            match (listing.log, &shared) {
                (LogKind::Own, _) => findings.extend(look_at(fs, own, owner, &listing.name).await?),
                (LogKind::Shared, Some(survey)) => {
                    findings.extend(look_at_member(fs, own, owner, &listing.name, survey).await?);
                }
                (LogKind::Shared, None) => {}
            }
        }
    }
    Ok(findings)
}

/// The finding for the log that tenants share, which is refused.
async fn look_at_shared(fs: &Arc<dyn Fs>, dir: &Path, listings: &Listings, refusal: Error) -> Result<Finding> {
    if refusal.kind() != ErrorKind::Corruption {
        return Err(refusal);
    }
    let (own, owner) = (shared_log::path(dir), shared_log::OWNER);
    let (anchor, log) = (unless_damaged(anchor::read(fs, &own, owner).await)?, shared_log::segments(&own));
    let (floor, is_whole) = match anchor {
        Some(slot) => (slot.claim.persisted, false),
        None => floor_without_anchor(fs, dir, &log, listings).await?,
    };
    let kept = weir_log::salvage(fs, &log, owner, anchor.map(|slot| slot.identity), floor).await?;
    let advice = match is_whole {
        true => "write its anchor anew: the log is whole".to_owned(),
        false => "put the right file back. Otherwise `--accept-loss` keeps the records that are whole up to the first \
                 damage: others that were not flushed are lost. Run `weir repair` again after that: it says which \
                 tenants lost something"
            .to_owned(),
    };
    let problem = format!("{refusal} (the log that tenants share)");
    let remedy = Some(Remedy::Log(Cut { dir: own, owner, persisted: floor, kept }));
    Ok(Finding { problem, advice, remedy, loses: !is_whole })
}

/// The place up to which nobody needs the shared log in the directory `log`, as far as that can be told without the
/// log's anchor, and whether every partition finds behind it what its tree lacks. The log begins where its files do.
/// But a log that failed and was replaced has a gap, and everybody has in tables what is in front of that: then the log
/// begins behind the gap. Where the first file is lost or damaged, the log seems to begin with the next one: only the
/// partitions know that something is missing.
async fn floor_without_anchor(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    log: &Path,
    listings: &Listings,
) -> Result<(LogIndex, bool)> {
    let owner = shared_log::OWNER;
    let found = weir_log::beginnings(fs, log, owner).await?;
    let anchor = LogAnchor { identity: found.identity.unwrap_or_default(), durable: 0 };
    let mut floors: Vec<LogIndex> = found.first_indexes.iter().map(|first| first.saturating_sub(1)).collect();
    if floors.is_empty() {
        floors.push(0);
    }
    for &floor in &floors {
        let survey = SharedSurvey::take(fs, log, owner, anchor, floor).await;
        let Some(survey) = unless_damaged(survey)? else { continue };
        if has_what_all_need(fs, dir, listings, &survey).await? {
            return Ok((floor, true));
        }
    }
    Ok((floors[0], false))
}

/// Whether every partition that writes to the shared log finds in it what its tree lacks.
async fn has_what_all_need(fs: &Arc<dyn Fs>, dir: &Path, listings: &Listings, shared: &SharedSurvey) -> Result<bool> {
    for (&id, listing) in &listings.tenants {
        if listing.log != LogKind::Shared {
            continue;
        }
        for &partition in listing.partitions.iter().filter(|number| listings.used.contains(number)) {
            let (own, owner) = (layout::partition_path(dir, partition), Owner { tenant: id.0, partition });
            let found = unless_damaged(offline::persisted(fs, &own.join(TREE)).await)?;
            let Some((manifest, persisted)) = found else { return Ok(false) };
            let report = CheckReport { manifest, persisted, ..CheckReport::default() };
            if unless_damaged(check_log(fs, &own, owner, &report, Some(shared)).await)?.is_none() {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// The finding for a partition that writes to the shared log, which is whole.
async fn look_at_member(
    fs: &Arc<dyn Fs>,
    dir: PathBuf,
    owner: Owner,
    tenant: &TenantName,
    shared: &SharedSurvey,
) -> Result<Option<Finding>> {
    let Some((persisted, refusal)) = refusal(fs, &dir, owner, Some(shared)).await? else { return Ok(None) };
    let anchor = unless_damaged(anchor::read(fs, &dir, owner).await)?;
    // Without the partition's anchor, the identity is the last one that wrote under its number.
    let identity = anchor.map(|slot| slot.identity).or(shared.identity_of(owner.partition));
    let member =
        MemberOpening { member: owner.partition, identity: identity.unwrap_or_default(), owner, persisted, durable: 0 };
    let problem = format!("{refusal} (a partition of tenant {tenant})");
    let Some(found) = unless_damaged(shared.member(&member).await)? else {
        // The records behind the gap are among records of others: they cannot be given up alone.
        let advice = format!("restore a backup of {tenant}: the records that its tree needs are not in the shared log");
        return Ok(Some(Finding { problem, advice, remedy: None, loses: true }));
    };
    let advice = match anchor {
        None => format!(
            "write the anchor anew: log and tree are whole up to record {}. Whether there were later records cannot be \
             known any more",
            found.last
        ),
        Some(_) => format!(
            "restore a backup of {tenant}. Otherwise `--accept-loss` goes on after record {}, the last one that exists",
            found.last
        ),
    };
    let kept = Salvage { identity, last: found.last, ..Salvage::default() };
    let remedy = Some(Remedy::Log(Cut { dir, owner, persisted, kept }));
    Ok(Some(Finding { problem, advice, remedy, loses: anchor.is_some() }))
}

/// Why the log or the anchor of a partition is refused, and up to where its tree holds everything. `None` if it is not
/// refused, or if that cannot be judged yet: the repair of the tree reports what is wrong with the tree.
async fn refusal(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    owner: Owner,
    shared: Option<&SharedSurvey>,
) -> Result<Option<(LogIndex, Error)>> {
    let tree = dir.join(TREE);
    if examine(fs, &tree).await? != Current::Sound {
        return Ok(None);
    }
    let Some((manifest, persisted)) = unless_damaged(offline::persisted(fs, &tree).await)? else { return Ok(None) };
    let report = CheckReport { manifest, persisted, ..CheckReport::default() };
    match check_log(fs, dir, owner, &report, shared).await {
        Ok(_) => Ok(None),
        Err(refusal) if refusal.kind() == ErrorKind::Corruption => Ok(Some((persisted, refusal))),
        Err(error) => Err(error),
    }
}

async fn look_at(fs: &Arc<dyn Fs>, dir: PathBuf, owner: Owner, tenant: &TenantName) -> Result<Option<Finding>> {
    let Some((persisted, refusal)) = refusal(fs, &dir, owner, None).await? else { return Ok(None) };
    let anchor = unless_damaged(anchor::read(fs, &dir, owner).await)?;
    let log = dir.join("log");
    let kept = weir_log::salvage(fs, &log, owner, anchor.map(|slot| slot.identity), persisted).await?;
    let without = LogAnchor { identity: kept.identity.unwrap_or_default(), durable: 0 };
    let is_log_whole = unless_damaged(weir_log::check(fs, &log, owner, without, persisted).await)?.is_some();
    let loses = anchor.is_some() || !is_log_whole;
    let last = kept.last;
    let advice = match (loses, anchor) {
        (false, _) => format!(
            "write the anchor anew: log and tree are whole up to record {last}. Whether there were later records \
             cannot be known any more"
        ),
        (true, slot) => {
            let lost = match slot.map(|slot| slot.claim.durable).filter(|&durable| durable > last) {
                Some(durable) => format!("at least records {} to {durable} are lost", last + 1),
                None => format!("everything after record {last} is lost"),
            };
            format!(
                "put the right file back, or restore a backup of {tenant}. Otherwise `--accept-loss` keeps the \
                 records that are whole: {lost}"
            )
        }
    };
    let problem = format!("{refusal} (a partition of tenant {tenant})");
    let remedy = Some(Remedy::Log(Cut { dir, owner, persisted, kept }));
    Ok(Some(Finding { problem, advice, remedy, loses }))
}

impl Cut {
    /// Keeps the beginning of the log, and makes an anchor that says so. The anchor comes last: until it is there, the
    /// partition is refused.
    pub async fn apply(self, fs: &Arc<dyn Fs>, aside: &Aside, rng: &mut Rng) -> Result<()> {
        let Cut { dir, owner, persisted, kept } = self;
        let log = dir.join("log");
        aside.keep_all(fs, &log).await?;
        aside.keep(fs, &dir.join(anchor::NAME)).await?;
        // The last one first, as when a log is opened and cut off.
        for lost in kept.lost.iter().rev() {
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
