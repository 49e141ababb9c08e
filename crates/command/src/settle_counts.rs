//! Counting the changes that commands which run as one have left uncounted.

use weir_model::parts::{Life, RowType};

use crate::args::Args;
use crate::context::{Call, Context};
use crate::draft::Draft;
use crate::error::{Outcome, WRONG_TYPE};
use crate::host::Host;
use crate::rows::Rows;
use crate::table::{Command, Id};
use crate::uncounted::Uncounted;

impl Command {
    /// Whether the command reads no counts of the sorted sets that it is about. Such a command may leave its changes of
    /// counts to [`settle_counts`], and may run while changes that others have left are still uncounted.
    pub fn leaves_counts(&self) -> bool {
        let writes = matches!(self.id, Id::ZAdd | Id::ZIncrBy | Id::ZRem | Id::ZPopMin | Id::ZPopMax | Id::GeoAdd);
        writes || matches!(self.id, Id::ZScore | Id::ZMScore | Id::ZCard)
    }
}

/// Whether the uncounted changes of `draft` have to be [counted](settle_counts) before `command` runs in the database
/// called `database`, because the command may look at one of the rows that they are of.
pub fn must_settle_counts(draft: &Draft, command: &Command, args: Args<'_>, database: u8) -> bool {
    let Some(uncounted) = draft.uncounted().filter(|uncounted| !uncounted.is_empty()) else { return false };
    if command.leaves_counts() {
        return false;
    }
    !command.has_one_key() || command.keys_in(args).any(|key| uncounted.has(database, key))
}

/// Counts the uncounted changes of `draft`, of all rows. The work goes on the bill of `call`, which is otherwise
/// unchanged.
pub async fn settle_counts(
    rows: &dyn Rows,
    host: &mut dyn Host,
    call: &mut Call,
    mut draft: Draft,
) -> (Outcome, Draft) {
    let (database, wrote) = (call.database, call.wrote);
    let mut outcome = Ok(());
    while outcome.is_ok()
        && let Some((of, key, life)) = draft.uncounted().and_then(Uncounted::any)
    {
        call.database = of;
        let mut context = Context::locked(rows, host, call, draft);
        let counted = counted(&mut context, &key, life).await;
        let finished = context.end(counted);
        (outcome, draft) = (finished.outcome, finished.draft);
    }
    (call.database, call.wrote) = (database, wrote);
    (outcome, draft)
}

async fn counted(cx: &mut Context<'_>, key: &[u8], life: Life) -> Outcome {
    match cx.collection(key, RowType::SortedSet).await {
        Ok(Some(mut zset)) if zset.life() == life => {
            zset.count_changes(cx).await?;
            return cx.save(&mut zset);
        }
        Ok(_) => {}
        Err(error) if error == WRONG_TYPE => {}
        Err(error) => return Err(error),
    }
    // That life has ended, and its counts have ended with it.
    drop(cx.take_uncounted(life));
    Ok(())
}
