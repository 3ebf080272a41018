//! The processes that the tests start.

use std::env;
use std::process::{Command, Stdio};

/// The variable of a child's environment with the name of what it does.
const ROLE: &str = "DAMPER_SHM_TEST_ROLE";

/// Returns a command that starts this binary again, to do nothing but `role`.
pub(crate) fn child(role: &str) -> Command {
    let mut command = Command::new(env::current_exe().expect("the test binary has a path"));
    command.args(["--exact", "children::run_role", "--nocapture", "--test-threads=1"]);
    command.env(ROLE, role).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
    command
}

/// Does what a child was started for; without a role, in the run of all tests, that is nothing.
#[test]
fn run_role() {
    let Ok(role) = env::var(ROLE) else { return };
    match role.as_str() {
        "adds_ten" => crate::inherit::adds_ten(),
        "has_no_words" => crate::inherit::has_no_words(),
        "has_bad_variable" => crate::inherit::has_bad_variable(),
        "receives" => crate::socket::receives(),
        "holds_slots" => crate::workers::holds_slots(),
        "stays" => crate::workers::stays(),
        "takes_tokens" => crate::workers::takes_tokens(),
        "ends" => {}
        _ => panic!("unknown role: {role}"),
    }
    // Without the summary of a test runner, for which nobody reads the pipe any more.
    std::process::exit(0);
}
