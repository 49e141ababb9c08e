//! Keys that expire are told in time while somebody listens, whoever wrote them and when; in virtual time.

use std::sync::Weak;

use weir_command::events::{KeyEvent, Witness};
use weir_io::sim::{DeviceSpec, Fault, FaultPlan, OpKind, Sim, SimFs};
use weir_io::{Error, ErrorKind, Fs};
use weir_model::TenantName;
use weir_model::engine::EngineKind;

use super::super::asked::ask;
use super::*;
use crate::config::{Machine, NodeConfig};
use crate::expiry_queue::QUEUE_BYTES_MAX;
use crate::node::Node;

/// Remembers what it is told, and when.
struct Listener {
    wants: Mutex<Classes>,
    told: Mutex<Vec<(u64, String)>>,
    /// How many events it was told at a time.
    counts: Mutex<Vec<usize>>,
    clock: Arc<dyn weir_io::Clock>,
}

impl Witness for Listener {
    fn wants(&self) -> Classes {
        *self.wants.lock()
    }

    fn tell(&self, events: Vec<KeyEvent>) {
        let now_ms = self.clock.unix_ms();
        self.counts.lock().push(events.len());
        let named = events.into_iter().filter(|event| !event.name.is_empty());
        self.told.lock().extend(named.map(|event| (now_ms, format!("{} {}", event.name, event.key.escape_ascii()))));
    }
}

struct World {
    sim: Sim,
    disk: Arc<SimFs>,
    node: Node,
    partition: Arc<Partition>,
    listener: Arc<Listener>,
}

impl World {
    fn new(engine: EngineKind) -> Self {
        let sim = Sim::new(1);
        let fs = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
        let machine = Machine { fs: Arc::clone(&fs) as Arc<dyn Fs>, clock: sim.clock(), spawn: sim.spawner(), salt: 7 };
        let mut config = NodeConfig { cache_bytes: 0, segment_bytes: 1 << 20, ..NodeConfig::new("/weir") };
        config.engine = engine;
        (config.tree.write_buffer_bytes, config.tree.table_bytes) = (64 << 10, 32 << 10);
        sim.set_unix_ms(1_000_000);
        let (node, partition) = sim.block_on(async {
            let node = Node::open(&config, machine).await.expect("no faults");
            let partition = node.default_partition().await.expect("no faults");
            (node, partition)
        });
        let listener = Arc::new(Listener {
            wants: Mutex::default(),
            told: Mutex::default(),
            counts: Mutex::default(),
            clock: sim.clock(),
        });
        Self { sim, disk: fs, node, partition, listener }
    }

    /// From now on what `classes` say is told.
    fn listen(&self, classes: &str) {
        *self.listener.wants.lock() = Classes::parse(classes.as_bytes()).expect("letters").in_use();
        let witness: Arc<dyn Witness> = Arc::clone(&self.listener) as Arc<dyn Witness>;
        let witness: Weak<dyn Witness> = Arc::downgrade(&witness);
        let tenant = self.node.tenant(&TenantName::built_in()).expect("it is there");
        tenant.be_witnessed(witness);
    }

    fn ask(&self, line: &str) -> String {
        ask(&self.sim, &self.partition, line)
    }

    fn now_ms(&self) -> u64 {
        self.sim.clock().unix_ms()
    }

    fn pass(&self, ms: u64) {
        self.sim.run_until(self.sim.clock().now() + ms * 1_000_000);
    }

    /// What was told since the last time.
    fn told(&self) -> Vec<String> {
        std::mem::take(&mut *self.listener.told.lock()).into_iter().map(|(_, told)| told).collect()
    }

    fn to_tables(&self) {
        self.sim.block_on(async {
            self.partition.seal();
            self.partition.settle().await;
        });
    }

    fn queued(&self) -> usize {
        let mut state = self.partition.expiry.state.lock();
        let rows = state.queue.take_due(u64::MAX, usize::MAX);
        // Only for counting: nothing is done with the queue after this.
        rows.len()
    }
}

#[test]
fn what_expires_is_told_in_time() {
    for engine in EngineKind::ALL {
        let world = World::new(engine);
        world.listen("Ex");
        let begin_ms = world.now_ms();
        for (key, ms) in [("soon", 300), ("later", 2_700), ("written-over", 500), ("stays", 400), ("moves", 60_000)] {
            world.ask(&format!("SET {key} v PX {ms}"));
        }
        world.ask("HSET hash f v");
        world.ask("PEXPIRE hash 5000");
        world.ask("SET written-over v");
        world.ask("PERSIST stays");
        world.ask("PEXPIRE moves 1500");
        world.to_tables();
        world.pass(10_000);
        let told = std::mem::take(&mut *world.listener.told.lock());
        let names: Vec<&str> = told.iter().map(|(_, told)| &told[..]).collect();
        assert_eq!(names, ["expired soon", "expired moves", "expired later", "expired hash"], "on {engine}");
        for ((told_ms, _), after_ms) in told.iter().zip([300, 1_500, 2_700, 5_000]) {
            let late_ms = told_ms - begin_ms - after_ms;
            assert!(late_ms < 100, "{late_ms} ms late, of {after_ms} on {engine}");
        }
        assert_eq!(world.ask("EXISTS soon moves later hash stays written-over"), ":2\r\n");
    }
}

