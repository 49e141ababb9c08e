//! The one binary: weir.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod bench;
mod check;
mod serve;

/// Many small allocations come and go on a few threads, which is what it is made for.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Weir: a multi-tenant serverless database.
#[derive(Debug, Parser)]
#[command(name = "weir", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a server that any Redis client can talk to
    Serve(serve::Serve),
    /// Verify every checksum, order and invariant of a directory, off line
    Check(check::Check),
    /// Measure Weir, next to a peer where one is named
    Bench(bench::Bench),
    /// Live through power cuts, failing disks and kills
    Sim(weir_sim::command::Sim),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Serve(serve) => serve.run(),
        Command::Check(check) => check.run(),
        Command::Bench(bench) => bench.run(),
        Command::Sim(sim) => sim.run().map_err(Into::into),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weir: {error}");
            ExitCode::FAILURE
        }
    }
}
