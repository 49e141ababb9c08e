//! Remembering what was thrown out, without remembering much.

/// A set of hashes that forgets: each hash has a group of four places, where the newest replaces the oldest; and a hash
/// counts only as long as no more than the wanted number came after it. A false memory (one in four billion per place)
/// costs a better queue for one block.
#[derive(Default)]
pub(super) struct Ghosts {
    places: Vec<Place>,
    /// Number of the next hash; wraps.
    now: u32,
}

#[derive(Clone, Copy, Default)]
struct Place {
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
        if self.places.len() < wanted {
            self.places = vec![Place::default(); wanted];
        }
        self.now = self.now.wrapping_add(1);
        let now = self.now;
        let place = Place { fingerprint: fingerprint(hash), born: now };
        let group = self.group(hash);
        let oldest = group
            .iter_mut()
            .max_by_key(|place| if place.fingerprint == 0 { u32::MAX } else { now.wrapping_sub(place.born) });
        if let Some(oldest) = oldest {
            *oldest = place;
        }
    }

    /// Whether `hash` is among the last `entries` remembered; forgets it.
    pub(super) fn take(&mut self, hash: u64, entries: usize) -> bool {
        if self.places.is_empty() {
            return false;
        }
        let now = self.now;
        let wanted = fingerprint(hash);
        let Some(place) = self.group(hash).iter_mut().find(|place| place.fingerprint == wanted) else { return false };
        let is_young = now.wrapping_sub(place.born) as usize <= entries;
        *place = Place::default();
        is_young
    }

    fn group(&mut self, hash: u64) -> &mut [Place] {
        let groups = self.places.len() / GROUP;
        let start = hash as usize % groups * GROUP;
        &mut self.places[start..start + GROUP]
    }
}

fn fingerprint(hash: u64) -> u32 {
    ((hash >> 32) as u32).max(1)
}
