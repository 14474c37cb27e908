//! Access to files of the source tree.
#![expect(
    clippy::disallowed_methods,
    reason = "tests look at files of the source tree, not at a spool"
)]

use std::path::{Path, PathBuf};

/// `relative` within the source tree.
pub(crate) fn source(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(relative)
}

/// Every file below `relative`, sorted, as paths relative to the source tree.
pub(crate) fn files_below(relative: &str) -> Vec<String> {
    let mut files = Vec::new();
    let mut directories = vec![relative.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(source(&directory)).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{directory}/{}", entry.file_name().to_str().unwrap());
            if entry.file_type().unwrap().is_dir() {
                directories.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// Whether the source tree has this file.
pub(crate) fn is_there(relative: &str) -> bool {
    source(relative).is_file()
}

/// Bytes of one file of the source tree.
pub(crate) fn bytes(relative: &str) -> Vec<u8> {
    std::fs::read(source(relative)).unwrap_or_else(|error| panic!("{relative}: {error}"))
}

/// Text of one file of the source tree.
pub(crate) fn text(relative: &str) -> String {
    String::from_utf8(bytes(relative)).unwrap_or_else(|error| panic!("{relative}: {error}"))
}
