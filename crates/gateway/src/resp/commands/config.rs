//! `CONFIG`: what tools read before they start. Only what concerns the tenant's own view can be set here; the rest is
//! in the configuration file.

use std::sync::atomic::Ordering;

use weir_command::error::{Error, Outcome, SYNTAX};
use weir_command::events::Classes;
use weir_command::glob::{self, Glob};
use weir_command::number::parse_i64;
use weir_command::{Args, DATABASES, lower, table};

use super::{check_words, shrink_table};
use crate::resp::hints::{self, HINTS};
use crate::resp::outbox::YIELD;
use crate::resp::percentiles;
use crate::resp::session::Session;
use crate::store::Store;

const HELP: [&str; 5] = [
    "GET <pattern> ...: settings and their values.",
    "RESETSTAT: the counters of INFO begin at zero.",
    "REWRITE: refused, the configuration file is yours.",
    "SET <name> <value> ...: slowlog-log-slower-than, slowlog-max-len, acl-pubsub-default, acllog-max-len, notify-keyspace-events, tracking-table-max-keys, latency-monitor-threshold, latency-tracking and latency-tracking-info-percentiles; how Redis keeps collections, which changes nothing here; others only to what they are.",
    "HELP: this text.",
];

/// Names that Redis never changes while it runs.
const IMMUTABLE: [&str; 12] = [
    "always-show-logo",
    "cluster-config-file",
    "cluster-enabled",
    "daemonize",
    "databases",
    "io-threads",
    "io-threads-do-reads",
    "pidfile",
    "rdb-version",
    "supervised",
    "syslog-enabled",
    "tcp-backlog",
];

pub(in crate::resp) async fn config<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    let subcommand = lower(args.at(1));
    match subcommand.as_slice() {
        b"get" => get(session, args).await?,
        b"set" => set(session, args).await?,
        b"resetstat" => {
            session.reset_stats()?;
            // As in Redis, this call is the first one that is counted again.
            session.outbox.count_for_tenant(table::find(args.at(0)), args);
            session.outbox.replies.ok();
        }
        b"rewrite" => return Err(Error::new("ERR The server is running without a config file")),
        b"help" => session.outbox.replies.help("CONFIG", &HELP),
        _ => return Err(Error::unknown_subcommand("config", args.at(1))),
    }
    Ok(())
}

/// Every setting and its value.
fn all<S: Store>(session: &Session<S>) -> Vec<(String, String)> {
    let settings = &session.outbox.server.settings;
    let connections_max = super::info::connections_max(&session.outbox.server, session.account().ok());
    let memory_bytes_max = session.store().map_or(0, |store| store.memory_bytes_max());
    let slowlog = session.slowlog();
    let latency_threshold = session.account().map_or(0, |account| account.latency_monitor.threshold_ms());
    let keys_max = session.account().map_or(0, |account| account.tracking.keys_max());
    let notified = session.account().map(|account| account.key_events.notified()).unwrap_or_default();
    let gives_all_channels =
        session.account().is_ok_and(|account| account.users.gives_all_channels.load(Ordering::Relaxed));
    let acl_log_len_max = session.account().map_or(0, |account| account.users.log.len_max());
    let percentiles = session
        .account()
        .map_or_else(|_| Default::default(), |account| (account.percentiles.are_told(), account.percentiles.text()));
    let own = [
        ("acl-pubsub-default", if gives_all_channels { "allchannels" } else { "resetchannels" }.to_owned()),
        ("acllog-max-len", acl_log_len_max.to_string()),
        // There are no snapshots to schedule, and the log is always on.
        ("appendonly", "yes".to_owned()),
        // The address through which this client has come; it knows that one.
        ("bind", session.outbox.client.local.ip().to_string()),
        ("cluster-enabled", "no".to_owned()),
        ("databases", DATABASES.to_string()),
        // Clients are not told any paths.
        ("dir", ".".to_owned()),
        ("io-threads", settings.threads.to_string()),
        ("latency-monitor-threshold", latency_threshold.to_string()),
        ("latency-tracking", if percentiles.0 { "yes" } else { "no" }.to_owned()),
        ("latency-tracking-info-percentiles", percentiles.1),
        ("maxclients", connections_max.to_string()),
        ("maxmemory", memory_bytes_max.to_string()),
        ("maxmemory-clients", "0".to_owned()),
        // At the limit, writes that need memory are refused.
        ("maxmemory-policy", "noeviction".to_owned()),
        ("notify-keyspace-events", notified.letters()),
        ("port", session.outbox.server.port.to_string()),
        // This server follows no other.
        ("replicaof", String::new()),
        ("slaveof", String::new()),
        ("proto-max-bulk-len", settings.limits.bulk_bytes_max.to_string()),
        ("save", String::new()),
        ("slowlog-log-slower-than", slowlog.slower_than().to_string()),
        ("slowlog-max-len", slowlog.len_max().to_string()),
        ("tracking-table-max-keys", keys_max.to_string()),
        ("timeout", settings.patience.idle_seconds.unwrap_or(0).to_string()),
    ];
    let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
    let hints = session.account().into_iter().flat_map(|account| account.hints.all());
    let hints = hints.map(|(name, value)| (name.to_owned(), value));
    own.chain(hints).chain(settings.shown.iter().cloned()).collect()
}

