//! Two tenants do anything at all in one server, compared with each of them alone in a server of its own (S5).
//!
//! Ada and Bob send random commands to a node that has both, at the same time, and each sends the same ones to a node
//! of its own. The keys are the same few names, so whatever is not kept apart collides. Every reply must be well
//! formed, and the answers of the two nodes must be the same, except for numbers that belong to the server (ports,
//! connections, cursors, bytes on disk).
//!
//! Ada's rows are in a tree and Bob's in memory. In a second run each tenant is on the other engine where it is alone.
//! There the engine has another name, and a page of `SCAN` may be shorter, because a tree has to pass more deleted
//! keys.
//!
//! Half of the commands come from [`random_command`], and half are made from the table of commands, so that a new
//! command is asked without a change here. `WEIR_COMMANDS` is their number (6,000), `WEIR_SEED` the seed (0); the run
//! of ten million is in docs/testing.md.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::{Duration, Instant};

use crate::support::random::{KEYS, random_command};
use crate::support::table::{WORDS, subcommands};
use crate::support::world::{TOKEN, World};
use crate::support::{Client, encode, well_formed};
use weir_command::table::{COMMANDS, Command};
use weir_gateway::Settings;
use weir_io::{Clock, Nanos, Rng};
use weir_node::EngineKind;

const NAMES: [&str; 2] = ["ada", "bob"];
/// How many commands of a tenant are sent together.
const PIPELINE: usize = 64;
/// The time that passes between two pipelines.
const STEP_NANOS: u64 = 20_000_000;
/// Marks the end of the answers to a pipeline.
const END: &str = "<the-end-of-what-was-asked>";

/// Time that passes only while nobody is asked anything, so that it is the same for all servers.
#[derive(Default)]
struct StepClock {
    now: AtomicU64,
    sleeping: Mutex<BTreeMap<(Nanos, u64), Waker>>,
    number: AtomicU64,
}

impl StepClock {
    fn step(&self, nanos: u64) {
        let now = self.now.fetch_add(nanos, Ordering::SeqCst) + nanos;
        let mut sleeping = self.sleeping.lock().expect("no panic");
        let later = sleeping.split_off(&(now + 1, 0));
        let due = std::mem::replace(&mut *sleeping, later);
        drop(sleeping);
        due.into_values().for_each(Waker::wake);
    }
}

impl Clock for StepClock {
    fn now(&self) -> Nanos {
        self.now.load(Ordering::SeqCst)
    }

    fn wake_at(&self, at: Nanos, waker: Waker) {
        let mut sleeping = self.sleeping.lock().expect("no panic");
        if at > self.now() {
            sleeping.insert((at, self.number.fetch_add(1, Ordering::SeqCst)), waker);
            return;
        }
        drop(sleeping);
        waker.wake();
    }

    fn unix_ms(&self) -> u64 {
        1_800_000_000_000 + self.now() / 1_000_000
    }
}

/// Makes the clock advance by itself until this is dropped, because servers that open or end wait for time to pass.
struct Going(Arc<AtomicU64>, Option<std::thread::JoinHandle<()>>);

impl Going {
    fn new(clock: &Arc<StepClock>) -> Self {
        let (goes, clock) = (Arc::new(AtomicU64::new(1)), Arc::clone(clock));
        let still = Arc::clone(&goes);
        let thread = std::thread::spawn(move || {
            while still.load(Ordering::SeqCst) == 1 {
                // No faster than the machine's clock: a client that has just connected must not have been a stranger
                // for long.
                std::thread::sleep(Duration::from_millis(1));
                clock.step(1_000_000);
            }
        });
        Self(goes, Some(thread))
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        self.0.store(0, Ordering::SeqCst);
        drop(self.1.take().map(std::thread::JoinHandle::join));
    }
}

/// Lets time go on when it is dropped, even if the test has failed, because servers that end wait for time to pass.
struct Ends(Arc<StepClock>);

impl Drop for Ends {
    fn drop(&mut self) {
        // The clock then goes until the process ends.
        std::mem::forget(Going::new(&self.0));
    }
}

/// A tenant's connection to one server.
struct Side {
    world: Arc<World>,
    client: Client,
    /// The cursor of the last `SCAN` on this side.
    cursor: String,
}

impl Side {
    fn new(world: &Arc<World>, tenant: &str, engine: EngineKind) -> Self {
        let client = world.tenant_on(engine, tenant, 2, 0);
        Self { world: Arc::clone(world), client, cursor: "0".into() }
    }

