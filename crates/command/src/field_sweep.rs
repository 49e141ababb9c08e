//! Takes fields out of a hash that have expired: what whoever has the rows runs when the agenda says so.

use weir_io::{ErrorKind, Result, Rng, Yield};
use weir_model::parts::RowType;
use weir_model::parts::fields::agenda_key;
use weir_model::{Content, Row, StoredKey, VALUE_BYTES_MAX};

use crate::context::{Call, Context};
use crate::draft::Draft;
use crate::error::{Error, Outcome};
use crate::headless::Headless;
use crate::reply::Protocol;
use crate::rows::{Rows, Waiting};
use crate::transaction::Transaction;

/// Fields that are taken out as one: well below a millisecond.
const FIELDS_AT_ONCE: usize = 64;

/// What the head says is not so. `weir check` finds it, too.
const NOTHING_DUE: Error = Error::new("ERR no field has the deadline that the head of its hash names");

/// See the module. One entry of the agenda: it goes, or moves, or stands for a field less.
pub struct FieldSweep {
    row: StoredKey,
    first_ms: u64,
    now_ms: u64,
}

impl FieldSweep {
    /// The row with the stored key `row` is on the agenda at `first_ms`, and `now_ms` is no less.
    pub fn new(row: &[u8], first_ms: u64, now_ms: u64) -> Self {
        Self { row: StoredKey::of(row), first_ms, now_ms }
    }

    /// What is to be done with the row of `key`.
    async fn sweep(&self, cx: &mut Context<'_>, key: &[u8]) -> Outcome {
        match cx.get(key).await? {
            // The whole row has expired, or there is none.
            None => cx.delete(key)?,
            Some(Row { content: Content::Parts(head), .. })
                if head.mortal().is_some_and(|mortal| mortal.first_ms == self.first_ms) =>
            {
                if let Some(mut hash) = cx.collection(key, RowType::Hash).await? {
                    if !hash.sweep(cx, FIELDS_AT_ONCE).await? {
                        return Err(NOTHING_DUE);
                    }
                    return cx.save_hash(&mut hash).await;
                }
            }
            Some(_) => {}
        }
        // Nobody moves an entry that does not belong to its row any more.
        cx.forget_agenda(&agenda_key(self.first_ms, &self.row));
        Ok(())
    }
}

impl Transaction for FieldSweep {
    fn rows(&self) -> Vec<StoredKey> {
        vec![self.row.clone()]
    }

    fn run<'a>(&'a mut self, rows: &'a dyn Rows) -> Waiting<'a, Result<Draft>> {
        Box::pin(async move {
            let Some((&database, key)) = self.row.split_first() else { return Ok(Draft::default()) };
            let mut host = Headless::new(Protocol::Resp2, Yield::PLAIN, Rng::new(0));
            let mut call = Call::new(database, self.now_ms, VALUE_BYTES_MAX);
            let mut context = Context::locked(rows, &mut host, &mut call, Draft::default());
            let outcome = self.sweep(&mut context, key).await;
            let mut finished = context.end(outcome);
            match finished.outcome {
                Ok(()) => {
                    finished.draft.settle(|_, _| {});
                    Ok(finished.draft)
                }
                Err(error) => {
                    let message = String::from_utf8_lossy(error.text()).into_owned();
                    Err(weir_io::Error::new(ErrorKind::Invalid, "sweep fields of", "a hash", message))
                }
            }
        })
    }
}
