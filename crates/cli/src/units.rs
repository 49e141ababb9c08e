//! Bytes, as people write them.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read() {
        assert_eq!(
            (read_bytes("10GiB"), read_bytes("7 MB"), read_bytes("5")),
            (Some(10 << 30), Some(7_000_000), Some(5))
        );
        assert_eq!((read_bytes(""), read_bytes("GB"), read_bytes("99999999 TiB")), (None, None, None));
    }
}
