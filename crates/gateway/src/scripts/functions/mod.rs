//! The libraries of one tenant: durable in a [row](row) that no command shows, and kept in memory once they were read.

mod row;

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_command::error::{Error, Outcome};
use weir_io::plant::{Plant, is_planted};
use weir_model::{Batch, Change, OWN_DATABASE};
use weir_script::Libraries;

use super::known::Pace;
use crate::store::Store;

/// The key of the row.
const KEY: &[u8] = b"functions";
/// Most bytes of all libraries of one tenant, and most libraries.
pub(crate) const BYTES_MAX: usize = 1 << 20;
const LIBRARIES_MAX: usize = 1000;

const DAMAGED: Error = Error::new("ERR internal error: the tenant's functions cannot be read");

/// Refuses a change that makes libraries larger than they may be. They may be larger already, because an earlier
/// version counted less of them: then they may shrink.
fn check_size(before: &Libraries, after: &Libraries) -> Outcome {
    let is_larger = |size: fn(&Libraries) -> usize, max| size(after) > size(before).max(max);
    if is_larger(Libraries::bytes, BYTES_MAX) || is_larger(|all| all.iter().len(), LIBRARIES_MAX) {
        return Err(Error::new("ERR a tenant's functions are at most 1000 libraries and 1 MB long together"));
    }
    Ok(())
}

/// The libraries of one tenant, as far as they were read.
#[derive(Default)]
pub(crate) struct Functions {
    known: Mutex<Known>,
    /// Held by whoever changes the libraries, or reads them for the first time.
    turn: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct Known {
    /// `None` until the libraries are read, and while a refused change of them may yet count.
    libraries: Option<Arc<Libraries>>,
    version: u64,
    /// How long functions that were run take.
    paces: BTreeMap<String, Arc<Pace>>,
}

impl Known {
    fn keep(&mut self, mut libraries: Libraries) -> Arc<Libraries> {
        // A machine that has loaded nothing has version 0.
        self.version += 1;
        libraries.version = self.version;
        self.paces.clear();
        Arc::clone(self.libraries.insert(Arc::new(libraries)))
    }
}

/// While this exists, nobody else changes the libraries.
pub(crate) struct Turn {
    _held: tokio::sync::OwnedMutexGuard<()>,
}

impl Functions {
    /// The libraries of the tenant.
    ///
    /// # Errors
    /// The libraries cannot be read.
    pub(crate) async fn get<S: Store>(&self, store: &S, now_ms: u64) -> Outcome<Arc<Libraries>> {
        if let Some(libraries) = &self.known.lock().libraries {
            return Ok(Arc::clone(libraries));
        }
        let turn = self.turn().await;
        self.read(&turn, store, now_ms).await
    }

    /// Waits until nobody else changes the libraries.
    pub(crate) async fn turn(&self) -> Turn {
        Turn { _held: Arc::clone(&self.turn).lock_owned().await }
    }

    /// The libraries, for whoever has the turn.
    ///
    /// # Errors
    /// The libraries cannot be read.
    pub(crate) async fn read<S: Store>(&self, _: &Turn, store: &S, now_ms: u64) -> Outcome<Arc<Libraries>> {
        if let Some(libraries) = &self.known.lock().libraries {
            return Ok(Arc::clone(libraries));
        }
        let watch = store.watch(OWN_DATABASE, KEY).await?;
        let row = store.rows().get(OWN_DATABASE, KEY, now_ms).wait().await?;
        let libraries = match row {
            Some(row) => row.value().and_then(|value| row::decode(value)).ok_or(DAMAGED)?,
            None => Libraries::default(),
        };
        let mut known = self.known.lock();
        let libraries = known.keep(libraries);
        // Nobody else changes them, so a refused change was left out. Until it is decided, they are read each time.
        if watch.is_changed() {
            known.libraries = None;
        }
        Ok(libraries)
    }

    /// Changes the libraries durably.
    ///
    /// # Errors
    /// The errors of `change`, or there are too many libraries, or they cannot be written. Then nothing has changed,
    /// unless it was the commit that failed.
    pub(crate) async fn change<S: Store, R>(
        &self,
        store: &S,
        now_ms: u64,
        change: impl FnOnce(&mut Libraries) -> Outcome<R>,
    ) -> Outcome<R> {
        let turn = self.turn().await;
        let mut libraries = (*self.read(&turn, store, now_ms).await?).clone();
        let before = libraries.clone();
        let answer = change(&mut libraries)?;
        check_size(&before, &libraries)?;
        // While a refused change may yet count, they are written even if this read found nothing to change.
        let are_known = self.known.lock().libraries.is_some();
        if are_known && libraries == before {
            return Ok(answer);
        }
        let mut batch = Batch::new();
        let value = row::encode(&libraries);
        batch.push_row(
            OWN_DATABASE,
            match libraries.iter().len() {
                0 => Change::Delete { key: KEY },
                _ => Change::Put { key: KEY, value: &value, expire_at_ms: None },
            },
        );
        // Nobody knows what a failed commit has left, so the libraries are read again after one.
        self.known.lock().libraries = None;
        if !is_planted(Plant::FunctionsNotWritten) {
            store.write(&batch).await?.await?;
        }
        self.known.lock().keep(libraries);
        Ok(answer)
    }

    /// How long the runs of a function take.
    pub(crate) fn pace(&self, name: &str) -> Arc<Pace> {
        let mut known = self.known.lock();
        if let Some(pace) = known.paces.get(name) {
            return Arc::clone(pace);
        }
        Arc::clone(known.paces.entry(name.to_owned()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use weir_script::{Declared, Library};

    use super::*;

    fn library(name: &str, description_bytes: usize) -> Library {
        let description = Some(vec![b'x'; description_bytes]);
        let functions = vec![Declared { name: format!("f_{name}"), description, flags: 0 }];
        Library { name: name.to_owned(), code: b"#!lua".to_vec(), functions }
    }

    #[test]
    fn libraries_that_are_too_large_may_shrink() {
        let mut before = Libraries::default();
        for name in ["a", "b", "c"] {
            assert!(before.add(library(name, BYTES_MAX), false).is_ok());
        }
        let is_fine = |change: &dyn Fn(&mut Libraries) -> bool| {
            let mut after = before.clone();
            assert!(change(&mut after));
            check_size(&before, &after).is_ok()
        };
        assert!(is_fine(&|all| all.remove("b")), "two are still too large");
        assert!(is_fine(&|all| all.add(library("b", 10), true).is_ok()), "a shorter one");
        assert!(is_fine(&|_| true));
        assert!(!is_fine(&|all| all.add(library("d", 10), false).is_ok()), "one more");
        assert!(!is_fine(&|all| all.add(library("b", BYTES_MAX + 1), true).is_ok()), "a longer one");
        assert!(check_size(&Libraries::default(), &before).is_err());
    }
}
