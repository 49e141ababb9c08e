//! The requests that make a key in the target.

use std::collections::BTreeMap;

use weir_command::rdb;
use weir_io::Yield;
use weir_model::parts::stream::EntryId;

use super::Batch;
use crate::rdb::Part;

/// A key that is sent as a whole.
pub struct Whole<'a> {
    /// Its name.
    pub key: &'a [u8],
    /// When it expires, in milliseconds since 1970.
    pub expire_at_ms: Option<u64>,
}

/// Most words of one request, beside name and key.
const WORDS_MAX: usize = 2_000;
/// Most bytes of one request.
const REQUEST_BYTES: usize = 1 << 20;

/// Pushes requests for a key that has `body`, a type and its content. It replaces a key that is there.
pub async fn push_whole(batch: &mut Batch, whole: &Whole<'_>, body: Vec<u8>) {
    let end = whole.expire_at_ms.unwrap_or(0).to_string();
    let payload = rdb::seal(body, rdb::VERSION, Yield::PLAIN).await;
    let mut words: Vec<&[u8]> = vec![b"RESTORE", whole.key, end.as_bytes(), &payload, b"REPLACE"];
    if whole.expire_at_ms.is_some() {
        words.push(b"ABSTTL");
    }
    batch.push(&words);
}

impl Whole<'_> {
    /// Pushes the request for a string key with the value `text`.
    pub fn push_text(&self, batch: &mut Batch, text: &[u8]) {
        match self.expire_at_ms {
            None => batch.push(&[b"SET".as_slice(), self.key, text]),
            Some(at_ms) => batch.push(&[b"SET".as_slice(), self.key, text, b"PXAT", at_ms.to_string().as_bytes()]),
        }
    }
}

/// Pushes the request for a library of functions.
pub fn push_function(batch: &mut Batch, source: &[u8]) {
    batch.push(&[b"FUNCTION".as_slice(), b"LOAD", b"REPLACE", source]);
}

fn id(id: EntryId) -> Vec<u8> {
    format!("{}-{}", id.ms, id.seq).into_bytes()
}

/// Pushes as many requests as it takes to send `words`, each beginning with `front`; `step` words belong together.
fn push_cut(batch: &mut Batch, front: &[&[u8]], words: &[Vec<u8>], step: usize) {
    let mut rest = words;
    while !rest.is_empty() {
        let (mut count, mut bytes) = (0, 0);
        while count < rest.len() && count < WORDS_MAX && (bytes < REQUEST_BYTES || count == 0) {
            let some = &rest[count..(count + step).min(rest.len())];
            bytes += some.iter().map(Vec::len).sum::<usize>();
            count += some.len();
        }
        let (some, after) = rest.split_at(count);
        let all: Vec<&[u8]> = front.iter().copied().chain(some.iter().map(Vec::as_slice)).collect();
        batch.push(&all);
        rest = after;
    }
}

/// Pushes requests by which the fields `names` of a hash expire at `at_ms`, in milliseconds since 1970.
fn push_deadline(batch: &mut Batch, key: &[u8], at_ms: u64, names: &[Vec<u8>]) {
    let at_ms = at_ms.to_string();
    for some in names.chunks(WORDS_MAX) {
        let count = some.len().to_string();
        let front = [b"HPEXPIREAT".as_slice(), key, at_ms.as_bytes(), b"FIELDS", count.as_bytes()];
        let all: Vec<&[u8]> = front.into_iter().chain(some.iter().map(Vec::as_slice)).collect();
        batch.push(&all);
    }
}

