//! What is shown, as cells: the terminal and the plain text get the same.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Row as TableRow, Table};

use super::rates::{Rates, Row, Sort};
use crate::units::{bytes, number};

const HEADS: [&str; 19] = [
    "TENANT", "STATE", "READS", "WRITES", "IN", "OUT", "D.READ", "D.LOG", "D.FLUSH", "D.L0", "D.DEEP", "D.MAINT",
    "WAIT ms", "FOR", "P50", "P99", "CPU", "DELAYED", "REFUSED",
];
/// Columns of a figure.
const WIDTH: usize = 8;

/// The line above the table.
pub fn summary(rates: &Rates, sort: Sort) -> String {
    let hits = rates.cache_hit_percent.map_or("-".to_owned(), |percent| format!("{percent} %"));
    format!(
        "{} tenants, {} connections, cache {} (hits {hits}); per second, by {}",
        rates.tenants,
        rates.connections,
        bytes(rates.cache_bytes),
        sort.name(),
    )
}

fn cells(row: &Row) -> [String; HEADS.len()] {
    let [read, log, flush, l0, deep, maintenance] = row.device.map(figure_bytes);
    [
        row.name.clone(),
        row.state.to_owned(),
        figure(row.reads),
        figure(row.writes),
        figure_bytes(row.written_bytes),
        figure_bytes(row.read_bytes),
        read,
        log,
        flush,
        l0,
        deep,
        maintenance,
        figure(row.waited_ms.iter().sum()),
        row.waited_for().unwrap_or("·").to_owned(),
        row.p50_micros.map_or("·".to_owned(), micros),
        row.p99_micros.map_or("·".to_owned(), micros),
        percent(row.processor_percent),
        figure(row.delayed),
        figure(row.refused),
    ]
}

/// Nothing is shown as a dot, so that the eye finds what is there.
fn figure(count: u64) -> String {
    if count == 0 { "·".to_owned() } else { number(count) }
}

fn percent(percent: u64) -> String {
    if percent == 0 { "·".to_owned() } else { format!("{percent}%") }
}

/// A time in the unit that it has the fewest digits in.
fn micros(micros: u64) -> String {
    match micros {
        ..1000 => format!("{micros}us"),
        1000..10_000 => format!("{:.1}ms", micros as f64 / 1e3),
        10_000..1_000_000 => format!("{}ms", micros / 1000),
        _ => format!("{:.1}s", micros as f64 / 1e6),
    }
}

fn figure_bytes(count: u64) -> String {
    if count == 0 { "·".to_owned() } else { bytes(count).replace(' ', "").replace("iB", "") }
}

/// The table as lines of text.
pub fn plain(rates: &Rates, sort: Sort) -> String {
    let name = rates.rows.iter().map(|row| row.name.len()).max().unwrap_or(0).max(HEADS[0].len());
    let line = |cells: [String; HEADS.len()]| {
        let mut text = format!("{:name$}  {:9}", cells[0], cells[1]);
        for cell in &cells[2..] {
            text.push_str(&format!(" {cell:>WIDTH$}"));
        }
        text.push('\n');
        text
    };
    let mut text = summary(rates, sort) + "\n" + &line(HEADS.map(str::to_owned));
    text.extend(rates.rows.iter().chain([&rates.total()]).map(|row| line(cells(row))));
    text
}

/// Draws everything; the tenants from number `first` on, as many as there is room for.
pub fn draw(frame: &mut Frame<'_>, rates: &Rates, sort: Sort, first: usize, trouble: Option<&str>) {
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(3), Constraint::Length(1)]).areas(frame.area());
    frame.render_widget(Line::from(summary(rates, sort)), head);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let right = |cells: [String; HEADS.len()]| {
        let mut index = 0;
        TableRow::new(cells.map(|cell| {
            index += 1;
            if index <= 2 { Line::from(cell) } else { Line::from(cell).right_aligned() }
        }))
    };
    let rows = std::iter::once(right(cells(&rates.total())).style(bold))
        .chain(rates.rows.iter().skip(first).map(|row| right(cells(row))));
    let widths = [Constraint::Fill(1), Constraint::Length(9)]
        .into_iter()
        .chain(std::iter::repeat_n(Constraint::Length(WIDTH as u16), HEADS.len() - 2));
    let header = right(HEADS.map(str::to_owned)).style(Style::new().add_modifier(Modifier::REVERSED));
    frame.render_widget(Table::new(rows, widths).header(header), body);
    let keys = "q quit   s sort   up/down scroll   IN/OUT clients' bytes   D.* device bytes by cause   P50/P99 until the reply   FOR what it waited most";
    frame.render_widget(Line::from(trouble.unwrap_or(keys).to_owned()), foot);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    fn rates() -> Rates {
        let row = |name: &str, reads| Row {
            name: name.into(),
            state: "active",
            reads,
            processor_percent: 35,
            ..Row::default()
        };
        Rates { tenants: 2, connections: 7, rows: vec![row("first", 12_345), row("second", 0)], ..Rates::default() }
    }

    #[test]
    fn text_and_terminal_show_every_tenant() {
        let text = plain(&rates(), Sort::Ops);
        assert!(text.starts_with("2 tenants, 7 connections") && text.contains("first   active       12.3k"), "{text}");
        let mut terminal = Terminal::new(TestBackend::new(180, 8)).expect("memory");
        terminal.draw(|frame| draw(frame, &rates(), Sort::Ops, 0, Some("the server is gone"))).expect("drawn");
        let shown = format!("{}", terminal.backend());
        for word in ["TENANT", "first", "second", "all", "12.3k", "35%", "70%", "the server is gone"] {
            assert!(shown.contains(word), "{word} in\n{shown}");
        }
    }
}
