//! What a connection is told of its tenant: which data it may use, and what may change while it lasts.

use std::sync::Arc;

use weir_command::acl::Hash;
use weir_io::{Error, ErrorKind, Result, Waiting};
use weir_model::Databases;
use weir_node::StoredUser;

/// What somebody may use who was let in.
pub struct Grant<S> {
    /// The tenant's number, never reused.
    pub tenant: u32,
    /// The tenant's name.
    pub name: Arc<str>,
    /// Database 0 of the tenant.
    pub store: S,
    /// What may change while the session lasts.
    pub tenancy: Arc<dyn Tenancy>,
}

/// What is asked about a tenant again and again: a load of an atomic or two.
pub trait Tenancy: Send + Sync + 'static {
    /// Whether its commands are served.
    fn standing(&self) -> Standing;
    /// Most connections at a time; 0 = its share of what the node takes
    /// ([`connection_limits`](super::connection_limits)).
    fn connections_max(&self) -> u32;

    /// Its users beside the one that it is itself.
    fn users(&self) -> Arc<[StoredUser]> {
        Arc::default()
    }

    /// Whether it needs a secret, and what of it may be shown.
    fn shown_secret(&self) -> Option<Hash> {
        None
    }

    /// Under which number each of its databases is stored.
    fn databases(&self) -> Databases {
        Databases::AS_NAMED
    }

    /// Exchanges the databases with these names, durably. `alone` is let go when that is decided, also where nobody
    /// waits any more.
    fn swap_databases(&self, _names: (u8, u8), _alone: Box<dyn Send>) -> Waiting<'_, Result<()>> {
        let refused = Error::new(ErrorKind::Invalid, "swap", "databases", "they are stored under their names here");
        Box::pin(std::future::ready(Err(refused)))
    }

    /// Changes its users, durably. `then` is called when that counts, also where nobody waits any more.
    fn change_users(&self, _change: UsersChange, _then: Box<dyn FnOnce() + Send>) -> Waiting<'_, Result<()>> {
        let refused = Error::new(ErrorKind::Invalid, "change", "the tenant's users", "there are none here");
        Box::pin(std::future::ready(Err(refused)))
    }
}

/// What a tenant's users become.
pub type UsersChange = Box<dyn FnOnce(&[StoredUser]) -> Arc<[StoredUser]> + Send>;

/// Whether a tenant's commands are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// They are.
    Active,
    /// Refused, with `-NOPERM`.
    Suspended,
    /// The tenant is gone; its connections are closed.
    Dropped,
}
