//! Power cuts under a whole server: a gateway at a port, with a node behind it, on a simulated disk.
//!
//! Clients take [steps](crate::steps) over their connections until the power goes at a change of the disk drawn at
//! random. What survives is drawn, too. The next life is opened on it, and must show the rows of some last step of each
//! client. Threads, sockets and the clock are real: unlike in virtual time, the same seed draws the same lives, but not
//! the same moments within them.
//!
//! With [`DiskFaults`], the disk also fails in each life. In some lives it works again after a while: then the server
//! does, too, and shows each step as a whole. In the others the power goes in the middle of it.
#![allow(clippy::disallowed_methods, reason = "this runner drives a server on threads of its own, over real sockets")]

mod faults;

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, ScopedJoinHandle};

use tokio::sync::oneshot;
use weir_gateway::Settings;
use weir_gateway::auth::slow::SlowHash;
use weir_gateway::auth::{NodeTenants, Secrets};
use weir_gateway::listener::{Entrance, Gateway, listen};
use weir_io::real::{RealClock, RealSpawn, block_on};
use weir_io::sim::{DeviceSpec, DiskImage, FaultPlan, Keep, Phase, SimFs};
use weir_io::{Clock, Fs, Rng};
use weir_log::SyncMode;
use weir_node::{EngineKind, Machine, Node};

pub use self::faults::DiskFaults;
use self::faults::FaultyTime;
use crate::by_command::is_of_rows;
use crate::crash::{Cuts, draw_keep};
use crate::kill9::Load;
use crate::node_store::{DIR, small_on};
use crate::process::Door;
use crate::steps::Steps;

/// Clients that take steps at the same time.
const CLIENTS: usize = 3;
/// Steps of each in one life.
const STEPS_MAX: u64 = 40;
/// The power goes within this many changes of the disk.
const CHANGES_MAX: u64 = 250;

/// What is cut, and how often.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The engine that keeps rows.
    pub engine: EngineKind,
    /// What an acknowledgement promises.
    pub sync: SyncMode,
    /// Cuts in the history of one seed.
    pub cuts: u64,
    /// How the disk fails besides, if it does.
    pub faults: Option<DiskFaults>,
}

impl Setting {
    /// The command that runs it with `seed`.
    pub fn command(&self, seed: u64) -> String {
        let Self { engine, sync, cuts, faults } = self;
        let faults = faults.map_or_else(String::new, |faults| format!("--faults {} ", faults.name()));
        format!("weir sim served {faults}--engine {engine} --sync {} --cuts {cuts} --seed {seed}", sync.name())
    }
}

/// A server in this process.
struct Served {
    node: Arc<Node>,
    address: SocketAddr,
    end: oneshot::Sender<()>,
    thread: JoinHandle<io::Result<()>>,
}

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Served {
    fn start(disk: Arc<dyn Fs>, setting: Setting, salt: u64) -> Result<Self, String> {
        let clock: Arc<dyn Clock> = RealClock::new();
        let spawn = Arc::new(RealSpawn::new(2, 0));
        let machine = Machine { fs: disk, clock: Arc::clone(&clock), spawn, salt };
        let config = small_on(setting.engine, setting.sync);
        let node = Arc::new(block_on(Node::open(&config, machine)).map_err(words)?);
        let slow = SlowHash::new(Arc::new(RealSpawn::new(1, 0)));
        let tenants = NodeTenants::new(Arc::clone(&node));
        let doorman = Arc::new(Secrets::new(tenants, Arc::clone(&clock), slow, false).map_err(words)?);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(words)?;
        let gateway = {
            let _guard = runtime.enter();
            let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).map_err(words)?;
            Gateway::new(Entrance::plain(listener), Settings::default(), doorman, clock).map_err(words)?
        };
        let (end, ended) = oneshot::channel::<()>();
        let address = gateway.address();
        let thread = std::thread::spawn(move || runtime.block_on(gateway.run(async { drop(ended.await) })));
        Ok(Self { node, address, end, thread })
    }

    fn door(&self) -> Door {
        Door { address: self.address, user: "default".into(), secret: "any".into() }
    }

    fn stop(self) -> Result<(), String> {
        drop(self.end);
        self.thread.join().map_err(|_| "the gateway panicked".to_owned())?.map_err(words)?;
        // Whatever it reports about a disk without power is of no interest.
        drop(block_on(self.node.close()));
        Ok(())
    }
}

/// Runs the history of `seed`.
///
/// # Errors
/// The error says what was lost or torn.
pub fn history(seed: u64, setting: Setting) -> Result<Cuts, String> {
    let mut rng = Rng::new(seed);
    let (mut image, mut tally) = (DiskImage::new(), Cuts::default());
    let mut clients: [Steps; CLIENTS] = Default::default();
    while tally.cuts < setting.cuts {
        let (disk, clock) = (rng.fork("disk"), RealClock::new());
        let disk = SimFs::from_image(&image, clock, DeviceSpec::instant(), FaultPlan::none(), disk);
        let is_cut_among_faults = setting.faults.is_some() && rng.chance(0.5);
        let lived = live(&disk, (setting, is_cut_among_faults), &mut clients, &mut rng, &mut tally);
        lived.map_err(|story| format!("cut {}: {story}", tally.cuts))?;
        disk.cut_power();
        tally.cuts += 1;
        let keep = draw_keep(&mut rng);
        // If only the process dies, what is in the kernel stays; unless a sync has failed, and what it was to make
        // durable was not yet written anew.
        let may_have_lost = is_cut_among_faults && setting.faults == Some(DiskFaults::Eio);
        let is_promised = match setting.sync {
            SyncMode::Always => true,
            SyncMode::Interval => keep == Keep::All && !may_have_lost,
            SyncMode::None => false,
        };
        if !is_promised {
            clients.iter_mut().for_each(Steps::promise_nothing);
        }
        image = disk.crash_keeping(keep, &mut rng);
    }
    Ok(tally)
}

