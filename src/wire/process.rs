//! Which process wrote a document, as far as a pid can say it.

use super::json::Fields;

/// A pid is reused and means nothing in another boot or namespace; these three make it comparable.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProcessMark {
    /// Start time of the process, in the kernel's own unit since boot.
    pub pid_start: Option<String>,
    /// Id of the boot.
    pub boot_id: Option<String>,
    /// Pid namespace.
    pub pid_ns: Option<String>,
}

impl ProcessMark {
    pub(crate) fn read(fields: &Fields<'_>) -> Self {
        Self {
            pid_start: fields.text("pidStart"),
            boot_id: fields.text("bootId"),
            pid_ns: fields.text("pidNs"),
        }
    }

    /// Whether pids of the two can be compared at all.
    pub fn same_pids(&self, other: &Self) -> bool {
        self.boot_id.is_some()
            && self.boot_id == other.boot_id
            && self.pid_ns.is_some()
            && self.pid_ns == other.pid_ns
    }
}
