//! Frameworks that are built on Redis, unchanged: `tests/clients/README.md`. Each does jobs, keeps sessions or takes
//! locks. Workers are killed in the middle, and the framework's promises about their jobs must hold. If a toolchain or
//! its registry is missing, the test says so and passes.
//!
//! With `WEIR_FRAMEWORKS=all` in the environment they run on both engines, with their default waiting times.
#![allow(clippy::disallowed_methods, missing_docs, reason = "tests start processes")]

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use crate::support::programs::{command, install, installed, read, run, skip, sources, text};
use crate::support::{Dir, Server};

/// Runs `program` against a server, as a tenant with a secret.
fn check(name: &str, program: &mut Command) {
    let is_all = std::env::var("WEIR_FRAMEWORKS").is_ok_and(|word| word == "all");
    if !is_all {
        program.env("WEIR_HASTE", "1");
    }
    let dir = Dir::new();
    let server = Server::start_telling(&dir, "", "warn,weir=info");
    let engines: &[&[&str]] = &[&["--engine", "lsm"], &["--engine", "memory", "--memory-max", "256MiB"]];
    for engine in &engines[..if is_all { 2 } else { 1 }] {
        let (tenant, secret) = (engine[1], "secret-of-a-test");
        server.weir(&[&["tenant", "create", tenant, "--secret", secret], *engine].concat());
        program.env("WEIR_URL", format!("redis://{tenant}:{secret}@{}/0", server.clients));
        let output = run(program).expect("it was installed");
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        let works = said.lines().any(|line| line.ends_with(" works") || line.ends_with(" work"));
        assert!(output.status.success() && works, "{name} on the engine {tenant}:\n{said}");
    }
}

/// A Python interpreter that has the frameworks.
fn python() -> Option<&'static PathBuf> {
    static INSTALLED: OnceLock<Option<PathBuf>> = OnceLock::new();
    let install = || {
        let (wanted, dir) = (sources("frameworks/python").join("requirements.txt"), installed("frameworks-python"));
        let venv = dir.join("venv");
        let python = venv.join("bin/python");
        let mut steps = [
            command("python3", &["-m", "venv", text(&venv)]),
            command(&python, &["-m", "pip", "install", "--quiet", "-r", text(&wanted)]),
        ];
        install("frameworks in Python", &dir, &read(&wanted), &mut steps).then_some(python)
    };
    INSTALLED.get_or_init(install).as_ref()
}

/// A directory of modules for Node.js.
fn modules() -> Option<&'static PathBuf> {
    static INSTALLED: OnceLock<Option<PathBuf>> = OnceLock::new();
    let install = || {
        let dir = installed("frameworks-node");
        let wanted = read(&sources("frameworks/node").join("package.json"));
        std::fs::write(dir.join("package.json"), &wanted).expect("target can be written");
        let mut step = command("npm", &["install", "--silent", "--no-audit", "--no-fund"]);
        step.current_dir(&dir);
        install("frameworks in JavaScript", &dir, &wanted, &mut [step]).then(|| dir.join("node_modules"))
    };
    INSTALLED.get_or_init(install).as_ref()
}

/// A path of classes for Java.
fn classes() -> Option<&'static String> {
    static INSTALLED: OnceLock<Option<String>> = OnceLock::new();
    let install = || {
        let (sources, dir) = (sources("frameworks/java"), installed("frameworks-java"));
        let pom = sources.join("pom.xml");
        let programs = ["Lettuce.java", "SpringSession.java"].map(|name| sources.join(name));
        let output = format!("-DoutputDirectory={}", dir.display());
        let classes = format!("{}/*:{}", dir.display(), dir.display());
        let mut compile = command("javac", &["-nowarn", "-cp", &classes, "-d", text(&dir)]);
        compile.args(&programs);
        let mut steps =
            [command("mvn", &["-q", "-B", "-f", text(&pom), "dependency:copy-dependencies", &output]), compile];
        let pinned = programs.iter().fold(read(&pom), |all, program| all + &read(program));
        install("frameworks in Java", &dir, &pinned, &mut steps).then_some(classes)
    };
    INSTALLED.get_or_init(install).as_ref()
}

fn python_program(name: &str) {
    if let Some(python) = python() {
        let mut program = command(python, &[text(&sources("frameworks/python").join(name))]);
        check(name, program.env("PYTHONDONTWRITEBYTECODE", "1"));
    }
}

fn node_program(name: &str) {
    if let Some(modules) = modules() {
        check(name, command("node", &[text(&sources("frameworks/node").join(name))]).env("NODE_PATH", modules));
    }
}

fn java_program(name: &str) {
    if let Some(classes) = classes() {
        check(name, &mut command("java", &["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classes, name]));
    }
}

#[test]
fn celery() {
    python_program("celery_jobs.py");
}

#[test]
fn rq() {
    python_program("rq_jobs.py");
}

#[test]
fn django_redis() {
    python_program("django_cache.py");
}

#[test]
fn limits() {
    python_program("limits_rates.py");
}

#[test]
fn redlock_py_and_the_locks_of_redis_py() {
    python_program("locks.py");
}

#[test]
fn bullmq() {
    node_program("bullmq_jobs.js");
}

#[test]
fn redlock() {
    node_program("redlock_locks.js");
}

#[test]
fn node_redis() {
    node_program("node_redis.js");
}

#[test]
fn lettuce() {
    java_program("Lettuce");
}

#[test]
fn spring_session() {
    java_program("SpringSession");
}

#[test]
fn asynq() {
    let (sources, dir) = (sources("frameworks/go"), installed("frameworks-go"));
    let program = dir.join("asynq");
    let pinned = read(&sources.join("go.mod")) + &read(&sources.join("main.go"));
    let mut build = command("go", &["build", "-o", text(&program), "."]);
    build.current_dir(&sources);
    if install("asynq", &dir, &pinned, &mut [build]) {
        check("asynq", &mut command(&program, &[]));
    }
}

#[test]
fn sidekiq() {
    // Do not ask its registry: the test runs the version that the system has.
    let found = run(&mut command("ruby", &["-e", "require 'sidekiq'"]));
    if !found.is_some_and(|output| output.status.success()) {
        return skip("sidekiq", "there is no ruby with it (Debian: ruby-sidekiq)");
    }
    check("sidekiq", &mut command("ruby", &[text(&sources("frameworks/ruby").join("sidekiq_jobs.rb"))]));
}
