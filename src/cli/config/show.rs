//! `askrelay config show`: what holds here, and where each value and each rule comes from.

use serde_json::{Value, json};

use crate::cli::env::Env;
use crate::cli::exit::Exit;
use crate::cli::layers::withheld_text;
use crate::cli::output::{self, Out};
use crate::cli::place::{Loaded, Place};
use crate::cli::project::ProjectSeen;
use crate::cli::role;
use crate::policy::{AgentOwner, KEYS, Rule, RuleSet, Stated};
use crate::presentation::json::line as json_line;
use crate::presentation::text::visible;
use crate::serve::Trouble;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The rules for this agent [default: those for an agent that has none of its own]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Everything that is shown.
struct Shown {
    layers: Vec<Layer>,
    settings: Vec<Setting>,
    agent: String,
    default: (String, String),
    rules: Vec<RuleShown>,
    /// What is written and does not hold, and why.
    not_in_force: Vec<String>,
}

struct Layer {
    name: String,
    path: String,
    state: String,
}

struct Setting {
    key: &'static str,
    value: Value,
    origins: Vec<String>,
}

struct RuleShown {
    surface: String,
    pattern: String,
    verdict: &'static str,
    reason: Option<String>,
    origin: &'static str,
    place: Option<String>,
}

pub(super) fn run(env: &Env, place: &Place<'_>, args: &Args) -> anyhow::Result<Exit> {
    let loaded = place.config()?;
    let shown = shown(
        env,
        place,
        &loaded,
        args.agent.as_deref().unwrap_or_default(),
    );
    let mut out = Out::stdout();
    if args.json {
        out.json(&as_json(&shown))?;
    } else {
        for line in lines(&shown)? {
            out.line(&line)?;
        }
    }
    out.flush()?;
    Ok(Exit::Ok)
}

fn shown(env: &Env, place: &Place<'_>, loaded: &Loaded, agent: &str) -> Shown {
    let home = place.home();
    let policy = loaded.policy(home.as_deref());
    let rules = policy.rules_for(agent);
    let (verdict, origin) = rules.default_verdict();
    Shown {
        layers: layers(loaded),
        settings: settings(env, loaded, rules),
        agent: agent.to_owned(),
        default: (verdict.name().to_owned(), origin.name().to_owned()),
        rules: rules.rules().map(|rule| rule_shown(rule)).collect(),
        not_in_force: not_in_force(loaded),
    }
}

fn layers(loaded: &Loaded) -> Vec<Layer> {
    let mut layers = Vec::new();
    if let Some(path) = &loaded.layout.global {
        let is_there = loaded.force.sources.global.is_some();
        layers.push(Layer {
            name: "user".to_owned(),
            path: path.to_string_lossy().into_owned(),
            state: if is_there { "in force" } else { "not there" }.to_owned(),
        });
    }
    for agent in &loaded.force.sources.agents {
        let whose = match agent.owner {
            AgentOwner::User => "user's",
            AgentOwner::Project => "project's",
        };
        let says_nothing = agent
            .front
            .as_ref()
            .is_some_and(|front| front.permission.is_none());
        layers.push(Layer {
            name: format!("{whose} agent {}", agent.agent),
            path: agent.label.clone(),
            state: match &agent.trouble {
                Some(trouble) => format!("allows nothing: {trouble}"),
                None if says_nothing => "says nothing".to_owned(),
                None => "in force".to_owned(),
            },
        });
    }
    if let Some(directory) = &loaded.layout.project {
        let seen = ProjectSeen::look(directory, loaded.layout.store.as_ref());
        let file = seen.files().and_then(|files| files.config.as_ref());
        let path = file.map_or_else(|| directory.clone(), |file| directory.join(&file.relative));
        layers.push(Layer {
            name: "project".to_owned(),
            path: path.to_string_lossy().into_owned(),
            state: match &seen {
                ProjectSeen::Absent => "not there".to_owned(),
                ProjectSeen::Untrusted(_) => "not trusted, so nothing of it counts".to_owned(),
                ProjectSeen::Changed(_, what) => {
                    format!("not as it was trusted ({what}), so nothing of it counts")
                }
                ProjectSeen::Trusted(_) => "trusted, in force".to_owned(),
            },
        });
    }
    layers
}

