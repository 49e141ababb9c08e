//! A server with more load than its disk can take, as its operator sees it: `weir why`, `/metrics`, the log.
#![allow(clippy::disallowed_methods, missing_docs, reason = "tests start processes and talk over sockets")]

use crate::support::{Dir, Server, expect};

/// A disk of 2 MiB a second, and memtables that are full after an eighth of a second.
const CONFIG: &str = "device_bandwidth = \"2 MiB\"\nwrite_buffer = \"256 KiB\"\n";
/// Most megabytes that are written before something must have happened.
const ROUNDS: u32 = 200;

#[test]
fn a_disk_sold_too_often_is_explained_and_the_explanation_can_be_checked_elsewhere() {
    let dir = Dir::new();
    let server = Server::start(&dir, CONFIG);
    let mut client = server.connect();
    let leaves = (0..ROUNDS).find_map(|round| {
        for item in 0..500_u32 {
            let key = (round * 7919 + item * 104_729) % 20_000;
            let request = format!("SET key-{key:05} {}\r\n", format!("{item:04}").repeat(500));
            expect(&mut client, request.as_bytes(), b"+OK\r\n");
        }
        let said = server.weir(&["why", "default"]);
        said.contains("It should leave this node").then_some(said)
    });
    let said = leaves.expect("twenty times too much is noticed");
    for words in ["partition 1", "because", "Level 0 has", "It writes", "% of the disk"] {
        assert!(said.contains(words), "{words} in {said}");
    }
    // It also shows each late reply: the command, how long it took, and what it waited for.
    let (_, late) = said.split_once("more than 10 ms").expect("some were late");
    let mut lines = late.lines().skip(1);
    let head: Vec<&str> = lines.next().expect("a head").split_whitespace().collect();
    assert_eq!(
        head,
        ["when", "longest", "replies", "took", "quota", "node_queue", "stall", "partition_gate", "node_gate"]
    );
    for line in lines {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let [_, command, "1", took, quota, queue, waits @ ..] = &cells[..] else { panic!("{line}") };
        let ms = |cell: &str| cell.parse::<f64>().expect("a number");
        assert!((*command, *quota, *queue) == ("set", "0.0", "0.0") && ms(took) >= 10.0 && waits.len() == 3, "{line}");
    }
    let metrics = server.http("/metrics");
    for name in
        ["weir_violation 1", "weir_partition_to_move_bytes{tenant=\"default\"", "weir_tenant_stage{tenant=\"default\""]
    {
        assert!(metrics.contains(name), "{name} in {metrics}");
    }
    assert!(server.log().contains("tenants_to_move"), "the log says it");

    // The samples and decisions go to a file, and the same policies decide again without a server.
    let recording = server.weir(&["why", "--json"]);
    let file = dir.0.join("slow.json");
    std::fs::write(&file, recording).expect("the test's directory can be written");
    let (fine, said) = server.try_weir(&["why", "--replay", file.to_str().expect("text")]);
    assert!(fine && said.contains("all the same"), "{said}");
    let changed = std::fs::read_to_string(&file).expect("text").replacen("\"flush_gather\":1", "\"flush_gather\":3", 1);
    std::fs::write(&file, changed).expect("the test's directory can be written");
    let (fine, said) = server.try_weir(&["why", "--replay", file.to_str().expect("text")]);
    assert!(!fine && said.contains("decisions differ"), "{said}");

    let (fine, said) = server.try_weir(&["why", "nobody"]);
    assert!(!fine && said.contains("weir tenant list"), "{said}");
    let (fine, said) = server.try_weir(&["why", "default", "--ago", "100000"]);
    assert!(fine && said.contains("longer ago than is remembered"), "{said}");
}
