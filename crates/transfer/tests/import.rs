//! Imports between two servers of Redis: a Redis, too, understands the requests that are sent to the target.
#![allow(clippy::disallowed_methods, missing_docs, reason = "tests start processes")]

mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use support::{Client, Redis, import, is_installed, run};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use weir_transfer::export::export;
use weir_transfer::failure::Result;
use weir_transfer::import::{Choice, Import, Position, import_file, import_live};
use weir_transfer::resp::{Reply, take_request};
use weir_transfer::verify::{verify_file, verify_live};

async fn of_file(redis: &Redis, import: &Import) -> Result {
    let file = std::fs::File::open(redis.dir.join("dump.rdb")).expect("it was saved");
    let bytes = file.metadata().expect("a file").len();
    import_file(import, file, bytes).await
}

/// Asserts that `import` has brought everything.
async fn assert_same(source: &Redis, import: &Import, keys: u64) {
    let compared = verify_live(import, &source.address(), None).await.expect("both answer");
    assert_eq!((compared.different, compared.keys), (0, keys), "{:?}", compared.differences);
    let (refused, _) = import.tally.refused();
    assert!(refused.is_empty(), "{refused:?}");
}

#[test]
fn a_dump_file_is_imported_with_keys_of_every_type_and_size() {
    if !is_installed() {
        return;
    }
    run(async {
        let (source, target) = (Redis::start(&[]), Redis::start(&[]));
        let mut client = Client::new(&source.address()).await;
        client.fill(true).await;
        client.ask("SAVE").await;
        let import = import(target.address(), Choice::default());
        of_file(&source, &import).await.expect("a dump");
        assert_eq!(import.tally.keys.load(Ordering::Relaxed), 19);
        assert_same(&source, &import, 19).await;
        let file = std::fs::File::open(source.dir.join("dump.rdb")).expect("it was saved");
        let compared = verify_file(&import, file).await.expect("both can be read");
        assert_eq!((compared.different, compared.keys), (0, 19), "{:?}", compared.differences);
        // Large streams have come in parts, with groups and pending entries.
        let mut there = Client::new(&target.address()).await;
        for question in ["XINFO STREAM stream-long", "XPENDING stream-long workers", "XINFO GROUPS stream-long"] {
            assert_eq!(there.ask(question).await, client.ask(question).await, "{question}");
        }
        // Another import is refused, unless it may replace.
        let again = support::import(target.address(), Choice::default());
        assert!(of_file(&source, &again).await.expect_err("it has keys").message.contains("--replace"));
        there.ask("SET text changed").await;
        there.ask("SET own key").await;
        assert_eq!(verify_live(&import, &source.address(), None).await.expect("both answer").different, 2);
        let again = support::import(target.address(), Choice { replace: true, ..Choice::default() });
        of_file(&source, &again).await.expect("a dump");
        assert_eq!(verify_live(&import, &source.address(), None).await.expect("both answer").different, 1);
    });
}

#[test]
fn what_a_side_does_not_tell_is_no_agreement() {
    if !is_installed() {
        return;
    }
    run(async {
        let (source, target) = (Redis::start(&[]), Redis::start(&[]));
        for redis in [&source, &target] {
            Client::new(&redis.address()).await.ask("SET text same").await;
        }
        let import = import(target.address(), Choice::default());
        assert_same(&source, &import, 1).await;
        Client::new(&target.address()).await.ask("ACL SETUSER default -dump").await;
        let compared = verify_live(&import, &source.address(), None).await.expect("both answer");
        assert_eq!((compared.different, compared.by_size), (1, 0));
        assert!(compared.differences[0].what.contains("the tenant does not tell its value"), "{compared:?}");
    });
}

