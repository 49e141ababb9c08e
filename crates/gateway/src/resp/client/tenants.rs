//! The connections of each tenant. What one tenant asks about its connections costs nothing for those of others.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_command::TURN_KEYS;

use super::Client;

/// The connections that have logged in, by the numbers of their tenant and their own.
#[derive(Default)]
pub(super) struct ByTenant(Mutex<BTreeMap<(u32, u64), Arc<Client>>>);

impl ByTenant {
    pub(super) fn add(&self, tenant: u32, client: &Arc<Client>) {
        self.0.lock().insert((tenant, client.id), Arc::clone(client));
    }

    pub(super) fn remove(&self, tenant: u32, client: &Client) {
        let removed = self.0.lock().remove(&(tenant, client.id));
        // Not under the lock.
        drop(removed);
    }

    /// The tenant's connections behind the one with the number `last`, oldest first: as many as others may wait for.
    fn page(&self, tenant: u32, last: u64) -> Vec<Arc<Client>> {
        let behind = (Bound::Excluded((tenant, last)), Bound::Included((tenant, u64::MAX)));
        self.0.lock().range(behind).take(TURN_KEYS).map(|(_, client)| Arc::clone(client)).collect()
    }

    /// The tenant's connections, oldest first. The lock is held for a page at a time, so they need not all have been
    /// there at the same time.
    pub(super) fn of(&self, tenant: u32) -> impl Iterator<Item = Arc<Client>> {
        let mut last = 0;
        let pages = std::iter::from_fn(move || {
            let page = self.page(tenant, last);
            last = page.last()?.id;
            Some(page)
        });
        pages.flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Clients;
    use super::*;

    #[test]
    fn a_tenant_has_its_own_connections_and_others_come_and_go_meanwhile() {
        let (clients, by_tenant) = (Clients::default(), ByTenant::default());
        let address = "127.0.0.1:1".parse().expect("an address");
        let admit = |_| clients.admit(address, address, 0, usize::MAX).expect("room");
        let all: Vec<Arc<Client>> = (0..5 * TURN_KEYS).map(admit).collect();
        all.iter().for_each(|client| by_tenant.add((client.id % 2) as u32, client));
        let ids = |tenant| by_tenant.of(tenant).map(|client| client.id).collect::<Vec<_>>();
        let expected =
            |tenant| all.iter().map(|client| client.id).filter(move |id| id % 2 == tenant).collect::<Vec<_>>();
        assert_eq!((ids(0), ids(1), ids(2)), (expected(0), expected(1), Vec::new()));
        let mut even = by_tenant.of(0);
        assert_eq!(even.next().map(|client| client.id), Some(2));
        // Behind the page that was read.
        all[3 * TURN_KEYS..].iter().for_each(|client| by_tenant.remove((client.id % 2) as u32, client));
        assert_eq!(even.count(), 3 * TURN_KEYS / 2 - 1);
    }
}
