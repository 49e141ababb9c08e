//! Which percentiles of the times of calls `INFO latencystats` shows to one tenant: `latency-tracking`, and
//! `latency-tracking-info-percentiles`.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;

/// How many percentiles there may be. Each adds a part to the line of every command.
const COUNT_MAX: usize = 32;

/// The percentiles that one tenant has chosen.
pub(crate) struct Percentiles {
    are_told: AtomicBool,
    /// In percent.
    percents: ArcSwap<Vec<f64>>,
}

impl Default for Percentiles {
    fn default() -> Self {
        Self { are_told: AtomicBool::new(true), percents: ArcSwap::from_pointee(vec![50.0, 99.0, 99.9]) }
    }
}

impl Percentiles {
    pub(super) fn are_told(&self) -> bool {
        self.are_told.load(Ordering::Relaxed)
    }

    pub(super) fn tell(&self, are_told: bool) {
        self.are_told.store(are_told, Ordering::Relaxed);
    }

    pub(super) fn all(&self) -> Arc<Vec<f64>> {
        self.percents.load_full()
    }

    pub(super) fn set(&self, percents: Vec<f64>) {
        self.percents.store(Arc::new(percents));
    }

    /// The text that `CONFIG GET` shows.
    pub(super) fn text(&self) -> String {
        self.all().iter().enumerate().fold(String::new(), |mut text, (index, percent)| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{}{percent}", if index > 0 { " " } else { "" });
            text
        })
    }
}

/// Reads the percentiles in the words of `text`.
///
/// # Errors
/// The text of Redis for what is wrong.
pub(super) fn parse(text: &[u8]) -> Result<Vec<f64>, String> {
    let text = std::str::from_utf8(text).unwrap_or("?");
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let mut percents = Vec::new();
    for word in text.split(' ') {
        let percent = word.parse::<f64>().map_err(|_| "Invalid latency-tracking-info-percentiles".to_owned())?;
        if !(0.0..=100.0).contains(&percent) {
            return Err("latency-tracking-info-percentiles should be between 0.0 and 100.0".to_owned());
        }
        if percents.len() == COUNT_MAX {
            return Err(format!("latency-tracking-info-percentiles has at most {COUNT_MAX} of them"));
        }
        percents.push(percent);
    }
    Ok(percents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_numbers_up_to_a_hundred() {
        let percentiles = Percentiles::default();
        assert_eq!(percentiles.text(), "50 99 99.9");
        percentiles.set(parse(b"0.0 50.0 100.0").expect("percentiles"));
        assert_eq!(percentiles.text(), "0 50 100");
        percentiles.set(parse(b"").expect("none"));
        assert_eq!(percentiles.text(), "");
        for wrong in ["a", "50  99", "101", "-1", "nan", " 1", &"1 ".repeat(COUNT_MAX)] {
            parse(wrong.as_bytes()).expect_err(wrong);
        }
    }
}
