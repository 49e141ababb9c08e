//! The commands that are about a session, or about all data of a tenant: one file for each family. Commands on rows are
//! in `weir-command`.

mod acl;
mod client;
mod cluster;
mod config;
mod connection;
mod debug;
mod diagnose;
mod functions;
mod hello;
mod info;
mod introspect;
mod keyspace;
mod kill;
mod latency;
mod modes;
mod pubsub;
mod replication;
mod ru;
mod scripts;
mod server;
mod tracking;
mod transactions;

use std::io;

use weir_command::error::{Error, Outcome};
use weir_command::table::Id;
use weir_command::{Args, Command};

pub(super) use self::debug::{protocol as debug_protocol, sleep as debug_sleep};
pub(super) use self::pubsub::{count_listeners, deliver, was_cut};
pub(super) use self::scripts::number_of_keys;
pub(super) use self::tracking::shrink_table;
use super::outbox::YIELD;
use super::session::Session;
use crate::pubsub::Kind;
use crate::store::Store;

/// How many words a command may have if it compares each of them with a list of ours.
const WORDS_MAX: usize = 1000;

/// How many words a command may have that does not name many keys or fields. Its words are options, which are gone
/// through in one turn.
const OPTION_WORDS_MAX: usize = 2048;

/// Runs `command`, which does not [work on rows](Command::works_on_rows) with these `args`.
pub(super) async fn run<S: Store>(command: &Command, session: &mut Session<S>, args: Args<'_>) -> Outcome {
    command.check_subcommand(args)?;
    match command.id {
        Id::Ping => connection::ping(session, args).await,
        Id::Echo => connection::echo(session, args).await,
        Id::Quit => connection::quit(session, args).await,
        Id::Select => connection::select(session, args).await,
        Id::Reset => connection::reset(session, args).await,
        Id::Wait => connection::wait(session, args).await,
        Id::Monitor => connection::monitor(session, args).await,
        Id::Role => server::role(session, args).await,
        Id::Save | Id::BgSave | Id::BgRewriteAof => server::save(session, args).await,
        Id::LastSave => server::lastsave(session, args).await,
        Id::ReplicaOf | Id::SlaveOf => server::replicaof(session, args).await,
        Id::Sync | Id::PSync => replication::sync(session, args).await,
        Id::ReplConf => replication::replconf(session, args).await,
        Id::Failover => server::failover(session, args).await,
        Id::Shutdown => server::shutdown(session, args).await,
        Id::Module => server::module(session, args).await,
        Id::LolWut => server::lolwut(session, args).await,
        Id::Debug => debug::debug(session, args).await,
        Id::Time => connection::time(session, args).await,
        Id::Auth => hello::auth(session, args).await,
        Id::Hello => hello::hello(session, args).await,
        Id::Client => client::client(session, args).await,
        Id::Subscribe => pubsub::subscribe(session, args, Kind::Channel).await,
        Id::PSubscribe => pubsub::subscribe(session, args, Kind::Pattern).await,
        Id::Unsubscribe => pubsub::unsubscribe(session, args, Kind::Channel).await,
        Id::PUnsubscribe => pubsub::unsubscribe(session, args, Kind::Pattern).await,
        Id::SSubscribe => pubsub::subscribe(session, args, Kind::ShardChannel).await,
        Id::SUnsubscribe => pubsub::unsubscribe(session, args, Kind::ShardChannel).await,
        Id::Publish => pubsub::publish(session, args, Kind::Channel).await,
        Id::SPublish => pubsub::publish(session, args, Kind::ShardChannel).await,
        Id::PubSub => pubsub::pubsub(session, args).await,
        Id::Multi => transactions::multi(session, args).await,
        Id::Exec => Err(Error::new("ERR internal error: whoever has the connection runs what was queued")),
        Id::SwapDb => Err(Error::new("ERR internal error: whoever has the connection exchanges databases")),
        Id::Eval | Id::EvalSha | Id::EvalRo | Id::EvalShaRo | Id::FCall | Id::FCallRo => {
            Err(Error::new("ERR internal error: whoever has the connection runs scripts"))
        }
        Id::Function => functions::function(session, args).await,
        Id::Script => scripts::script(session, args).await,
        Id::Discard => transactions::discard(session, args).await,
        Id::Watch => transactions::watch(session, args).await,
        Id::Unwatch => transactions::unwatch(session, args).await,
        Id::FlushDb | Id::FlushAll => keyspace::flush(session, args).await,
        Id::Acl => acl::acl(session, args).await,
        Id::Command => introspect::command(session, args).await,
        Id::Info => info::info(session, args).await,
        Id::Config => config::config(session, args).await,
        Id::SlowLog => diagnose::slowlog(session, args).await,
        Id::Latency => latency::latency(session, args).await,
        Id::Ru => ru::ru(session, args).await,
        Id::Memory => diagnose::memory(session, args).await,
        Id::Cluster => cluster::cluster(session, args).await,
        Id::ReadOnly | Id::ReadWrite | Id::Asking => cluster::disabled(session, args).await,
        _ => Err(Error::new("ERR internal error: this command is about rows")),
    }
}

/// To be called before the word number `index` is looked at: [`weir_command::end_turn`] in the way of connections.
async fn end_turn(index: usize) {
    weir_command::end_turn(YIELD, index).await;
}

/// The error when the client is gone. Nobody reads it.
pub(super) fn gone(error: io::Error) -> Error {
    Error::bytes(error.to_string().into_bytes())
}

/// Refuses more words than `command` can have a meaning for, because all words are gone through in one turn.
pub(super) fn check_options(command: &Command, count: usize) -> Outcome {
    if count <= OPTION_WORDS_MAX || command.takes_many() {
        return Ok(());
    }
    let name = command.name.to_uppercase();
    Err(Error::bytes(format!("ERR {name} takes at most {OPTION_WORDS_MAX} words").into_bytes()))
}

/// Refuses more than [`WORDS_MAX`] words of `command`; `words` is what the words are called.
fn check_words(count: usize, command: &str, words: &str) -> Outcome {
    if count <= WORDS_MAX {
        return Ok(());
    }
    Err(Error::bytes(format!("ERR {command} takes at most {WORDS_MAX} {words} at a time").into_bytes()))
}

#[cfg(test)]
mod tests {
    use weir_command::table::COMMANDS;

    /// Every command is run either here or by whoever has the rows, never by both.
    #[test]
    fn every_command_about_a_session_is_known() {
        let source = include_str!("mod.rs");
        for command in COMMANDS {
            let is_here = source.contains(&format!("Id::{:?} ", command.id));
            assert_eq!(is_here, !command.is_of_rows, "{}", command.name);
        }
    }
}
