//! `weir backup`: copies a tenant while it is served, and verifies such copies.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use weir_gateway::admin::wire::{BackupDone, BackupOrder};
use weir_io::Fs;
use weir_io::real::{RealFs, RealFsOptions, block_on, blocking_scope};

use super::Outcome;
use super::client::Server;
use super::tenant::path;
use crate::units::bytes;

/// Copies all data of a tenant into a directory while the tenant is served, or verifies such a copy.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Backup {
    /// The tenant
    #[arg(required_unless_present = "verify", requires = "to", conflicts_with = "verify")]
    tenant: Option<String>,
    /// A directory on the server's machine, new or empty
    #[arg(long, value_name = "DIR", conflicts_with = "verify")]
    to: Option<PathBuf>,
    /// Read a backup and verify every checksum in it; needs no server
    #[arg(long, value_name = "DIR")]
    verify: Option<PathBuf>,
    #[command(flatten)]
    server: Server,
}

const EXAMPLES: &str = "\
Examples:
  weir backup shop --to /backup/shop-2026-11-21
  weir backup --verify /backup/shop-2026-11-21
  weir restore /backup/shop-2026-11-21 --as shop2

Each partition is copied as it was at one moment, and every write answered before the command began is in it. The secret is not in
a backup. A backup that was interrupted has no file CURRENT, and cannot be restored.";

impl Backup {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        if let Some(dir) = &self.verify {
            let _scope = blocking_scope();
            let fs: Arc<dyn Fs> = RealFs::new(RealFsOptions::default());
            let report = block_on(weir_node::backup::verify(&fs, dir))?;
            println!(
                "{} of tenant {}: {} files, {}: all is well",
                dir.display(),
                report.tenant,
                report.files,
                bytes(report.bytes)
            );
            return Ok(());
        }
        let (Some(tenant), Some(to)) = (&self.tenant, &self.to) else {
            return Err("name a tenant, and a directory with --to".into());
        };
        // The server may have another working directory.
        let dir = std::path::absolute(to)?;
        let dir = dir.to_str().ok_or("the directory's name is no UTF-8")?.to_owned();
        let order = BackupOrder { dir: dir.clone() };
        let done: BackupDone = self.server.client()?.post(&format!("{}/backup", path(tenant)?), &order)?;
        println!("{tenant} is in {dir}: {} partitions, {} files, {}", done.partitions, done.files, bytes(done.bytes));
        Ok(())
    }
}
