//! Commands on rows that are run as one, where their rows are: what was queued for `EXEC`, or commands of a pipeline
//! that follow one another.

use std::sync::Arc;

use weir_command::bill::Bill;
use weir_command::error::{Error, Outcome, REPLY_TOO_LONG};
use weir_command::reply::{Mark, OUTPUT_BYTES_MAX};
use weir_command::{Args, Call, Command, Context, Draft, Host, Rows, Transaction, Waiting, rows_of, run};
use weir_io::{Clock, Nanos, Result};
use weir_model::StoredKey;

use crate::resp::transaction::Watched;

/// One of them.
#[derive(Clone, Copy)]
pub(super) struct Member<'a> {
    pub(super) command: &'static Command,
    pub(super) args: Args<'a>,
    /// The number of the database that it is about.
    pub(super) database: u8,
}

/// What has become of one.
pub(super) struct Done {
    pub(super) call: Call,
    pub(super) outcome: Outcome,
    /// Where its answer ends.
    pub(super) to: Mark,
    /// When it ended.
    pub(super) at: Nanos,
}

/// See the module. The answers stand one behind the other in the host's replies.
pub(super) struct AsOne<'a> {
    pub(super) members: &'a [Member<'a>],
    pub(super) watched: &'a [Watched],
    /// How often the tenant has been emptied.
    pub(super) flushes: u64,
    /// What each begins with.
    pub(super) call: Call,
    /// They are charged.
    pub(super) is_limited: bool,
    /// Bytes of answers after which the rest is left; `None` where all must be run.
    pub(super) answer_bytes_max: Option<usize>,
    pub(super) host: &'a mut dyn Host,
    pub(super) clock: &'a Arc<dyn Clock>,
    /// Where the answers begin.
    pub(super) from: Mark,
    /// Of those that were run.
    pub(super) done: Vec<Done>,
    /// Something that is watched was changed, and nothing was run.
    pub(super) is_stale: bool,
}

impl AsOne<'_> {
    /// Runs `member` and writes its answer.
    async fn run_one(&mut self, rows: &dyn Rows, member: Member<'_>, draft: Draft) -> Draft {
        let bill = self.is_limited.then(Bill::default);
        let mut call = Call { database: member.database, bill, ..self.call.clone() };
        let begin = self.host.replies().mark();
        let others = self.host.replies().begin_element();
        let context = Context::locked(rows, self.host, &mut call, draft);
        let finished = run(member.command, context, member.args).await;
        let replies = self.host.replies();
        let outcome = finished.outcome.and_then(|()| match replies.is_whole() {
            true if replies.len_since(self.from) <= OUTPUT_BYTES_MAX => Ok(()),
            true => Err(REPLY_TOO_LONG),
            false => Err(Error::new("ERR internal error: the reply was not whole")),
        });
        if let Err(error) = &outcome {
            replies.rewind(begin);
            replies.error(error.text());
        }
        replies.end_element(others);
        let to = replies.mark();
        self.done.push(Done { call, outcome, to, at: self.clock.now() });
        finished.draft
    }
}

impl Transaction for AsOne<'_> {
    fn rows(&self) -> Vec<StoredKey> {
        let of_member = |member: &Member<'_>| rows_of(member.command, member.args, member.database);
        let watched = self.watched.iter().map(|watched| StoredKey::new(watched.database, &watched.key));
        self.members.iter().flat_map(of_member).chain(watched).collect()
    }

    fn run<'a>(&'a mut self, rows: &'a dyn Rows) -> Waiting<'a, Result<Draft>> {
        Box::pin(async move {
            // It may be run again.
            self.host.replies().rewind(self.from);
            self.done.clear();
            let mut draft = Draft::default();
            for watched in self.watched {
                if watched.is_changed(rows, self.call.now_ms, self.flushes).await? {
                    self.is_stale = true;
                    return Ok(draft);
                }
            }
            for &member in self.members {
                draft = self.run_one(rows, member, draft).await;
                if self.answer_bytes_max.is_some_and(|max| self.host.replies().len_since(self.from) > max) {
                    break;
                }
            }
            Ok(draft)
        })
    }
}
