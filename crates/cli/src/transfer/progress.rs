//! Shows how far a transfer is, one line per second.

use std::io::{IsTerminal, Write, stderr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_io::{Clock, sleep_until};
use weir_transfer::tally::{Phase, Tally};

use crate::units::{bytes, number};

const SECOND: u64 = 1_000_000_000;
/// Seconds between two lines if nobody watches on a terminal.
const QUIET_SECONDS: u64 = 10;

/// How progress is shown.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// As JSON objects.
    pub json: bool,
    /// This is a comparison of both sides.
    pub is_verifying: bool,
}

/// The figures of a second ago.
#[derive(Default)]
struct Before {
    keys: u64,
    /// Keys of the snapshot that were met, whatever became of them.
    met: u64,
    bytes: u64,
    commands: u64,
    /// Seconds since the source and we were in step.
    behind: u64,
}

/// Shows `tally` until it is dropped.
pub async fn show(shown: Shown, tally: Arc<Tally>, clock: Arc<dyn Clock>) {
    let mut before = Before::default();
    let is_watched = stderr().is_terminal();
    for second in 1_u64.. {
        sleep_until(&clock, clock.now() + SECOND).await;
        let line = shown.line(&tally, &mut before);
        let note = tally.take_note();
        if shown.json {
            println!("{}", shown.object(&tally, &before, note.as_deref(), false));
            continue;
        }
        // The reader of these lines may be gone: the transfer goes on.
        let mut out = stderr().lock();
        if let Some(note) = note {
            let _ = writeln!(out, "{}{note}", if is_watched { "\r\x1b[K" } else { "" });
        }
        let _ = match is_watched {
            true => write!(out, "\r\x1b[K{line}").and_then(|()| out.flush()),
            false if second.is_multiple_of(QUIET_SECONDS) => writeln!(out, "{line}"),
            false => Ok(()),
        };
    }
}

/// The lag in words.
fn lag(tally: &Tally) -> String {
    tally.lag().map_or_else(|| "not known".to_owned(), |lag| format!("{lag} bytes"))
}

impl Shown {
    fn line(self, tally: &Tally, before: &mut Before) -> String {
        let get = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        let (keys, read, commands) = (get(&tally.keys), get(&tally.bytes), get(&tally.commands));
        let rates = (keys.saturating_sub(before.keys), read.saturating_sub(before.bytes));
        let lag = lag(tally);
        let in_step = tally.is_in_step();
        let behind = if in_step || tally.phase() != Phase::Following { 0 } else { before.behind + 1 };
        let followed = commands.saturating_sub(before.commands);
        let left_out = [&tally.expired, &tally.modules, &tally.others].map(get).iter().sum::<u64>();
        let met = keys + left_out + tally.refusals();
        let met_rate = met.saturating_sub(before.met);
        *before = Before { keys, met, bytes: read, commands, behind };
        if self.is_verifying {
            return format!("compared {} keys, {}/s", number(keys), number(rates.0));
        }
        match tally.phase() {
            Phase::Connecting => "connecting".to_owned(),
            Phase::Snapshot => {
                let (all, all_keys) = (get(&tally.bytes_expected), get(&tally.keys_expected));
                let left = match (all, all_keys) {
                    (0, 0) => None,
                    (0, _) if met_rate > 0 => Some(all_keys.saturating_sub(met) / met_rate),
                    (_, _) if rates.1 > 0 && all > 0 => Some(all.saturating_sub(read) / rates.1),
                    _ => None,
                };
                let of = if all > 0 { format!(" of {}", bytes(all)) } else { String::new() };
                let left = left.map_or(String::new(), |left| format!(", {left} s left"));
                format!(
                    "snapshot: {} keys, {}{of}; {} keys/s, {}/s{left}",
                    number(keys),
                    bytes(read),
                    number(rates.0),
                    bytes(rates.1)
                )
            }
            Phase::Following if in_step => {
                format!("in step: lag {lag}; {} keys imported, {followed} commands/s", number(keys))
            }
            Phase::Following => {
                format!("following: lag {lag}, for {behind} s; {} keys imported, {followed} commands/s", number(keys))
            }
        }
    }

