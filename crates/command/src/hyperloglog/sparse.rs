//! Registers as runs of equal ones.
//!
//! ```text
//! run := 00llllll            l + 1 registers of 0
//!      | 01llllll llllllll   l + 1 registers of 0
//!      | 1vvvvvll            l + 1 registers of v + 1
//! ```

use super::{Corrupted, HEADER_BYTES, REGISTERS, Registers};

/// Most registers of a run of zeros that takes one byte.
const SHORT_ZEROS_MAX: usize = 64;
/// Most registers of a run of another rank.
const RANKS_MAX: usize = 4;
/// The highest rank that a run can have.
const RANK_MAX: u8 = 32;
/// Longer values are made dense. This is Redis' default.
const VALUE_BYTES_MAX: usize = 3000;
/// How many runs are searched for two that can be joined, beginning with the one in front of a change.
const LOOKED_AT: usize = 5;

/// What became of a register that had to be raised.
pub(super) enum Raised {
    /// It is higher now.
    Higher,
    /// It was at least as high already.
    Same,
    /// Runs cannot express the rank, or would become too long.
    NoRoom,
}

/// A run.
struct Run {
    /// The rank of its registers, or 0.
    rank: u8,
    registers: usize,
    bytes: usize,
}

impl Run {
    /// The run at `at`, if it is complete.
    fn at(value: &[u8], at: usize) -> Option<Self> {
        let first = *value.get(at)?;
        Some(match first >> 6 {
            0 => Self { rank: 0, registers: usize::from(first & 0x3f) + 1, bytes: 1 },
            1 => {
                let len = u16::from_be_bytes([first & 0x3f, *value.get(at + 1)?]);
                Self { rank: 0, registers: usize::from(len) + 1, bytes: 2 }
            }
            _ => Self { rank: (first >> 2 & 0x1f) + 1, registers: usize::from(first & 3) + 1, bytes: 1 },
        })
    }
}

fn run_of(rank: u8, registers: usize) -> u8 {
    0x80 | (rank - 1) << 2 | (registers - 1) as u8
}

/// Appends a run of `registers` registers of `rank`; for a rank other than 0, at most [`RANKS_MAX`].
pub(super) fn put_run(out: &mut Vec<u8>, rank: u8, registers: usize) {
    match (rank, registers) {
        (_, 0) => {}
        (0, 1..=SHORT_ZEROS_MAX) => out.push((registers - 1) as u8),
        (0, _) => out.extend_from_slice(&(0x4000 | (registers - 1) as u16).to_be_bytes()),
        _ => out.push(run_of(rank, registers)),
    }
}

/// The runs of `value`, which begins with a header.
fn runs(value: &[u8]) -> impl Iterator<Item = Result<Run, Corrupted>> {
    let mut at = HEADER_BYTES;
    std::iter::from_fn(move || {
        let run = (at < value.len()).then(|| Run::at(value, at).ok_or(Corrupted))?;
        // Nothing is read behind a run that is incomplete.
        at += run.as_ref().map_or(usize::MAX - at, |run| run.bytes);
        Some(run)
    })
}

/// Raises `registers` to those of `value`.
pub(super) fn merge(value: &[u8], registers: &mut Registers) -> Result<(), Corrupted> {
    let mut left = &mut registers[..];
    for run in runs(value) {
        let run = run?;
        let (these, behind) = left.split_at_mut_checked(run.registers).ok_or(Corrupted)?;
        these.iter_mut().for_each(|register| *register = (*register).max(run.rank));
        left = behind;
    }
    if left.is_empty() { Ok(()) } else { Err(Corrupted) }
}

/// The runs of `value` as `PFDEBUG DECODE` shows them.
///
/// # Errors
/// A run is incomplete.
pub fn describe(value: &[u8]) -> Result<String, Corrupted> {
    let mut shown = Vec::new();
    for run in runs(value).take(2 * REGISTERS) {
        shown.push(match run? {
            Run { rank: 0, registers, bytes: 1 } => format!("z:{registers}"),
            Run { rank: 0, registers, .. } => format!("Z:{registers}"),
            Run { rank, registers, .. } => format!("v:{rank},{registers}"),
        });
    }
    Ok(shown.join(" "))
}

/// Raises the register `index` of `value` to `rank`, which is not 0. The resulting runs are those that Redis makes.
pub(super) fn raise(value: &mut Vec<u8>, index: usize, rank: u8) -> Result<Raised, Corrupted> {
    if rank > RANK_MAX {
        return Ok(Raised::NoRoom);
    }
    let (mut before, mut at, mut first) = (HEADER_BYTES, HEADER_BYTES, 0);
    let run = loop {
        let run = Run::at(value, at).ok_or(Corrupted)?;
        if index < first + run.registers {
            break run;
        }
        before = at;
        at += run.bytes;
        first += run.registers;
    };
    if run.rank >= rank {
        return Ok(Raised::Same);
    }
    let mut split = Vec::with_capacity(5);
    put_run(&mut split, run.rank, index - first);
    put_run(&mut split, rank, 1);
    put_run(&mut split, run.rank, first + run.registers - 1 - index);
    if split.len() > run.bytes && value.len() + split.len() - run.bytes > VALUE_BYTES_MAX {
        return Ok(Raised::NoRoom);
    }
    value.splice(at..at + run.bytes, split);
    join(value, before);
    Ok(Raised::Higher)
}

/// Joins adjacent runs of the same rank, from `at` on.
fn join(value: &mut Vec<u8>, mut at: usize) {
    for _ in 0..LOOKED_AT {
        let Some(run) = Run::at(value, at) else { return };
        match Run::at(value, at + run.bytes) {
            Some(next) if run.rank > 0 && next.rank == run.rank && run.registers + next.registers <= RANKS_MAX => {
                value[at + 1] = run_of(run.rank, run.registers + next.registers);
                value.remove(at);
            }
            _ => at += run.bytes,
        }
    }
}