fn settings(env: &Env, loaded: &Loaded, rules: &RuleSet) -> Vec<Setting> {
    let stated = |stated: &Stated| format!("{}:{}", stated.label, stated.position);
    let no_value = |key: &str| key.starts_with("tool") || matches!(key, "$schema" | "permission");
    let keys = KEYS.iter().filter(|key| !no_value(key.name));
    keys.map(|key| {
        let mut value = loaded.config.value_of(key.name);
        let origins = loaded.layered.origins.get(key.name);
        let mut origins: Vec<String> = origins.into_iter().flatten().map(stated).collect();
        match key.name {
            "session" => {
                let own = role::served(env, None, &Place::default_session(&loaded.config));
                value = own.id.into();
                if own.reason != role::DEFAULT {
                    origins = vec![own.reason];
                }
            }
            // A layer that cannot be read switches it off.
            "yoloMode" if rules.is_clamped() => value = false.into(),
            _ => {}
        }
        if origins.is_empty() {
            origins.push("default".to_owned());
        }
        Setting {
            key: key.name,
            value,
            origins,
        }
    })
    .collect()
}

fn rule_shown(rule: &Rule) -> RuleShown {
    RuleShown {
        surface: rule.surface.to_string(),
        pattern: rule.pattern.as_str().to_owned(),
        verdict: rule.verdict.name(),
        reason: rule.reason.clone(),
        origin: rule.origin.name(),
        place: rule.place.as_ref().map(ToString::to_string),
    }
}

fn not_in_force(loaded: &Loaded) -> Vec<String> {
    let project = loaded.force.sources.project.as_ref();
    let label = project.map_or("", |project| project.label.as_str());
    let withheld = loaded.layered.withheld.iter();
    let trouble = loaded.force.trouble.as_ref().map(Trouble::text);
    trouble
        .map(str::to_owned)
        .into_iter()
        .chain(withheld.map(|withheld| withheld_text(label, *withheld)))
        .collect()
}

fn lines(shown: &Shown) -> anyhow::Result<Vec<String>> {
    let mut lines = vec!["LAYERS".to_owned()];
    let cell = |text: &str| visible(text).into_owned();
    let rows: Vec<Vec<String>> = shown
        .layers
        .iter()
        .map(|layer| vec![cell(&layer.name), cell(&layer.path), cell(&layer.state)])
        .collect();
    lines.extend(output::table(&rows));
    lines.extend([String::new(), "SETTINGS".to_owned()]);
    let rows = shown.settings.iter().map(|setting| {
        let value = json_line(&setting.value)?;
        Ok(vec![
            setting.key.to_owned(),
            value,
            cell(&setting.origins.join(", ")),
        ])
    });
    lines.extend(output::table(&rows.collect::<anyhow::Result<Vec<_>>>()?));
    let whose = if shown.agent.is_empty() {
        "RULES, in the order in which the last match wins".to_owned()
    } else {
        format!(
            "RULES for agent {}, in the order in which the last match wins",
            cell(&shown.agent)
        )
    };
    lines.extend([String::new(), whose]);
    let (verdict, origin) = &shown.default;
    let mut rows = vec![vec![
        "where no rule matches".to_owned(),
        String::new(),
        verdict.clone(),
        origin.clone(),
    ]];
    rows.extend(shown.rules.iter().map(|rule| {
        let origin = match &rule.place {
            Some(place) => format!("{}, {}", rule.origin, cell(place)),
            None => rule.origin.to_owned(),
        };
        vec![
            cell(&rule.surface),
            cell(&rule.pattern),
            rule.verdict.to_owned(),
            origin,
        ]
    }));
    lines.extend(output::table(&rows));
    if !shown.not_in_force.is_empty() {
        lines.extend([String::new(), "NOT IN FORCE".to_owned()]);
        lines.extend(shown.not_in_force.iter().map(|text| cell(text)));
    }
    Ok(lines)
}

fn as_json(shown: &Shown) -> Value {
    let layers = shown.layers.iter();
    let layers: Vec<Value> = layers
        .map(|layer| json!({"layer": layer.name, "path": layer.path, "state": layer.state}))
        .collect();
    let settings = shown.settings.iter();
    let settings: serde_json::Map<String, Value> = settings
        .map(|setting| {
            let said = json!({"value": setting.value, "origins": setting.origins});
            (setting.key.to_owned(), said)
        })
        .collect();
    let rules = shown.rules.iter();
    let rules: Vec<Value> = rules
        .map(|rule| {
            json!({
                "surface": rule.surface,
                "pattern": rule.pattern,
                "verdict": rule.verdict,
                "reason": rule.reason,
                "origin": rule.origin,
                "place": rule.place,
            })
        })
        .collect();
    let (verdict, origin) = &shown.default;
    json!({
        "layers": layers,
        "settings": settings,
        "agent": shown.agent,
        "default": {"verdict": verdict, "origin": origin},
        "rules": rules,
        "notInForce": shown.not_in_force,
    })
}