#[test]
fn what_is_exported_is_imported_again() {
    if !is_installed() {
        return;
    }
    run(async {
        let (source, target) = (Redis::start(&[]), Redis::start(&[]));
        let mut client = Client::new(&source.address()).await;
        client.fill(true).await;
        let library = "#!lua name=mine\nredis.register_function('one', function() return 1 end)";
        client.0.ask(&["FUNCTION", "LOAD", library]).await.expect("a library");
        let from = support::import(source.address(), Choice::default());
        let mut file = Vec::new();
        let bytes = export(&from.target, &from.choice, &from.tally, &[("redis-ver", "7.0.15")], &mut file).await;
        assert_eq!(bytes.expect("it is written"), file.len() as u64);
        assert_eq!((from.tally.keys.load(Ordering::Relaxed), from.tally.refusals()), (19, 0));
        let import = import(target.address(), Choice::default());
        import_file(&import, &file[..], file.len() as u64).await.expect("a dump");
        assert_same(&source, &import, 19).await;
        let mut there = Client::new(&target.address()).await;
        assert_eq!(there.ask("FCALL one 0").await, Reply::Number(1));
        // Functions that may not be read are counted as refused; they are not taken for none.
        client.ask("ACL SETUSER default -function").await;
        let from = support::import(source.address(), Choice::default());
        export(&from.target, &from.choice, &from.tally, &[], &mut Vec::new()).await.expect("it is written");
        let (refused, _) = from.tally.refused();
        assert!(refused.len() == 1 && refused[0].reason.starts_with("NOPERM"), "{refused:?}");
        client.ask("ACL SETUSER default -dump").await;
        let failure = export(&from.target, &from.choice, &from.tally, &[], &mut Vec::new()).await;
        assert!(failure.expect_err("nothing can be exported").message.contains("NOPERM"));
    });
}

/// Serves a client ten strings, three a page, and forgets the places of two of its scans. Gives the keys of each `DUMP`
/// and `EXISTS`.
async fn serve_forgetfully(listener: tokio::net::TcpListener) -> Vec<String> {
    let (mut stream, _) = listener.accept().await.expect("a client");
    let mut keys = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let (mut received, mut asked, mut forgotten) = (Vec::<u8>::new(), Vec::new(), Vec::new());
    let (payload, mut is_queueing) = (format!("$13\r\n\0\x01v{}\r\n", "\0".repeat(10)), false);
    while stream.read_buf(&mut received).await.unwrap_or(0) > 0 {
        let (mut rest, mut answers) = (&received[..], String::new());
        while let Some(words) = take_request(&mut rest).expect("requests") {
            let words: Vec<String> = words.into_iter().map(|word| String::from_utf8(word).expect("text")).collect();
            if ["DUMP", "EXISTS"].contains(&words[0].as_str()) {
                asked.push(words[1].clone());
            }
            match words[0].as_str() {
                "SCAN" => {
                    let from: usize = words[1].parse().expect("a number");
                    if [6, 9].contains(&from) && !forgotten.contains(&from) {
                        forgotten.push(from);
                        // A key of the page before is gone, and another one has come.
                        keys[3] = "dd";
                        answers += "-ERR invalid cursor: too old or unknown, start the scan again at 0\r\n";
                        continue;
                    }
                    let end = (from + 3).min(keys.len());
                    let next = if end < keys.len() { end } else { 0 };
                    answers += &format!("*2\r\n+{next}\r\n*{}\r\n", end - from);
                    keys[from..end].iter().for_each(|key| answers += &format!("+{key}\r\n"));
                }
                "MULTI" => {
                    is_queueing = true;
                    answers += "+OK\r\n";
                }
                "EXEC" => {
                    is_queueing = false;
                    answers += &format!("*2\r\n:-1\r\n{payload}");
                }
                _ if is_queueing => answers += "+QUEUED\r\n",
                "DUMP" => answers += &payload,
                "TYPE" => answers += "+string\r\n",
                "PEXPIRETIME" => answers += ":-1\r\n",
                "STRLEN" | "EXISTS" => answers += ":1\r\n",
                "FUNCTION" => answers += "*0\r\n",
                _ => answers += "+OK\r\n",
            }
        }
        let taken = received.len() - rest.len();
        received.drain(..taken);
        stream.write_all(answers.as_bytes()).await.expect("it listens");
    }
    asked
}

