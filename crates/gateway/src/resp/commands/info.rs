//! `INFO`: facts in sections, as `name:value` lines.

use std::fmt::Write;
use std::sync::Arc;

use weir_command::Args;
use weir_command::error::Outcome;
use weir_command::table::COMMANDS;
use weir_command::table::subcommands;

use super::hello::REDIS_VERSION;
use crate::resp::session::Session;
use crate::server::Server;
use crate::stats;
use crate::store::Store;
use crate::tenant::account::Account;

/// Sections in the order in which they are shown, and whether they are shown by default.
const SECTIONS: [(&str, bool); 13] = [
    ("Server", true),
    ("Clients", true),
    ("Memory", true),
    ("Persistence", true),
    ("Stats", true),
    ("Replication", true),
    ("CPU", true),
    ("Modules", true),
    ("Commandstats", false),
    ("Errorstats", true),
    ("Latencystats", false),
    ("Cluster", true),
    ("Keyspace", true),
];

pub(in crate::resp) async fn info<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    super::check_words(args.len() - 1, "INFO", "sections")?;
    let asked = |name: &str, shown_unasked: bool| {
        args.len() == 1 && shown_unasked
            || args.iter_from(1).any(|word| {
                word.eq_ignore_ascii_case(name.as_bytes())
                    || word.eq_ignore_ascii_case(b"all")
                    || word.eq_ignore_ascii_case(b"everything")
                    || word.eq_ignore_ascii_case(b"default") && shown_unasked
            })
    };
    let facts = session.facts()?;
    let mut text = String::new();
    for (section, _) in SECTIONS.iter().filter(|(name, shown_unasked)| asked(name, *shown_unasked)) {
        if !text.is_empty() {
            text.push_str("\r\n");
        }
        line(&mut text, format_args!("# {section}"));
        own_facts(&session.outbox.server, session.account()?, section, &mut text);
        for (_, name, value) in facts.iter().filter(|(of, ..)| of.eq_ignore_ascii_case(section)) {
            line(&mut text, format_args!("{name}:{value}"));
            if let ("used_memory" | "maxmemory", Ok(bytes)) = (*name, value.parse()) {
                line(&mut text, format_args!("{name}_human:{}", human(bytes)));
            }
        }
        if *section == "Keyspace" {
            let keys = super::keyspace::count_for_info(session).await?;
            if keys > 0 {
                line(&mut text, format_args!("db{}:keys={keys},expires=0,avg_ttl=0", session.database()));
            }
        }
    }
    session.outbox.replies.text(&text);
    Ok(())
}

fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = write!(text, "{content}\r\n");
}

/// `bytes` as Redis writes sizes for people.
fn human(bytes: u64) -> String {
    let power = (bytes.max(1).ilog2() / 10).min(5);
    match power {
        0 => format!("{bytes}B"),
        _ => format!("{:.2}{}", bytes as f64 / (1_u64 << (10 * power)) as f64, b"BKMGTP"[power as usize] as char),
    }
}

