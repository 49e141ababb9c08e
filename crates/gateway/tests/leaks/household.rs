//! What Ada has that another tenant might be told of or might touch: rows of every type, functions, scripts, users, and
//! connections that are told what happens.

use crate::pubsub::{figure, next};
use crate::support::{Client, encode};

/// Stands in every value of Ada's, and in the names that Bob never says.
pub const CANARY: &str = "canary";

/// Bob guesses this name: a channel, a key that a client keeps, and a list that a client waits for.
pub const QUEUE: &str = "ada-queue";

/// Makes a row of every type: a command, and what follows its key.
const ROWS: [(&str, &str); 8] = [
    ("SET", "canary"),
    ("HSET", "canary canary"),
    ("RPUSH", "canary canary-2"),
    ("SADD", "canary canary-2"),
    ("ZADD", "1 canary 2 canary-2"),
    ("GEOADD", "13.4 52.5 canary"),
    ("PFADD", "canary"),
    ("XADD", "1-1 canary canary"),
];

const LIBRARY: &str = "#!lua name=ada_library\nredis.register_function('ada_function', function() return 'canary' end)";
const SCRIPT: &str = "return 'canary'";
const DIGEST: &str = "8ad17056127415305e413dca0275af24eb4f9243";

/// What Ada does at the end. Nobody else says `canary-own` or `own`.
const OWN: [&str; 5] =
    ["PUBLISH ada-queue own", "SPUBLISH ada-queue own", "SET canary-own own", "RPUSH ada-queue own", "DEL canary-own"];

/// What each of Ada's listeners says, and the end of what it is told first when Ada does [`OWN`].
pub const LISTENERS: [(&[&str], &str); 8] = [
    (&["SUBSCRIBE ada-queue"], "\r\nmessage\r\n$9\r\nada-queue\r\n$3\r\nown\r\n"),
    (&["SSUBSCRIBE ada-queue"], "\r\nsmessage\r\n$9\r\nada-queue\r\n$3\r\nown\r\n"),
    (&["PSUBSCRIBE *"], "\r\npmessage\r\n$1\r\n*\r\n$9\r\nada-queue\r\n$3\r\nown\r\n"),
    (&["PSUBSCRIBE __key*"], "\r\n__keyspace@0__:canary-own\r\n$3\r\nset\r\n"),
    (
        &[
            "CLIENT TRACKING ON",
            "EXISTS canary-own ada-queue ada-set ada-hset ada-rpush",
            "EXISTS ada-sadd ada-zadd ada-geoadd ada-pfadd ada-xadd",
        ],
        "\r\ninvalidate\r\n*1\r\n$10\r\ncanary-own\r\n",
    ),
    (&["CLIENT TRACKING ON BCAST"], "\r\ninvalidate\r\n*1\r\n$10\r\ncanary-own\r\n"),
    (&["BLPOP ada-queue 0"], "*2\r\n$9\r\nada-queue\r\n$3\r\nown\r\n"),
    // The last one, because it is told what those in front of it say.
    (&["MONITOR"], " \"PUBLISH\" \"ada-queue\" \"own\"\r\n"),
];

fn key(owner: &str, command: &str) -> String {
    format!("{owner}-{}", command.to_lowercase())
}

/// Ada moves in. Returns the names that Bob guesses.
pub fn move_in(ada: &mut Client) -> Vec<String> {
    let mut names = [QUEUE, "ada-user", "ada_library", "ada_function", DIGEST].map(str::to_owned).to_vec();
    let mut lines = Vec::new();
    for (command, rest) in ROWS {
        names.push(key("ada", command));
        lines.extend(["ada", CANARY].map(|owner| format!("{command} {} {rest}", key(owner, command))));
    }
    lines.extend(
        [
            "XGROUP CREATE ada-xadd canary 0",
            "XREADGROUP GROUP canary canary STREAMS ada-xadd >",
            "ACL SETUSER ada-user on ~canary &canary +@all",
            "CONFIG SET notify-keyspace-events KA",
        ]
        .map(str::to_owned),
    );
    for line in lines {
        let reply = ada.say(&line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
    }
    assert_eq!(ada.ask(&["FUNCTION", "LOAD", LIBRARY]), b"$11\r\nada_library\r\n");
    assert_eq!(ada.ask(&["SCRIPT", "LOAD", SCRIPT]), format!("$40\r\n{DIGEST}\r\n").into_bytes());
    names
}

/// What [`move_in`] has made, as Ada sees it.
pub fn inventory(ada: &mut Client) -> Vec<String> {
    let all = ["DBSIZE", "FUNCTION LIST WITHCODE", "ACL LIST", "CONFIG GET notify-keyspace-events"];
    let mut lines = vec![format!("SCRIPT EXISTS {DIGEST}")];
    lines.extend(all.map(str::to_owned));
    for (command, _) in ROWS {
        for key in ["ada", CANARY].map(|owner| key(owner, command)) {
            lines.extend([format!("DUMP {key}"), format!("PEXPIRETIME {key}")]);
        }
    }
    lines.iter().map(|line| ada.say(line)).collect()
}

/// Connections of Ada that are told what happens, each with the end of what it must be told first.
pub struct Listeners {
    clients: Vec<(Client, &'static str)>,
    /// The numbers and addresses of the connections.
    pub names: Vec<String>,
}

impl Listeners {
    /// Begins all of [`LISTENERS`], on connections that `connect` makes.
    pub fn new(ada: &mut Client, connect: impl Fn() -> Client) -> Self {
        let (mut clients, mut names) = (Vec::new(), Vec::new());
        for (lines, told) in LISTENERS {
            let mut client = connect();
            assert!(client.say(&format!("HELLO 3 SETNAME {CANARY}")).starts_with('%'));
            names.push(client.say("CLIENT ID")[1..].trim().to_owned());
            names.push(client.stream.local_addr().expect("a socket").to_string());
            for line in lines {
                client.send(&encode(&line.split(' ').collect::<Vec<_>>()));
                if line.starts_with("BLPOP") {
                    while figure(ada, "blocked_clients") == 0 {}
                } else {
                    let reply = next(&mut client);
                    assert!(!reply.starts_with('-'), "{line}: {reply}");
                }
            }
            clients.push((client, told));
        }
        Self { clients, names }
    }

    /// Ada does [`OWN`]. Returns what each listener is told first, and whether that is about what she does now. If it
    /// is, the listener was told nothing before.
    pub fn first_told(&mut self, ada: &mut Client) -> Vec<(String, bool)> {
        for line in OWN {
            ada.say(line);
        }
        let told = |(client, own): &mut (Client, &'static str)| {
            let first = next(client);
            let is_own = first.ends_with(*own);
            (first, is_own)
        };
        self.clients.iter_mut().map(told).collect()
    }

    /// Checks that nothing was told to any listener, and that all of them are still there.
    pub fn check_silence(&mut self, ada: &mut Client) {
        for (first, is_own) in self.first_told(ada) {
            assert!(is_own, "a listener of Ada's was told {first:?}");
        }
    }
}