/// Starts a server that forgets places of scans; gives its address, and what it was asked.
async fn forgetful() -> (weir_transfer::address::Address, tokio::task::JoinHandle<Vec<String>>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = weir_transfer::address::Address::plain(&listener.local_addr().expect("bound").to_string());
    (address.expect("an address"), tokio::spawn(serve_forgetfully(listener)))
}

#[test]
fn an_export_goes_on_where_its_scan_was_forgotten() {
    run(async {
        let (address, serving) = forgetful().await;
        let from = import(address, Choice { databases: vec![0], ..Choice::default() });
        export(&from.target, &from.choice, &from.tally, &[], &mut Vec::new()).await.expect("it is written");
        assert_eq!(from.tally.keys.load(Ordering::Relaxed), 10);
        assert_eq!(serving.await.expect("no panic").concat(), "abcdefghij");
    });
}

/// Serves a client one string, and says of the first transaction that its partition is being closed.
async fn serve_closing(listener: tokio::net::TcpListener) {
    let (mut stream, _) = listener.accept().await.expect("a client");
    let (mut received, mut has_closed) = (Vec::<u8>::new(), false);
    let dumped = format!("*2\r\n:-1\r\n$13\r\n\0\x01v{}\r\n", "\0".repeat(10));
    while stream.read_buf(&mut received).await.unwrap_or(0) > 0 {
        let (mut rest, mut answers) = (&received[..], String::new());
        while let Some(words) = take_request(&mut rest).expect("requests") {
            answers += match &words[0][..] {
                b"SCAN" => "*2\r\n+0\r\n*1\r\n+k\r\n",
                b"FUNCTION" => "*0\r\n",
                b"PEXPIRETIME" | b"DUMP" => "+QUEUED\r\n",
                b"EXEC" if std::mem::replace(&mut has_closed, true) => dumped.as_str(),
                b"EXEC" => "-ERR storage: it is being closed, try again\r\n",
                _ => "+OK\r\n",
            };
        }
        let taken = received.len() - rest.len();
        received.drain(..taken);
        stream.write_all(answers.as_bytes()).await.expect("it listens");
    }
}

#[test]
fn an_export_asks_again_where_a_partition_is_being_closed() {
    run(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = weir_transfer::address::Address::plain(&listener.local_addr().expect("bound").to_string());
        let serving = tokio::spawn(serve_closing(listener));
        let from = import(address.expect("an address"), Choice { databases: vec![0], ..Choice::default() });
        export(&from.target, &from.choice, &from.tally, &[], &mut Vec::new()).await.expect("it is written");
        assert_eq!((from.tally.keys.load(Ordering::Relaxed), from.tally.refusals()), (1, 0));
        serving.await.expect("no panic");
    });
}

#[test]
fn a_comparison_goes_on_where_its_scans_were_forgotten() {
    run(async {
        let ((source, there), (target, here)) = (forgetful().await, forgetful().await);
        let import = import(target, Choice { databases: vec![0], ..Choice::default() });
        let compared = verify_live(&import, &source, None).await.expect("both answer");
        assert_eq!((compared.keys, compared.different), (10, 0), "{:?}", compared.differences);
        // The keys of the source are compared, and then those of the tenant are looked for.
        for serving in [there, here] {
            assert_eq!(serving.await.expect("no panic").concat(), "abcdefghijabcdefghij");
        }
    });
}