/// What the gateway itself knows, about the tenant's connections and commands only (S5).
fn own_facts<S: Store>(server: &Server<S>, account: &Arc<Account>, section: &str, text: &mut String) {
    let mut fact = |name: &str, value: &dyn std::fmt::Display| line(text, format_args!("{name}:{value}"));
    match section {
        "Server" => {
            // By the monotonic clock, which nobody sets.
            let uptime = server.clock.now().saturating_sub(server.started) / 1_000_000_000;
            fact("redis_version", &REDIS_VERSION);
            fact("redis_mode", &"standalone");
            fact("weir_version", &env!("CARGO_PKG_VERSION"));
            fact("os", &std::env::consts::OS);
            fact("arch_bits", &usize::BITS);
            // Clients parse this number. The real one belongs to the machine.
            fact("process_id", &0);
            fact("run_id", &server.run_id);
            fact("tcp_port", &server.port);
            fact("uptime_in_seconds", &uptime);
            fact("uptime_in_days", &(uptime / 86_400));
            fact("io_threads_active", &server.settings.threads);
        }
        "Clients" => {
            fact("connected_clients", &account.connections());
            fact("maxclients", &connections_max(server, Some(account)));
            fact("blocked_clients", &server.clients.blocked(account.tenant));
            fact("tracking_clients", &account.tracking.counts().clients);
        }
        "Memory" => {
            fact("maxmemory_policy", &"noeviction");
            fact("number_of_cached_scripts", &account.scripts.cache.lock().len());
        }
        "Persistence" => {
            fact("loading", &0);
            fact("aof_enabled", &1);
            // Nothing is rewritten, because there is only the log. A dump is made only when a client asks for one with
            // `SYNC`.
            fact("aof_rewrite_in_progress", &0);
            fact("aof_rewrite_scheduled", &0);
            fact("aof_last_bgrewrite_status", &"ok");
            fact("aof_last_write_status", &"ok");
            let failed = account.dumps.failed();
            fact("rdb_changes_since_last_save", &account.stats.unsaved());
            fact("rdb_bgsave_in_progress", &u8::from(account.dumps.is_under_way()));
            fact("rdb_last_bgsave_status", &if failed.is_some() { "err" } else { "ok" });
            if let Some(why) = failed {
                fact("rdb_last_sync_error", &why);
            }
            fact("rdb_last_save_time", &(server.clock.unix_ms() / 1000));
        }
        "Stats" => {
            let totals = account.stats.recent();
            fact("total_connections_received", &account.admitted());
            fact("total_commands_processed", &totals.commands[..COMMANDS.len()].iter().sum::<u64>());
            fact("instantaneous_ops_per_sec", &account.calls_per_second());
            fact("total_net_input_bytes", &totals.bytes_in);
            fact("total_net_output_bytes", &totals.bytes_out);
            fact("keyspace_hits", &totals.hits);
            fact("keyspace_misses", &totals.misses);
            fact("total_error_replies", &totals.errors);
            // Nothing is evicted, and no other server is connected to.
            fact("evicted_keys", &0);
            fact("migrate_cached_sockets", &0);
            let listened = account.pubsub.counts();
            fact("pubsub_channels", &listened.channels);
            fact("pubsub_patterns", &listened.patterns);
            fact("pubsubshard_channels", &listened.shard_channels);
            let tracked = account.tracking.counts();
            fact("tracking_total_keys", &tracked.keys);
            fact("tracking_total_items", &tracked.items);
            fact("tracking_total_prefixes", &tracked.prefixes);
            fact("keyspace_events_dropped", &account.key_events.dropped());
            fact("client_output_buffer_limit_disconnections", &totals.slow_listeners);
        }
        "Replication" => {
            fact("role", &"master");
            fact("connected_slaves", &0);
            fact("master_failover_state", &"no-failover");
            fact("master_replid", &server.run_id);
            fact("master_replid2", &"0".repeat(40));
            fact("master_repl_offset", &0);
            fact("second_repl_offset", &-1);
            fact("repl_backlog_active", &0);
        }
        // User time and system time are not separated.
        "CPU" => {
            fact("used_cpu_user", &format_args!("{:.6}", account.processor_nanos() as f64 / 1e9));
            fact("used_cpu_sys", &"0.000000");
            fact("used_cpu_user_children", &"0.000000");
            fact("used_cpu_sys_children", &"0.000000");
        }
        "Commandstats" => command_stats(account, text),
        "Errorstats" => {
            for (code, count) in account.errors.all() {
                fact(&format!("errorstat_{code}"), &format_args!("count={count}"));
            }
        }
        "Latencystats" => latency_stats(account, text),
        "Cluster" => fact("cluster_enabled", &0),
        _ => {}
    }
}

/// A line for each command that was called. A container has a line for each of its subcommands instead.
fn command_stats(account: &Arc<Account>, text: &mut String) {
    let totals = account.stats.recent();
    for index in 0..stats::counted() {
        let is_container = COMMANDS.get(index).is_some_and(|command| subcommands::of(command.name).next().is_some());
        let (calls, nanos) = (totals.commands[index], totals.nanos[index]);
        let (failed, rejected) = (totals.failed[index], totals.rejected[index]);
        if is_container || calls + rejected == 0 {
            continue;
        }
        let (micros, per_call) = (nanos / 1000, nanos as f64 / 1000.0 / calls.max(1) as f64);
        line(
            text,
            format_args!(
                "cmdstat_{}:calls={calls},usec={micros},usec_per_call={per_call:.2},\
                 rejected_calls={rejected},failed_calls={failed}",
                stats::counted_name(index)
            ),
        );
    }
}

/// A line with the times of calls for each command that was called, right to a factor of two.
fn latency_stats(account: &Arc<Account>, text: &mut String) {
    if !account.percentiles.are_told() {
        return;
    }
    let (totals, percents) = (account.stats.recent(), account.percentiles.all());
    for (index, times) in totals.times.iter().enumerate() {
        let is_container = COMMANDS.get(index).is_some_and(|command| subcommands::of(command.name).next().is_some());
        let calls: u64 = times.iter().sum();
        if is_container || calls == 0 {
            continue;
        }
        let percentile = |percent: f64| {
            let rank = (calls as f64 * percent / 100.0).ceil().max(1.0) as u64;
            let mut below = 0;
            let is_reached = |count: &u64| {
                below += count;
                below >= rank
            };
            stats::call_bucket_micros(times.iter().position(is_reached).unwrap_or(stats::CALL_BUCKETS - 1))
        };
        let told: Vec<String> =
            percents.iter().map(|&percent| format!("p{percent}={}.000", percentile(percent))).collect();
        line(text, format_args!("latency_percentiles_usec_{}:{}", stats::counted_name(index), told.join(",")));
    }
}

/// How many connections the tenant may have.
pub(super) fn connections_max<S: Store>(server: &Server<S>, account: Option<&Arc<Account>>) -> usize {
    let max = server.settings.connections_max;
    match account.map_or(0, |account| account.connections_max()) {
        0 => max,
        own => max.min(own as usize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_for_people_as_in_redis() {
        for (bytes, told) in [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1.00K"),
            (1_714_608, "1.64M"),
            (25_276_063_744, "23.54G"),
            (1 << 40, "1.00T"),
            (3 << 49, "1.50P"),
        ] {
            assert_eq!(human(bytes), told, "{bytes}");
        }
    }
}
