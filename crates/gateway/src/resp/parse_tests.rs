//! The parser against its own specification, however the stream is cut and whatever the bytes are.

use proptest::prelude::*;

use super::frame::{Limits, PartialRequest, Progress, ProtocolError};
use super::parse::parse;

type Command = Vec<Vec<u8>>;

/// Feeds `stream` in pieces that end at `cuts`, as a connection does. Returns the commands and how the stream ended.
fn feed(stream: &[u8], cuts: &[usize], limits: &Limits) -> (Vec<Command>, Option<ProtocolError>) {
    let mut state = PartialRequest::new();
    let mut buffer = Vec::new();
    let mut commands = Vec::new();
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (stream.len() + 1)).collect();
    cuts.push(stream.len());
    cuts.sort_unstable();
    let mut fed = 0;
    for cut in cuts {
        buffer.extend_from_slice(&stream[fed..cut]);
        fed = cut;
        loop {
            match parse(&buffer, limits, &mut state) {
                Ok(Progress::Incomplete) => break,
                Ok(Progress::Nothing(len)) => drop(buffer.drain(..len)),
                Ok(Progress::Request(len)) => {
                    commands.push(state.args(&buffer).iter_from(0).map(<[u8]>::to_vec).collect());
                    buffer.drain(..len);
                }
                Err(error) => return (commands, Some(error)),
            }
        }
    }
    (commands, None)
}

fn encode(command: &Command) -> Vec<u8> {
    let mut out = format!("*{}\r\n", command.len()).into_bytes();
    for arg in command {
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
    out
}

fn error_of(stream: &[u8]) -> String {
    let limits = Limits { args_max: 100, bulk_bytes_max: 1000, ..Limits::default() };
    let (_, error) = feed(stream, &[], &limits);
    String::from_utf8(error.expect("refused").reply().unwrap_or_default()).expect("text")
}

#[test]
fn errors_are_worded_as_redis_words_them() {
    let long = vec![b'1'; 64 << 10];
    for (stream, text) in [
        (&b"*x\r\n"[..], "invalid multibulk length"),
        (b"*101\r\n", "invalid multibulk length"),
        (b"*99999999999999999999\r\n", "invalid multibulk length"),
        (b"*1\r\n$x\r\n", "invalid bulk length"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$1001\r\n", "invalid bulk length"),
        (b"*1\r\n:1\r\n", "expected '$', got ':'"),
        (b"*1\r\n*1\r\n", "expected '$', got '*'"),
        (b"*1\r\n\r\n", "expected '$', got ' '"),
        (b"get \"a\r\n", "unbalanced quotes in request"),
        (&[b"*", &long[..]].concat(), "too big mbulk count string"),
        (&[b"*1\r\n$", &long[..]].concat(), "too big bulk count string"),
        (&long, "too big inline request"),
    ] {
        assert_eq!(error_of(stream), format!("-ERR Protocol error: {text}\r\n"));
    }
}

#[test]
fn a_hundred_thousand_levels_are_refused_at_the_second() {
    let stream = b"*1\r\n".repeat(100_000);
    assert_eq!(feed(&stream, &[], &Limits::default()).1, Some(ProtocolError::ExpectedBulk(b'*')));
}

#[test]
fn http_is_refused_in_silence_but_get_is_a_command() {
    for stream in ["POST / HTTP/1.1\r\n", "Host: localhost\r\n", "GET / HTTP/1.1\r\n", "delete /x HTTP/1.0\r\n"] {
        assert_eq!(error_of(stream.as_bytes()), "");
    }
    assert_eq!(feed(b"GET /\r\n", &[], &Limits::default()).0.len(), 1);
}

#[test]
fn what_is_only_announced_costs_nothing() {
    let mut state = PartialRequest::new();
    let buffer = b"*1000000\r\n$60000000\r\n";
    assert_eq!(parse(buffer, &Limits::default(), &mut state), Ok(Progress::Incomplete));
    assert_eq!(state.memory_bytes(), 0);
}

#[test]
fn the_request_as_a_whole_has_a_limit() {
    let limits = Limits { request_bytes_max: 3000, bulk_bytes_max: 1000, ..Limits::default() };
    let command: Command = vec![vec![b'x'; 1000]; 3];
    assert_eq!(feed(&encode(&command), &[], &limits).1, Some(ProtocolError::RequestTooLong));
}

#[test]
fn empty_requests_are_passed_over() {
    let (commands, error) = feed(b"\r\n*0\r\n*-1\r\n   \r\n\nPING\n", &[], &Limits::default());
    assert_eq!((commands, error), (vec![vec![b"PING".to_vec()]], None));
}

proptest! {
    #[test]
    fn any_cut_of_the_stream_gives_the_same_commands(
        commands in prop::collection::vec(prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..6), 0..8),
        cuts: Vec<usize>,
    ) {
        let stream: Vec<u8> = commands.iter().flat_map(encode).collect();
        prop_assert_eq!(feed(&stream, &cuts, &Limits::default()), (commands, None));
    }

    /// Streams of the protocol's own characters get deep into the parser; small limits make every error reachable.
    #[test]
    fn any_bytes_give_the_same_end_however_they_are_cut(
        pieces in prop::collection::vec(prop_oneof![
            Just(b"*1\r\n".to_vec()), Just(b"*2\r\n".to_vec()), Just(b"$1\r\n".to_vec()), Just(b"$0\r\n".to_vec()),
            Just(b"\r\n".to_vec()), Just(b"a".to_vec()), Just(b"\"".to_vec()), Just(b"\\x4".to_vec()), Just(b"'".to_vec()),
            Just(b"*".to_vec()), Just(b"$".to_vec()), Just(b"9".to_vec()), prop::collection::vec(any::<u8>(), 0..4),
        ], 0..40),
        cuts: Vec<usize>,
    ) {
        let stream = pieces.concat();
        let limits = Limits { args_max: 9, bulk_bytes_max: 9, line_bytes_max: 24, request_bytes_max: 60, stranger: false };
        prop_assert_eq!(feed(&stream, &cuts, &limits), feed(&stream, &[], &limits));
    }
}