    fn object(self, tally: &Tally, before: &Before, note: Option<&str>, is_done: bool) -> serde_json::Value {
        let get = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        let phase = match tally.phase() {
            _ if is_done => "done",
            _ if self.is_verifying => "comparing",
            Phase::Connecting => "connecting",
            Phase::Snapshot => "snapshot",
            Phase::Following => "following",
        };
        serde_json::json!({
            "phase": phase,
            "keys": get(&tally.keys),
            "keys_expected": get(&tally.keys_expected),
            "bytes": get(&tally.bytes),
            "bytes_expected": get(&tally.bytes_expected),
            "commands": get(&tally.commands),
            "in_step": tally.is_in_step(),
            "lag_bytes": tally.lag(),
            "behind_seconds": before.behind,
            "refused": tally.refusals(),
            "expired": get(&tally.expired),
            "modules": get(&tally.modules),
            "other_databases": get(&tally.others),
            "restarts": get(&tally.restarts),
            "note": note,
        })
    }

    /// Says how the transfer ended. `position` is how far a source was followed.
    pub fn end(self, tally: &Tally, position: Option<&str>, is_whole: bool) {
        if self.json {
            let mut object = self.object(tally, &Before::default(), tally.take_note().as_deref(), true);
            object["position"] = position.into();
            object["whole"] = is_whole.into();
            println!("{object}");
            return;
        }
        if stderr().is_terminal() {
            eprint!("\r\x1b[K");
        }
        if let Some(note) = tally.take_note() {
            eprintln!("{note}");
        }
        let get = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        println!("keys     {} imported, {} refused", get(&tally.keys), tally.refusals());
        for (count, what) in [
            (&tally.expired, "had expired"),
            (&tally.modules, "of modules were left out"),
            (&tally.others, "of other databases were left out"),
        ] {
            if get(count) > 0 {
                println!("         {} {what}", get(count));
            }
        }
        println!("read     {}", bytes(get(&tally.bytes)));
        if let Some(position) = position {
            let lag = lag(tally);
            println!(
                "followed {} commands, up to {position}; lag {lag} when the source was asked last",
                get(&tally.commands)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_that_of_all_keys_also_of_those_that_are_left_out() {
        let tally = Tally::default();
        tally.set_phase(Phase::Snapshot);
        for (count, value) in
            [(&tally.keys_expected, 1_000), (&tally.keys, 100), (&tally.expired, 150), (&tally.others, 249)]
        {
            count.store(value, Ordering::Relaxed);
        }
        tally.refuse(0, b"key", "too long");
        let line = Shown { json: false, is_verifying: false }.line(&tally, &mut Before::default());
        assert!(line.ends_with("100 keys/s, 0 B/s, 1 s left"), "{line}");
    }

    #[test]
    fn a_comparison_is_not_said_to_connect() {
        let shown = Shown { json: true, is_verifying: true };
        let object = shown.object(&Tally::default(), &Before::default(), None, false);
        assert_eq!(object["phase"], "comparing");
    }

    #[test]
    fn json_has_every_count_that_the_text_has() {
        let tally = Tally::default();
        for (count, value) in [(&tally.keys, 2), (&tally.expired, 3), (&tally.modules, 5), (&tally.others, 7)] {
            count.store(value, Ordering::Relaxed);
        }
        let object = Shown { json: true, is_verifying: false }.object(&tally, &Before::default(), None, true);
        let of = |name: &str| object[name].as_u64();
        let names = ["keys", "expired", "modules", "other_databases"];
        assert_eq!(names.map(of), [2, 3, 5, 7].map(Some));
    }
}
