//! The replies of many connections, received by one thread. A thread for each would cost more than the server that is
//! measured: on two processors such threads keep the server, and one another, waiting.

use std::net::TcpStream;
use std::sync::mpsc;
use std::time::Instant;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use crate::Result;
use crate::wire;

/// The longest time between two looks for replies.
const WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// Connections that are handled at a time.
const READY_MAX: usize = 256;
/// Room for what one connection has received.
const RECEIVE_BYTES: usize = 16 << 10;

/// What one connection saw of one request.
pub struct Answer {
    /// When the request was to be sent.
    pub due: Instant,
    /// When its reply had come, or when the wait for it ended.
    pub at: Instant,
    /// Whether the request was refused, being above the tenant's limit.
    pub refused: bool,
}

/// One connection, as its receiver sees it.
struct Connection {
    stream: TcpStream,
    /// When requests were due, in the order in which they were sent.
    sent: mpsc::Receiver<Instant>,
    received: Vec<u8>,
}

/// The receiving ends of connections.
#[derive(Default)]
pub struct Replies {
    connections: Vec<Connection>,
}

impl Replies {
    /// Adds the receiving end of `stream`; `sent` delivers the time at which each request was due, before it is sent.
    pub fn add(&mut self, stream: TcpStream, sent: mpsc::Receiver<Instant>) {
        self.connections.push(Connection { stream, sent, received: Vec::new() });
    }

    /// Receives until `end`. A request that is not answered by then took as long as it was waited for.
    ///
    /// # Errors
    /// A connection was closed, or a request failed.
    pub fn receive(mut self, end: Instant) -> Result<Vec<Answer>> {
        let readiness = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (number, connection) in self.connections.iter().enumerate() {
            epoll::add(
                &readiness,
                &connection.stream,
                epoll::EventData::new_u64(number as u64),
                epoll::EventFlags::IN,
            )?;
        }
        let mut answers = Vec::new();
        let mut ready = Vec::with_capacity(READY_MAX);
        while Instant::now() < end {
            ready.clear();
            match epoll::wait(&readiness, spare_capacity(&mut ready), Some(&WAIT)) {
                Err(Errno::INTR) | Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &ready {
                self.connections[event.data.u64() as usize].receive(&mut answers)?;
            }
        }
        for connection in &self.connections {
            answers.extend(connection.sent.try_iter().map(|due| Answer { due, at: end, refused: false }));
        }
        Ok(answers)
    }
}

impl Connection {
    /// Takes the replies that have come.
    fn receive(&mut self, answers: &mut Vec<Answer>) -> Result<()> {
        let mut bytes = [0; RECEIVE_BYTES];
        match recv(&self.stream, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Err("the server closed the connection".into()),
            Ok((received, _)) => self.received.extend_from_slice(&bytes[..received]),
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let at = Instant::now();
        while let Some(len) = wire::end_of_reply(&self.received) {
            let reply: Vec<u8> = self.received.drain(..len).collect();
            let refused = reply.starts_with(b"-THROTTLED");
            if reply.starts_with(b"-") && !refused {
                return Err(format!("refused: {}", String::from_utf8_lossy(&reply).trim_end()).into());
            }
            let due = self.sent.try_recv().map_err(|_| "a reply to nothing")?;
            answers.push(Answer { due, at, refused });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::time::Duration;

    use super::*;

    /// The two ends of a connection.
    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (here, listener.accept().unwrap().0)
    }

    #[test]
    fn each_reply_belongs_to_the_request_that_was_sent_first() {
        let (here, mut there) = pair();
        let (sender, sent) = mpsc::channel();
        let due = Instant::now();
        (0..3).for_each(|second| sender.send(due + Duration::from_secs(second)).unwrap());
        there.write_all(b"$3\r\nabc\r\n-THROTTLED retry_in_ms=5\r\n+O").unwrap();
        let mut replies = Replies::default();
        replies.add(here, sent);
        let end = Instant::now() + Duration::from_millis(1);
        let mut answers = Vec::new();
        while answers.len() < 2 {
            replies.connections[0].receive(&mut answers).unwrap();
        }
        assert_eq!((answers[0].due, answers[0].refused), (due, false));
        assert_eq!((answers[1].due, answers[1].refused), (due + Duration::from_secs(1), true));
        let left = replies.receive(end).unwrap();
        assert_eq!(left.len(), 1, "half a reply is none");
        assert_eq!((left[0].due, left[0].at), (due + Duration::from_secs(2), end));
    }

    #[test]
    fn errors_and_ends_are_told() {
        let failed = |bytes: &[u8]| {
            let (here, mut there) = pair();
            let (sender, sent) = mpsc::channel();
            sender.send(Instant::now()).unwrap();
            there.write_all(bytes).unwrap();
            drop(there);
            let mut replies = Replies::default();
            replies.add(here, sent);
            replies.receive(Instant::now() + Duration::from_secs(60)).err().unwrap().to_string()
        };
        assert_eq!(failed(b"-ERR no\r\n"), "refused: -ERR no");
        assert_eq!(failed(b""), "the server closed the connection");
        assert_eq!(failed(b"+OK\r\n+OK\r\n"), "a reply to nothing");
    }
}
