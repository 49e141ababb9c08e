//! `weir bill`: what tenants have used.

use clap::Args;
use weir_gateway::admin::wire::Bill as Lines;

use super::client::Server;
use super::{Outcome, tenant};
use crate::units::bytes;

/// Show what tenants have used, by the hour: commands, request units, space, device bytes
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Bill {
    /// Only this tenant
    #[arg(value_name = "TENANT")]
    tenant: Option<String>,
    /// Only hours that begin at this second since 1970 or later
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    from: u64,
    /// Only hours that begin before this second since 1970
    #[arg(long, value_name = "SECONDS", default_value_t = u64::MAX)]
    to: u64,
    /// Print comma-separated values, with device bytes by cause
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

const EXAMPLES: &str = "\
Examples:
  weir bill                                        all that is kept: 31 days, or 50,000 lines
  weir bill shop --from $(date -d yesterday +%s)
  weir bill --csv > bill.csv

Of an hour in which a tenant was dropped, the last minute is missing. The server is found at --admin HOST:PORT, else at the
address in WEIR_ADMIN, else at 127.0.0.1:6380.";

impl Bill {
    /// Asks the server and prints its answer.
    pub fn run(self) -> Outcome {
        let path = format!("/v1/bill?from={}&to={}", self.from, self.to);
        let client = self.server.client()?;
        let mut bill: Lines = client.get(&path)?;
        if let Some(tenant) = &self.tenant {
            bill.lines.retain(|line| line.name == *tenant);
            if bill.lines.is_empty() {
                // A tenant that was dropped is on the bill. A name that is not may be misspelt.
                client.get_bytes(&tenant::path(tenant)?)?;
            }
        }
        if self.json {
            println!("{}", serde_json::to_string_pretty(&bill)?);
        } else if self.csv {
            print!("{}", bill.csv());
        } else {
            print_table(&bill);
        }
        Ok(())
    }
}

fn print_table(bill: &Lines) {
    println!(
        "{:>10}  {:20} {:>12} {:>14} {:>10} {:>10} {:>10} {:>10}",
        "HOUR", "TENANT", "COMMANDS", "REQUEST UNITS", "DISK", "MEMORY", "READ", "WRITTEN"
    );
    for line in &bill.lines {
        let sum = |of: fn(&weir_gateway::admin::wire::Cause) -> u64| line.device.iter().map(of).sum::<u64>();
        println!(
            "{:>10}  {:20} {:>12} {:>14.3} {:>10} {:>10} {:>10} {:>10}",
            line.hour_unix_seconds,
            line.name,
            line.commands,
            line.request_milli_units as f64 / 1000.0,
            bytes(line.disk_bytes),
            bytes(line.memory_bytes),
            bytes(sum(|cause| cause.read)),
            bytes(sum(|cause| cause.written)),
        );
    }
}
