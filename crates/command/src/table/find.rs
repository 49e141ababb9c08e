//! Finding a command by its name: every request does.

use std::sync::LazyLock;

use super::{COMMANDS, Command};

/// Longest name in the table, in bytes. With its length it fits 16 bytes, which are compared at once.
const NAME_BYTES_MAX: usize = 15;
/// Slots of the look-up: a power of two, several times the number of commands, so that probes are short.
const SLOTS: usize = 512;

struct Lookup {
    slots: [Option<(u128, &'static Command)>; SLOTS],
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

/// The name in lower case and its length as one number; `None` if it is too long to be in the table.
#[inline]
fn pack(name: &[u8]) -> Option<u128> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let mut bytes = [0; NAME_BYTES_MAX + 1];
    bytes[NAME_BYTES_MAX] = name.len() as u8;
    for (packed, byte) in bytes[..NAME_BYTES_MAX].iter_mut().zip(name) {
        *packed = byte.to_ascii_lowercase();
    }
    Some(u128::from_le_bytes(bytes))
}

#[inline]
fn slot_of(name: u128) -> usize {
    let folded = (name as u64) ^ (name >> 64) as u64;
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
        for unknown in ["", "ge", "gett", "a_name_longer_than_any_command", "get\0"] {
            assert!(find(unknown.as_bytes()).is_none(), "{unknown:?}");
        }
    }
}
