//! `weir top`: what the tenants of a running server do right now.

mod columns;
mod rates;
mod screen;

use std::io::{IsTerminal, stdout};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal;
use weir_gateway::admin::wire::Top as Counts;
use weir_io::real::{RealClock, block_on};
use weir_io::{Clock, sleep_until};

use self::rates::{Rates, Sort};
use self::screen::Chosen;
use crate::operate::Outcome;
use crate::operate::client::{Client, Server};

/// Shows what each tenant does: operations, clients' bytes, device bytes by cause, stalls, throttles; once a second.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Top {
    #[command(flatten)]
    server: Server,
    /// Print one table of what happens within the interval, and end; also without a terminal
    #[arg(long)]
    once: bool,
    /// What rows are sorted by, the largest first
    #[arg(long, value_enum, default_value_t)]
    sort: Sort,
    /// Seconds between two looks
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=60))]
    interval: u64,
}

const EXAMPLES: &str = "\
Examples:
  weir top                          q ends, s sorts by the next column, up and down scroll, h names hidden columns
  weir top --sort device            who moves the disk
  weir top --once --interval 10     ten seconds as plain text, for a log or a ticket

IN and OUT are what clients wrote and read; D.READ to D.MAINT is what the device moved for it, by cause: reads, log,
flushes, compactions of level 0, deeper compactions, maintenance. WAIT is how long requests waited, over all of them, FOR what
they waited most: their tenant's own units, the node's queue, a stall (flush or compaction), its share of the disk, or the disk,
which all tenants share. CPU is what the threads that serve clients work for it, in hundredths of a processor; a tenant that is
noisy keeps them busy while others want to be served, and goes behind them. DELAYED and REFUSED are the tenant's own limits.

A narrow terminal shows fewer columns, each of them whole; those by which it sorts are always among them. A pipe or a file gets all.";

impl Top {
    /// Shows the table until the user quits.
    pub fn run(self) -> Outcome {
        let client = self.server.client()?;
        if self.once || !stdout().is_terminal() {
            return self.print(&client);
        }
        let first = counts(&client)?;
        let mut terminal = ratatui::try_init()?;
        let shown = self.show(&client, &mut terminal, first);
        ratatui::try_restore()?;
        shown
    }

    fn print(&self, client: &Client) -> Outcome {
        let before = counts(client)?;
        let clock: Arc<dyn Clock> = RealClock::new();
        block_on(sleep_until(&clock, clock.now() + self.interval * 1_000_000_000));
        let rates = Rates::between(&before, &counts(client)?, self.sort);
        // A terminal breaks lines that are too long for it; a pipe or a file takes lines of any length.
        let size = if stdout().is_terminal() { terminal::size().ok() } else { None };
        let width = size.map(|(columns, _)| usize::from(columns)).filter(|&width| width > 0);
        print!("{}", screen::plain(&rates, self.sort, width));
        Ok(())
    }

    fn show(&self, client: &Client, terminal: &mut ratatui::DefaultTerminal, first: Counts) -> Outcome {
        let clock = RealClock::new();
        let interval = self.interval * 1_000_000_000;
        let (mut before, mut now) = (first.clone(), first);
        let mut chosen = Chosen { sort: self.sort, ..Chosen::default() };
        let mut next = clock.now() + interval;
        loop {
            let rates = Rates::between(&before, &now, chosen.sort);
            // Draws again after a change of the terminal's size, too, which comes as an event.
            let page = screen::page(terminal.draw(|frame| screen::draw(frame, &rates, &mut chosen))?.area.height);
            let left = Duration::from_nanos(next.saturating_sub(clock.now()));
            if event::poll(left)? {
                let Event::Key(key) = event::read()? else { continue };
                if key.kind == KeyEventKind::Release {
                    continue;
                }
                match key.code {
                    KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                    KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Ok(()),
                    KeyCode::Char('s') => chosen.sort = chosen.sort.next(),
                    KeyCode::Char('h') => chosen.names_hidden = !chosen.names_hidden,
                    KeyCode::Down => chosen.scrolled += 1,
                    KeyCode::Up => chosen.scrolled = chosen.scrolled.saturating_sub(1),
                    KeyCode::PageDown => chosen.scrolled += page,
                    KeyCode::PageUp => chosen.scrolled = chosen.scrolled.saturating_sub(page),
                    KeyCode::Home => chosen.scrolled = 0,
                    KeyCode::End => chosen.scrolled = rates.rows.len(),
                    _ => {}
                }
                continue;
            }
            next = clock.now() + interval;
            match counts(client) {
                Ok(counts) => {
                    before = std::mem::replace(&mut now, counts);
                    chosen.trouble = None;
                }
                // The server may be starting again: the last figures stay on the screen.
                Err(error) => chosen.trouble = Some(error.to_string()),
            }
        }
    }
}

fn counts(client: &Client) -> Outcome<Counts> {
    client.get("/v1/top")
}
