//! Remembering what was thrown out, without remembering much.

/// A set of hashes that forgets: each hash has a group of four, where the newest replaces the oldest; and a hash counts
/// only as long as no more than the wanted number came after it. A false memory (one in four billion per ghost) only
/// puts one block into a better queue.
#[derive(Default)]
pub(super) struct Ghosts {
    ghosts: Vec<Ghost>,
    /// Number of the next hash; wraps.
    now: u32,
}

#[derive(Clone, Copy, Default)]
struct Ghost {
    /// 0 = free.
    fingerprint: u32,
    born: u32,
}

const GROUP: usize = 4;

impl Ghosts {
    /// Remembers `hash`. `entries` is how many hashes the memory should hold; it grows to that, forgetting all when it
    /// does.
    pub(super) fn add(&mut self, hash: u64, entries: usize) {
        let wanted = (entries + entries / 2).next_power_of_two().max(64);
        if self.ghosts.len() < wanted {
            self.ghosts = vec![Ghost::default(); wanted];
        }
        self.now = self.now.wrapping_add(1);
        let now = self.now;
        let ghost = Ghost { fingerprint: fingerprint(hash), born: now };
        let group = self.group(hash);
        let oldest = group
            .iter_mut()
            .max_by_key(|ghost| if ghost.fingerprint == 0 { u32::MAX } else { now.wrapping_sub(ghost.born) });
        if let Some(oldest) = oldest {
            *oldest = ghost;
        }
    }

    /// Whether `hash` is among the last `entries` remembered; forgets it.
    pub(super) fn take(&mut self, hash: u64, entries: usize) -> bool {
        if self.ghosts.is_empty() {
            return false;
        }
        let now = self.now;
        let wanted = fingerprint(hash);
        let Some(ghost) = self.group(hash).iter_mut().find(|ghost| ghost.fingerprint == wanted) else { return false };
        let is_young = now.wrapping_sub(ghost.born) as usize <= entries;
        *ghost = Ghost::default();
        is_young
    }

    fn group(&mut self, hash: u64) -> &mut [Ghost] {
        let groups = self.ghosts.len() / GROUP;
        let start = hash as usize % groups * GROUP;
        &mut self.ghosts[start..start + GROUP]
    }
}

fn fingerprint(hash: u64) -> u32 {
    ((hash >> 32) as u32).max(1)
}
