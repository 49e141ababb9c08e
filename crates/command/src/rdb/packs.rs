//! The pieces of memory that Redis writes into its files as they are: listpacks, the ziplists before them, and intsets.
//!
//! The input may be any bytes: a reader gets all elements, or nothing. A short compressed text may turn out to be a
//! pack of millions of elements, so elements can also be taken out one after the other, in turns (S14).

use crate::number::push_i64;

/// First bytes of a listpack: its size in bytes, and the number of its elements (or 65535, if there are more).
const LISTPACK_HEADER: usize = 6;
/// First bytes of a ziplist: its size in bytes, the place of the last element, and the number of elements.
const ZIPLIST_HEADER: usize = 10;
/// The byte behind the last element of both.
const END: u8 = 0xff;

fn number(value: i64) -> Vec<u8> {
    let mut text = Vec::new();
    push_i64(&mut text, value);
    text
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(len)?;
    *rest = after;
    Some(taken)
}

fn take_array<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    take(rest, N)?.try_into().ok()
}

/// A whole number of 24 bits.
fn from_24([a, b, c]: [u8; 3]) -> i64 {
    i64::from(i32::from_le_bytes([0, a, b, c]) >> 8)
}

/// The bytes between `header` bytes, of which the first four give the size in bytes, and the end.
fn content(bytes: &[u8], header: usize) -> Option<&[u8]> {
    let all = u32::from_le_bytes(*bytes.first_chunk()?);
    if usize::try_from(all) != Ok(bytes.len()) {
        return None;
    }
    let (&last, rest) = bytes.get(header..)?.split_last()?;
    (last == END).then_some(rest)
}

/// Takes what comes next out of the content of a pack: an element, or a field with its value.
type Step = fn(&mut &[u8], &mut Vec<Vec<u8>>) -> Option<()>;

/// Opens a pack of some form; `None` if the bytes are no such pack.
pub(super) type Open = fn(&[u8]) -> Option<Pack<'_>>;

/// A pack whose elements are taken out one after the other.
pub(super) struct Pack<'b> {
    rest: &'b [u8],
    step: Step,
}

impl Pack<'_> {
    /// A listpack.
    pub(super) fn listpack(bytes: &[u8]) -> Option<Pack<'_>> {
        Some(Pack { rest: content(bytes, LISTPACK_HEADER)?, step: listpack_step })
    }

    /// A ziplist.
    pub(super) fn ziplist(bytes: &[u8]) -> Option<Pack<'_>> {
        Some(Pack { rest: content(bytes, ZIPLIST_HEADER)?, step: ziplist_step })
    }

    /// A zipmap.
    pub(super) fn zipmap(bytes: &[u8]) -> Option<Pack<'_>> {
        let (rest, &last) = (bytes.get(1..bytes.len().checked_sub(1)?)?, bytes.last()?);
        (last == END).then_some(Pack { rest, step: zipmap_step })
    }

    /// An intset.
    pub(super) fn intset(bytes: &[u8]) -> Option<Pack<'_>> {
        let mut rest = bytes;
        let width = usize::try_from(u32::from_le_bytes(take_array(&mut rest)?)).ok()?;
        let count = usize::try_from(u32::from_le_bytes(take_array(&mut rest)?)).ok()?;
        let step: Step = match width {
            2 => intset_step::<2>,
            4 => intset_step::<4>,
            8 => intset_step::<8>,
            _ => return None,
        };
        (rest.len() == count.checked_mul(width)?).then_some(Pack { rest, step })
    }

    /// Moves what comes next to `elements`; gives whether there was anything, or `None` if the pack is broken there.
    pub(super) fn take_into(&mut self, elements: &mut Vec<Vec<u8>>) -> Option<bool> {
        if self.rest.is_empty() {
            return Some(false);
        }
        (self.step)(&mut self.rest, elements)?;
        Some(true)
    }

    fn all(mut self) -> Option<Vec<Vec<u8>>> {
        let mut elements = Vec::new();
        while self.take_into(&mut elements)? {}
        Some(elements)
    }
}

/// The elements of a listpack.
pub fn listpack(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    Pack::listpack(bytes)?.all()
}

fn listpack_step(rest: &mut &[u8], elements: &mut Vec<Vec<u8>>) -> Option<()> {
    let before = rest.len();
    elements.push(listpack_element(rest)?);
    // Behind each element is its length, for readers that go backwards.
    let len = before - rest.len();
    take(rest, back_bytes(len)).map(drop)
}

/// A listpack that is being written.
#[derive(Default)]
pub(super) struct Listpack {
    elements: Vec<u8>,
    count: usize,
}

