//! The one binary: weir.

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

mod bench;
mod calibrate;
mod check;
mod completions;
mod demo;
mod operate;
mod serve;
mod top;
mod units;

/// Many small allocations come and go on a few threads, which is what it is made for.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Weir: a multi-tenant serverless database.
#[derive(Debug, Parser)]
#[command(name = "weir", version, after_help = TOUR)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a server that any Redis client can talk to
    Serve(serve::Serve),
    /// Create, list and change tenants of a running server
    Tenant(operate::tenant::Tenant),
    /// Show what the tenants do right now
    Top(top::Top),
    /// Explain why a tenant is served as it is
    Why(operate::why::Why),
    /// Copy a tenant into a directory while it is served
    Backup(operate::backup::Backup),
    /// Make a new tenant of a backup
    Restore(operate::restore::Restore),
    /// Verify every checksum, order and invariant of a directory, off line
    Check(check::Check),
    /// Measure what the disk can do, for the gates
    Calibrate(calibrate::Calibrate),
    /// Measure Weir, next to a peer where one is named
    Bench(bench::Bench),
    Demo(demo::Demo),
    /// Live through power cuts, failing disks and kills
    Sim(weir_sim::command::Sim),
    /// Print the shell's completions for weir
    Completions(completions::Completions),
}

const TOUR: &str = "\
A first session:
  weir serve                     a server with its data in ./weir-data
  redis-cli SET greeting hello   in another terminal; any Redis client is a client
  weir tenant create shop        another tenant, with a secret of its own
  weir top                       who does what
  weir demo                      three minutes that show what it is for
  weir COMMAND --help            what a command does, with examples

docs/operations.md is for whoever runs it, docs/config.md for what can be set.";

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Serve(serve) => serve.run(),
        Command::Tenant(tenant) => tenant.run(),
        Command::Top(top) => top.run(),
        Command::Why(why) => why.run(),
        Command::Backup(backup) => backup.run(),
        Command::Restore(restore) => restore.run(),
        Command::Check(check) => check.run(),
        Command::Calibrate(calibrate) => calibrate.run(),
        Command::Bench(bench) => bench.run(),
        Command::Demo(demo) => demo.run(),
        Command::Sim(sim) => sim.run().map_err(Into::into),
        Command::Completions(completions) => completions.run(&mut Cli::command()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weir: {error}");
            ExitCode::FAILURE
        }
    }
}