/// One life, from the opening to a power cut.
fn live(
    disk: &Arc<SimFs>,
    (setting, is_cut_among_faults): (Setting, bool),
    clients: &mut [Steps],
    rng: &mut Rng,
    tally: &mut Cuts,
) -> Result<(), String> {
    let fs = Arc::clone(disk) as Arc<dyn Fs>;
    let phase = if rng.chance(0.5) { Phase::Before } else { Phase::During };
    let (in_recovery, salt) = (rng.chance(0.15), rng.next_u64());
    if in_recovery {
        disk.cut_power_at(rng.below(40), phase);
        if let Ok(served) = Served::start(fs, setting, salt) {
            served.stop()?;
        }
        tally.in_recovery += 1;
        return Ok(());
    }
    if let Ok(found) = block_on(weir_node::check(&fs, Path::new(DIR), |_, _| ())) {
        let mut problems = found.partitions.into_iter().flat_map(|partition| partition.problems);
        if let Some(problem) = problems.find(is_of_rows) {
            return Err(problem.to_string());
        }
    }
    let served = Served::start(fs, setting, salt).map_err(|story| format!("cannot open: {story}"))?;
    let changes = rng.below(CHANGES_MAX);
    let faulty = setting.faults.map(|faults| FaultyTime::draw(faults, !is_cut_among_faults, rng));
    let outcome = use_it(&served, disk, (changes, phase), faulty.as_ref(), clients, tally);
    if let Some(faulty) = faulty {
        tally.refused += faulty.refused();
        // The power goes before the server has ended in order.
        disk.cut_power();
    }
    served.stop()?;
    outcome
}

/// Looks at what is there, and then has steps taken until the power goes: behind a time in which the disk fails, or in
/// the middle of it, if there is one.
fn use_it(
    served: &Served,
    disk: &SimFs,
    (changes, phase): (u64, Phase),
    faulty: Option<&FaultyTime>,
    clients: &mut [Steps],
    tally: &mut Cuts,
) -> Result<(), String> {
    let door = &served.door();
    for (client, steps) in clients.iter_mut().enumerate() {
        let (sent, promised) = (steps.sent(), steps.acknowledged());
        steps.verify(door, client).map_err(|story| format!("client {client}: {story}"))?;
        tally.lost += sent - steps.sent();
        tally.kept += steps.sent() - promised;
    }
    let before: u64 = clients.iter().map(Load::acknowledged).sum();
    if let Some(faulty) = faulty.filter(|faulty| faulty.ends) {
        faulty.outlast(served, disk, clients)?;
    }
    let cut_at = disk.changes() + changes;
    disk.cut_power_at(cut_at, phase);
    let has_power = || disk.changes() < cut_at;
    let ended = match faulty {
        None => take_steps(door, clients),
        Some(faulty) if faulty.ends => faults::take_patiently(door, clients, &has_power, None),
        Some(faulty) => {
            faulty.begin(disk);
            faults::take_patiently(door, clients, &|| faulty.goes_on(disk), None)
        }
    };
    tally.acknowledged += clients.iter().map(Load::acknowledged).sum::<u64>() - before;
    match ended {
        // Without power, anything may be refused.
        Err(error) if has_power() => Err(error.to_string()),
        _ => Ok(()),
    }
}

/// Has clients take steps, and their companions take over the numbers, until the server refuses something or all steps
/// were taken.
fn take_steps(door: &Door, clients: &[Steps]) -> io::Result<()> {
    let stop = AtomicBool::new(false);
    let ends = std::thread::scope(|scope| {
        let stop = &stop;
        let companions: Vec<_> = clients
            .iter()
            .enumerate()
            .map(|(client, steps)| scope.spawn(move || steps.take_over(door, client, stop)))
            .collect();
        let takers: Vec<_> = clients
            .iter()
            .enumerate()
            .map(|(client, steps)| scope.spawn(move || steps.take(door, client, stop, STEPS_MAX)))
            .collect();
        let mut ends = joined(takers);
        stop.store(true, Ordering::Relaxed);
        ends.extend(joined(companions));
        ends
    });
    ends.into_iter().collect()
}

/// How each of the threads has ended.
fn joined(threads: Vec<ScopedJoinHandle<'_, io::Result<()>>>) -> Vec<io::Result<()>> {
    let join =
        |thread: ScopedJoinHandle<'_, _>| thread.join().unwrap_or_else(|_| Err(io::Error::other("a client panicked")));
    threads.into_iter().map(join).collect()
}
