//! How write memory and block cache are shared in one run: one mode for each.

use std::fmt;
use std::str::FromStr;

use weir_io::Nanos;
use weir_node::{CacheMode, Promise, ShareMode};

const MS: Nanos = 1_000_000;

/// The modes of write memory and block cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// How the write memory is shared.
    pub memory: ShareMode,
    /// How the block cache is shared.
    pub cache: CacheMode,
}

impl Pair {
    /// The delays of both, if there are any.
    pub fn deltas(self) -> Option<[Nanos; 2]> {
        Some([self.memory.promise()?.delta, self.cache.promise()?.delta])
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.memory.promise(), self.cache.promise()) {
            (Some(Promise { delta, k }), Some(cache)) => {
                write!(f, "{}+{}", delta / MS, cache.delta / MS)?;
                if k == 1 { Ok(()) } else { write!(f, " for {k}") }
            }
            _ => self.memory.fmt(f),
        }
    }
}

impl FromStr for Pair {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let both = || {
            let (deltas, k) = text.split_once(" for ").unwrap_or((text, "1"));
            let (memory, cache) = deltas.split_once('+')?;
            let promise =
                |ms: &str| Some(Promise { delta: Nanos::from(ms.parse::<u32>().ok()?) * MS, k: k.parse().ok()? });
            Some(Self { memory: ShareMode::Delta(promise(memory)?), cache: CacheMode::Delta(promise(cache)?) })
        };
        match text {
            "fair" => Ok(Self { memory: ShareMode::Fair, cache: CacheMode::Fair }),
            "quota" => Ok(Self { memory: ShareMode::Quota, cache: CacheMode::Quota }),
            _ => both().filter(|pair| pair.memory.promise().is_some_and(|promise| promise.k > 0)).ok_or_else(|| {
                format!(
                    "{text:?} is no pair of delays: write \"350+500\" (ms, of memory and cache), \"350+500 for 2\" (tenants at a \
                     time), \"quota\" or \"fair\""
                )
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_as_they_are_shown() {
        for text in ["quota", "fair", "0+250", "350+500 for 2"] {
            assert_eq!(text.parse::<Pair>().map(|pair| pair.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "350", "350+", "350+500 for 0", "-1+5", "350+500+1"] {
            assert!(text.parse::<Pair>().is_err_and(|error| error.contains("350+500")), "{text}");
        }
    }
}
