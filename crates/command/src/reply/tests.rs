//! Replies in both protocols: whole and incomplete, with shared values, taken back and replaced.

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn written(replies: &Replies, skip: usize) -> Vec<u8> {
    replies.pieces(skip, usize::MAX).concat_bytes()
}

#[test]
fn an_attribute_stands_in_front_of_the_last_reply_whatever_that_is() {
    let mut replies = Replies { protocol: Protocol::Resp3, ..Replies::default() };
    replies.ok();
    let mark = replies.begin();
    replies.array(2);
    replies.bulk_value(vec![b'v'; SHARED_BYTES_MIN]);
    replies.null();
    let before = written(&replies, 0)[5..].to_vec();
    replies.put_attribute(mark, "ru", 0.25);
    let expected = [b"+OK\r\n|1\r\n$2\r\nru\r\n,0.25\r\n", &before[..]].concat();
    assert!(written(&replies, 0) == expected && replies.is_whole());
}

#[test]
fn elements_that_are_not_there_are_not_counted() {
    let mut replies = Replies::default();
    replies.begin();
    replies.array(3);
    (0..3).for_each(|_| replies.ok());
    assert_eq!((replies.take_written(), replies.take_written()), (3, 0));
    for announced in [9_000_000_000_000_000_000, usize::MAX] {
        replies.begin();
        replies.array(announced);
        replies.array(1);
        replies.ok();
        assert_eq!(replies.take_written(), 2, "of {announced}");
    }
    replies.begin();
    assert_eq!(replies.take_written(), 0, "a command that fails at once");
}

trait ConcatBytes {
    fn concat_bytes(&self) -> Vec<u8>;
}

impl ConcatBytes for Vec<IoSlice<'_>> {
    fn concat_bytes(&self) -> Vec<u8> {
        self.iter().flat_map(|piece| piece.iter().copied()).collect()
    }
}

#[test]
fn both_protocols_say_the_same_in_their_own_way() {
    let mut replies = Replies::default();
    let mut say = |protocol| {
        replies.protocol = protocol;
        replies.map(1);
        replies.bulk(b"k");
        replies.null();
        replies.text("hi");
        replies.integer(-7);
        replies.error(b"ERR a\r\nb");
        let all = String::from_utf8(written(&replies, 0)).expect("text");
        replies.clear();
        all
    };
    assert_eq!(say(Protocol::Resp2), "*2\r\n$1\r\nk\r\n$-1\r\n$2\r\nhi\r\n:-7\r\n-ERR a  b\r\n");
    assert_eq!(say(Protocol::Resp3), "%1\r\n$1\r\nk\r\n_\r\n=6\r\ntxt:hi\r\n:-7\r\n-ERR a  b\r\n");
}

#[test]
fn a_reply_is_whole_when_all_that_it_announced_is_there() {
    let mut replies = Replies::default();
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        replies.protocol = protocol;
        let scalars: [&dyn Fn(&mut Replies); 11] = [
            &|replies| replies.ok(),
            &|replies| replies.simple("x"),
            &|replies| replies.error(b"ERR x"),
            &|replies| replies.integer(7),
            &|replies| replies.double(0.5),
            &|replies| replies.null_array(),
            &|replies| replies.bulk(b""),
            &|replies| replies.bulk_value(vec![0; SHARED_BYTES_MIN]),
            &|replies| replies.bulk_part(vec![0; 2 * FLUSH_BYTES], 0..FLUSH_BYTES + 1),
            &|replies| replies.text("x"),
            &|replies| replies.null(),
        ];
        for scalar in scalars {
            replies.begin();
            assert!(!replies.is_whole());
            scalar(&mut replies);
            assert!(replies.is_whole());
            scalar(&mut replies);
            assert!(!replies.is_whole(), "two are no reply");
            replies.begin();
            replies.array(2);
            replies.map(1);
            scalar(&mut replies);
            scalar(&mut replies);
            assert!(!replies.is_whole());
            replies.set(0);
            assert!(replies.is_whole());
            // The elements are gathered separately, as those of `KEYS` are.
            let mut apart = Replies::default();
            scalar(&mut apart);
            scalar(&mut apart);
            if apart.as_one_piece().is_some() {
                replies.begin();
                replies.array(2);
                replies.append(apart);
                assert!(replies.is_whole());
            }
        }
    }
}

#[test]
fn values_that_are_let_go_are_written_all_the_same() {
    let large = std::sync::Arc::<[u8]>::from(vec![b'v'; SHARED_BYTES_MIN]);
    let mut replies = Replies::default();
    replies.bulk_value(std::sync::Arc::clone(&large));
    let mark = replies.mark();
    replies.bulk_value(std::sync::Arc::clone(&large));
    let before = written(&replies, 0);
    replies.own_values();
    assert_eq!(std::sync::Arc::strong_count(&large), 1);
    assert!(written(&replies, 0) == before && !replies.holds_values());
    replies.rewind(mark);
    assert_eq!(replies.len(), before.len() / 2);
}

