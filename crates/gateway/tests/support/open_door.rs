//! A door that is always open: one tenant, called `default`, and no secrets.

use std::net::SocketAddr;
use std::sync::Arc;

use weir_gateway::auth::{Checking, Doorman, Refusal};
use weir_gateway::store::Store;
use weir_gateway::tenant::tenancy::{Grant, Standing, Tenancy};

/// Lets in everyone who can connect. That only the right clients can is up to the address that the gateway listens at
/// (S1).
pub struct OpenDoor<S>(S);

impl<S: Store> OpenDoor<S> {
    /// A door to `store`.
    pub fn new(store: S) -> Self {
        Self(store)
    }

    fn grant(&self) -> Grant<S> {
        Grant { tenant: 1, name: "default".into(), store: self.0.clone(), tenancy: Arc::new(Always) }
    }
}

/// A tenancy that nothing changes.
struct Always;

impl Tenancy for Always {
    fn standing(&self) -> Standing {
        Standing::Active
    }

    fn connections_max(&self) -> u32 {
        0
    }
}

impl<S: Store> Doorman<S> for OpenDoor<S> {
    fn open_door(&self, _: SocketAddr) -> Option<Grant<S>> {
        Some(self.grant())
    }

    fn vouched_for(&self, _: &[String]) -> Option<Grant<S>> {
        None
    }

    fn login<'a>(&'a self, name: &'a [u8], _: &'a [u8], _: SocketAddr) -> Checking<'a, Result<Grant<S>, Refusal>> {
        let answer = if name == b"default" { Ok(self.grant()) } else { Err(Refusal::WrongSecret) };
        Box::pin(std::future::ready(answer))
    }

    fn is_default_open(&self) -> bool {
        true
    }

    fn knows(&self, name: &[u8]) -> bool {
        name == b"default"
    }
}
