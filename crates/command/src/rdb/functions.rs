//! Libraries of functions in the format of Redis' dump files, for `FUNCTION DUMP` and `FUNCTION RESTORE`: a marker byte
//! and the code for each library, and the footer that all payloads have.

use weir_io::Yield;

use super::file::{FUNCTION_2, push_library};
use super::reader::{Reader, Turns};
use super::{Refusal, VERSION, checked, seal};

/// The payload of libraries with this code.
pub async fn encode<'a>(libraries: impl Iterator<Item = &'a [u8]>, yields: Yield) -> Vec<u8> {
    let mut out = Vec::new();
    for code in libraries {
        push_library(&mut out, code);
    }
    seal(out, VERSION, yields).await
}

/// The code of the libraries in `payload`, at most `bytes_max` bytes together.
///
/// # Errors
/// The bytes are no such payload.
pub async fn decode(payload: &[u8], bytes_max: usize, yields: Yield) -> Result<Vec<Vec<u8>>, Refusal> {
    let mut reader = Reader::new(checked(payload, yields).await?, bytes_max, Turns::new(yields));
    let mut libraries = Vec::new();
    while let Some((&kind, rest)) = reader.rest.split_first() {
        if kind != FUNCTION_2 {
            return Err(Refusal::Format);
        }
        reader.rest = rest;
        libraries.push(reader.string().await?);
    }
    Ok(libraries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn now<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => done,
            Poll::Pending => panic!("it is short"),
        }
    }

    #[test]
    fn payloads_of_redis_are_read_and_ours_come_back() {
        let yields = Yield::PLAIN;
        let decoded = |payload: &[u8]| now(decode(payload, 1 << 20, yields));
        // From Redis 7.0.15, without any library.
        let none = b"\x0a\x00]\x9b\\@\x0f\x7f\xa2\xda";
        assert_eq!(decoded(none), Ok(vec![]));
        assert_eq!(now(encode(std::iter::empty(), yields)), none);
        let libraries = [&b"#!lua name=a\n"[..], b"#!lua name=b\nreturn 1"];
        let payload = now(encode(libraries.into_iter(), yields));
        assert_eq!(decoded(&payload), Ok(libraries.map(<[u8]>::to_vec).to_vec()));
        assert_eq!(now(decode(&payload, 20, yields)), Err(Refusal::TooLong));
        assert_eq!(decoded(b"abc"), Err(Refusal::VersionOrChecksum));
    }
}
