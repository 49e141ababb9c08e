//! Real `kill -9`: a server process is loaded over its Redis port, killed, started again, and asked for everything.
//!
//! Each connection writes numbers 1, 2, 3 … in order, number `n` to slot `n mod SLOTS` of its own keys, with several
//! commands in flight. After a restart its slots must be exactly those of some last number `c`: every number up to `c`
//! is there and none above, with acknowledged <= c <= sent. That is the prefix rule of the power-cut runs, seen from
//! outside. Or else the connections take [steps](crate::steps), which write to rows of every type by transactions,
//! scripts and functions.
#![allow(clippy::disallowed_methods, reason = "this runner drives real processes over real sockets")]

use std::fmt;
use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_io::Rng;
use weir_node::{EngineKind, LogKind};
use weir_scenario::eprintln;

use crate::process::{Door, Launch, Server, command, create_tenant};

/// How the server is run and for how long.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server, on an empty or missing directory.
    pub launch: Launch,
    /// The engine that keeps the loaded tenant's rows.
    pub engine: EngineKind,
    /// The log that this tenant writes to.
    pub log: LogKind,
    /// How many times the server is killed.
    pub rounds: u64,
    /// Seed of the moments at which it is killed.
    pub seed: u64,
}

impl Options {
    /// The command that runs the same again; `how` has its further options, with a blank behind them.
    pub fn command(&self, how: &str) -> String {
        let Self { launch, engine, log, rounds, seed } = self;
        let of_server = if launch.arguments.is_empty() { "" } else { " -- " };
        let arguments = launch.arguments.join(" ");
        format!(
            "weir sim kill9 {how}--engine {engine} --log {log} --rounds {rounds} --seed {seed}{of_server}{arguments}"
        )
    }
}

/// The figures of a run.
#[derive(Clone, Debug, Default)]
pub struct Kills {
    /// Kills while loaded.
    pub rounds: u64,
    /// Kills that hit a server that was still starting.
    pub in_recovery: u64,
    /// Writes acknowledged over all rounds.
    pub acknowledged: u64,
    /// Times from starting the process to its first answer, sorted.
    pub restarts: Vec<Duration>,
}

impl fmt::Display for Kills {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |part: usize| {
            self.restarts.get((self.restarts.len() * part / 100).min(self.restarts.len().saturating_sub(1)))
        };
        let ms = |duration: Option<&Duration>| duration.map_or(0, Duration::as_millis);
        write!(
            f,
            "{} kills and {} more during recovery, {} acknowledged writes, none lost; restart to first answer: median {} ms, P99 {} ms",
            self.rounds,
            self.in_recovery,
            self.acknowledged,
            ms(at(50)),
            ms(at(99))
        )
    }
}

/// The tenant that is loaded.
const TENANT: &str = "loaded";
const CONNECTIONS: usize = 8;
const SLOTS: u64 = 997;
/// Commands in flight on a connection.
const PIPELINE: u64 = 16;
/// Padding makes memtables fill and flushes run.
const VALUE_PADDING: usize = 200;

/// What one connection writes, and finds again.
pub trait Load: Default + Send {
    /// Writes as `connection` until the server is gone, or until `stop`.
    fn write(&mut self, door: &Door, connection: usize, stop: &AtomicBool);

    /// Reads back everything that `connection` has written. The connection then goes on after the last write that is
    /// there.
    ///
    /// # Errors
    /// The error says what is lost, or what should not be there.
    fn verify(&mut self, door: &Door, connection: usize) -> Result<(), String>;

    /// How many writes of the connection were ever acknowledged.
    fn acknowledged(&self) -> u64;
}

/// What one connection knows of its numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Line {
    /// The last number that was sent.
    pub sent: u64,
    /// The last number that was acknowledged.
    pub acknowledged: u64,
}

/// Runs the scenario. The error says what was lost, or what went wrong.
pub fn run<L: Load>(options: &Options) -> Result<Kills, String> {
    let mut rng = Rng::new(options.seed);
    let mut lines: [L; CONNECTIONS] = Default::default();
    let mut kills = Kills::default();
    let mut known_secret = None;
    for round in 0..options.rounds {
        if round > 0 && rng.chance(0.3) {
            let mut server = Server::start(&options.launch)?;
            std::thread::sleep(Duration::from_micros(rng.below(30_000)));
            server.kill();
            kills.in_recovery += 1;
        }
        let mut server = Server::start(&options.launch)?;
        kills.restarts.push(server.wait_until_it_answers()?);
        let secret = match &known_secret {
            Some(secret) => String::clone(secret),
            None => {
                known_secret.insert(create_tenant(server.operators, TENANT, (options.engine, options.log), 1)?).clone()
            }
        };
        let door = Door { address: server.clients, user: TENANT.into(), secret };
        for (number, line) in lines.iter_mut().enumerate() {
            line.verify(&door, number).map_err(|story| format!("round {round}: connection {number}: {story}"))?;
        }
        let stop = AtomicBool::new(false);
        let load_ms = 100 + rng.below(900);
        let before: u64 = lines.iter().map(L::acknowledged).sum();
        std::thread::scope(|scope| {
            for (number, line) in lines.iter_mut().enumerate() {
                let (door, stop) = (&door, &stop);
                scope.spawn(move || line.write(door, number, stop));
            }
            std::thread::sleep(Duration::from_millis(load_ms));
            server.kill();
            stop.store(true, Ordering::Relaxed);
        });
        let after: u64 = lines.iter().map(L::acknowledged).sum();
        if after == before {
            return Err(format!("round {round}: not one write was acknowledged in {load_ms} ms"));
        }
        kills.acknowledged += after - before;
        kills.rounds += 1;
        if round % 10 == 9 {
            eprintln!("round {}: {} acknowledged writes so far", round + 1, kills.acknowledged);
        }
    }
    let mut server = Server::start(&options.launch)?;
    kills.restarts.push(server.wait_until_it_answers()?);
    let door = Door { address: server.clients, user: TENANT.into(), secret: known_secret.unwrap_or_default() };
    for (number, line) in lines.iter_mut().enumerate() {
        line.verify(&door, number).map_err(|story| format!("at the end: connection {number}: {story}"))?;
    }
    kills.restarts.sort();
    Ok(kills)
}

