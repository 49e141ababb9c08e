//! Power cuts and kills of a node whose tenants share a log; each tenant is judged like a store of its own.
//!
//! The run is like [`crash`](crate::crash): lives one after the other on the same disk, and a closer look at some
//! changes of each. A life is one of the node; in it every tenant has a [`Life`] of its own, with a model of what it
//! has sent. Tenants take their steps in turns, so that their records are interleaved, and one flushes what others have
//! not. A cut leaves a prefix for each tenant, not of all that they have written together, because tables are in no
//! log.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_io::sim::{DiskImage, FaultPlan, Phase, Sim, SimFs};
use weir_io::{BoxFuture, Error, ErrorKind, Fs, Result as IoResult, Rng};
use weir_model::Batch;
use weir_model::engine::Snapshot;
use weir_node::{LogKind, Machine, Node, NodeConfig, TenantName, TenantSpec};

use crate::crash::{Cuts, LIFE_LIMIT, draw_device, draw_keep, killed};
use crate::life::{Acks, Life, Promise};
use crate::model::{Model, Visible};
use crate::node_store::NodeStore;
use crate::plant::{DiskPlant, PlantedFs};
use crate::span::Span;
use crate::store::{Sent, Store, World};
use crate::workload::{Mix, Workload};

/// The tenants that share a log, and what is cut.
#[derive(Clone, Debug)]
pub struct Sharing {
    /// Settings of the node.
    pub config: NodeConfig,
    /// What acknowledgements are worth.
    pub promise: Promise,
    /// How many tenants there are, with one partition each.
    pub members: usize,
    /// Cuts in the history of one seed.
    pub cuts: u64,
    /// Looks closer at one change in this many.
    pub look_every: u64,
    /// A planted mistake that the run must find; `None` in a real test.
    pub plant: Option<DiskPlant>,
}

impl Sharing {
    fn door(&self, disk: &Arc<SimFs>) -> Arc<dyn Fs> {
        let disk = Arc::clone(disk) as Arc<dyn Fs>;
        match self.plant {
            Some(plant) => PlantedFs::new(disk, plant),
            None => disk,
        }
    }
}

/// A tenant of a node that is open.
#[derive(Clone)]
struct Seat {
    node: Arc<Node>,
    name: TenantName,
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)
    }
}

/// The store of one tenant. The code that has opened the node also closes it.
struct Sharer(NodeStore);

impl Store for Sharer {
    type Options = Seat;
    type Snapshot = Snapshot;

    async fn open(world: World, Seat { node, name }: Seat) -> IoResult<Arc<Self>> {
        let gone = || Error::new(ErrorKind::NotFound, "open", name.as_str(), "there is no such tenant");
        let partition = node.tenant(&name).ok_or_else(gone)?.partitions()[0].partition().await?;
        Ok(Arc::new(Self(NodeStore::of(node, partition, world.clock))))
    }

    fn write(&self, batch: &Batch) -> Sent {
        self.0.write(batch)
    }

    fn get(&self, key: &[u8]) -> BoxFuture<IoResult<Option<Vec<u8>>>> {
        self.0.get(key)
    }

    fn get_at(&self, key: &[u8], snapshot: &Snapshot) -> BoxFuture<IoResult<Option<Vec<u8>>>> {
        self.0.get_at(key, snapshot)
    }

    fn scan(&self, span: &Span, snapshot: Option<&Snapshot>) -> BoxFuture<IoResult<Visible>> {
        self.0.scan(span, snapshot)
    }

    fn snapshot(&self) -> Option<Snapshot> {
        self.0.snapshot()
    }

    fn seal(&self) {
        self.0.seal();
    }

    fn close(self: Arc<Self>) -> BoxFuture<IoResult<()>> {
        Box::pin(async { Ok(()) })
    }
}

/// What is known of one member.
#[derive(Clone, Default)]
struct Known {
    model: Model,
    /// How many of the batches in the model were promised.
    promised: usize,
}

/// A closer look at one change.
struct Look {
    image: DiskImage,
    unix_ms: u64,
    index: u64,
    /// For each member: whether it had shown what it recovered, and what was sent and promised by then.
    members: Vec<(bool, usize, usize)>,
}

