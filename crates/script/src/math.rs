//! `math.random` and `math.randomseed`.

use std::sync::Arc;

use mlua::{Lua, MultiValue, Table, Value};

use crate::failure::raise_text;
use crate::shared::Shared;
use crate::values::number_of;

/// Puts `random` and `randomseed` into `machine`.
///
/// # Errors
/// There is no memory for them.
pub(crate) fn put(lua: &Lua, machine: &Table, shared: &Arc<Shared>) -> mlua::Result<()> {
    let own = Arc::clone(shared);
    let random = move |lua: &Lua, args: MultiValue| {
        let number = own.random();
        let bounds: Vec<f64> = args.iter().filter_map(number_of).map(f64::floor).collect();
        let (from, to) = match (args.len(), &bounds[..]) {
            (0, []) => return Ok(Value::Number(number)),
            (1, [to]) => (1.0, *to),
            (2, [from, to]) => (*from, *to),
            _ => return Err(raise_text(lua, "wrong number of arguments")),
        };
        if from > to {
            return Err(raise_text(lua, format!("bad argument #{} to 'random' (interval is empty)", args.len())));
        }
        Ok(Value::Number((number * (to - from + 1.0)).floor() + from))
    };
    machine.raw_set("random", lua.create_function(random)?)?;
    let own = Arc::clone(shared);
    let seeds = move |_: &Lua, seed: f64| {
        own.seed(seed as i64 as u64);
        Ok(())
    };
    machine.raw_set("randomseed", lua.create_function(seeds)?)
}
