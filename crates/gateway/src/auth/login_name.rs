//! The names that clients log in with: a tenant, or a user of one.

/// The name of the user that stands for the tenant itself.
pub(crate) const DEFAULT_USER: &[u8] = b"default";

/// The meaning of a name: `tenant`, or `tenant/user`. Names of tenants contain no `/`. A name without `/` that no
/// tenant has means a user of the tenant `default`, so that tools which know nothing of tenants work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoginName<'a> {
    pub(crate) tenant: &'a [u8],
    pub(crate) user: Option<&'a [u8]>,
}

impl<'a> LoginName<'a> {
    pub(crate) fn parse(name: &'a [u8]) -> Self {
        match name.iter().position(|&byte| byte == b'/') {
            Some(slash) => Self { tenant: &name[..slash], user: Some(&name[slash + 1..]) },
            None => Self { tenant: name, user: None },
        }
    }

    /// The user of `tenant` that this name has logged in.
    pub(crate) fn user_of(self, tenant: &str) -> &'a [u8] {
        match self.user {
            Some(user) => user,
            None if self.tenant == tenant.as_bytes() => DEFAULT_USER,
            None => self.tenant,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_tenant_or_a_user_of_one() {
        for (name, tenant, user) in [
            (&b"ada"[..], "ada", &b"default"[..]),
            (b"ada/bob", "ada", b"bob"),
            (b"ada/", "ada", b""),
            (b"ada/bob/eve", "ada", b"bob/eve"),
            (b"ada/default", "ada", b"default"),
            (b"bob", "default", b"bob"),
            (b"default", "default", b"default"),
        ] {
            assert_eq!(LoginName::parse(name).user_of(tenant), user, "{}", String::from_utf8_lossy(name));
        }
    }
}
