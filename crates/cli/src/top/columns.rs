//! Chooses the columns that fit into a width. Columns are dropped whole, the least important first: half a number is a
//! wrong number.

use super::rates::{Row, Sort};
use crate::units::{bytes, number};

/// One column of the table, beside TENANT, which is always there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    State,
    Reads,
    Writes,
    In,
    Out,
    /// Device bytes of one cause, by its place in [`CAUSES`](super::rates::CAUSES).
    Device(usize),
    Wait,
    For,
    P50,
    P99,
    Processor,
    Delayed,
    Refused,
}

use Column::{Delayed, Device, For, In, Out, P50, P99, Processor, Reads, Refused, State, Wait, Writes};

/// The columns from left to right.
const ORDER: [Column; 18] = [
    State,
    Reads,
    Writes,
    In,
    Out,
    Device(0),
    Device(1),
    Device(2),
    Device(3),
    Device(4),
    Device(5),
    Wait,
    For,
    P50,
    P99,
    Processor,
    Delayed,
    Refused,
];

/// The columns that say what a tenant does and how it fares. A long name is shortened for these, and for no others.
const ESSENTIAL: [Column; 5] = [Reads, Writes, Wait, For, P99];

/// The other columns, the most important first.
const FURTHER: [Column; 13] = [
    State,
    Processor,
    Delayed,
    Refused,
    In,
    Out,
    P50,
    Device(0),
    Device(1),
    Device(2),
    Device(3),
    Device(4),
    Device(5),
];

/// The head of the first column.
const TENANT: &str = "TENANT";
/// Characters that a name keeps before an essential column is dropped for it.
const NAME_MIN: usize = 12;
/// Characters of a figure: `number` and similar functions need no more, so columns do not jump from second to second.
const FIGURE: usize = 6;

impl Column {
    /// The head of the column.
    pub fn head(self) -> &'static str {
        match self {
            State => "STATE",
            Reads => "READS",
            Writes => "WRITES",
            In => "IN",
            Out => "OUT",
            Device(cause) => ["D.READ", "D.LOG", "D.FLUSH", "D.L0", "D.DEEP", "D.MAINT"].get(cause).unwrap_or(&"D"),
            Wait => "WAIT ms",
            For => "FOR",
            P50 => "P50",
            P99 => "P99",
            Processor => "CPU",
            Delayed => "DELAYED",
            Refused => "REFUSED",
        }
    }

    /// The text for `row`. Zero is shown as a dot, so that the eye finds the other figures.
    pub fn cell(self, row: &Row) -> String {
        let nothing = || "·".to_owned();
        let or_nothing = |count: u64, words: fn(u64) -> String| if count == 0 { nothing() } else { words(count) };
        match self {
            State => row.state.to_owned(),
            Reads => or_nothing(row.reads, number),
            Writes => or_nothing(row.writes, number),
            In => or_nothing(row.written_bytes, short_bytes),
            Out => or_nothing(row.read_bytes, short_bytes),
            Device(cause) => or_nothing(row.device.get(cause).copied().unwrap_or(0), short_bytes),
            Wait => or_nothing(row.waited(), number),
            For => row.waited_for().map_or_else(nothing, str::to_owned),
            P50 => row.p50_micros.map_or_else(nothing, micros),
            P99 => row.p99_micros.map_or_else(nothing, micros),
            Processor => or_nothing(row.processor_percent, |percent| format!("{}%", number(percent))),
            Delayed => or_nothing(row.delayed, number),
            Refused => or_nothing(row.refused, number),
        }
    }

    fn is_text(self) -> bool {
        self == State
    }

    /// Characters that the column needs even without a row.
    fn width_min(self) -> usize {
        match self {
            State => "suspended".len(),
            For => "units".len(),
            _ => FIGURE.max(self.head().len()),
        }
    }
}

/// The columns of a table, and how wide each is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    /// Width of TENANT.
    name: usize,
    /// The other columns with their widths, from left to right.
    shown: Vec<(Column, usize)>,
}

