//! The table as lines of text: the terminal and the plain output get the same lines.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;

use super::columns::Columns;
use super::rates::{Rates, Sort};
use crate::units::{bytes, number};

/// What the user has chosen to see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// What rows are sorted by.
    pub sort: Sort,
    /// Tenants above the first row.
    pub scrolled: usize,
    /// The bottom line names the hidden columns instead of the keys.
    pub names_hidden: bool,
    /// What is wrong with the server, if anything.
    pub trouble: Option<String>,
}

/// Lines at the bottom that a long text may take.
const FOOT_MAX: usize = 4;

/// The line above the table: as many of its parts, in this order, as fit into `width`, each of them whole.
fn summary(rates: &Rates, chosen: &Chosen, rows: usize, width: Option<usize>) -> String {
    let hits = rates.cache_hit_percent.map_or("-".to_owned(), |percent| format!("{percent} %"));
    let mut parts = vec![format!("{} tenants", rates.tenants), format!("per second, by {}", chosen.sort.name())];
    let shown = rates.rows.len().saturating_sub(chosen.scrolled).min(rows);
    if shown < rates.rows.len() {
        parts.push(format!("rows {} to {}", chosen.scrolled + 1, chosen.scrolled + shown));
    }
    if let Some(percent) = rates.sold_percent.filter(|&percent| percent > 0) {
        parts.push(format!("sold {}.{:02} x", percent / 100, percent % 100));
    }
    parts.push(format!("{} connections", plainly(rates.connections)));
    parts.push(format!("cache {} (hits {hits})", bytes(rates.cache_bytes)));
    joined(parts, ", ", width)
}

/// Shows small numbers exactly.
fn plainly(count: u64) -> String {
    if count < 100_000 { count.to_string() } else { number(count) }
}

/// As many of `parts` as fit into `width`, each whole.
fn joined(parts: Vec<String>, between: &str, width: Option<usize>) -> String {
    let mut text = String::new();
    for part in parts {
        let longer = if text.is_empty() { part } else { format!("{text}{between}{part}") };
        if width.is_some_and(|width| longer.chars().count() > width) {
            break;
        }
        text = longer;
    }
    text
}

/// The keys, and how many columns are hidden.
fn keys(hidden: usize, width: usize) -> String {
    let mut parts = vec!["q quit".to_owned(), "s sort".to_owned()];
    match hidden {
        0 => {}
        1 => parts.push("h 1 column hidden".to_owned()),
        _ => parts.push(format!("h {hidden} columns hidden")),
    }
    parts.push("up/down scroll".to_owned());
    let legend =
        ["IN/OUT clients' bytes", "D.* device bytes by cause", "P50/P99 until the reply", "FOR what it waited most"];
    parts.extend(legend.map(str::to_owned));
    joined(parts, "   ", Some(width))
}

/// Says which columns there is no room for, and what to do about it.
fn hidden(heads: &[&str], width: usize) -> String {
    if heads.is_empty() {
        return format!("all columns fit into {width} characters");
    }
    format!(
        "{width} characters have no room for {}: make the terminal wider, or sort by one of them (s); h ends",
        heads.join(", ")
    )
}