async fn get<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    check_words(args.len() - 2, "CONFIG GET", "patterns")?;
    for pattern in args.iter_from(2) {
        glob::checked(pattern)?;
    }
    let (all, mut turn) = (all(session), glob::Turn::new(YIELD));
    let mut is_found = vec![false; all.len()];
    for pattern in args.iter_from(2) {
        let glob = Glob::new(&pattern.to_ascii_lowercase());
        let is_exact = !pattern.iter().any(|byte| b"*?[".contains(byte));
        all.iter().zip(&mut is_found).for_each(|((name, _), is_found)| {
            *is_found |= (is_exact || !hints::is_hidden(name)) && glob.matches(name.as_bytes());
        });
        turn.spend(glob.steps_for_names()).await;
    }
    session.outbox.replies.map(is_found.iter().filter(|found| **found).count());
    for ((name, value), _) in all.iter().zip(is_found).filter(|(_, is_found)| *is_found) {
        session.outbox.replies.bulk(name.as_bytes());
        session.outbox.replies.bulk(value.as_bytes());
    }
    Ok(())
}

/// A change that has been found valid.
enum Setting {
    SlowerThan(i64),
    LenMax(usize),
    LatencyThreshold(u64),
    /// How many keys are remembered with their readers.
    TrackedKeys(usize),
    /// Which events of keys subscribers are sent.
    Notified(Classes),
    AclLogLenMax(usize),
    /// Whether new users may use all channels.
    AllChannels(bool),
    /// Whether percentiles are shown.
    PercentilesTold(bool),
    /// Which percentiles are shown.
    Percentiles(Vec<f64>),
    /// The value of the setting at this index of [`HINTS`].
    Hint(usize, i64),
    /// The setting has this value already.
    Unchanged,
}

