//! What is counted of commands, and told: calls, errors, times, and the last command of a connection.

use crate::support::Running;
use weir_gateway::Settings;

#[test]
fn calls_and_errors_are_told_by_command_and_code() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    assert_eq!(client.say("CONFIG RESETSTAT"), "+OK\r\n");
    for line in ["SET a b", "SET c d", "CLIENT ID", "LPUSH a x", "GET", "NOSUCH", "XADD s * f"] {
        client.say(line);
    }
    let stats = client.say("INFO commandstats");
    let line = |name: &str| {
        let front = format!("cmdstat_{name}:");
        stats.lines().find(|line| line.starts_with(&front)).unwrap_or_else(|| panic!("{name}: {stats}")).to_owned()
    };
    assert!(line("set").contains("calls=2,") && line("set").contains("failed_calls=0"));
    assert!(line("client|id").contains("calls=1,"));
    assert!(line("config|resetstat").contains("calls=1,"));
    assert!(line("lpush").contains("calls=1,") && line("lpush").contains("failed_calls=1"));
    assert!(line("get").contains("calls=0,") && line("get").contains("rejected_calls=1"));
    assert!(!stats.contains("cmdstat_client:"), "a container is told by its subcommands");
    let errors = client.say("INFO errorstats");
    assert!(errors.contains("errorstat_ERR:count=3\r\n"), "{errors}");
    assert!(errors.contains("errorstat_WRONGTYPE:count=1\r\n"), "{errors}");
    let histogram = client.say("LATENCY HISTOGRAM set client nosuch|x");
    assert!(
        histogram.starts_with("*4\r\n$3\r\nset\r\n*4\r\n$5\r\ncalls\r\n:2\r\n$14\r\nhistogram_usec\r\n"),
        "{histogram}"
    );
    assert!(histogram.contains("\r\n$9\r\nclient|id\r\n*4\r\n$5\r\ncalls\r\n:1\r\n"), "{histogram}");
    let times = client.say("INFO latencystats");
    assert!(times.contains("latency_percentiles_usec_set:p50="), "{times}");
    assert_eq!(client.say("CONFIG RESETSTAT"), "+OK\r\n");
    assert!(!client.say("INFO errorstats").contains("errorstat_"));
}

#[test]
fn the_last_command_and_what_is_queued_are_in_the_list() {
    let weir = Running::start(Settings::default());
    let (mut client, mut other) = (weir.connect(), weir.connect());
    assert_eq!(other.say("PING"), "+PONG\r\n");
    let list = client.say("CLIENT LIST");
    assert!(list.contains(" multi=-1 qbuf=26 ") && list.contains(" cmd=client|list user="), "{list}");
    assert!(list.contains(" qbuf=0 ") && list.contains(" cmd=ping user="), "{list}");
    for line in ["CLIENT SETNAME other", "MULTI", "GET a", "GET b"] {
        other.say(line);
    }
    let list = client.say("CLIENT LIST");
    let line = list.lines().find(|line| line.contains("name=other")).expect("its line");
    assert!(line.contains(" flags=x ") && line.contains(" cmd=get "), "{line}");
}

#[test]
fn what_takes_long_is_kept_where_it_is_asked_for() {
    let weir = Running::start(Settings { allow_debug: true, ..Settings::default() });
    let mut client = weir.connect();
    assert_eq!(client.say("DEBUG SLEEP 0.02"), "+OK\r\n");
    assert_eq!(client.say("LATENCY LATEST"), "*0\r\n", "nobody has asked for it");
    assert_eq!(client.say("CONFIG SET latency-monitor-threshold 10"), "+OK\r\n");
    assert_eq!(client.say("DEBUG SLEEP 0.02"), "+OK\r\n");
    let latest = client.say("LATENCY LATEST");
    assert!(latest.starts_with("*1\r\n*4\r\n$7\r\ncommand\r\n"), "{latest}");
    assert!(client.say("LATENCY HISTORY command").starts_with("*1\r\n*2\r\n:"));
    assert!(client.say("LATENCY GRAPH command").contains("command - high "));
    assert_eq!(client.say("LATENCY RESET nosuch"), ":0\r\n");
    assert!(client.say("LATENCY RESET").starts_with(":"));
    assert_eq!(client.say("LATENCY LATEST"), "*0\r\n");
}
