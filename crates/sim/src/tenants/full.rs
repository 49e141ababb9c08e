//! A disk that one tenant has filled, with others asleep and awake, before and after restarts.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use weir_io::sim::{DiskImage, FaultPlan, Keep, Sim, SimFs};
use weir_io::{ErrorKind, Nanos, Rng};
use weir_log::SyncMode;

use super::Setting;
use super::model::{Contents, Model};
use super::town::{Order, Town, is_well, machine, open};
use crate::runner::Tally;

/// The tenant that fills the disk.
const HOG: &str = "hog";
/// The other tenants; the last one is never used before the disk is full.
const OTHERS: [&str; 5] = ["a", "b", "c", "d", "never"];
/// Steps of a life.
const STEPS: u64 = 30;
/// Lives on a full disk.
const LIVES: u64 = 4;
/// Virtual time until writes must be accepted again.
const RESUME_WITHIN: Nanos = 60_000_000_000;

/// The figures of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct FullDisks {
    /// Disks filled.
    pub runs: u64,
    /// Orders and requests that were done while the disk was full.
    pub done: u64,
    /// Orders and requests that were refused for want of space.
    pub refused: u64,
    /// Tenants dropped or emptied while nothing at all was free.
    pub emptied_when_full: u64,
}

impl Tally for FullDisks {
    fn merge(&mut self, other: Self) {
        self.runs += other.runs;
        self.done += other.done;
        self.refused += other.refused;
        self.emptied_when_full += other.emptied_when_full;
    }
}

impl fmt::Display for FullDisks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, done, refused, emptied_when_full } = self;
        write!(f, "{runs} full disks, {done} orders and requests done, {refused} refused, ")?;
        write!(f, "{emptied_when_full} tenants dropped or emptied with not one page free")
    }
}

/// What one life hands to the next.
struct History {
    image: DiskImage,
    /// Size of the disk; `None` before it is full.
    capacity: Option<u64>,
    model: Model,
    backups: Vec<(PathBuf, Contents)>,
    step: u64,
    rng: Rng,
    tally: FullDisks,
}

/// Fills a disk and lives on it.
///
/// # Errors
/// The error says what was lost, what cannot be read, or what was refused and must not be.
pub fn full_disk(seed: u64, setting: &Setting) -> Result<FullDisks, String> {
    let mut history = History {
        image: DiskImage::new(),
        capacity: None,
        model: Model::default(),
        backups: Vec::new(),
        step: 0,
        rng: Rng::new(seed),
        tally: FullDisks { runs: 1, ..FullDisks::default() },
    };
    for life in 0..=LIVES {
        history.live(life, setting).map_err(|story| format!("life {life}: {story}"))?;
    }
    Ok(history.tally)
}

impl History {
    fn live(&mut self, life: u64, setting: &Setting) -> Result<(), String> {
        let Setting { engines, sync } = setting;
        let sync = *sync;
        let (sim, disk) = machine(self.rng.next_u64(), &self.image, FaultPlan::none());
        if let Some(capacity) = self.capacity {
            disk.set_capacity(capacity);
        }
        let is_last = life == LIVES;
        // In mode `none` a killed process loses what it has not written yet, as promised; so here it ends in order.
        let closes = self.rng.chance(0.4) || sync == SyncMode::None;
        sim.block_on(async {
            let opened = open(&sim, &disk, sync).await;
            let node = opened.map_err(|error| format!("the node does not open on a full disk: {error}"))?;
            let mut town = Town {
                node,
                engines,
                clock: sim.clock(),
                model: &mut self.model,
                backups: &mut self.backups,
                step: &mut self.step,
                rng: self.rng.fork("town"),
            };
            town.check().await.map_err(|story| format!("at the beginning: {story}"))?;
            if life == 0 {
                settle_down(&mut town).await?;
                disk.set_capacity(disk.held_bytes() + town.rng.below(300 << 10));
            }
            fill(&mut town, &mut self.tally).await?;
            if town.rng.chance(0.7) {
                // Another program has taken the space that was left.
                disk.set_free_bytes(0);
            }
            live_on(&mut town, &disk, &mut self.tally).await?;
            if is_last {
                recover(&mut town, &disk, &sim).await?;
            }
            if sync == SyncMode::None {
                // A process that ends while there is no space cannot keep what is in memory alone, and says so.
                disk.set_free_bytes(4 << 20);
                town.pause(2_000_000_000).await;
            }
            if closes {
                match town.node.close().await {
                    Err(error) if error.kind() != ErrorKind::NoSpace || sync == SyncMode::None => {
                        return Err(format!("cannot be closed: {error}"));
                    }
                    _ => {}
                }
            }
            Ok(())
        })?;
        let keep = if sync == SyncMode::Always { Keep::Random } else { Keep::All };
        self.image = disk.crash_keeping(keep, &mut self.rng);
        let free = if sync == SyncMode::None { 0 } else { disk.free_bytes() };
        self.capacity = Some(disk.held_bytes() + free);
        Ok(())
    }
}