#[test]
fn a_comparison_lists_a_name_of_the_source_that_is_too_long_for_the_tenant() {
    if !is_installed() {
        return;
    }
    run(async {
        let (source, target) = (Redis::start(&[]), Redis::start(&["--proto-max-bulk-len", "1048576"]));
        let (mut there, long) = (Client::new(&source.address()).await, "k".repeat(2 << 20));
        there.ask(&format!("MSET text same {long} value other same")).await;
        Client::new(&target.address()).await.ask("MSET text same other same").await;
        let import = import(target.address(), Choice::default());
        let compared = verify_live(&import, &source.address(), None).await.expect("both answer");
        assert_eq!((compared.keys, compared.different), (3, 1), "{:?}", compared.differences);
        assert!(compared.differences[0].what.contains("2097152 bytes"), "{:?}", compared.differences);
    });
}

#[test]
fn chosen_databases_are_imported_alone() {
    if !is_installed() {
        return;
    }
    run(async {
        let (source, target) = (Redis::start(&[]), Redis::start(&[]));
        let mut client = Client::new(&source.address()).await;
        client.fill(false).await;
        client.ask("SAVE").await;
        let import = import(target.address(), Choice { databases: vec![5], ..Choice::default() });
        of_file(&source, &import).await.expect("a dump");
        assert_same(&source, &import, 2).await;
        assert_eq!(import.tally.others.load(Ordering::Relaxed), 17);
    });
}

/// Writes of many kinds, until told to end; gives how many there were.
async fn write(source: weir_transfer::address::Address, mut stop: watch::Receiver<bool>) -> u64 {
    let mut client = Client::new(&source).await;
    let mut count = 0;
    while !*stop.borrow_and_update() {
        for line in [
            format!("SET w:{} {count}", count % 500),
            "INCR counter".to_owned(),
            format!("RPUSH queue {count}"),
            "LPOP queue 1".to_owned(),
            format!("HINCRBY totals f{} 3", count % 50),
            format!("ZINCRBY ranks 1.5 m{}", count % 100),
            format!("SADD tags t{}", count % 1000),
            "SPOP tags".to_owned(),
            format!("XADD events * n {count}"),
            format!("SET short:{} x PX 20", count % 10),
            format!("APPEND log {}", count % 10),
            format!("DEL w:{}", count % 700),
            // An exchange of a database with itself does nothing.
            format!("SWAPDB 0 {}", if count % 20 == 0 { 1 + count / 20 % 2 } else { 0 }),
            format!("SELECT {}", count % 3),
        ] {
            // The source may have been killed.
            if client.0.call(&line.split(' ').collect::<Vec<_>>()).await.is_err() {
                return count;
            }
        }
        client.0.call(&["MULTI"]).await.ok();
        client.0.call(&["INCR", "twice"]).await.ok();
        client.0.call(&["INCR", "twice"]).await.ok();
        client.0.call(&["EXEC"]).await.ok();
        client.0.call(&["EVAL", "redis.call('incr', 'scripted') redis.call('del', 'w:1')", "0"]).await.ok();
        count += 1;
    }
    count
}

async fn wait_until(import: &Import, is_so: impl Fn(&Import) -> bool) {
    while !is_so(import) {
        // Let others on this thread go on.
        weir_io::sleep_until(&import.clock, import.clock.now() + 5_000_000).await;
    }
}

fn follows(import: &Import) -> bool {
    import.tally.phase() == weir_transfer::tally::Phase::Following
}

/// Begins an import of `source`, in a task of its own.
fn begin(source: &Redis, import: &Import, stop: &watch::Receiver<bool>) -> tokio::task::JoinHandle<Result<Position>> {
    let (import, address, stop) = (import.clone(), source.address(), stop.clone());
    tokio::spawn(async move { import_live(&import, &address, stop).await })
}

