//! The fixtures of the policy: each file says by itself what must come of it.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a fixture that cannot be read is a failure of the test"
)]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use askrelay::policy::{
    AgentLayer, AgentOwner, CONFIG_KEYS, CONFIG_SCHEMA, Config, Counts, DialogKeys, KEYS,
    LayerRules, Layers, MatchedRule, PermissionMap, Policy, Program, ProjectMay, Question,
    SessionRules, SurfaceRules, Switch, TextFidelity,
};
use askrelay::wire::{
    ApprovalGrant, AskingUnit, ForwardedAccessIntent, Generation, GrantWidth, PayloadKind,
    Principal, PromptPayload, Requester,
};
use serde_json::Value;

use crate::support::schema::faults;

fn room(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures/policy")
        .join(name)
}

fn files(name: &str) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(room(name))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .collect();
    files.sort();
    files
}

/// All failures at once, so that one look shows what a change did.
fn report(tried: usize, at_least: usize, failures: &[String]) {
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    assert!(tried >= at_least, "only {tried} cases");
}

// Judging.

fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key).map(|value| value.as_str().unwrap())
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value
        .get(key)
        .map_or(&[], |value| value.as_array().unwrap().as_slice())
}

fn owned(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn permission(map: &Value) -> Option<PermissionMap> {
    if map == "unreadable" {
        return None;
    }
    let config = format!("{{\"permission\": {map}}}");
    Some(Config::read(config.as_bytes(), "layer").unwrap().permission)
}

fn layer(map: Option<&PermissionMap>) -> LayerRules<'_> {
    map.map_or(LayerRules::Unreadable, LayerRules::Rules)
}

fn policy(document: &Value) -> Policy {
    let config = Config::read(document["config"].to_string().as_bytes(), "config").unwrap();
    let project = document.get("project").map(permission);
    let agents: Vec<_> = list(document, "agents")
        .iter()
        .map(|agent| (agent, permission(&agent["permission"])))
        .collect();
    Policy::from_layers(&Layers {
        global: LayerRules::Rules(&config.permission),
        project: project
            .as_ref()
            .map_or(LayerRules::Absent, |map| layer(map.as_ref())),
        agents: agents
            .iter()
            .map(|(agent, map)| AgentLayer {
                agent: text(agent, "agent").unwrap(),
                owner: match text(agent, "owner").unwrap() {
                    "user" => AgentOwner::User,
                    "project" => AgentOwner::Project,
                    other => panic!("no owner: {other}"),
                },
                rules: layer(map.as_ref()),
            })
            .collect(),
        yolo: config.yolo_mode,
        infrastructure: &config.pi_infrastructure_read_paths,
        home: text(document, "home"),
    })
}

fn intent(ask: &Value) -> Option<ForwardedAccessIntent> {
    if ask.is_null() {
        return None;
    }
    let units: Vec<_> = list(ask, "units")
        .iter()
        .map(|unit| AskingUnit {
            command: owned(&unit["command"]),
            floor: text(unit, "floor").map(str::to_owned),
        })
        .collect();
    Some(ForwardedAccessIntent {
        surface: owned(&ask["surface"]),
        match_values: list(ask, "values").iter().map(owned).collect(),
        boundary_value: text(ask, "boundary").map(str::to_owned),
        requester_cwd: "/child".to_owned(),
        principal: Principal {
            session_id: "C".to_owned(),
            agent_name: text(ask, "agent").unwrap_or("worker").to_owned(),
        },
        floor: text(ask, "floor").map(str::to_owned),
        asking_units: (!units.is_empty()).then_some(units),
    })
}

/// The complete facts of an ask, where it names a kind.
fn payload(ask: &Value) -> Option<PromptPayload> {
    let kind = PayloadKind::from_name(text(ask, "kind")?).unwrap();
    let requester = Requester {
        agent_name: None,
        forwarded: true,
        session_id: None,
    };
    let mut payload = PromptPayload::degraded(requester, Some(owned(&ask["surface"])), None, None);
    payload.kind = kind;
    payload.request.tool_name = text(ask, "tool").map(str::to_owned);
    Some(payload)
}

fn grants(case: &Value, home: Option<&str>) -> SessionRules {
    let mut rules = SessionRules::new(home);
    for grant in list(case, "grants") {
        let (surface, pattern) = (owned(&grant["surface"]), owned(&grant["pattern"]));
        if grant.get("exact").is_some() {
            rules.record_exact(&surface, &pattern);
            continue;
        }
        let width = match text(grant, "width") {
            None | Some("proven") => GrantWidth::Proven,
            Some("family") => GrantWidth::Family,
            Some(other) => panic!("no width: {other}"),
        };
        rules.record(&[ApprovalGrant { surface, pattern }], width);
    }
    rules
}

