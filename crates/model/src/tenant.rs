//! The owners of data: the names and numbers of tenants.

use std::fmt;
use std::str::FromStr;

/// The longest name of a tenant, in bytes.
pub const TENANT_NAME_BYTES_MAX: usize = 63;

/// A tenant's name: `[a-z0-9][a-z0-9_-]{0,62}` (S6). A name that was checked once need not be escaped anywhere: not in
/// paths, not in metrics, not in logs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TenantName(Box<str>);

/// A name that no tenant can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidName;

impl fmt::Display for InvalidName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a tenant's name must have 1 to 63 characters of a-z, 0-9, _ and -, and begin with a letter or a digit",
        )
    }
}

impl std::error::Error for InvalidName {}

impl TenantName {
    /// The tenant that exists from the first start on.
    pub const DEFAULT: &str = "default";

    /// `name` as a tenant's name.
    ///
    /// # Errors
    /// If no tenant can have this name.
    pub fn new(name: &str) -> Result<Self, InvalidName> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let (&first, rest) = name.as_bytes().split_first().ok_or(InvalidName)?;
        let valid = plain(first) && rest.iter().all(|&byte| plain(byte) || byte == b'_' || byte == b'-');
        if valid && name.len() <= TENANT_NAME_BYTES_MAX { Ok(Self(name.into())) } else { Err(InvalidName) }
    }

    /// The name of the built-in tenant.
    pub fn built_in() -> Self {
        Self(Self::DEFAULT.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TenantName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for TenantName {
    type Err = InvalidName;

    fn from_str(name: &str) -> Result<Self, InvalidName> {
        Self::new(name)
    }
}

/// A tenant's number, used on disk and in the books: a name may be used again, a number never is. 0 is the node itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TenantId(pub u32);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_name_of_the_pattern_is_one(name in "[a-z0-9][a-z0-9_-]{0,62}") {
            prop_assert_eq!(TenantName::new(&name).map(|name| name.to_string()), Ok(name));
        }

        #[test]
        fn nothing_else_is(name: String) {
            let valid = TenantName::new(&name).is_ok();
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
            let expected = name.chars().next().is_some_and(plain)
                && name.chars().all(|c| plain(c) || c == '_' || c == '-')
                && name.len() <= 63;
            prop_assert_eq!(valid, expected);
        }
    }

    /// Names with a meaning for a file system, a shell, a log, a terminal or a reader, alone and as part of a good
    /// name.
    #[test]
    fn s6_names_that_mean_something_elsewhere_are_refused() {
        let hostile = [
            ".",
            "..",
            "../",
            "..\\",
            "/",
            "\\",
            "\0",
            "%2e%2e",
            "%2f",
            "%00",
            "~",
            "$HOME",
            "`id`",
            "$(id)",
            ";",
            "|",
            "&",
            ">",
            "*",
            "?",
            "[a]",
            "{a}",
            "!",
            "#",
            "'",
            "\"",
            " ",
            "\t",
            "\n",
            "\r",
            "\r\n",
            "\u{1b}[2J",
            "\u{7f}",
            "\u{85}",
            "\u{a0}",
            "\u{200b}",
            "\u{202e}",
            "\u{feff}",
            "\u{430}",
            "\u{3b1}",
            "\u{ff41}",
            "\u{2024}",
            "\u{2215}",
            "\u{1d41a}",
            "\u{e4}",
            "a\u{308}",
            "\u{df}",
            "\u{130}",
            "\u{131}",
            "\u{212a}",
            "=",
            ",",
            ":",
            "@",
            "+",
            "A",
            "CON",
            "NUL",
            "COM1",
            "DEFAULT",
            "Default",
        ];
        for part in hostile {
            for name in [part.to_owned(), format!("a{part}"), format!("{part}a"), format!("a{part}a")] {
                assert!(TenantName::new(&name).is_err(), "{name:?}");
            }
        }
        for name in ["-", "-a", "--help", "_", "_a"]
            .map(str::to_owned)
            .into_iter()
            .chain([10_240, 64].map(|len| "a".repeat(len)))
        {
            assert!(TenantName::new(&name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn the_limits() {
        assert!(TenantName::new(&"a".repeat(63)).is_ok() && TenantName::new(&"a".repeat(64)).is_err());
        for wrong in ["", "-a", "_a", "A", "a.b", "a/b", "..", "a b", "ä", "a\n"] {
            assert!(TenantName::new(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(TenantName::new(TenantName::DEFAULT), Ok(TenantName::built_in()));
    }
}
