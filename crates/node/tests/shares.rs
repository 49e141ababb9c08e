//! The shares in a tenant's settings: durable, refused if they cannot be promised, and in force at the next tick.

use std::sync::Arc;

use weir_io::sim::{DeviceSpec, DiskImage, FaultPlan, Sim, SimFs};
use weir_io::{Error, ErrorKind, Fs, Nanos, sleep_until};
use weir_model::Batch;
use weir_node::{
    Delay, FlushShares, Machine, Node, NodeConfig, Promise, ShareMode, ShareTerms, TenantName, TenantSettings,
    TenantSpec,
};

const MS: Nanos = 1_000_000;
const MEMORY: u64 = 32 << 20;

/// Whoever asks for its share has it at once, one tenant at a time.
const AT_ONCE: ShareMode = ShareMode::Delta(Promise { delta: 0, k: 1 });

async fn open(sim: &Sim, fs: &Arc<SimFs>, mode: ShareMode) -> Node {
    let flush_slots = Some(FlushShares { slots: 4, mode });
    let config =
        NodeConfig { write_memory_bytes: MEMORY, write_memory_shares: mode, flush_slots, ..NodeConfig::new("/weir") };
    let fs = Arc::clone(fs) as Arc<dyn Fs>;
    let machine = Machine { fs, clock: sim.clock(), spawn: sim.spawner(), salt: sim.rng().next_u64() };
    Node::open(&config, machine).await.expect("the node opens")
}

fn disk(sim: &Sim) -> Arc<SimFs> {
    SimFs::from_image(&DiskImage::default(), sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng())
}

fn name(name: &str) -> TenantName {
    TenantName::new(name).expect("a name")
}

async fn alter(node: &Node, tenant: &str, terms: ShareTerms) -> Result<(), Error> {
    let change = move |settings: &mut TenantSettings| {
        settings.terms = terms;
        Ok(())
    };
    node.alter_tenant(&name(tenant), change).await
}

#[test]
fn weights_and_delays_count_from_the_next_tick_on_and_outlive_the_process() {
    let sim = Sim::new(1);
    let (clock, fs) = (sim.clock(), disk(&sim));
    let terms = |weight, delay| ShareTerms { weight, delay };
    sim.block_on(async {
        let node = open(&sim, &fs, AT_ONCE).await;
        let mut awake = Vec::new();
        for tenant in ["one", "two", "three"] {
            let tenant = node.create_tenant(TenantSpec::new(name(tenant))).await.expect("created");
            awake.push((tenant.id().0, tenant.partitions()[0].partition().await.expect("it opens")));
        }
        let seen = || {
            let shares = node.write_memory_shares().shares;
            let units = awake.iter().map(|(id, _)| shares.tenants.get(id).map_or(0, |share| share.units * 60 / MEMORY));
            let is_prompt = awake.iter().all(|(id, _)| shares.tenants.get(id).is_some_and(|share| share.is_prompt));
            (units.collect::<Vec<_>>(), shares.common * 32 / MEMORY, is_prompt)
        };
        let tick = || sleep_until(&clock, clock.now() + 1_010 * MS);
        tick().await;
        assert_eq!(seen(), (vec![19; 3], 12, true), "a third each, and a grain; rounded down, and up");
        alter(&node, "two", terms(2, Delay::OfNode)).await.expect("two fifths, if all four are awake");
        assert_eq!(seen(), (vec![19; 3], 12, true), "not yet");
        tick().await;
        assert_eq!(seen(), (vec![15, 30, 15], 16, true), "only half can be kept: the fourth one sleeps");
        assert!(node.write_memory_shares().broken.is_some());
        alter(&node, "two", terms(2, Delay::Endless)).await.expect("that takes nothing");
        tick().await;
        assert_eq!(seen(), (vec![15, 30, 15], 9, false), "what is kept is for the others");
        alter(&node, "one", terms(1, Delay::Endless)).await.expect("that takes nothing");
        alter(&node, "three", terms(1, Delay::Endless)).await.expect("that takes nothing");
        tick().await;
        assert_eq!((seen().1, node.flush_waits().map(|waits| waits.reserved)), (0, Some(0)), "nobody is in a hurry");
        node.close().await.expect("closed");
    });
    let node = sim.block_on(open(&sim, &fs, AT_ONCE));
    let of = |tenant| node.tenant(&name(tenant)).expect("there").settings().terms;
    assert_eq!([of("one"), of("two")], [terms(1, Delay::Endless), terms(2, Delay::Endless)]);
    assert_eq!(of("default"), ShareTerms::default());
}

