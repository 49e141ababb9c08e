//! TLS from outside: clients send and get the same as without it, and whoever is no client of ours does not stay.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use weir_gateway::Settings;
use weir_gateway::tls::{ClientCertificates, Tls};

use crate::support::authority::{Authority, Pair, Secured};
use crate::support::tenants::Keys;
use crate::support::{Client, MemoryStore, OpenDoor, Served, TestClock, encode};

/// A gateway with a port for TLS, and the authority that signs for it.
struct World {
    authority: Authority,
    tls: Arc<Tls>,
    clock: Arc<TestClock>,
    served: Served,
    address: SocketAddr,
}

impl World {
    /// A gateway where nobody needs a secret.
    fn open() -> Self {
        Self::start(ClientCertificates::Off, true)
    }

    /// A gateway where everybody is a stranger at first.
    fn strict(clients: ClientCertificates) -> Self {
        Self::start(clients, false)
    }

    fn start(clients: ClientCertificates, is_open: bool) -> Self {
        let (authority, clock) = (Authority::new(), TestClock::new());
        let tls = Tls::new(authority.material(clients, clock.clone()));
        let secured = Some(Arc::clone(&tls));
        let served = match is_open {
            true => {
                let door = Arc::new(OpenDoor::new(MemoryStore::new(&clock)));
                Served::start_secured(Settings::default(), door, clock.clone(), secured)
            }
            false => Served::start_secured(Settings::default(), Keys::new(&clock, false), clock.clone(), secured),
        };
        let address = served.secured.expect("a port for TLS");
        Self { authority, tls, clock, served, address }
    }

    fn connect(&self) -> Secured {
        self.authority.connect(self.address, true, None)
    }

    fn show(&self, shown: &Pair) -> Secured {
        self.authority.connect(self.address, true, Some(shown))
    }

    /// A connection without TLS to the port with TLS.
    fn bare(&self) -> Client {
        Client::new(TcpStream::connect(self.address).expect("it listens"))
    }
}

/// Time goes on, even if a test has failed, because the server waits for its connections when it ends.
impl Drop for World {
    fn drop(&mut self) {
        self.clock.thaw();
    }
}

/// Whether the server has refused a client that had finished the handshake as far as it knew.
fn is_refused(mut client: Secured) -> bool {
    let _ = client.stream.write_all(b"PING\r\n");
    let mut byte = [0];
    !matches!(client.stream.read(&mut byte), Ok(1))
}

#[test]
fn commands_pipelines_and_long_values_are_answered_in_both_versions() {
    let world = World::open();
    for is_13 in [true, false] {
        let mut client = world.authority.connect(world.address, is_13, None);
        assert_eq!(client.say("PING"), "+PONG\r\n");
        client.send(&encode(&["INCR", "n"]).repeat(5000));
        let first: i64 = if is_13 { 1 } else { 5001 };
        for number in first..first + 5000 {
            assert_eq!(client.reply(), format!(":{number}\r\n").as_bytes());
        }
        // Long values are served by other threads: the session moves with the connection.
        let long: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
        assert_eq!(client.ask(&[b"SET".as_slice(), b"long", &long]), b"+OK\r\n");
        let told = [format!("${}\r\n", long.len()).as_bytes(), &long, b"\r\n"].concat();
        for _ in 0..3 {
            assert!(client.say("GET long").as_bytes() == String::from_utf8_lossy(&told).as_bytes());
        }
        assert_eq!(client.say("QUIT"), "+OK\r\n");
        let mut rest = Vec::new();
        assert_eq!(client.stream.read_to_end(&mut rest).expect("it says that it ends"), 0);
    }
    let mut plain = world.served.connect();
    assert_eq!(plain.say("GET n"), "$5\r\n10000\r\n");
}

