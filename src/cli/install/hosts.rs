//! Where the agents have their configurations, and which of them are on this machine.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::cli::env::{self, Env};
use crate::host::install::{
    Host, MAX_HOST_CONFIG_BYTES, Switched, is_folder_trusted, is_project_trusted,
    is_workspace_trusted, json_switches, toml_switches,
};
use crate::spool::{ForeignFile, canonical_path, is_program, list_operator_files, path_spellings};

/// Where an administrator may split the settings of Claude Code.
const CLAUDE_MANAGED: &str = "/etc/claude-code/managed-settings.d";

/// For whom an agent is put under askrelay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) enum Scope {
    /// Wherever this user starts it.
    User,
    /// In this directory.
    Project(PathBuf),
}

impl Scope {
    /// Its name in output.
    pub(in crate::cli) const fn name(&self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project(_) => "project",
        }
    }
}

/// One file that an agent reads its hooks, or what switches them off, from.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Layer {
    /// Whose it is.
    pub(in crate::cli) whose: &'static str,
    pub(in crate::cli) path: PathBuf,
}

/// The directory in which an agent keeps what belongs to the user.
pub(in crate::cli) fn user_directory(env: &Env, host: Host) -> Option<PathBuf> {
    let home = || env.home();
    match host {
        Host::ClaudeCode => env
            .own_path(env::CLAUDE_CONFIG_DIR)
            .or_else(|| Some(home()?.join(".claude"))),
        Host::Codex => env
            .own_path(env::CODEX_HOME)
            .or_else(|| Some(home()?.join(".codex"))),
        Host::Gemini => Some(
            env.own_path(env::GEMINI_HOME)
                .or_else(home)?
                .join(".gemini"),
        ),
        Host::Opencode => env.own_path(env::OPENCODE_CONFIG_DIR).or_else(|| {
            let above = env.own_path(env::XDG_CONFIG_HOME);
            Some(
                above
                    .or_else(|| Some(home()?.join(".config")))?
                    .join("opencode"),
            )
        }),
        Host::Pi => env
            .own_path(env::PEER_AGENT_DIR)
            .or_else(|| Some(home()?.join(".pi/agent"))),
    }
}

/// The file that is edited.
pub(in crate::cli) fn file_of(env: &Env, host: Host, scope: &Scope) -> Option<PathBuf> {
    Some(match scope {
        Scope::User => user_directory(env, host)?.join(match host {
            Host::ClaudeCode | Host::Gemini => "settings.json",
            Host::Codex => "hooks.json",
            Host::Opencode => "plugins/askrelay.js",
            Host::Pi => "extensions/askrelay.ts",
        }),
        Scope::Project(directory) => directory.join(match host {
            // Not the one that is shared: a path of this machine stands in it.
            Host::ClaudeCode => ".claude/settings.local.json",
            Host::Codex => ".codex/hooks.json",
            Host::Gemini => ".gemini/settings.json",
            Host::Opencode => ".opencode/plugins/askrelay.js",
            Host::Pi => ".pi/extensions/askrelay.ts",
        }),
    })
}

/// Codex's own configuration, in which its trust stands for every scope.
pub(in crate::cli) fn codex_config(env: &Env) -> Option<PathBuf> {
    Some(user_directory(env, Host::Codex)?.join("config.toml"))
}

/// Whether Codex trusts a project: the directory itself, or the root of the work tree of git that it lies in.
pub(in crate::cli) fn codex_trusts(env: &Env, project: &Path) -> bool {
    let Some(config) = codex_config(env).and_then(|config| text_of(&absolute(env, config))) else {
        return false;
    };
    let trusts = |directory: &Path| {
        is_project_trusted(&config, &directory.to_string_lossy()).unwrap_or(false)
    };
    let real = canonical_path(project);
    let root = real.as_deref().and_then(work_tree);
    trusts(project) || real.as_deref().is_some_and(trusts) || root.is_some_and(trusts)
}

/// The root of the work tree of git that a directory lies in.
fn work_tree(directory: &Path) -> Option<&Path> {
    directory
        .ancestors()
        .find(|above| canonical_path(&above.join(".git")).is_some())
}

/// The directories of a project, from the root of its work tree down to itself.
fn down_to(project: &Path) -> Vec<&Path> {
    let root = work_tree(project).unwrap_or(project);
    let mut all: Vec<&Path> = project
        .ancestors()
        .take_while(|directory| directory.starts_with(root))
        .collect();
    all.reverse();
    all
}

/// Whether Gemini CLI trusts a folder, without which it reads no settings of it: a folder above that is trusted will do.
pub(in crate::cli) fn gemini_trusts(env: &Env, project: &Path) -> bool {
    let Some(user) = user_directory(env, Host::Gemini).map(|user| absolute(env, user)) else {
        return false;
    };
    let settings = text_of(&user.join("settings.json")).unwrap_or_default();
    let rules = text_of(&user.join("trustedFolders.json")).unwrap_or_default();
    let real = canonical_path(project);
    let real = real.as_deref().unwrap_or(project);
    is_folder_trusted(&settings, &rules, &|rule, parent| {
        let rule = Path::new(rule);
        let rule = if parent {
            rule.parent().unwrap_or(rule)
        } else {
            rule
        };
        let is_above = |project: &Path| {
            project.starts_with(rule)
                || canonical_path(rule).is_some_and(|rule| project.starts_with(rule))
        };
        is_above(project) || is_above(real)
    })
}