/// `text` in lines of at most `width` characters, broken between words.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The table as lines of text, for a terminal of `width` characters; `None` = as wide as needed, for a file or a pipe.
pub fn plain(rates: &Rates, sort: Sort, width: Option<usize>) -> String {
    let total = rates.total();
    let rows = || rates.rows.iter().chain([&total]);
    let columns = Columns::fit(rows(), sort, width);
    let chosen = Chosen { sort, ..Chosen::default() };
    let mut lines = vec![summary(rates, &chosen, rates.rows.len(), width), columns.heads()];
    lines.extend(rows().map(|row| columns.row(row)));
    let missing = columns.hidden();
    if let Some(width) = width.filter(|_| !missing.is_empty()) {
        let text =
            format!("{width} characters have no room for {}: a pipe or a file gets all columns", missing.join(", "));
        lines.extend(wrapped(&text, width));
    }
    lines.iter().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// Tenants that a screen of `height` lines has room for, if the text at the bottom is one line.
pub fn page(height: u16) -> usize {
    usize::from(height).saturating_sub(4).max(1)
}

/// Draws everything; scrolls back if no row would be left to see.
pub fn draw(frame: &mut Frame<'_>, rates: &Rates, chosen: &mut Chosen) {
    let area = frame.area();
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let total = rates.total();
    // Fit the columns to all rows, seen or not: then columns do not come and go while the user scrolls.
    let columns = Columns::fit(rates.rows.iter().chain([&total]), chosen.sort, Some(width));
    let missing = columns.hidden();
    let foot = match (&chosen.trouble, chosen.names_hidden) {
        (Some(trouble), _) => wrapped(trouble, width),
        (None, true) => wrapped(&hidden(&missing, width), width),
        (None, false) => vec![keys(missing.len(), width)],
    };
    // Tenants come first: heads, the total and one tenant have room before the lines above and below the table.
    let foot_lines = foot.len().min(FOOT_MAX).min(height.saturating_sub(3));
    let head_lines = height.saturating_sub(3 + foot_lines).min(1);
    let [head_area, body_area, foot_area] = Layout::vertical([
        Constraint::Length(head_lines as u16),
        Constraint::Fill(1),
        Constraint::Length(foot_lines as u16),
    ])
    .areas(area);
    let room = usize::from(body_area.height).saturating_sub(2);
    chosen.scrolled = chosen.scrolled.min(rates.rows.len().saturating_sub(room.max(1)));
    frame.render_widget(Line::from(summary(rates, chosen, room, Some(width))), head_area);
    let heads = Line::styled(columns.heads(), Style::new().add_modifier(Modifier::REVERSED));
    let sum = Line::styled(columns.row(&total), Style::new().add_modifier(Modifier::BOLD));
    let rows = rates.rows.iter().skip(chosen.scrolled).map(|row| Line::from(columns.row(row)));
    for (line, at) in [heads, sum].into_iter().chain(rows).zip(body_area.rows()) {
        frame.render_widget(line, at);
    }
    for (line, at) in foot.into_iter().zip(foot_area.rows()) {
        frame.render_widget(Line::from(line), at);
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::rates::Row;
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

    /// Rows whose figures are as long as figures get, with names of these lengths.
    fn extreme(names: &[usize]) -> Rates {
        let row = |(index, &len): (usize, &usize)| {
            // 999_949 takes six characters, the most that a figure takes; the largest number takes fewer.
            let figure = [u64::MAX, 999_949_999, 0, 99_950, 1][index % 5];
            Row {
                name: "n".repeat(len),
                state: "suspended",
                reads: figure,
                writes: figure,
                read_bytes: figure,
                written_bytes: figure,
                device: [figure; 6],
                waited_ms: [figure; 5],
                p50_micros: Some(figure),
                p99_micros: Some(figure),
                processor_percent: figure,
                delayed: figure,
                refused: figure,
            }
        };
        Rates {
            connections: u64::MAX,
            cache_bytes: u64::MAX,
            cache_hit_percent: Some(100),
            sold_percent: Some(u64::MAX),
            tenants: usize::MAX,
            rows: names.iter().enumerate().map(row).collect(),
        }
    }

    fn drawn(rates: &Rates, chosen: &mut Chosen, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("memory");
        terminal.draw(|frame| draw(frame, rates, chosen)).expect("drawn");
        let buffer = terminal.backend().buffer();
        buffer
            .content()
            .chunks(usize::from(width).max(1))
            .map(|cells| cells.iter().map(ratatui::buffer::Cell::symbol).collect::<String>().trim_end().to_owned())
            .collect()
    }

    /// The words of a line as the whole table has them, of the columns that `heads` names.
    fn expected(whole_heads: &str, whole: &str, heads: &str) -> Vec<String> {
        let words = |line: &str| -> Vec<String> {
            line.replace("WAIT ms", "WAITms").split_whitespace().map(str::to_owned).collect()
        };
        let shown = words(heads);
        // The total has no state.
        let mut cells = words(whole);
        if cells.len() < words(whole_heads).len() {
            cells.insert(1, String::new());
        }
        let pairs = words(whole_heads).into_iter().zip(cells);
        pairs.filter(|(head, cell)| shown.contains(head) && !cell.is_empty()).map(|(_, cell)| cell).collect()
    }

    #[test]
    fn text_and_terminal_show_every_tenant() {
        let text = plain(&rates(), Sort::Ops, None);
        assert!(text.starts_with("2 tenants, per second, by ops, 7 connections"), "{text}");
        assert!(text.contains("first  active     12.3k"), "{text}");
        let sold = |sold_percent| plain(&Rates { sold_percent, ..rates() }, Sort::Ops, None);
        assert!(sold(Some(2605)).starts_with("2 tenants, per second, by ops, sold 26.05 x, 7 connections"));
        assert_eq!(sold(Some(0)), text, "who has sold nothing need not know");
        let mut chosen = Chosen { trouble: Some("the server is gone".to_owned()), ..Chosen::default() };
        let shown = drawn(&rates(), &mut chosen, 180, 8).join("\n");
        for word in ["TENANT", "first", "second", "all", "12.3k", "35%", "70%", "the server is gone"] {
            assert!(shown.contains(word), "{word} in\n{shown}");
        }
    }

    #[test]
    fn at_every_width_each_column_is_whole_or_not_there() {
        for names in [&[1_usize, 6, 3, 2, 4][..], &[63, 1, 40, 12, 9]] {
            let rates = extreme(names);
            let whole = plain(&rates, Sort::Ops, None);
            let whole: Vec<&str> = whole.lines().collect();
            for sort in [Sort::Name, Sort::Ops, Sort::Device, Sort::Waits, Sort::Processor, Sort::Throttles] {
                let mut before = 0;
                // Every width in the usual order of rows; in other orders every fifth width.
                for width in (40..=250).step_by(if sort == Sort::Ops { 1 } else { 5 }) {
                    let lines = drawn(&rates, &mut Chosen { sort, ..Chosen::default() }, width, 9);
                    let heads = &lines[1];
                    assert!(heads.starts_with("TENANT") && heads.chars().count() <= usize::from(width), "{heads}");
                    let columns = heads.replace("WAIT ms", "WAITms").split_whitespace().count();
                    assert!(columns >= before.max(3), "{width}: {columns} after {before}: {heads}");
                    before = columns;
                    // The total is drawn first, and printed last.
                    let printed = [&[whole[7]][..], &whole[2..7]].concat();
                    for (line, printed) in lines[2..8].iter().zip(printed) {
                        let mut cells: Vec<&str> = line.split_whitespace().collect();
                        let mut wanted = expected(whole[1], printed, heads);
                        // A name may be shortened to the room there is; everything else is whole.
                        let (name, wanted_name) = (cells.remove(0), wanted.remove(0));
                        let kept = name.trim_end_matches('…');
                        assert!(
                            wanted_name.starts_with(kept) && (name == wanted_name || kept.len() >= 11),
                            "{width}: {line}"
                        );
                        assert_eq!(cells, wanted, "{width}:\n{}", lines.join("\n"));
                    }
                }
                assert_eq!(before, 19, "a wide terminal has room for all");
            }
        }
    }

    #[test]
    fn names_are_whole_unless_what_is_essential_leaves_no_room() {
        let rates = extreme(&[20]);
        for width in 60..=250 {
            let shown = drawn(&rates, &mut Chosen::default(), width, 8).join("\n");
            assert!(shown.contains(&"n".repeat(20)), "{width}\n{shown}");
        }
        let shown = drawn(&extreme(&[63]), &mut Chosen::default(), 80, 8).join("\n");
        assert!(shown.contains("n…") && shown.contains("P99"), "{shown}");
    }

    #[test]
    fn what_is_hidden_is_counted_and_named() {
        let rates = extreme(&[8]);
        for width in 40..=250 {
            let lines = drawn(&rates, &mut Chosen::default(), width, 12);
            let shown = lines[1].replace("WAIT ms", "WAITms").split_whitespace().count();
            let mut chosen = Chosen { names_hidden: true, ..Chosen::default() };
            let named = drawn(&rates, &mut chosen, width, 12).join(" ");
            match 19 - shown {
                0 => assert!(!lines[11].contains("hidden") && named.contains("all columns fit"), "{named}"),
                1 => assert!(lines[11].contains("h 1 column hidden"), "{}", lines[11]),
                count => assert!(lines[11].contains(&format!("h {count} columns hidden")), "{}", lines[11]),
            }
            for head in ["STATE", "D.MAINT", "REFUSED", "CPU"] {
                assert!(named.contains(head), "{width}: {head} in {named}");
            }
        }
        let text = plain(&rates, Sort::Ops, Some(80));
        assert!(
            text.contains("a pipe or a file gets all columns") && text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
    }

    #[test]
    fn the_line_above_has_whole_words_only() {
        let rates = extreme(&[8]);
        let chosen = Chosen::default();
        let whole = summary(&rates, &chosen, 9, None);
        for width in 40..=250 {
            let line = summary(&rates, &chosen, 9, Some(width));
            assert!(line.chars().count() <= width && whole.starts_with(&line), "{line}");
            assert!(line == whole || whole[line.len()..].starts_with(", "), "{line}");
        }
    }

    #[test]
    fn a_tenant_is_seen_on_a_terminal_of_any_height_and_the_last_one_can_be_scrolled_to() {
        let mut rates = rates();
        let row = rates.rows[1].clone();
        rates.rows.extend((0..40).map(|number| Row { name: format!("t{number}"), ..row.clone() }));
        for height in 0..=60 {
            for trouble in [None, Some("a server that does not answer is a matter of many words ".repeat(9))] {
                let mut chosen = Chosen { scrolled: 1000, trouble, ..Chosen::default() };
                let shown = drawn(&rates, &mut chosen, 80, height).join("\n");
                assert!(height < 3 || shown.contains("t39"), "{height}\n{shown}");
                chosen.scrolled = 0;
                let shown = drawn(&rates, &mut chosen, 80, height).join("\n");
                assert!(height < 3 || shown.contains("first"), "{height}\n{shown}");
            }
        }
        for width in 0..40 {
            drawn(&extreme(&[63, 1]), &mut Chosen::default(), width, 5);
        }
    }
}