impl Listpack {
    pub(super) fn number(&mut self, value: i64) {
        let before = self.elements.len();
        let out = &mut self.elements;
        match value {
            0..=127 => out.push(value as u8),
            -4096..=4095 => out.extend_from_slice(&(0xc000 | value as u16 & 0x1fff).to_be_bytes()),
            _ if i16::try_from(value).is_ok() => {
                out.push(0xf1);
                out.extend_from_slice(&(value as i16).to_le_bytes());
            }
            -0x80_0000..=0x7f_ffff => {
                out.push(0xf2);
                out.extend_from_slice(&value.to_le_bytes()[..3]);
            }
            _ if i32::try_from(value).is_ok() => {
                out.push(0xf3);
                out.extend_from_slice(&(value as i32).to_le_bytes());
            }
            _ => {
                out.push(0xf4);
                out.extend_from_slice(&value.to_le_bytes());
            }
        }
        self.end_element(before);
    }

    /// Adds a string, as a number if it is one.
    pub(super) fn string(&mut self, value: &[u8]) {
        if let Some(number) = crate::number::parse_i64(value) {
            return self.number(number);
        }
        let before = self.elements.len();
        let out = &mut self.elements;
        match value.len() {
            len @ 0..=63 => out.push(0x80 | len as u8),
            len @ 64..=4095 => out.extend_from_slice(&(0xe000 | len as u16).to_be_bytes()),
            len => {
                out.push(0xf0);
                out.extend_from_slice(&(len as u32).to_le_bytes());
            }
        }
        out.extend_from_slice(value);
        self.end_element(before);
    }

    /// Writes the length of the element that began at `before`: seven bits a byte, the lowest last. Every byte but the
    /// first has its highest bit set, because a reader that goes backwards meets the last byte first.
    fn end_element(&mut self, before: usize) {
        let len = self.elements.len() - before;
        for byte in (0..back_bytes(len)).rev() {
            let more = if byte + 1 == back_bytes(len) { 0 } else { 0x80 };
            self.elements.push((len >> (7 * byte)) as u8 & 0x7f | more);
        }
        self.count += 1;
    }

    /// The bytes of the listpack.
    pub(super) fn end(self) -> Vec<u8> {
        let all = (LISTPACK_HEADER + self.elements.len() + 1) as u32;
        let count = u16::try_from(self.count).unwrap_or(u16::MAX);
        [&all.to_le_bytes()[..], &count.to_le_bytes(), &self.elements, &[END]].concat()
    }
}

/// How many bytes give the length of an element of `len` bytes to a reader that goes backwards.
fn back_bytes(len: usize) -> usize {
    match len {
        0..=127 => 1,
        128..=16_382 => 2,
        16_383..=2_097_150 => 3,
        2_097_151..=268_435_454 => 4,
        _ => 5,
    }
}

fn listpack_element(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let [first] = take_array(rest)?;
    Some(match first {
        0..0x80 => number(i64::from(first)),
        0x80..0xc0 => take(rest, usize::from(first & 0x3f))?.to_vec(),
        0xc0..0xe0 => {
            let [second] = take_array(rest)?;
            let bits = i16::from(first & 0x1f) << 8 | i16::from(second);
            // 13 bits with a sign.
            number(i64::from(bits << 3 >> 3))
        }
        0xe0..0xf0 => {
            let [second] = take_array(rest)?;
            take(rest, usize::from(first & 0x0f) << 8 | usize::from(second))?.to_vec()
        }
        0xf0 => {
            let len = u32::from_le_bytes(take_array(rest)?);
            take(rest, usize::try_from(len).ok()?)?.to_vec()
        }
        0xf1 => number(i64::from(i16::from_le_bytes(take_array(rest)?))),
        0xf2 => number(from_24(take_array(rest)?)),
        0xf3 => number(i64::from(i32::from_le_bytes(take_array(rest)?))),
        0xf4 => number(i64::from_le_bytes(take_array(rest)?)),
        _ => return None,
    })
}

/// The elements of a ziplist.
pub fn ziplist(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    Pack::ziplist(bytes)?.all()
}

fn ziplist_step(rest: &mut &[u8], elements: &mut Vec<Vec<u8>>) -> Option<()> {
    // In front of each element is the length of the one before it, for readers that go backwards.
    if take_array(rest)? == [0xfe] {
        take(rest, 4)?;
    }
    elements.push(ziplist_element(rest)?);
    Some(())
}

fn ziplist_element(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let [first] = take_array(rest)?;
    Some(match first {
        0..0x40 => take(rest, usize::from(first))?.to_vec(),
        0x40..0x80 => {
            let [second] = take_array(rest)?;
            take(rest, usize::from(first & 0x3f) << 8 | usize::from(second))?.to_vec()
        }
        0x80..0xc0 => {
            let len = u32::from_be_bytes(take_array(rest)?);
            take(rest, usize::try_from(len).ok()?)?.to_vec()
        }
        0xc0 => number(i64::from(i16::from_le_bytes(take_array(rest)?))),
        0xd0 => number(i64::from(i32::from_le_bytes(take_array(rest)?))),
        0xe0 => number(i64::from_le_bytes(take_array(rest)?)),
        0xf0 => number(from_24(take_array(rest)?)),
        0xfe => number(i64::from(i8::from_le_bytes(take_array(rest)?))),
        0xf1..=0xfd => number(i64::from(first & 0x0f) - 1),
        _ => return None,
    })
}

