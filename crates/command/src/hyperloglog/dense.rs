//! Registers of six bits each, one behind the other, from the lowest bit of the first byte on.

use super::{REGISTERS, Registers};

const BITS: usize = 6;

/// The highest rank that fits a register.
pub const REGISTER_MAX: u8 = (1 << BITS) - 1;

/// Bytes of all registers.
pub(super) const BYTES: usize = REGISTERS * BITS / 8;

/// The byte and the bit at which the register `index` begins.
fn place(index: usize) -> (usize, usize) {
    (index * BITS / 8, index * BITS % 8)
}

/// The two bytes from `byte` on as one number; a byte behind the last one counts as 0.
fn two(bytes: &[u8], byte: usize) -> u16 {
    u16::from_le_bytes([bytes[byte], bytes.get(byte + 1).copied().unwrap_or(0)])
}

fn get(bytes: &[u8], index: usize) -> u8 {
    let (byte, bit) = place(index);
    (two(bytes, byte) >> bit) as u8 & REGISTER_MAX
}

/// Raises the register `index` of `bytes` to `rank`; gives whether it was lower.
pub(super) fn raise(bytes: &mut [u8], index: usize, rank: u8) -> bool {
    if get(bytes, index) >= rank {
        return false;
    }
    let (byte, bit) = place(index);
    let cleared = two(bytes, byte) & !(u16::from(REGISTER_MAX) << bit);
    let [first, second] = (cleared | u16::from(rank) << bit).to_le_bytes();
    bytes[byte] = first;
    if let Some(next) = bytes.get_mut(byte + 1) {
        *next = second;
    }
    true
}

/// Raises `registers` to those in `bytes`, which has [`BYTES`] bytes. Three bytes have four registers.
pub(super) fn merge(bytes: &[u8], registers: &mut Registers) {
    let (threes, _) = bytes.as_chunks::<3>();
    let (fours, _) = registers.as_chunks_mut::<4>();
    for (&[first, second, third], four) in threes.iter().zip(fours) {
        let bits = u32::from_le_bytes([first, second, third, 0]);
        for (place, register) in four.iter_mut().enumerate() {
            *register = (*register).max((bits >> (BITS * place)) as u8 & REGISTER_MAX);
        }
    }
}
