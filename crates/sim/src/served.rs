//! Power cuts under a whole server: a gateway at a port, with a node behind it, on a simulated disk.
//!
//! Clients take [steps](crate::steps) over their connections until the power goes at a change of the disk drawn at
//! random. What survives is drawn, too. The next life is opened on it, and must show the rows of some last step of each
//! client. Threads, sockets and the clock are real: unlike in virtual time, the same seed draws the same lives, but not
//! the same moments within them.
#![allow(clippy::disallowed_methods, reason = "this runner drives a server on threads of its own, over real sockets")]

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

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
}

impl Setting {
    /// The command that runs it with `seed`.
    pub fn command(&self, seed: u64) -> String {
        let Self { engine, sync, cuts } = self;
        format!("weir sim served --engine {engine} --sync {} --cuts {cuts} --seed {seed}", sync.name())
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
        let lived = live(&disk, setting, &mut clients, &mut rng, &mut tally);
        lived.map_err(|story| format!("cut {}: {story}", tally.cuts))?;
        disk.cut_power();
        tally.cuts += 1;
        let keep = draw_keep(&mut rng);
        // If only the process dies, what is in the kernel stays.
        let is_promised = match setting.sync {
            SyncMode::Always => true,
            SyncMode::Interval => keep == Keep::All,
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
    setting: Setting,
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
    let outcome = use_it(&served.door(), disk, (rng.below(CHANGES_MAX), phase), clients, tally);
    served.stop()?;
    outcome
}

/// Looks at what is there, and then takes steps until the power goes.
fn use_it(
    door: &Door,
    disk: &SimFs,
    (changes, phase): (u64, Phase),
    clients: &mut [Steps],
    tally: &mut Cuts,
) -> Result<(), String> {
    for (client, steps) in clients.iter_mut().enumerate() {
        let (sent, promised) = (steps.sent(), steps.acknowledged());
        steps.verify(door, client).map_err(|story| format!("client {client}: {story}"))?;
        tally.lost += sent - steps.sent();
        tally.kept += steps.sent() - promised;
    }
    let before: u64 = clients.iter().map(Load::acknowledged).sum();
    let cut_at = disk.changes() + changes;
    disk.cut_power_at(cut_at, phase);
    let stop = AtomicBool::new(false);
    let ends: Vec<io::Result<()>> = std::thread::scope(|scope| {
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
        let ended = |threads: Vec<std::thread::ScopedJoinHandle<'_, io::Result<()>>>| {
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|_| Err(io::Error::other("a client panicked")))
            };
            threads.into_iter().map(join).collect::<Vec<_>>()
        };
        let mut ends = ended(takers);
        stop.store(true, Ordering::Relaxed);
        ends.extend(ended(companions));
        ends
    });
    let was_cut = disk.changes() >= cut_at;
    tally.acknowledged += clients.iter().map(Load::acknowledged).sum::<u64>() - before;
    match ends.into_iter().find_map(Result::err) {
        // Without power, anything may be refused.
        Some(error) if !was_cut => Err(error.to_string()),
        _ => Ok(()),
    }
}
