//! A second reader of the review log's chain, so that the writer is not held to its own word.
#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the files of a log themselves"
)]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The files of a log, oldest first.
pub(crate) fn files(path: &Path) -> Vec<PathBuf> {
    let stem = path.file_stem().unwrap().to_str().unwrap();
    let extension = path.extension().unwrap().to_str().unwrap();
    let mut numbered: Vec<(u64, PathBuf)> = fs::read_dir(path.parent().unwrap())
        .unwrap()
        .filter_map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name()?.to_str()?;
            let number = name
                .strip_prefix(&format!("{stem}."))?
                .strip_suffix(&format!(".{extension}"))?;
            Some((number.parse().ok()?, path))
        })
        .collect();
    numbered.sort();
    let mut files: Vec<PathBuf> = numbered.into_iter().map(|(_, path)| path).collect();
    files.extend(path.exists().then(|| path.to_owned()));
    files
}

/// The records of a log, with those of the files that were rotated away. Fails unless every line is chained to the one before it; a
/// piece that a crash left counts as a line, if what follows tells of it.
#[track_caller]
pub(crate) fn records(path: &Path) -> Vec<Value> {
    let mut before: [Option<String>; 2] = [None, None];
    let mut torn: Option<usize> = None;
    let mut records = Vec::new();
    for file in files(path) {
        let bytes = fs::read(&file).unwrap();
        let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        assert_eq!(
            lines.pop(),
            Some(&b""[..]),
            "{} ends within a line",
            file.display()
        );
        for line in lines {
            let record: Option<Value> = serde_json::from_slice(line).ok();
            if let Some(record) = record {
                let chain = record.get("chain").expect("a chain").as_str();
                assert_eq!(chain, before[0].as_deref(), "{record}");
                if let Some(bytes) = torn.take() {
                    assert_eq!(record["event"], "review_log.torn_tail");
                    assert_eq!(record["bytes"], bytes);
                    assert_eq!(record["after"].as_str(), before[1].as_deref());
                }
                records.push(record);
            } else {
                assert_eq!(torn.replace(line.len()), None, "two pieces in a row");
            }
            before = [
                Some(blake3::hash(line).to_hex().to_string()),
                before[0].take(),
            ];
        }
    }
    assert_eq!(torn, None);
    records
}

/// The records of one event.
pub(crate) fn of_event(records: &[Value], event: &str) -> Vec<Value> {
    let named = records.iter().filter(|record| record["event"] == event);
    named.cloned().collect()
}
