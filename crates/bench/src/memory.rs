//! A contestant in memory: for the tests of everything around the contestants.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::Result;
use crate::contestant::Contestant;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// What "disks" hold, by directory: outlives a store that was closed or killed.
static DISKS: LazyLock<Mutex<BTreeMap<PathBuf, Pairs>>> = LazyLock::new(Mutex::default);

pub(crate) struct Memory(PathBuf);

impl Memory {
    pub(crate) fn open(dir: &Path) -> Box<dyn Contestant> {
        Box::new(Self(dir.to_path_buf()))
    }

    fn with<T>(&self, act: impl FnOnce(&mut Pairs) -> T) -> T {
        act(DISKS.lock().unwrap_or_else(PoisonError::into_inner).entry(self.0.clone()).or_default())
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

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
