//! The libraries of a tenant as the value of a row: `docs/format/functions.md`.
//!
//! ```text
//! libraries := version u8 (1) | count varint | library*
//! library   := name | code | count varint | function*
//! function  := name | flags u8 | is_described u8 | description, where it is 1
//! name, code, description := len varint | bytes
//! ```

use weir_model::varint;
use weir_script::{Declared, FLAGS, Libraries, Library};

/// The version of the format that is written, and the only one that is read.
const VERSION: u8 = 1;

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    varint::put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The value for `libraries`.
pub(super) fn encode(libraries: &Libraries) -> Vec<u8> {
    let mut out = vec![VERSION];
    varint::put(&mut out, libraries.iter().len() as u64);
    for library in libraries.iter() {
        put(&mut out, library.name.as_bytes());
        put(&mut out, &library.code);
        varint::put(&mut out, library.functions.len() as u64);
        for function in &library.functions {
            put(&mut out, function.name.as_bytes());
            out.extend_from_slice(&[function.flags, function.description.is_some().into()]);
            if let Some(description) = &function.description {
                put(&mut out, description);
            }
        }
    }
    out
}

fn byte(rest: &mut &[u8]) -> Option<u8> {
    let (&byte, after) = rest.split_first()?;
    *rest = after;
    Some(byte)
}

fn name(rest: &mut &[u8]) -> Option<String> {
    Some(std::str::from_utf8(varint::take_slice(rest)?).ok()?.to_owned())
}

fn function(rest: &mut &[u8]) -> Option<Declared> {
    let name = name(rest)?;
    let flags = byte(rest).filter(|flags| flags >> FLAGS.len() == 0)?;
    let description = match byte(rest)? {
        0 => None,
        1 => Some(varint::take_slice(rest)?.to_vec()),
        _ => return None,
    };
    Some(Declared { name, description, flags })
}

fn library(rest: &mut &[u8]) -> Option<Library> {
    let (name, code) = (name(rest)?, varint::take_slice(rest)?.to_vec());
    let functions = (0..varint::take(rest)?).map(|_| function(rest)).collect::<Option<_>>()?;
    Some(Library { name, code, functions })
}

/// The libraries encoded in `bytes`. `None` if they are damaged, or of a version that this program does not know.
pub(crate) fn decode(bytes: &[u8]) -> Option<Libraries> {
    let (&VERSION, mut rest) = bytes.split_first()? else { return None };
    let mut libraries = Libraries::default();
    for _ in 0..varint::take(&mut rest)? {
        libraries.add(library(&mut rest)?, false).ok()?;
    }
    rest.is_empty().then_some(libraries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn libraries_come_back(
            codes in proptest::collection::vec((any::<Vec<u8>>(), 0_u8..32, proptest::option::of(any::<Vec<u8>>())), 0..5)
        ) {
            let mut libraries = Libraries::default();
            for (index, (code, flags, description)) in codes.into_iter().enumerate() {
                let functions = vec![Declared { name: format!("f{index}"), description, flags }];
                libraries.add(Library { name: format!("l{index}"), code, functions }, false).expect("other names");
            }
            let bytes = encode(&libraries);
            prop_assert_eq!(decode(&bytes), Some(libraries));
            for len in 0..bytes.len() {
                prop_assert_eq!(decode(&bytes[..len]), None);
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(mut bytes: Vec<u8>, is_ours: bool) {
            if let Some(first) = bytes.first_mut().filter(|_| is_ours) {
                *first = VERSION;
            }
            decode(&bytes);
        }
    }
}
