//! Finding a command by its name: every request does.

use std::sync::LazyLock;

use super::{COMMANDS, Command};

/// Longest name in the table, in bytes. Together with its length it fits three words, which are compared at once.
const NAME_BYTES_MAX: usize = 23;

/// A name in lower case, and its length.
type Packed = [u64; 3];

/// Slots of the look-up: a power of two, several times the number of commands, so that probes are short.
const SLOTS: usize = 1024;

struct Lookup {
    slots: [Option<(Packed, &'static Command)>; SLOTS],
}

static LOOKUP: LazyLock<Lookup> = LazyLock::new(|| {
    let mut slots = [None; SLOTS];
    for command in COMMANDS {
        let name = pack(command.name.as_bytes()).expect("command names are short");
        let mut slot = slot_of(name);
        while slots[slot].is_some() {
            slot = (slot + 1) % SLOTS;
        }
        slots[slot] = Some((name, command));
    }
    Lookup { slots }
});

/// The command called `name`, in any mixture of cases.
#[inline]
pub fn find(name: &[u8]) -> Option<&'static Command> {
    let name = pack(name)?;
    let mut slot = slot_of(name);
    while let Some((candidate, command)) = LOOKUP.slots[slot] {
        if candidate == name {
            return Some(command);
        }
        slot = (slot + 1) % SLOTS;
    }
    None
}

/// The name in lower case and its length; `None` if it is too long to be in the table.
#[inline]
fn pack(name: &[u8]) -> Option<Packed> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let from = |start: usize| lower_case(first_bytes(name.get(start..).unwrap_or_default()));
    Some([from(0), from(8), from(16) | (name.len() as u64) << 56])
}

/// Up to eight bytes as a number, the first byte lowest. They are loaded as whole words: bytes that were stored one by
/// one and then read as a word would have to reach the cache first.
#[inline]
fn first_bytes(bytes: &[u8]) -> u64 {
    let half = |place: usize| bytes[place..].first_chunk().map_or(0, |half| u64::from(u32::from_le_bytes(*half)));
    match bytes.len() {
        8.. => bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word)),
        len @ 4..8 => half(0) | half(len - 4) << (8 * (len - 4)),
        len => bytes.iter().take(len).rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    }
}

/// The same bytes in lower case, all eight at once.
#[inline]
fn lower_case(word: u64) -> u64 {
    const fn each(byte: u8) -> u64 {
        u64::from_le_bytes([byte; 8])
    }
    let low = word & each(0x7f);
    // The highest bit of each byte tells: at least `A`, and behind `Z`.
    let (is_letter, is_behind) = (low + each(0x80 - b'A'), low + each(0x7f - b'Z'));
    let is_capital = is_letter & !is_behind & !word & each(0x80);
    word | (is_capital >> 2)
}

#[inline]
fn slot_of([first, second, third]: Packed) -> usize {
    // The words are rotated, so that similar ones do not cancel each other.
    let folded = first ^ second.rotate_left(24) ^ third.rotate_left(48);
    (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SLOTS.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn names_are_packed_byte_by_byte(name in proptest::collection::vec(0_u8.., 0..26)) {
            let mut bytes = [0; NAME_BYTES_MAX + 1];
            let short = (name.len() <= NAME_BYTES_MAX).then(|| {
                bytes[..name.len()].copy_from_slice(&name.to_ascii_lowercase());
                bytes[NAME_BYTES_MAX] = name.len() as u8;
                std::array::from_fn(|word| u64::from_le_bytes(*bytes[8 * word..].first_chunk().expect("three words")))
            });
            proptest::prop_assert_eq!(pack(&name), short);
        }
    }

    #[test]
    fn every_command_is_found_by_its_name_in_any_case() {
        for (index, command) in COMMANDS.iter().enumerate() {
            assert_eq!(command.index, index);
            assert!(std::ptr::eq(find(command.name.as_bytes()).expect("known"), command));
            assert!(std::ptr::eq(find(command.name.to_uppercase().as_bytes()).expect("known"), command));
        }
        for unknown in ["", "ge", "gett", "a_name_that_is_longer_than_that_of_any_command", "get\0"] {
            assert!(find(unknown.as_bytes()).is_none(), "{unknown:?}");
        }
    }
}
