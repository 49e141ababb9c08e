//! A node whose tree's knobs are turned all the time, as no policy would do. Scope, gathering and write buffers change
//! between any two writes, so that jobs are parked, resumed and cancelled, and level 0 is merged within itself, at
//! whatever moment the power goes.

use std::sync::Arc;

use parking_lot::Mutex;
use weir_io::{BoxFuture, Result, Rng};
use weir_model::Batch;
use weir_model::engine::Snapshot;
use weir_node::{NodeConfig, Scope, TreeKnobs};

use crate::model::Visible;
use crate::node_store::NodeStore;
use crate::span::Span;
use crate::store::{Sent, Store, World};

/// A node and its first partition, as a [`Store`] whose knobs keep turning.
pub struct Turning {
    store: Arc<NodeStore>,
    rng: Mutex<Rng>,
}

impl Turning {
    fn turn(&self) {
        let knobs = {
            let mut rng = self.rng.lock();
            if rng.chance(0.8) {
                return;
            }
            TreeKnobs {
                scope: Scope::ALL[rng.below(3) as usize],
                flush_gather: 1 + rng.below(4) as usize,
                write_buffers: 2 + rng.below(6) as usize,
                intra_l0_fan_in: 2 + rng.below(3) as usize,
                intra_l0_from: rng.below(6) as usize,
                intra_l0_bytes: 1 << rng.below(24),
                warm: rng.chance(0.5),
                l0_gathers: rng.chance(0.5),
                pending_stalls: rng.chance(0.5),
            }
        };
        self.store.partition().set_tree_knobs(knobs);
    }
}

impl Store for Turning {
    type Options = NodeConfig;
    type Snapshot = Snapshot;

    async fn open(world: World, config: NodeConfig) -> Result<Arc<Self>> {
        let rng = Mutex::new(Rng::new(world.salt));
        let store = NodeStore::open(world, config).await?;
        Ok(Arc::new(Self { store, rng }))
    }

    fn write(&self, batch: &Batch) -> Sent {
        self.turn();
        self.store.write(batch)
    }

    fn get(&self, key: &[u8]) -> BoxFuture<Result<Option<Vec<u8>>>> {
        self.store.get(key)
    }

    fn get_at(&self, key: &[u8], snapshot: &Snapshot) -> BoxFuture<Result<Option<Vec<u8>>>> {
        self.store.get_at(key, snapshot)
    }

    fn scan(&self, span: &Span, snapshot: Option<&Snapshot>) -> BoxFuture<Result<Visible>> {
        self.store.scan(span, snapshot)
    }

    fn snapshot(&self) -> Option<Snapshot> {
        self.store.snapshot()
    }

    fn seal(&self) {
        self.store.seal();
    }

    fn close(self: Arc<Self>) -> BoxFuture<Result<()>> {
        Arc::clone(&self.store).close()
    }
}

#[cfg(test)]
mod tests {
    use weir_io::Fs;
    use weir_io::sim::{DeviceSpec, FaultPlan, Sim, SimFs};
    use weir_log::SyncMode;

    use super::*;
    use crate::life::{Acks, Life};
    use crate::model::Model;
    use crate::node_store::small;
    use crate::workload::{Mix, Workload};

    /// Jobs parked and released while 3,000 random operations run and knobs turn.
    fn parked_and_released(seed: u64) -> [u64; 2] {
        let sim = Sim::new(seed);
        let disk = SimFs::new(sim.clock(), DeviceSpec::shared(2_000_000), FaultPlan::none(), sim.rng());
        let world = World { fs: disk as Arc<dyn Fs>, clock: sim.clock(), spawn: sim.spawner(), salt: seed };
        let mut workload = Workload::new(Rng::new(seed), Mix::CRASH);
        let mut model = Model::default();
        sim.block_on(async {
            let options = small(SyncMode::None);
            let begun = Life::<Turning>::begin(world, options, &mut model, 0, Acks::default()).await;
            let (mut life, _) = begun.expect("an empty disk");
            life.run(&mut workload, 3_000).await.expect("every answer is right");
            let metrics = life.store().store.partition().metrics();
            life.close().await.expect("close");
            [metrics.jobs_parked, metrics.jobs_released]
        })
    }

    #[test]
    fn jobs_are_parked_and_some_of_them_cancelled() {
        let all: Vec<[u64; 2]> = (1..=8).map(parked_and_released).collect();
        let [parked, released] = [0, 1].map(|which| all.iter().map(|one| one[which]).sum::<u64>());
        assert!(parked > 80 && released > 0, "parked and released: {all:?}");
    }
}
