//! What a connection knows about its tenant: which data it may use, and which settings may change while it is open.

use std::sync::Arc;

use weir_command::acl::Hash;
use weir_io::{Error, ErrorKind, Result, Waiting};
use weir_model::Databases;
use weir_node::StoredUser;

/// What a client that was let in may use.
pub struct Grant<S> {
    /// The tenant's number, never reused.
    pub tenant: u32,
    /// The tenant's name.
    pub name: Arc<str>,
    /// Database 0 of the tenant.
    pub store: S,
    /// Settings that may change while the session lasts.
    pub tenancy: Arc<dyn Tenancy>,
}

/// Questions about a tenant that are asked again and again. An answer costs a load of an atomic or two.
pub trait Tenancy: Send + Sync + 'static {
    /// Whether the tenant's commands are served.
    fn standing(&self) -> Standing;
    /// Highest number of connections at a time; 0 = its share of what the node takes
    /// ([`connection_limits`](super::connection_limits)).
    fn connections_max(&self) -> u32;

    /// The tenant's users besides `default`, which is the tenant itself.
    fn users(&self) -> Arc<[StoredUser]> {
        Arc::default()
    }

    /// The part of the tenant's secret that may be shown; `None` if the tenant needs no secret.
    fn shown_secret(&self) -> Option<Hash> {
        None
    }

    /// The number under which each of the tenant's databases is stored.
    fn databases(&self) -> Databases {
        Databases::AS_NAMED
    }

    /// From now on `call` is called, in the place of an earlier one, whenever a failed log of the tenant was replaced:
    /// writes that were refused, and that reads have left out, count then. It must not wait.
    fn on_log_replaced(&self, _call: Arc<dyn Fn() + Send + Sync>) {}

    /// Exchanges the databases with these names durably. `alone` is dropped when the exchange is decided, even if
    /// nobody waits for it any more.
    fn swap_databases(&self, _names: (u8, u8), _alone: Box<dyn Send>) -> Waiting<'_, Result<()>> {
        let refused = Error::new(ErrorKind::Invalid, "swap", "databases", "they are stored under their names here");
        Box::pin(std::future::ready(Err(refused)))
    }

    /// Changes the tenant's users durably. `then` is called when the change takes effect, even if nobody waits for it
    /// any more.
    fn change_users(&self, _change: UsersChange, _then: Box<dyn FnOnce() + Send>) -> Waiting<'_, Result<()>> {
        let refused = Error::new(ErrorKind::Invalid, "change", "the tenant's users", "there are none here");
        Box::pin(std::future::ready(Err(refused)))
    }
}

/// Computes the new users of a tenant from the old ones.
pub type UsersChange = Box<dyn FnOnce(&[StoredUser]) -> Arc<[StoredUser]> + Send>;

/// Whether a tenant's commands are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Commands are served.
    Active,
    /// Commands are refused with `-NOPERM`.
    Suspended,
    /// The tenant is gone; its connections are closed.
    Dropped,
}
