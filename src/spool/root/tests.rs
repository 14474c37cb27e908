#![expect(
    clippy::disallowed_methods,
    reason = "tests lay out odd directories and look at what became of them"
)]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};

use super::*;
use crate::spool::testing::{STRANGER, is_root, mode, names};

/// A directory of this test, by its true name.
fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap();
    (dir, path)
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[track_caller]
fn refused(path: &Path) -> SpoolError {
    match open(path, Missing::Create) {
        Ok(dir) => panic!("{path:?} was opened as {dir:?}"),
        Err(error) => {
            assert!(!error.hint().is_empty());
            error
        }
    }
}

#[test]
fn a_path_that_starts_nowhere_or_climbs_is_refused_before_anything_is_made() {
    let (_dir, place) = place();
    for path in [
        PathBuf::new(),
        PathBuf::from("spool"),
        PathBuf::from("./spool"),
        place.join("a/../spool"),
        place.join(".."),
    ] {
        assert!(
            matches!(refused(&path), SpoolError::NotAbsolute { .. }),
            "{path:?}"
        );
    }
    assert_eq!(names(&place), [""; 0]);
}

#[test]
fn what_is_missing_is_made_for_the_owner_alone_or_named() {
    let (_dir, place) = place();
    let path = place.join("a/b/spool");
    let error = open(&path, Missing::Fail).unwrap_err();
    assert!(matches!(error, SpoolError::NoSpool { path: named } if named == path));
    assert_eq!(names(&place), [""; 0]);
    assert_eq!(open(&path, Missing::Create).unwrap().path(), path);
    for below in ["a", "a/b", "a/b/spool"] {
        assert_eq!(mode(&place.join(below)), 0o700, "{below}");
    }
    assert_eq!(open(&path, Missing::Fail).unwrap().path(), path);
    // A dot and a slash too many change nothing.
    let spelled = place.join("a/./b//spool/");
    assert_eq!(open(&spelled, Missing::Fail).unwrap().path(), spelled);
}

#[test]
fn a_file_is_no_directory_on_the_way_nor_at_the_end() {
    let (_dir, place) = place();
    fs::write(place.join("file"), "").unwrap();
    for path in [place.join("file"), place.join("file/spool")] {
        let error = refused(&path);
        assert!(
            matches!(&error, SpoolError::NotADirectory { path } if *path == place.join("file")),
            "{error}"
        );
    }
}

#[test]
fn fsobj_3_a_spool_that_others_may_write_to_is_refused_with_what_mends_it() {
    let (_dir, place) = place();
    let spool = place.join("spool");
    fs::create_dir(&spool).unwrap();
    for open_mode in [0o777, 0o775, 0o757, 0o702, 0o720, 0o1777] {
        set_mode(&spool, open_mode);
        let error = refused(&spool);
        assert!(
            matches!(&error, SpoolError::WritableByOthers { path, mode } if *path == spool && *mode == open_mode),
            "{open_mode:o}: {error}"
        );
        assert!(error.hint().contains("chmod go-w"), "{}", error.hint());
    }
    for closed in [0o700, 0o750, 0o755] {
        set_mode(&spool, closed);
        open(&spool, Missing::Fail).unwrap();
    }
}

#[test]
fn a_directory_on_the_way_that_everybody_may_write_to_must_be_sticky() {
    let (_dir, place) = place();
    let way = place.join("way");
    fs::create_dir_all(way.join("spool")).unwrap();
    set_mode(&way.join("spool"), 0o700);
    set_mode(&way, 0o777);
    let error = refused(&way.join("spool"));
    assert!(
        matches!(&error, SpoolError::WritableByOthers { path, mode: 0o777 } if *path == way),
        "{error}"
    );
    assert!(matches!(
        refused(&way.join("new")),
        SpoolError::WritableByOthers { .. }
    ));
    assert_eq!(names(&way), ["spool"], "nothing is made beyond it");
    for fine in [0o1777, 0o755, 0o775] {
        set_mode(&way, fine);
        open(&way.join("spool"), Missing::Fail).unwrap();
    }
}

