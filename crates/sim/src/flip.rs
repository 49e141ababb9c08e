//! Bits that rot: every byte of a database is damaged, one at a time, and everything is read.
//!
//! Three outcomes are allowed. *Refused*: an error, which mostly names the damaged file; where the damage looks like a
//! torn tail, it names the file that contradicts it. *Harmless*: the right answer, because the byte means nothing. For
//! a store that was killed and not closed there is a third: a shorter prefix, where the damage is behind the last point
//! known to be durable and cannot be told from a write that the power cut tore. A wrong value is never allowed.

use std::fmt;
use std::path::PathBuf;

use weir_io::Rng;
use weir_io::sim::{DeviceSpec, DiskImage, FaultPlan, Keep, Sim, SimFs};

use crate::crash::{Scenario, recover};
use crate::life::{Acks, Life};
use crate::model::Model;
use crate::runner::{Failure, Plan, Tally, run};
use crate::store::{Store, World};
use crate::workload::{Mix, Workload};

/// A database to damage, and what it holds.
pub struct Victim {
    image: DiskImage,
    model: Model,
    unix_ms: u64,
    closed: bool,
    files: Vec<(PathBuf, u64)>,
}

/// What came of the damages.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flips {
    /// Bits flipped, one at a time.
    pub flips: u64,
    /// Answered with an error.
    pub refused: u64,
    /// How many of the refusals name another file than the damaged one.
    pub elsewhere: u64,
    /// Answered correctly.
    pub harmless: u64,
}

impl Tally for Flips {
    fn merge(&mut self, other: Self) {
        self.flips += other.flips;
        self.refused += other.refused;
        self.elsewhere += other.elsewhere;
        self.harmless += other.harmless;
    }
}

impl fmt::Display for Flips {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { flips, refused, elsewhere, harmless } = self;
        write!(f, "{flips} flips: {refused} refused ({elsewhere} naming another file), {harmless} harmless, 0 wrong")
    }
}

impl Victim {
    /// The database that `steps` steps of the workload of `seed` leave, whether closed in good order or killed.
    pub fn new<S: Store>(
        seed: u64,
        steps: usize,
        closed: bool,
        scenario: &Scenario<S::Options>,
    ) -> Result<Self, String> {
        let mut rng = Rng::new(seed);
        let sim = Sim::new(seed);
        let disk = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), rng.fork("disk"));
        let world = World { fs: disk.clone(), clock: sim.clock(), spawn: sim.spawner(), salt: seed };
        // Without expiry: a damaged database is opened a million times, each time at the same moment.
        let mut workload = Workload::new(rng.fork("workload"), Mix { expiry: false, ..Mix::CRASH });
        let mut model = Model::default();
        sim.block_on(async {
            let options = scenario.options.clone();
            let (mut life, _) = Life::<S>::begin(world, options, &mut model, 0, Acks::default()).await?;
            life.run(&mut workload, steps).await?;
            life.wait_for_writes().await?;
            if closed { life.close().await } else { Ok(()) }
        })?;
        let image = disk.crash_keeping(Keep::All, &mut rng);
        let files = image.files();
        Ok(Self { image, model, unix_ms: sim.clock().unix_ms(), closed, files })
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, len)| len).sum()
    }

    /// The file and offset of byte number `at`, counted over all files.
    fn locate(&self, mut at: u64) -> Option<(&PathBuf, u64)> {
        for (path, len) in &self.files {
            if at < *len {
                return Some((path, at));
            }
            at -= len;
        }
        None
    }

    /// Flips one bit of byte `at`, and reads everything.
    pub fn flip<S: Store>(&self, at: u64, scenario: &Scenario<S::Options>) -> Result<Flips, String> {
        let Some((path, offset)) = self.locate(at) else { return Ok(Flips::default()) };
        let bit = (Rng::new(at).next_u64() % 8) as u8;
        let mut image = self.image.clone();
        image.flip_bit(path, offset, bit);
        let mut model = self.model.clone();
        let promised = if self.closed { model.sent() } else { 0 };
        let outcome = recover::<S>(&image, self.unix_ms, &mut model, promised, scenario, at);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match outcome {
            Ok(()) => Ok(Flips { flips: 1, harmless: 1, ..Flips::default() }),
            // A failure to open or read is an error of the store; any other story is a judgement of the checks here.
            Err(story) if story.starts_with("cannot") => {
                let elsewhere = u64::from(!story.contains(&*name));
                Ok(Flips { flips: 1, refused: 1, elsewhere, harmless: 0 })
            }
            Err(story) => Err(format!("bit {bit} of byte {offset} of {}: {story}", path.display())),
        }
    }

    /// Flips every byte whose number is a multiple of `stride`.
    pub fn flip_all<S: Store>(
        &self,
        stride: u64,
        plan: &Plan,
        replay: impl Fn(u64) -> String + Sync,
        scenario: &Scenario<S::Options>,
    ) -> Result<Flips, Failure>
    where
        Scenario<S::Options>: Sync,
    {
        let plan = Plan { seeds: 0..self.bytes().div_ceil(stride), ..plan.clone() };
        run(&plan, |step| replay(step * stride), |step| self.flip::<S>(step * stride, scenario))
    }
}
