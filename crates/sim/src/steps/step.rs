//! The steps of one client: step `n` changes rows of every type, so that each of them says `n`.
//!
//! The contents of rows depend on the number of the last step and on a few steps before it. So plain commands that
//! repeat these steps with other rows, one after the other, give rows that must answer the same.

/// Steps whose traces no later step has overwritten: every window below is at most this long.
const WINDOW: u64 = 16;

/// A deadline in a century nobody lives to see, in milliseconds since 1970.
const FAR_MS: u64 = 4_102_444_800_000;

/// A command, as its words.
pub type Words = Vec<String>;

/// The name of a row, in the slot that all rows of one client share.
fn row(rows: &str, name: &str) -> String {
    format!("{{{rows}}}:{name}")
}

fn command(rows: &str, line: &str) -> Words {
    let word = |word: &str| word.strip_prefix('@').map_or_else(|| word.to_owned(), |name| row(rows, name));
    line.split(' ').map(word).collect()
}

/// Names of all rows that steps write to.
const NAMES: [&str; 15] = ["n", "i", "h", "m", "t", "l", "s", "z", "g", "p", "b", "x", "q", "d", "y"];

/// The rows that a step names, which a script declares.
pub fn keys(rows: &str) -> Vec<String> {
    NAMES.iter().filter(|&&name| name != "d").map(|name| row(rows, name)).collect()
}

/// The commands of step `n` on these rows.
pub fn step(rows: &str, n: u64) -> Vec<Words> {
    let mut lines = vec![
        format!("SET @n {n}"),
        "INCR @i".to_owned(),
        format!("HSET @h f{} {n} all {n}", n % 7),
        format!("HSET @m f{} {n} decoy {n}", n % 5),
        format!("HPEXPIREAT @m {} FIELDS 1 f{}", FAR_MS + n, n % 5),
        "HPEXPIRE @m 3 FIELDS 1 decoy".to_owned(),
        format!("SET @t {n} PX 3"),
        format!("RPUSH @l {n}"),
        "LTRIM @l -8 -1".to_owned(),
        format!("SADD @s {n} odd:{}", n % 2),
        format!("SREM @s {} odd:{}", n.saturating_sub(8), (n + 1) % 2),
        format!("ZADD @z {n} m{}", n % 6),
        format!("GEOADD @g {}.5 {}.25 m{}", n % 170, n % 80, n % 4),
    ];
    if n.is_multiple_of(WINDOW) {
        lines.push("DEL @p".to_owned());
    }
    lines.push(format!("PFADD @p {n} {}", n + 1));
    lines.push(format!("SETBIT @b {} {}", n % WINDOW, n / WINDOW % 2));
    if n == 1 {
        lines.push(GROUP.to_owned());
    }
    lines.push(format!("XADD @x {n}-1 step {n}"));
    lines.push(format!("XREADGROUP GROUP g c{} STREAMS @x >", n % 2));
    lines.push(format!("XACK @x g {}-1", n.saturating_sub(3)));
    lines.push("XTRIM @x MAXLEN 8".to_owned());
    match n % 6 {
        2 => lines.extend(["RENAME @z @y".to_owned(), "RENAME @y @z".to_owned()]),
        4 => lines.extend(["COPY @m @y".to_owned(), "DEL @m".to_owned(), "RENAME @y @m".to_owned()]),
        _ => {}
    }
    lines.push(format!("RPUSH @q {n}"));
    lines.iter().map(|line| command(rows, line)).collect()
}

const GROUP: &str = "XGROUP CREATE @x g 0 MKSTREAM";

/// Commands that make `rows` as they are after step `n`, whatever they were before. They do not restore the row of step
/// numbers that are to be [taken](take), nor the count of steps.
pub fn replay(rows: &str, n: u64) -> Vec<Words> {
    let from = (n - n % WINDOW).saturating_sub(WINDOW).max(1);
    let mut commands = vec![[vec!["DEL".to_owned()], NAMES.map(|name| row(rows, name)).to_vec()].concat()];
    if from > 1 {
        commands.push(command(rows, GROUP));
    }
    commands.extend((from..=n).flat_map(|step_number| step(rows, step_number)));
    commands
}

/// The questions about rows, which cover all that a step has left.
pub fn questions(rows: &str) -> Vec<Words> {
    [
        "GET @n",
        "HMGET @h f0 f1 f2 f3 f4 f5 f6 all",
        "HLEN @h",
        "HMGET @m f0 f1 f2 f3 f4",
        "HPEXPIRETIME @m FIELDS 5 f0 f1 f2 f3 f4",
        "LRANGE @l 0 -1",
        "LLEN @l",
        "SORT @s ALPHA",
        "SCARD @s",
        "ZRANGE @z 0 -1 WITHSCORES",
        "ZCARD @z",
        "ZREVRANK @z m3",
        "GEOPOS @g m0 m1 m2 m3",
        "PFCOUNT @p",
        "GET @b",
        "XRANGE @x - +",
        "XLEN @x",
        "XPENDING @x g",
        "EXISTS @y",
    ]
    .iter()
    .map(|line| command(rows, line))
    .collect()
}

/// Asks how many steps were taken, if each counts once.
pub fn count(rows: &str) -> Words {
    command(rows, "GET @i")
}

/// Waits a while for the next number of a step, and takes it over.
pub fn take(rows: &str) -> Words {
    command(rows, "BLMOVE @q @d LEFT RIGHT 0.05")
}

/// Waits for the next number of a step, as long as it takes, and takes it over.
pub fn wait_and_take(rows: &str) -> Words {
    command(rows, "BLMOVE @q @d LEFT RIGHT 0")
}

/// Writes to a row that is in no step: shows whether the server accepts writes.
pub fn try_to_write(rows: &str) -> Words {
    command(rows, "SET @w 1")
}

/// Asks which step was the last.
pub fn last(rows: &str) -> Words {
    command(rows, "GET @n")
}

/// Asks for the numbers that were taken over, and those that are left.
pub fn taken_and_left(rows: &str) -> [Words; 2] {
    ["LRANGE @d 0 -1", "LRANGE @q 0 -1"].map(|line| command(rows, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_name_only_the_rows_that_scripts_declare() {
        let declared = keys("a");
        for n in 1..100 {
            for word in step("a", n).iter().flatten().filter(|word| word.starts_with('{')) {
                assert!(declared.contains(word), "step {n} names {word}");
            }
        }
        assert!(replay("b", 40).len() > 16 * 15 && replay("b", 0).len() == 1);
    }
}
