//! What is known of a server's tenants, and checks that it holds.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use weir_io::real::{RealFs, RealFsOptions, block_on, blocking_scope};
use weir_io::{ErrorKind, Fs, Rng};
use weir_node::LogKind;

use super::orders::{FLUSHED, Kind, Round, SOURCE};
use super::{Answers, Figures};
use crate::engines::Engines;
use crate::kill9::{Line, Load};
use crate::process::{Answer, Client, Door, Server, create_tenant, order, secret};
use crate::steps::Steps;

/// Keys of [`SOURCE`], of what is restored, and of [`FLUSHED`] before it is emptied.
const KEYS: u64 = 400;
/// Two partitions of five memtables each.
const VALUE_BYTES: usize = 4_000;
/// Tenants beyond these are dropped before a round, so that the directory stays small.
const TENANTS_MAX: usize = 10;
/// The tenant that is written to. It has one partition: the writes of a connection have an order in one log.
const WRITTEN: &str = "written";
/// Connections that write to it.
const LINES: usize = 2;
/// Tenants that fall asleep and wake.
const SLEEPERS: usize = 6;

/// Whether a tenant is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    There,
    Gone,
    /// Nobody was told: the order was carried out as a whole or not at all.
    Either,
}

/// What is known of the tenants of one server.
pub struct Known {
    engines: Engines,
    backups: PathBuf,
    whole: PathBuf,
    round: u64,
    /// The orders of the round under way.
    ordered: Option<Round>,
    lines: [Line; LINES],
    /// One more client that writes to that tenant, by commands of every type.
    steps: Steps,
    acknowledged: u64,
    sleepers: Sleepers,
    /// Tenants that were restored, with [`KEYS`] keys, and tenants that were created, which are empty.
    tenants: BTreeMap<String, Fate>,
    secrets: BTreeMap<String, String>,
}

/// Tenants that are asked now and then, and that fall asleep in between.
#[derive(Default)]
pub struct Sleepers {
    secrets: Vec<String>,
    values: Vec<Line>,
}

fn sleeper(number: usize) -> String {
    format!("sleeper-{number}")
}

fn value(number: u64) -> String {
    format!("{number}:").repeat(VALUE_BYTES / 4)
}

