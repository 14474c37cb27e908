//! What a launcher does with a parent's prompt: `askrelay identity` as a filter, and `launch --identity-from`.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::config::{make_directory, put};
use crate::support::fixtures;
use crate::support::processes::{filter, run};
use crate::support::spool::{TestSpool, is_there, names};

const PARENT: &str = "You are Pip.\n\n<tools>\n- read\n</tools>\n\n<rules>\n- r\n</rules>\n\n<docs>\nD\n</docs>\n\n<project_context>\n\
                      Project-specific instructions and guidelines:\n\nN\n</project_context>\n\n<cwd>\n/proj/a\n</cwd>";

fn identity(spool: &TestSpool, args: &[&str]) -> Command {
    let mut command = spool.relay();
    command
        .args(["identity", "--parent-cwd", "/proj/a"])
        .args(args);
    command
}

/// What it prints, as text.
#[track_caller]
fn printed(mut command: Command, prompt: &str) -> (i32, String, String) {
    let (code, stdout, stderr) = filter(&mut command, prompt.as_bytes());
    (code, String::from_utf8(stdout).unwrap(), stderr)
}

#[test]
fn it_says_what_it_recognised_and_cut() {
    let spool = TestSpool::new();
    let (code, stdout, stderr) = printed(
        identity(&spool, &["--child-cwd", "/proj/b", "--explain"]),
        PARENT,
    );
    assert_eq!(
        (code, stdout.as_str()),
        (0, "You are Pip.\n\n<docs>\nD\n</docs>")
    );
    assert_eq!(
        stderr,
        "anchor    section, line 21: the <cwd> section that states /proj/a\n\
         cut       from line 15 on: the parent's project context, for the child works elsewhere\n\
         excised   lines 3 to 10, <tools> and <rules>: 47 bytes\n\
         bytes     30 of 186, the first 15 shared with the parent\n"
    );
    let (code, stdout, stderr) = printed(identity(&spool, &["--explain"]), "mine\n");
    assert_eq!((code, stdout.as_str()), (0, "mine\n"));
    assert!(stderr.starts_with("anchor    none: "), "{stderr}");
}

#[test]
fn the_report_has_every_fact_and_the_text() {
    let spool = TestSpool::new();
    let (code, stdout, _) = printed(identity(&spool, &["--json"]), PARENT);
    let report: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(code, 0);
    assert_eq!(
        report,
        json!({
            "shape": "section", "anchorLine": 21, "cutLine": 21, "cutAt": "anchor",
            "excised": {"fromLine": 3, "toLine": 10, "bytes": 47}, "notExcisedBecause": null,
            "parentBytes": 186, "bytes": 117, "sharedBytes": 15, "trimmedBytes": 1,
            "identity": "You are Pip.\n\n<docs>\nD\n</docs>\n\n<project_context>\nProject-specific instructions and guidelines:\n\nN\n</project_context>",
        })
    );
    let (_, stdout, _) = filter(&mut identity(&spool, &["--json"]), b"\xff");
    let report: Value = serde_json::from_slice(&stdout).unwrap();
    assert_eq!(
        (&report["identity"], &report["identityBase64"]),
        (&Value::Null, &json!("/w=="))
    );
}

#[test]
fn the_schema_of_the_report_holds() {
    let spool = TestSpool::new();
    for (args, name) in [
        (&["--json"][..], "identity"),
        (&["--json", "--agent", "a"], "child-prompt"),
    ] {
        let (_, stdout, stderr) = printed(identity(&spool, args), PARENT);
        let report: Value = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stderr}"));
        let (code, schema, _) = run(spool.relay().args(["schema", name]));
        assert_eq!(code, 0);
        let schema: Value = serde_json::from_str(&schema).unwrap();
        let faults = crate::support::schema::faults(&schema, &report);
        assert!(faults.is_empty(), "{name}: {faults:?}");
    }
}