fn key(connection: usize, slot: u64) -> String {
    format!("line:{connection}:{slot}")
}

impl Load for Line {
    fn write(&mut self, door: &Door, connection: usize, stop: &AtomicBool) {
        let Ok(mut reader) = door.enter() else { return };
        let Ok(mut writer) = reader.get_ref().try_clone() else { return };
        let padding = "x".repeat(VALUE_PADDING);
        let mut reply = String::new();
        while !stop.load(Ordering::Relaxed) {
            while self.sent < self.acknowledged + PIPELINE {
                let number = self.sent + 1;
                // Counted as sent before it is sent: the server may be killed in the middle of reading the command.
                self.sent = number;
                let set = command(&["SET", &key(connection, number % SLOTS), &format!("{number}:{padding}")]);
                if writer.write_all(set.as_bytes()).is_err() {
                    return;
                }
            }
            reply.clear();
            match reader.read_line(&mut reply) {
                Ok(_) if reply == "+OK\r\n" => self.acknowledged += 1,
                _ => return,
            }
        }
    }

    fn verify(&mut self, door: &Door, connection: usize) -> Result<(), String> {
        let broken = |error: std::io::Error| format!("cannot read back: {error}");
        let mut reader = door.enter().map_err(broken)?;
        let mut writer = reader.get_ref().try_clone().map_err(broken)?;
        let mut found = Vec::with_capacity(SLOTS as usize);
        for slot in 0..SLOTS {
            writer.write_all(command(&["GET", &key(connection, slot)]).as_bytes()).map_err(broken)?;
            found.push(read_number(&mut reader).map_err(|error| format!("slot {slot}: {error}"))?);
        }
        let cut = found.iter().copied().max().unwrap_or(0);
        if cut < self.acknowledged || cut > self.sent {
            return Err(format!(
                "the last number is {cut}: {} were acknowledged, {} sent",
                self.acknowledged, self.sent
            ));
        }
        for (slot, &number) in found.iter().enumerate() {
            // The largest number up to the cut that belongs in this slot; 0 if there is none.
            let slot = slot as u64;
            let behind = (cut + SLOTS - slot) % SLOTS;
            let expected = cut.saturating_sub(behind);
            if number != expected {
                return Err(format!("slot {slot} holds {number} and not {expected}, the last number being {cut}"));
            }
        }
        *self = Line { sent: cut, acknowledged: cut };
        Ok(())
    }

    fn acknowledged(&self) -> u64 {
        self.acknowledged
    }
}

/// The number at the start of a bulk string; 0 for a missing key.
fn read_number(reader: &mut impl BufRead) -> Result<u64, String> {
    let mut head = String::new();
    reader.read_line(&mut head).map_err(|error| error.to_string())?;
    let length: i64 =
        head.strip_prefix('$').and_then(|length| length.trim_end().parse().ok()).ok_or(format!("answered {head:?}"))?;
    let Ok(length) = usize::try_from(length) else { return Ok(0) };
    let mut body = vec![0; length + 2];
    reader.read_exact(&mut body).map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&body[..length]).into_owned();
    let number = text.split(':').next().and_then(|number| number.parse().ok());
    number.ok_or_else(|| format!("holds {:?}", &text[..text.len().min(20)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repetition_has_the_arguments_of_the_server() {
        let options = |arguments: &[&str]| {
            let arguments = arguments.iter().map(|&word| word.to_owned()).collect();
            let launch = Launch { binary: "weir".into(), dir: "data".into(), arguments };
            Options { launch, engine: EngineKind::default(), log: LogKind::default(), rounds: 7, seed: 3 }
        };
        let plain = options(&[]).command("");
        assert!(plain.starts_with("weir sim kill9 --engine ") && plain.ends_with("--rounds 7 --seed 3"), "{plain}");
        let more = options(&["--config", "x.toml"]).command("--by-command ");
        assert!(
            more.contains("kill9 --by-command --engine") && more.ends_with("--seed 3 -- --config x.toml"),
            "{more}"
        );
    }
}
