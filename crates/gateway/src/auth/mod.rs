//! Whose connection it is: who may come in, and as whom.
//!
//! A tenant is a user of the protocol (`AUTH NAME SECRET`), and may have users of its own (`AUTH TENANT/USER PASSWORD`,
//! [`users`]). A connection that has said nothing is a stranger, unless
//! the [`Doorman`] opens to it; a [`Login`] is what it gets: a handle on one tenant's data, and nothing that could name
//! another's.

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

/// A future that borrows what it needs: the secret is not copied to be checked.
pub type Checking<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Decides who comes in.
pub trait Doorman<S: Store>: Send + Sync + 'static {
    /// What a connection from `peer` may use before it has said who it is; `None` = nothing (S1, S2).
    fn open_door(&self, peer: SocketAddr) -> Option<Grant<S>>;

    /// What a client may use whose certificate has these names: that of the one tenant among them; `None` where there
    /// is none, or more than one.
    fn vouched_for(&self, names: &[String]) -> Option<Grant<S>>;

    /// Checks the secret of `name`. What it costs and says does not depend on whether there is such a name (S3).
    fn login<'a>(
        &'a self,
        name: &'a [u8],
        secret: &'a [u8],
        peer: SocketAddr,
    ) -> Checking<'a, Result<Grant<S>, Refusal>>;

    /// Whether the tenant called `default` lets everyone who may connect in, so that a secret alone is a mistake.
    fn is_default_open(&self) -> bool;

    /// Whether there is a tenant called `name`. Asked after a refusal only, for the log: what is no tenant's name may
    /// be a secret (S4). Like [`Doorman::login`] it costs the same for every name (S3).
    fn knows(&self, name: &[u8]) -> bool;

    /// The number of the tenant that somebody called `name` would belong to: for that tenant's own log.
    fn whose(&self, _name: &[u8]) -> Option<u32> {
        None
    }

    /// Where passwords of users are hashed; `None` where there are none but tenants.
    fn slow_hash(&self) -> Option<&Arc<SlowHash>> {
        None
    }
}

/// Why somebody was not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No such name, or not its secret: which of the two is not told.
    WrongSecret,
    /// The tenant has as many connections as it may have.
    TooManyConnections,
    /// Too many wrong secrets from this address or for this name: the next one is looked at in so many seconds.
    TooManyFailures {
        /// Whole seconds, at least 1.
        retry_seconds: u64,
    },
    /// More logins wait to be checked than can wait.
    Busy,
    /// The tenant is suspended. Told only to who knows its secret.
    Suspended(Arc<str>),
}

impl Refusal {
    /// The reasons as metrics call them.
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
