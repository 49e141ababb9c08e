//! Tests how an import of a running source goes on, and how it is interrupted. The tests play the source.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use weir_io::real::RealClock;

use super::*;
use crate::import::MARK;
use crate::import::fake_tenant::FakeTenant;
use crate::import::hasty_clock::HastyClock;
use crate::import::partitions::Words;
use crate::import::step::Step;
use crate::resp::take_request;

/// The position of an import that was killed.
fn left_at() -> Position {
    Position { history: "h".repeat(40), offset: 100, database: 0, in_step_ms: 50_000 }
}

fn in_runtime<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime").block_on(future)
}

/// A tenant, in which an import was killed if there is a position, and an import into it.
async fn tenant(left: Option<&Position>) -> (FakeTenant, Import) {
    let tenant = FakeTenant::start(1).await;
    let clock: Arc<dyn weir_io::Clock> = RealClock::new();
    let target = Target::new(tenant.address.clone(), Arc::clone(&clock));
    let import = Import { target, choice: Choice::default(), tally: Arc::default(), whole_bytes_max: 1 << 20, clock };
    if let Some(position) = left {
        let mut steps = Steps::new(&import.target, &import.tally, Partitions::new(1));
        steps.begin(0, position).await.expect("it is there");
    }
    (tenant, import)
}

/// Begins an import, in a task of its own. Gives the task, its link to the source, and what it asks there.
async fn begin(
    import: &Import,
    stop: &watch::Receiver<bool>,
) -> (JoinHandle<Result<Position>>, TcpListener, TcpStream, Words) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let source = Address::plain(&listener.local_addr().expect("bound").to_string()).expect("an address");
    let (import, stop) = (import.clone(), stop.clone());
    let running = tokio::spawn(async move { import_live(&import, &source, stop).await });
    let (mut stream, _) = listener.accept().await.expect("a replica");
    let mut received = Vec::new();
    loop {
        let mut rest = &received[..];
        while let Some(words) = take_request(&mut rest).expect("requests") {
            if words[0] == b"PSYNC" {
                return (running, listener, stream, words);
            }
            stream.write_all(b"+OK\r\n").await.expect("it listens");
        }
        received = rest.to_vec();
        assert!(stream.read_buf(&mut received).await.expect("it asks") > 0, "it is gone");
    }
}

fn mark(tenant: &FakeTenant) -> Option<Position> {
    tenant.rows().get(&(0, MARK.to_vec())).and_then(|mark| Position::parse(mark))
}

#[test]
fn an_import_that_is_started_again_pauses_expiry_where_the_one_before_did() {
    in_runtime(async {
        let (tenant, import) = tenant(Some(&left_at())).await;
        let (_stop, stopped) = watch::channel(false);
        let (running, _listener, mut stream, asked) = begin(&import, &stopped).await;
        assert_eq!(asked, [b"PSYNC".to_vec(), vec![b'h'; 40], b"101".to_vec()]);
        let pauses = tenant.pauses();
        assert!(!pauses.is_empty() && pauses.iter().all(|&at_ms| at_ms == 49_000), "{pauses:?}");
        // The moment that is known later goes with the position, too.
        import.tally.in_step_ms.store(60_000, Ordering::Relaxed);
        let stream_of_source = b"+CONTINUE\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n";
        stream.write_all(stream_of_source).await.expect("it listens");
        while mark(&tenant) == Some(left_at()) {
            tokio::task::yield_now().await;
        }
        let offset = 100 + stream_of_source.len() as u64 - 11;
        assert_eq!(mark(&tenant), Some(Position { offset, in_step_ms: 60_000, ..left_at() }));
        running.abort();
    });
}