    fn send(&mut self, tenant: &str, pipeline: &[Vec<String>]) {
        let mut bytes = Vec::new();
        for command in pipeline {
            // Other commands would repeat it in their answers.
            let scans = is_called(command, "scan");
            let words: Vec<&str> = command
                .iter()
                .map(|word| if scans && word == "<cursor>" { &self.cursor } else { word.as_str() })
                .collect();
            bytes.extend(encode(&words));
        }
        // In a transaction, and on a connection with subscriptions, all of these would be refused.
        let subscribes = pipeline.last().is_some_and(|last| is_about_subscriptions(last));
        bytes.extend(encode(&[if subscribes { "RESET" } else { "DISCARD" }]));
        bytes.extend(encode(&[b"AUTH", tenant.as_bytes(), TOKEN]));
        for line in
            [&["CLIENT", "REPLY", "ON"][..], &["CLIENT", "UNPAUSE"], &["CLIENT", "TRACKING", "OFF"], &["ECHO", END]]
        {
            bytes.extend(encode(line));
        }
        // A peer that has closed is noticed by reading.
        let _ = std::io::Write::write_all(&mut self.client.stream, &bytes);
    }

    /// All replies before the end mark, and whether the server closed the connection instead.
    fn replies(&mut self) -> (Vec<Vec<u8>>, bool) {
        let end = format!("${}\r\n{END}\r\n", END.len());
        let said = self.client.until(end.as_bytes());
        let (mut replies, mut rest) = (Vec::new(), &said[..]);
        while !rest.is_empty() {
            let len = well_formed(rest).unwrap_or_else(|| panic!("no reply: {:?}", String::from_utf8_lossy(rest)));
            replies.push(rest[..len].to_vec());
            rest = &rest[len..];
        }
        (replies, self.client.is_closed)
    }
}

struct Tenant {
    name: &'static str,
    shared: Side,
    alone: Side,
    /// Whether the two sides are on different engines.
    crosses: bool,
    asked: Vec<Vec<String>>,
}

impl Tenant {
    fn send(&mut self) {
        for side in [&mut self.shared, &mut self.alone] {
            side.send(self.name, &self.asked);
        }
    }

    fn compare(&mut self) {
        let (shared, is_closed) = self.shared.replies();
        let (alone, is_closed_alone) = self.alone.replies();
        assert_eq!(is_closed, is_closed_alone, "{} was cut off after {:?}", self.name, self.asked);
        assert_eq!(shared.len(), alone.len(), "{}: replies to {:?}", self.name, self.asked);
        if !is_closed && self.asked.last().is_some_and(|command| !is_about_connection(command)) {
            assert_eq!(shared.len(), self.asked.len() + 5, "{}: a reply for each of {:?}", self.name, self.asked);
        }
        for (index, (shared, alone)) in shared.iter().zip(&alone).enumerate() {
            let command = self.asked.get(index).map_or(&[][..], |command| command);
            let sides = [(&mut self.shared, shared), (&mut self.alone, alone)];
            let [mut here, mut there] = sides.map(|(side, reply)| plain(side, command, reply));
            if self.crosses {
                [here, there] = [here, there].map(|reply| without_engine(command, reply));
            }
            assert_eq!(
                here,
                there,
                "{} asks {command:?} after {:#?}",
                self.name,
                &self.asked[..index.min(self.asked.len())]
            );
        }
        if self.asked.last().is_some_and(|command| is_called(command, "randomkey")) {
            self.look_for(&shared, &alone);
        }
        if is_closed {
            for side in [&mut self.shared, &mut self.alone] {
                side.client = side.world.connect(self.name);
            }
        }
    }

    /// A random key need not be the same one on both sides, but it must exist.
    fn look_for(&mut self, shared: &[Vec<u8>], alone: &[Vec<u8>]) {
        let at = self.asked.len() - 1;
        for replies in [shared, alone] {
            let Some(key) = replies.get(at).and_then(|reply| bulk(reply)) else { continue };
            for side in [&mut self.shared, &mut self.alone] {
                assert_eq!(side.client.ask(&[&b"EXISTS"[..], key]), b":1\r\n", "{} has no key {key:?}", self.name);
            }
        }
    }
}

fn is_called(command: &[String], name: &str) -> bool {
    command.first().is_some_and(|word| word.eq_ignore_ascii_case(name))
}

/// Whether later commands of the pipeline may be answered differently, by somebody else, or not at all.
fn is_about_connection(command: &[String]) -> bool {
    let others = ["client", "quit", "reset", "auth", "hello"];
    others.iter().any(|name| is_called(command, name)) || is_about_subscriptions(command)
}

/// Whether the command may be answered with any number of messages.
fn is_about_subscriptions(command: &[String]) -> bool {
    ["subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe"]
        .iter()
        .any(|name| is_called(command, name))
}

/// The bytes of a string.
fn bulk(reply: &[u8]) -> Option<&[u8]> {
    let line = reply.iter().position(|&byte| byte == b'\n')?;
    (reply[0] == b'$' && reply[1] != b'-').then(|| &reply[line + 1..reply.len() - 2])
}