#[test]
fn messages_and_answers_that_wait_come_over_tls() {
    let world = World::open();
    let (mut listener, mut waiting) = (world.connect(), world.connect());
    assert!(listener.say("SUBSCRIBE news").contains("subscribe"));
    waiting.send(&encode(&["BLPOP", "queue", "0"]));
    let mut sender = world.served.connect();
    let payload = "x".repeat(200_000);
    for _ in 0..20 {
        assert_eq!(sender.say(&format!("PUBLISH news {payload}")), ":1\r\n");
    }
    for _ in 0..20 {
        let told = String::from_utf8_lossy(&listener.reply()).into_owned();
        assert!(told.starts_with("*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$200000\r\n") && told.contains(&payload));
    }
    assert_eq!(sender.say("RPUSH queue job"), ":1\r\n");
    assert_eq!(waiting.reply(), b"*2\r\n$5\r\nqueue\r\n$3\r\njob\r\n");
}

#[test]
fn replies_that_are_taken_late_come_whole() {
    let world = World::open();
    let mut client = world.connect();
    let value = vec![b'v'; 100_000];
    assert_eq!(client.ask(&[b"SET".as_slice(), b"k", &value]), b"+OK\r\n");
    // More than the kernel holds for a client that does not read.
    client.send(&encode(&["GET", "k"]).repeat(200));
    let mut other = world.connect();
    for _ in 0..100 {
        assert_eq!(other.say("PING"), "+PONG\r\n");
    }
    let told = [b"$100000\r\n".as_slice(), &value, b"\r\n"].concat();
    for _ in 0..200 {
        assert!(client.reply() == told);
    }
}

#[test]
fn s8_who_speaks_the_other_language_is_cut_at_once() {
    let world = World::open();
    // No time passes, so nobody is cut for being slow.
    world.clock.freeze();
    for first in ["PING\r\n", "*1\r\n$4\r\nPING\r\n", "GET / HTTP/1.1\r\n\r\n"] {
        let mut client = world.bare();
        client.send(first.as_bytes());
        let told = String::from_utf8_lossy(&client.rest()).into_owned();
        assert!(told.starts_with("-ERR this port speaks TLS"), "{told}");
    }
    let mut lost = world.authority.connect(world.served.address, true, None);
    assert!(lost.stream.write_all(b"PING\r\n").is_err(), "there is no TLS");
    let mut bare = world.served.connect();
    bare.send(&[0x16, 3, 1, 0, 200, 1, 0, 0]);
    assert_eq!(bare.rest(), b"-ERR Protocol error: this port does not speak TLS\r\n");
}

#[test]
fn s8_a_handshake_has_five_seconds() {
    let world = World::open();
    world.clock.freeze();
    let (mut silent, mut half) = (world.bare(), world.bare());
    half.send(&[0x16, 3, 1, 0, 200, 1]);
    let mut client = world.connect();
    assert_eq!(client.say("PING"), "+PONG\r\n");
    world.clock.advance(4);
    for waiting in [&mut silent, &mut half] {
        waiting.stream.set_nonblocking(true).expect("a socket");
        let error = waiting.stream.read(&mut [0]).expect_err("nobody is cut yet");
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        waiting.stream.set_nonblocking(false).expect("a socket");
    }
    world.clock.advance(1);
    for late in [&mut silent, &mut half] {
        // An end, or a reset if the server had not read what was sent.
        let end = late.stream.read(&mut [0]).map_err(|error| error.kind());
        assert!(matches!(end, Ok(0) | Err(ErrorKind::ConnectionReset)), "{end:?}");
    }
    assert_eq!(client.say("PING"), "+PONG\r\n");
}

#[test]
fn s8_handshakes_that_nobody_goes_on_with_keep_nobody_out() {
    let world = World::open();
    world.clock.freeze();
    let mut silent: Vec<Client> = (0..256).map(|_| world.bare()).collect();
    for number in 0..2 {
        // One more handshake than may be under way. It is over when this client is answered, and a silent one takes its
        // place.
        assert_eq!(world.connect().say("PING"), "+PONG\r\n");
        assert_eq!(silent[number].stream.read(&mut [0]).expect("the oldest has made room"), 0);
        silent.push(world.bare());
    }
    silent[2].stream.set_nonblocking(true).expect("a socket");
    let error = silent[2].stream.read(&mut [0]).expect_err("the others have not");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
}

/// Stores each tenant's name under its keys, because all of them answer `default` to `ACL WHOAMI`.
fn name_keys(world: &World, shown: Option<&Pair>) {
    for name in ["ada", "bob"] {
        let mut client = world.authority.connect(world.address, true, shown);
        assert_eq!(client.say(&format!("AUTH {name} {name}-secret")), "+OK\r\n");
        assert_eq!(client.say(&format!("SET whose {name}")), "+OK\r\n");
    }
}