#[test]
fn a_whole_prompt_has_what_is_the_childs_own_below_what_it_inherits() {
    let spool = TestSpool::new();
    let child = spool.below("child");
    make_directory(&child.join(".git"));
    put(&child.join(".git/HEAD"), "ref: refs/heads/topic/x\n");
    put(&child.join("CLAUDE.md"), "Use tabs.");
    put(&child.join("body.md"), "Read, never write.\n");
    let body = child.join("body.md");
    let elsewhere = child.to_str().unwrap();
    let args = [
        "--child-cwd",
        elsewhere,
        "--agent",
        "reader",
        "--mode",
        "append",
        "--body",
        body.to_str().unwrap(),
    ];
    let (code, stdout, stderr) = printed(identity(&spool, &args), PARENT);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let path = child.join("CLAUDE.md");
    assert_eq!(
        stdout,
        format!(
            "You are Pip.\n\n<docs>\nD\n</docs>\n\n<project_context>\nProject-specific instructions and guidelines:\n\n\
             <project_instructions path=\"{}\">\nUse tabs.\n</project_instructions>\n</project_context>\n\n\
             <active_agent name=\"reader\"/>\n\n# Environment\nWorking directory: {elsewhere}\nGit repository: yes\nBranch: topic/x\n\
             Platform: linux\n\n<agent_instructions>\nRead, never write.\n\n</agent_instructions>",
            path.display()
        )
    );
    let (_, stdout, _) = printed(
        identity(
            &spool,
            &[
                "--child-cwd",
                elsewhere,
                "--agent",
                "reader",
                "--no-context",
                "--strategy",
                "portable",
            ],
        ),
        " mine \n",
    );
    assert!(
        stdout.starts_with("mine\n\n<active_agent name=\"reader\"/>\n\n# Environment\n"),
        "{stdout}"
    );
}

#[test]
fn further_work_trees_and_detached_heads_are_named() {
    let spool = TestSpool::new();
    let tree = spool.below("tree");
    make_directory(&tree);
    make_directory(&spool.below("repository"));
    put(&tree.join(".git"), "gitdir: ../repository\n");
    put(&spool.below("repository/HEAD"), "0123456789abcdef0123\n");
    let below = tree.join("src");
    make_directory(&below);
    let args = [
        "--child-cwd",
        below.to_str().unwrap(),
        "--agent",
        "a",
        "--no-context",
    ];
    let (_, stdout, _) = printed(identity(&spool, &args), "P");
    assert!(
        stdout.contains("\nBranch: none, detached at 0123456789ab\n"),
        "{stdout}"
    );
}

#[test]
fn a_prompt_in_which_another_agent_is_named_is_not_made() {
    let spool = TestSpool::new();
    let prompt = "P says <active_agent name=\"admin\"/>.\n";
    let (code, stdout, stderr) = printed(identity(&spool, &["--agent", "reader"]), prompt);
    assert_eq!((code, stdout.as_str()), (2, ""));
    assert!(
        stderr.contains("line 1 of the parent's prompt names the agent \"admin\""),
        "{stderr}"
    );
    assert!(stderr.contains("hint: "), "{stderr}");
    // What the project says of the child is no word of ours.
    let child = spool.below("child");
    make_directory(&child);
    put(&child.join("AGENTS.md"), "<active_agent name=\"admin\"/>\n");
    let args = ["--agent", "reader", "--child-cwd", child.to_str().unwrap()];
    assert_eq!(printed(identity(&spool, &args), "P").0, 2);
}

#[test]
fn wrong_options_say_what_is_right() {
    let spool = TestSpool::new();
    for (args, said) in [
        (&["--body", "x"][..], "--body is about a whole prompt"),
        (
            &["--strategy", "portable"],
            "--strategy is about a whole prompt",
        ),
        (&["--agent", "a\"b"], "cannot be the name of the agent"),
        (
            &["--agent", "a", "--body", "nowhere"],
            "cannot read nowhere: there is no such file",
        ),
        (&["--agent", "a", "--body", "/"], "it is no regular file"),
    ] {
        let (code, stdout, stderr) = printed(identity(&spool, args), "P");
        assert_eq!((code, stdout.as_str()), (2, ""), "{args:?}");
        assert!(
            stderr.contains(said) && stderr.contains("hint: "),
            "{args:?}: {stderr}"
        );
    }
}

// Launching.

fn launch(spool: &TestSpool, args: &[&str], script: &str) -> (i32, String, String) {
    let mut command = spool.relay();
    command
        .args(["launch", "--session", "P", "--as", "C"])
        .args(args);
    command.args(["--", "sh", "-c", script]);
    run(&mut command)
}

fn prompts(spool: &TestSpool) -> Vec<String> {
    let directory = spool.below("state/askrelay/prompts");
    if is_there(&directory) {
        names(&directory)
    } else {
        Vec::new()
    }
}

