//! What RocksDB writes into its own log about flushes and compactions: only there does it say which level a byte was
//! for.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use serde_json::Value;

use crate::Result;

/// Device bytes of jobs that have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct JobBytes {
    /// Written by flushes.
    pub flush: u64,
    /// Read by compactions into level 0 or 1.
    pub l0_read: u64,
    /// Written by compactions into level 0 or 1.
    pub l0_written: u64,
    /// Read by all other compactions.
    pub deep_read: u64,
    /// Written by all other compactions.
    pub deep_written: u64,
}

/// Follows one database's log.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    read_to: u64,
    /// The start of a line whose end is not there yet.
    rest: String,
    /// What running compactions read, by job.
    running: BTreeMap<u64, u64>,
    /// Bytes of the jobs that have ended so far.
    pub bytes: JobBytes,
}

impl Journal {
    /// Follows the log in `dir` from its beginning.
    pub fn new(dir: &std::path::Path) -> Self {
        let path = dir.join("LOG");
        Self { path, read_to: 0, rest: String::new(), running: BTreeMap::new(), bytes: JobBytes::default() }
    }

    /// Reads what was written since the last call.
    pub fn follow(&mut self) -> Result<()> {
        let mut file = File::open(&self.path).map_err(|error| format!("{}: {error}", self.path.display()))?;
        file.seek(SeekFrom::Start(self.read_to))?;
        let mut new = Vec::new();
        self.read_to += file.read_to_end(&mut new)? as u64;
        self.rest.push_str(&String::from_utf8_lossy(&new));
        let text = std::mem::take(&mut self.rest);
        let end = text.rfind('\n').map_or(0, |end| end + 1);
        text[..end].lines().for_each(|line| self.line(line));
        text[end..].clone_into(&mut self.rest);
        Ok(())
    }

    fn line(&mut self, line: &str) {
        let Some((_, json)) = line.split_once("EVENT_LOG_v1 ") else { return };
        let Ok(event) = serde_json::from_str::<Value>(json) else { return };
        let number = |name: &str| event.get(name).and_then(Value::as_u64);
        let Some(job) = number("job") else { return };
        match event.get("event").and_then(Value::as_str) {
            Some("compaction_started") => {
                self.running.insert(job, number("input_data_size").unwrap_or(0));
            }
            Some("compaction_finished") => {
                let read = self.running.remove(&job).unwrap_or(0);
                let written = number("total_output_size").unwrap_or(0);
                let into_upper = number("output_level").is_some_and(|level| level <= 1);
                let (reads, writes) = match into_upper {
                    true => (&mut self.bytes.l0_read, &mut self.bytes.l0_written),
                    false => (&mut self.bytes.deep_read, &mut self.bytes.deep_written),
                };
                *reads += read;
                *writes += written;
            }
            // Tables of compactions are counted when they end.
            Some("table_file_creation") if !self.running.contains_key(&job) => {
                self.bytes.flush += number("file_size").unwrap_or(0);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_told_apart_by_job_and_level() {
        let mut journal = Journal::new(std::path::Path::new("nowhere"));
        for line in [
            r#"2026/11/21-07:00:00.1 7f EVENT_LOG_v1 {"time_micros": 1, "job": 3, "event": "table_file_creation", "file_size": 500}"#,
            r#"x EVENT_LOG_v1 {"job": 4, "event": "compaction_started", "files_L0": [1], "files_L1": [2], "input_data_size": 3000}"#,
            r#"x EVENT_LOG_v1 {"job": 4, "event": "table_file_creation", "file_size": 2900}"#,
            r#"x EVENT_LOG_v1 {"job": 4, "event": "compaction_finished", "output_level": 1, "total_output_size": 2900}"#,
            r#"x EVENT_LOG_v1 {"job": 5, "event": "compaction_started", "input_data_size": 100}"#,
            r#"x EVENT_LOG_v1 {"job": 5, "event": "compaction_finished", "output_level": 3, "total_output_size": 90}"#,
            r#"x EVENT_LOG_v1 {"job": 6, "event": "compaction_started", "input_data_size": 77}"#,
            "DB pointer 0x7f",
            "EVENT_LOG_v1 {broken",
        ] {
            journal.line(line);
        }
        let expected = JobBytes { flush: 500, l0_read: 3000, l0_written: 2900, deep_read: 100, deep_written: 90 };
        assert_eq!(journal.bytes, expected);
    }

    #[test]
    fn a_line_that_is_not_whole_yet_waits_for_its_end() {
        let dir = std::env::temp_dir().join(format!("weir-journal-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let mut journal = Journal::new(&dir);
        let line = "x EVENT_LOG_v1 {\"job\": 3, \"event\": \"table_file_creation\", \"file_size\": 500}\n";
        std::fs::write(dir.join("LOG"), &line[..30]).expect("written");
        journal.follow().expect("read");
        assert_eq!(journal.bytes.flush, 0);
        std::fs::write(dir.join("LOG"), line).expect("written");
        journal.follow().expect("read");
        assert_eq!(journal.bytes.flush, 500);
        std::fs::remove_dir_all(dir).expect("removed");
    }
}
