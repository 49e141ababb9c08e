//! TLS as operators see it: files, faults in them, their renewal, and metrics.
#![allow(clippy::disallowed_methods, missing_docs, reason = "tests start processes and write files")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use crate::support::{Dir, Server, command, expect};
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustix::process::{Pid, Signal, kill_process};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// An authority and its files.
struct Authority<'a> {
    issuer: Issuer<'static, KeyPair>,
    dir: &'a Path,
}

impl<'a> Authority<'a> {
    /// Makes an authority; its own certificate is at `ca.pem`.
    fn new(dir: &'a Dir) -> Self {
        let mut params = CertificateParams::new([]).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        std::fs::write(dir.0.join("ca.pem"), params.self_signed(&key).expect("signed").pem()).expect("written");
        Self { issuer: Issuer::new(params, key), dir: &dir.0 }
    }

    /// Writes `NAME.pem` and `NAME.key`, of the common name `common`.
    fn sign(&self, name: &str, common: &str, until: i32) {
        let mut params = CertificateParams::new([]).expect("no names");
        params.subject_alt_names = match common {
            "localhost" => vec![rcgen::SanType::IpAddress([127, 0, 0, 1].into())],
            _ => Vec::new(),
        };
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, common);
        (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(until, 12, 31));
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        std::fs::write(self.path(name, "pem"), certificate.pem()).expect("written");
        std::fs::write(self.path(name, "key"), key.serialize_pem()).expect("written");
    }

    fn path(&self, name: &str, kind: &str) -> PathBuf {
        self.dir.join(format!("{name}.{kind}"))
    }

    /// The settings for the configuration.
    fn settings(&self, clients: &str) -> String {
        let path = |name, kind| self.path(name, kind).display().to_string();
        format!(
            "tls_listen = \"127.0.0.1:0\"\ntls_certificate = \"{}\"\ntls_key = \"{}\"\ntls_client_certificates = \"{clients}\"\n\
             tls_client_ca = \"{}\"\n",
            path("server", "pem"),
            path("server", "key"),
            path("ca", "pem"),
        )
    }

    /// What `redis-cli` answers with `arguments`; `None` if it is not installed.
    fn redis_cli(&self, address: SocketAddr, shows: Option<&str>, arguments: &[&str]) -> Option<String> {
        let mut program = Command::new("redis-cli");
        program.args(["-h", &address.ip().to_string(), "-p", &address.port().to_string(), "--tls", "--cacert"]);
        program.arg(self.path("ca", "pem"));
        if let Some(name) = shows {
            program.arg("--cert").arg(self.path(name, "pem")).arg("--key").arg(self.path(name, "key"));
        }
        let output = program.args(arguments).stdin(Stdio::null()).output().ok()?;
        Some(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    }
}

/// The address where the server speaks TLS.
fn secured(server: &Server) -> SocketAddr {
    let log = server.log();
    let rest = log.split("tls_listen=").nth(1).expect("it says where");
    rest.split(' ').next().expect("a word").parse().expect("an address")
}

fn hang_up(server: &Server) {
    let pid = Pid::from_raw(i32::try_from(server.pid()).expect("a number of a process")).expect("not 0");
    kill_process(pid, Signal::HUP).expect("it runs");
}