/// The elements of a zipmap, which Redis before 2.6 wrote: fields and their values.
pub fn zipmap(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    Pack::zipmap(bytes)?.all()
}

fn zipmap_step(rest: &mut &[u8], elements: &mut Vec<Vec<u8>>) -> Option<()> {
    let len = zipmap_len(rest)?;
    elements.push(take(rest, len)?.to_vec());
    let len = zipmap_len(rest)?;
    let [free] = take_array(rest)?;
    elements.push(take(rest, len)?.to_vec());
    take(rest, usize::from(free)).map(drop)
}

fn zipmap_len(rest: &mut &[u8]) -> Option<usize> {
    match take_array(rest)? {
        [len @ 0..=253] => Some(usize::from(len)),
        [254] => usize::try_from(u32::from_le_bytes(take_array(rest)?)).ok(),
        [_] => None,
    }
}

/// The elements of an intset: whole numbers, ascending.
pub fn intset(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    Pack::intset(bytes)?.all()
}

fn intset_step<const WIDTH: usize>(rest: &mut &[u8], elements: &mut Vec<Vec<u8>>) -> Option<()> {
    let element: [u8; WIDTH] = take_array(rest)?;
    let negative = element.last().is_some_and(|&byte| byte & 0x80 != 0);
    let mut wide = [if negative { 0xff } else { 0 }; 8];
    wide[..WIDTH].copy_from_slice(&element);
    elements.push(number(i64::from_le_bytes(wide)));
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn zipmaps_are_read() {
        let pairs = zipmap(b"\x02\x03foo\x03\x02bar\0\0\x05hello\x05\x00world\xff");
        let texts: Option<Vec<_>> =
            pairs.map(|all| all.iter().map(|one| String::from_utf8_lossy(one).into()).collect());
        assert_eq!(texts, Some(["foo", "bar", "hello", "world"].map(String::from).to_vec()));
        assert_eq!(zipmap(b"\x00\xff"), Some(Vec::new()));
        for broken in [&b""[..], b"\xff", b"\x01\x03foo", b"\x01\x03foo\x09\x00x\xff", b"\x01\x03fo\xff"] {
            assert_eq!(zipmap(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn numbers_of_every_width_are_read() {
        let listpack_of = |elements: &[&[u8]]| {
            let content = elements.concat();
            let all = (LISTPACK_HEADER + content.len() + 1) as u32;
            [&all.to_le_bytes()[..], &(elements.len() as u16).to_le_bytes(), &content, &[END]].concat()
        };
        let read = listpack(&listpack_of(&[
            b"\x7f\x01",
            b"\xdf\xff\x02",
            b"\xc1\x00\x02",
            b"\xf1\x00\x80\x03",
            b"\xf2\xff\xff\xff\x04",
            b"\xf3\x00\x00\x00\x80\x05",
            b"\xf4\xff\xff\xff\xff\xff\xff\xff\x7f\x09",
            b"\x83abc\x04",
            b"\xe0\x02hi\x04",
            b"\xf0\x01\x00\x00\x00x\x06",
        ]));
        let read = read.expect("it is one");
        let texts: Vec<_> = read.iter().map(|element| String::from_utf8_lossy(element).into_owned()).collect();
        assert_eq!(texts, ["127", "-1", "256", "-32768", "-1", "-2147483648", "9223372036854775807", "abc", "hi", "x"]);
        assert_eq!(intset(b"\x02\0\0\0\x02\0\0\0\xff\xff\x05\0"), Some(vec![b"-1".to_vec(), b"5".to_vec()]));
        assert_eq!(intset(b"\x03\0\0\0\0\0\0\0"), None);
    }

    proptest! {
        #[test]
        fn what_is_packed_is_read(words: Vec<Vec<u8>>, numbers: Vec<i64>, len in 0..70_000_usize, shift in 0..64_u32) {
            let mut pack = Listpack::default();
            let long = vec![b'x'; len];
            words.iter().chain([&long]).for_each(|word| pack.string(word));
            numbers.iter().for_each(|number| pack.number(number >> shift));
            let expected: Vec<Vec<u8>> = words
                .into_iter()
                .chain([long])
                .chain(numbers.iter().map(|number| (number >> shift).to_string().into_bytes()))
                .collect();
            prop_assert_eq!(listpack(&pack.end()), Some(expected));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let all = (bytes.len() + 11) as u32;
            let framed = [&all.to_le_bytes()[..], &[0; 6], &bytes, &[END]].concat();
            let all = (bytes.len() + 7) as u32;
            let short = [&all.to_le_bytes()[..], &[0; 2], &bytes, &[END]].concat();
            for bytes in [&bytes, &framed, &short] {
                let _ = (listpack(bytes), ziplist(bytes), intset(bytes), zipmap(bytes));
            }
        }
    }
}
