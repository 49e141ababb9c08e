//! Finding a command by its name: every request does.

use std::sync::LazyLock;

use super::{COMMANDS, Command};

/// Longest name in the table, in bytes. With its length it fits three words, which are compared at once.
const NAME_BYTES_MAX: usize = 23;

/// A name in lower case, and its length.
type Packed = [u64; 3];

/// Slots of the look-up: a power of two, several times the number of commands, so that probes are short.
const SLOTS: usize = 512;

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
    let mut bytes = [0; NAME_BYTES_MAX + 1];
    bytes[NAME_BYTES_MAX] = name.len() as u8;
    for (packed, byte) in bytes[..NAME_BYTES_MAX].iter_mut().zip(name) {
        *packed = byte.to_ascii_lowercase();
    }
    let mut words = [0; 3];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    Some(words)
}

#[inline]
fn slot_of([first, second, third]: Packed) -> usize {
    // Rotated, so that words that are alike do not cancel each other.
    let folded = first ^ second.rotate_left(24) ^ third.rotate_left(48);
    (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 55) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

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