#[test]
fn a_part_of_a_value_keeps_all_of_it_until_it_is_written_or_copied() {
    let value = std::sync::Arc::<[u8]>::from(vec![b'v'; 3 * FLUSH_BYTES]);
    let mut replies = Replies::default();
    replies.bulk_part(std::sync::Arc::clone(&value), 5..FLUSH_BYTES);
    assert_eq!((std::sync::Arc::strong_count(&value), replies.kept_bytes(0)), (1, replies.len()), "it is copied");
    let mark = replies.mark();
    replies.bulk_part(std::sync::Arc::clone(&value), 5..5 + FLUSH_BYTES);
    let len = replies.len();
    assert_eq!(written(&replies, 0).len(), len);
    assert_eq!((replies.kept_bytes(0), replies.kept_bytes(len)), (len + 2 * FLUSH_BYTES, 0));
    replies.rewind(mark);
    assert_eq!(replies.kept_bytes(0), replies.len());
    replies.bulk_part(std::sync::Arc::clone(&value), 0..2 * FLUSH_BYTES);
    replies.own_values();
    assert_eq!((std::sync::Arc::strong_count(&value), replies.kept_bytes(7)), (1, replies.len() - 7));
}

#[test]
fn large_values_are_written_from_where_they_lie_and_can_be_taken_back() {
    let large = vec![b'v'; SHARED_BYTES_MIN];
    let mut replies = Replies::default();
    replies.ok();
    let from = replies.mark();
    replies.bulk_value(large.clone());
    replies.ok();
    let to = replies.mark();
    replies.bulk_value(large.clone());
    assert!(replies.as_one_piece().is_none());
    let header = format!("${}\r\n", large.len());
    let value = [header.as_bytes(), &large, b"\r\n"].concat();
    let all = [b"+OK\r\n", &value[..], b"+OK\r\n", &value].concat();
    assert_eq!(replies.len(), all.len());
    for skip in [0, 3, 5, 9, 20_000, all.len() - 1, all.len()] {
        assert_eq!(written(&replies, skip), all[skip..], "the first {skip} bytes are written already");
        for max in [0, 1, 7, large.len(), all.len()] {
            let end = all.len().min(skip + max);
            assert_eq!(replies.pieces(skip, max).concat_bytes(), all[skip..end], "{max} bytes behind {skip}");
        }
    }
    replies.replace_with_error(from, to, 2, b"ERR x");
    let all = [b"+OK\r\n-ERR x\r\n-ERR x\r\n", &value[..]].concat();
    assert_eq!((written(&replies, 0), replies.len()), (all.clone(), all.len()));
}

#[test]
fn what_is_between_marks_has_the_length_of_its_bytes() {
    let mut replies = Replies::default();
    replies.ok();
    let mut marks = vec![replies.mark()];
    for len in [3, SHARED_BYTES_MIN, 0] {
        replies.bulk_value(vec![b'v'; len]);
        marks.push(replies.mark());
    }
    let lens: Vec<usize> = marks.windows(2).map(|pair| replies.len_between(pair[0], pair[1])).collect();
    assert_eq!(lens, [9, SHARED_BYTES_MIN + 10, 6]);
    assert_eq!(replies.len_since(marks[0]), lens.iter().sum::<usize>());
}

/// Counts how often somebody looks at it.
struct Looked(Arc<AtomicUsize>);

impl Deref for Looked {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.fetch_add(1, Ordering::Relaxed);
        &[b'v'; SHARED_BYTES_MIN]
    }
}

#[test]
fn who_asks_for_a_length_does_not_go_through_other_values() {
    let (mut replies, looks) = (Replies::default(), Arc::new(AtomicUsize::new(0)));
    let begin = replies.mark();
    replies.ok();
    let end = replies.mark();
    replies.bulk_value(Looked(Arc::clone(&looks)));
    let before = looks.load(Ordering::Relaxed);
    assert_eq!((replies.len_between(begin, end), replies.is_too_long()), (5, false));
    assert_eq!(looks.load(Ordering::Relaxed), before);
}

#[test]
fn one_value_may_be_longer_than_replies_may_be() {
    let mut replies = Replies::default();
    for is_too_long in [false, true] {
        replies.bulk_value(vec![0; OUTPUT_BYTES_MAX + 1]);
        assert_eq!(replies.is_too_long(), is_too_long);
    }
}
