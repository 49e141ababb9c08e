//! `weir why`: why a tenant's partitions are as they are.

use clap::Args;
use weir_gateway::admin::wire::Why as Answer;

use super::Outcome;
use super::client::Server;
use super::tenant::path;

/// Explains what the policies decided about a tenant: stage, reason, time until a write would stall.
#[derive(Debug, Args)]
pub struct Why {
    /// The tenant
    tenant: String,
    /// So many seconds ago; some minutes are remembered
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    ago: u64,
    #[command(flatten)]
    server: Server,
}

impl Why {
    /// Does it.
    pub fn run(self) -> Outcome {
        let route = format!("{}/why?ago={}", path(&self.tenant)?, self.ago);
        let answer: Answer = self.server.client()?.get(&route)?;
        for partition in answer.partitions {
            let why = partition.why.unwrap_or_else(|| "asleep, or longer ago than is remembered\n".to_owned());
            println!("partition {}\n  {}", partition.partition, why.trim_end().replace('\n', "\n  "));
        }
        Ok(())
    }
}
