//! What an operator can do to a node: the seam between the HTTP API and the node, so that each can be tried alone.

use std::fmt;

use weir_io::BoxFuture;

use super::wire;

/// Why something was not done, in words for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Which kind of reason.
    pub reason: Reason,
    /// What is wrong and what to do about it. Never a secret.
    pub message: String,
}

/// Kinds of reasons; each has an HTTP status of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The request makes no sense.
    Invalid,
    /// There is no such thing.
    NotFound,
    /// There is one already, or it is busy.
    Conflict,
    /// The node could not: a full or failing disk.
    Failed,
}

impl Refusal {
    /// A refusal.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// What comes of an order.
pub type Doing<T> = BoxFuture<Result<T, Refusal>>;

/// A node, as its operator sees it. What has been answered with success is durable.
pub trait Operator: Send + Sync + 'static {
    /// All tenants, by name.
    fn tenants(&self) -> Vec<wire::Tenant>;
    /// What they have bought.
    fn sold(&self) -> wire::Sold;
    /// The tenant called `name`.
    fn tenant(&self, name: &str) -> Result<wire::Tenant, Refusal>;
    /// Creates a tenant.
    fn create(&self, order: wire::NewTenant) -> Doing<wire::Changed>;
    /// Changes a tenant's settings.
    fn alter(&self, name: String, change: wire::Change) -> Doing<wire::Changed>;
    /// Drops a tenant and all its data.
    fn drop_tenant(&self, name: String) -> Doing<()>;
    /// Copies a tenant's data into a directory while it is served.
    fn backup(&self, name: String, order: wire::BackupOrder) -> Doing<wire::BackupDone>;
    /// Makes a tenant of a backup.
    fn restore(&self, order: wire::RestoreOrder) -> Doing<wire::Changed>;
    /// Counters of everything.
    fn top(&self) -> wire::Top;
    /// Why its partitions are as they are, or were.
    fn why(&self, name: &str, when: When) -> Result<wire::Why, Refusal>;
    /// What the policies of the node saw and decided lately, as JSON.
    fn recording(&self) -> Doing<String>;
    /// Every device byte by tenant, partition and cause, as CSV.
    fn ledger_csv(&self) -> Doing<String>;
}

/// A moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// So many seconds ago.
    Ago(u64),
    /// So many seconds after the beginning of 1970.
    At(u64),
}