#[test]
fn redis_cli_speaks_tls_and_a_certificate_is_a_login() {
    let dir = Dir::new();
    let authority = Authority::new(&dir);
    authority.sign("server", "localhost", 2100);
    authority.sign("shop", "shop", 2100);
    authority.sign("nobody", "nobody", 2100);
    let server = Server::start(&dir, &authority.settings("optional"));
    let address = secured(&server);
    server.weir(&["tenant", "create", "shop", "--secret", "secret-of-shop"]);
    let Some(told) = authority.redis_cli(address, None, &["SET", "greeting", "hello"]) else {
        eprintln!("SKIPPED: there is no redis-cli");
        return;
    };
    assert_eq!(told, "OK\n");
    let say = |shows, words: &[&str]| authority.redis_cli(address, shows, words).expect("it was there");
    for (shows, name) in [(None, "default"), (Some("shop"), "shop")] {
        assert_eq!(say(shows, &["SET", "whose", name]), "OK\n");
    }
    // From this machine the tenant `default` needs no secret, as without TLS.
    for (shows, name) in [(None, "default\n"), (Some("shop"), "shop\n"), (Some("nobody"), "default\n")] {
        assert_eq!(say(shows, &["GET", "whose"]), name);
    }
    expect(&mut server.connect(), b"GET greeting\r\n", b"$5\r\nhello\r\n");
    // A client at the wrong port is told so, and so is the operator.
    expect(&mut TcpStream::connect(address).expect("it listens"), b"PING\r\n", b"-ERR this port speaks TLS");
    let plain = authority.redis_cli(server.clients, None, &["PING"]).expect("it was there");
    assert!(plain.contains("SSL"), "{plain}");
    server.log_with("the client does not speak TLS", 1);
    server.log_with("the client speaks TLS to the port without", 1);
    let metrics = server.http("/metrics");
    for line in [
        "weir_tls_handshakes_total 6\n",
        "weir_tls_handshakes_failed_total{cause=\"plaintext\"} 1\n",
        "weir_tls_handshakes_failed_total{cause=\"bad_certificate\"} 0\n",
        "weir_tls_handshakes_pending 0\n",
        "weir_tls_certificate_left_days ",
    ] {
        assert!(metrics.contains(&format!("\n{line}")), "{line} in\n{metrics}");
    }
}

#[test]
fn s8_a_hang_up_renews_certificates_and_a_broken_one_changes_nothing() {
    let dir = Dir::new();
    let authority = Authority::new(&dir);
    authority.sign("server", "localhost", 2100);
    let server = Server::start(&dir, &authority.settings("off"));
    let address = secured(&server);
    let days = || {
        let metrics = server.http("/metrics");
        let line =
            metrics.lines().find_map(|line| line.strip_prefix("weir_tls_certificate_left_days ").map(str::to_owned));
        line.expect("it is told").parse::<u64>().expect("a number")
    };
    let before = days();
    authority.sign("server", "localhost", 2090);
    hang_up(&server);
    server.log_with("the certificate that was read again", 1);
    let renewed = days();
    assert!((3600..3700).contains(&(before - renewed)), "{before} {renewed}");
    // The key of another certificate.
    authority.sign("other", "localhost", 2100);
    std::fs::copy(authority.path("other", "pem"), authority.path("server", "pem")).expect("copied");
    hang_up(&server);
    // The report has two lines: when the second one is there, so is the first.
    let log = server.log_with("get the certificate that was read before", 1);
    assert!(log.contains("server.key") && log.contains("not the key of the certificate"), "{log}");
    assert_eq!(days(), renewed);
    if let Some(told) = authority.redis_cli(address, None, &["PING"]) {
        assert_eq!(told, "PONG\n");
    }
    // An expired certificate is used, as the operator has no other one, and the log warns about it.
    authority.sign("server", "localhost", 2021);
    hang_up(&server);
    server.log_with("it has EXPIRED", 1);
    assert_eq!(days(), 0);
    assert!(server.terminate().success());
}

