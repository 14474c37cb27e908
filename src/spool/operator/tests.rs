use super::*;
use std::os::unix::fs::{PermissionsExt as _, symlink};

#[test]
fn a_path_has_its_spellings_through_links_and_where_nothing_is_yet() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    fs::create_dir(root.join("real")).unwrap();
    symlink(root.join("real"), root.join("link")).unwrap();
    let (spellings, canonical) = path_spellings("./link/../link/new.txt", &root);
    let at = |name: &str| root.join(name).to_string_lossy().into_owned();
    assert_eq!(
        spellings,
        [
            at("link/new.txt"),
            "link/new.txt".to_owned(),
            at("real/new.txt")
        ]
    );
    assert_eq!(canonical, at("real/new.txt"));
    let (spellings, _) = path_spellings("/etc/hostname", &root);
    assert_eq!(spellings.first().map(String::as_str), Some("/etc/hostname"));
}

#[test]
fn a_file_that_others_may_write_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.json");
    assert_eq!(
        read_operator_file(&path, 10).unwrap(),
        OperatorFile::Missing
    );
    fs::write(&path, "{}").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(
        read_operator_file(&path, 10).unwrap(),
        OperatorFile::Content(b"{}".to_vec())
    );
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    assert!(matches!(
        read_operator_file(&path, 10),
        Err(SpoolError::WritableByOthers { .. })
    ));
    assert!(matches!(
        read_operator_file(dir.path(), 10),
        Err(SpoolError::NotAFile { .. })
    ));
}