#[test]
fn a_running_server_is_followed_under_writes_with_and_without_a_disk() {
    if !is_installed() {
        return;
    }
    for diskless in ["no", "yes"] {
        run(async {
            let options = ["--repl-diskless-sync", diskless, "--repl-diskless-sync-delay", "0"];
            let (source, target) = (Redis::start(&options), Redis::start(&[]));
            Client::new(&source.address()).await.fill(true).await;
            let (end_writes, writes) = watch::channel(false);
            let writer = tokio::spawn(write(source.address(), writes));
            let (stop, stopped) = watch::channel(false);
            let import = import(target.address(), Choice::default());
            let running = begin(&source, &import, &stopped);
            wait_until(&import, |import| follows(import) && import.tally.commands.load(Ordering::Relaxed) > 2_000)
                .await;
            end_writes.send(true).expect("it writes");
            assert!(writer.await.expect("no panic") > 10);
            wait_until(&import, |import| import.tally.is_in_step()).await;
            let keys = Client::new(&source.address()).await;
            drop(keys);
            let compared = verify_live(&import, &source.address(), None).await.expect("both answer");
            assert_eq!(compared.different, 0, "{:?}", compared.differences);
            assert_eq!(import.tally.refused().0, []);
            // The source knows its replica's position.
            let mut client = Client::new(&source.address()).await;
            client.ask("SET last one").await;
            assert_eq!(client.ask("WAIT 1 0").await, weir_transfer::resp::Reply::Number(1));
            stop.send(true).expect("it runs");
            running.await.expect("no panic").expect("it ends in order");
            let mut there = Client::new(&target.address()).await;
            assert_eq!(there.ask("GET last").await.text(), Some(b"one".as_slice()));
            assert_eq!(there.ask("EXISTS weir:import:position").await, weir_transfer::resp::Reply::Number(0));
        });
    }
}

#[test]
fn an_import_until_in_step_ends_by_itself() {
    if !is_installed() {
        return;
    }
    run(async {
        let (source, target) = (Redis::start(&["--repl-diskless-sync-delay", "0"]), Redis::start(&[]));
        Client::new(&source.address()).await.fill(false).await;
        let import = import(target.address(), Choice { until_in_step: true, ..Choice::default() });
        let (_stop, stopped) = watch::channel(false);
        import_live(&import, &source.address(), stopped).await.expect("it ends");
        assert_same(&source, &import, 19).await;
    });
}

#[test]
fn an_import_that_is_dropped_leaves_nothing_running() {
    if !is_installed() {
        return;
    }
    run(async {
        let (source, target) = (Redis::start(&["--repl-diskless-sync-delay", "0"]), Redis::start(&[]));
        let import = import(target.address(), Choice::default());
        let (_stop, stopped) = watch::channel(false);
        let running = begin(&source, &import, &stopped);
        wait_until(&import, follows).await;
        running.abort();
        assert!(running.await.is_err());
        // A task that was aborted is dropped when its turn comes.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(Arc::strong_count(&import.tally), 1);
    });
}

/// Passes bytes on, until told to break every connection.
async fn pass(listener: tokio::net::TcpListener, to: u16, breaks: Arc<tokio::sync::Notify>) {
    while let Ok((mut from, _)) = listener.accept().await {
        let breaks = Arc::clone(&breaks);
        tokio::spawn(async move {
            let Ok(mut to) = tokio::net::TcpStream::connect(("127.0.0.1", to)).await else { return };
            tokio::select! {
                _ = tokio::io::copy_bidirectional(&mut from, &mut to) => {}
                () = breaks.notified() => {}
            }
        });
    }
}

