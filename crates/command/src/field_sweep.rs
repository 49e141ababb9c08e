//! Takes expired fields out of a hash. The owner of the rows runs this when the agenda says so.

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

/// How many fields are taken out as one: that takes well below a millisecond.
const FIELDS_AT_ONCE: usize = 64;

/// The head is wrong about its fields. `weir check` finds that, too.
const NOTHING_DUE: Error = Error::new("ERR no field has the deadline that the head of its hash names");

/// The work on one entry of the agenda. Afterwards the entry is gone, or has moved, or stands for fewer fields.
pub struct FieldSweep {
    row: StoredKey,
    first_ms: u64,
    now_ms: u64,
    /// What the next step begins behind, empty before the first; `None` once the entry has gone or moved.
    next: Option<Vec<u8>>,
}

impl FieldSweep {
    /// A sweep of the row with the stored key `row`, which is on the agenda at `first_ms`. `now_ms` is not before that.
    pub fn new(row: &[u8], first_ms: u64, now_ms: u64) -> Self {
        Self { row: StoredKey::of(row), first_ms, now_ms, next: Some(Vec::new()) }
    }

    /// Whether the entry has gone or moved. If not, more fields have the same deadline, and the sweep has to be run
    /// again.
    pub fn is_done(&self) -> bool {
        self.next.is_none()
    }

    /// Does one step of what there is to be done with the row of `key`. Gives the new `next`.
    async fn sweep(&self, cx: &mut Context<'_>, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
        match cx.get(key).await? {
            // The whole row has expired, or there is none.
            None => cx.delete(key)?,
            Some(Row { content: Content::Parts(head), .. })
                if head.mortal().is_some_and(|mortal| mortal.first_ms == self.first_ms) =>
            {
                if let Some(mut hash) = cx.collection(key, RowType::Hash).await? {
                    let from = self.next.as_deref().unwrap_or_default();
                    if !hash.sweep(cx, FIELDS_AT_ONCE, from).await? {
                        return Err(NOTHING_DUE);
                    }
                    cx.save_hash(&mut hash).await?;
                    let is_left = hash.mortal().is_some_and(|mortal| mortal.first_ms == self.first_ms);
                    return Ok(is_left.then(|| hash.swept_to().to_vec()));
                }
            }
            Some(_) => {}
        }
        // The entry belongs to its row no longer, so nobody else moves it.
        cx.forget_agenda(&agenda_key(self.first_ms, &self.row));
        Ok(None)
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
            let swept = self.sweep(&mut context, key).await;
            let mut finished = context.end(swept.map(|next| self.next = next));
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
