//! Many users of one server: how much one of them feels the others. A real `weir serve`, over loopback.

pub mod active;
pub mod attack;
pub mod held;
pub mod limited;
mod replies;
pub mod restart;
pub mod sleepers;
pub mod steady;
pub mod user;
pub mod victim;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit, setrlimit};
use serde::Serialize;

use self::attack::{Attack, Door};
use self::held::Held;
use self::user::User;
use self::victim::Felt;
use crate::Result;
use crate::child_server::{self, ChildServer};
use crate::meter;
use crate::report::median::median_of_counts;
use crate::report::words::{align, bytes, time};

/// Bound of the victim's P99 in nanoseconds.
const P99_MAX: u64 = 5_000_000;
/// Bound of the same P99, as a multiple of what it is beside a process that burns as much processor time.
const RATIO_MAX: f64 = 3.0;
/// The user of connections that do not log in.
const DEFAULT: &str = "default";
/// Time before the victim is measured, if there are no attackers.
const WARM_UP: Duration = Duration::from_secs(1);
/// Connections that a server of this benchmark takes, if as many files may be open.
const CONNECTIONS: u64 = 60_000;
/// The most files that a server opens besides its connections.
const FILES_BESIDE: u64 = 1_000;

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The attacks, in this order.
    pub attacks: Vec<Attack>,
    /// How often each is measured, in turn with its counterpart.
    pub rounds: u32,
    /// Seconds of each measurement.
    pub seconds: u64,
    /// Directory on the disk to measure.
    pub dir: PathBuf,
    /// The `weir` binary.
    pub weir: PathBuf,
}

/// The victim beside one attack, and beside a process burning the same processor time outside the server.
#[derive(Clone, Debug, Serialize)]
pub struct Beside {
    /// The attack's name.
    pub attack: String,
    /// The round, from 1.
    pub round: u32,
    /// Processors that server and attackers kept busy, the victim included.
    pub processors: f64,
    /// What the victim felt beside the attack.
    pub attacked: Felt,
    /// What it felt beside the burner.
    pub burnt: Felt,
    /// What the server held in memory meanwhile.
    pub held: Held,
    /// How much of that, besides memtables and cached blocks, the attacker's limits allow, in bytes.
    pub held_max: u64,
}

/// Runs every attack in every round, and reports to `progress`.
pub fn run(plan: &Plan, mut progress: impl FnMut(&str)) -> Result<Vec<Beside>> {
    raise_file_limit();
    let dir = plan.dir.join("tenants");
    child_server::remove(&dir)?;
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let connections = files.saturating_sub(FILES_BESIDE).min(CONNECTIONS);
    let server = ChildServer::start(&plan.weir, &dir, &format!("connections_max = {connections}\n"))?;
    progress("loading");
    let user = User::create(&server, "victim", &serde_json::json!({}))?;
    let door = Door { port: server.port(), user: User::create(&server, "attacker", &serde_json::json!({}))? };
    victim::load(&server, &user)?;
    for attack in &plan.attacks {
        progress(&format!("loading for {}", attack.name()));
        attack.prepare(&server)?;
    }
    let duration = Duration::from_secs(plan.seconds);
    progress("alone");
    let (alone, usual, held) = beside(&server, &user, DEFAULT, duration, WARM_UP, |_| Vec::new())?;
    let nobody = "nobody".to_owned();
    let mut all =
        vec![Beside { attack: nobody, round: 1, processors: usual, attacked: alone, burnt: alone, held, held_max: 0 }];
    for round in 1..=plan.rounds {
        for &attack in &plan.attacks {
            progress(&format!("round {round}: beside {}", attack.name()));
            let (attacked, processors, held) =
                beside(&server, &user, attack.tenant(&door), duration, attack.warm_up(), |stop| {
                    attack.start(&door, stop)
                })?;
            thread::sleep(Duration::from_secs(1));
            progress(&format!("round {round}: beside {processors:.2} processors burnt"));
            let (burnt, ..) =
                beside(&server, &user, DEFAULT, duration, WARM_UP, |stop| burn(processors - usual, stop))?;
            let (attack, held_max) = (attack.name().to_owned(), attack.memory_max());
            all.push(Beside { attack, round, processors, attacked, burnt, held, held_max });
        }
    }
    server.stop()?;
    child_server::remove(&dir)?;
    Ok(all)
}

/// Attackers need a socket for each connection.
fn raise_file_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If that is refused, there are fewer attackers.
    let _ = setrlimit(Resource::Nofile, limit);
}

type Threads = Vec<thread::JoinHandle<()>>;

