//! `/metrics` of a real server: the conventions of Prometheus, and the figures about tenants.
#![allow(clippy::disallowed_methods, missing_docs, reason = "tests start processes and talk over sockets")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::support::{Dir, Server, expect};

/// The kinds of the metrics on a page, and its samples.
#[derive(Default)]
struct Page {
    kinds: BTreeMap<String, String>,
    helped: BTreeSet<String>,
    samples: BTreeMap<String, f64>,
}

impl Page {
    /// Reads the text format; anything that is there twice is a mistake.
    fn read(text: &str) -> Self {
        let (_, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        let mut page = Self::default();
        for line in body.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, words) = rest.split_once(' ').expect("words");
                assert!(!words.trim().is_empty() && page.helped.insert(name.to_owned()), "{line}");
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect("a kind");
                assert!(page.kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "{line}");
            } else {
                assert!(!line.starts_with('#'), "{line}");
                let (sample, value) = line.rsplit_once(' ').expect("a value");
                let value = value.parse().expect("a number");
                assert!(page.samples.insert(sample.to_owned(), value).is_none(), "twice: {line}");
            }
        }
        page
    }

    fn value(&self, sample: &str) -> f64 {
        *self.samples.get(sample).unwrap_or_else(|| panic!("{sample} in {:#?}", self.samples.keys()))
    }
}

/// What is wrong with a metric of this name and kind, by the conventions (`promtool check metrics` has more).
fn wrong(name: &str, kind: &str) -> Option<&'static str> {
    let parts: Vec<&str> = name.split('_').collect();
    let has = |words: &[&str]| parts.iter().any(|part| words.contains(part));
    match kind {
        "counter" if !name.ends_with("_total") => Some("a counter ends in _total"),
        "gauge" | "histogram" if name.ends_with("_total") => Some("only a counter ends in _total"),
        "gauge" | "counter" if has(&["bucket", "count", "sum"]) => Some("that is a part of a histogram"),
        "histogram" if !name.ends_with("_seconds") && !name.ends_with("_bytes") => Some("a histogram ends in its unit"),
        "gauge" | "counter" | "histogram" => None,
        _ => Some("no such kind"),
    }
    .or_else(|| {
        has(&["ms", "milliseconds", "micros", "nanos", "nanoseconds", "kb", "mb", "kilobytes", "megabytes", "percent"])
            .then_some("units are seconds, bytes and ratios")
    })
    .or_else(|| has(&["counter", "gauge", "histogram", "summary"]).then_some("a name does not say its kind"))
    // The unit comes last, before _total.
    .or_else(|| {
        let units = ["seconds", "bytes", "ratio"];
        let stem = name.strip_suffix("_total").unwrap_or(name);
        let misplaced = units.iter().any(|unit| stem.split('_').rev().skip(1).any(|part| part == *unit));
        misplaced.then_some("a unit comes last")
    })
    .or_else(|| (!name.starts_with("weir_") || name.contains("__")).then_some("names begin with weir_"))
}

/// A server with traffic, so that as many metrics as possible are there.
fn busy_server(dir: &Dir) -> (Server, TcpStream) {
    let server = Server::start(dir, "device_bandwidth = \"100 MB\"\n");
    let shop = [
        "tenant",
        "create",
        "shop",
        "--rcu",
        "10000",
        "--wcu",
        "10000",
        "--on-limit",
        "refuse",
        "--secret",
        "right-canary",
    ];
    server.weir(&shop);
    server.weir(&["tenant", "alter", "shop", "--connections-max", "1", "--disk-bytes-max", "1GiB"]);
    let mut client = server.connect();
    expect(&mut client, b"AUTH shop right-canary\r\n", b"+OK\r\n");
    for _ in 0..20 {
        expect(&mut client, b"SET key value\r\nGET key\r\n", b"+OK\r\n$5\r\nvalue\r\n");
    }
    // One connection more than it may have, two wrong secrets, and a name that nobody has.
    expect(&mut server.connect(), b"AUTH shop right-canary\r\n", b"-ERR max number of clients reached\r\n");
    let mut stranger = server.connect();
    for _ in 0..2 {
        expect(&mut stranger, b"AUTH shop wrong-canary\r\n", b"-WRONGPASS ");
        stranger = server.connect();
    }
    expect(&mut stranger, b"AUTH weir_canary x\r\n", b"-WRONGPASS ");
    (server, client)
}

#[test]
fn metrics_keep_the_conventions_of_prometheus() {
    let dir = Dir::new();
    let (server, _client) = busy_server(&dir);
    let text = server.http("/metrics");
    assert!(text.contains("text/plain; version=0.0.4"), "{text}");
    let page = Page::read(&text);
    assert!(page.kinds.len() > 50, "{}", page.kinds.len());
    for (name, kind) in &page.kinds {
        assert!(page.helped.contains(name), "{name} has no HELP");
        assert_eq!(wrong(name, kind), None, "{name} ({kind})");
    }
    for sample in page.samples.keys() {
        let name = sample.split('{').next().expect("a name");
        let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part));
        let of_histogram = of_histogram.filter(|name| page.kinds.get(*name).is_some_and(|kind| kind == "histogram"));
        assert!(page.kinds.contains_key(of_histogram.unwrap_or(name)), "{sample} has no TYPE");
    }
    // The rules themselves find what is wrong.
    for (name, kind) in [
        ("weir_reads", "counter"),
        ("weir_open_total", "gauge"),
        ("weir_wait_ms", "gauge"),
        ("weir_bytes_read_total", "counter"),
        ("weir_reply", "histogram"),
        ("reads_total", "counter"),
        ("weir_count", "gauge"),
    ] {
        assert!(wrong(name, kind).is_some(), "{name}");
    }
    let promtool =
        Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    // If promtool is installed, it has the last word.
    if let Ok(mut promtool) = promtool {
        let (_, body) = text.split_once("\r\n\r\n").expect("a body");
        promtool.stdin.take().expect("piped").write_all(body.as_bytes()).expect("it reads");
        let said = promtool.wait_with_output().expect("it ends");
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stdout));
    }
}

