//! A small blocking client: RESP2 as Redis clients speak it, and HTTP GET for the operators' port.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use crate::Result;

/// How long a reply may take before the run fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// A reply, with its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// `+OK`, or the text of an error with its `-`.
    Line(String),
    /// A number.
    Integer(i64),
    /// A value; `None` if there is none.
    Bulk(Option<Vec<u8>>),
    /// Several.
    Array(Vec<Reply>),
}

/// A connection.
pub struct Client {
    reader: BufReader<TcpStream>,
    request: Vec<u8>,
}

impl Client {
    /// Connects to `port` of this machine.
    pub fn connect(port: u16) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self::from_stream(stream))
    }

    /// Reads and writes on `stream`.
    pub fn from_stream(stream: TcpStream) -> Self {
        Self { reader: BufReader::with_capacity(64 << 10, stream), request: Vec::new() }
    }

    /// Puts a command into the pipeline.
    pub fn push(&mut self, words: &[&[u8]]) {
        encode(&mut self.request, words);
    }

    /// Sends what was put into the pipeline.
    pub fn flush(&mut self) -> Result<()> {
        self.reader.get_mut().write_all(&self.request)?;
        self.request.clear();
        Ok(())
    }

    /// Sends one command and reads its reply; an error reply is an error.
    pub fn call(&mut self, words: &[&[u8]]) -> Result<Reply> {
        self.push(words);
        self.flush()?;
        match self.read()? {
            Reply::Line(line) if line.starts_with('-') => Err(line.into()),
            reply => Ok(reply),
        }
    }

    /// Reads one reply.
    pub fn read(&mut self) -> Result<Reply> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err("the server closed the connection".into());
        }
        let line = line.trim_end();
        let rest = line.get(1..).unwrap_or_default();
        match line.as_bytes().first() {
            Some(b'+') => Ok(Reply::Line(rest.to_owned())),
            Some(b'-') => Ok(Reply::Line(line.to_owned())),
            Some(b':') => Ok(Reply::Integer(rest.parse()?)),
            Some(b'$') => match rest.parse::<i64>()? {
                len if len < 0 => Ok(Reply::Bulk(None)),
                len => {
                    let mut value = vec![0; usize::try_from(len)? + 2];
                    self.reader.read_exact(&mut value)?;
                    value.truncate(value.len() - 2);
                    Ok(Reply::Bulk(Some(value)))
                }
            },
            Some(b'*') => {
                (0..rest.parse::<i64>()?.max(0)).map(|_| self.read()).collect::<Result<_>>().map(Reply::Array)
            }
            _ => Err(format!("not a reply: {line:?}").into()),
        }
    }

    /// The connection itself.
    pub fn into_stream(self) -> TcpStream {
        self.reader.into_inner()
    }
}

/// Appends a command.
pub fn encode(request: &mut Vec<u8>, words: &[&[u8]]) {
    // Writing to a vector cannot fail.
    let _ = write!(request, "*{}\r\n", words.len());
    for word in words {
        let _ = write!(request, "${}\r\n", word.len());
        request.extend_from_slice(word);
        request.extend_from_slice(b"\r\n");
    }
}

/// Where the first whole reply of `bytes` ends; `None` if more bytes must come. The reply must be of a kind that
/// commands on strings give (no arrays).
pub fn end_of_reply(bytes: &[u8]) -> Option<usize> {
    let line = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let after = line + 2;
    if bytes[0] != b'$' {
        return Some(after);
    }
    let len: i64 = std::str::from_utf8(&bytes[1..line]).ok()?.parse().ok()?;
    let end = if len < 0 { after } else { after + usize::try_from(len).ok()? + 2 };
    (end <= bytes.len()).then_some(end)
}

/// The body of `GET path` at `port` of this machine.
pub fn http_get(port: u16, path: &str) -> Result<String> {
    http(port, "GET", path, None)
}

/// The answer to `POST path` with a body of JSON.
pub fn http_post(port: u16, path: &str, json: &str) -> Result<String> {
    http(port, "POST", path, Some(json))
}

fn http(port: u16, verb: &str, path: &str, json: Option<&str>) -> Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let content = json.map(|json| format!("Content-Type: application/json\r\nContent-Length: {}\r\n", json.len()));
    let (content, json) = (content.unwrap_or_default(), json.unwrap_or_default());
    // In one piece: a head without its body would wait for the delayed acknowledgement of the other side.
    let request =
        format!("{verb} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n{content}\r\n{json}");
    stream.write_all(request.as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or("not an HTTP reply")?;
    match head.split(' ').nth(1) {
        Some("200" | "201") => Ok(body.to_owned()),
        _ => Err(format!("{verb} {path}: {} {body}", head.lines().next().unwrap_or_default()).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_end_where_they_end() {
        assert_eq!(end_of_reply(b"+OK\r\n+OK\r\n"), Some(5));
        assert_eq!(end_of_reply(b"$3\r\nabc\r\nrest"), Some(9));
        assert_eq!(end_of_reply(b"$-1\r\n"), Some(5));
        assert_eq!(end_of_reply(b"$3\r\nab"), None);
        assert_eq!(end_of_reply(b":12"), None);
    }
}