impl Setting {
    /// The text of the error says why the setting cannot be changed.
    fn parse(name: &str, value: &[u8], now: &str) -> Result<Self, String> {
        let number = |least: i64| match parse_i64(value) {
            None => Err("argument couldn't be parsed into an integer".to_owned()),
            Some(number) if number < least => {
                Err(format!("argument must be between {least} and {} inclusive", i64::MAX))
            }
            Some(number) => Ok(number),
        };
        match name {
            "slowlog-log-slower-than" => number(-1).map(Setting::SlowerThan),
            "latency-monitor-threshold" => Ok(Setting::LatencyThreshold(number(0)? as u64)),
            "tracking-table-max-keys" => Ok(Setting::TrackedKeys(number(0)? as usize)),
            "acl-pubsub-default" => match lower(value).as_slice() {
                b"allchannels" => Ok(Setting::AllChannels(true)),
                b"resetchannels" => Ok(Setting::AllChannels(false)),
                _ => Err("argument(s) must be one of the following: allchannels, resetchannels".to_owned()),
            },
            "acllog-max-len" => Ok(Setting::AclLogLenMax(number(0)? as usize)),
            "latency-tracking" => match lower(value).as_slice() {
                b"yes" => Ok(Setting::PercentilesTold(true)),
                b"no" => Ok(Setting::PercentilesTold(false)),
                _ => Err("argument must be 'yes' or 'no'".to_owned()),
            },
            "latency-tracking-info-percentiles" => percentiles::parse(value).map(Setting::Percentiles),
            "slowlog-max-len" => Ok(Setting::LenMax(number(0)? as usize)),
            "notify-keyspace-events" => {
                let unknown = || "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".to_owned();
                Classes::parse(value).map(Setting::Notified).ok_or_else(unknown)
            }
            _ if let Some(index) = hints::find(name) => {
                HINTS[index].parse(value).map(|value| Setting::Hint(index, value))
            }
            _ if IMMUTABLE.contains(&name) => Err("can't set immutable config".to_owned()),
            _ if value.eq_ignore_ascii_case(now.as_bytes()) => Ok(Setting::Unchanged),
            _ => Err("it is set in the server's configuration file".to_owned()),
        }
    }
}

/// Changes all settings, or none.
async fn set<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    if !args.len().is_multiple_of(2) {
        return Err(SYNTAX);
    }
    let known = all(session);
    let failed = |name: &[u8], why: &str| {
        let front = &b"ERR CONFIG SET failed (possibly related to argument '"[..];
        Error::bytes([front, name, b"') - ", why.as_bytes()].concat())
    };
    let (mut names, mut changes) = (Vec::new(), Vec::new());
    for index in (2..args.len()).step_by(2) {
        let (asked, name) = (args.at(index), args.at(index).to_ascii_lowercase());
        let Some((name, now)) = known.iter().find(|(known, _)| known.as_bytes() == name) else {
            if IMMUTABLE.iter().any(|known| known.as_bytes() == name) {
                return Err(failed(asked, "can't set immutable config"));
            }
            let front = &b"ERR Unknown option or number of arguments for CONFIG SET - '"[..];
            return Err(Error::bytes([front, asked, b"'"].concat()));
        };
        if names.iter().any(|(_, known, _)| *known == name) {
            return Err(failed(asked, "duplicate parameter"));
        }
        names.push((index, name, now));
    }
    for (index, name, now) in names {
        changes.push(Setting::parse(name, args.at(index + 1), now).map_err(|why| failed(args.at(index), &why))?);
    }
    // From here on nothing can fail, and nothing waits until all settings are changed.
    let (account, store) = (session.account()?, session.store()?);
    for change in changes {
        match change {
            Setting::SlowerThan(micros) => session.slowlog().set_slower_than(micros),
            Setting::LatencyThreshold(ms) => account.latency_monitor.set_threshold_ms(ms),
            Setting::LenMax(len) => session.slowlog().set_len_max(len),
            Setting::PercentilesTold(are_told) => account.percentiles.tell(are_told),
            Setting::Percentiles(percents) => account.percentiles.set(percents),
            Setting::AllChannels(gives) => account.users.gives_all_channels.store(gives, Ordering::Relaxed),
            Setting::AclLogLenMax(len) => account.users.log.set_len_max(len),
            Setting::Hint(index, value) => account.hints.set(index, value),
            Setting::TrackedKeys(max) => account.tracking.set_keys_max(max),
            Setting::Notified(classes) => {
                account.key_events.notify(classes);
                // Last, because changes from here on are told.
                store.be_witnessed(account.key_events.witness());
            }
            Setting::Unchanged => {}
        }
    }
    shrink_table(session).await;
    session.outbox.replies.ok();
    Ok(())
}