/// Runs the history of `seed`.
///
/// # Errors
/// The error says what was lost, or what was found and must not be there.
pub fn history(seed: u64, sharing: &Sharing) -> Result<Cuts, String> {
    let mut rng = Rng::new(seed);
    let (mut image, mut known) = (DiskImage::new(), vec![Known::default(); sharing.members]);
    let (mut unix_ms, mut tally) = (1_767_225_600_000, Cuts::default());
    while tally.cuts < sharing.cuts {
        let sim = machine(rng.next_u64(), unix_ms);
        let disk = SimFs::from_image(&image, sim.clock(), draw_device(&mut rng), FaultPlan::none(), rng.fork("disk"));
        let cut_at = if rng.chance(0.2) { rng.below(40) } else { rng.below(1_000) };
        disk.cut_power_at(cut_at, if rng.chance(0.5) { Phase::Before } else { Phase::During });
        let acks: Vec<Acks> = (0..sharing.members).map(|_| Acks::default()).collect();
        let looks = look_closer(&disk, &sim, &acks, sharing, &mut rng);
        let world = World { fs: sharing.door(&disk), clock: sim.clock(), spawn: sim.spawner(), salt: rng.next_u64() };
        let before = known.clone();
        let mut cuts = vec![None; sharing.members];
        let outcome = sim.block_on(live(&world, sharing, &mut known, &acks, &mut cuts, &mut rng));
        if let (Err(story), false) = (&outcome, disk.changes() >= cut_at) {
            return Err(format!("cut {}: {story}", tally.cuts));
        }
        for (((known, cut), before), acks) in known.iter_mut().zip(&cuts).zip(&before).zip(&acks) {
            if acks.settled() {
                // Its model begins anew, even if the power went before the member had shown everything.
                known.promised = 0;
            }
            match cut {
                Some(cut) => {
                    tally.kept += (cut - before.promised) as u64;
                    tally.lost += (before.model.sent() - cut) as u64;
                }
                None => tally.in_recovery += 1,
            }
        }
        for look in looks.lock().drain(..) {
            let earlier = look.members.iter().zip(&known).zip(&before).map(|((member, known), before)| match *member {
                (true, sent, promised) => Known { model: known.model.when_sent(sent), promised },
                (false, ..) => before.clone(),
            });
            recover(&look.image, look.unix_ms, earlier.collect(), sharing, rng.next_u64())
                .map_err(|story| format!("cut {}, at change {} of that life: {story}", tally.cuts, look.index))?;
            tally.cuts += 1;
        }
        let keep = draw_keep(&mut rng);
        let promise = if keep == weir_io::sim::Keep::All { killed(sharing.promise) } else { sharing.promise };
        for (known, acks) in known.iter_mut().zip(&acks) {
            known.promised = known.promised.max(acks.promised(promise, sim.now()));
            tally.acknowledged += acks.count();
        }
        tally.cuts += 1;
        tally.stamp(&sim, &disk);
        image = disk.crash_keeping(keep, &mut rng);
        unix_ms = sim.clock().unix_ms();
    }
    Ok(tally)
}

fn machine(seed: u64, unix_ms: u64) -> Sim {
    let sim = Sim::new(seed);
    sim.set_unix_ms(unix_ms);
    sim.set_time_limit(LIFE_LIMIT);
    sim
}

fn name(number: usize) -> TenantName {
    TenantName::new(&format!("sharer{number}")).expect("a name")
}

/// Opens the node; every member exists afterwards.
async fn open(world: &World, sharing: &Sharing) -> Result<Arc<Node>, String> {
    let World { fs, clock, spawn, salt } = world.clone();
    let node = Node::open(&sharing.config, Machine { fs, clock, spawn, salt }).await;
    let node = Arc::new(node.map_err(|error| format!("the node does not open: {error}"))?);
    for name in (0..sharing.members).map(name) {
        if node.tenant(&name).is_none() {
            let spec = TenantSpec { engine: sharing.config.engine, log: LogKind::Shared, ..TenantSpec::new(name) };
            node.create_tenant(spec).await.map_err(|error| format!("cannot create a tenant: {error}"))?;
        }
    }
    Ok(node)
}