fn matched(rule: &MatchedRule) -> String {
    let unit = rule
        .unit
        .map(|unit| format!("{unit}: "))
        .unwrap_or_default();
    format!(
        "{unit}{} {} {} {}",
        rule.surface(),
        rule.pattern(),
        rule.verdict().name(),
        rule.origin().name()
    )
}

/// What differs from what the case expects; nothing where all is as it should be.
fn differences(policy: &Policy, case: &Value, home: Option<&str>) -> Vec<String> {
    let intent = intent(&case["ask"]);
    let payload = payload(&case["ask"]);
    let question = Question {
        intent: intent.as_ref(),
        payload: payload.as_ref(),
        text: match text(case, "text") {
            None => TextFidelity::Exact,
            Some("replaced") => TextFidelity::Replaced,
            Some(other) => panic!("no fidelity: {other}"),
        },
    };
    let judgement = policy.judge(&question, &grants(case, home));
    let by = &judgement.decided_by;
    let by = serde_json::to_value(by).unwrap();
    let of = |key: &str| by.get(key).cloned().unwrap_or_default();
    let expect = case["expect"].as_object().unwrap();
    let mut differences = Vec::new();
    for (key, wanted) in expect {
        let found: Value = match key.as_str() {
            "verdict" => judgement.verdict.name().into(),
            "by" => of("kind"),
            "pattern" => of("pattern"),
            "origin" => of("origin"),
            "because" => judgement.asked_because.clone().into(),
            "reason" => judgement.reason.clone().into(),
            "matched" => judgement.matched.iter().map(matched).collect(),
            other => panic!("nothing to expect: {other}"),
        };
        if found != *wanted {
            differences.push(format!("{key} is {found}, not {wanted}"));
        }
    }
    // What a case does not name must not be there.
    if judgement.asked_because.is_some() && !expect.contains_key("because") {
        differences.push(format!("asked because of {:?}", judgement.asked_because));
    }
    if judgement.reason.is_some() && !expect.contains_key("reason") {
        differences.push(format!("a reason, {:?}", judgement.reason));
    }
    differences
}

#[test]
fn judging() {
    let (mut tried, mut failures) = (0, Vec::new());
    for path in files("judge") {
        let document: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let policy = policy(&document);
        for case in list(&document, "cases") {
            tried += 1;
            for difference in differences(&policy, case, text(&document, "home")) {
                failures.push(format!(
                    "{}: {}: {difference}",
                    path.file_name().unwrap().display(),
                    text(case, "name").unwrap()
                ));
            }
        }
    }
    report(tried, 120, &failures);
}

// Configurations.

fn switch(switch: Switch) -> &'static str {
    if switch.is_on() { "on" } else { "off" }
}

fn keys(keys: DialogKeys) -> String {
    [
        keys.approve,
        keys.approve_session,
        keys.approve_session_both,
        keys.deny,
        keys.deny_with_reason,
    ]
    .iter()
    .collect()
}

fn rules(map: &PermissionMap) -> Vec<String> {
    let mut lines = Vec::new();
    for (surface, rules) in &map.surfaces {
        match rules {
            SurfaceRules::Whole(verdict) => {
                lines.push(format!("permission {surface} = {}", verdict.name()));
            }
            SurfaceRules::Patterns(patterns) => lines.extend(patterns.iter().map(|rule| {
                let mut line = format!(
                    "permission {surface} / {} = {}",
                    rule.pattern,
                    rule.verdict.name()
                );
                if let Some(reason) = &rule.reason {
                    write!(line, " ({reason})").unwrap();
                }
                line
            })),
        }
    }
    lines
}

fn rotation(config: &Config) -> String {
    let or_never = |number: Option<u64>| number.map_or("never".to_owned(), |n| n.to_string());
    let rotation = config.review_log_rotation;
    format!(
        "{} {}",
        or_never(rotation.max_bytes),
        or_never(rotation.max_age.map(|age| age.as_secs()))
    )
}

