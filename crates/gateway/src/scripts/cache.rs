//! Scripts that a tenant has sent, by their digests. If there are too many, the least recently used are forgotten:
//! clients send a script again when they are told `NOSCRIPT`.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_script::Digest;

use super::known::Known;

/// How many scripts are kept, and how many bytes of them.
const SCRIPTS_MAX: usize = 1000;
const BYTES_MAX: usize = 8 << 20;

/// The kept scripts of one tenant.
#[derive(Default)]
pub(crate) struct Cache {
    /// Scripts with the moment of their last use.
    scripts: BTreeMap<Digest, (Arc<Known>, u64)>,
    /// Digests by the moment of their last use.
    used: BTreeMap<u64, Digest>,
    bytes: usize,
    now: u64,
}

impl Cache {
    /// The script with this digest.
    pub(crate) fn get(&mut self, digest: &Digest) -> Option<Arc<Known>> {
        let (known, last) = self.scripts.get_mut(digest)?;
        self.now += 1;
        self.used.remove(last);
        self.used.insert(self.now, *digest);
        *last = self.now;
        Some(Arc::clone(known))
    }

    /// The number of scripts.
    pub(crate) fn len(&self) -> usize {
        self.scripts.len()
    }

    /// Whether the script is kept. This does not count as a use.
    pub(crate) fn has(&self, digest: &Digest) -> bool {
        self.scripts.contains_key(digest)
    }

    /// Keeps `known`, or notes that it was used.
    pub(crate) fn put(&mut self, known: &Arc<Known>) {
        let digest = known.script.digest;
        if self.get(&digest).is_some() {
            return;
        }
        self.now += 1;
        self.bytes += known.script.source.len();
        self.used.insert(self.now, digest);
        self.scripts.insert(digest, (Arc::clone(known), self.now));
        while self.scripts.len() > SCRIPTS_MAX || self.bytes > BYTES_MAX {
            let Some((_, digest)) = self.used.pop_first() else { break };
            let gone = self.scripts.remove(&digest);
            self.bytes -= gone.map_or(0, |(known, _)| known.script.source.len());
        }
    }

    /// Forgets all scripts.
    pub(crate) fn clear(&mut self) {
        *self = Self { now: self.now, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use weir_script::Script;

    use super::*;

    /// Keeps a script, and returns its digest.
    fn put(cache: &mut Cache, number: usize, len: usize) -> Digest {
        let script = Script::parse(format!("return {number:<5}{}", " ".repeat(len - 12)).as_bytes()).expect("a script");
        let digest = script.digest;
        cache.put(&Arc::new(Known::new(script)));
        digest
    }

    #[test]
    fn what_was_not_used_for_longest_is_forgotten() {
        let mut cache = Cache::default();
        let digests: Vec<Digest> = (0..SCRIPTS_MAX).map(|number| put(&mut cache, number, 20)).collect();
        assert!(cache.get(&digests[0]).is_some());
        put(&mut cache, SCRIPTS_MAX, 20);
        assert!(cache.has(&digests[0]) && !cache.has(&digests[1]) && cache.has(&digests[2]));
        // Eight scripts of a megabyte fill the cache.
        let large: Vec<Digest> = (0..8).map(|number| put(&mut cache, number, 1 << 20)).collect();
        assert!(large.iter().all(|digest| cache.has(digest)) && cache.scripts.len() == 8 && cache.bytes == BYTES_MAX);
        assert!(cache.get(&large[0]).is_some());
        put(&mut cache, 8, 1 << 20);
        assert!(cache.has(&large[0]) && !cache.has(&large[1]));
        cache.clear();
        assert!(!cache.has(&large[0]) && cache.bytes == 0 && cache.used.is_empty());
    }
}
