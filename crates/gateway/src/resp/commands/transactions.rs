//! `MULTI` and its kin, which are not there yet: nothing between `MULTI` and `EXEC` is executed.
//!
//! Clients send `MULTI`, their commands and `EXEC` in one go. If `MULTI` alone were refused, the commands behind it
//! would be executed one by one, by a client that asked for all or none. If it were refused and what follows too, a
//! client that looks at the answer to `MULTI` before it goes on would not know that it is to send `EXEC` or `DISCARD`,
//! and every later user of its connection would be refused. So `MULTI` opens a transaction, each command in it is
//! refused, and `EXEC` ends it as Redis ends one in which a command could not be queued: a course of things that every
//! client knows, takes the right number of replies for, and makes an error of.

use weir_command::Args;
use weir_command::error::{Error, Outcome};

use crate::resp::session::Session;
use crate::store::Store;

/// The reply to what would have been queued.
pub(in crate::resp) const NOT_QUEUED: Error = Error::new(
    "ERR transactions are not supported yet: nothing between MULTI and EXEC is executed, use a plain pipeline \
     (redis-py: pipeline(transaction=False))",
);

pub(in crate::resp) async fn multi<S: Store>(session: &mut Session<S>, _: Args<'_>) -> Outcome {
    if session.in_transaction {
        return Err(Error::new("ERR MULTI calls can not be nested"));
    }
    session.in_transaction = true;
    session.outbox.replies.ok();
    Ok(())
}

/// Also a transaction of no commands is not executed: it may have been made for what it watches.
pub(in crate::resp) async fn exec<S: Store>(session: &mut Session<S>, _: Args<'_>) -> Outcome {
    if !std::mem::take(&mut session.in_transaction) {
        return Err(Error::new("ERR EXEC without MULTI"));
    }
    // Some clients show this text only, and not those of the commands.
    Err(Error::new(
        "EXECABORT Transaction discarded because of previous errors: transactions are not supported yet, use a plain \
         pipeline",
    ))
}

pub(in crate::resp) async fn discard<S: Store>(session: &mut Session<S>, _: Args<'_>) -> Outcome {
    if !std::mem::take(&mut session.in_transaction) {
        return Err(Error::new("ERR DISCARD without MULTI"));
    }
    session.outbox.replies.ok();
    Ok(())
}

pub(in crate::resp) async fn watch<S: Store>(session: &mut Session<S>, _: Args<'_>) -> Outcome {
    Err(if session.in_transaction {
        Error::new("ERR WATCH inside MULTI is not allowed")
    } else {
        Error::new("ERR WATCH is not supported yet: no key is watched, and there are no transactions")
    })
}

/// Nothing is ever watched, so nothing is watched afterwards.
pub(in crate::resp) async fn unwatch<S: Store>(session: &mut Session<S>, _: Args<'_>) -> Outcome {
    session.outbox.replies.ok();
    Ok(())
}