#[test]
fn an_import_that_is_interrupted_before_the_source_answers_ends_at_once() {
    in_runtime(async {
        for left in [None, Some(left_at())] {
            let (tenant, import) = tenant(left.as_ref()).await;
            let (stop, stopped) = watch::channel(false);
            let (running, _listener, mut stream, _) = begin(&import, &stopped).await;
            // It lives, and makes a snapshot.
            stream.write_all(b"\n").await.expect("it listens");
            stop.send(true).expect("it runs");
            let failure = running.await.expect("no panic").expect_err("it has not ended in order");
            let said = if left.is_some() { "goes on from there" } else { "nothing was imported" };
            assert!(failure.message.contains(said), "{failure}");
            assert_eq!(mark(&tenant), left);
        }
    });
}

#[test]
fn an_import_that_is_interrupted_while_the_source_is_away_can_be_started_again() {
    in_runtime(async {
        let (tenant, import) = tenant(Some(&left_at())).await;
        let (stop, stopped) = watch::channel(false);
        let (running, listener, stream, _) = begin(&import, &stopped).await;
        drop((listener, stream));
        while import.tally.take_note().is_none() {
            tokio::task::yield_now().await;
        }
        stop.send(true).expect("it runs");
        let failure = running.await.expect("no panic").expect_err("the source was away");
        assert!(failure.message.contains("goes on from there"), "{failure}");
        assert_eq!(mark(&tenant), Some(left_at()));
    });
}

#[test]
fn an_import_that_is_interrupted_while_the_tenant_is_away_ends_and_can_be_started_again() {
    in_runtime(async {
        for has_work in [true, false] {
            let (tenant, import) = tenant(Some(&left_at())).await;
            let (stop, stopped) = watch::channel(false);
            let (running, _listener, mut stream, _) = begin(&import, &stopped).await;
            tenant.go_away();
            let command = if has_work { "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n" } else { "" };
            stream.write_all(format!("+CONTINUE\r\n{command}").as_bytes()).await.expect("it listens");
            while import.tally.phase() != Phase::Following {
                tokio::task::yield_now().await;
            }
            stop.send(true).expect("it runs");
            let failure = running.await.expect("no panic").expect_err("the tenant was away");
            assert!(failure.message.contains("goes on from there"), "{failure}");
            assert_eq!(mark(&tenant), Some(left_at()));
        }
    });
}

/// Tells an import to end as soon as the tenant has been asked for something.
async fn tell_when(mut silent: watch::Receiver<bool>, stop: &watch::Sender<bool>) {
    silent.wait_for(|&silent| silent).await.expect("it is asked");
    stop.send(true).expect("it runs");
}

#[test]
fn an_import_that_is_interrupted_while_the_tenant_does_not_answer_ends_before_it_begins() {
    in_runtime(async {
        let (tenant, import) = tenant(None).await;
        let (stop, stopped) = watch::channel(false);
        let (silent, source) = (tenant.allow(0, 0), tenant.address.clone());
        let (imported, ()) = tokio::join!(import_live(&import, &source, stopped), tell_when(silent, &stop));
        let failure = imported.expect_err("nobody answers");
        assert!(failure.message.contains("start the same command again"), "{failure}");
    });
}

#[test]
fn a_step_that_the_tenant_does_not_answer_ends_once_the_import_is_told_to() {
    in_runtime(async {
        let tenant = FakeTenant::start(1).await;
        let (stop, stopped) = watch::channel(false);
        // On this clock an answer may take as long as it likes.
        let target = Target { stop: Some(stopped), ..Target::new(tenant.address.clone(), HastyClock::new()) };
        let mut steps = Steps::new(&target, &Arc::default(), Partitions::new(1));
        steps.begin(0, &left_at()).await.expect("it is there");
        let silent = tenant.allow(0, 0);
        let end = Position { offset: 200, ..left_at() };
        let commands = vec![(["SET", "a", "1"].map(|word| word.as_bytes().to_vec()).to_vec(), 200)];
        let step = Step { commands, ..Step::default() };
        let (applied, ()) = tokio::join!(steps.apply(&step, &end), tell_when(silent, &stop));
        let failure = applied.expect_err("nobody answers");
        assert!(failure.message.contains("told to end"), "{failure}");
    });
}