/// Every setting as one line or several, whatever its value.
fn settings(config: &Config) -> Vec<String> {
    let expire = config
        .inbox
        .expire
        .map_or("never".to_owned(), |after| after.as_millis().to_string());
    let generation = match config.peer_generation {
        Generation::G1 => "G1",
        Generation::Current => "current",
    };
    let mut lines = vec![
        format!("debugLog = {}", switch(config.debug_log)),
        format!(
            "permissionReviewLog = {}",
            switch(config.permission_review_log)
        ),
        format!("yoloMode = {}", switch(config.yolo_mode)),
        format!(
            "doublePressToConfirm = {}",
            switch(config.double_press_to_confirm)
        ),
        format!(
            "permissionDialogKeys = {}",
            keys(config.permission_dialog_keys)
        ),
        format!(
            "forwardingTimeoutMs = {}",
            config.forwarding_timeout.as_millis()
        ),
        format!("promptMaxRows = {}", config.prompt_max_rows),
        format!("promptFieldMaxWidth = {}", config.prompt_field_max_width),
        format!(
            "reviewLogFieldMaxWidth = {}",
            config.review_log_field_max_width
        ),
        format!("authorizerChain = {}", config.authorizer_chain.join(" ")),
        format!(
            "piInfrastructureReadPaths = {}",
            config.pi_infrastructure_read_paths.join(" ")
        ),
        format!(
            "session = {}",
            config
                .session
                .as_ref()
                .map_or("-", |session| session.as_str())
        ),
        format!("peerGeneration = {generation}"),
        format!("requireSeal = {}", switch(config.require_seal)),
        format!("requireAudit = {}", switch(config.require_audit)),
        format!("reviewLogRotation = {}", rotation(config)),
        format!("requestMaxAgeMs = {}", config.request_max_age.as_millis()),
        format!(
            "inbox = {} {expire} {}",
            config.inbox.max_pending, config.inbox.retain
        ),
        format!("annotatorChain = {}", config.annotator_chain.join(" ")),
        format!(
            "limits = {} {} {}",
            config.limits.per_requester_pending,
            config.limits.per_session_pending,
            config.limits.per_requester_per_minute
        ),
        format!("persistGrants = {}", switch(config.persist_grants)),
    ];
    lines.extend(maps(config));
    lines.extend(rules(&config.permission));
    lines.extend(
        config
            .notices
            .iter()
            .map(|notice| format!("notice {} {}", notice.position, notice.text)),
    );
    lines
}

/// The settings that are maps, one line for each entry.
fn maps(config: &Config) -> Vec<String> {
    let program = |room: &'static str| {
        move |(name, program): (&String, &Program)| {
            format!(
                "{room} {name} = {:?} {} {:?}",
                program.command,
                program.timeout.as_millis(),
                program.env
            )
        }
    };
    let mut lines = Vec::new();
    lines.extend(
        config
            .authorizer_trust
            .iter()
            .map(|(link, families)| format!("authorizerTrust {link} = {families:?}")),
    );
    lines.extend(config.shell_tools.iter().map(|(name, tool)| {
        format!(
            "shellTools {name} = {} {}",
            tool.command_argument,
            tool.workdir_argument.as_deref().unwrap_or("-")
        )
    }));
    lines.extend(config.authorizers.iter().map(program("authorizers")));
    lines.extend(config.annotators.iter().map(program("annotators")));
    lines.extend(
        config
            .evidence_formatters
            .iter()
            .map(program("evidenceFormatters")),
    );
    lines
}

fn expectations(bytes: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(bytes)
        .lines()
        .map_while(|line| line.strip_prefix("// expect: "))
        .filter(|line| *line != "nothing but defaults")
        .map(str::to_owned)
        .collect()
}

#[test]
fn valid_configurations() {
    let usual = settings(&Config::default());
    let (mut tried, mut failures) = (0, Vec::new());
    for path in files("config/valid") {
        tried += 1;
        let bytes = fs::read(&path).unwrap();
        let name = path.file_name().unwrap().display().to_string();
        match Config::read(&bytes, &name) {
            Err(error) => failures.push(error.to_string()),
            Ok(config) => {
                let said: Vec<_> = settings(&config)
                    .into_iter()
                    .filter(|line| !usual.contains(line))
                    .collect();
                let mut sorted = said.clone();
                sorted.sort();
                let mut wanted = expectations(&bytes);
                let order = |lines: &[String]| -> Vec<String> {
                    lines
                        .iter()
                        .filter(|line| line.starts_with("permission "))
                        .cloned()
                        .collect()
                };
                // The order of rules counts, that of other settings does not.
                let same_order = order(&said) == order(&wanted);
                wanted.sort();
                if sorted != wanted || !same_order {
                    failures.push(format!("{name}: {said:#?}, not {wanted:#?}"));
                }
            }
        }
    }
    report(tried, 25, &failures);
}