/// Whether a session of Claude Code with a terminal has asked for this project already, and been told that it is trusted.
pub(in crate::cli) fn claude_trusts(env: &Env, project: &Path) -> bool {
    let file = match env.own_path(env::CLAUDE_CONFIG_DIR) {
        Some(directory) => Some(directory.join(".claude.json")),
        None => env.home().map(|home| home.join(".claude.json")),
    };
    let text = file.and_then(|file| text_of(&absolute(env, file)));
    let text = text.unwrap_or_default();
    project
        .ancestors()
        .any(|above| is_workspace_trusted(&text, &above.to_string_lossy()))
}

/// A path as the agents see it, which are started here.
fn absolute(env: &Env, path: PathBuf) -> PathBuf {
    match env.cwd() {
        Some(cwd) => cwd.join(path),
        None => path,
    }
}

/// What Codex calls a file with hooks: its directory with all links resolved, and its name.
pub(in crate::cli) fn codex_key_path(file: &Path) -> String {
    let directory = file.parent().unwrap_or(Path::new("/"));
    let (_, canonical) = path_spellings(&directory.to_string_lossy(), Path::new("/"));
    format!("{}/hooks.json", canonical.trim_end_matches('/'))
}

/// Every file that an agent reads in this project, those that count most last.
pub(in crate::cli) fn layers(env: &Env, host: Host, project: Option<&Path>) -> Vec<Layer> {
    let mut all = Vec::new();
    let mut add = |whose, path: Option<PathBuf>| {
        all.extend(path.map(|path| Layer {
            whose,
            path: absolute(env, path),
        }));
    };
    let user = user_directory(env, host);
    let of_user = |name: &str| user.as_ref().map(|user| user.join(name));
    let of_project = |name: &str| project.map(|project| project.join(name));
    match host {
        Host::ClaudeCode => {
            add("user", of_user("settings.json"));
            add("project", of_project(".claude/settings.json"));
            // Of the root of the work tree, it reads this one alone.
            let root = project.and_then(work_tree);
            let of_root = root.map(|root| root.join(".claude/settings.local.json"));
            add("project", of_root);
            add("project", of_project(".claude/settings.local.json"));
            let managed = PathBuf::from("/etc/claude-code/managed-settings.json");
            add("administrator", Some(managed));
            let more = list_operator_files(Path::new(CLAUDE_MANAGED), ".json");
            for path in more.unwrap_or_default() {
                add("administrator", Some(path));
            }
        }
        Host::Codex => {
            add("user", of_user("hooks.json"));
            add("user", of_user("config.toml"));
            for directory in project.map(down_to).unwrap_or_default() {
                add("project", Some(directory.join(".codex/hooks.json")));
                // It is not read where the project is not trusted.
                let trusted = codex_trusts(env, directory);
                add(
                    "project",
                    trusted.then(|| directory.join(".codex/config.toml")),
                );
            }
            let managed = PathBuf::from("/etc/codex/requirements.toml");
            add("administrator", Some(managed));
        }
        Host::Gemini => {
            let managed = env.own_path(env::GEMINI_SYSTEM_SETTINGS);
            let managed = managed.unwrap_or_else(|| "/etc/gemini-cli/settings.json".into());
            add("user", of_user("settings.json"));
            add("project", of_project(".gemini/settings.json"));
            add("administrator", Some(managed));
        }
        Host::Opencode | Host::Pi => {
            add("user", file_of(env, host, &Scope::User));
            let mut directories = project.map(down_to).unwrap_or_default();
            if host == Host::Pi {
                // It looks no further than where it is started.
                directories = project.into_iter().collect();
            }
            for directory in directories {
                let scope = Scope::Project(directory.to_owned());
                add("project", file_of(env, host, &scope));
            }
        }
    }
    // In the home directory the project's file is the user's.
    let mut seen = HashSet::new();
    all.retain(|layer| seen.insert(layer.path.clone()));
    all
}

/// The text of a layer, where it is there and can be read.
pub(in crate::cli) fn text_of(path: &Path) -> Option<String> {
    let file = ForeignFile::read(path, MAX_HOST_CONFIG_BYTES).ok()?;
    String::from_utf8(file.bytes()?.to_vec()).ok()
}

/// What keeps the hooks of an agent from running, and where it stands.
pub(in crate::cli) fn switched_off(
    env: &Env,
    host: Host,
    project: Option<&Path>,
) -> Vec<(PathBuf, Switched)> {
    let mut all = Vec::new();
    for layer in layers(env, host, project) {
        let Some(text) = text_of(&layer.path) else {
            continue;
        };
        let is_toml = layer.path.extension().is_some_and(|end| end == "toml");
        let found = if is_toml {
            toml_switches(&text).unwrap_or_default()
        } else {
            json_switches(host, &text)
        };
        // A lesser layer cannot say that only the administrator's hooks run.
        let counts = |switched: &Switched| match switched {
            Switched::ManagedOnly(_) => layer.whose == "administrator",
            Switched::Off(_) | Switched::ByName(_) => true,
        };
        let found = found.into_iter().filter(counts);
        all.extend(found.map(|switched| (layer.path.clone(), switched)));
    }
    all
}

/// The programs of this name on the search path, each once, the one that is started first.
pub(in crate::cli) fn on_path(env: &Env, name: &str) -> Vec<PathBuf> {
    let mut found: Vec<(PathBuf, PathBuf)> = Vec::new();
    for directory in env.search_path() {
        let path = directory.join(name);
        if !directory.is_absolute() || !is_program(&path) {
            continue;
        }
        let Some(real) = canonical_path(&path) else {
            continue;
        };
        if found.iter().all(|(_, other)| *other != real) {
            found.push((path, real));
        }
    }
    found.into_iter().map(|(path, _)| path).collect()
}