/// The victim's latencies while `start` does something as `attacker`, after `warm_up`. Also the processors busy
/// meanwhile, and what the server held.
fn beside(
    server: &ChildServer,
    user: &User,
    attacker: &str,
    duration: Duration,
    warm_up: Duration,
    start: impl FnOnce(&Arc<AtomicBool>) -> Threads,
) -> Result<(Felt, f64, Held)> {
    let stop = Arc::new(AtomicBool::new(false));
    let before = held::before(server, attacker)?;
    let threads = start(&stop);
    let measured = thread::scope(|scope| -> Result<(Felt, f64, Held)> {
        let watcher = scope.spawn(|| held::watch(server, attacker, before, &stop));
        thread::sleep(warm_up);
        let busy = || server.cpu_seconds() + meter::cpu_seconds_of(std::process::id());
        let (begin, busy_before) = (Instant::now(), busy());
        let felt = victim::measure(server, user, duration);
        let processors = (busy() - busy_before) / begin.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        let held = watcher.join().map_err(|_| "who looks at the memory panicked")??;
        Ok((felt?, processors, held))
    });
    for thread in threads {
        // A panic has been printed already; the measurement depends on the victim's own threads.
        let _ = thread.join();
    }
    measured
}

/// Keeps `processors` busy, in slices of a millisecond.
fn burn(processors: f64, stop: &Arc<AtomicBool>) -> Threads {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let share = (processors / threads as f64).clamp(0.0, 1.0);
    let one = |stop: Arc<AtomicBool>| {
        move || {
            let slice = Duration::from_millis(1);
            while !stop.load(Ordering::Relaxed) {
                let begin = Instant::now();
                while begin.elapsed() < slice {
                    std::hint::spin_loop();
                }
                // Judged by the processor time burnt, not by how long it took: on a busy machine this thread may not
                // have run all the time.
                thread::sleep(slice.mul_f64((1.0 - share) / share.max(0.01)));
            }
        }
    };
    (0..threads).map(|_| thread::spawn(one(Arc::clone(stop)))).collect()
}

/// Medians of the rounds, with verdicts.
pub fn table(all: &[Beside]) -> String {
    let header = [
        "beside",
        "busy",
        "p50",
        "p99",
        "max",
        "p99 beside burner",
        "ratio",
        "wanted: <= 5 ms, <= 3 x",
        "clients",
        "memtables",
        "memory beside",
        "allowed",
        "",
    ];
    let mut rows = vec![header.map(str::to_owned)];
    let mut names: Vec<&str> = Vec::new();
    all.iter().for_each(|one| {
        if !names.contains(&one.attack.as_str()) {
            names.push(&one.attack);
        }
    });
    for name in names {
        let of = |number: fn(&Beside) -> u64| median_of_counts(all.iter().filter(|one| one.attack == name).map(number));
        let (p99, burnt) = (of(|one| one.attacked.p99_ns), of(|one| one.burnt.p99_ns));
        let ratio = p99 as f64 / burnt.max(1) as f64;
        // Memory that was too much once is too much.
        let rounds = || all.iter().filter(|one| one.attack == name);
        let grown = rounds().map(|one| one.held.grown()).max().unwrap_or(0);
        let allowed = of(|one| one.held_max);
        let judged = |is_met: bool| if is_met { "met" } else { "not met" }.to_owned();
        rows.push([
            name.to_owned(),
            format!("{:.2}", of(|one| (one.processors * 100.0) as u64) as f64 / 100.0),
            time(of(|one| one.attacked.p50_ns)),
            time(p99),
            time(of(|one| one.attacked.max_ns)),
            time(burnt),
            format!("{ratio:.2}"),
            judged(p99 <= P99_MAX && ratio <= RATIO_MAX),
            of(|one| one.held.connections_max).to_string(),
            bytes(of(|one| one.held.memtables_max)),
            format!("+ {}", bytes(grown)),
            if allowed == 0 { String::new() } else { bytes(allowed) },
            if allowed == 0 { String::new() } else { judged(grown <= allowed) },
        ]);
    }
    align(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_was_too_much_once_is_not_met() {
        let one = |round, beside_max| Beside {
            attack: "sort".into(),
            round,
            processors: 1.0,
            attacked: Felt { p99_ns: 4_000_000, ..Felt::default() },
            burnt: Felt { p99_ns: 2_000_000, ..Felt::default() },
            held: Held { beside_before: 100, beside_max, ..Held::default() },
            held_max: 50,
        };
        let last = |all: &[Beside]| table(all).lines().nth(1).unwrap_or_default().to_owned();
        assert!(last(&[one(1, 120), one(2, 150), one(3, 90)]).ends_with("50 B     met"));
        assert!(last(&[one(1, 120), one(2, 151), one(3, 90)]).ends_with("50 B     not met"));
    }
}
