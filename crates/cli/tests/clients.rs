//! Client libraries in their own languages, unchanged: `tests/clients/README.md`. If a toolchain or its registry is
//! missing, the test says so and passes.
#![allow(clippy::disallowed_methods, missing_docs, reason = "tests start processes")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::programs::{PATIENCE, command, install, installed, read, run, skip, sources, text};
use crate::support::{Dir, Server, expect};

/// Runs the program against a server: as the default tenant, as one with a secret, and as one with four partitions.
fn check(name: &str, program: &mut Command) {
    let dir = Dir::new();
    let server = Server::start(&dir, "");
    program.env("WEIR_PORT", server.clients.port().to_string());
    for (tenant, partitions) in [(None, "1"), (Some("shop"), "1"), (Some("mall"), "4")] {
        if let Some(tenant) = tenant {
            let secret = format!("secret-of-{tenant}");
            server.weir(&["tenant", "create", tenant, "--secret", &secret, "--partitions", partitions]);
            program.env("WEIR_USER", tenant).env("WEIR_SECRET", secret);
        }
        let output = run(program).expect("it was installed");
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("works"), "{name} as {tenant:?}:\n{said}");
    }
}

#[test]
fn redis_py() {
    let (sources, dir) = (sources("clients/python"), installed("python"));
    let (venv, wanted) = (dir.join("venv"), sources.join("requirements.txt"));
    let python = venv.join("bin/python");
    let mut steps = [
        command("python3", &["-m", "venv", text(&venv)]),
        command(&python, &["-m", "pip", "install", "--quiet", "-r", text(&wanted)]),
    ];
    if install("redis-py", &dir, &read(&wanted), &mut steps) {
        check("redis-py", &mut command(&python, &[text(&sources.join("client.py"))]));
    }
}

#[test]
fn go_redis() {
    let (sources, dir) = (sources("clients/go"), installed("go"));
    let program = dir.join("client");
    let pinned = read(&sources.join("go.mod")) + &read(&sources.join("main.go"));
    let mut build = command("go", &["build", "-o", text(&program), "."]);
    build.current_dir(&sources);
    if install("go-redis", &dir, &pinned, &mut [build]) {
        check("go-redis", &mut command(&program, &[]));
    }
}

#[test]
fn ioredis() {
    let (sources, dir) = (sources("clients/node"), installed("node"));
    let wanted = read(&sources.join("package.json"));
    std::fs::write(dir.join("package.json"), &wanted).expect("target can be written");
    let mut step = command("npm", &["install", "--silent", "--no-audit", "--no-fund"]);
    step.current_dir(&dir);
    if install("ioredis", &dir, &wanted, &mut [step]) {
        let mut program = command("node", &[text(&sources.join("client.js"))]);
        check("ioredis", program.env("NODE_PATH", dir.join("node_modules")));
    }
}

#[test]
fn jedis() {
    let (sources, dir) = (sources("clients/java"), installed("java"));
    let (pom, source) = (sources.join("pom.xml"), sources.join("Client.java"));
    let output = format!("-DoutputDirectory={}", dir.display());
    let classes = format!("{}/*:{}", dir.display(), dir.display());
    let mut steps = [
        command("mvn", &["-q", "-B", "-f", text(&pom), "dependency:copy-dependencies", &output]),
        command("javac", &["-cp", &classes, "-d", text(&dir), text(&source)]),
    ];
    if install("jedis", &dir, &(read(&pom) + &read(&source)), &mut steps) {
        check("jedis", &mut command("java", &["-XX:+UseSerialGC", "-cp", &classes, "Client"]));
    }
}

#[test]
fn redis_benchmark() {
    let dir = Dir::new();
    let server = Server::start(&dir, "");
    let port = server.clients.port().to_string();
    let tests = ["-t", "ping,set,get,incr,mset", "-n", "5000", "-c", "20", "-r", "1000", "--csv"];
    match run(command("redis-benchmark", &["-p", &port]).args(tests)) {
        None => skip("redis-benchmark", "it is not installed"),
        Some(output) => {
            let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && !said.contains("ERR"), "{said}");
            for name in ["PING_INLINE", "PING_MBULK", "\"SET\"", "\"GET\"", "\"INCR\"", "MSET"] {
                assert!(said.contains(name), "{name} is missing in:\n{said}");
            }
        }
    }
}

/// A program that serves until it is dropped.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        // The program may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The answer to `GET /metrics` at `port`, as soon as somebody listens there.
fn metrics(port: u16) -> String {
    let begin = Instant::now();
    let mut stream = loop {
        match TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
            Ok(stream) => break stream,
            Err(error) => assert!(begin.elapsed() < PATIENCE, "nobody listens: {error}"),
        }
        // The program says that it will listen, not that it listens.
        std::thread::sleep(Duration::from_millis(10));
    };
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    answer
}

#[test]
fn redis_exporter() {
    let dir = Dir::new();
    let server = Server::start(&dir, "");
    server.weir(&["tenant", "create", "shop", "--secret", "secret-of-shop"]);
    let mut client = server.connect();
    expect(&mut client, b"AUTH shop secret-of-shop\r\n", b"+OK\r\n");
    for key in ["a", "b", "c"] {
        expect(&mut client, format!("SET {key} 1\r\n").as_bytes(), b"+OK\r\n");
    }
    expect(&mut client, b"GET none\r\n", b"$-1\r\n");

    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port").local_addr().expect("bound").port();
    let log = dir.0.join("exporter.log");
    let start = |name: &str| {
        command(name, &["-redis.addr", &format!("redis://{}", server.clients)])
            .args(["-redis.user", "shop", "-redis.password", "secret-of-shop"])
            .args(["-web.listen-address", &format!("127.0.0.1:{port}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).expect("the test's directory can be written"))
            .spawn()
            .ok()
    };
    // Debian's name of the program, and its makers' name.
    let Some(exporter) = ["prometheus-redis-exporter", "redis_exporter"].into_iter().find_map(start) else {
        return skip("redis_exporter", "it is not installed");
    };
    let exporter = Serving(exporter);
    let found = metrics(port);
    drop(exporter);
    for line in [
        "redis_up 1\n",
        "redis_exporter_last_scrape_error{err=\"\"} 0\n",
        "redis_db_keys{db=\"db0\"} 3\n",
        "redis_keyspace_misses_total 1\n",
        "redis_commands_total{cmd=\"set\"} 3\n",
        "redis_commands_processed_total ",
        "redis_cpu_user_seconds_total ",
        "redis_memory_used_bytes ",
        "redis_process_id 0\n",
    ] {
        assert!(found.contains(&format!("\n{line}")), "{line} is missing in:\n{found}");
    }
    assert!(!found.contains("redis_memory_used_bytes 0\n"), "three keys are in memory:\n{found}");
    let said = read(&log);
    assert!(said.contains("level=info") && !said.contains("level=err") && !said.contains("level=warn"), "{said}");
}
