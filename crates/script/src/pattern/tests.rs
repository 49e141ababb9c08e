//! Compares every function with that of Lua's own library, on random patterns.

use std::sync::Arc;

use mlua::{Function, Lua, Table};
use proptest::prelude::*;

use crate::shared::Shared;

/// The result of a function, in one line; for a function that fails its message, without the place.
const ASK: &str = "
local name, own, text, pattern, third, fourth = ...
local lib = own or string
local function line(ok, ...)
    local words = { tostring(ok) }
    for i = 1, select('#', ...) do
        local word = tostring((select(i, ...)))
        words[#words + 1] = ok and word or word:gsub('^[^:]*:%d+: ', ''):gsub('\\nstack traceback:.*', '')
    end
    return table.concat(words, '|')
end
if name == 'gmatch' then
    return line(pcall(function()
        local all = {}
        for a, b in lib.gmatch(text, pattern) do all[#all + 1] = tostring(a) .. ',' .. tostring(b) end
        return table.concat(all, ';')
    end))
end
return line(pcall(lib[name], text, pattern, third, fourth))
";

struct Both {
    lua: Lua,
    own: Table,
    ask: Function,
}

impl Both {
    fn new() -> Self {
        let lua = Lua::new();
        let own = lua.create_table().expect("a table");
        super::put(&lua, &own, &Arc::new(Shared::new())).expect("room");
        let ask = lua.load(ASK).set_name("=ask").into_function().expect("Lua");
        Self { lua, own, ask }
    }

    /// Weir's answer, and Lua's.
    fn ask(&self, name: &str, text: &[u8], pattern: &[u8], third: mlua::Value, fourth: mlua::Value) -> [String; 2] {
        [Some(self.own.clone()), None].map(|own| {
            let text = self.lua.create_string(text).expect("room");
            let pattern = self.lua.create_string(pattern).expect("room");
            let told: mlua::Result<mlua::LuaString> =
                self.ask.call((name, own, text, pattern, third.clone(), fourth.clone()));
            String::from_utf8_lossy(&told.expect("a line").as_bytes()).into_owned()
        })
    }
}

/// Texts that are likely to be patterns, and to match.
fn pattern() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just("a"),
        Just("b"),
        Just("."),
        Just("%w"),
        Just("%s"),
        Just("%D"),
        Just("[ab]"),
        Just("[^a]"),
        Just("[%s-b]"),
        Just("*"),
        Just("+"),
        Just("-"),
        Just("?"),
        Just("("),
        Just(")"),
        Just("()"),
        Just("%1"),
        Just("%2"),
        Just("^"),
        Just("$"),
        Just("%b()"),
        Just("%f[a]"),
        Just("[]a]"),
        Just("["),
        Just("%"),
        Just("%z"),
        Just("\0"),
        Just("%f"),
        Just("%b"),
        Just("%."),
        Just("]"),
        Just("[a-"),
        Just("[#-%"),
        Just("%0")
    ];
    prop::collection::vec(piece, 0..7).prop_map(|pieces| pieces.concat().into_bytes())
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(&b"aaabb ().1\0"[..]), 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn functions_give_what_those_of_lua_give(
        text in text(), pattern in pattern(), init in -14_i64..14, plain: bool,
        with in "[ab%0-2]{0,4}", most in prop::option::of(0_i64..4)
    ) {
        let both = Both::new();
        let nil = mlua::Value::Nil;
        let init = mlua::Value::Number(init as f64);
        let [ours, lua] = both.ask("find", &text, &pattern, init.clone(), mlua::Value::Boolean(plain));
        prop_assert_eq!(ours, lua, "find");
        let [ours, lua] = both.ask("match", &text, &pattern, init, nil.clone());
        prop_assert_eq!(ours, lua, "match");
        let [ours, lua] = both.ask("gmatch", &text, &pattern, nil.clone(), nil.clone());
        prop_assert_eq!(ours, lua, "gmatch");
        let with = mlua::Value::String(both.lua.create_string(&with).expect("room"));
        let most = most.map_or(nil, |most| mlua::Value::Number(most as f64));
        let [ours, lua] = both.ask("gsub", &text, &pattern, with, most);
        prop_assert_eq!(ours, lua, "gsub");
    }
}