#[test]
fn nothing_is_missed_or_done_twice_when_links_break_and_servers_are_killed() {
    if !is_installed() {
        return;
    }
    run(async {
        let mut source = Redis::start(&["--repl-diskless-sync-delay", "0", "--appendonly", "yes"]);
        let mut target = Redis::start(&["--appendonly", "yes", "--appendfsync", "always"]);
        Client::new(&source.address()).await.fill(true).await;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let between = weir_transfer::address::Address::plain(&listener.local_addr().expect("bound").to_string());
        let breaks = Arc::new(tokio::sync::Notify::new());
        tokio::spawn(pass(listener, target.port, Arc::clone(&breaks)));
        let import = import(between.expect("an address"), Choice::default());
        let (end_writes, writes) = watch::channel(false);
        let writer = tokio::spawn(write(source.address(), writes.clone()));
        let (stop, stopped) = watch::channel(false);
        let running = begin(&source, &import, &stopped);
        let commands = || import.tally.commands.load(Ordering::Relaxed);
        // The links to the target break in the middle of the snapshot, and of the stream.
        wait_until(&import, |import| import.tally.keys.load(Ordering::Relaxed) > 3).await;
        breaks.notify_waiters();
        wait_until(&import, follows).await;
        for _ in 0..5 {
            let before = commands();
            wait_until(&import, |import| import.tally.commands.load(Ordering::Relaxed) > before + 300).await;
            breaks.notify_waiters();
        }
        // The target is killed, and comes back.
        target.kill();
        target.begin();
        let before = commands();
        wait_until(&import, |import| import.tally.commands.load(Ordering::Relaxed) > before + 300).await;
        // The source is killed, and comes back as another one: everything comes anew.
        source.kill();
        writer.await.expect("no panic");
        source.begin();
        let writer = tokio::spawn(write(source.address(), writes));
        wait_until(&import, |import| import.tally.restarts.load(Ordering::Relaxed) == 1 && follows(import)).await;
        end_writes.send(true).expect("it writes");
        writer.await.expect("no panic");
        let before = import.tally.applied.load(Ordering::Relaxed);
        wait_until(&import, |import| {
            import.tally.is_in_step() && import.tally.applied.load(Ordering::Relaxed) > before
        })
        .await;
        let compared = verify_live(&import, &source.address(), None).await.expect("both answer");
        assert_eq!(compared.different, 0, "{:?}", compared.differences);
        // The import itself is killed, and goes on where it was.
        running.abort();
        assert!(running.await.is_err());
        let mut client = Client::new(&source.address()).await;
        client.ask("INCR counter").await;
        let again = support::import(target.address(), Choice::default());
        let running = begin(&source, &again, &stopped);
        wait_until(&again, |import| import.tally.is_in_step()).await;
        assert_eq!(again.tally.keys.load(Ordering::Relaxed), 0);
        stop.send(true).expect("it runs");
        running.await.expect("no panic").expect("it ends in order");
        let compared = verify_live(&again, &source.address(), None).await.expect("both answer");
        assert_eq!(compared.different, 0, "{:?}", compared.differences);
    });
}

#[test]
fn the_position_is_told_while_nothing_is_imported() {
    if !is_installed() {
        return;
    }
    run(async {
        let (source, target) = (Redis::start(&["--repl-diskless-sync-delay", "0"]), Redis::start(&[]));
        let import = import(target.address(), Choice { databases: vec![1], ..Choice::default() });
        let (stop, stopped) = watch::channel(false);
        let running = begin(&source, &import, &stopped);
        wait_until(&import, follows).await;
        let applied = || import.tally.applied.load(Ordering::Relaxed);
        let (before, mut client) = (applied(), Client::new(&source.address()).await);
        let value = "v".repeat(10_000);
        for number in 0..20 {
            client.ask(&format!("SET {number} {value}")).await;
        }
        wait_until(&import, |_| applied() > before + 200_000).await;
        let mut there = Client::new(&target.address()).await;
        there.ask("SELECT 1").await;
        let mark = there.ask("GET weir:import:position").await;
        let mark = mark.text().and_then(Position::parse).expect("a position");
        assert!(mark.offset > before + 100_000, "{} of {}", mark.offset, applied());
        stop.send(true).expect("it runs");
        running.await.expect("no panic").expect("it ends in order");
        assert_eq!(there.ask("DBSIZE").await, Reply::Number(0));
    });
}

