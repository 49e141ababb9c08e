//! The one binary: weir.

use std::any::TypeId;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

// For its macros that print, which every module here has instead of those of the standard library.
#[macro_use]
extern crate weir_scenario;

mod bench;
mod calibrate;
mod check;
mod completions;
mod demo;
mod operate;
mod plan;
mod repair;
mod serve;
mod top;
mod transfer;
mod units;

/// Mimalloc is made for many small allocations that come and go on a few threads.
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
    /// Explain what a tenant's requests wait for, and why
    Why(operate::why::Why),
    Bill(operate::bill::Bill),
    /// Copy a tenant into a directory while it is served
    Backup(operate::backup::Backup),
    /// Make a new tenant from a backup
    Restore(operate::restore::Restore),
    /// Import a dump file, or the data and changes of a running Redis, into a tenant
    Import(transfer::import::Import),
    /// Write a tenant into a dump file of Redis
    Export(transfer::export::Export),
    /// Look for damage in the data directory of a server that is not running
    Check(check::Check),
    /// Repair a data directory that the server refuses to open
    Repair(repair::Repair),
    /// Measure how fast the disk is, so that a server knows what it has to share out
    Calibrate(calibrate::Calibrate),
    Plan(plan::Plan),
    /// Measure Weir on this machine, and RocksDB or Redis beside it
    Bench(bench::Bench),
    Demo(demo::Demo),
    /// Try Weir in simulated time: power cuts, failing disks, disks sold too often; and kill real servers
    Sim(weir_sim::command::Sim),
    /// Print a script that completes weir's commands in your shell
    Completions(completions::Completions),
}

const TOUR: &str = "\
A first session:
  weir serve                     a server with its data in ./weir-data
  redis-cli SET greeting hello   in another terminal; any Redis client is a client
  weir tenant create shop        another tenant, with a secret of its own
  weir top                       who does what
  weir demo                      two stores side by side on a disk that is too slow for both
  weir COMMAND --help            what a command does, with examples

docs/operations.md is for whoever runs it, docs/config.md for what can be set.";

/// Makes `command` and all its subcommands accept only paths of this machine as paths: see [`weir_io::local_path`].
fn with_local_paths(command: clap::Command) -> clap::Command {
    let local = |arg: clap::Arg| match arg.get_value_parser().type_id() == TypeId::of::<PathBuf>() {
        true => arg.value_parser(PathBufValueParser::new().try_map(weir_io::local_path)),
        false => arg,
    };
    command.mut_args(local).mut_subcommands(with_local_paths)
}

/// Parses the arguments. If they are wrong, says why, and ends the process.
fn parse() -> Cli {
    let mut command = with_local_paths(Cli::command());
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let matches = command.try_get_matches_from_mut(&arguments);
    matches.and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches)).unwrap_or_else(|error| {
        if error.kind() == ErrorKind::InvalidSubcommand {
            // If a command does not exist, show those that do.
            eprintln!("{}", choices(&command, &arguments));
        }
        error.exit()
    })
}

/// The subcommands of the command that `arguments` have reached, a line each.
fn choices(command: &clap::Command, arguments: &[OsString]) -> String {
    let (mut reached, mut path) = (command, command.get_name().to_owned());
    for argument in arguments.iter().skip(1) {
        if let Some(next) = argument.to_str().and_then(|name| reached.find_subcommand(name)) {
            reached = next;
            path = format!("{path} {}", next.get_name());
        }
    }
    let shown = reached.get_subcommands().filter(|one| !one.is_hide_set());
    let line = |one: &clap::Command| {
        let about = one.get_about().map(ToString::to_string).unwrap_or_default();
        format!("  {:<12} {}", one.get_name(), about.lines().next().unwrap_or_default())
    };
    format!("{path} COMMAND, where COMMAND is one of\n{}\n", shown.map(line).collect::<Vec<_>>().join("\n"))
}

