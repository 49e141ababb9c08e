//! Dumps for tests, which the code that dumps a tenant writes.

use weir_command::error::Outcome;
use weir_command::rdb::file::Writer;
use weir_command::reply::Protocol;
use weir_command::snapshot::push_row;
use weir_command::{Call, Context, Draft, Headless, Page, PartPage, PartRange, Read, Waiting};
use weir_io::{Rng, Yield};
use weir_model::VALUE_BYTES_MAX;
use weir_model::parts::{Life, Mapped, Shape};

use super::fake_store::{Row, Rows};

/// Rows of which none is stored: a command sees only what it has written itself.
struct Nothing;

impl weir_command::Rows for Nothing {
    fn get<'a>(&'a self, _: u8, _: &'a [u8], _: u64) -> Read<'a> {
        Read::Ready(Ok(None))
    }

    fn page<'a>(&'a self, _: u8, _: &'a [u8], _: usize) -> Waiting<'a, weir_io::Result<Page>> {
        unreachable!("nobody goes through all keys")
    }

    fn parts<'a>(&'a self, _: &'a [u8], _: PartRange, _: usize) -> Waiting<'a, weir_io::Result<PartPage>> {
        Box::pin(std::future::ready(Ok(PartPage::default())))
    }
}

/// A dump of `rows`. Each of them ends at the moment that `end_ms` gives for its key, in milliseconds since 1970.
pub(super) async fn dump(rows: &Rows, end_ms: impl Fn(&[u8]) -> Option<u64>) -> Vec<u8> {
    let (mut writer, mut file) = (Writer::new(&[]), Vec::new());
    for (key, row) in rows {
        let mut host = Headless::new(Protocol::Resp2, Yield::PLAIN, Rng::new(1));
        let mut call = Call::new(0, 0, VALUE_BYTES_MAX);
        let mut cx = Context::locked(&Nothing, &mut host, &mut call, Draft::default());
        put(&mut cx, key, row, end_ms(key)).expect("it is short enough");
        let pushed = push_row(&mut cx, key, &mut writer).await;
        let outcome = cx.end(pushed).outcome;
        assert_eq!(outcome, Ok(()), "{}", key.escape_ascii());
        file.extend(host.take_answer(&outcome));
    }
    file.extend(writer.end());
    file
}

/// Puts `row` at `key`, until `end_ms`.
fn put(cx: &mut Context<'_>, key: &[u8], row: &Row, end_ms: Option<u64>) -> Outcome {
    let shape = match row {
        Row::Text(text) => Shape::String(text.clone()),
        Row::List(values) => Shape::List(0, values.clone()),
        Row::Stream(stream) => Shape::Stream(Box::new(stream.clone())),
    };
    match shape.map(1, false) {
        Mapped::Value(value) => cx.put(key, &value, end_ms),
        Mapped::Parts(head, parts) => {
            for (space, subkey, value) in parts {
                cx.put_part(Life::new(head.version), space, &subkey, &value)?;
            }
            cx.put_head(key, &head, end_ms)
        }
    }
}
