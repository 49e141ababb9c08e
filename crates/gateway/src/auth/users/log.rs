//! What was refused to users of a tenant, for `ACL LOG`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use weir_io::Nanos;

/// How many entries are kept at most, whatever `acllog-max-len` says.
const ENTRIES_MAX: usize = 1024;

/// A refusal that is repeated within this time is counted in the entry that it already has.
const GROUPED_NANOS: Nanos = 60_000_000_000;

/// How many of the newest entries are compared with a new refusal.
const GROUPED_MAX: usize = 10;

/// How many bytes of a command, a key or a channel are kept.
const OBJECT_BYTES_MAX: usize = 1024;

/// What was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// `command`, `key`, `channel` or `auth`.
    pub(crate) reason: &'static str,
    /// `toplevel`, `multi` or `lua`.
    pub(crate) context: &'static str,
    /// The command, key or channel that was refused.
    pub(crate) object: Vec<u8>,
    pub(crate) user: Vec<u8>,
}

/// A refusal: how often it happened, when last, and to which connection.
#[derive(Clone, Debug)]
pub(crate) struct LogEntry {
    pub(crate) refused: Refused,
    pub(crate) count: u64,
    pub(crate) at: Nanos,
    pub(crate) client: String,
}

/// The refusals of a tenant's users.
pub(crate) struct AclLog {
    /// The value of `acllog-max-len`.
    len_max: AtomicUsize,
    /// The newest entry is first.
    entries: Mutex<VecDeque<Arc<LogEntry>>>,
}

impl Default for AclLog {
    fn default() -> Self {
        Self { len_max: AtomicUsize::new(128), entries: Mutex::default() }
    }
}

impl AclLog {
    /// Adds `refused`, which was refused at `at` to the connection that `client` describes.
    pub(crate) fn add(&self, mut refused: Refused, at: Nanos, client: String) {
        refused.object.truncate(OBJECT_BYTES_MAX);
        let mut entries = self.entries.lock();
        let is_same = |entry: &Arc<LogEntry>| entry.refused == refused && at.saturating_sub(entry.at) <= GROUPED_NANOS;
        let known = entries.iter().take(GROUPED_MAX).position(is_same).and_then(|place| entries.remove(place));
        let count = known.map_or(0, |known| known.count) + 1;
        entries.push_front(Arc::new(LogEntry { refused, count, at, client }));
        entries.truncate(self.len_max());
    }

    /// Up to `count` entries, newest first.
    pub(crate) fn newest(&self, count: usize) -> Vec<Arc<LogEntry>> {
        self.entries.lock().iter().take(count).cloned().collect()
    }

    pub(crate) fn clear(&self) {
        self.entries.lock().clear();
    }

    pub(crate) fn len_max(&self) -> usize {
        self.len_max.load(Ordering::Relaxed)
    }

    pub(crate) fn set_len_max(&self, len: usize) {
        self.len_max.store(len.min(ENTRIES_MAX), Ordering::Relaxed);
        self.entries.lock().truncate(self.len_max());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(object: &str) -> Refused {
        Refused { reason: "key", context: "toplevel", object: object.into(), user: b"ada".to_vec() }
    }

    #[test]
    fn what_is_refused_again_counts_and_the_log_is_bounded() {
        let log = AclLog::default();
        (0..3).for_each(|at| log.add(refused("a"), at, String::new()));
        log.add(refused("b"), 4, String::new());
        log.add(refused("a"), 5, "last".into());
        let told = |log: &AclLog| -> Vec<(Vec<u8>, u64)> {
            log.newest(9).iter().map(|entry| (entry.refused.object.clone(), entry.count)).collect()
        };
        assert_eq!(told(&log), [(b"a".to_vec(), 4), (b"b".to_vec(), 1)]);
        assert_eq!(log.newest(1)[0].client, "last");
        log.add(refused("a"), GROUPED_NANOS + 6, String::new());
        assert_eq!(told(&log)[0], (b"a".to_vec(), 1), "that was long ago");
        log.set_len_max(2);
        assert_eq!(told(&log).len(), 2);
        log.set_len_max(1 << 20);
        (0..2 * ENTRIES_MAX).for_each(|number| log.add(refused(&number.to_string()), 0, String::new()));
        assert_eq!(log.newest(usize::MAX).len(), ENTRIES_MAX);
        log.clear();
        assert!(log.newest(1).is_empty());
    }
}
