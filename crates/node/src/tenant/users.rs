//! The users of a tenant, as the catalogue keeps them.

use weir_io::{Error, ErrorKind, Result};

use super::secret::{SECRET_BYTES_MAX, StoredSecret};

/// Users of a tenant at most, not counting the tenant itself as a user.
pub const USERS_MAX: usize = 256;

/// Bytes of the names and rules of all users together, at most.
pub const USERS_BYTES_MAX: usize = 128 << 10;

/// A user of a tenant. The code that speaks the protocol knows what the rules mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredUser {
    /// The user's name among the tenant's users.
    pub name: Box<[u8]>,
    /// The user's rules: each is a word, or a selector in parentheses.
    pub rules: Box<[Box<[u8]>]>,
    /// The user's passwords; `None` = the user has none.
    pub secret: Option<StoredSecret>,
}

impl StoredUser {
    /// What the user takes of [`USERS_BYTES_MAX`].
    pub fn bytes(&self) -> usize {
        self.name.len() + self.rules.iter().map(|rule| rule.len() + 1).sum::<usize>()
    }
}

/// Checks whether a tenant may have `users`: sorted by their names, no two with the same name, not too many.
///
/// # Errors
/// It may not.
pub(crate) fn check(users: &[StoredUser]) -> Result<()> {
    let refuse = |message: String| Err(Error::new(ErrorKind::Invalid, "change", "the tenant's users", message));
    let has_long_secret =
        |user: &StoredUser| user.secret.as_ref().is_some_and(|secret| secret.as_bytes().len() > SECRET_BYTES_MAX);
    if users.len() > USERS_MAX {
        return refuse(format!("a tenant may have at most {USERS_MAX} users"));
    }
    if users.iter().map(StoredUser::bytes).sum::<usize>() > USERS_BYTES_MAX {
        return refuse(format!("the names and rules of a tenant's users may take at most {USERS_BYTES_MAX} bytes"));
    }
    if !users.windows(2).all(|pair| pair[0].name < pair[1].name) {
        return refuse("they are not in the order of their names, or two have the same name".into());
    }
    if users.iter().any(has_long_secret) {
        return refuse("a user has too many passwords".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str, bytes: usize) -> StoredUser {
        let rule: Box<[u8]> = vec![b'x'; bytes].into();
        StoredUser { name: name.as_bytes().into(), rules: vec![rule].into(), secret: None }
    }

    #[test]
    fn users_are_bounded_in_order_and_different() {
        assert!(check(&[user("a", 1), user("b", 1)]).is_ok());
        assert!(check(&[user("b", 1), user("a", 1)]).is_err() && check(&[user("a", 1), user("a", 1)]).is_err());
        assert!(check(&[user("a", USERS_BYTES_MAX)]).is_err());
        let many = |count: usize| (0..count).map(|number| user(&format!("{number:04}"), 1)).collect::<Vec<_>>();
        assert!(check(&many(USERS_MAX)).is_ok() && check(&many(USERS_MAX + 1)).is_err());
        let long = StoredUser { secret: Some(StoredSecret::new([0; SECRET_BYTES_MAX + 1])), ..user("a", 1) };
        assert!(check(&[long]).is_err());
    }
}
