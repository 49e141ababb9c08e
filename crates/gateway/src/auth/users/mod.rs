//! The users of one tenant, and what each of them may do now.
//!
//! The catalogue stores the users. Here are their rules in a form that is quick to check, made when the tenant's
//! account is opened and whenever a user changes. Sessions hold their user and look at its rules before every command,
//! so a change takes effect at once.

pub(crate) mod log;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use parking_lot::RwLock;
use weir_command::acl::Rules;
use weir_node::StoredUser;

use self::log::AclLog;
use super::login_name::DEFAULT_USER;
use super::secret;
use crate::tenant::tenancy::Tenancy;

/// How many patterns of keys and channels the rules of all users of a tenant may have. The longest pattern takes some
/// kilobytes.
pub(crate) const PATTERNS_MAX: usize = 2048;

/// A user of a tenant.
pub(crate) struct User {
    name: Box<[u8]>,
    state: ArcSwap<UserState>,
    /// Whether nothing is refused to the user.
    has_full_rights: AtomicBool,
}

/// What is known about a user.
pub(crate) struct UserState {
    pub(crate) rules: Rules,
    /// What is stored of the user's passwords.
    pub(crate) secret: Option<Vec<u8>>,
    /// The user was deleted, and its connections end.
    pub(crate) is_deleted: bool,
}

impl User {
    fn new(name: &[u8], state: UserState) -> Arc<Self> {
        let has_full_rights = AtomicBool::new(state.rules.are_full());
        Arc::new(Self { name: name.into(), state: ArcSwap::from_pointee(state), has_full_rights })
    }

    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    /// Whether nothing is refused to the user.
    #[inline]
    pub(crate) fn has_full_rights(&self) -> bool {
        self.has_full_rights.load(Ordering::Acquire)
    }

    pub(crate) fn state(&self) -> Arc<UserState> {
        self.state.load_full()
    }

    fn become_as(&self, state: UserState) {
        let is_full = state.rules.are_full() && !state.is_deleted;
        if !is_full {
            self.has_full_rights.store(false, Ordering::Release);
        }
        self.state.store(Arc::new(state));
        self.has_full_rights.store(is_full, Ordering::Release);
    }
}

/// Users by name.
type ByName = BTreeMap<Box<[u8]>, Arc<User>>;

/// The users of one tenant.
pub(crate) struct Users {
    tenancy: Arc<dyn Tenancy>,
    /// The user that the tenant itself is.
    own: Arc<User>,
    others: Arc<RwLock<ByName>>,
    /// Held during a change, so that changes are made one at a time.
    changing: futures_util::lock::Mutex<()>,
    /// Whether new users may use all channels (`acl-pubsub-default`).
    pub(crate) gives_all_channels: AtomicBool,
    pub(crate) log: AclLog,
}

/// A user of the catalogue in the form that is quick to check. Rules that this version does not understand allow
/// nothing.
fn understood(tenant: &str, stored: &StoredUser) -> UserState {
    let mut rules = Rules::default();
    for rule in &stored.rules {
        if let Err(error) = rules.apply(rule) {
            tracing::error!(
                tenant,
                %error,
                "cannot understand the rules of a user, who may do nothing until they are set again"
            );
            rules = Rules::default();
            break;
        }
    }
    let secret = stored.secret.as_ref().map(|secret| secret.as_bytes().to_vec());
    UserState { rules, secret, is_deleted: false }
}

impl Users {
    /// The users of the tenant called `tenant`.
    pub(crate) fn new(tenant: &str, tenancy: Arc<dyn Tenancy>) -> Self {
        let user = |stored: &StoredUser| (stored.name.clone(), User::new(&stored.name, understood(tenant, stored)));
        let others = tenancy.users().iter().map(user).collect();
        let own = UserState { rules: Rules::full(), secret: None, is_deleted: false };
        Self {
            own: User::new(DEFAULT_USER, own),
            others: Arc::new(RwLock::new(others)),
            changing: futures_util::lock::Mutex::new(()),
            gives_all_channels: AtomicBool::new(false),
            log: AclLog::default(),
            tenancy,
        }
    }

