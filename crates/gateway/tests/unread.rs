//! Replies that a client does not read hold none of the memory in which all tenants' writes gather.

use crate::support::encode;
use crate::support::world::{World, name};
use weir_io::Error;
use weir_io::real::block_on;
use weir_node::{OnLimit, TenantSettings, UnitLimits};

/// A dozen or two memtables.
const WRITE_MEMORY: u64 = 1 << 20;
/// Clients of each tenant: so many that their memtables would need more than that.
const CLIENTS: usize = 24;
/// Half a memtable. Such a value is replied from where it lies.
const VALUE_BYTES: usize = 32 << 10;
/// More bytes of such replies than the kernel holds for a client that does not read.
const REPLIES: usize = 1024;
/// After this many round trips, a server has tried to answer what was sent to it.
const ROUNDS: usize = 100;

/// Another tenant writes so much that it fills the memory several times.
fn others_write(world: &World) {
    let mut bob = world.tenant("bob", 1, 0);
    for number in 0..4 * WRITE_MEMORY as usize / VALUE_BYTES {
        let key = format!("key-{number}");
        assert_eq!(bob.ask(&[b"SET", key.as_bytes(), &[1; VALUE_BYTES]]), b"+OK\r\n");
    }
}

#[test]
fn s11_clients_that_never_read_do_not_make_writes_wait() {
    let world = World::with_write_memory(WRITE_MEMORY);
    let mut silent = Vec::new();
    // There are two of them, because one alone could take at most three quarters, and a tenant within its share gets
    // the rest.
    for tenant in ["ada", "eve"] {
        let mut writer = world.tenant(tenant, 1, 0);
        for number in 0..CLIENTS {
            let (key, value) = (format!("key-{number}"), vec![number as u8; VALUE_BYTES]);
            assert_eq!(writer.ask(&[b"SET", key.as_bytes(), &value]), b"+OK\r\n");
            let mut client = world.connect(tenant);
            client.send(&encode(&["GET", &key]).repeat(REPLIES));
            // The value is in a memtable as long as nobody writes.
            (0..ROUNDS).for_each(|_| assert_eq!(writer.say("PING"), "+PONG\r\n"));
            silent.push(client);
        }
    }
    others_write(&world);
    // The clients were answered, and are still connected.
    for mut client in silent {
        assert!(client.reply().starts_with(b"$32768\r\n"));
    }
}

#[test]
fn who_has_sent_more_than_is_served_gets_all_replies_in_front_of_the_end() {
    let world = World::with_write_memory(64 << 20);
    let mut client = world.tenant("ada", 1, 0);
    let value = vec![b'v'; 100_000];
    assert_eq!(client.ask(&[b"SET".as_slice(), b"k", &value]), b"+OK\r\n");
    let told = [b"$100000\r\n".as_slice(), &value, b"\r\n"].concat();
    // After the end there is as much as the kernel holds without a reader.
    for end in ["QUIT\r\n", "*1\r\n!\r\n"] {
        let mut client = world.connect("ada");
        client.send(&encode(&["GET", "k"]).repeat(5));
        client.send(end.as_bytes());
        client.send(&b"PING\r\n".repeat(20_000));
        for _ in 0..5 {
            assert!(client.reply() == told);
        }
        let mut rest = Vec::new();
        std::io::Read::read_to_end(&mut client.stream, &mut rest).expect("an orderly end, and no reset");
    }
}

#[test]
fn s11_clients_that_wait_for_units_in_silence_do_not_make_writes_wait() {
    let world = World::with_write_memory(WRITE_MEMORY);
    let limit = |tenant, limits: UnitLimits| {
        let change = move |settings: &mut TenantSettings| {
            settings.limits = limits;
            Ok::<_, Error>(())
        };
        block_on(world.node.alter_tenant(&name(tenant), change)).expect("altered");
    };
    let mut silent = Vec::new();
    for tenant in ["ada", "eve"] {
        let mut writer = world.tenant(tenant, 1, 0);
        // All of the reads below together take most of a minute.
        let on_limit = OnLimit::Delay { max_ms: 1_000_000 };
        limit(tenant, UnitLimits { rcu: 500, on_limit, ..UnitLimits::default() });
        for number in 0..CLIENTS {
            let (key, value, mark) =
                (format!("key-{number}"), vec![number as u8; VALUE_BYTES], format!("mark-{number}"));
            assert_eq!(writer.ask(&[b"SET", key.as_bytes(), &value]), b"+OK\r\n");
            let mut client = world.connect(tenant);
            let silence = [encode(&["SET", &mark, ""]), encode(&["CLIENT", "REPLY", "OFF"])].concat();
            // The first reply waits for the end of all others, which wait only for units.
            let reads = encode(&["GET", "none"]).repeat(REPLIES);
            client.send(&[encode(&["GET", &key]), silence, reads].concat());
            while writer.ask(&["EXISTS", &mark]) == b":0\r\n" {}
            silent.push(client);
        }
    }
    others_write(&world);
    ["ada", "eve"].into_iter().for_each(|tenant| limit(tenant, UnitLimits::default()));
    for mut client in silent {
        assert!(client.reply().starts_with(b"$32768\r\n"));
    }
}