/// Tenants that hold something, some of them asleep, one of them never used.
async fn settle_down(town: &mut Town<'_>) -> Result<(), String> {
    for name in OTHERS {
        town.carry_out(Order::Create, name).await?.map_err(|error| error.to_string())?;
        for _ in 0..if name == "never" { 0 } else { 6 } {
            town.carry_out(Order::Write, name).await?.map_err(|error| error.to_string())?;
        }
        if town.rng.chance(0.5) {
            town.carry_out(Order::Sleep, name).await?.map_err(|error| error.to_string())?;
        }
    }
    // By now the space for the catalogue is set aside.
    town.pause(2_000_000_000).await;
    Ok(())
}

/// One tenant writes until it is refused.
async fn fill(town: &mut Town<'_>, tally: &mut FullDisks) -> Result<(), String> {
    if town.model.get(HOG).is_none()
        && let Err(error) = town.carry_out(Order::Create, HOG).await?
    {
        return if error.kind() == ErrorKind::NoSpace { Ok(()) } else { Err(format!("cannot create: {error}")) };
    }
    let mut refused = 0;
    for write in 0_u64.. {
        let key = format!("fill{}-{write}", town.step);
        match town.write(HOG, key.as_bytes(), Some(&[b'f'; 2_000])).await {
            Ok(()) => tally.done += 1,
            Err(error) if error.kind() == ErrorKind::NoSpace => refused += 1,
            Err(error) => return Err(format!("a full disk gives a different error: {error}")),
        }
        if refused == 3 {
            break;
        }
        if write > 5_000 {
            return Err("the disk does not get full".into());
        }
        town.pause(1_000_000).await;
    }
    tally.refused += refused;
    Ok(())
}

async fn live_on(town: &mut Town<'_>, disk: &Arc<SimFs>, tally: &mut FullDisks) -> Result<(), String> {
    let names = [&OTHERS[..], &[HOG]].concat();
    for _ in 0..STEPS {
        let free = disk.free_bytes();
        let (order, answer) = town.step(&names).await?;
        match answer {
            Ok(()) => tally.done += 1,
            Err(error) if order.works_on_a_full_disk() => {
                let aside = town.node.reserve_bytes();
                return Err(format!("{order:?} is refused, {free} bytes free, {aside} set aside: {error}"));
            }
            Err(error) if error.kind() == ErrorKind::NoSpace => tally.refused += 1,
            Err(error) => return Err(format!("{order:?} on a full disk gives a different error: {error}")),
        }
        if matches!(order, Order::Drop | Order::Clear) && free == 0 {
            tally.emptied_when_full += 1;
        }
        if town.rng.chance(0.2) {
            disk.set_free_bytes(0);
        }
    }
    Ok(())
}

/// Drops the tenant that filled the disk: everybody else goes on.
async fn recover(town: &mut Town<'_>, disk: &Arc<SimFs>, sim: &Sim) -> Result<(), String> {
    if town.model.get(HOG).is_some() {
        town.carry_out(Order::Drop, HOG).await?.map_err(|error| format!("cannot drop who filled the disk: {error}"))?;
        town.pause(100_000_000).await;
    }
    if disk.free_bytes() < 1 << 20 {
        // It had been emptied before, and another program has the space: that program gives some back.
        disk.set_free_bytes(1 << 20);
    }
    let deadline = sim.now() + RESUME_WITHIN;
    for name in [&OTHERS[..], &["new"]].concat() {
        loop {
            let order = if town.model.get(name).is_none() { Order::Create } else { Order::Write };
            match town.carry_out(order, name).await? {
                Ok(()) if order == Order::Write => break,
                Err(error) if sim.now() > deadline => {
                    let free = disk.free_bytes();
                    return Err(format!("{name}: {order:?} is still refused, {free} bytes are free: {error}"));
                }
                _ => town.pause(100_000_000).await,
            }
        }
    }
    town.pause(3_000_000_000).await;
    if town.node.reserve_bytes() == 0 {
        return Err("nothing is set aside again".into());
    }
    is_well(disk, &town.node).await?;
    town.check().await
}