impl Known {
    /// Creates what all rounds need on an empty server.
    pub fn begin(server: &Server, backups: PathBuf, engines: Engines) -> Result<Self, String> {
        let mut known = Self {
            engines,
            whole: backups.join("whole"),
            backups,
            round: 0,
            ordered: None,
            lines: Default::default(),
            steps: Steps::default(),
            acknowledged: 0,
            sleepers: Sleepers::default(),
            tenants: BTreeMap::new(),
            secrets: BTreeMap::new(),
        };
        for name in [SOURCE, FLUSHED] {
            known.create(server, name, 2)?;
            known.fill(server, name)?;
        }
        known.create(server, WRITTEN, 1)?;
        for number in 0..SLEEPERS {
            let secret = known.create(server, &sleeper(number), 2)?;
            known.sleepers.secrets.push(secret);
            known.sleepers.values.push(Line::default());
        }
        let body = format!(r#"{{"dir":"{}"}}"#, known.whole.display());
        done(order(server.operators, &format!("POST /v1/tenants/{SOURCE}/backup"), &body))?;
        for number in 0..2 {
            let name = format!("copy-0-{number}");
            let body = format!(r#"{{"dir":"{}","name":"{name}"}}"#, known.whole.display());
            done(order(server.operators, "POST /v1/restore", &body))?;
            known.tenants.insert(name, Fate::There);
        }
        Ok(known)
    }

    /// How many writes were acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// The door through which [`Known::writers`] write.
    pub fn written_to(&self, server: &Server) -> Door {
        Door { address: server.clients, user: WRITTEN.into(), secret: self.secrets[WRITTEN].clone() }
    }

    /// The clients that write while orders are given.
    pub fn writers(&mut self) -> (&mut [Line], &mut Steps, &mut Sleepers) {
        (&mut self.lines, &mut self.steps, &mut self.sleepers)
    }

    /// The orders of the next round.
    pub fn prepare(&mut self, server: &Server, rng: &mut Rng) -> Result<Round, String> {
        self.round += 1;
        let mut client = self.client(server, FLUSHED)?;
        if client.ask(&["DBSIZE"])?.as_deref() == Some("0") {
            self.fill(server, FLUSHED)?;
        }
        let mut there = self.there();
        while there.len() > TENANTS_MAX {
            let name = there.swap_remove(rng.below(there.len() as u64) as usize);
            done(order(server.operators, &format!("DELETE /v1/tenants/{name}"), ""))?;
            self.tenants.insert(name, Fate::Gone);
        }
        let dropped = there.get(rng.below(there.len().max(1) as u64) as usize).ok_or("there is nobody to drop")?;
        let round = Round {
            backup: self.backups.join(format!("round-{}", self.round)),
            whole: self.whole.clone(),
            restored: format!("copy-{}", self.round),
            created: format!("new-{}", self.round),
            engine: self.engines.of(self.round as usize),
            dropped: dropped.clone(),
            flusher: self.secrets[FLUSHED].clone(),
        };
        self.ordered = Some(round.clone());
        Ok(round)
    }

    fn there(&self) -> Vec<String> {
        self.tenants.iter().filter(|(_, fate)| **fate == Fate::There).map(|(name, _)| name.clone()).collect()
    }

    /// Checks that the server has whatever it answered, and that nothing else was done by halves.
    pub fn settle(&mut self, server: &Server, answers: &Answers, figures: &mut Figures) -> Result<(), String> {
        let Some(round) = self.ordered.take() else { return Ok(()) };
        let answer =
            |wanted| answers.iter().find(|(kind, ..)| *kind == wanted).map_or(&Answer::Cut, |(_, answer, _)| answer);
        let is_done = |kind| matches!(answer(kind), Answer::Done(_));
        let made = |done| if done { Fate::There } else { Fate::Either };
        self.tenants.insert(round.restored.clone(), made(is_done(Kind::Restore)));
        self.tenants.insert(round.created.clone(), made(is_done(Kind::Create)));
        let dropped = if is_done(Kind::Drop) { Fate::Gone } else { Fate::Either };
        self.tenants.insert(round.dropped.clone(), dropped);

        self.look_at_lines(server)?;
        figures.asleep += self.sleepers.look(server.clients, server.operators)?;
        self.look_at_tenants(server, &round)?;
        self.look_at_keys(server, SOURCE, &[KEYS])?;
        let flushed: &[u64] = if is_done(Kind::Flush) { &[0] } else { &[0, KEYS] };
        self.look_at_keys(server, FLUSHED, flushed)?;
        let whole = look_at_backup(server, &round.backup, is_done(Kind::Backup))?;
        figures.whole_backups += u64::from(whole && !is_done(Kind::Backup));
        Ok(())
    }

    fn look_at_lines(&mut self, server: &Server) -> Result<(), String> {
        let door = self.written_to(server);
        for (number, line) in self.lines.iter_mut().enumerate() {
            line.verify(&door, number).map_err(|story| format!("connection {number}: {story}"))?;
        }
        self.steps.verify(&door, 0).map_err(|story| format!("steps: {story}"))?;
        let lines: u64 = self.lines.iter().map(Line::acknowledged).sum();
        self.acknowledged = lines + self.steps.acknowledged();
        Ok(())
    }

    /// Checks which tenants are there and which are gone, and that those of this round and one more are whole.
    fn look_at_tenants(&mut self, server: &Server, round: &Round) -> Result<(), String> {
        let listed = listed(server.operators)?;
        let fixed = |name: &str| [SOURCE, FLUSHED, WRITTEN, "default"].contains(&name) || name.starts_with("sleeper-");
        if let Some(stranger) = listed.keys().find(|name| !fixed(name) && !self.tenants.contains_key(*name)) {
            return Err(format!("there is a tenant {stranger} that nobody made"));
        }
        for (name, fate) in &mut self.tenants {
            let found = if listed.contains_key(name) { Fate::There } else { Fate::Gone };
            if *fate != Fate::Either && *fate != found {
                return Err(format!("tenant {name} should be {fate:?} and is {found:?}"));
            }
            *fate = found;
        }
        // A tenant that is gone is gone for ever: no name is used twice.
        let there = |name: &String| self.tenants[name] == Fate::There;
        let mut whole: BTreeSet<&String> = [&round.restored, &round.created, &round.dropped].into();
        whole.extend(self.tenants.keys().nth(self.round as usize % self.tenants.len()));
        for name in whole.into_iter().filter(|name| there(name)) {
            let keys = if name.starts_with("copy-") { KEYS } else { 0 };
            let body = r#"{"new_secret":true}"#;
            let told = done(order(server.operators, &format!("PATCH /v1/tenants/{name}"), body))?;
            let mut client = Client::connect(server.clients, Some((name, &secret(&told)?)))?;
            look(&mut client, name, &[keys])?;
        }
        Ok(())
    }

    fn look_at_keys(&self, server: &Server, name: &str, keys: &[u64]) -> Result<(), String> {
        look(&mut self.client(server, name)?, name, keys)
    }

    fn client(&self, server: &Server, name: &str) -> Result<Client, String> {
        Client::connect(server.clients, Some((name, &self.secrets[name])))
    }

    fn create(&mut self, server: &Server, name: &str, partitions: u16) -> Result<String, String> {
        // Two tenants of four share a log, whatever the engine.
        let log = LogKind::ALL[self.secrets.len() / 2 % LogKind::ALL.len()];
        let kinds = (self.engines.of(self.secrets.len()), log);
        let secret = create_tenant(server.operators, name, kinds, partitions)?;
        self.secrets.insert(name.to_owned(), secret.clone());
        Ok(secret)
    }

    fn fill(&self, server: &Server, name: &str) -> Result<(), String> {
        let mut client = self.client(server, name)?;
        (0..KEYS).try_for_each(|number| client.ask(&["SET", &format!("key:{number}"), &value(number)]).map(drop))
    }
}

impl Sleepers {
    /// Writes to one sleeper after the other, so that each is left alone long enough to fall asleep now and then.
    pub fn touch(&mut self, address: SocketAddr, over: &AtomicBool, rng: &mut Rng) {
        while !over.load(Ordering::Relaxed) {
            let number = rng.below(SLEEPERS as u64) as usize;
            let (name, line) = (sleeper(number), &mut self.values[number]);
            let Ok(mut client) = Client::connect(address, Some((&name, &self.secrets[number]))) else { return };
            line.sent += 1;
            match client.ask(&["SET", "n", &line.sent.to_string()]) {
                Ok(_) => line.acknowledged = line.sent,
                Err(_) => return,
            }
            std::thread::sleep(Duration::from_micros(rng.below(20_000)));
        }
    }

    /// Checks that each sleeper has its last number, and returns how many were asleep.
    fn look(&mut self, address: SocketAddr, operators: SocketAddr) -> Result<u64, String> {
        let listed = listed(operators)?;
        let asleep = (0..SLEEPERS).filter(|&number| listed.get(&sleeper(number)) == Some(&0)).count() as u64;
        for (number, line) in self.values.iter_mut().enumerate() {
            let mut client = Client::connect(address, Some((&sleeper(number), &self.secrets[number])))?;
            let found: u64 = client.ask(&["GET", "n"])?.unwrap_or_default().parse().unwrap_or(0);
            if found < line.acknowledged || found > line.sent {
                return Err(format!("sleeper {number} has {found} of {line:?}"));
            }
            *line = Line { sent: found, acknowledged: found };
        }
        Ok(asleep)
    }
}

/// Checks that the tenant has one of these numbers of keys, and each key its value.
fn look(client: &mut Client, name: &str, keys: &[u64]) -> Result<(), String> {
    let size = client.ask(&["DBSIZE"])?.and_then(|size| size.parse().ok()).ok_or("DBSIZE is no number")?;
    if !keys.contains(&size) {
        return Err(format!("tenant {name} has {size} keys, and should have {keys:?}"));
    }
    for number in (0..size).step_by(37) {
        if client.ask(&["GET", &format!("key:{number}")])? != Some(value(number)) {
            return Err(format!("tenant {name}: key {number} has another value"));
        }
    }
    // And it takes writes.
    client.ask(&["SET", "probe", "1"])?;
    match client.ask(&["DEL", "probe"])?.as_deref() {
        Some("1") => Ok(()),
        other => Err(format!("tenant {name}: DEL of a key just set: {other:?}")),
    }
}

/// Checks that the backup in `dir` is whole, which it must be if it `was_answered`, or is recognised as broken off.
/// Removes it.
fn look_at_backup(server: &Server, dir: &Path, was_answered: bool) -> Result<bool, String> {
    let _scope = blocking_scope();
    let fs: Arc<dyn Fs> = RealFs::new(RealFsOptions::default());
    let found = block_on(weir_node::backup::verify(&fs, dir));
    match &found {
        Ok(_) => {}
        Err(error) if !was_answered && error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(format!("the backup, answered: {was_answered}: {error}")),
    }
    let again = order(
        server.operators,
        &format!("POST /v1/tenants/{SOURCE}/backup"),
        &format!(r#"{{"dir":"{}"}}"#, dir.display()),
    );
    match (found.is_ok(), &again) {
        (true, Answer::Refused(why)) if why.contains("holds a finished backup") => {}
        (false, Answer::Refused(why)) if why.contains("was interrupted") => {}
        // Nothing was in the directory yet, or the backup failed in good order.
        (false, Answer::Done(_)) => {
            drop(block_on(weir_node::backup::verify(&fs, dir)).map_err(|error| error.to_string())?)
        }
        _ => return Err(format!("a second backup into the same directory, whole {}: {again:?}", found.is_ok())),
    }
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(format!("{}: {error}", dir.display())),
        _ => Ok(found.is_ok()),
    }
}

/// The tenants, and how many partitions of each are awake.
fn listed(operators: SocketAddr) -> Result<BTreeMap<String, u64>, String> {
    let told: Value =
        serde_json::from_str(&done(order(operators, "GET /v1/tenants", ""))?).map_err(|e| e.to_string())?;
    let rows = told["tenants"].as_array().ok_or("no list of tenants")?;
    let row = |row: &Value| Some((row["name"].as_str()?.to_owned(), row["awake"].as_u64()?));
    rows.iter().map(row).collect::<Option<_>>().ok_or_else(|| "a tenant without a name".to_owned())
}

fn done(answer: Answer) -> Result<String, String> {
    match answer {
        Answer::Done(said) => Ok(said),
        other => Err(format!("an order was answered {other:?}")),
    }
}
