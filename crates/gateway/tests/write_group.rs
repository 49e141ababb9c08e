//! Plain writes of several connections are one record of the log, and none of them can tell from its answer.

use std::sync::atomic::Ordering;

use crate::support::{Client, Running, encode};
use weir_gateway::Settings;

/// Six clients send a `SET` each while the only thread is held up. Returns the sizes of the batches that were written,
/// and the replies. The first client may be served by itself.
fn all_at_once(weir: &Running) -> (Vec<usize>, Vec<Vec<u8>>) {
    let mut clients: Vec<Client> = (0..6).map(|_| weir.connect()).collect();
    clients.iter_mut().for_each(|client| drop(client.ask(&[b"PING"])));
    {
        // A write waits for this lock.
        let _held = weir.store.batches.lock().expect("no panic");
        for (number, client) in clients.iter_mut().enumerate() {
            client.send(&encode(&["SET", &format!("k{number}"), &number.to_string()]));
        }
    }
    let replies = clients.iter_mut().map(Client::reply).collect();
    (std::mem::take(&mut *weir.store.batches.lock().expect("no panic")), replies)
}

fn start() -> Running {
    Running::start(Settings { threads: 1, long_threads: 0, ..Settings::default() })
}

#[test]
fn writes_that_come_together_are_one_record() {
    let weir = start();
    let (batches, replies) = all_at_once(&weir);
    assert_eq!(batches.iter().sum::<usize>(), 6);
    assert!(batches.len() <= 2, "{batches:?}");
    assert_eq!(replies, [b"+OK\r\n"; 6]);
    let mut client = weir.connect();
    for number in 0..6 {
        assert_eq!(client.say(&format!("GET k{number}")), format!("$1\r\n{number}\r\n"));
    }
}

#[test]
fn a_group_that_the_store_refuses_is_written_by_each_member() {
    let weir = start();
    weir.store.refuses_groups.store(true, Ordering::Relaxed);
    assert_eq!(all_at_once(&weir), (vec![1; 6], vec![b"+OK\r\n".to_vec(); 6]));
}

#[test]
fn each_member_of_a_group_is_told_that_its_record_is_lost() {
    let weir = start();
    weir.store.fail_commits.store(true, Ordering::Relaxed);
    let (_, replies) = all_at_once(&weir);
    assert!(replies.iter().all(|reply| reply.starts_with(b"-MISCONF")), "{replies:?}");
}
