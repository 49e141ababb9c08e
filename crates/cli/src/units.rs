//! Bytes, as people write and read them.

/// What `text` means: digits, and perhaps a unit such as `MiB` or `GB`. `None` if it means nothing.
pub fn read_bytes(text: &str) -> Option<u64> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number: u64 = text[..digits].parse().ok()?;
    let unit: u64 = match text[digits..].trim() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return None,
    };
    number.checked_mul(unit)
}

/// The same for an option of a command.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    read_bytes(text).ok_or_else(|| "a number of bytes, such as 1000000, 64MiB or 10GB".to_owned())
}

/// `count` with a unit, in about four characters.
pub fn bytes(count: u64) -> String {
    scaled(count, 1024, &["B", "KiB", "MiB", "GiB", "TiB"])
}

/// `count` with a metric prefix, in about four characters.
pub fn number(count: u64) -> String {
    scaled(count, 1000, &["", "k", "M", "G", "T"])
}

fn scaled(count: u64, step: u64, units: &[&str]) -> String {
    let mut value = count as f64;
    let mut at = 0;
    while value >= step as f64 && at + 1 < units.len() {
        value /= step as f64;
        at += 1;
    }
    let blank = if units[0].is_empty() { "" } else { " " };
    let digits = usize::from(at > 0 && value < 100.0);
    format!("{value:.digits$}{blank}{}", units[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways() {
        assert_eq!((bytes(0), bytes(1023), bytes(1536)), ("0 B".into(), "1023 B".into(), "1.5 KiB".into()));
        assert_eq!((bytes(250 << 20), number(12_345)), ("250 MiB".into(), "12.3k".into()));
        assert_eq!(number(u64::MAX), "18446744T");
        assert_eq!(
            (read_bytes("10GiB"), read_bytes("7 MB"), read_bytes("5")),
            (Some(10 << 30), Some(7_000_000), Some(5))
        );
        assert_eq!((read_bytes(""), read_bytes("GB"), read_bytes("99999999 TiB")), (None, None, None));
    }
}