    /// The user called `name`.
    pub(crate) fn find(&self, name: &[u8]) -> Option<Arc<User>> {
        if name == DEFAULT_USER { Some(Arc::clone(&self.own)) } else { self.others.read().get(name).cloned() }
    }

    /// All users, in the order of their names.
    pub(crate) fn all(&self) -> Vec<Arc<User>> {
        let mut all: Vec<Arc<User>> = self.others.read().values().cloned().collect();
        all.push(Arc::clone(&self.own));
        all.sort_by(|left, right| left.name.cmp(&right.name));
        all
    }

    /// Waits for the turn to change users.
    pub(crate) async fn change(&self) -> Change<'_> {
        Change { users: self, _turn: self.changing.lock().await }
    }

    /// What is shown of the tenant's own secret; `None` if it needs none.
    pub(crate) fn shown_own_secret(&self) -> Option<weir_command::acl::Hash> {
        self.tenancy.shown_secret()
    }
}

/// The turn to change a tenant's users. A change is stored first and then takes effect.
pub(crate) struct Change<'a> {
    users: &'a Users,
    _turn: futures_util::lock::MutexGuard<'a, ()>,
}

impl Change<'_> {
    /// Makes `name` a user with these rules and passwords.
    ///
    /// # Errors
    /// There would be too many users, or the change cannot be stored: nothing has changed.
    pub(crate) async fn put(&self, name: &[u8], rules: Rules, secret: Option<Vec<u8>>) -> weir_io::Result<()> {
        let words = rules.words().into_iter().map(Into::into).collect();
        let kept = secret.clone().map(weir_node::StoredSecret::new);
        let stored = StoredUser { name: name.into(), rules: words, secret: kept };
        let change = |all: &[StoredUser]| {
            let mut all = all.to_vec();
            match all.binary_search_by(|user| user.name.cmp(&stored.name)) {
                Ok(place) => all[place] = stored,
                Err(place) => all.insert(place, stored),
            }
            Arc::from(all)
        };
        let (others, name) = (Arc::clone(&self.users.others), Box::<[u8]>::from(name));
        let state = UserState { rules, secret, is_deleted: false };
        let then = move || {
            let mut others = others.write();
            if let Some(user) = others.get(&name) {
                user.become_as(state);
                return;
            }
            let user = User::new(&name, state);
            others.insert(name, user);
        };
        self.users.tenancy.change_users(Box::new(change), Box::new(then)).await
    }

    /// Number of patterns in the rules of all users but the one called `name`.
    pub(crate) fn patterns_of_others(&self, name: &[u8]) -> usize {
        let others = self.users.others.read();
        others.values().filter(|user| *user.name != *name).map(|user| user.state.load().rules.patterns()).sum()
    }

    /// Deletes the users among `names`, and returns them.
    ///
    /// # Errors
    /// The change cannot be stored: nothing has changed.
    pub(crate) async fn delete(&self, names: &[&[u8]]) -> weir_io::Result<Vec<Arc<User>>> {
        let known: BTreeMap<&[u8], Arc<User>> =
            names.iter().filter_map(|name| Some((*name, self.users.find(name)?))).collect();
        let deleted: Vec<Arc<User>> = known.into_values().collect();
        if deleted.is_empty() {
            return Ok(deleted);
        }
        let gone = deleted.clone();
        let change = move |all: &[StoredUser]| {
            let is_gone = |user: &&StoredUser| gone.iter().any(|gone| gone.name == user.name);
            all.iter().filter(|user| !is_gone(user)).cloned().collect()
        };
        let (others, gone) = (Arc::clone(&self.users.others), deleted.clone());
        let then = move || {
            let mut others = others.write();
            for user in gone {
                others.remove(&user.name);
                user.become_as(UserState { rules: Rules::default(), secret: None, is_deleted: true });
            }
        };
        self.users.tenancy.change_users(Box::new(change), Box::new(then)).await?;
        Ok(deleted)
    }
}

/// The text that Redis shows for a hash.
pub(crate) fn hash_text(hash: &weir_command::acl::Hash) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl UserState {
    /// What is shown of the user's passwords.
    pub(crate) fn shown_passwords(&self) -> Vec<String> {
        let shown = self.secret.as_deref().map(secret::shown_hashes);
        shown.into_iter().flatten().map(|hash| hash_text(&hash)).collect()
    }
}