/// What `weir serve` says that does not start with `config`.
fn refused(dir: &Dir, config: &str) -> String {
    let file = dir.0.join("refused.toml");
    std::fs::write(&file, config).expect("written");
    let data = dir.0.join("refused");
    let text = |path: &Path| path.to_str().expect("text").to_owned();
    let listen = if config.contains("listen = \"0.0.0.0:0\"") { "off" } else { "127.0.0.1:0" };
    let output = command(&["--listen", listen, "--admin", "127.0.0.1:0"])
        .args(["--dir", &text(&data), "--config", &text(&file)])
        .stdin(Stdio::null())
        .output()
        .expect("the binary starts");
    assert!(!output.status.success(), "it started with {config}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn files_that_cannot_be_used_are_named_with_what_to_do() {
    let dir = Dir::new();
    let authority = Authority::new(&dir);
    authority.sign("server", "localhost", 2100);
    authority.sign("other", "localhost", 2100);
    let settings = authority.settings("required");
    let write = |name: &str, text: &str| std::fs::write(dir.0.join(name), text).expect("written");
    write("empty.pem", "");
    let locked = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMAA=\n-----END ENCRYPTED PRIVATE KEY-----\n";
    write("locked.key", locked);
    write("torn.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n");
    write("nonsense.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n");
    for (from, to, words) in [
        ("server.pem", "missing.pem", ["tls_certificate", "missing.pem", "name a file that is there"]),
        ("server.pem", "empty.pem", ["tls_certificate", "empty.pem", "BEGIN CERTIFICATE"]),
        ("server.pem", "torn.pem", ["tls_certificate", "torn.pem", "PEM"]),
        ("server.pem", "nonsense.pem", ["tls_certificate", "nonsense.pem", "cannot be used"]),
        ("server.key", "other.key", ["tls_key", "other.key", "not the key of the certificate"]),
        ("server.key", "server.pem", ["tls_key", "server.pem", "BEGIN PRIVATE KEY"]),
        ("server.key", "locked.key", ["tls_key", "locked.key", "openssl pkey"]),
        ("ca.pem", "missing.pem", ["tls_client_ca", "missing.pem", "name a file that is there"]),
        ("ca.pem", "empty.pem", ["tls_client_ca", "empty.pem", "BEGIN CERTIFICATE"]),
        ("ca.pem", "nonsense.pem", ["tls_client_ca", "nonsense.pem", "cannot be used as an authority"]),
    ] {
        let said = refused(&dir, &settings.replace(from, to));
        assert!(words.iter().all(|word| said.contains(word)), "{words:?} in {said}");
    }
}

#[test]
fn s1_other_machines_need_a_secret_a_certificate_or_the_operators_word() {
    let dir = Dir::new();
    let authority = Authority::new(&dir);
    authority.sign("server", "localhost", 2100);
    for clients in ["off", "optional"] {
        let open = authority.settings(clients).replace("tls_listen = \"127.0.0.1:0\"", "tls_listen = \"0.0.0.0:0\"");
        let said = refused(&dir, &open);
        assert!(said.contains("tls_listen") && said.contains("--insecure"), "{said}");
    }
    // No client is let in without a certificate, and none without TLS.
    let settings = authority.settings("required").replace("127.0.0.1:0", "0.0.0.0:0");
    let server = Server::start_at(&dir, &settings, "info", "127.0.0.1:0");
    let address = SocketAddr::from(([127, 0, 0, 1], secured(&server).port()));
    if let Some(told) = authority.redis_cli(address, None, &["PING"]) {
        assert!(!told.contains("PONG"), "{told}");
        server.log_with("the client showed no certificate", 1);
    }
}

/// Opens connections over TLS, each after the one before was answered, and holds them open.
fn hold(authority: &Authority<'_>, address: SocketAddr, count: u64) -> Vec<StreamOwned<ClientConnection, TcpStream>> {
    let pem = std::fs::read(authority.path("ca", "pem")).expect("written");
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&pem).expect("PEM")).expect("an authority");
    let config = Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth());
    let connect = |_| {
        let name = ServerName::from(address.ip());
        let session = ClientConnection::new(Arc::clone(&config), name).expect("a client");
        let mut stream = StreamOwned::new(session, TcpStream::connect(address).expect("it listens"));
        stream.write_all(b"PING\r\n").expect("it reads");
        let mut told = [0; 7];
        stream.read_exact(&mut told).expect("an answer");
        assert_eq!(&told, b"+PONG\r\n");
        stream
    };
    (0..count).map(connect).collect()
}

#[test]
fn s13_an_idle_connection_with_tls_costs_less_than_24_kib() {
    const CONNECTIONS: u64 = 1000;
    let dir = Dir::new();
    let authority = Authority::new(&dir);
    authority.sign("server", "localhost", 2100);
    let server = Server::start(&dir, &authority.settings("off"));
    let address = secured(&server);
    // Let the server make everything that it makes only once.
    drop(hold(&authority, address, 50));
    let before = server.memory_bytes("RssAnon:");
    let held = hold(&authority, address, CONNECTIONS);
    let each = server.memory_bytes("RssAnon:").saturating_sub(before) / CONNECTIONS;
    eprintln!("{} idle connections with TLS: {each} bytes each", held.len());
    assert!(each < 24 << 10, "{each}");
}
