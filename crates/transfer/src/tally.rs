//! How far a transfer has got, for those who watch it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Refusals that are kept one by one.
const REFUSED_KEPT: usize = 100;
/// Different reasons that are counted.
const REASONS_MAX: usize = 100;
/// Bytes of a key or of a reason that are kept.
const SHOWN_BYTES: usize = 200;

/// Something that the target did not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The database that it belongs to.
    pub database: u64,
    /// The key or the command, as far as it can be shown.
    pub what: String,
    /// What the target answered, or why it was not even sent.
    pub reason: String,
}

/// What a transfer is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// It connects.
    #[default]
    Connecting,
    /// A snapshot is being transferred.
    Snapshot,
    /// It does what the source does.
    Following,
}

#[derive(Default)]
struct Kept {
    phase: Phase,
    refused: Vec<Refused>,
    reasons: BTreeMap<String, u64>,
    note: Option<String>,
}

/// Counters of a transfer, and what it is doing.
pub struct Tally {
    /// Keys that the target has taken.
    pub keys: AtomicU64,
    /// Bytes read from the source.
    pub bytes: AtomicU64,
    /// All bytes of the snapshot; 0 = not known.
    pub bytes_expected: AtomicU64,
    /// All keys of the snapshot, as far as it has announced them.
    pub keys_expected: AtomicU64,
    /// Keys that had expired before they came.
    pub expired: AtomicU64,
    /// Keys of modules that were skipped.
    pub modules: AtomicU64,
    /// Keys of databases that were not chosen.
    pub others: AtomicU64,
    /// Commands that were followed.
    pub commands: AtomicU64,
    /// The position up to which the target has everything.
    pub applied: AtomicU64,
    /// The position of the source when it was asked last; `u64::MAX` if it was not asked since it is followed, or did
    /// not answer.
    pub source: AtomicU64,
    /// How often the transfer began anew.
    pub restarts: AtomicU64,
    /// The last moment, in milliseconds since 1970, up to which the target is known to have all that the source did.
    /// At first, if a source is followed, it is when the import began: the snapshot has all from before. 0 = there is
    /// none.
    pub in_step_ms: AtomicU64,
    refused: AtomicU64,
    kept: Mutex<Kept>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            keys: AtomicU64::default(),
            bytes: AtomicU64::default(),
            bytes_expected: AtomicU64::default(),
            keys_expected: AtomicU64::default(),
            expired: AtomicU64::default(),
            modules: AtomicU64::default(),
            others: AtomicU64::default(),
            commands: AtomicU64::default(),
            applied: AtomicU64::default(),
            source: AtomicU64::new(u64::MAX),
            restarts: AtomicU64::default(),
            in_step_ms: AtomicU64::default(),
            refused: AtomicU64::default(),
            kept: Mutex::default(),
        }
    }
}

impl Tally {
    /// Counts something that the target did not take.
    pub fn refuse(&self, database: u64, what: &[u8], reason: &str) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        let reason: String = reason.chars().take(SHOWN_BYTES).collect();
        let mut kept = self.kept.lock();
        if kept.reasons.len() < REASONS_MAX || kept.reasons.contains_key(&reason) {
            *kept.reasons.entry(reason.clone()).or_default() += 1;
        }
        if kept.refused.len() < REFUSED_KEPT {
            kept.refused.push(Refused { database, what: shown(what), reason });
        }
    }

    /// How often the target did not take something.
    pub fn refusals(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// The first refusals, and how often each reason was given.
    pub fn refused(&self) -> (Vec<Refused>, BTreeMap<String, u64>) {
        let kept = self.kept.lock();
        (kept.refused.clone(), kept.reasons.clone())
    }

    /// Begins again: forgets the counts of a snapshot.
    pub fn restart(&self) {
        for count in [&self.keys, &self.bytes, &self.keys_expected, &self.expired, &self.modules, &self.others] {
            count.store(0, Ordering::Relaxed);
        }
        self.refused.store(0, Ordering::Relaxed);
        let mut kept = self.kept.lock();
        kept.refused.clear();
        kept.reasons.clear();
    }

    /// How many bytes the tenant is behind the source, as far as that is known.
    pub fn lag(&self) -> Option<u64> {
        let source = self.source.load(Ordering::Relaxed);
        (source < u64::MAX).then(|| source.saturating_sub(self.applied.load(Ordering::Relaxed)))
    }

    /// Whether the target has all that the source had when it was asked last, a few seconds ago at most.
    pub fn is_in_step(&self) -> bool {
        self.lag() == Some(0)
    }

    /// Notes that the tenant has everything up to `offset`.
    pub fn apply(&self, offset: u64) {
        self.applied.store(offset, Ordering::Relaxed);
    }

    /// Notes that the source is at `offset`; `None` = nobody knows. While it is not followed, that means nothing.
    pub fn tell_source(&self, offset: Option<u64>) {
        let offset = offset.filter(|_| self.phase() == Phase::Following);
        self.source.store(offset.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// What the transfer is doing.
    pub fn phase(&self) -> Phase {
        self.kept.lock().phase
    }

    /// Sets what the transfer is doing.
    pub fn set_phase(&self, phase: Phase) {
        self.kept.lock().phase = phase;
        if phase != Phase::Following {
            self.tell_source(None);
        }
    }

    /// Keeps a note for the user about something that happened meanwhile.
    pub fn note(&self, note: impl Into<String>) {
        self.kept.lock().note = Some(note.into());
    }

    /// Takes the note, if there is one.
    pub fn take_note(&self) -> Option<String> {
        self.kept.lock().note.take()
    }
}

/// `bytes` as text that is safe to print on a terminal.
pub fn shown(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(SHOWN_BYTES)].escape_ascii().to_string()
}