#[test]
fn a_certificate_that_names_a_tenant_is_its_login() {
    let world = World::strict(ClientCertificates::Optional);
    name_keys(&world, None);
    let [common, dns, nobody] =
        [(vec![], Some("ada")), (vec!["bob"], Some("ada")), (vec!["carol.example"], Some("ada"))]
            .map(|(dns, common)| world.authority.sign(&dns, common, 2100));
    for is_13 in [true, false] {
        let mut ada = world.authority.connect(world.address, is_13, Some(&common));
        assert_eq!(ada.say("GET whose"), "$3\r\nada\r\n");
        // The connection may log in as somebody else, and is itself again after a reset.
        assert_eq!(ada.say("AUTH bob bob-secret"), "+OK\r\n");
        assert_eq!(ada.say("GET whose"), "$3\r\nbob\r\n");
        assert_eq!(ada.say("RESET"), "+RESET\r\n");
        assert_eq!(ada.say("GET whose"), "$3\r\nada\r\n");
    }
    assert_eq!(world.show(&dns).say("GET whose"), "$3\r\nbob\r\n", "alternative names come first");
    for mut stranger in [world.show(&nobody), world.connect()] {
        assert!(stranger.say("GET k").starts_with("-NOAUTH"));
        assert_eq!(stranger.say("AUTH ada ada-secret"), "+OK\r\n");
    }
}

#[test]
fn s8_certificates_that_are_not_trusted_let_nobody_in() {
    let world = World::strict(ClientCertificates::Required);
    let (fine, expired) = (world.authority.sign(&[], Some("ada"), 2100), world.authority.sign(&[], Some("ada"), 2021));
    let stranger = Authority::new().sign(&[], Some("ada"), 2100);
    name_keys(&world, Some(&fine));
    assert_eq!(world.show(&fine).say("GET whose"), "$3\r\nada\r\n");
    for client in [world.connect(), world.show(&expired), world.show(&stranger)] {
        assert!(is_refused(client));
    }
    // Certificates are judged by the clock that judges everything else.
    let soon = world.authority.sign(&[], Some("ada"), 2090);
    assert_eq!(world.show(&soon).say("GET whose"), "$3\r\nada\r\n");
    world.clock.advance(66 * 366 * 86_400);
    assert!(is_refused(world.show(&soon)));
    assert_eq!(world.show(&fine).say("GET whose"), "$3\r\nada\r\n");
}

#[test]
fn s8_certificates_are_replaced_and_nobody_is_dropped() {
    let world = World::open();
    let mut before = world.connect();
    assert_eq!(before.say("PING"), "+PONG\r\n");
    let other = Authority::new();
    world.tls.replace(other.material(ClientCertificates::Off, world.clock.clone()));
    assert_eq!(before.say("PING"), "+PONG\r\n");
    assert_eq!(other.connect(world.address, true, None).say("PING"), "+PONG\r\n");
    let mut distrustful = world.connect();
    assert!(distrustful.stream.write_all(b"PING\r\n").is_err(), "it is another certificate");
    assert_eq!(before.say("PING"), "+PONG\r\n");
}

#[test]
fn who_goes_in_the_middle_leaves_nothing_behind() {
    let world = World::open();
    let mut watcher = world.served.connect();
    for number in 0..50 {
        let mut gone = world.bare();
        gone.send(&[0x16, 3, 1, 0, 200, 1][..number % 7]);
    }
    let clients = |watcher: &mut Client| {
        let info = watcher.say("INFO clients");
        let line = info.lines().find_map(|line| line.strip_prefix("connected_clients:").map(str::to_owned));
        line.expect("a figure").parse::<u64>().expect("a number")
    };
    let mut secured = world.connect();
    assert_eq!(secured.say("PING"), "+PONG\r\n");
    while clients(&mut watcher) > 2 {
        std::thread::yield_now();
    }
    drop(secured);
    while clients(&mut watcher) > 1 {
        std::thread::yield_now();
    }
}
