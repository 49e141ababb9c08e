//! A contestant in memory, for the tests of everything around the contestants.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::Result;
use crate::contestant::{Contestant, Logged, Rows};

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// In a directory of this name, a store keeps rows that are deleted.
pub(crate) const KEEPS_ROWS: &str = "keeps-rows";

/// The contents of "disks", by directory: they outlive a store that was closed or killed.
static DISKS: LazyLock<Mutex<BTreeMap<PathBuf, Pairs>>> = LazyLock::new(Mutex::default);

pub(crate) struct Memory {
    dir: PathBuf,
    /// Deletions of rows.
    deletions: AtomicU64,
}

impl Memory {
    pub(crate) fn open(dir: &Path) -> Box<dyn Contestant> {
        Box::new(Self { dir: dir.to_path_buf(), deletions: AtomicU64::new(0) })
    }

    fn with<T>(&self, act: impl FnOnce(&mut Pairs) -> T) -> T {
        act(DISKS.lock().unwrap_or_else(PoisonError::into_inner).entry(self.dir.clone()).or_default())
    }
}

impl Contestant for Memory {
    fn version(&self) -> String {
        "memory".into()
    }

    fn remarks(&self) -> String {
        String::new()
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.with(|pairs| pairs.insert(key.to_vec(), value.to_vec()));
        Ok(())
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.with(|pairs| pairs.get(key).map(|value| see(value))).is_some())
    }

    fn scan(&self, from: &[u8], limit: usize, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        self.with(|pairs| pairs.range(from.to_vec()..).take(limit).for_each(|(key, value)| see(key, value)));
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn shape(&self) -> String {
        format!("L0:{}", self.with(|pairs| pairs.len()))
    }

    fn rows(&self) -> Option<&dyn Rows> {
        Some(self)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl Rows for Memory {
    fn put_parts(&self, name: &[u8], parts: &[(&[u8], &[u8])]) -> Result<()> {
        self.put(name, b"")?;
        parts.iter().try_for_each(|(subkey, value)| self.put(&[name, subkey].concat(), value))
    }

    fn has(&self, name: &[u8]) -> Result<bool> {
        self.get(name, &mut |_| ())
    }

    fn delete(&self, name: &[u8]) -> Result<()> {
        self.deletions.fetch_add(1, Ordering::Relaxed);
        if !self.dir.ends_with(KEEPS_ROWS) {
            self.with(|pairs| pairs.remove(name));
        }
        Ok(())
    }

    fn logged(&self) -> Logged {
        Logged { records: self.deletions.load(Ordering::Relaxed), bytes: 0 }
    }
}
