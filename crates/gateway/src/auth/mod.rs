//! Who may come in, and as whom.
//!
//! A tenant is a user of the protocol (`AUTH NAME SECRET`), and may have users of its own (`AUTH TENANT/USER PASSWORD`,
//! [`users`]). A connection that has not logged in is a stranger, unless the [`Doorman`] opens to it. Whoever is let in
//! gets a [`Login`]: a handle on one tenant's data that cannot name another tenant's.

mod attempts;
mod failures;
mod login;
mod login_name;
pub mod secret;
mod secrets;
pub mod slow;
mod tenants;
pub(crate) mod users;

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

pub(crate) use failures::network;
pub(crate) use login::Login;
pub(crate) use login_name::{DEFAULT_USER, LoginName};
pub use secrets::{Directory, Secrets};
pub use tenants::NodeTenants;

use self::slow::SlowHash;
use crate::store::Store;
use crate::tenant::tenancy::Grant;

/// A future that borrows its arguments, so that the secret is not copied to be checked.
pub type Checking<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Decides who may come in.
pub trait Doorman<S: Store>: Send + Sync + 'static {
    /// What a connection from `peer` may use before it logs in; `None` = nothing (S1, S2).
    fn open_door(&self, peer: SocketAddr) -> Option<Grant<S>>;

    /// What a client whose certificate has these names may use: the data of the one tenant among them. `None` if there
    /// is no such tenant, or more than one.
    fn vouched_for(&self, names: &[String]) -> Option<Grant<S>>;

    /// Checks the secret of `name`. Neither the cost nor the answer depends on whether the name exists (S3).
    fn login<'a>(
        &'a self,
        name: &'a [u8],
        secret: &'a [u8],
        peer: SocketAddr,
    ) -> Checking<'a, Result<Grant<S>, Refusal>>;

    /// Whether the tenant called `default` lets in everyone who may connect. Then a client that gives only a secret has
    /// made a mistake.
    fn is_default_open(&self) -> bool;

    /// Whether a tenant is called `name`. Asked only after a refusal, for the log, because a name that no tenant has
    /// may be a secret (S4). Like [`Doorman::login`] it costs the same for every name (S3).
    fn knows(&self, name: &[u8]) -> bool;

    /// The number of the tenant to which somebody called `name` would belong, for that tenant's own log.
    fn whose(&self, _name: &[u8]) -> Option<u32> {
        None
    }

    /// Where the passwords of users are hashed; `None` if there are only tenants.
    fn slow_hash(&self) -> Option<&Arc<SlowHash>> {
        None
    }
}

/// Why a client was not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The name does not exist, or the secret is not its secret. The client is not told which.
    WrongSecret,
    /// The tenant has as many connections as it may have.
    TooManyConnections,
    /// Too many wrong secrets came from this address or for this name. The next one is checked only after a wait.
    TooManyFailures {
        /// Seconds to wait, rounded up, at least 1.
        retry_seconds: u64,
    },
    /// As many logins wait to be checked as may wait.
    Busy,
    /// The tenant is suspended. Told only to a client that knows the tenant's secret.
    Suspended(Arc<str>),
}

impl Refusal {
    /// The names of the reasons in metrics.
    pub const REASONS: [&'static str; 5] =
        ["wrong_secret", "too_many_connections", "too_many_failures", "busy", "suspended"];

    /// Its place in [`Refusal::REASONS`].
    pub(crate) fn reason(&self) -> usize {
        match self {
            Refusal::WrongSecret => 0,
            Refusal::TooManyConnections => 1,
            Refusal::TooManyFailures { .. } => 2,
            Refusal::Busy => 3,
            Refusal::Suspended(_) => 4,
        }
    }
}
