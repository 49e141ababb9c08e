//! What clients do: an endless stream of steps drawn from a seed.
//!
//! Few keys and small values on purpose: with 48 keys every key is overwritten, deleted and expired many times in each
//! level of a tree whose memtable is a few kilobytes. That is where the mistakes are; volume comes from repetition.

use weir_io::Rng;
use weir_model::{Batch, Change};

/// One step of a client.
#[derive(Clone, Debug)]
pub enum Step {
    /// Send a batch, and wait for its acknowledgement only if `wait` is set.
    Write {
        /// What to write.
        batch: Batch,
        /// Whether the client waits before its next step.
        wait: bool,
    },
    /// Read one key and compare.
    Get(Vec<u8>),
    /// Read everything, forward or backward, and compare.
    Scan {
        /// From the last key down.
        reverse: bool,
    },
    /// Seal the memtable, so that a flush follows.
    Seal,
    /// Let virtual milliseconds pass: background work goes on.
    Sleep(u64),
    /// Write a key that expires, then read it in its last millisecond and in the first one after that.
    Expire(Vec<u8>),
}

/// The knobs of a workload. Only what differs between runs is a knob; the rest is the same everywhere.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// How many different keys there are.
    pub keys: u64,
    /// Largest value in bytes.
    pub value_bytes_max: u64,
    /// Whether keys may expire. Off if the wall clock jumps between two runs that are compared.
    pub expiry: bool,
}

impl Mix {
    /// What crash runs use.
    pub const CRASH: Mix = Mix { keys: 48, value_bytes_max: 4_000, expiry: true };
}

/// The steps of one seed.
pub struct Workload {
    rng: Rng,
    mix: Mix,
    writes: u64,
}

impl Workload {
    /// A stream of its own for `rng`.
    pub fn new(rng: Rng, mix: Mix) -> Self {
        Self { rng, mix, writes: 0 }
    }

    /// A key, drawn so that some are much more frequent than others.
    pub fn key(&mut self) -> Vec<u8> {
        let bound = self.rng.below(self.mix.keys) + 1;
        let number = self.rng.below(bound);
        // Lengths differ, and some keys are prefixes of others: the order of bytes is what is tested too.
        match number % 5 {
            0 => format!("k{number:03}").into_bytes(),
            1 => format!("k{number:03}/long-tail-of-a-key").into_bytes(),
            2 => [b"k\0".as_slice(), &number.to_be_bytes()].concat(),
            3 => [b"k\xff".as_slice(), &number.to_be_bytes()[6..]].concat(),
            _ => format!("k{:03}", number / 10).into_bytes(),
        }
    }

    /// A value that no other write has, mostly short.
    pub fn value(&mut self) -> Vec<u8> {
        self.writes += 1;
        let length = match self.rng.below(20) {
            0 => self.rng.below(self.mix.value_bytes_max + 1),
            1..5 => self.rng.below(1_000),
            _ => self.rng.below(80),
        };
        let mut value = format!("#{}:", self.writes).into_bytes();
        let filling = self.rng.next_u64().to_le_bytes();
        // Half of the fillings compress, half do not.
        let step = if self.rng.chance(0.5) { 0 } else { 37 };
        value.extend((value.len() as u64..length).map(|at| filling[(at % 8) as usize].wrapping_add((at * step) as u8)));
        value
    }

    /// A batch of 1 to 6 changes.
    pub fn batch(&mut self, now_ms: u64) -> Batch {
        let mut batch = Batch::new();
        let changes = if self.rng.chance(0.6) { 1 } else { 1 + self.rng.below(6) };
        for _ in 0..changes {
            let key = self.key();
            if self.rng.chance(0.2) {
                batch.delete(&key);
                continue;
            }
            let expires = self.mix.expiry && self.rng.chance(0.1);
            let expire_at_ms = expires.then(|| now_ms + self.rng.below(400));
            let value = self.value();
            batch.push(Change::Put { key: &key, value: &value, expire_at_ms });
        }
        batch
    }

    /// The next step.
    pub fn step(&mut self, now_ms: u64) -> Step {
        match self.rng.below(100) {
            0..70 => {
                let wait = self.rng.chance(0.4);
                Step::Write { batch: self.batch(now_ms), wait }
            }
            70..80 => Step::Get(self.key()),
            80..84 => Step::Scan { reverse: self.rng.chance(0.5) },
            84..88 => Step::Seal,
            88..90 if self.mix.expiry => Step::Expire(self.key()),
            _ => Step::Sleep(self.rng.below(40)),
        }
    }
}