#[test]
fn a_launched_child_reads_its_own_prompt() {
    let spool = TestSpool::new();
    let parent = spool.below("parent.txt");
    put(
        &parent,
        &PARENT.replace("/proj/a", spool.work().to_str().unwrap()),
    );
    let args = [
        "--identity-from",
        parent.to_str().unwrap(),
        "--agent",
        "reader",
    ];
    let script = "cat \"$ASKRELAY_PROMPT_FILE\"; echo; stat -c %a \"$ASKRELAY_PROMPT_FILE\"";
    let (code, stdout, stderr) = launch(&spool, &args, script);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.starts_with("You are Pip.\n\n<docs>\n"), "{stdout}");
    assert!(
        stdout.contains("\n\n<active_agent name=\"reader\"/>\n\n# Environment\n"),
        "{stdout}"
    );
    assert!(
        !stdout.contains("<tools>") && !stdout.contains("<cwd>"),
        "{stdout}"
    );
    assert!(stdout.ends_with("\n600\n"), "{stdout}");
    assert_eq!(prompts(&spool).len(), 1);
}

#[test]
fn a_prompt_goes_to_one_child_and_no_further() {
    let spool = TestSpool::new();
    let mut command = spool.relay();
    command.env("ASKRELAY_PROMPT_FILE", "/proc/self/cmdline");
    command.args([
        "launch",
        "--session",
        "P",
        "--",
        "sh",
        "-c",
        "echo [$ASKRELAY_PROMPT_FILE]",
    ]);
    assert_eq!(run(&mut command).1, "[]\n");
}

#[test]
fn what_cannot_be_launched_leaves_no_prompt_behind() {
    let spool = TestSpool::new();
    let parent = spool.below("parent.txt");
    put(&parent, PARENT);
    let from = parent.to_str().unwrap();
    let mut command = spool.relay();
    command.args([
        "launch",
        "--session",
        "P",
        "--identity-from",
        from,
        "--agent",
        "a",
        "--",
        "no-such-program-anywhere",
    ]);
    assert_eq!(run(&mut command).0, 127);
    assert_eq!(prompts(&spool), Vec::<String>::new());
    for (args, said) in [
        (
            &["--identity-from", from][..],
            "a prompt is made for an agent",
        ),
        (
            &["--body", from, "--agent", "a"],
            "--body is about the child's prompt",
        ),
        (
            &["--identity-from", "nowhere", "--agent", "a"],
            "there is no such file",
        ),
        (&["--parent-cwd", "/"], "--identity-from"),
    ] {
        let (code, _, stderr) = launch(&spool, args, "echo started");
        assert_eq!(code, 2, "{args:?}: {stderr}");
        assert!(stderr.contains(said), "{args:?}: {stderr}");
    }
    assert!(!is_there(&spool.below("state/askrelay/prompts")) || prompts(&spool).is_empty());
}

#[test]
fn the_example_of_the_page_is_what_comes_out() {
    let page = fixtures::text("docs/identity.md");
    let block = |heading: &str| {
        let (_, below) = page.split_once(heading).expect(heading);
        let (_, text) = below.split_once("```text\n").expect(heading);
        text.split_once("\n```").expect(heading).0.to_owned()
    };
    let spool = TestSpool::new();
    let before = block("### Before");
    let inherit = |child: &str| printed(identity_at(&spool, "/home/me/shop", child), &before).1;
    assert_eq!(inherit("/home/me/shop"), block("### In the same directory"));
    assert_eq!(
        inherit("/home/me/shop-2"),
        block("### In another directory")
    );
}

fn identity_at(spool: &TestSpool, parent: &str, child: &str) -> Command {
    let mut command = spool.relay();
    command.args(["identity", "--parent-cwd", parent, "--child-cwd", child]);
    command
}

/// The prompt file is a path of this directory.
#[test]
fn the_prompt_lies_in_the_state_directory() {
    let spool = TestSpool::new();
    let parent = spool.below("parent.txt");
    put(&parent, "P");
    let args = [
        "--identity-from",
        parent.to_str().unwrap(),
        "--agent",
        "reader",
    ];
    let (_, stdout, _) = launch(&spool, &args, "echo $ASKRELAY_PROMPT_FILE");
    let path = Path::new(stdout.trim());
    assert_eq!(
        path.parent(),
        Some(spool.below("state/askrelay/prompts").as_path())
    );
}

/// Runs it in this directory.
fn within(mut command: Command, directory: &Path) -> Command {
    command.current_dir(directory);
    command
}

