//! `weir restore`: a new tenant from a backup.

use std::path::PathBuf;

use clap::Args;
use weir_gateway::admin::wire::{Changed, RestoreOrder};

use super::client::Server;
use super::{Outcome, secret, show_secret};

/// Makes a new tenant from a backup, on a running server. The tenant appears as a whole or not at all.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Restore {
    /// The backup, a directory on the server's machine
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// The tenant to make; no tenant may have this name yet
    #[arg(long = "as", value_name = "NAME")]
    name: String,
    /// Its secret, instead of a generated one; `-` reads it from standard input
    #[arg(long, value_name = "S")]
    secret: Option<String>,
    #[command(flatten)]
    server: Server,
}

const EXAMPLES: &str = "\
Examples:
  weir restore /backup/shop-2026-11-21 --as shop2

Limits come with the backup; the secret does not: a new one is generated and printed, once. Every byte is verified while it is copied.";

impl Restore {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let dir = std::path::absolute(&self.dir)?;
        let dir = dir.to_str().ok_or("the directory's name is no UTF-8")?.to_owned();
        let order = RestoreOrder { dir, name: self.name, secret: secret(self.secret)? };
        let changed: Changed = self.server.client()?.post("/v1/restore", &order)?;
        println!("tenant   {}, in {} partitions", changed.tenant.name, changed.tenant.partitions);
        show_secret(&changed.tenant.name, changed.secret.as_deref());
        Ok(())
    }
}
