//! What an operator can do to a node. This trait separates the HTTP API from the node, so that each can be tested
//! alone.

use std::fmt;

use weir_io::BoxFuture;

use super::wire;

/// Why an order was not carried out, in words for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The kind of reason.
    pub reason: Reason,
    /// What is wrong and what to do about it. Never a secret.
    pub message: String,
}

/// Kinds of reasons. Each has an HTTP status of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The request makes no sense.
    Invalid,
    /// The thing does not exist.
    NotFound,
    /// The thing exists already, or it is busy.
    Conflict,
    /// The node could not do it, for example because its disk is full or fails.
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

/// The result of an order.
pub type Doing<T> = BoxFuture<Result<T, Refusal>>;

/// A node as its operator sees it. An order that was answered with success is durable.
pub trait Operator: Send + Sync + 'static {
    /// All tenants, by name.
    fn tenants(&self) -> Vec<wire::Tenant>;
    /// What all tenants have bought.
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
    /// Why the tenant's partitions are, or were, as they are.
    fn why(&self, name: &str, when: When) -> Result<wire::Why, Refusal>;
    /// What the policies of the node saw and decided recently, as JSON.
    fn recording(&self) -> Doing<String>;
    /// Every device byte by tenant, partition and cause, as CSV.
    fn ledger_csv(&self) -> Doing<String>;
}

/// A moment for which an operator asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// This many seconds ago.
    Ago(u64),
    /// This many seconds after the beginning of 1970.
    At(u64),
}
