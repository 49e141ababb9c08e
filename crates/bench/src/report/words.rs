//! Numbers and rows in words: three digits, a unit, columns that line up.

/// Rows of cells as text, columns padded to their widest cell.
pub(crate) fn align<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; COLUMNS] = std::array::from_fn(width);
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// A count in three digits: `950`, `12.3 K`, `1.20 M`.
pub(crate) fn count(value: f64) -> String {
    scaled(value, 1000.0, &["", " K", " M", " G"])
}

/// Bytes in three digits, in powers of ten.
pub(crate) fn bytes(value: u64) -> String {
    scaled(value as f64, 1000.0, &[" B", " KB", " MB", " GB", " TB"])
}

pub(crate) fn time(nanos: u64) -> String {
    scaled(nanos as f64, 1000.0, &[" ns", " us", " ms", " s"])
}

fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let decimals = if unit == 0 || value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.decimals$}{}", units[unit])
}