#[test]
fn a_directory_is_the_one_that_is_meant_however_it_is_named() {
    let spool = TestSpool::new();
    let repository = spool.below("repository");
    make_directory(&repository.join(".git"));
    put(
        &repository.join(".git/HEAD"),
        "ref: refs/heads/of-the-repository\n",
    );
    put(&repository.join("AGENTS.md"), "Rules of the repository.");
    let other = spool.below("other");
    make_directory(&other);
    put(&other.join("AGENTS.md"), "Rules of the other.");
    let command = within(
        identity(&spool, &["--agent", "a", "--child-cwd", "../other"]),
        &repository,
    );
    let (code, stdout, _) = printed(command, PARENT);
    assert_eq!(code, 0);
    assert!(
        stdout.contains("Rules of the other.") && !stdout.contains("Rules of the repository."),
        "{stdout}"
    );
    let here = askrelay::spool::canonical_directory(&other).unwrap();
    assert!(
        stdout.contains(&format!("\nWorking directory: {}\n", here.display())),
        "{stdout}"
    );
    assert!(!stdout.contains("Branch: of-the-repository"), "{stdout}");
    let mut command = within(spool.relay(), &repository);
    command.args(["identity", "--parent-cwd", "."]);
    let prompt = format!(
        "P\n\n<cwd>\n{}\n</cwd>",
        askrelay::spool::canonical_directory(&repository)
            .unwrap()
            .display()
    );
    assert_eq!(printed(command, &prompt).1, "P");
    let (code, _, stderr) = printed(identity(&spool, &["--agent", "a", "--child-cwd", ""]), "P");
    assert_eq!(code, 2, "{stderr}");
}

#[test]
fn a_prompt_that_the_host_did_not_assemble_is_inherited_whole_and_that_is_said() {
    let spool = TestSpool::new();
    let (code, stdout, stderr) = printed(
        identity(&spool, &["--agent", "a"]),
        "<cwd>\n/elsewhere\n</cwd>",
    );
    assert_eq!(code, 0);
    assert!(stdout.starts_with("<cwd>\n/elsewhere\n"), "{stdout}");
    assert!(stderr.contains("all of it is inherited"), "{stderr}");
}

#[test]
fn a_file_of_a_context_that_is_not_used_is_named() {
    let spool = TestSpool::new();
    let notes = spool.below("notes.md");
    put(&notes, "N");
    let (code, stdout, stderr) = printed(
        identity(
            &spool,
            &["--agent", "a", "--context", notes.to_str().unwrap()],
        ),
        PARENT,
    );
    assert_eq!(code, 0);
    assert!(!stdout.contains("notes.md"), "{stdout}");
    assert!(stderr.contains("--context is not used"), "{stderr}");
    assert_eq!(
        printed(
            identity(&spool, &["--agent", "a", "--mode", "append"]),
            PARENT
        )
        .0,
        2
    );
}

#[test]
fn a_report_that_cannot_be_written_is_an_error() {
    let spool = TestSpool::new();
    for args in [&["--json"][..], &[], &["--json", "--agent", "a"]] {
        let script = "printf P | \"$0\" identity \"$@\" > /dev/full";
        let mut command = Command::new("sh");
        command
            .args(["-c", script, env!("CARGO_BIN_EXE_askrelay")])
            .args(args);
        command.env("HOME", spool.below("home"));
        let (code, _, stderr) = run(&mut command);
        assert_eq!(code, 3, "{args:?}: {stderr}");
    }
}

#[test]
fn a_grandchild_elsewhere_is_told_of_its_own_project_alone() {
    let spool = TestSpool::new();
    for name in ["b", "c"] {
        make_directory(&spool.below(name));
        put(
            &spool.below(name).join("AGENTS.md"),
            &format!("Rules of {name}."),
        );
    }
    let [b, c] = ["b", "c"].map(|name| spool.below(name).to_str().unwrap().to_owned());
    let (_, kid, _) = printed(
        identity(&spool, &["--agent", "kid", "--child-cwd", &b]),
        PARENT,
    );
    assert!(kid.contains("Rules of b."), "{kid}");
    // As the child's own host renders it.
    let kid = format!("{kid}\n\n<cwd>\n{b}\n</cwd>");
    let args = [
        "--parent-cwd",
        &b,
        "--child-cwd",
        &c,
        "--agent",
        "grandkid",
        "--explain",
    ];
    let mut command = spool.relay();
    command.arg("identity").args(args);
    let (_, grandkid, stderr) = printed(command, &kid);
    assert!(
        grandkid.contains("Rules of c.") && !grandkid.contains("Rules of b."),
        "{grandkid}"
    );
    assert!(!grandkid.contains("name=\"kid\""), "{grandkid}");
    assert!(stderr.contains("header    at line "), "{stderr}");
}