/// One life of the node. Each member that was opened has in `cuts` the prefix that it has shown.
async fn live(
    world: &World,
    sharing: &Sharing,
    known: &mut [Known],
    acks: &[Acks],
    cuts: &mut [Option<usize>],
    rng: &mut Rng,
) -> Result<(), String> {
    let (mut workloads, mut turns) = (Vec::new(), rng.fork("turns"));
    for number in 0..sharing.members {
        workloads.push(Workload::new(rng.fork(&format!("workload {number}")), Mix::CRASH));
    }
    let (steps, ends_well) = (rng.below(400), rng.chance(0.1));
    let node = open(world, sharing).await?;
    let mut lives = Vec::new();
    for (number, (known, acks)) in known.iter_mut().zip(acks).enumerate() {
        let seat = Seat { node: Arc::clone(&node), name: name(number) };
        let begun = Life::<Sharer>::begin(world.clone(), seat, &mut known.model, known.promised, acks.clone()).await;
        let (life, cut) = begun.map_err(|story| format!("member {number}: {story}"))?;
        cuts[number] = Some(cut);
        lives.push(life);
    }
    for _ in 0..steps {
        let number = turns.below(sharing.members as u64) as usize;
        lives[number].run(&mut workloads[number], 1).await.map_err(|story| format!("member {number}: {story}"))?;
    }
    if ends_well {
        for life in lives {
            life.close().await?;
        }
        node.close().await.map_err(|error| format!("cannot close: {error}"))?;
    }
    Ok(())
}

/// Takes an image at some of the changes to come.
fn look_closer(disk: &Arc<SimFs>, sim: &Sim, acks: &[Acks], sharing: &Sharing, rng: &mut Rng) -> Arc<Mutex<Vec<Look>>> {
    let looks = Arc::new(Mutex::new(Vec::new()));
    let (seen, clock, acks, mut rng) = (Arc::clone(&looks), sim.clock(), acks.to_vec(), rng.fork("looks"));
    let (promise, look_every) = (sharing.promise, sharing.look_every);
    disk.on_cut_point(move |disk, point| {
        if rng.below(look_every) > 0 {
            return;
        }
        let keep = draw_keep(&mut rng);
        let promise = if keep == weir_io::sim::Keep::All { killed(promise) } else { promise };
        let known = |acks: &Acks| (acks.settled(), acks.sent(), acks.promised(promise, clock.now()));
        let (image, unix_ms) = (disk.crash_keeping(keep, &mut rng), clock.unix_ms());
        seen.lock().push(Look { image, unix_ms, index: point.index, members: acks.iter().map(known).collect() });
    });
    looks
}

/// Recovers from `image` on a machine of its own, and judges what every member finds.
fn recover(image: &DiskImage, unix_ms: u64, mut known: Vec<Known>, sharing: &Sharing, seed: u64) -> Result<(), String> {
    let sim = machine(seed, unix_ms);
    let device = weir_io::sim::DeviceSpec::instant();
    let disk = SimFs::from_image(image, sim.clock(), device, FaultPlan::none(), Rng::new(seed));
    let world = World { fs: sharing.door(&disk), clock: sim.clock(), spawn: sim.spawner(), salt: seed };
    sim.block_on(async {
        let node = open(&world, sharing).await?;
        for (number, known) in known.iter_mut().enumerate() {
            let seat = Seat { node: Arc::clone(&node), name: name(number) };
            Life::<Sharer>::begin(world.clone(), seat, &mut known.model, known.promised, Acks::default())
                .await
                .map_err(|story| format!("member {number}: {story}"))?;
        }
        Ok(())
    })
}

/// Runs the history of `seed` twice, and checks that everything happened again in the same order.
///
/// # Errors
/// The errors of [`history`], or the two runs differ.
pub fn twice(seed: u64, sharing: &Sharing) -> Result<Cuts, String> {
    let (once, again) = (history(seed, sharing)?, history(seed, sharing)?);
    if once.fingerprint != again.fingerprint {
        return Err(format!("two days from one seed: {:016x} and {:016x}", once.fingerprint, again.fingerprint));
    }
    Ok(once)
}
