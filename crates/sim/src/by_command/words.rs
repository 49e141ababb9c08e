//! Words of commands and of answers.

use weir_io::{Error, ErrorKind};

use crate::reply::Reply;

/// Words of a command.
pub(super) type Words = Vec<Vec<u8>>;

/// The words of `line`, where `K` stands for the key.
pub(super) fn words(line: &str, key: &[u8]) -> Words {
    line.split(' ').map(|word| if word == "K" { key.to_vec() } else { word.as_bytes().to_vec() }).collect()
}

/// The strings and numbers of an answer, in their order.
pub(super) fn elements(mut answer: &[u8]) -> Words {
    let mut found = Words::new();
    if let Ok(reply) = Reply::read(&mut answer) {
        gather(reply, &mut found);
    }
    found
}

fn gather(reply: Reply, found: &mut Words) {
    match reply {
        Reply::Line(line) => found.push(line[1..].to_vec()),
        Reply::Bulk(bytes) => found.extend(bytes),
        Reply::Array(elements) => elements.into_iter().flatten().for_each(|element| gather(element, found)),
    }
}

/// Whether `word` looks like the id of an entry.
pub(super) fn is_id(word: &[u8]) -> bool {
    let digits = |word: &str| !word.is_empty() && word.len() < 19 && word.bytes().all(|byte| byte.is_ascii_digit());
    let ends = std::str::from_utf8(word).ok().and_then(|word| word.split_once('-'));
    ends.is_some_and(|(ms, number)| digits(ms) && digits(number))
}

/// The error for a command that answered `answer` because it could not be run.
pub(super) fn refused(answer: &[u8]) -> Error {
    let text = String::from_utf8_lossy(answer).into_owned();
    let kind = match &text {
        text if text.contains("damaged") => ErrorKind::Corruption,
        text if text.contains("no space") => ErrorKind::NoSpace,
        text if text.contains("being closed") => ErrorKind::Closed,
        _ => ErrorKind::Device,
    };
    Error::new(kind, "run", "a command", text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_taken_apart() {
        assert_eq!(elements(b"*2\r\n$3\r\na\r\n\r\n:7\r\n"), [b"a\r\n".to_vec(), b"7".to_vec()]);
        assert_eq!(elements(b"+none\r\n"), [b"none".to_vec()]);
        assert!(is_id(b"12-0") && !is_id(b"12") && !is_id(b"a-0"));
    }
}