#[test]
fn terms_that_cannot_be_kept_are_refused_with_the_arithmetic_where_they_are_set() {
    // U-14.
    let sim = Sim::new(2);
    let fs = disk(&sim);
    let heavy = ShareTerms { weight: 9, delay: Delay::Ms(0) };
    let spec = || TenantSpec {
        settings: TenantSettings { terms: heavy, ..TenantSettings::default() },
        ..TenantSpec::new(name("heavy"))
    };
    sim.block_on(async {
        let node = open(&sim, &fs, AT_ONCE).await;
        for tenant in ["one", "two"] {
            node.create_tenant(TenantSpec::new(name(tenant))).await.expect("who says nothing is let in");
        }
        let refused = [alter(&node, "one", heavy).await.err(), node.create_tenant(spec()).await.err()];
        for (error, (count, most)) in refused.into_iter().zip([(3, 27_453_626), (4, 25_165_824)]) {
            let error = error.expect("refused");
            assert_eq!(error.kind(), ErrorKind::Invalid);
            let said = error.to_string();
            let words = [
                format!("with {count} tenants"),
                format!(
                    "tenants, 1 at a time, may claim up to {most}, of which 0 come back within 0 ms, at 0 a second"
                ),
                format!("more than half of {MEMORY}, which is {}", MEMORY / 2),
            ];
            assert!(words.iter().all(|words| said.contains(words)), "{said}");
        }
        let there = node.tenant(&name("one")).expect("there").settings().terms;
        assert_eq!((there, node.tenants().len()), (ShareTerms::default(), 3), "nothing has changed");
        let patient = ShareTerms { delay: Delay::Ms(500), ..heavy };
        alter(&node, "one", patient).await.expect("how much comes back in half a second shows only later");
        alter(&node, "one", ShareTerms { delay: Delay::Endless, ..heavy }).await.expect("it takes nothing");
        let impossible = [ShareTerms { weight: 0, ..heavy }, ShareTerms { weight: 1001, ..heavy }];
        for terms in impossible.into_iter().chain([ShareTerms { weight: 1, delay: Delay::Ms(3_600_001) }]) {
            assert_eq!(alter(&node, "two", terms).await.map_err(|error| error.kind()), Err(ErrorKind::Invalid));
        }
        node.close().await.expect("closed");
    });
    let fs = disk(&sim);
    sim.block_on(async {
        let node = open(&sim, &fs, ShareMode::Fair).await;
        node.create_tenant(spec()).await.expect("nothing is promised to anybody here");
        alter(&node, "heavy", ShareTerms { weight: 1000, ..heavy }).await.expect("nor then");
    });
}

#[test]
fn what_a_tenant_left_in_memory_goes_to_a_table_while_it_rests() {
    // A tenant that comes back with 7/8 of its share must not find that what it left behind takes an eighth of it.
    for (mode, goes) in
        [(ShareMode::Quota, true), (AT_ONCE, true), (ShareMode::Quarter, false), (ShareMode::Fair, false)]
    {
        let sim = Sim::new(3);
        let (clock, fs) = (sim.clock(), disk(&sim));
        sim.block_on(async {
            let node = open(&sim, &fs, mode).await;
            let mut awake = Vec::new();
            for tenant in ["rests", "writes on", "next to nothing"] {
                let tenant =
                    node.create_tenant(TenantSpec::new(name(&tenant.replace(' ', "-")))).await.expect("created");
                awake.push((tenant.id().0, tenant.partitions()[0].partition().await.expect("it opens")));
            }
            let write = async |index: usize, key: u64, bytes: usize| {
                let mut batch = Batch::new();
                batch.put(&key.to_be_bytes(), &vec![7; bytes]);
                let commit = awake[index].1.write(&batch).await.expect("there is room");
                commit.await.expect("the disk is well");
            };
            write(0, 0, 2 << 20).await;
            write(2, 0, 1000).await;
            for second in 0..5 {
                write(1, second, 400 << 10).await;
                sleep_until(&clock, clock.now() + 1_000 * MS).await;
            }
            let parts = node.write_memory().parts();
            let used =
                |index: usize| parts.iter().find(|(id, _)| *id == awake[index].0).map_or(0, |(_, part)| part.used);
            assert_eq!(used(0) == 0, goes, "{mode:?}: {} bytes of who rests", used(0));
            assert!(used(1) >= 5 * (400 << 10), "{mode:?}: {} bytes of who writes on", used(1));
            assert!(used(2) > 0, "{mode:?}: next to nothing is not worth a table");
            node.close().await.expect("closed");
        });
    }
}
