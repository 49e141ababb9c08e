//! A record of the bill and its bytes, described in `docs/format/bill.md`.

use std::ops::AddAssign;

use weir_admission::{Booked, Direction};
use weir_io::Class;
use weir_journal::Entry;
use weir_model::varint;

use super::BillLine;

/// The only version there is.
const VERSION: u64 = 1;
/// The longest name of a tenant, in bytes.
const NAME_BYTES_MAX: usize = 63;
const CLASSES: usize = Class::ALL.len();

/// Usage of a tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Commands called.
    pub commands: u64,
    /// Thousandths of request units.
    pub milli_units: u64,
    /// Minutes in which the usage was looked at.
    pub minutes: u64,
    /// Bytes on disk, summed up over these minutes.
    pub disk_byte_minutes: u64,
    /// Bytes of rows in memory, summed up in the same way.
    pub memory_byte_minutes: u64,
    /// Bytes read from the device and written to it, by class in the order of [`Class::ALL`].
    pub device: [[u64; 2]; CLASSES],
}

impl Usage {
    /// Device bytes as `booked`.
    pub fn device_of(booked: &Booked) -> [[u64; 2]; CLASSES] {
        let of = |class| [Direction::Read, Direction::Write].map(|direction| booked[(class, direction)].bytes);
        Class::ALL.map(of)
    }

    fn numbers(&self) -> impl Iterator<Item = u64> {
        let Usage { commands, milli_units, minutes, disk_byte_minutes, memory_byte_minutes, device } = *self;
        [commands, milli_units, minutes, disk_byte_minutes, memory_byte_minutes]
            .into_iter()
            .chain(device.into_iter().flatten())
    }

    fn numbers_mut(&mut self) -> impl Iterator<Item = &mut u64> {
        let Usage { commands, milli_units, minutes, disk_byte_minutes, memory_byte_minutes, device } = self;
        [commands, milli_units, minutes, disk_byte_minutes, memory_byte_minutes]
            .into_iter()
            .chain(device.iter_mut().flatten())
    }

    /// What was counted since `earlier`, which is an older look at the same counters.
    #[must_use]
    pub fn since(&self, earlier: &Usage) -> Usage {
        let mut since = *self;
        since.numbers_mut().zip(earlier.numbers()).for_each(|(now, then)| *now = now.saturating_sub(then));
        since
    }

    /// Whether nothing was used.
    pub fn is_nothing(&self) -> bool {
        self.numbers().all(|number| number == 0)
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.numbers_mut().zip(other.numbers()).for_each(|(sum, more)| *sum = sum.saturating_add(more));
    }
}

/// What was used since the last record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BillEdit {
    /// Lines by hour and tenant.
    pub lines: Vec<BillLine>,
}

impl Entry for BillEdit {
    const MAGIC: &[u8; 8] = b"WEIRBILL";
    const PREFIX: &str = "BILL-";

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        varint::put(&mut out, VERSION);
        varint::put(&mut out, self.lines.len() as u64);
        for BillLine { hour, tenant, name, usage } in &self.lines {
            varint::put(&mut out, (*hour).into());
            varint::put(&mut out, (*tenant).into());
            varint::put(&mut out, name.len() as u64);
            out.extend_from_slice(name.as_bytes());
            usage.numbers().for_each(|number| varint::put(&mut out, number));
        }
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self, usize> {
        let mut rest = bytes;
        decode(&mut rest).filter(|_| rest.is_empty()).ok_or(bytes.len() - rest.len())
    }
}

fn decode(rest: &mut &[u8]) -> Option<BillEdit> {
    if varint::take(rest)? != VERSION {
        return None;
    }
    // Grows with the bytes that are there, not with what is announced.
    let (count, mut lines) = (varint::take(rest)?, Vec::new());
    for _ in 0..count {
        let (hour, tenant) = (u32::try_from(varint::take(rest)?).ok()?, u32::try_from(varint::take(rest)?).ok()?);
        let name = std::str::from_utf8(varint::take_slice(rest)?).ok().filter(|name| name.len() <= NAME_BYTES_MAX)?;
        let mut usage = Usage::default();
        for number in usage.numbers_mut() {
            *number = varint::take(rest)?;
        }
        lines.push(BillLine { hour, tenant, name: name.to_owned(), usage });
    }
    Some(BillEdit { lines })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line() -> impl Strategy<Value = BillLine> {
        let numbers = (any::<[u64; 5]>(), any::<[[u64; 2]; CLASSES]>());
        (any::<u32>(), any::<u32>(), "[a-z0-9_-]{0,63}", numbers).prop_map(|(hour, tenant, name, (five, device))| {
            let [commands, milli_units, minutes, disk_byte_minutes, memory_byte_minutes] = five;
            let usage = Usage { commands, milli_units, minutes, disk_byte_minutes, memory_byte_minutes, device };
            BillLine { hour, tenant, name, usage }
        })
    }

    proptest! {
        #[test]
        fn a_record_decodes_to_itself(lines in proptest::collection::vec(line(), 0..5)) {
            let edit = BillEdit { lines };
            prop_assert_eq!(BillEdit::decode(&edit.encode()), Ok(edit));
        }

        #[test]
        fn any_bytes_decode_or_are_refused_without_a_panic(bytes: Vec<u8>) {
            let _ = BillEdit::decode(&bytes);
        }
    }
}