#[test]
fn a_tenant_at_its_limits_is_seen() {
    let dir = Dir::new();
    let (server, mut client) = busy_server(&dir);
    let page = Page::read(&server.http("/metrics"));
    let shop = |name: &str| page.value(&format!("{name}{{tenant=\"shop\"}}"));
    assert_eq!((shop("weir_tenant_connections"), shop("weir_tenant_connections_max")), (1.0, 1.0));
    assert_eq!(shop("weir_tenant_connections_refused_total"), 1.0);
    // Twenty times two, and perhaps the login.
    let commands = shop("weir_tenant_commands_total");
    assert!((40.0..=41.0).contains(&commands), "{commands}");
    assert_eq!(shop("weir_tenant_disk_max_bytes"), f64::from(1 << 30));
    assert!(shop("weir_tenant_disk_bytes") > 0.0);
    let refused = |reason: &str| page.value(&format!("weir_logins_refused_total{{reason=\"{reason}\"}}"));
    assert_eq!((refused("wrong_secret"), refused("too_many_connections"), refused("suspended")), (3.0, 1.0, 0.0));
    // Each pipeline of two is one reply to a client, or two: at least twenty came, and none after an hour.
    let replies = shop("weir_tenant_reply_seconds_count");
    let all = page.value("weir_tenant_reply_seconds_bucket{le=\"+Inf\",tenant=\"shop\"}");
    assert!(replies >= 20.0 && replies == all, "{replies} {all}");
    // 10,000 read units of 4 KiB, four times over, and as many write units of 1 KiB, of 100 MB.
    assert_eq!(page.value("weir_sold_bytes"), 174_080_000.0);
    assert!((page.value("weir_sold_ratio") - 1.740_8).abs() < 1e-9);
    assert_eq!(page.value("weir_sold_units{unit=\"read\"}"), 10_000.0);

    // The log says the same, and shows no secret.
    let log = server.log_with("login failed", 2);
    for words in [
        "login failed: there is no such name, or the secret is wrong tenant=\"shop\" address=127.0.0.1",
        "connection refused: the tenant has as many connections as it may have",
        "tenant created",
        "rcu unlimited -> 10000, wcu unlimited -> 10000, on_limit delay up to 1000 ms -> refuse",
        "connections_max unlimited -> 1, disk_bytes_max unlimited -> 1073741824",
        "1.74 x what the device gives (174 of 100 MB/s)",
    ] {
        assert!(log.contains(words), "{words} in\n{log}");
    }
    assert!(!log.contains("canary"), "{log}");
    assert_eq!(
        log.matches("login failed").count(),
        2,
        "one for the tenant and one for nobody's name: the rest is counted"
    );

    // `why` says what hurts the tenant most. Its units are used up, and it is set to be refused then.
    server.weir(&["tenant", "alter", "shop", "--rcu", "1", "--wcu", "1"]);
    let mut refused = 0;
    let said = (0..1_000_000).find_map(|_| {
        client.write_all(b"GET key\r\n").expect("it reads");
        let line = read_line(&mut client);
        match line.as_str() {
            "$5\r\n" => assert_eq!(read_line(&mut client), "value\r\n"),
            other => {
                assert!(other.starts_with("-THROTTLED"), "{other}");
                refused += 1;
            }
        }
        (refused % 500 == 1).then(|| server.weir(&["why", "shop"])).filter(|said| said.contains("Its own quota"))
    });
    let said = said.expect("it is said what is felt");
    // Its only connection is taken: that comes first.
    assert!(said.starts_with("Its connection limit: 1 of 1 are open"), "{said}");
    let quota = said.lines().find(|line| line.starts_with("Also: Its own quota")).expect("there");
    assert!(quota.contains("requests were refused") && quota.contains("1 read and 1 write units a second"), "{quota}");
    server.weir(&["tenant", "alter", "shop", "--connections-max", "0"]);
    assert!(server.weir(&["why", "shop"]).starts_with("Its own quota: "), "it is first now");
    assert!(server.weir(&["tenant", "list"]).contains("sold: 0.00 x what the device gives"));
    // 122.9 MB/s into the log and out of memory, of 100 MB/s.
    let told = server.weir(&["tenant", "alter", "shop", "--wcu", "60000"]);
    assert!(
        told.contains("even without compactions: writing them to the log and flushing them takes 123 MB/s"),
        "{told}"
    );
    assert!(server.weir(&["top", "--once"]).contains(", sold 0.61 x, "));
}

/// A line of the reply.
fn read_line(client: &mut TcpStream) -> String {
    use std::io::Read;
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).expect("a reply");
        line.push(byte[0]);
    }
    String::from_utf8(line).expect("text")
}
