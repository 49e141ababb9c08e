//! A dump file: any bytes are one, or are refused; data that a file announces takes no memory before it is there.
#![no_main]

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use libfuzzer_sys::fuzz_target;
use weir_transfer::rdb::{Dump, FileBytes, Input, Item};

async fn read(bytes: &[u8]) {
    let Ok(mut dump) = Dump::open(Input::new(FileBytes(bytes), Vec::new()), 1 << 20, 1 << 16).await else { return };
    while let Ok(item) = dump.next().await {
        if matches!(item, Item::End) {
            return;
        }
        while let Ok(Some(_)) = dump.part().await {}
    }
}

fuzz_target!(|bytes: &[u8]| {
    let bytes = [b"REDIS0012".as_slice(), bytes].concat();
    let mut reading = pin!(read(&bytes));
    let mut cx = Context::from_waker(Waker::noop());
    while let Poll::Pending = reading.as_mut().poll(&mut cx) {}
});
