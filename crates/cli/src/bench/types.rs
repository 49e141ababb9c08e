//! `weir bench types`.

use std::path::PathBuf;

use clap::Args;
use weir_bench::Result;
use weir_bench::types::{self, Plan, Work};

use super::{medians_of, remove_dir, write_json};

/// Commands of every data type, over the wire, both engines against Redis: `redis-benchmark` sends the commands
#[derive(Debug, Args)]
pub struct TypesArgs {
    /// Works, separated by commas, or `all`: ping, set, get, incr, mset, lpush, rpush, lpop, rpop, lrange_100,
    /// lrange_300, lrange_500, lrange_600, sadd, sismember, spop, hset, hget, hgetall_10, hincrby, zadd, zadd_large,
    /// zrange_10, zrangebyscore_10, zrank, zscore, zpopmin, xadd, xread_10, xrange_10
    #[arg(long, default_value = "all")]
    work: String,
    /// Rounds; every round starts every server afresh
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Multiplies the requests of every work; with 1 each takes half a second to a second on two cores
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Connections
    #[arg(long, default_value_t = 50)]
    clients: u32,
    /// Numbers to draw from: keys, members, fields, scores
    #[arg(long, default_value_t = 100_000)]
    keys: u32,
    /// Bytes of a value
    #[arg(long, default_value_t = 3)]
    value_bytes: usize,
    /// Directory on the disk to measure; created if missing
    #[arg(long, default_value = "weir-bench-data")]
    dir: PathBuf,
    /// Also write every run as a JSON array to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl TypesArgs {
    pub(super) fn run(self) -> Result<()> {
        let works = match self.work.as_str() {
            "all" => Work::ALL.to_vec(),
            names => names.split(',').map(Work::parse).collect::<Result<_>>()?,
        };
        let Self { rounds, scale, clients, keys, value_bytes, .. } = self;
        let ours = !self.dir.exists();
        let weir = std::env::current_exe()?;
        let plan = Plan { works, rounds, scale, clients, keys, value_bytes, dir: self.dir, weir };
        let outcomes = types::run(&plan)?;
        println!(
            "redis-benchmark -c {clients} -r {keys}, values of {value_bytes} bytes; appendonly yes, appendfsync everysec, no snapshots"
        );
        println!("{}\n", medians_of(rounds));
        print!("{}", types::table(&outcomes));
        write_json(self.json.as_deref(), &outcomes)?;
        remove_dir(&plan.dir, ours)
    }
}