/// A reply without what belongs to the server. Remembers a cursor.
fn plain(side: &mut Side, command: &[String], reply: &[u8]) -> String {
    let text = String::from_utf8_lossy(reply).into_owned();
    let is = |names: &[&str]| names.iter().any(|name| is_called(command, name));
    let without_numbers = |text: &str| {
        let digits = text.chars().map(|char| if char.is_ascii_digit() { '#' } else { char });
        digits.fold(String::new(), |mut plain, char| {
            if char != '#' || !plain.ends_with('#') {
                plain.push(char);
            }
            plain
        })
    };
    if is(&["scan"]) && reply.starts_with(b"*2\r\n$") {
        let mut lines = text.splitn(4, "\r\n");
        let (cursor, keys) = (lines.nth(2).unwrap_or("0").to_owned(), lines.next().unwrap_or("").to_owned());
        let has_more = cursor != "0";
        side.cursor = cursor;
        return format!("{has_more} {keys}");
    }
    let subcommand = command.get(1).map(|word| word.to_lowercase());
    if is(&["acl"]) && matches!(subcommand.as_deref(), Some("genpass" | "log")) {
        // This is random; or it is about failed logins, including those of others who have tried to be this tenant.
        return text.chars().take(1).collect();
    }
    if is(&["latency"]) && subcommand.as_deref() == Some("histogram") {
        // The times that commands took belong to the machine.
        return text.chars().take(1).collect();
    }
    if is(&["randomkey"]) {
        return bulk(reply).map_or(text, |_| "<some key>".into());
    }
    if is(&["auth", "hello"]) && (text.starts_with("-WRONGPASS") || text.contains("too many wrong passwords")) {
        return "<wrong>".into();
    }
    if is(&["client"]) && text.contains(" laddr=") {
        // A connection that has just been closed may still be listed. What matters is to whom the connections belong.
        let users: std::collections::BTreeSet<&str> =
            text.split(' ').filter(|word| word.starts_with("user=")).collect();
        return format!("{users:?}");
    }
    if is(&["info"]) {
        const OF_TENANT: [&str; 6] =
            ["cmdstat_", "db", "total_commands", "keyspace_", "total_error", "total_connections_received"];
        let line = |line: &str| match OF_TENANT.iter().any(|name| line.starts_with(name)) {
            // The times that commands took belong to the machine.
            true => line.split(',').filter(|field| !field.starts_with("usec")).collect::<Vec<_>>().join(","),
            false => without_numbers(line),
        };
        let is_drawn = |line: &&str| line.starts_with("run_id:") || line.starts_with("master_replid:");
        return text.lines().filter(|line| !is_drawn(line)).map(line).collect::<Vec<_>>().join("\n");
    }
    if is(&["client", "hello", "slowlog", "config", "memory"]) {
        return without_numbers(&text);
    }
    text
}

/// A plain reply without what shows the engine.
fn without_engine(command: &[String], reply: String) -> String {
    match command.first().map(|name| name.to_lowercase()).as_deref() {
        Some("scan") => "<some keys>".into(),
        Some("info") => reply.replace("\nengine:memory", "\nengine:lsm"),
        Some("memory") => reply.replace("\r\nengine\r\n$#\r\nmemory\r\n", "\r\nengine\r\n$#\r\nlsm\r\n"),
        _ => reply,
    }
}

/// Makes random questions.
struct Questions {
    rng: Rng,
    /// Commands and subcommands, and how many words each takes at least.
    prefixes: Vec<(Vec<String>, usize)>,
}

impl Questions {
    fn new(seed: u64, client: &mut Client) -> Self {
        let mut prefixes = Vec::new();
        // Commands that wait are left out, because no time passes before they are answered. What `MONITOR` shows has
        // ports and times in it, and has tests of its own.
        let asked = |command: &&Command| {
            !may_wait(command) && !TELLS_COSTS.contains(&command.name) && command.name != "monitor"
        };
        for command in COMMANDS.iter().filter(asked) {
            let least = command.arity.unsigned_abs() as usize;
            prefixes.push((vec![command.name.to_owned()], least.max(1)));
            // These commands list no subcommands, and would end the connection or make it another's.
            if !is_about_connection(&[command.name.to_owned()]) || command.name == "client" {
                let found = subcommands(client, command.name);
                prefixes.extend(found.into_iter().map(|sub| (vec![command.name.to_owned(), sub], least.max(2))));
            }
        }
        Self { rng: Rng::new(seed), prefixes }
    }

