//! `askrelay config check`: everything that is wrong with the files of the configuration, not the first fault alone.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::cli::exit::Exit;
use crate::cli::output::{self, Out};
use crate::cli::place::Place;
use crate::cli::project::ProjectSeen;
use crate::policy::{Config, FrontMatter, MAX_CONFIG_BYTES, Notice, Position};
use crate::presentation::text::visible;
use crate::spool::{OperatorFile, list_operator_files, look_at_operator_file, read_operator_file};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// One file: a configuration, or an agent's Markdown file [default: every file that would be read]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// One file, and what is to be said about it.
struct Checked {
    path: PathBuf,
    faults: Vec<Fault>,
    notices: Vec<Notice>,
}

struct Fault {
    /// Where; `None` where the file could not even be read.
    position: Option<Position>,
    key: Option<String>,
    nearest: Option<&'static str>,
    message: String,
}

pub(super) fn run(place: &Place<'_>, args: &Args) -> anyhow::Result<Exit> {
    let mut checked = Vec::new();
    if let Some(file) = &args.file {
        let path = place.absolute(file);
        checked.push(
            if path.extension().is_some_and(|extension| extension == "md") {
                agent(&path)
            } else {
                config(&path)
            },
        );
    } else {
        all(place, &mut checked)?;
    }
    let is_sound = checked.iter().all(|file| file.faults.is_empty());
    let mut out = Out::stdout();
    if args.json {
        let files: Vec<Value> = checked.iter().map(file_json).collect();
        out.json(&json!({"ok": is_sound, "files": files}))?;
    } else {
        for file in &checked {
            for line in lines(file) {
                out.line(&line)?;
            }
        }
        if checked.is_empty() {
            out.line("there is no configuration: the defaults hold")?;
        }
    }
    out.flush()?;
    if is_sound {
        Ok(Exit::Ok)
    } else {
        if !args.json {
            output::say(
                "\nhint: docs/configuration.md lists the keys; a file with an error is not used in part",
            );
        }
        Ok(Exit::Usage)
    }
}

/// Every file that a session here would read, trusted or not.
fn all(place: &Place<'_>, checked: &mut Vec<Checked>) -> anyhow::Result<()> {
    let layout = place.layout()?;
    let is_named = place.names_config();
    if let Some(path) = &layout.global {
        if is_named || look_at_operator_file(path).is_there() {
            checked.push(config(path));
        }
        let agents = path.parent().unwrap_or(Path::new("/")).join("agents");
        match list_operator_files(&agents, ".md") {
            Ok(paths) => checked.extend(paths.iter().map(|path| agent(path))),
            Err(error) => checked.push(unreadable(&agents, &error)),
        }
    }
    let Some(directory) = &layout.project else {
        return Ok(());
    };
    let seen = ProjectSeen::look(directory, None);
    let Some(files) = seen.files() else {
        return Ok(());
    };
    let below = |relative: &String| directory.join(relative);
    checked.extend(
        files
            .config
            .iter()
            .map(|file| config(&below(&file.relative))),
    );
    let agents = files.agents.iter();
    checked.extend(agents.map(|(_, file)| agent(&below(&file.relative))));
    Ok(())
}

fn config(path: &Path) -> Checked {
    with_bytes(path, |bytes, label| {
        let faults = Config::check(bytes, label).into_iter().map(|error| Fault {
            position: Some(error.position),
            key: error.problem.key().map(str::to_owned),
            nearest: error.problem.nearest(),
            message: error.problem.to_string(),
        });
        let faults: Vec<Fault> = faults.collect();
        let notices =
            Config::read(bytes, label).map_or_else(|_| Vec::new(), |config| config.notices);
        (faults, notices)
    })
}

fn agent(path: &Path) -> Checked {
    with_bytes(path, |bytes, label| {
        let fault = FrontMatter::read(bytes, label).err().map(|error| Fault {
            position: Some(error.position),
            key: None,
            nearest: None,
            message: error.problem.to_string(),
        });
        (fault.into_iter().collect(), Vec::new())
    })
}

fn with_bytes(
    path: &Path,
    check: impl FnOnce(&[u8], &str) -> (Vec<Fault>, Vec<Notice>),
) -> Checked {
    match read_operator_file(path, MAX_CONFIG_BYTES) {
        Ok(OperatorFile::Content(bytes)) => {
            let (faults, notices) = check(&bytes, &path.to_string_lossy());
            Checked {
                path: path.to_owned(),
                faults,
                notices,
            }
        }
        Ok(OperatorFile::Missing) => Checked {
            path: path.to_owned(),
            faults: vec![Fault::of_file("there is no such file".to_owned())],
            notices: Vec::new(),
        },
        Err(error) => unreadable(path, &error),
    }
}

fn unreadable(path: &Path, error: &crate::spool::SpoolError) -> Checked {
    Checked {
        path: path.to_owned(),
        faults: vec![Fault::of_file(crate::ask::describe(error))],
        notices: Vec::new(),
    }
}

impl Fault {
    fn of_file(message: String) -> Self {
        Self {
            position: None,
            key: None,
            nearest: None,
            message,
        }
    }
}

fn lines(file: &Checked) -> Vec<String> {
    let path = file.path.to_string_lossy();
    let path = visible(&path);
    if file.faults.is_empty() && file.notices.is_empty() {
        return vec![format!("{path}: ok")];
    }
    let faults = file.faults.iter().map(|fault| {
        let message = visible(&fault.message);
        match fault.position {
            Some(position) => format!("{path}:{position}: {message}"),
            None => format!("{path}: {message}"),
        }
    });
    let notices = file.notices.iter().map(|notice| {
        format!(
            "{path}:{}: note: {}",
            notice.position,
            visible(&notice.text)
        )
    });
    faults.chain(notices).collect()
}

fn file_json(file: &Checked) -> Value {
    let errors: Vec<Value> = file
        .faults
        .iter()
        .map(|fault| {
            json!({
                "line": fault.position.map(|position| position.line),
                "column": fault.position.map(|position| position.column),
                "key": fault.key,
                "nearest": fault.nearest,
                "message": fault.message,
            })
        })
        .collect();
    let notices: Vec<Value> = file
        .notices
        .iter()
        .map(|notice| {
            json!({
                "line": notice.position.line,
                "column": notice.position.column,
                "message": notice.text,
            })
        })
        .collect();
    json!({
        "path": file.path.to_string_lossy(),
        "ok": file.faults.is_empty(),
        "errors": errors,
        "notices": notices,
    })
}
