//! `bit`: operations on the 32 bits of a number.

use mlua::{Lua, Result, Table, Variadic};

/// The lowest 32 bits of a number, as a signed number.
fn normalized(number: f64) -> i32 {
    // Whole numbers of up to 2^51 keep their lowest bits; for others the result is not specified.
    (number.round_ties_even() as i64) as i32
}

/// The table `bit`.
///
/// # Errors
/// There is no memory for it.
pub(crate) fn table(lua: &Lua) -> Result<Table> {
    let bit = lua.create_table()?;
    let one = |name: &str, op: fn(i32) -> i32| {
        bit.raw_set(name, lua.create_function(move |_, number: f64| Ok(f64::from(op(normalized(number)))))?)
    };
    one("tobit", |number| number)?;
    one("bnot", |number| !number)?;
    one("bswap", i32::swap_bytes)?;
    let many = |name: &str, op: fn(i32, i32) -> i32| {
        let all = move |_: &Lua, (first, rest): (f64, Variadic<f64>)| {
            Ok(f64::from(rest.iter().fold(normalized(first), |all, number| op(all, normalized(*number)))))
        };
        bit.raw_set(name, lua.create_function(all)?)
    };
    many("band", |a, b| a & b)?;
    many("bor", |a, b| a | b)?;
    many("bxor", |a, b| a ^ b)?;
    let shift = |name: &str, op: fn(i32, u32) -> i32| {
        let shifted =
            move |_: &Lua, (number, by): (f64, f64)| Ok(f64::from(op(normalized(number), normalized(by) as u32 & 31)));
        bit.raw_set(name, lua.create_function(shifted)?)
    };
    shift("lshift", |number, by| number << by)?;
    shift("rshift", |number, by| (number as u32 >> by) as i32)?;
    shift("arshift", |number, by| number >> by)?;
    shift("rol", |number, by| number.rotate_left(by))?;
    shift("ror", |number, by| number.rotate_right(by))?;
    let hex = |_: &Lua, (number, digits): (f64, Option<f64>)| {
        let digits = normalized(digits.unwrap_or(8.0));
        let len = digits.unsigned_abs().min(8) as usize;
        let text = format!("{:08x}", normalized(number));
        let text = &text[8 - len..];
        Ok(if digits < 0 { text.to_uppercase() } else { text.to_owned() })
    };
    bit.raw_set("tohex", lua.create_function(hex)?)?;
    Ok(bit)
}
