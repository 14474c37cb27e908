//! What runs inside a host: the plugin of opencode and the extension of pi, as they are installed.
//!
//! Both are small on purpose. Each hands a call to `askrelay hook`, keeps its host to the answer, and ends the process where the answer
//! is not wanted any more. Whatever is to be decided is decided in the program.

/// The plugin, as it is written here.
const OPENCODE: &str = include_str!("shims/opencode.js");
/// The extension, as it is written here.
const PI: &str = include_str!("shims/pi.ts");
/// Where the place of the program stands in both.
const PROGRAM: &str = "const INSTALLED = \"askrelay\";";

/// The plugin of opencode, one file, which runs this program.
pub fn opencode(program: &str) -> String {
    with_program(OPENCODE, program)
}

/// The extension of pi, one file, which runs this program.
pub fn pi(program: &str) -> String {
    with_program(PI, program)
}

fn with_program(shim: &str, program: &str) -> String {
    // JSON texts are texts of JavaScript.
    let program = serde_json::Value::from(program);
    shim.replacen(PROGRAM, &format!("const INSTALLED = {program};"), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_the_program_is_written_into_both() {
        for (shim, installed) in [(OPENCODE, opencode as fn(&str) -> String), (PI, pi)] {
            assert_eq!(shim.matches(PROGRAM).count(), 1);
            let text = installed("/opt/a \"b\"\\c/askrelay");
            assert!(text.contains(r#"const INSTALLED = "/opt/a \"b\"\\c/askrelay";"#));
            assert_eq!(text.lines().count(), shim.lines().count());
            assert_eq!(installed("askrelay"), shim);
        }
    }

    #[test]
    fn neither_needs_anything_but_what_its_host_has() {
        for shim in [OPENCODE, PI] {
            let imports: Vec<&str> = shim
                .lines()
                .filter(|line| line.contains("import"))
                .collect();
            assert_eq!(imports.len(), 1, "{imports:?}");
            assert!(
                imports[0].ends_with("from \"node:child_process\";"),
                "{imports:?}"
            );
            assert!(!shim.contains("require("));
        }
    }
}