#[test]
fn fsobj_3_a_spool_of_another_user_is_refused() {
    let (_dir, place) = place();
    let spool = place.join("spool");
    fs::create_dir(&spool).unwrap();
    if !is_root() {
        return;
    }
    lchown(&spool, Some(STRANGER), Some(STRANGER)).unwrap();
    let error = refused(&spool);
    assert!(
        matches!(&error, SpoolError::ForeignOwner { path, owner: STRANGER } if *path == spool),
        "{error}"
    );
}

#[test]
fn fsobj_3_only_a_link_that_nobody_but_root_can_have_made_is_followed() {
    let (_dir, place) = place();
    let spool = place.join("real/spool");
    fs::create_dir_all(&spool).unwrap();
    set_mode(&spool, 0o700);
    symlink(place.join("real"), place.join("link")).unwrap();
    let through = place.join("link/spool");
    let is_refused = || {
        let error = refused(&through);
        assert!(
            matches!(&error, SpoolError::Symlink { path, .. } if *path == place.join("link")),
            "{error}"
        );
    };
    if is_root() {
        // What root links to is as true as any directory of root's.
        assert_eq!(open(&through, Missing::Fail).unwrap().path(), spool);
        // In a directory where others may rename, it need not be root's idea that it lies there.
        set_mode(&place, 0o1777);
        is_refused();
        set_mode(&place, 0o770);
        is_refused();
        set_mode(&place, 0o700);
        lchown(place.join("link"), Some(STRANGER), None).unwrap();
    }
    is_refused();
    // The spool itself may be no link either, whatever it leads to.
    fs::remove_file(place.join("link")).unwrap();
    symlink(place.join("nothing"), place.join("link")).unwrap();
    if is_root() {
        lchown(place.join("link"), Some(STRANGER), None).unwrap();
    }
    assert!(matches!(
        refused(&place.join("link")),
        SpoolError::Symlink { .. }
    ));
    assert!(!place.join("nothing").exists());
}

#[test]
fn a_link_that_leads_to_itself_is_an_error_and_no_loop() {
    let (_dir, place) = place();
    symlink(place.join("b"), place.join("a")).unwrap();
    symlink(place.join("a"), place.join("b")).unwrap();
    let error = refused(&place.join("a/spool"));
    assert!(
        matches!(error, SpoolError::Io { .. } | SpoolError::Symlink { .. }),
        "{error}"
    );
}

#[test]
fn every_refusal_says_where_and_what_to_do() {
    let path = PathBuf::from("/spool/place");
    let io = |kind: io::ErrorKind| SpoolError::Io {
        doing: "open",
        path: path.clone(),
        source: kind.into(),
    };
    let errors = [
        SpoolError::NotAbsolute { path: path.clone() },
        SpoolError::NoSpool { path: path.clone() },
        SpoolError::NotADirectory { path: path.clone() },
        SpoolError::NotAFile { path: path.clone() },
        SpoolError::Symlink {
            path: path.clone(),
            root: path.clone(),
        },
        SpoolError::ForeignOwner {
            path: path.clone(),
            owner: 1,
        },
        SpoolError::WritableByOthers {
            path: path.clone(),
            mode: 0o777,
        },
        io(io::ErrorKind::PermissionDenied),
        io(io::ErrorKind::StorageFull),
        io(io::ErrorKind::NotFound),
    ];
    for error in &errors {
        assert!(error.to_string().contains("/spool/place"), "{error}");
        assert!(!error.hint().is_empty(), "{error}");
    }
    assert!(io(io::ErrorKind::StorageFull).hint().contains("room"));
}

#[test]
fn write_7_only_what_another_process_may_be_in_the_way_of_is_worth_another_try() {
    let error = |errno: Errno| SpoolError::Io {
        doing: "write",
        path: PathBuf::new(),
        source: errno.into(),
    };
    for passing in [Errno::PERM, Errno::BUSY, Errno::ACCESS] {
        assert!(error(passing).is_passing(), "{passing:?}");
    }
    for lasting in [
        Errno::NOTDIR,
        Errno::LOOP,
        Errno::NOSPC,
        Errno::ROFS,
        Errno::NOENT,
        Errno::IO,
        Errno::NAMETOOLONG,
    ] {
        assert!(!error(lasting).is_passing(), "{lasting:?}");
    }
    assert!(
        !SpoolError::NoSpool {
            path: PathBuf::new()
        }
        .is_passing()
    );
}
