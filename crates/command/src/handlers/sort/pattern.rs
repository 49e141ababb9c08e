//! Patterns that name another key for every element: `weight_*`, or `object_*->field` for a field of a hash.

use weir_model::parts::RowType;
use weir_model::{KEY_BYTES_MAX, Value};

use super::ELEMENT_BYTES;
use crate::context::Context;
use crate::error::{Outcome, WRONG_TYPE};
use crate::events::Classes;
use crate::room::Room;

/// What is looked up for each element.
pub(super) struct Pattern<'a> {
    /// `#`: the element itself.
    is_element: bool,
    /// The text in front of the star, and the text behind it; `None` if there is no star.
    around: Option<(&'a [u8], &'a [u8])>,
    field: Option<&'a [u8]>,
}

impl<'a> Pattern<'a> {
    pub(super) fn new(word: &'a [u8]) -> Self {
        let star = word.iter().position(|&byte| byte == b'*');
        let Some((front, back)) = star.map(|star| (&word[..star], &word[star + 1..])) else {
            return Self { is_element: word == b"#", around: None, field: None };
        };
        let arrow = back.windows(2).position(|two| two == b"->").filter(|&arrow| arrow + 2 < back.len());
        let (back, field) = match arrow {
            Some(arrow) => (&back[..arrow], Some(&back[arrow + 2..])),
            None => (back, None),
        };
        Self { is_element: false, around: Some((front, back)), field }
    }

    /// Whether the pattern names another key for every element.
    pub(super) fn has_star(&self) -> bool {
        self.around.is_some()
    }

    /// The value that the pattern names for `element`, if there is one. Where misses are told, a missing key takes some
    /// of `room`: its event is kept until the command has ended.
    pub(super) async fn look_up(
        &self,
        cx: &mut Context<'_>,
        element: &[u8],
        room: &mut Room,
    ) -> Outcome<Option<Value>> {
        let Some((front, back)) = self.around else {
            return Ok(self.is_element.then(|| element.to_vec().into()));
        };
        let key = [front, element, back].concat();
        if key.len() > KEY_BYTES_MAX {
            return Ok(None);
        }
        let found = match self.field {
            None => cx.string(&key).await.map(|row| row.map(|row| row.value)),
            Some(field) => match cx.collection(&key, RowType::Hash).await {
                Ok(Some(hash)) => hash.member(cx, field).await.map(|member| member.map(|member| member.value)),
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            },
        };
        match found {
            Ok(None) if cx.wants().has(Classes::KEY_MISS) => room.take(ELEMENT_BYTES + key.len()).map(|()| None),
            Err(error) if error == WRONG_TYPE => Ok(None),
            found => found,
        }
    }
}