#[test]
fn what_was_there_before_anybody_listened_is_told() {
    for engine in EngineKind::ALL {
        let world = World::new(engine);
        for number in 0..3_000 {
            world.ask(&format!("SET key-{number} v"));
        }
        for number in (0..3_000).step_by(1_000) {
            world.ask(&format!("PEXPIRE key-{number} {}", 2_000 + number));
        }
        world.to_tables();
        world.pass(1_000);
        world.listen("Ex");
        world.pass(6_000);
        assert_eq!(world.told(), ["expired key-0", "expired key-1000", "expired key-2000"], "on {engine}");
    }
}

/// While nobody listens nothing is noted, and what was noted before is forgotten. Rows that are written meanwhile are
/// found when somebody listens again.
#[test]
fn nothing_is_noted_while_nobody_listens() {
    let world = World::new(EngineKind::Lsm);
    world.ask("SET a v PX 100");
    world.pass(1_000);
    assert_eq!(world.partition.expiry.first_ms.load(Ordering::SeqCst), NEVER);
    world.listen("Ex");
    world.ask("SET b v PX 5000");
    assert_ne!(world.partition.expiry.first_ms.load(Ordering::SeqCst), NEVER);
    world.listen("");
    world.ask("SET c v PX 3000");
    assert!(!world.partition.expiry.is_used.load(Ordering::SeqCst), "it was given up");
    world.listen("Ex");
    world.pass(2_000);
    world.ask("SET d v PX 4000");
    world.listen("");
    // A round of the control loop gives it up, too.
    world.pass(1_000);
    assert!(!world.partition.expiry.is_used.load(Ordering::SeqCst));
    world.listen("Ex");
    world.pass(10_000);
    assert_eq!(world.told(), ["expired b", "expired d"], "not c, which went while nobody listened");
    assert_eq!(world.queued(), 0);
}

/// Whoever comes first tells it, and nobody else does: a wall clock that jumps lets commands come first.
#[test]
fn what_has_expired_is_told_once() {
    for engine in EngineKind::ALL {
        let world = World::new(engine);
        world.listen("Exg$ln");
        for key in ["a", "b", "c", "d", "e"] {
            world.ask(&format!("SET {key} 1 PX 5000"));
        }
        world.ask("RPUSH l 1");
        world.ask("PEXPIRE l 5000");
        world.ask("SET keeps 1");
        world.told();
        world.sim.set_unix_ms(world.now_ms() + 5_000);
        for (line, told) in [
            ("GET a", &["expired a"][..]),
            ("GET a", &[]),
            ("SET b 2", &["expired b", "new b", "set b"]),
            ("DEL c keeps", &["expired c", "del keeps"]),
            ("LPUSH l 2", &["expired l", "new l", "lpush l"]),
            ("LPUSHX d 2", &["expired d"]),
            ("LPUSHX d 2", &[]),
        ] {
            world.ask(line);
            assert_eq!(world.told(), told, "{line} on {engine}");
        }
        world.pass(2_000);
        assert_eq!(world.told(), ["expired e"], "on {engine}");
    }
}

/// The events of a transaction may be millions, which are not copied while others wait for the order of the rows.
#[test]
fn s14_what_a_command_tells_is_handed_on_as_it_is_behind_what_has_expired() {
    let world = World::new(EngineKind::Lsm);
    world.listen("Ex$n");
    world.ask("SET a 1 PX 5000");
    world.sim.set_unix_ms(world.now_ms() + 5_000);
    world.listener.counts.lock().clear();
    world.ask("SET a 2");
    assert_eq!(*world.listener.counts.lock(), [1, 2]);
    assert_eq!(world.told(), ["new a", "set a", "expired a", "new a", "set a"]);
}

