//! A script as a client sent it.

use sha1::{Digest as _, Sha1};
use weir_command::error::{Error, Outcome};

/// SHA-1 of a script's bytes, by which clients name it.
pub type Digest = [u8; 20];

/// The digest of `source`.
pub fn digest(source: &[u8]) -> Digest {
    Sha1::digest(source).into()
}

/// The digest that 40 hexadecimal digits stand for, in upper or lower case.
pub fn parse_digest(word: &[u8]) -> Option<Digest> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let mut digest = Digest::default();
    if word.len() != 2 * digest.len() {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(word.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(digest)
}

/// A digest as clients read it: 40 hexadecimal digits.
pub fn digest_text(digest: &Digest) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The source of a script, its digest and its flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// All bytes of the script.
    pub source: Vec<u8>,
    /// SHA-1 of these bytes.
    pub digest: Digest,
    /// The script's first line says that it writes nothing.
    pub writes_nothing: bool,
}

/// Longest script, in bytes: a thread that serves clients computes its digest.
pub(crate) const SOURCE_BYTES_MAX: usize = 1 << 20;

/// The flags that the first line of a script may have.
const FLAGS: [&str; 5] = ["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];

impl Script {
    /// The script of these bytes, which may begin with a line such as `#!lua flags=no-writes`.
    ///
    /// # Errors
    /// The first line is malformed; or the script is too long.
    pub fn parse(source: &[u8]) -> Outcome<Self> {
        if source.len() > SOURCE_BYTES_MAX {
            return Err(Error::new("ERR a script is at most 1 MB long"));
        }
        let mut script = Self { source: source.into(), digest: digest(source), writes_nothing: false };
        if !source.starts_with(b"#!") {
            return Ok(script);
        }
        let end = source.iter().position(|&byte| byte == b'\n').ok_or(Error::new("ERR Invalid script shebang"))?;
        let mut words = source[..end].split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
        let refused = |text: &str, word: &[u8]| Error::bytes([text.as_bytes(), word].concat());
        let engine = words.next().unwrap_or_default();
        if engine != b"#!lua" {
            return Err(refused("ERR Unexpected engine in script shebang: ", engine));
        }
        for word in words {
            let Some(flags) = word.strip_prefix(b"flags=") else {
                return Err(refused("ERR Unknown lua shebang option: ", word));
            };
            for flag in flags.split(|&byte| byte == b',').filter(|flag| !flag.is_empty()) {
                if !FLAGS.iter().any(|known| known.as_bytes() == flag) {
                    return Err(refused("ERR Unexpected flag in script shebang: ", flag));
                }
                script.writes_nothing |= flag == b"no-writes";
            }
        }
        Ok(script)
    }

    /// Whether the script has a first line such as `#!lua` that does not name the flag `no-writes`: as in Redis, such a
    /// script counts as one that writes. Without such a line, nothing is known.
    pub fn says_that_it_writes(&self) -> bool {
        self.source.starts_with(b"#!") && !self.writes_nothing
    }

    /// The source to compile. A first line that is not Lua is left out, except for its line end, so that lines keep
    /// their numbers.
    pub(crate) fn lua(&self) -> &[u8] {
        lua_of(&self.source)
    }
}

/// `source` without its first line, if that is not Lua.
pub(crate) fn lua_of(source: &[u8]) -> &[u8] {
    match source.starts_with(b"#!") {
        true => {
            let end = source.iter().position(|&byte| byte == b'\n').unwrap_or(source.len());
            &source[end..]
        }
        false => source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_redis_in_any_case() {
        let digest = digest(b"return 1");
        assert_eq!(digest_text(&digest), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        assert_eq!(parse_digest(b"E0E1F9FABFC9D4800C877A703B823AC0578FF8DB"), Some(digest));
        assert_eq!([parse_digest(b"e0"), parse_digest(&[b'x'; 40])], [None; 2]);
    }

    #[test]
    fn the_first_line_is_checked() {
        let error = |source: &str| Script::parse(source.as_bytes()).err().map(|error| error.text().to_vec());
        assert_eq!(error("#!foo\n"), Some(b"ERR Unexpected engine in script shebang: #!foo".to_vec()));
        assert_eq!(error("#!lua flags=a\n"), Some(b"ERR Unexpected flag in script shebang: a".to_vec()));
        assert_eq!(error("#!lua name=x\n"), Some(b"ERR Unknown lua shebang option: name=x".to_vec()));
        assert_eq!(error("#!lua"), Some(b"ERR Invalid script shebang".to_vec()));
        let script = Script::parse(b"#!lua flags=no-writes,allow-oom\nreturn 1").expect("it is one");
        assert!(script.writes_nothing && script.lua() == b"\nreturn 1");
    }
}
