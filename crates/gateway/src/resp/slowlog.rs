//! The last commands that took long, for `SLOWLOG`. The time does not include the wait for the log's promise.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use weir_command::Args;

/// How many arguments of a command are kept, and how many bytes of each: the same as in Redis.
const ARGS_MAX: usize = 32;
const ARG_BYTES_MAX: usize = 128;

/// How many entries are kept at most, whatever `slowlog-max-len` says: about 4 MB at their longest.
const ENTRIES_MAX: usize = 1024;

/// A command that took long.
pub(super) struct Entry {
    pub(super) id: u64,
    /// When the command ended, in seconds since 1970.
    pub(super) second: u64,
    pub(super) micros: u64,
    pub(super) args: Vec<Vec<u8>>,
    pub(super) peer: String,
    pub(super) client_name: Vec<u8>,
}

/// The slow commands of one owner: nobody sees another owner's commands.
pub(crate) struct Slowlog {
    /// The value of `slowlog-log-slower-than` in microseconds. If negative, nothing is logged.
    slower_than: AtomicI64,
    /// The value of `slowlog-max-len`.
    len_max: AtomicUsize,
    next_id: AtomicU64,
    entries: Mutex<VecDeque<Arc<Entry>>>,
}

impl Default for Slowlog {
    fn default() -> Self {
        Self {
            slower_than: AtomicI64::new(10_000),
            len_max: AtomicUsize::new(128),
            next_id: AtomicU64::new(0),
            entries: Mutex::default(),
        }
    }
}

/// The beginning of an argument, and how many bytes are missing.
fn shorten(arg: &[u8]) -> Vec<u8> {
    match arg.len().checked_sub(ARG_BYTES_MAX) {
        None | Some(0) => arg.to_vec(),
        Some(more) => [&arg[..ARG_BYTES_MAX], format!("... ({more} more bytes)").as_bytes()].concat(),
    }
}

/// The arguments as they are kept. Arguments of commands that may hold a secret are not kept (S4).
fn keep(args: Args<'_>, secret: bool) -> Vec<Vec<u8>> {
    let more = args.len().saturating_sub(ARGS_MAX);
    // The last one says how many are missing, including itself.
    let kept = if more > 0 { ARGS_MAX - 1 } else { args.len() };
    let mut words: Vec<Vec<u8>> = args.iter_from(0).take(kept).map(shorten).collect();
    if secret {
        words.iter_mut().skip(1).for_each(|word| *word = b"(redacted)".to_vec());
    }
    if more > 0 {
        words.push(format!("... ({} more arguments)", more + 1).into_bytes());
    }
    words
}

impl Slowlog {
    /// Whether a command that took this many microseconds is kept.
    #[inline]
    pub(super) fn wants(&self, micros: u64) -> bool {
        u64::try_from(self.slower_than.load(Ordering::Relaxed)).is_ok_and(|slower_than| micros >= slower_than)
    }

    /// Keeps a command. `entry` comes without its number and its arguments.
    pub(super) fn add(&self, entry: Entry, args: Args<'_>, secret: bool) {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let entry = Entry { id, args: keep(args, secret), ..entry };
        let mut entries = self.entries.lock();
        entries.push_front(Arc::new(entry));
        entries.truncate(self.len_max());
    }

    /// The last `count` commands, newest first.
    pub(super) fn last(&self, count: usize) -> Vec<Arc<Entry>> {
        self.entries.lock().iter().take(count).cloned().collect()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.lock().len()
    }

    pub(super) fn reset(&self) {
        self.entries.lock().clear();
    }

    pub(super) fn slower_than(&self) -> i64 {
        self.slower_than.load(Ordering::Relaxed)
    }

    pub(super) fn set_slower_than(&self, micros: i64) {
        self.slower_than.store(micros, Ordering::Relaxed);
    }

    pub(super) fn len_max(&self) -> usize {
        self.len_max.load(Ordering::Relaxed).min(ENTRIES_MAX)
    }

    pub(super) fn set_len_max(&self, len: usize) {
        self.len_max.store(len.min(ENTRIES_MAX), Ordering::Relaxed);
        let mut entries = self.entries.lock();
        entries.truncate(len.min(ENTRIES_MAX));
    }
}
