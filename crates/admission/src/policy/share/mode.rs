//! The modes by which a pool is shared between tenants that use little and tenants that would use everything, and their
//! names.

use std::fmt;
use std::str::FromStr;

use weir_io::Nanos;

const MS: Nanos = 1_000_000;

/// How a pool is shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShareMode {
    /// A quarter of the pool is only for tenants within an equal part of it. Every tenant that uses something counts.
    #[default]
    Quarter,
    /// Every tenant has its fair share, and nobody has more (a delay of 0 for all tenants at once; DF-18).
    Quota,
    /// Nothing is kept in reserve (an infinite delay; DF-18).
    Fair,
    /// As much is kept in reserve as the delays need ([`super::delta`]).
    Delta(Promise),
}

/// The promise to tenants below their fair share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// They have their share within this many nanoseconds, δ,
    pub delta: Nanos,
    /// if no more than this many of them ask for it at the same time, k.
    pub k: u32,
}

impl Promise {
    /// 350 ms for one at a time (U-14).
    pub const DEFAULT: Self = Self { delta: 350 * MS, k: 1 };
}

impl ShareMode {
    /// The promise, if one is made that takes time.
    pub fn promise(self) -> Option<Promise> {
        match self {
            ShareMode::Delta(promise) => Some(promise),
            ShareMode::Quarter | ShareMode::Quota | ShareMode::Fair => None,
        }
    }
}

impl fmt::Display for ShareMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShareMode::Quarter => f.write_str("quarter"),
            ShareMode::Quota => f.write_str("quota"),
            ShareMode::Fair => f.write_str("fair"),
            ShareMode::Delta(Promise { delta, k: 1 }) => write!(f, "delta {} ms", delta / MS),
            ShareMode::Delta(Promise { delta, k }) => write!(f, "delta {} ms for {k}", delta / MS),
        }
    }
}

impl FromStr for ShareMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let wrong = || {
            format!(
                "{text:?} is not a way to share: write \"quarter\", \"quota\", \"fair\", \"delta\", \"delta 350 ms\" \
                 or \"delta 350 ms for 2\" (2 tenants at a time)"
            )
        };
        let promise = |delta: &str, k: &str| {
            // Nobody wants a delay of more than an hour.
            let delta = delta.parse::<Nanos>().ok().filter(|delta| *delta <= 3_600_000)?;
            let k = k.parse().ok().filter(|k| *k >= 1)?;
            Some(ShareMode::Delta(Promise { delta: delta * MS, k }))
        };
        match words[..] {
            ["quarter"] => Ok(ShareMode::Quarter),
            ["quota"] => Ok(ShareMode::Quota),
            ["fair"] => Ok(ShareMode::Fair),
            ["delta"] => Ok(ShareMode::Delta(Promise::DEFAULT)),
            ["delta", delta, "ms"] => promise(delta, "1").ok_or_else(wrong),
            ["delta", delta, "ms", "for", k] => promise(delta, k).ok_or_else(wrong),
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_read_as_they_are_shown() {
        for text in ["quarter", "quota", "fair", "delta 0 ms", "delta 350 ms", "delta 200 ms for 2"] {
            assert_eq!(text.parse::<ShareMode>().map(|mode| mode.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("delta".parse(), Ok(ShareMode::Delta(Promise::DEFAULT)));
        for text in ["", "half", "delta ms", "delta -1 ms", "delta 350", "delta 350 ms for 0", "delta 4000000 ms"] {
            assert!(text.parse::<ShareMode>().is_err_and(|error| error.contains("\"quota\"")), "{text}");
        }
    }
}
