//! `cjson`: values as JSON and back, by the rules and with the settings of the library in Redis.
//!
//! What a script sets is forgotten when it ends. In Redis, the next script would see it, whoever runs it.

mod decode;
mod encode;
mod number;
mod settings;

use std::sync::Arc;

use mlua::{Function, Lua, MultiValue, Table, Value};
use parking_lot::Mutex;

use self::decode::decode;
use self::encode::encode;
pub(crate) use self::settings::Settings;
use crate::budget::Work;
use crate::failure::{raise_text, told};
use crate::shared::Shared;

/// The table `cjson`, whose functions use and change `settings`. `next` is Lua's function of this name.
///
/// # Errors
/// There is no memory for it.
pub(crate) fn table(
    lua: &Lua,
    next: &Function,
    settings: &Arc<Mutex<Settings>>,
    shared: &Arc<Shared>,
) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("null", Value::NULL)?;
    table.raw_set("_NAME", "cjson")?;
    table.raw_set("_VERSION", "2.1.0")?;
    let (own, run, own_next) = (Arc::clone(settings), Arc::clone(shared), next.clone());
    let encodes = move |lua: &Lua, value: Value| {
        let settings = *own.lock();
        let json = encode(&own_next, &value, &settings, &mut Work::of(&run));
        told(lua, json).and_then(|json| lua.create_string(json))
    };
    table.raw_set("encode", lua.create_function(encodes)?)?;
    let (own, run) = (Arc::clone(settings), Arc::clone(shared));
    let decodes = move |lua: &Lua, json: Value| match json {
        Value::String(json) => {
            let settings = *own.lock();
            told(lua, decode(lua, &json.as_bytes(), &settings, &mut Work::of(&run)))
        }
        _ => Err(raise_text(lua, "bad argument #1 to 'decode' (string expected)")),
    };
    table.raw_set("decode", lua.create_function(decodes)?)?;
    for setting in settings::ALL {
        let own = Arc::clone(settings);
        let sets = move |lua: &Lua, args: MultiValue| {
            let mut changed = *own.lock();
            let shown = told(lua, setting.apply(lua, &mut changed, args))?;
            *own.lock() = changed;
            Ok(shown)
        };
        table.raw_set(setting.name, lua.create_function(sets)?)?;
    }
    // Another table, with settings of its own.
    let (run, own_next) = (Arc::clone(shared), next.clone());
    let new = move |lua: &Lua, _: MultiValue| table_of_its_own(lua, &own_next, &run);
    table.raw_set("new", lua.create_function(new)?)?;
    Ok(table)
}

fn table_of_its_own(lua: &Lua, next: &Function, shared: &Arc<Shared>) -> mlua::Result<Table> {
    table(lua, next, &Arc::default(), shared)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::{Failure, Result};
    use proptest::prelude::*;

    fn text(result: Result<Vec<u8>>) -> String {
        match result {
            Ok(bytes) => String::from_utf8(bytes).expect("text"),
            Err(Failure::Text(text)) => text,
            Err(Failure::Lua(error)) => error.to_string(),
        }
    }

    fn again(json: &str) -> String {
        let lua = Lua::new();
        let (settings, shared) = (Settings::default(), Shared::new());
        let mut work = Work::of(&shared);
        let value = decode(&lua, json.as_bytes(), &settings, &mut work);
        text(value.and_then(|value| encode(&next(&lua), &value, &settings, &mut work)))
    }

    fn next(lua: &Lua) -> Function {
        lua.globals().raw_get("next").expect("it is there")
    }

    #[test]
    fn it_is_written_also_where_the_binding_can_hold_no_more_values() {
        let (lua, shared) = (Lua::new(), Shared::new());
        let next = next(&lua);
        let held: Vec<Table> = std::iter::from_fn(|| lua.create_table().ok()).collect();
        let json = encode(&next, &Value::Boolean(true), &Settings::default(), &mut Work::of(&shared));
        assert_eq!(text(json), "true");
        drop(held);
    }

    #[test]
    fn values_are_told_as_by_the_library_of_redis() {
        for json in
            ["[1,2,[3]]", "{\"a\":\"b\"}", "\"\\u0001\\n\\/\"", "1.5", "true", "null", "[null,1]", "1e+20", "-0"]
        {
            assert_eq!(again(json), json);
        }
        assert_eq!(again("[]"), "{}");
        assert_eq!(again(" { \"a\" : [ 1 , 2 ] } "), "{\"a\":[1,2]}");
        assert_eq!(again("\"\\u00e9\\ud83d\\ude00\""), "\"é😀\"");
        assert_eq!(again("x"), "Expected value but found invalid token at character 1");
        assert_eq!(again("[1"), "Expected comma or array end but found T_END at character 3");
        assert_eq!(again(&"[".repeat(2000)), "Found too many nested data structures (1001) at character 1001");
        for number in ["0.1", "1e+14", "1.2345678901234e+14", "1e-05", "100", "0.0003", "0.33333333333333"] {
            assert_eq!(again(number), number);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(json in "[\\[\\]{}:,\"0-9eE+\\\\u a-f-]{0,30}", bytes: Vec<u8>) {
            let (lua, shared) = (Lua::new(), Shared::new());
            let mut work = Work::of(&shared);
            for reads_invalid in [false, true] {
                let settings = Settings { reads_invalid, ..Settings::default() };
                let _ = decode(&lua, json.as_bytes(), &settings, &mut work);
                let _ = decode(&lua, &bytes, &settings, &mut work);
            }
        }
    }
}