/// More rows than the queue has room for: it is filled again, and every row is told exactly once.
#[test]
fn what_has_no_room_in_the_queue_is_told_all_the_same() {
    let world = World::new(EngineKind::Memory);
    let long = "x".repeat(60_000);
    let count = 2 * QUEUE_BYTES_MAX / long.len();
    for number in 0..count {
        world.ask(&format!("SET {number}-{long} v PX {}", 10_000 + 100 * number));
    }
    world.listen("Ex");
    world.pass(1_000);
    assert!(world.partition.expiry.state.lock().is_surveyed);
    world.pass(9_000 + 100 * count as u64);
    let told = world.told();
    let numbers: Vec<usize> =
        told.iter().filter_map(|told| told.strip_prefix("expired ")?.split('-').next()?.parse().ok()).collect();
    assert_eq!(numbers, (0..count).collect::<Vec<_>>());
}

#[test]
fn what_cannot_be_read_when_it_is_due_is_told_later_and_all_else_in_time() {
    let world = World::new(EngineKind::Lsm);
    world.listen("Ex");
    for key in ["a", "b"] {
        world.ask(&format!("SET {key} v PX 3000"));
    }
    // Otherwise nothing in their table would live any more, and it would be dropped.
    world.ask(&format!("SET keeps {}", "x".repeat(10_000)));
    world.to_tables();
    world.pass(2_000);
    world.disk.fail_next(Some(OpKind::Read), Fault::Error);
    world.pass(1_500);
    assert_eq!(world.told(), ["expired b"]);
    world.pass(1_500);
    assert_eq!(world.told(), ["expired a"]);
}

/// Somebody else has taken it for deletion just before deletion was held back.
#[test]
fn what_may_not_be_deleted_any_more_when_it_is_due_is_told_later() {
    for engine in EngineKind::ALL {
        let world = World::new(engine);
        let tenant = world.node.tenant(&TenantName::built_in()).expect("it is there");
        world.listen("Ex");
        world.ask("SET a 1 PX 1000");
        let taken = world.partition.expiry.take_due(u64::MAX);
        assert_eq!(taken.len(), 1);
        tenant.expirations().hold_until(world.sim.clock().now() + 5_000_000_000);
        world.partition.bury(&[&taken[0][..]]);
        world.pass(4_000);
        assert_eq!(world.told(), [""; 0], "on {engine}");
        world.pass(3_000);
        assert_eq!(world.told(), ["expired a"], "on {engine}");
    }
}

/// The log fails between the look at the row and the record that deletes it.
#[test]
fn what_the_log_refuses_to_delete_is_looked_at_again() {
    for engine in EngineKind::ALL {
        let world = World::new(engine);
        let partition = &world.partition;
        world.listen("Ex");
        world.ask("SET a 1 PX 1000");
        let taken = partition.expiry.take_due(u64::MAX);
        assert_eq!((taken.len(), partition.has_to_tell()), (1, false), "on {engine}");
        partition.log.refuse(Error::new(ErrorKind::Device, "write", "the log", "planted"));
        let mut batch = Batch::new();
        batch.delete(&taken[0]);
        partition.bury_in_order(partition.order.lock(), &batch, 1, Default::default());
        assert!(partition.has_to_tell(), "on {engine}");
    }
}

/// A partition that has to tell somebody something stays awake, and only as long as that.
#[test]
fn whoever_has_something_to_tell_stays_awake() {
    let world = World::new(EngineKind::Lsm);
    world.ask("SET k v PX 5000");
    assert!(!world.partition.has_to_tell());
    world.listen("Ex");
    world.pass(100);
    assert!(world.partition.has_to_tell());
    world.pass(6_000);
    assert_eq!((world.told(), world.partition.has_to_tell()), (vec!["expired k".to_owned()], false));
}

/// As while clients pause.
#[test]
fn what_expires_while_that_is_held_is_deleted_told_and_counted_behind_it() {
    for engine in EngineKind::ALL {
        let world = World::new(engine);
        let tenant = world.node.tenant(&TenantName::built_in()).expect("it is there");
        let held_for = |ms: u64| tenant.expirations().hold_until(world.sim.clock().now() + ms * 1_000_000);
        world.listen("Ex");
        world.ask("SET a 1 PX 1000");
        world.ask("SET b 1 PX 1000");
        held_for(10_000);
        world.pass(5_000);
        assert_eq!((world.ask("GET a"), world.ask("EXISTS a b")), ("$-1\r\n".to_owned(), ":0\r\n".to_owned()));
        assert_eq!((world.told(), tenant.expirations().deleted()), (Vec::new(), 0), "on {engine}");
        world.pass(7_000);
        assert_eq!((world.told(), tenant.expirations().deleted()), (vec!["expired a".into(), "expired b".into()], 2));
        world.ask("SET c 1 PX 1000");
        held_for(10_000);
        world.pass(2_000);
        tenant.expirations().hold_until(0);
        world.ask("GET c");
        assert_eq!((world.told(), tenant.expirations().deleted()), (vec!["expired c".into()], 3), "on {engine}");
    }
}

