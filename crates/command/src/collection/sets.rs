//! Members of a set: they have names only.
//!
//! A set of whole numbers is returned in the order of the numbers, as long as Redis would keep it as numbers. A packed
//! set is stored in that order.

use weir_model::parts::{ELEMENT_SPACE, PackedPart};

use super::Collection;
use crate::context::Context;
use crate::error::Outcome;
use crate::number::parse_i64;

/// Most members of a set that Redis keeps as whole numbers, by its defaults.
pub const NUMBERS_MAX: usize = 512;

impl Collection<'_> {
    /// Whether Redis would keep the set as whole numbers.
    pub fn is_of_numbers(&self) -> bool {
        !self.is_large()
    }

    /// Adds `member` to a set; `false` if it was there.
    ///
    /// # Errors
    /// The member cannot be read; it is too long.
    pub async fn add_member(&mut self, cx: &mut Context<'_>, member: &[u8]) -> Outcome<bool> {
        let is_new = self.member_value(cx, member).await?.is_none();
        if is_new {
            self.add_new_member(cx, member)?;
        }
        Ok(is_new)
    }

    /// Adds `member`, which has to be missing, to a set.
    ///
    /// # Errors
    /// The member is too long.
    pub fn add_new_member(&mut self, cx: &mut Context<'_>, member: &[u8]) -> Outcome {
        let number = parse_i64(member);
        if number.is_none() || self.len() >= NUMBERS_MAX as u64 {
            self.note_large();
        }
        let place = match self.packed() {
            Some(packed) if self.is_of_numbers() => {
                packed.iter().position(|part| parse_i64(part.subkey) > number).unwrap_or(usize::MAX)
            }
            _ => return self.put_member(cx, None, member, &[]),
        };
        // The place of the number among the others was looked for.
        cx.passed_packed(self.len() as usize);
        self.count(1, member.len() as i64);
        self.change_packed(cx, |packed| {
            packed.insert(place, PackedPart { space: ELEMENT_SPACE, subkey: member, value: &[], expire_at_ms: None });
        })
    }
}