/// Pushes requests for a part of `key`, of which `before` elements were pushed already; gives how many there are then.
///
/// To do these requests again is harmless: before values are appended to a list, the list is cut to its old length.
pub fn push_part(batch: &mut Batch, key: &[u8], before: u64, part: Part) -> u64 {
    match part {
        Part::Values(values) => {
            let mut len = before;
            for some in values.chunks(WORDS_MAX) {
                match len {
                    0 => batch.push(&[b"DEL".as_slice(), key]),
                    len => batch.push(&[b"LTRIM".as_slice(), key, b"0", (len - 1).to_string().as_bytes()]),
                }
                let all: Vec<&[u8]> =
                    [b"RPUSH".as_slice(), key].into_iter().chain(some.iter().map(Vec::as_slice)).collect();
                batch.push_bound(&all);
                len += some.len() as u64;
            }
            len
        }
        Part::Members(members) => {
            push_cut(batch, &[b"SADD", key], &members, 1);
            before + members.len() as u64
        }
        Part::Fields(fields) => {
            let count = fields.len() as u64;
            let mut mortal = BTreeMap::<u64, Vec<Vec<u8>>>::new();
            for field in &fields {
                if let Some(at_ms) = field.expire_at_ms {
                    mortal.entry(at_ms).or_default().push(field.name.clone());
                }
            }
            let words: Vec<Vec<u8>> = fields.into_iter().flat_map(|field| [field.name, field.value]).collect();
            push_cut(batch, &[b"HSET", key], &words, 2);
            for (at_ms, names) in mortal {
                push_deadline(batch, key, at_ms, &names);
            }
            before + count
        }
        Part::Scores(scores) => {
            let count = scores.len() as u64;
            let text = |score: f64| format!("{score:?}").into_bytes();
            let words: Vec<Vec<u8>> = scores.into_iter().flat_map(|(member, score)| [text(score), member]).collect();
            push_cut(batch, &[b"ZADD", key], &words, 2);
            before + count
        }
        Part::Entries(entries) => {
            let count = entries.len() as u64;
            for (at, words) in entries {
                let at = id(at);
                let all: Vec<&[u8]> =
                    [b"XADD".as_slice(), key, &at].into_iter().chain(words.iter().map(Vec::as_slice)).collect();
                batch.push(&all);
            }
            before + count
        }
        Part::Counts { last, added, max_deleted } => {
            if before == 0 {
                // A stream that had entries once: an entry that is trimmed at once makes such a stream.
                batch.push(&[b"XADD".as_slice(), key, b"MAXLEN", b"0", b"0-1", b"x", b"x"]);
            }
            let (last, max_deleted, added) = (id(last), id(max_deleted), added.to_string().into_bytes());
            batch.push(&[b"XSETID".as_slice(), key, &last, b"ENTRIESADDED", &added, b"MAXDELETEDID", &max_deleted]);
            before
        }
        Part::Group { name, delivered, read } => {
            let (delivered, read) = (id(delivered), read.map_or("-1".to_owned(), |read| read.to_string()));
            batch.push(&[b"XGROUP".as_slice(), b"CREATE", key, &name, &delivered, b"ENTRIESREAD", read.as_bytes()]);
            before
        }
        Part::Consumer { group, name, pending } => {
            batch.push(&[b"XGROUP".as_slice(), b"CREATECONSUMER", key, &group, &name]);
            for (at, told) in pending {
                let (at, ms, count) = (id(at), told.delivered_ms.to_string(), told.deliveries.to_string());
                batch.push(&[
                    b"XCLAIM".as_slice(),
                    key,
                    &group,
                    &name,
                    b"0",
                    &at,
                    b"TIME",
                    ms.as_bytes(),
                    b"RETRYCOUNT",
                    count.as_bytes(),
                    b"FORCE",
                    b"JUSTID",
                ]);
            }
            before
        }
        Part::Refused(_) => before,
    }
}

#[cfg(test)]
mod tests {
    use weir_command::rdb::Field;

    use super::*;
    use crate::resp::take_request;

    #[test]
    fn fields_get_their_deadlines_behind_their_values() {
        let field = |name: &str, expire_at_ms| Field { name: name.into(), value: b"v".to_vec(), expire_at_ms };
        let fields = vec![field("a", None), field("b", Some(70)), field("c", Some(60)), field("d", Some(70))];
        let mut batch = Batch::default();
        batch.begin(b"hash");
        assert_eq!(push_part(&mut batch, b"hash", 3, Part::Fields(fields)), 7);
        let (mut rest, mut lines) = (batch.requests.bytes_from(0), Vec::new());
        while let Some(words) = take_request(&mut rest).expect("requests") {
            lines.push(String::from_utf8_lossy(&words.join(&b' ')).into_owned());
        }
        let deadlines = ["HPEXPIREAT hash 60 FIELDS 1 c", "HPEXPIREAT hash 70 FIELDS 2 b d"];
        assert_eq!(lines, ["HSET hash a v b v c v d v", deadlines[0], deadlines[1]]);
    }
}