/// As where a test wants to find by itself what has expired.
#[test]
fn what_is_to_wait_until_it_is_asked_for_is_told_then_and_all_else_when_it_need_not_wait() {
    for engine in EngineKind::ALL {
        let world = World::new(engine);
        let tenant = world.node.tenant(&TenantName::built_in()).expect("it is there");
        world.listen("Ex");
        world.ask("SET a 1 PX 1000");
        // It is awaited already.
        tenant.expirations().wait_to_be_asked(true);
        world.ask("SET b 1 PX 1000");
        world.pass(5_000);
        assert_eq!((world.told(), tenant.expirations().deleted()), (Vec::new(), 0), "on {engine}");
        assert_eq!((world.ask("GET b"), world.told()), ("$-1\r\n".to_owned(), vec!["expired b".to_owned()]));
        tenant.expirations().wait_to_be_asked(false);
        world.pass(2_000);
        assert_eq!((world.told(), tenant.expirations().deleted()), (vec!["expired a".into()], 2), "on {engine}");
    }
}

#[test]
fn what_has_expired_is_counted_once_whoever_finds_it() {
    for (engine, classes) in EngineKind::ALL.into_iter().flat_map(|engine| [(engine, ""), (engine, "Ex")]) {
        let world = World::new(engine);
        let tenant = world.node.tenant(&TenantName::built_in()).expect("it is there");
        world.listen(classes);
        world.ask("MSET a 1 b 1 c 1 d 1 keeps 1");
        world.ask("RPUSH l 1 2 3");
        for key in ["a", "b", "c", "d", "l"] {
            world.ask(&format!("PEXPIRE {key} 5000"));
        }
        world.sim.set_unix_ms(world.now_ms() + 5_000);
        // One that reads, one that writes over it, one that finds several, one that writes something else.
        for (line, count) in [("GET a", 1), ("GET a", 1), ("APPEND b 2", 2), ("MGET c keeps a", 3), ("COPY l keeps", 4)]
        {
            world.ask(line);
            assert_eq!(tenant.expirations().deleted(), count, "{line} on {engine}, told {classes}");
        }
        world.ask("RENAME keeps kept");
        world.ask("SDIFFSTORE kept d a");
        world.ask("GET d");
        assert_eq!(tenant.expirations().deleted(), 5, "on {engine}, told {classes}");
        tenant.expirations().forget_deleted();
        assert_eq!(tenant.expirations().deleted(), 0);
    }
}

/// As while an import follows a source that gives keys more time. Merges drop nothing, either.
#[test]
fn nothing_expires_while_expiry_is_paused_and_what_is_due_does_behind_it() {
    for engine in EngineKind::ALL {
        let world = World::new(engine);
        let tenant = world.node.tenant(&TenantName::built_in()).expect("it is there");
        world.listen("Ex");
        for line in ["SET a 1 PX 1000", "SET b 1 PX 1000", "HSET h f 1 g 1", "HPEXPIRE h 1000 FIELDS 1 f"] {
            world.ask(line);
        }
        tenant.expirations().pause_at(world.now_ms(), world.sim.clock().now() + 10_000_000_000);
        world.pass(2_000);
        world.to_tables();
        world.pass(3_000);
        assert_eq!((world.ask("MGET a b"), world.told()), ("*2\r\n$1\r\n1\r\n$1\r\n1\r\n".to_owned(), Vec::new()));
        assert_eq!(world.ask("HGET h f"), "$1\r\n1\r\n", "on {engine}");
        assert_eq!(world.ask(&format!("PEXPIREAT a {}", world.now_ms() + 60_000)), ":1\r\n", "on {engine}");
        // Nobody asks for a longer pause.
        world.pass(10_000);
        assert_eq!(world.told(), ["expired b"], "on {engine}");
        assert_eq!((world.ask("EXISTS a b"), world.ask("HLEN h")), (":1\r\n".to_owned(), ":1\r\n".to_owned()));
    }
}

#[test]
fn what_had_expired_before_expiry_was_paused_stays_away() {
    for engine in EngineKind::ALL {
        let world = World::new(engine);
        let tenant = world.node.tenant(&TenantName::built_in()).expect("it is there");
        world.ask("SET a 1 PX 1000");
        world.ask("SET b 1 PX 5000");
        world.pass(2_000);
        let until = world.sim.clock().now() + 10_000_000_000;
        tenant.expirations().pause_at(world.now_ms(), until);
        world.pass(5_000);
        assert_eq!((world.ask("EXISTS a"), world.ask("EXISTS b")), (":0\r\n".to_owned(), ":1\r\n".to_owned()));
        // The moment moves on.
        tenant.expirations().pause_at(world.now_ms(), until);
        assert_eq!(world.ask("EXISTS b"), ":0\r\n", "on {engine}");
    }
}