#[test]
fn a_replica_is_followed_in_the_database_that_its_master_has_chosen() {
    if !is_installed() {
        return;
    }
    run(async {
        let master = Redis::start(&["--repl-diskless-sync-delay", "0"]);
        let port = master.port.to_string();
        let source = Redis::start(&["--replicaof", "127.0.0.1", &port, "--repl-diskless-sync-delay", "0"]);
        let target = Redis::start(&[]);
        let mut client = Client::new(&master.address()).await;
        client.ask("SELECT 5").await;
        // The first one is in the snapshot for the replica, and the second one chooses the database in the stream.
        for key in ["first", "second"] {
            client.ask(&format!("SET {key} 1")).await;
            assert_eq!(client.ask("WAIT 1 0").await, Reply::Number(1));
        }
        let import = import(target.address(), Choice::default());
        let (stop, stopped) = watch::channel(false);
        let running = begin(&source, &import, &stopped);
        wait_until(&import, follows).await;
        client.ask("SET third 1").await;
        wait_until(&import, |import| import.tally.commands.load(Ordering::Relaxed) > 0).await;
        stop.send(true).expect("it runs");
        running.await.expect("no panic").expect("it ends in order");
        let mut there = Client::new(&target.address()).await;
        there.ask("SELECT 5").await;
        assert_eq!(there.ask("EXISTS first second third").await, Reply::Number(3));
    });
}

#[test]
fn a_source_that_refuses_or_is_not_there_is_named() {
    if !is_installed() {
        return;
    }
    run(async {
        let (source, target) = (Redis::start(&["--requirepass", "secret"]), Redis::start(&[]));
        let import = import(target.address(), Choice::default());
        let (_stop, stopped) = watch::channel(false);
        let failure = import_live(&import, &source.address(), stopped.clone()).await.expect_err("no login");
        assert!(failure.message.contains("NOAUTH"), "{failure}");
        let nobody = weir_transfer::address::Address::plain(&format!("127.0.0.1:{}", support::free_port()));
        let failure = import_live(&import, &nobody.expect("one"), stopped).await.expect_err("nobody is there");
        assert!(failure.message.contains("127.0.0.1"), "{failure}");
    });
}

#[test]
fn an_import_that_was_killed_goes_on_only_with_the_same_databases() {
    if !is_installed() {
        return;
    }
    run(async {
        let (source, target) = (Redis::start(&["--repl-diskless-sync-delay", "0"]), Redis::start(&[]));
        let mut client = Client::new(&source.address()).await;
        client.fill(false).await;
        let of = |databases: &[u8]| {
            let choice = Choice { databases: databases.to_vec(), until_in_step: true, ..Choice::default() };
            support::import(target.address(), choice)
        };
        let (_stop, stopped) = watch::channel(false);
        let first = support::import(target.address(), Choice { databases: vec![5], ..Choice::default() });
        let running = begin(&source, &first, &stopped);
        wait_until(&first, follows).await;
        // The note of the databases is not lost with everything else.
        client.ask("SELECT 5").await;
        client.ask("FLUSHDB").await;
        client.ask("SET after it").await;
        assert_eq!(client.ask("WAIT 1 0").await, Reply::Number(1));
        running.abort();
        assert!(running.await.is_err());
        for others in [&[][..], &[0], &[0, 5]] {
            let failure = import_live(&of(others), &source.address(), stopped.clone()).await;
            let failure = failure.expect_err("something would be missing");
            assert!(failure.message.contains("--db"), "{others:?}: {failure}");
        }
        let again = of(&[5]);
        import_live(&again, &source.address(), stopped).await.expect("it goes on");
        assert_eq!(again.tally.keys.load(Ordering::Relaxed), 0);
        let mut there = Client::new(&target.address()).await;
        assert_eq!(there.ask("DBSIZE").await, Reply::Number(0));
        there.ask("SELECT 5").await;
        assert_eq!(there.ask("KEYS *").await, Reply::Array(Some(vec![Reply::Bulk(Some(b"after".to_vec()))])));
    });
}
