//! What `redis.acl_check_cmd` tells a script: whether the user who runs it may run a command.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use weir_command::acl::has_unknown_subcommand;
use weir_command::{Request, table};
use weir_io::Yield;

use crate::auth::users::User;

/// Whether `user` may run the command of `words`; without a user, whether the command exists. `None` if it does not
/// exist. With `turns`, the check may take at most this many turns.
///
/// # Errors
/// The check would have needed more turns.
pub(super) fn may(user: Option<&User>, words: &[Vec<u8>], turns: Option<usize>) -> Result<Option<bool>, MoreTurns> {
    let Some(command) = words.first().and_then(|name| table::find(name)) else { return Ok(None) };
    let request = Request::new(0, 0, words.iter().map(Vec::as_slice));
    if has_unknown_subcommand(command, request.args()) {
        return Ok(None);
    }
    let Some(user) = user.filter(|user| !user.has_full_rights()) else { return Ok(Some(true)) };
    let state = user.state();
    if state.is_deleted {
        return Ok(Some(false));
    }
    let mut check = pin!(state.rules.check_to_run(command, request.args(), Yield::PLAIN));
    let mut taken = 0;
    loop {
        if let Poll::Ready(checked) = check.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Ok(Some(checked.is_ok()));
        }
        taken += 1;
        if turns.is_some_and(|turns| taken >= turns) {
            return Err(MoreTurns);
        }
    }
}

/// The check needs more turns than it may take at once. Where clients are served, others come between the turns.
pub(super) struct MoreTurns;
