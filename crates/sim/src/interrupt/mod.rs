//! Real servers that get signals in the middle of operators' orders: backup, restore, create, drop, FLUSHALL, sleep and
//! wake, all at once.
//!
//! In a round every order is given, each a little later or earlier, while clients write. The signal comes at a random
//! moment of that time:
//!
//! | signal | what the server must do |
//! |---|---|
//! | SIGKILL | nothing: the process is gone, and is started again |
//! | SIGTERM | end well |
//! | SIGSTOP, and SIGCONT later | go on as if nothing had happened, with every order done |
//! | SIGHUP | the same |
//!
//! Then everything is looked at ([`known`]): no acknowledged write is lost, what was answered holds, and what was not
//! answered was done as a whole or not at all. If the server has ended, `weir check` looks at its directory first.
#![allow(clippy::disallowed_methods, reason = "this runner drives real processes over real sockets")]

mod known;
mod orders;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use rustix::process::Signal;
use weir_io::real::{RealFs, RealFsOptions, block_on, blocking_scope};
use weir_io::{Fs, Rng};
use weir_scenario::eprintln;

use self::known::Known;
use self::orders::{KINDS, Kind, Round};
use crate::engines::Engines;
use crate::kill9::Load;
use crate::process::{Answer, Launch, Server};

/// A signal that the server gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sent {
    /// SIGKILL
    Kill,
    /// SIGTERM
    Term,
    /// SIGSTOP, and SIGCONT after a while
    Stop,
    /// SIGHUP
    Hup,
}

impl Sent {
    /// All of them.
    pub const ALL: [Sent; 4] = [Sent::Kill, Sent::Term, Sent::Stop, Sent::Hup];

    /// Whether the signal ends the server.
    fn ends(self) -> bool {
        matches!(self, Sent::Kill | Sent::Term)
    }
}

/// How the scenario is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The `weir` binary.
    pub binary: PathBuf,
    /// The engines that keep tenants' rows.
    pub engines: Engines,
    /// An empty or missing directory: the data and the backups go below it.
    pub dir: PathBuf,
    /// The signals to send, in turn.
    pub signals: Vec<Sent>,
    /// Rounds with each signal.
    pub rounds: u64,
    /// How long the server is stopped by SIGSTOP.
    pub stopped: Duration,
    /// Seed of all moments.
    pub seed: u64,
    /// Whether to report progress on standard error.
    pub progress: bool,
}

impl Options {
    /// The command that runs the same again.
    pub fn command(&self) -> String {
        let Self { engines, signals, rounds, stopped, seed, .. } = self;
        let names = signals.iter().filter_map(|sent| sent.to_possible_value()).map(|value| value.get_name().to_owned());
        let (names, stopped) = (names.collect::<Vec<_>>().join(","), stopped.as_millis());
        format!(
            "weir sim interrupt --engine {engines} --rounds {rounds} --signal {names} --stopped-ms {stopped} --seed {seed}"
        )
    }
}

/// The figures of a run.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Signals sent.
    pub signals: u64,
    /// Writes acknowledged over all rounds.
    pub acknowledged: u64,
    /// For each kind of order: how many were answered, refused, and cut off by the signal.
    pub orders: [[u64; 3]; KINDS],
    /// Backups that were not answered but are whole nevertheless.
    pub whole_backups: u64,
    /// Times that a tenant had fallen asleep when it was looked at.
    pub asleep: u64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} signals, {} acknowledged writes, none lost, nothing half done; orders done/refused/cut off:",
            self.signals, self.acknowledged
        )?;
        for (kind, [done, refused, cut]) in Kind::ALL.iter().zip(self.orders) {
            write!(f, " {} {done}/{refused}/{cut}", kind.name())?;
        }
        write!(f, "; of unanswered backups {} were whole; {} tenants were seen asleep", self.whole_backups, self.asleep)
    }
}

/// Small memtables that fill often, so that backups have many tables, and tenants that sleep soon.
const CONFIG: &str = "write_buffer = \"256 KiB\"\nhibernate_after_seconds = 1\n";
/// All orders are begun within this time.
const SPREAD: Duration = Duration::from_millis(40);

/// Runs the scenario.
///
/// # Errors
/// The error says what was lost or half done, or what else went wrong.
pub fn run(options: &Options) -> Result<Figures, String> {
    let mut rng = Rng::new(options.seed);
    let words = |error: std::io::Error| format!("{}: {error}", options.dir.display());
    let backups = options.dir.join("backups");
    if backups.exists() {
        return Err(format!("{} holds an earlier run: remove it, or name another --dir", options.dir.display()));
    }
    std::fs::create_dir_all(&backups).map_err(words)?;
    let config = options.dir.join("weir.toml");
    std::fs::write(&config, CONFIG).map_err(words)?;
    let launch = Launch {
        binary: options.binary.clone(),
        dir: options.dir.join("data"),
        arguments: vec!["--config".into(), config.display().to_string()],
    };
    let backups = std::path::absolute(backups).map_err(words)?;
    let mut server = start(&launch)?;
    let mut known = Known::begin(&server, backups, options.engines.clone())?;
    let mut figures = Figures::default();
    // A round without a signal, to know how long it takes, and that everything works.
    let (mut usual, answers) = uninterrupted(&server, &mut known, &mut rng)?;
    expect_done(&answers)?;
    known.settle(&server, &answers, &mut figures)?;
    for round in 0..options.rounds * options.signals.len() as u64 {
        let sent = options.signals[(round % options.signals.len() as u64) as usize];
        let story = |story: String| format!("round {round}, {sent:?}: {story}");
        let moment = usual.mul_f64(rng.unit() * 1.1);
        let answers = interrupted(&mut server, &mut known, &mut rng, sent, moment, options.stopped).map_err(story)?;
        if !sent.ends() {
            expect_done(&answers).map_err(story)?;
        }
        figures.signals += 1;
        figures.count(&answers);
        // A server that goes on is killed now and then, too: what it did must also be on disk.
        if sent.ends() || rng.chance(0.25) {
            server.kill();
            check(&launch).map_err(story)?;
            server = start(&launch).map_err(story)?;
        }
        known.settle(&server, &answers, &mut figures).map_err(story)?;
        figures.acknowledged = known.acknowledged();
        // A loaded machine is slower, but about half of the orders should be cut off all the same.
        usual = if sent.ends() {
            let cut = answers.iter().filter(|(_, answer, _)| *answer == Answer::Cut).count();
            usual.mul_f64(if 2 * cut > KINDS { 1.1 } else { 0.9 })
        } else {
            let longest = answers.iter().map(|(_, _, took)| *took).max().unwrap_or(usual);
            usual.mul_f64(0.8) + longest.saturating_sub(options.stopped).mul_f64(0.2)
        };
        if options.progress && round % 10 == 9 {
            eprintln!("round {}: {figures}", round + 1);
        }
    }
    server.kill();
    check(&launch)?;
    Ok(figures)
}

