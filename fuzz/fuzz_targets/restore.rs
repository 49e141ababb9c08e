//! The payloads of `RESTORE`, of every type: any bytes behind a right checksum are a row, or are refused.
#![no_main]

use std::pin::pin;
use std::task::{Context as Task, Poll, Waker};

use libfuzzer_sys::fuzz_target;
use weir_command::reply::Protocol;
use weir_command::{Context, Draft, Headless, Page, Read, Request, Rows, Waiting, run, table};
use weir_io::{Rng, Yield};

/// A database without rows.
struct Empty;

impl Rows for Empty {
    fn get<'a>(&'a self, _: u8, _: &'a [u8], _: u64) -> Read<'a> {
        Read::Ready(Ok(None))
    }

    fn page<'a>(&'a self, _: u8, _: &'a [u8], _: usize) -> Waiting<'a, weir_io::Result<Page>> {
        Box::pin(std::future::ready(Ok(Page::default())))
    }
}

/// The CRC-64 of Jones, computed bit by bit.
fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ u64::from(byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0x95ac_9329_ac4b_c9b5 } else { crc >> 1 })
    })
}

fuzz_target!(|body: &[u8]| {
    let mut payload = [body, &12_u16.to_le_bytes()].concat();
    let crc = crc64(&payload);
    payload.extend_from_slice(&crc.to_le_bytes());
    for payload in [&payload[..], body] {
        let words = [&b"RESTORE"[..], b"key", b"0", payload];
        let request = Request::new(0, 1_000_000, words.into_iter());
        let mut host = Headless::new(Protocol::Resp2, Yield::PLAIN, Rng::new(1));
        let mut call = request.call(1 << 20);
        let context = Context::locked(&Empty, &mut host, &mut call, Draft::default());
        let command = table::find(b"RESTORE").expect("a command");
        let mut run = pin!(run(command, context, request.args()));
        while let Poll::Pending = run.as_mut().poll(&mut Task::from_waker(Waker::noop())) {}
    }
});
