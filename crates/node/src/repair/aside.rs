//! `repaired-NNN/`: the directory that keeps what a repair replaces, by the paths that the files had.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_io::{Error, ErrorKind, Fs, Result};

use crate::layout::{self, TAG};

/// The directory of one repair.
pub struct Aside {
    /// The path of the directory, the first of that name that did not exist.
    pub path: PathBuf,
    dir: PathBuf,
}

impl Aside {
    /// Makes the directory in the node's directory `dir`.
    pub async fn new(fs: &Arc<dyn Fs>, dir: &Path) -> Result<Self> {
        let names = fs.list(dir, TAG).await?;
        let number = |name: &str| name.strip_prefix("repaired-")?.parse::<u32>().ok();
        let next = names.iter().filter_map(|entry| number(&entry.name)).max().map_or(1, |last| last.saturating_add(1));
        let path = dir.join(format!("repaired-{next:03}"));
        layout::create_dir(fs, &path).await?;
        Ok(Self { path, dir: dir.into() })
    }

    /// Keeps the file `path` of the node's directory, durably, under another name for it: the file itself stays where
    /// it is. A file that does not exist need not be kept.
    pub async fn keep(&self, fs: &Arc<dyn Fs>, path: &Path) -> Result<()> {
        let relative = path.strip_prefix(&self.dir).map_err(|_| {
            Error::new(ErrorKind::Invalid, "keep", path, "it is not in the directory that is being repaired")
        })?;
        let kept = self.path.join(relative);
        let Some(parent) = kept.parent() else { return Ok(()) };
        layout::create_dir(fs, parent).await?;
        match fs.hard_link(path, &kept, TAG).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            linked => linked?,
        }
        fs.sync_dir(parent, TAG).await
    }

    /// Keeps every file in the directory `path`.
    pub async fn keep_all(&self, fs: &Arc<dyn Fs>, path: &Path) -> Result<()> {
        let names = match fs.list(path, TAG).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            names => names?,
        };
        for entry in names.into_iter().filter(|entry| !entry.is_dir) {
            self.keep(fs, &path.join(entry.name)).await?;
        }
        Ok(())
    }
}