type Answers = Vec<(Kind, Answer, Duration)>;

impl Figures {
    fn count(&mut self, answers: &Answers) {
        for (kind, answer, _) in answers {
            let column = match answer {
                Answer::Done(_) => 0,
                Answer::Refused(_) => 1,
                Answer::Cut => 2,
            };
            self.orders[*kind as usize][column] += 1;
        }
    }
}

fn start(launch: &Launch) -> Result<Server, String> {
    let mut server = Server::start(launch)?;
    server.wait_until_it_answers()?;
    Ok(server)
}

fn expect_done(answers: &Answers) -> Result<(), String> {
    let failed = answers.iter().find(|(_, answer, _)| !matches!(answer, Answer::Done(_)));
    failed.map_or(Ok(()), |(kind, answer, _)| Err(format!("{}: {answer:?}", kind.name())))
}

/// Runs a round without a signal, and returns how long it took.
fn uninterrupted(server: &Server, known: &mut Known, rng: &mut Rng) -> Result<(Duration, Answers), String> {
    let from = Instant::now();
    let round = known.prepare(server, rng)?;
    let answers = round.give(server.operators, server.clients, rng, SPREAD);
    Ok((from.elapsed(), answers))
}

/// Runs a round in whose middle, after `moment`, the signal `sent` is sent.
fn interrupted(
    server: &mut Server,
    known: &mut Known,
    rng: &mut Rng,
    sent: Sent,
    moment: Duration,
    stopped: Duration,
) -> Result<Answers, String> {
    let round: Round = known.prepare(server, rng)?;
    let over = AtomicBool::new(false);
    let (operators, clients) = (server.operators, server.clients);
    let door = known.written_to(server);
    let (lines, steps, sleepers) = known.writers();
    let mut forked = rng.fork("orders");
    std::thread::scope(|scope| {
        for (number, line) in lines.iter_mut().enumerate() {
            let (door, over) = (&door, &over);
            scope.spawn(move || line.write(door, number, over));
        }
        let (stepping, ending) = (&door, &over);
        scope.spawn(move || steps.write(stepping, 0, ending));
        let (mut touching, over) = (rng.fork("sleepers"), &over);
        scope.spawn(move || sleepers.touch(clients, over, &mut touching));
        let ordered = scope.spawn(move || round.give(operators, clients, &mut forked, SPREAD));
        std::thread::sleep(moment);
        let signalled = signal(server, sent, stopped);
        let answers = ordered.join().map_err(|_| "an order panicked".to_owned());
        over.store(true, Ordering::Relaxed);
        signalled?;
        answers
    })
}

fn signal(server: &mut Server, sent: Sent, stopped: Duration) -> Result<(), String> {
    match sent {
        Sent::Kill => server.kill(),
        Sent::Term => {
            server.signal(Signal::TERM)?;
            let status = server.wait_for_end()?;
            if !status.success() {
                return Err(format!("it ended with {status}"));
            }
        }
        Sent::Stop => {
            server.signal(Signal::STOP)?;
            std::thread::sleep(stopped);
            server.signal(Signal::CONT)?;
        }
        Sent::Hup => server.signal(Signal::HUP)?,
    }
    Ok(())
}

/// What `weir check` says of the directory of a server that is not running.
fn check(launch: &Launch) -> Result<(), String> {
    let _scope = blocking_scope();
    let fs: Arc<dyn Fs> = RealFs::new(RealFsOptions::default());
    let found = block_on(weir_node::check(&fs, &launch.dir, |_, _| ())).map_err(|error| format!("check: {error}"))?;
    match found.all_problems().next() {
        None => Ok(()),
        Some(problem) => Err(format!("check: {problem}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repetition_has_the_same_signals() {
        let options = Options {
            binary: "weir".into(),
            engines: Engines::default(),
            dir: "data".into(),
            signals: vec![Sent::Stop, Sent::Kill],
            rounds: 7,
            stopped: Duration::from_millis(250),
            seed: 3,
            progress: false,
        };
        let command = options.command();
        assert!(command.ends_with("--rounds 7 --signal stop,kill --stopped-ms 250 --seed 3"), "{command}");
    }
}
