//! What a program of the same user can put into an inbox, and that it costs nobody else an answer.
#![expect(
    clippy::disallowed_methods,
    reason = "tests lay out odd files and look at what became of them"
)]

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use crate::support::hostile::{Field, Odd, names, request, skipped};
use crate::support::spool::{pass, until};

/// Documents that are no request, each under a name that is a safe id.
fn poison() -> Vec<(&'static str, Vec<u8>)> {
    let good = |id: &str| request(id, "ls x").to_string();
    let with = |id: &str, key: &str, value: serde_json::Value| {
        let mut request = request(id, "ls x");
        request[key] = value;
        request.to_string().into_bytes()
    };
    let twice = good("key-twice").replacen('{', r#"{"targetSessionId":"main","#, 1);
    let deep = format!(
        r#"{{"id":"deep-closed","payload":{}{}}}"#,
        "[".repeat(5_000),
        "]".repeat(5_000)
    );
    let mut huge = vec![b' '; 9 << 20];
    huge.extend(good("huge").into_bytes());
    vec![
        ("empty", Vec::new()),
        ("null", b"null".to_vec()),
        ("array", b"[]".to_vec()),
        ("text", b"\"x\"".to_vec()),
        ("object", b"{}".to_vec()),
        ("torn", b"{\"id\":".to_vec()),
        ("raw-newline", b"{\"id\":\"raw\n\"}".to_vec()),
        ("bom", format!("\u{feff}{}", good("bom")).into_bytes()),
        ("deep-open", "[".repeat(200_000).into_bytes()),
        ("deep-closed", deep.into_bytes()),
        ("key-twice", twice.into_bytes()),
        (
            "tail",
            format!("{}{{\"approved\":true}}", good("tail")).into_bytes(),
        ),
        (
            "two-lines",
            format!("{0}\n{0}", good("two-lines")).into_bytes(),
        ),
        ("garbage", format!("{} x", good("garbage")).into_bytes()),
        ("huge", huge),
        ("binary", (0..=255).collect()),
        ("other-id", good("quite-another").into_bytes()),
        ("climbing", with("climbing", "id", "../../climbing".into())),
        ("absolute", with("absolute", "id", "/etc/absolute".into())),
        (
            "elsewhere",
            with("elsewhere", "targetSessionId", "other".into()),
        ),
        (
            "itself",
            with("itself", "requesterSessionId", "main".into()),
        ),
    ]
}

#[test]
fn one_bad_file_never_stops_the_drain() {
    let field = Field::new();
    let secret = field.at("secret");
    fs::write(&secret, "a secret").unwrap();
    let server = field.serve("headless");
    let mut with_id = Vec::new();
    for odd in Odd::ALL {
        let id = format!("{odd:?}");
        if odd.make(&field.requests().join(format!("{id}.json")), &secret) {
            with_id.push(id);
            field.a_good_ask_is_answered();
        }
    }
    for (id, bytes) in poison() {
        field.put_request(&format!("{id}.json"), bytes);
        with_id.push(id.to_owned());
        field.a_good_ask_is_answered();
    }
    let nameless: [&[u8]; 6] = [
        b"\x1b[2J\x07.json",
        b"a\nb.json",
        b"\xff\xfe.json",
        b"%2e%2e.json",
        b"..json",
        b" .json",
    ];
    for name in nameless {
        fs::write(
            field.requests().join(OsStr::from_bytes(name)),
            request("x", "ls").to_string(),
        )
        .unwrap();
        field.a_good_ask_is_answered();
    }
    // A leading dash is no harm: it is a safe id like any other.
    field.put_request("-rf.json", request("-rf", "ls x").to_string());

    for id in &with_id {
        let response = field.await_response(id);
        assert_eq!(response["approved"], false, "{id}");
        assert!(
            response["state"].as_str().unwrap().starts_with("denied"),
            "{id}"
        );
        assert_eq!(
            response["decidedBy"]["kind"], "gate_error",
            "{id}: {response}"
        );
        let reason = response["denialReason"].as_str().unwrap();
        assert!(reason.contains("cannot be used"), "{id}: {reason}");
    }
    assert_eq!(field.await_response("-rf")["approved"], true);
    until("an empty inbox", || {
        names(&field.requests())
            .iter()
            .all(|name| !name.ends_with(".json"))
    });

    // Each is aside once, with its reason; each was logged once.
    until("a reason beside each", || {
        field.aside().iter().all(|(_, note)| note.is_object())
    });
    let aside = field.aside();
    assert_eq!(aside.len(), with_id.len() + nameless.len(), "{aside:#?}");
    for (name, note) in &aside {
        assert_eq!(note["file"], name.as_str());
        assert!(!note["reason"].as_str().unwrap().is_empty(), "{name}");
        assert!(
            note["from"].as_str().unwrap().contains("/requests/"),
            "{name}"
        );
        assert!(note["movedAt"].is_u64(), "{name}");
    }
    let mut warnings = field.logged("permission_forwarding.warning");
    warnings.retain(|entry| entry["message"] == "a request cannot be used");
    assert_eq!(warnings.len(), aside.len(), "{warnings:#?}");
    for id in &with_id {
        let of_it = warnings
            .iter()
            .filter(|entry| entry["requestId"] == id.as_str());
        assert_eq!(of_it.count(), 1, "{id}");
        assert_eq!(
            field.logged_of("forwarded_permission.approved", id),
            0,
            "{id}"
        );
    }
    let raw = fs::read(field.at("review.jsonl")).unwrap();
    assert!(!raw.contains(&0x1b), "a name reached the log unescaped");

    // Nothing was written anywhere else.
    assert_eq!(fs::read(&secret).unwrap(), b"a secret");
    assert_eq!(names(&field.spool()), ["quarantine", "serving", "sessions"]);
    assert_eq!(names(&field.at("spool/sessions")), ["main"]);
    assert_eq!(
        names(&field.at("spool/serving")),
        ["main.json", "main.lock"]
    );
    assert_eq!(names(&field.at("work")), [""; 0]);
    server.stop();
    // Only the answers that nobody came for stay.
    assert_eq!(names(&field.at("spool/sessions/main")), ["responses"]);
}

#[test]
fn looking_never_fails_and_changes_nothing() {
    let field = Field::new();
    let secret = field.at("secret");
    fs::write(&secret, "a secret").unwrap();
    field.make_dirs();
    fs::create_dir(field.at("spool/serving")).unwrap();
    fs::create_dir(field.at("spool/quarantine")).unwrap();
    let mut bad = Vec::new();
    for odd in Odd::ALL {
        if odd.make(&field.requests().join(format!("{odd:?}.json")), &secret) {
            bad.push(format!("{odd:?}"));
        }
        for at in [
            "sessions",
            "serving",
            "quarantine",
            "sessions/main/responses",
        ] {
            let _made = odd.make(
                &field.spool().join(at).join(format!("{odd:?}.json")),
                &secret,
            );
        }
        let _made = odd.make(&field.at(&format!("spool/serving/{odd:?}.lock")), &secret);
    }
    for (id, bytes) in poison() {
        field.put_request(&format!("{id}.json"), bytes);
        if !matches!(id, "elsewhere" | "itself") {
            bad.push(id.to_owned());
        }
    }
    let escape = OsStr::from_bytes(b"\x1b[2J\nx.json");
    fs::write(field.requests().join(escape), "{}").unwrap();
    fs::write(field.requests().join(OsStr::from_bytes(b"\xff.json")), "{}").unwrap();
    fs::write(field.at("spool/serving/main.json"), "").unwrap();
    field.put_request("good.json", request("good", "make all").to_string());

    let before = field.picture("spool");
    let run = |args: &[&str]| {
        let output = field.relay().args(args).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {said}");
        assert!(!text.contains('\u{1b}'), "{args:?}");
        text
    };
    let lines = run(&["ls"]);
    for id in &bad {
        let line = lines
            .lines()
            .find(|line| line.split_whitespace().next() == Some(id));
        assert!(
            line.is_some_and(|line| line.contains("bad: ")),
            "{id}: {lines}"
        );
    }
    assert!(lines.lines().any(|line| line.contains("make all")));
    let mut listed = 0;
    for line in run(&["ls", "--json"]).lines() {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap();
        let is_bad = entry["requestId"]
            .as_str()
            .is_none_or(|id| bad.iter().any(|bad| bad == id));
        if is_bad {
            assert_eq!(entry["usable"], false, "{line}");
            assert!(!entry["reason"].as_str().unwrap().is_empty(), "{line}");
            listed += 1;
        }
    }
    assert!(listed >= bad.len() + 2, "{listed} of {}", bad.len());
    for id in &bad {
        assert!(
            run(&["show", id, "--session", "main"]).contains("unusable"),
            "{id}"
        );
        let shown = run(&["show", id, "--session", "main", "--json"]);
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(shown["usable"], false, "{id}");
    }
    assert!(run(&["status"]).contains("aside"));
    for line in run(&["status", "--json"]).lines() {
        let _entry: serde_json::Value = serde_json::from_str(line).unwrap();
    }
    assert_eq!(
        field.picture("spool"),
        before,
        "looking has changed something"
    );
}

#[test]
fn fsobj_7_twenty_thousand_stray_files_cost_nobody_an_answer() {
    const COUNT: usize = 20_000;
    let field = Field::new();
    field.make_dirs();
    for number in 0..COUNT {
        // Half of them are none of ours, half are requests of nobody.
        let name = if number % 2 == 0 {
            format!("{number}.txt")
        } else {
            format!("bad name {number}.json")
        };
        fs::write(field.requests().join(name), "{}").unwrap();
    }
    let server = field.serve("headless");
    field.a_good_ask_is_answered();
    until("all strays aside", || {
        names(&field.requests())
            .iter()
            .all(|name| !name.ends_with(".json"))
    });
    field.a_good_ask_is_answered();
    until("a reason beside each", || {
        names(&field.at("spool/quarantine")).len() == COUNT
    });
    let left = names(&field.requests());
    let strays = left.iter().filter(|name| name.ends_with(".txt"));
    assert_eq!(
        strays.count(),
        COUNT / 2,
        "what is none of ours is left alone"
    );
    assert_eq!(
        field.logged("permission_forwarding.warning").len(),
        COUNT / 2
    );
    server.stop();
}

#[test]
fn write_1_a_writer_that_does_not_rename_is_served_when_it_is_done() {
    let field = Field::new();
    let server = field.serve("headless");
    let text = request("slow", "ls x").to_string();
    let (first, rest) = text.split_at(text.len() / 3);
    let (second, third) = rest.split_at(rest.len() / 2);
    let mut file = fs::File::create(field.requests().join("slow.json")).unwrap();
    for part in [first, second] {
        file.write_all(part.as_bytes()).unwrap();
        // A slow writer is what this is about; the good ask shows that nobody waits for it.
        pass(Duration::from_millis(300));
        field.a_good_ask_is_answered();
        if !field.aside().is_empty() {
            skipped("this machine is too slow for a writer that takes a second");
            return;
        }
    }
    file.write_all(third.as_bytes()).unwrap();
    drop(file);
    assert_eq!(field.await_response("slow")["approved"], true);
    assert_eq!(field.aside(), []);
    server.stop();
}

#[test]
fn a_writer_that_publishes_by_link_is_served() {
    let field = Field::new();
    let server = field.serve("headless");
    for round in 0..20 {
        let id = format!("linked-{round}");
        let temp = field.requests().join(format!(".{id}.tmp"));
        fs::write(&temp, request(&id, "ls x").to_string()).unwrap();
        fs::hard_link(&temp, field.requests().join(format!("{id}.json"))).unwrap();
        fs::remove_file(&temp).unwrap();
        assert_eq!(field.await_response(&id)["approved"], true, "{id}");
    }
    assert_eq!(field.aside(), []);
    server.stop();
}

#[test]
fn watch_7_an_inbox_that_is_removed_or_replaced_is_served_on() {
    let field = Field::new();
    let server = field.serve("headless");
    let swaps: [&dyn Fn(); 6] = [
        &|| fs::remove_dir_all(field.requests()).unwrap(),
        &|| {
            fs::remove_dir_all(field.requests()).unwrap();
            // The server may be faster; either way there is one.
            let _made = fs::create_dir(field.requests());
        },
        &|| fs::rename(field.requests(), field.at("spool/moved")).unwrap(),
        &|| {
            fs::rename(field.requests(), field.at("spool/moved-2")).unwrap();
            // Something else may stand there instead.
            let _made = fs::write(field.requests(), "in the way");
        },
        &|| fs::remove_dir_all(field.at("spool/sessions/main")).unwrap(),
        &|| fs::remove_dir_all(field.at("spool/sessions")).unwrap(),
    ];
    for (number, swap) in swaps.iter().enumerate() {
        swap();
        until(&format!("an inbox again ({number})"), || {
            field.requests().join(".askrelay-keep").exists()
        });
        field.a_good_ask_is_answered();
    }
    server.stop();
}

#[test]
fn a_removed_heartbeat_directory_or_lock_comes_back() {
    let field = Field::new();
    let server = field.serve("headless");
    fs::remove_file(field.at("spool/serving/main.lock")).unwrap();
    until("a lock again", || {
        field.at("spool/serving/main.lock").exists()
    });
    field.a_good_ask_is_answered();
    fs::remove_dir_all(field.at("spool/serving")).unwrap();
    until("heartbeat and lock again", || {
        field.at("spool/serving/main.json").exists() && field.at("spool/serving/main.lock").exists()
    });
    field.a_good_ask_is_answered();
    fs::remove_file(field.at("spool/serving/main.json")).unwrap();
    fs::create_dir_all(field.at("spool/serving/main.json/in/the/way")).unwrap();
    until("a heartbeat again", || {
        field.at("spool/serving/main.json").is_file()
    });
    field.a_good_ask_is_answered();
    // There is still one server, and nobody else may become one.
    let mut second = field.serve_with_fault("headless", None);
    assert_eq!(second.await_end().code(), Some(3));
    server.stop();
    assert_eq!(names(&field.at("spool/serving")), ["main.lock"]);
}

#[test]
fn nothing_odd_under_the_servers_own_names_keeps_it_from_starting() {
    for odd in Odd::ALL {
        let field = Field::new();
        let secret = field.at("secret");
        fs::write(&secret, "a secret").unwrap();
        field.make_dirs();
        fs::create_dir(field.at("spool/serving")).unwrap();
        for at in ["sessions/main/requests/.askrelay-keep", "serving/main.json"] {
            let _made = odd.make(&field.spool().join(at), &secret);
        }
        let server = field.serve("headless");
        field.a_good_ask_is_answered();
        server.stop();
        assert_eq!(fs::read(&secret).unwrap(), b"a secret", "{odd:?}");
    }
}

#[test]
fn fsobj_8_everything_is_the_owners_alone_under_any_umask() {
    let field = Field::new();
    let program = env!("CARGO_BIN_EXE_askrelay");
    let with_umask = |args: &str| {
        let mut command = std::process::Command::new("sh");
        field.surround(&mut command);
        command.args(["-c", &format!("umask 000; exec \"$0\" {args}"), program]);
        command
    };
    let mut serve = with_umask("serve --session main --mode select");
    let mut server = crate::support::hostile::Run::start(&field, &mut serve);
    server.await_serving();
    fs::create_dir(field.requests().join("odd.json")).unwrap();
    let mut ask = with_umask("ask --json --session main --from child --id r1 --value 'make all'");
    let ask = crate::support::hostile::Run::start(&field, &mut ask);
    until("a question", || {
        field.logged_of("permission_request.waiting", "r1") == 1
    });
    until("something aside", || !field.aside().is_empty());
    let mut checked = 0;
    for relative in ["spool", "review.jsonl"] {
        for (path, _, mode, ..) in field.picture(relative) {
            let is_ours = !path.to_string_lossy().contains("odd.json")
                || path.to_string_lossy().ends_with(".reason.json");
            if is_ours {
                assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", path.display());
                checked += 1;
            }
        }
    }
    assert!(checked >= 10, "{checked}");
    server.type_line("1");
    assert_eq!(ask.answer().code, Some(0));
    let log = fs::metadata(field.at("review.jsonl")).unwrap();
    assert_eq!(log.permissions().mode() & 0o777, 0o600);
    server.stop();
}
