//! Repairing, off line, a node's directory that is refused. First a plan that changes nothing; then, if the operator
//! wants it, the repairs.
//!
//! 1. Nothing is deleted. What a repair replaces is first kept in `repaired-NNN/`, which the node never looks at.
//! 2. Each repair is one rename: a crash in the middle leaves a directory that is refused as before, or repaired.
//! 3. A problem that cannot be repaired, or cannot be decided without knowing more than the files say, is reported and
//!    left.
//! 4. A repair that gives something up is made only if the operator has [accepted that](Repair::accept_loss).
//! 5. Only damage is repaired. If the device does not give a file back, the plan ends with that error.
//!
//! One file for each kind of repair: [`catalogue`], [`format`], [`tree`], [`log`].

mod aside;
mod catalogue;
mod format;
mod log;
mod tree;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_io::{ErrorKind, Fs, FsLock, Result, Rng};

use self::aside::Aside;
pub use crate::catalogue::copy::Role;
use crate::check::identify;
use crate::format::is_new;

/// Something that is wrong, and what can be done about it.
#[derive(Debug)]
pub struct Finding {
    /// What is wrong, with the file.
    pub problem: String,
    /// What can be done, or what the operator has to do instead.
    pub advice: String,
    remedy: Option<Remedy>,
    /// The remedy gives up data, and nobody has accepted that yet.
    loses: bool,
}

impl Finding {
    /// Whether [`Repair::apply`] repairs it.
    pub fn can_be_repaired(&self) -> bool {
        self.remedy.is_some() && !self.loses
    }
}

#[derive(Debug)]
enum Remedy {
    Catalogue(catalogue::Rewrite),
    Format,
    Tree(tree::Point),
    Log(log::Cut),
}

/// What was read; `None` if it is damaged or missing.
///
/// # Errors
/// Any other error: it says nothing about what is stored, so it must not count as a loss.
fn unless_damaged<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Err(error) if matches!(error.kind(), ErrorKind::Corruption | ErrorKind::NotFound) => Ok(None),
        read => read.map(Some),
    }
}

/// A plan: what is wrong in a directory, and what would be done. The directory stays locked as long as the plan is
/// held.
pub struct Repair {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    findings: Vec<Finding>,
    rng: Rng,
    _lock: Box<dyn FsLock>,
}

impl Repair {
    /// Looks at the node's directory `dir` and changes nothing. `believe` names the copy of the catalogue that the
    /// operator trusts, in case the files do not say which is right. `salt` is chance.
    ///
    /// # Errors
    /// `Locked` while a server runs on it, `NotFound` if it is no node's directory, `Invalid` if it is a backup's or
    /// another version's; I/O.
    pub async fn plan(fs: &Arc<dyn Fs>, dir: &Path, believe: Option<Role>, salt: u64) -> Result<Repair> {
        identify(fs, dir, "repair").await?;
        let lock = fs.lock(&dir.join("LOCK")).await?;
        let mut findings = Vec::new();
        let has_format = crate::format::Format::read(fs, dir).await? != crate::format::Format::Missing;
        if has_format || !is_new(fs, dir).await? {
            let (listings, found) = catalogue::find(fs, dir, believe).await?;
            findings.extend(found);
            findings.extend(format::find(fs, dir, listings.is_some()).await?);
            if let Some(listings) = listings {
                findings.extend(tree::find(fs, dir, &listings).await?);
                findings.extend(log::find(fs, dir, &listings).await?);
            }
        }
        Ok(Repair { fs: Arc::clone(fs), dir: dir.into(), findings, rng: Rng::new(salt), _lock: lock })
    }

    /// Everything that was found.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Data may be given up if nothing else helps.
    pub fn accept_loss(&mut self) {
        self.findings.iter_mut().for_each(|finding| finding.loses = false);
    }

    /// Repairs what can be repaired. Gives the directory in which the replaced files are kept.
    ///
    /// # Errors
    /// I/O: what was repaired before that stays repaired, and another plan begins where this one ended.
    pub async fn apply(mut self) -> Result<PathBuf> {
        let aside = Aside::new(&self.fs, &self.dir).await?;
        let repaired = self.findings.into_iter().filter(Finding::can_be_repaired);
        for remedy in repaired.filter_map(|finding| finding.remedy) {
            match remedy {
                Remedy::Catalogue(rewrite) => rewrite.apply(&self.fs, &self.dir, &aside, &mut self.rng).await?,
                Remedy::Format => format::apply(&self.fs, &self.dir, &aside).await?,
                Remedy::Tree(point) => point.apply(&self.fs, &aside).await?,
                Remedy::Log(cut) => cut.apply(&self.fs, &aside, &mut self.rng).await?,
            }
        }
        Ok(aside.path)
    }
}
