//! Running a command: calling its handler, and what the owner of the rows has to know before.

use weir_model::{Databases, StoredKey};

use crate::args::Args;
use crate::context::{Context, Finished};
use crate::derived::Fates;
use crate::error::{Error, Outcome};
use crate::events::Classes;
use crate::handlers::{
    bitfield, bitmap, blocking, dump, expiry, field_expiry, field_values, geo, geosearch, hashes, hyperloglogs, keys,
    lcs, list_moves, list_search, lists, memory, moves, numbers, object, ranges, scan, set_operations, sets, sort,
    stream_claims, stream_groups, stream_info, stream_reads, streams, strings, zcombine, zpops, zranges, zsets,
};
use crate::rows::Waiting;
use crate::table::{Command, Id, Plain, with_commands};

macro_rules! calls {
    ($($id:ident $name:literal $arity:literal $group:literal [$($flag:ident)*] [$($category:ident)*] $keys:tt
       $module:ident $(:: $handler:ident)? $($keyed_module:ident :: $keyed_handler:ident)?
       $({ $($field:ident: $value:expr),* })? $summary:literal;)*) => {
        /// Calls the handler.
        ///
        /// Not an `async fn`, and boxed as a future without a named type: the compiler generates the code of an
        /// `async fn` anew in every crate that awaits it, and the code of all handlers together is megabytes.
        fn called<'a>(id: Id, cx: &'a mut Context<'_>, args: Args<'a>) -> Waiting<'a, Outcome> {
            match id {
                $(Id::$id => calls!(@call cx args $module $(:: $handler)? $($keyed_module :: $keyed_handler)?),)*
            }
        }
    };
    (@call $cx:ident $args:ident session) => {
        Box::pin(std::future::ready(Err(Error::new("ERR internal error: this command is about a session"))))
    };
    (@call $cx:ident $args:ident session $module:ident :: $handler:ident) => {
        Box::pin($module::$handler($cx, $args))
    };
    (@call $cx:ident $args:ident $module:ident :: $handler:ident) => { Box::pin($module::$handler($cx, $args)) };
}

with_commands!(calls);

/// Calls the handler, without an allocation for commands that take no longer than a few allocations.
async fn dispatch(id: Id, cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    match id {
        Id::Get => strings::get(cx, args).await,
        Id::Set => strings::set(cx, args).await,
        Id::Incr => numbers::incr(cx, args).await,
        Id::HGet => hashes::hget(cx, args).await,
        Id::HExists => hashes::hexists(cx, args).await,
        Id::SIsMember => sets::sismember(cx, args).await,
        Id::ZScore => zsets::zscore(cx, args).await,
        _ => called(id, cx, args).await,
    }
}

/// Runs `command`, which has to [work on rows](Command::works_on_rows) with these `args`, in `context`.
pub async fn run(command: &'static Command, mut context: Context<'_>, args: Args<'_>) -> Finished {
    context.begin_command(command, args);
    if context.wants() != Classes::NONE {
        return run_witnessed(command, context, args).await;
    }
    let outcome = dispatch(command.id, &mut context, args).await;
    context.end(outcome)
}

/// As [`run`], if somebody wants to be told what happens to keys. Not an `async fn`, for the reason that [`called`]
/// gives.
fn run_witnessed<'a, 'c: 'a>(
    command: &'static Command,
    mut context: Context<'c>,
    args: Args<'a>,
) -> Waiting<'a, Finished> {
    Box::pin(async move {
        let rows = rows_of(command, args, context.database(), context.databases());
        let fates = match Fates::look(&mut context, command, args, rows).await {
            Ok(fates) => fates,
            Err(error) => return context.end(Err(error)),
        };
        let outcome = called(command.id, &mut context, args).await;
        if outcome.is_ok() {
            fates.tell(&mut context, command, args);
        }
        context.end(outcome)
    })
}

/// Whether `command` with these `args` writes without a look at what was there before. Such commands can be gathered
/// into one batch.
#[inline]
pub fn is_plain(command: &Command, args: Args<'_>) -> bool {
    match command.plain {
        Plain::Never => false,
        Plain::Always => true,
        Plain::WithoutConditions => strings::is_plain_set(args),
    }
}

/// The rows that nobody else may write to while `command` runs in the database called `database`, as engines know them.
pub fn rows_of(command: &Command, args: Args<'_>, database: u8, databases: Databases) -> Vec<StoredKey> {
    let number = databases.number(database);
    let mut rows: Vec<StoredKey> = command.keys_in(args).map(|key| StoredKey::new(number, key)).collect();
    rows.extend(command.stored_key(args).map(|key| StoredKey::new(number, key)));
    if let Some(place) = command.elsewhere {
        let other = moves::other_database(args, database);
        rows.extend(other.map(|other| StoredKey::new(databases.number(other), args.at(place))));
    }
    rows
}

#[cfg(test)]
mod tests {
    use crate::request::Request;
    use crate::table::find;

    use super::*;

    #[test]
    fn rows_in_other_databases_and_behind_options_are_locked_too() {
        for (line, expected) in [
            ("GET k", &[(0, "k")][..]),
            ("MSET a 1 b 2", &[(0, "a"), (0, "b")]),
            ("RENAME a b", &[(0, "a"), (0, "b")]),
            ("COPY a b DB 3", &[(0, "a"), (0, "b"), (3, "b")]),
            ("MOVE a 2", &[(0, "a"), (2, "a")]),
            ("MOVE a 99", &[(0, "a")]),
            ("SORT a BY x STORE d", &[(0, "a"), (0, "d")]),
            ("BITOP AND d a b", &[(0, "d"), (0, "a"), (0, "b")]),
            ("SINTERCARD 2 a b LIMIT 5", &[(0, "a"), (0, "b")]),
            ("SINTERCARD 3 a b", &[(0, "a"), (0, "b")]),
            ("SINTERCARD -1 a b", &[]),
            ("ZMPOP 2 a b MIN", &[(0, "a"), (0, "b")]),
            ("ZUNIONSTORE d 2 a b WEIGHTS 1 2", &[(0, "d"), (0, "a"), (0, "b")]),
            ("ZUNIONSTORE d 9 a b", &[(0, "d"), (0, "a"), (0, "b")]),
            ("ZUNIONSTORE d x a b", &[(0, "d")]),
            ("GEORADIUS a 1 2 3 km STORE d", &[(0, "a"), (0, "d")]),
            ("GEORADIUS store 1 2 3 km ASC storedist d", &[(0, "store"), (0, "d")]),
            ("GEORADIUSBYMEMBER a store 3 km", &[(0, "a")]),
            ("GEORADIUSBYMEMBER a b 3 km STORE d", &[(0, "a"), (0, "d")]),
            ("ZMPOP -1 a MIN", &[]),
            ("LMOVE a b LEFT LEFT", &[(0, "a"), (0, "b")]),
            ("LMPOP 2 a b LEFT COUNT 3", &[(0, "a"), (0, "b")]),
            ("LMPOP 1 a LEFT", &[(0, "a")]),
            ("LMPOP x a LEFT", &[]),
        ] {
            let request = Request::new(0, 0, line.split(' ').map(str::as_bytes));
            let command = find(request.args().at(0)).expect("a command");
            let rows: Vec<Vec<u8>> =
                rows_of(command, request.args(), 0, Databases::AS_NAMED).iter().map(|row| row.to_vec()).collect();
            let expected: Vec<Vec<u8>> =
                expected.iter().map(|(database, key)| StoredKey::new(*database, key.as_bytes()).to_vec()).collect();
            assert_eq!(rows, expected, "{line}");
        }
    }
}