impl Columns {
    /// As many columns as fit into `width` characters, for a table of `rows` that are sorted by `sort`; `None` = as
    /// wide as needed.
    pub fn fit<'a>(rows: impl Iterator<Item = &'a Row> + Clone, sort: Sort, width: Option<usize>) -> Self {
        let longest = |column: Column| {
            let cells = rows.clone().map(|row| column.cell(row).chars().count());
            (column, cells.max().unwrap_or(0).max(column.width_min()))
        };
        let name_max = rows.clone().map(|row| row.name.chars().count()).max().unwrap_or(0).max(TENANT.len());
        let Some(width) = width else {
            return Self { name: name_max, shown: ORDER.map(longest).to_vec() };
        };
        let sorted_by = sorted_by(sort);
        let essential = sorted_by.iter().chain(ESSENTIAL.iter().filter(|column| !sorted_by.contains(column)));
        let mut room = width.saturating_sub(name_max.min(NAME_MIN));
        let mut chosen: Vec<(Column, usize)> = Vec::new();
        // Stops at the first that does not fit: so a column that is shown at a width is shown at every larger one.
        let mut is_full = false;
        let mut take = |column: &Column, room: &mut usize| {
            if is_full || chosen.iter().any(|(known, _)| known == column) {
                return;
            }
            let (column, width) = longest(*column);
            match room.checked_sub(width + 1) {
                Some(left) => {
                    *room = left;
                    chosen.push((column, width));
                }
                None => is_full = true,
            }
        };
        essential.for_each(|column| take(column, &mut room));
        // The columns that follow leave every name whole.
        if let Some(mut beside_names) = room.checked_sub(name_max - name_max.min(NAME_MIN)) {
            FURTHER.iter().for_each(|column| take(column, &mut beside_names));
        }
        chosen.sort_by_key(|(column, _)| ORDER.iter().position(|other| other == column));
        let taken: usize = chosen.iter().map(|(_, width)| width + 1).sum();
        Self { name: width.saturating_sub(taken), shown: chosen }
    }

    /// The heads of the columns that there is no room for, from left to right.
    pub fn hidden(&self) -> Vec<&'static str> {
        let is_hidden = |column: &Column| !self.shown.iter().any(|(shown, _)| shown == column);
        ORDER.into_iter().filter(is_hidden).map(Column::head).collect()
    }

    /// The line above the rows.
    pub fn heads(&self) -> String {
        self.line(TENANT, Column::head)
    }

    /// A line of the table.
    pub fn row(&self, row: &Row) -> String {
        self.line(&row.name, |column| column.cell(row))
    }

    fn line<T: std::fmt::Display>(&self, name: &str, cell: impl Fn(Column) -> T) -> String {
        let mut line = format!("{:1$}", shortened(name, self.name), self.name);
        for &(column, width) in &self.shown {
            // Make it a text first: then padding counts its characters, whatever type shows it.
            let cell = cell(column).to_string();
            line.push_str(&if column.is_text() { format!(" {cell:<width$}") } else { format!(" {cell:>width$}") });
        }
        line
    }
}

/// The columns that rows are sorted by: these are always shown.
fn sorted_by(sort: Sort) -> &'static [Column] {
    match sort {
        Sort::Name => &[],
        Sort::Ops => &[Reads, Writes],
        Sort::Device => &[Device(0), Device(1), Device(2), Device(3), Device(4), Device(5)],
        Sort::Waits => &[Wait, For],
        Sort::Processor => &[Processor],
        Sort::Throttles => &[Delayed, Refused],
    }
}

/// `name` in at most `width` characters, with an ellipsis where characters are left out.
fn shortened(name: &str, width: usize) -> String {
    if name.chars().count() <= width {
        return name.to_owned();
    }
    let kept: String = name.chars().take(width.saturating_sub(1)).collect();
    if width == 0 { kept } else { kept + "…" }
}

/// A time in the unit that gives the fewest digits.
fn micros(micros: u64) -> String {
    match micros {
        ..1000 => format!("{micros}us"),
        1000..10_000 => format!("{:.1}ms", micros as f64 / 1e3),
        10_000..1_000_000 => format!("{}ms", micros / 1000),
        1_000_000..100_000_000 => format!("{:.1}s", micros as f64 / 1e6),
        100_000_000..10_000_000_000 => format!("{}s", micros / 1_000_000),
        _ => format!("{}s", number(micros / 1_000_000)),
    }
}

fn short_bytes(count: u64) -> String {
    bytes(count).replace(' ', "").replace("iB", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_figure_is_wider_than_its_column() {
        let powers =
            (0..64).flat_map(|power| [(1_u64 << power) - 1, 1 << power, (1 << power) + (1 << power) / 100 * 95]);
        for count in powers.chain([99_949, 99_950, 999_949, 999_950, u64::MAX]) {
            for words in [number, short_bytes, micros, |percent| format!("{}%", number(percent))] {
                assert!(words(count).chars().count() <= FIGURE + 1, "{}", words(count));
            }
        }
    }

    #[test]
    fn every_column_has_a_rank() {
        for column in ORDER {
            assert!(ESSENTIAL.contains(&column) != FURTHER.contains(&column), "{column:?}");
        }
    }

    #[test]
    fn names_are_shortened_where_they_do_not_fit() {
        assert_eq!(
            (shortened("shop", 4), shortened("shop", 3), shortened("shop", 0)),
            ("shop".into(), "sh…".into(), String::new())
        );
    }
}
