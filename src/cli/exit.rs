//! Every exit code, in one place.

use std::process::ExitCode;

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It worked; an ask was approved.
    Ok,
    /// An ask was denied by an authority; what was looked for is not there.
    Denied,
    /// Wrong usage, or a configuration that cannot be used.
    Usage,
    /// Nobody ruled on an ask; the machine failed.
    NobodyRuled,
    /// A command could not be started because it was not found.
    NotFound,
    /// Interrupted; what was asked was withdrawn.
    Interrupted,
    /// The command that was run ended so.
    Command(u8),
}

impl Exit {
    /// The code.
    pub const fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Denied => 1,
            Self::Usage => 2,
            Self::NobodyRuled => 3,
            Self::NotFound => 127,
            Self::Interrupted => 130,
            Self::Command(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