#[test]
fn invalid_configurations() {
    let (mut tried, mut failures) = (0, Vec::new());
    for path in files("config/invalid") {
        tried += 1;
        let bytes = fs::read(&path).unwrap();
        // What cannot hold a comment has its expectation beside it.
        let wanted = match expectations(&bytes).pop() {
            Some(wanted) => wanted,
            None => fs::read_to_string(path.with_extension("expect")).unwrap(),
        };
        let wanted = format!("config.json:{}", wanted.trim_end());
        let name = path.file_name().unwrap().display();
        match Config::read(&bytes, "config.json") {
            Ok(_) => failures.push(format!("{name}: is read, but expected {wanted}")),
            Err(error) if error.to_string() != wanted => {
                failures.push(format!("{name}:\n  found  {error}\n  wanted {wanted}"));
            }
            Err(_) => {}
        }
    }
    report(tried, 60, &failures);
}

/// An operator finds every key in the manual.
#[test]
fn every_key_is_documented() {
    let manual =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/configuration.md"))
            .unwrap();
    let missing: Vec<_> = CONFIG_KEYS
        .iter()
        .filter(|key| !manual.contains(&format!("`{key}`")))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// An editor that knows the schema says what the program would, as far as a schema can.
#[test]
fn the_schema_takes_what_is_read_and_refuses_what_is_not() {
    let schema: serde_json::Value = serde_json::from_str(CONFIG_SCHEMA).unwrap();
    let beyond_a_schema = [
        "stands twice",
        "cannot be a session",
        "a direction is one of",
        "stands under",
        "nested deeper",
        "not UTF-8",
    ];
    let (mut tried, mut failures) = (0, Vec::new());
    for room in ["config/valid", "config/invalid"] {
        for path in files(room) {
            let bytes = fs::read(&path).unwrap();
            let text = String::from_utf8_lossy(&bytes);
            let lines = text.lines().filter(|line| !line.starts_with("//"));
            // Comments between its parts, and what is no JSON at all, are no matter of a schema.
            let Ok(value) = serde_json::from_str(&lines.collect::<Vec<_>>().join("\n")) else {
                continue;
            };
            let name = path.file_name().unwrap().display();
            let faults = faults(&schema, &value);
            match Config::read(&bytes, "config.json") {
                Ok(_) if faults.is_empty() => {}
                Ok(_) => failures.push(format!("{name}: the schema refuses it: {faults:?}")),
                Err(error) => {
                    let error = error.to_string();
                    if beyond_a_schema.iter().any(|text| error.contains(text)) {
                        continue;
                    }
                    if faults.is_empty() {
                        failures.push(format!("{name}: the schema takes it; {error}"));
                    }
                }
            }
            tried += 1;
        }
    }
    report(tried, 70, &failures);
}

/// What a project may say, and when a change counts, stands in the manual as it is in the code.
#[test]
fn the_tables_of_keys_in_the_manual_are_those_in_the_code() {
    let manual =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/configuration.md"))
            .unwrap();
    let row_of = |heading: &str, key: &str| {
        let (_, section) = manual.split_once(heading).unwrap();
        let section = section.split("\n#").next().unwrap();
        let named = format!("`{key}`");
        let rows = section.lines().filter(|line| line.starts_with("| "));
        let mut rows = rows.filter(|row| {
            row.contains(&named) || key == "permission" && row.starts_with("| rules,")
        });
        rows.next()
            .unwrap_or_else(|| panic!("{key} below {heading}"))
    };
    let said_elsewhere = |key: &str| key == "$schema" || key.starts_with("tool");
    for key in KEYS.iter().filter(|key| !said_elsewhere(key.name)) {
        let row = row_of("### What a project may say\n", key.name);
        let may = match key.project {
            ProjectMay::Set => "says what holds",
            ProjectMay::Add => "adds to yours",
            ProjectMay::SwitchOn => "may switch on",
            ProjectMay::SwitchOff => "may switch off",
            ProjectMay::Lower => "may lower",
            ProjectMay::Nothing => "says nothing",
        };
        assert!(row.contains(may), "{}: {row}", key.name);
        let row = row_of("## Changes while a session runs\n", key.name);
        let counts = match key.counts {
            Counts::AtOnce => "| at once |",
            Counts::FromStart => "| when the session is started again",
            Counts::InTheAsker => "| with the next `ask`",
        };
        assert!(row.contains(counts), "{}: {row}", key.name);
    }
}