    fn word(&mut self) -> String {
        let of = |rng: &mut Rng, words: &[&str]| words[rng.below(words.len() as u64) as usize].to_owned();
        match self.rng.below(10) {
            0..=4 => of(&mut self.rng, &KEYS),
            5 | 6 => of(&mut self.rng, &WORDS),
            7 => of(&mut self.rng, &["ada", "bob", "a*", "*", "<cursor>"]),
            8 => self.rng.below(20).to_string(),
            _ => format!("key-{}", self.rng.below(50)),
        }
    }

    fn command(&mut self) -> Vec<String> {
        if self.rng.chance(0.5) {
            return random_command(&mut self.rng);
        }
        let (mut command, least) = self.prefixes[self.rng.below(self.prefixes.len() as u64) as usize].clone();
        // Emptying a tenant on disk takes a while and leaves little to compare.
        if command[0].starts_with("flush") && !self.rng.chance(0.02) {
            command = vec!["mset".into()];
        }
        let len = least.max(command.len()) + self.rng.below(3) as usize;
        while command.len() < len {
            let word = self.word();
            command.push(word);
        }
        command
    }

    /// The commands that a tenant sends together. A command that may change the owner of the connection comes last.
    fn pipeline(&mut self, most: usize) -> Vec<Vec<String>> {
        let mut pipeline = Vec::new();
        while pipeline.len() < most {
            pipeline.push(self.command());
            if pipeline.last().is_some_and(|last| is_about_connection(last) || is_called(last, "randomkey")) {
                break;
            }
        }
        pipeline
    }
}

/// A number from the environment.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().expect("a whole number"))
}

const EACH: [EngineKind; 2] = [EngineKind::Lsm, EngineKind::Memory];

/// On another engine commands cost something else, and the first command of a round pays for the round.
const TELLS_COSTS: [&str; 1] = ["ru"];

/// Whether a command waits for others. Such commands have tests of their own, with two tenants among them
/// (`blocking.rs`).
fn may_wait(command: &Command) -> bool {
    command.name == "wait" || command.flags.contains(&"blocking")
}

#[test]
fn s5_two_tenants_are_answered_as_if_each_were_alone() {
    answers_agree(EACH, EACH);
}

#[test]
fn both_engines_give_the_same_answers() {
    answers_agree(EACH, [EngineKind::Memory, EngineKind::Lsm]);
}

/// Compares the tenants on the engines `here`, in the node that they share, with those on `there`, where each is alone.
fn answers_agree(here: [EngineKind; 2], there: [EngineKind; 2]) {
    let (seed, count) = (setting("WEIR_SEED", 0), setting("WEIR_COMMANDS", 6_000));
    let clock = Arc::new(StepClock::default());
    let world = || {
        // Values are short, so that an offset which happens to be valid does not make a long one.
        let mut settings = Settings { threads: 2, ..Settings::default() };
        settings.limits.bulk_bytes_max = 4096;
        Arc::new(World::new_at(Arc::clone(&clock) as Arc<dyn Clock>, settings))
    };
    let going = Going::new(&clock);
    let (shared, alone) = (world(), NAMES.map(|_| world()));
    let mut tenants: Vec<Tenant> = NAMES
        .iter()
        .zip(&alone)
        .zip(here.into_iter().zip(there))
        .map(|((name, alone), (here, there))| {
            let (shared, alone) = (Side::new(&shared, name, here), Side::new(alone, name, there));
            Tenant { name, shared, alone, crosses: here != there, asked: Vec::new() }
        })
        .collect();
    drop(going);
    // Dropped before the servers.
    let _ends = Ends(Arc::clone(&clock));
    // A tenant that logged in while time passed was slow.
    for tenant in &mut tenants {
        for side in [&mut tenant.shared, &mut tenant.alone] {
            assert_eq!(side.client.say("SLOWLOG RESET"), "+OK\r\n");
        }
    }
    let mut questions = Questions::new(seed, &mut alone[0].connect(NAMES[0]));
    // The other side must have had as many connections as this one.
    drop(Questions::new(seed, &mut shared.connect(NAMES[0])));
    let (began, mut asked, mut told) = (Instant::now(), 0, 0);
    while asked < count {
        for tenant in &mut tenants {
            let most = PIPELINE.min((count - asked).max(1) as usize);
            tenant.asked = questions.pipeline(most);
            asked += tenant.asked.len() as u64;
            tenant.send();
        }
        tenants.iter_mut().for_each(Tenant::compare);
        clock.step(STEP_NANOS);
        if asked * 50 / count > told {
            told = asked * 50 / count;
            let seconds = began.elapsed().as_secs_f64();
            let left = seconds / asked as f64 * count.saturating_sub(asked) as f64;
            eprintln!("seed {seed}: {asked} of {count} commands agree, {seconds:.0} s, about {left:.0} s to go");
        }
    }
}