fn main() -> ExitCode {
    let result = match parse().command {
        Command::Serve(serve) => serve.run(),
        Command::Tenant(tenant) => tenant.run(),
        Command::Top(top) => top.run(),
        Command::Why(why) => why.run(),
        Command::Bill(bill) => bill.run(),
        Command::Backup(backup) => backup.run(),
        Command::Restore(restore) => restore.run(),
        Command::Import(import) => import.run(),
        Command::Export(export) => export.run(),
        Command::Check(check) => check.run(),
        Command::Repair(repair) => repair.run(),
        Command::Calibrate(calibrate) => calibrate.run(),
        Command::Plan(plan) => plan.run(),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer to `words` that are wrong.
    fn refused(words: &str) -> (ErrorKind, String) {
        let arguments: Vec<OsString> = words.split(' ').map(Into::into).collect();
        let mut command = with_local_paths(Cli::command());
        let error = command.try_get_matches_from_mut(&arguments).expect_err(words);
        (error.kind(), error.to_string() + &choices(&command, &arguments))
    }

    #[test]
    fn no_option_takes_an_address_for_a_path() {
        Cli::command().debug_assert();
        for words in [
            "weir backup shop --to s3://bucket/shop",
            "weir backup --verify s3://bucket/shop",
            "weir restore https://host/shop --as copy",
            "weir export shop --to s3://bucket/shop.rdb",
            "weir serve --dir s3://bucket",
            "weir serve --config https://host/weir.toml",
            "weir serve --record-traffic s3://bucket/week.csv",
            "weir check file:///srv/weir",
            "weir demo --dir s3://bucket",
            "weir calibrate s3://bucket",
            "weir bench engine --json s3://bucket/x",
            "weir bench shortage --dir s3://bucket",
            "weir bench density --dir s3://bucket",
            "weir sim kill9 --dir s3://bucket",
            "weir sim trace --record s3://bucket/x.csv",
            "weir plan s3://bucket/week.csv",
            "weir why shop --replay s3://bucket/x",
        ] {
            let (kind, said) = refused(words);
            assert_eq!(kind, ErrorKind::ValueValidation, "{words}: {said}");
            assert!(said.contains("of this machine") && said.contains("give a path"), "{words}: {said}");
        }
    }

    #[test]
    fn an_unknown_command_or_profile_is_answered_with_those_that_there_are() {
        for (words, named) in
            [("weir srve", "serve  "), ("weir sim nonsense", "shortage  "), ("weir bench x", "engine  ")]
        {
            let (kind, said) = refused(words);
            assert!(kind == ErrorKind::InvalidSubcommand && said.contains(named), "{words}: {said}");
            assert!(!said.contains("scenario-child"), "{said}");
        }
        for words in ["weir sim shortage --profile rocksdb,none", "weir bench waves --profile none"] {
            let (_, said) = refused(words);
            let all = weir_node::Profile::NAMES;
            assert!(all.iter().all(|name| said.contains(name)), "{words}: {said}");
        }
    }

    #[test]
    fn a_load_of_nobody_or_of_nothing_is_refused() {
        for words in ["--active 0", "--active 1,0", "--active 100001", "--rate 0", "--limited --rate 4294967295"] {
            let (kind, said) = refused(&format!("weir bench tenants {words}"));
            assert_eq!(kind, ErrorKind::ValueValidation, "{words}: {said}");
        }
        for words in [
            "tenants --seconds 0",
            "tenants --rounds 0",
            "engine --rounds 0",
            "engine --items 0",
            "redis --rounds 0",
            "types --rounds 0",
            "large --rounds 0",
            "shortage --rounds 0",
            "ycsb --rounds 0",
        ] {
            let (kind, said) = refused(&format!("weir bench {words}"));
            assert_eq!(kind, ErrorKind::ValueValidation, "{words}: {said}");
        }
        for words in [
            "crash --seeds 0",
            "crash --seed 18446744073709551615",
            "crash --from 18446744073709551615",
            "flip --stride 0",
        ] {
            let (kind, said) = refused(&format!("weir sim {words}"));
            assert_eq!(kind, ErrorKind::ValueValidation, "{words}: {said}");
        }
    }

    #[test]
    fn a_backup_is_either_made_or_verified() {
        for words in ["backup --verify here --to there", "backup shop --verify here"] {
            let (kind, said) = refused(&format!("weir {words}"));
            assert!(kind == ErrorKind::ArgumentConflict && said.contains("--verify"), "{words}: {said}");
        }
    }

    #[test]
    fn a_sample_of_nothing_is_refused() {
        let (kind, said) = refused("weir import redis://host --to shop --verify --sample 0");
        assert_eq!(kind, ErrorKind::ValueValidation, "{said}");
    }

    #[test]
    fn a_cap_that_would_limit_nothing_is_refused() {
        for option in ["cap-mbps", "cap-read-mbps", "cap-write-mbps"] {
            for cap in ["0", "-1", "0.00001", "NaN", "inf", "fast"] {
                for bench in ["shortage", "ycsb"] {
                    let (kind, said) = refused(&format!("weir bench {bench} --{option}={cap}"));
                    assert_eq!(kind, ErrorKind::ValueValidation, "{option} {cap}: {said}");
                    assert!(said.contains("between 0.001 and"), "{said}");
                }
            }
        }
    }

    #[test]
    fn the_help_has_a_line_for_every_profile_and_scenario() {
        let mut command = Cli::command();
        let mut help = |path: &[&str]| {
            let reached = path.iter().fold(&mut command, |at, name| at.find_subcommand_mut(name).expect("a command"));
            reached.render_long_help().to_string()
        };
        for path in [
            ["sim", "shortage"],
            ["sim", "surge"],
            ["sim", "waves"],
            ["sim", "trace"],
            ["bench", "shortage"],
            ["bench", "density"],
        ] {
            let said = help(&path);
            for profile in weir_node::Profile::ALL {
                let line = format!("{}:", profile.name());
                let line = said.lines().find(|text| text.trim_start_matches([' ', '-']).starts_with(&line));
                assert!(line.is_some_and(|line| line.contains(profile.about())), "{path:?} {profile}: {said}");
            }
        }
        let said = help(&["sim"]);
        for scenario in ["shortage", "surge", "waves", "trace", "kill9", "crash"] {
            let line = said.lines().find(|line| line.trim_start().starts_with(scenario)).expect(scenario);
            assert!(line.trim_start().len() > scenario.len() + 10, "{line}");
        }
    }
}
