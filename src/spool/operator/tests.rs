#![expect(
    clippy::disallowed_methods,
    reason = "tests lay out odd files and look at what became of them"
)]

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

#[test]
fn only_a_plain_file_is_read_and_nothing_blocks() {
    use crate::spool::testing::{Odd, Place};
    for odd in [Odd::Fifo, Odd::Directory, Odd::Socket, Odd::Device] {
        let place = Place::new();
        let path = place.at("config.json");
        if odd.make(&path, &place.beside("secret")) {
            let read = read_operator_file(&path, 10);
            assert!(
                matches!(&read, Err(SpoolError::NotAFile { .. })),
                "{odd:?}: {read:?}"
            );
        }
    }
    // A link is the operator's own business; what it leads to is judged.
    let place = Place::new();
    fs::write(place.at("real"), "{}").unwrap();
    fs::set_permissions(place.at("real"), fs::Permissions::from_mode(0o600)).unwrap();
    symlink(place.at("real"), place.at("link")).unwrap();
    assert_eq!(
        read_operator_file(&place.at("link"), 10).unwrap(),
        OperatorFile::Content(b"{}".to_vec())
    );
    fs::set_permissions(place.at("real"), fs::Permissions::from_mode(0o620)).unwrap();
    let error = read_operator_file(&place.at("link"), 10).unwrap_err();
    assert!(matches!(error, SpoolError::WritableByOthers { .. }));
    symlink(place.at("nothing"), place.at("dangling")).unwrap();
    assert_eq!(
        read_operator_file(&place.at("dangling"), 10).unwrap(),
        OperatorFile::Missing
    );
    assert!(Odd::LinkLoop.make(&place.at("loop"), &place.beside("secret")));
    assert!(read_operator_file(&place.at("loop"), 10).is_err());
    if Odd::Strangers.make(&place.at("strangers"), &place.beside("secret")) {
        let error = read_operator_file(&place.at("strangers"), 10).unwrap_err();
        assert!(matches!(error, SpoolError::ForeignOwner { .. }));
    }
}

#[test]
fn a_file_beyond_the_limit_shows_that_it_is() {
    let place = crate::spool::testing::Place::new();
    let path = place.at("config.json");
    fs::write(&path, [b' '; 50]).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let OperatorFile::Content(bytes) = read_operator_file(&path, 10).unwrap() else {
        panic!("it is there");
    };
    assert_eq!(bytes.len(), 11);
}

#[test]
fn agents_are_listed_by_name_and_none_where_there_is_no_directory() {
    let place = crate::spool::testing::Place::new();
    assert_eq!(
        list_operator_files(&place.at("agents"), ".md").unwrap(),
        Vec::<PathBuf>::new()
    );
    for name in ["b.md", "a.md", "c.txt", "d.MD"] {
        place.write(&format!("agents/{name}"), "");
    }
    let found = list_operator_files(&place.at("agents"), ".md").unwrap();
    assert_eq!(found, [place.at("agents/a.md"), place.at("agents/b.md")]);
    assert!(list_operator_files(&place.at("agents/a.md"), ".md").is_err());
}
