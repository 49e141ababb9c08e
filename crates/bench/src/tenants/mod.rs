//! Many users of one server: what one of them feels of the others. A real `weir serve`, over loopback.

pub mod active;
pub mod attack;
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

use self::attack::Attack;
use self::user::User;
use self::victim::Felt;
use crate::Result;
use crate::child_server::{self, ChildServer};
use crate::meter;
use crate::report::words::{align, time};

/// How often the attackers have their way before the victim is looked at.
const WARM_UP: Duration = Duration::from_secs(1);
/// Bound of the victim's P99 in nanoseconds.
const P99_MAX: u64 = 5_000_000;
/// Bound of the same as a multiple of what it is beside a process that burns as much.
const RATIO_MAX: f64 = 3.0;

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// In this order.
    pub attacks: Vec<Attack>,
    /// Each is measured so often, in turn with its counterpart.
    pub rounds: u32,
    /// Of each measurement.
    pub seconds: u64,
    /// Directory on the disk to measure.
    pub dir: PathBuf,
    /// The binary.
    pub weir: PathBuf,
}

/// The victim beside one attack, and beside a process burning the same processor time outside the server.
#[derive(Clone, Debug, Serialize)]
pub struct Beside {
    /// The attack's name.
    pub attack: String,
    /// From 1.
    pub round: u32,
    /// Processors that server and attackers kept busy, the victim included.
    pub processors: f64,
    /// Beside the attack.
    pub attacked: Felt,
    /// Beside the burner.
    pub burnt: Felt,
}

/// Runs every attack in every round; `progress` hears what goes on.
pub fn run(plan: &Plan, mut progress: impl FnMut(&str)) -> Result<Vec<Beside>> {
    raise_file_limit();
    let dir = plan.dir.join("tenants");
    child_server::remove(&dir)?;
    let server = ChildServer::start(&plan.weir, &dir, "connections_max = 20000\n")?;
    progress("loading");
    // The attackers are another tenant: `default`, as whom everybody comes in who does not say who he is.
    let user = User::create(&server, "victim", &serde_json::json!({}))?;
    victim::load(&server, &user)?;
    if plan.attacks.contains(&Attack::Keys) {
        attack::load_keys(&server)?;
    }
    let duration = Duration::from_secs(plan.seconds);
    progress("alone");
    let (alone, usual) = beside(&server, &user, duration, |_| Ok(Vec::new()))?;
    let mut all = vec![Beside { attack: "nobody".into(), round: 1, processors: usual, attacked: alone, burnt: alone }];
    for round in 1..=plan.rounds {
        for &attack in &plan.attacks {
            progress(&format!("round {round}: beside {}", attack.name()));
            let (attacked, processors) = beside(&server, &user, duration, |stop| attack.start(server.port(), stop))?;
            thread::sleep(Duration::from_secs(1));
            progress(&format!("round {round}: beside {processors:.2} processors burnt"));
            let (burnt, _) = beside(&server, &user, duration, |stop| Ok(burn(processors - usual, &stop)))?;
            all.push(Beside { attack: attack.name().to_owned(), round, processors, attacked, burnt });
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
    // Where that is refused, there are fewer attackers.
    let _ = setrlimit(Resource::Nofile, limit);
}

type Threads = Vec<thread::JoinHandle<()>>;

/// The victim's latencies while `start` does something, and the processors busy meanwhile.
fn beside(
    server: &ChildServer,
    user: &User,
    duration: Duration,
    start: impl FnOnce(Arc<AtomicBool>) -> Result<Threads>,
) -> Result<(Felt, f64)> {
    let stop = Arc::new(AtomicBool::new(false));
    let threads = start(Arc::clone(&stop))?;
    thread::sleep(WARM_UP);
    let busy = || server.cpu_seconds() + meter::cpu_seconds_of(std::process::id());
    let (begin, before) = (Instant::now(), busy());
    let felt = victim::measure(server, user, duration);
    let processors = (busy() - before) / begin.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        // A panic has been printed; the measurement stands or falls with the victim's own.
        let _ = thread.join();
    }
    Ok((felt?, processors))
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
                // What was burnt, not how long it took: on a busy machine this thread may not have run all the time.
                thread::sleep(slice.mul_f64((1.0 - share) / share.max(0.01)));
            }
        }
    };
    (0..threads).map(|_| thread::spawn(one(Arc::clone(stop)))).collect()
}

/// Medians of the rounds, with verdicts.
pub fn table(all: &[Beside]) -> String {
    let header = ["beside", "busy", "p50", "p99", "max", "p99 beside burner", "ratio", "wanted: <= 5 ms, <= 3 x"];
    let mut rows = vec![header.map(str::to_owned)];
    let mut names: Vec<&str> = Vec::new();
    all.iter().for_each(|one| {
        if !names.contains(&one.attack.as_str()) {
            names.push(&one.attack);
        }
    });
    for name in names {
        let of = |number: fn(&Beside) -> u64| median(all.iter().filter(|one| one.attack == name).map(number).collect());
        let (p99, burnt) = (of(|one| one.attacked.p99_ns), of(|one| one.burnt.p99_ns));
        let ratio = p99 as f64 / burnt.max(1) as f64;
        let met = p99 <= P99_MAX && ratio <= RATIO_MAX;
        rows.push([
            name.to_owned(),
            format!("{:.2}", of(|one| (one.processors * 100.0) as u64) as f64 / 100.0),
            time(of(|one| one.attacked.p50_ns)),
            time(p99),
            time(of(|one| one.attacked.max_ns)),
            time(burnt),
            format!("{ratio:.2}"),
            if met { "met" } else { "not met" }.to_owned(),
        ]);
    }
    align(&rows)
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}
