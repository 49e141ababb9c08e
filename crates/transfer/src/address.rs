//! Where a Redis is, and how we log in there: `redis://user:password@host:port`.

use std::fmt;

/// The port of Redis.
const PORT: u16 = 6379;

/// A server, and a login.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// A name or an address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The user; empty = `default`.
    pub user: String,
    /// The password; empty = the server asks for none.
    pub password: String,
}

/// Shows the address without the password.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

impl Address {
    /// The server at `HOST:PORT`.
    ///
    /// # Errors
    /// `place` is no such text; the error says so in words.
    pub fn plain(place: &str) -> Result<Self, String> {
        let wanted = || format!("`{place}` is no HOST:PORT");
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || (host.starts_with('[') && host.ends_with(']')) => {
                (host, port.parse().map_err(|_| wanted())?)
            }
            _ => (place, PORT),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || host.contains(['/', '@', ' ']) {
            return Err(wanted());
        }
        Ok(Self { host: host.into(), port, user: String::new(), password: String::new() })
    }

    /// The server that `url` names.
    ///
    /// # Errors
    /// `url` is no such URL. The error does not repeat it: it may hold a password.
    pub fn parse(url: &str) -> Result<Self, String> {
        let Some(rest) = url.strip_prefix("redis://") else {
            return Err(match url.starts_with("rediss://") {
                true => "rediss:// (TLS) is not supported: put a proxy such as stunnel in front, and give its address \
                         as redis://"
                    .into(),
                false => "a source is a file, or redis://USER:PASSWORD@HOST:PORT".into(),
            });
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (login, place) = rest.rsplit_once('@').map_or(("", rest), |(login, place)| (login, place));
        if place.contains(['/', '?', '#']) {
            return Err("redis:// takes no path: databases are chosen with --db".into());
        }
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let plain =
            |text: &str| decoded(text).ok_or_else(|| "the user or the password has a broken %-escape".to_owned());
        let (user, password) = (plain(user)?, plain(password)?);
        // As `redis-cli -u` does: a single word is the password.
        let (user, password) = if login.contains(':') { (user, password) } else { (String::new(), user) };
        Ok(Self { user, password, ..Self::plain(place).map_err(|_| "redis:// wants HOST:PORT".to_owned())? })
    }
}

/// `text` with its %-escapes resolved.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|d| d.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read() {
        for (url, host, port, user, password) in [
            ("redis://localhost", "localhost", 6379, "", ""),
            ("redis://127.0.0.1:7001/", "127.0.0.1", 7001, "", ""),
            ("redis://shop:s%40cret%3A@[::1]:7001", "::1", 7001, "shop", "s@cret:"),
            ("redis://:pw@h", "h", 6379, "", "pw"),
            ("redis://pw@h", "h", 6379, "", "pw"),
        ] {
            let address = Address::parse(url).expect(url);
            assert_eq!(
                (&*address.host, address.port, &*address.user, &*address.password),
                (host, port, user, password)
            );
            assert!(!format!("{address:?}").contains("cret"));
        }
        for url in
            ["redis://", "redis://h:x", "redis://h/3", "rediss://h", "http://h", "redis://a:%zz@h", "redis://a b"]
        {
            let error = Address::parse(url).expect_err(url);
            assert!(!error.contains("%zz"), "{error}");
        }
    }
}
