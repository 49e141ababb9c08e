//! Bytes, as people write and read them.

/// Bare numbers below this are taken for a mistake, unless they are 0: somebody who writes `100` means megabytes.
pub const BARE_BYTES_MIN: u64 = 1_000_000;

/// Why a text is not a number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoBytes {
    /// The text has no meaning.
    Unknown,
    /// The text is this small number, without a unit.
    NoUnit(u64),
}

/// What `text` means: digits and a unit such as `MiB` or `GB`, or a bare number of bytes, at least a million.
pub fn read_bytes(text: &str) -> Result<u64, NoBytes> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number: u64 = text[..digits].parse().map_err(|_| NoBytes::Unknown)?;
    let unit: u64 = match text[digits..].trim() {
        "" if number == 0 || number >= BARE_BYTES_MIN => 1,
        "" => return Err(NoBytes::NoUnit(number)),
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => return Err(NoBytes::Unknown),
    };
    number.checked_mul(unit).ok_or(NoBytes::Unknown)
}

/// Like [`read_bytes`], for an option of a command.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    read_bytes(text).map_err(|problem| match problem {
        NoBytes::NoUnit(number) => {
            format!("{number} of what? Write {number}MiB, {number}GiB, or {number}B for bytes")
        }
        NoBytes::Unknown => "a number of bytes, such as 64MiB, 10GB or 1000000".to_owned(),
    })
}

/// `count` with a unit, in about four characters.
pub fn bytes(count: u64) -> String {
    scaled(count, 1024, &["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"])
}

/// `count` with a metric prefix, in about four characters.
pub fn number(count: u64) -> String {
    scaled(count, 1000, &["", "k", "M", "G", "T", "P", "E"])
}

fn scaled(count: u64, step: u64, units: &[&str]) -> String {
    let (mut value, step) = (count as f64, step as f64);
    let mut at = 0;
    // A value that would be rounded up to a whole step has the next unit.
    while value >= step - 0.5 && at + 1 < units.len() {
        value /= step;
        at += 1;
    }
    let blank = if units[0].is_empty() { "" } else { " " };
    let digits = usize::from(at > 0 && value < 99.95);
    format!("{value:.digits$}{blank}{}", units[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways() {
        assert_eq!((bytes(0), bytes(1023), bytes(1536)), ("0 B".into(), "1023 B".into(), "1.5 KiB".into()));
        assert_eq!((bytes(250 << 20), number(12_345)), ("250 MiB".into(), "12.3k".into()));
        assert_eq!((number(u64::MAX), bytes(u64::MAX)), ("18.4E".into(), "16.0 EiB".into()));
        assert_eq!([(1 << 20) - 1, (1 << 30) - 1, 102_390].map(bytes), ["1.0 MiB", "1.0 GiB", "100 KiB"]);
        assert_eq!([999, 999_499, 999_500, 99_960].map(number), ["999", "999k", "1.0M", "100k"]);
        let read = |text| read_bytes(text);
        assert_eq!(["10GiB", "7 MB", "5 B", "0"].map(read), [Ok(10 << 30), Ok(7_000_000), Ok(5), Ok(0)]);
        assert_eq!((read("5"), read("1000000")), (Err(NoBytes::NoUnit(5)), Ok(1_000_000)));
        assert_eq!(["", "GB", "99999999 TiB", "5 parsecs"].map(read), [Err(NoBytes::Unknown); 4]);
    }

    #[test]
    fn a_small_number_without_a_unit_is_asked_about() {
        assert_eq!(
            ["0", "1000000", "100B", "100 MB"].map(parse_bytes),
            [Ok(0), Ok(1_000_000), Ok(100), Ok(100_000_000)]
        );
        for (text, hint) in [("100", "100MiB"), ("64", "64B for bytes"), ("ten", "64MiB")] {
            let error = parse_bytes(text).expect_err(text);
            assert!(error.contains(hint), "{error}");
        }
    }
}
