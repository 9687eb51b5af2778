//! The start data of a machine: a script that cloud-init runs once, as root, on the first start, and that starts the agent.

use std::collections::BTreeMap;
use std::fmt::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use baton_core::pools::PoolSpec;
use baton_server::providers::agent_variables;

use crate::options::Options;

/// What EC2 takes, before it is encoded.
const USER_DATA_BYTES_MAX: usize = 16 * 1024;
/// Room for what is not known yet when a pool is made: where the server is, and the credential.
const ROOM_BYTES: usize = 1024;
/// Where cloud-init says which machine this is.
const INSTANCE_ID: &str = "/var/lib/cloud/data/instance-id";
/// What an agent is told where the pool does not say otherwise. The machine is its own, so it ends it as a whole; and where cloud-init starts it,
/// nobody has a home.
const UNLESS_GIVEN: [(&str, &str); 2] =
    [("BATON_AGENT_END_WITH", "shutdown"), ("BATON_AGENT_WORK_DIRECTORY", "/var/lib/baton/agent")];

/// Says whether what the pool wants its machines to do has room in their start data.
pub(crate) fn check(options: &Options, spec: &PoolSpec) -> Result<(), String> {
    let bytes = script(options, &agent_variables(&spec.options)).len() + ROOM_BYTES;
    match bytes > USER_DATA_BYTES_MAX {
        true => Err(format!(
            "options: setup and what is for agents make {bytes} bytes of start data, and EC2 takes {USER_DATA_BYTES_MAX}; \
             what is longer belongs into the image, or is fetched by setup"
        )),
        false => Ok(()),
    }
}

/// The start data of machines whose agents are started with these variables.
pub(crate) fn user_data(options: &Options, environment: &BTreeMap<String, String>) -> Result<String, String> {
    let script = script(options, environment);
    match script.len() > USER_DATA_BYTES_MAX {
        true => Err(format!("the start data has {} bytes, and EC2 takes {USER_DATA_BYTES_MAX}", script.len())),
        false => Ok(BASE64_STANDARD.encode(script)),
    }
}

fn script(options: &Options, environment: &BTreeMap<String, String>) -> String {
    let mut script =
        "#!/bin/sh\n# Baton wrote this for the machines of one order. It holds a credential.\nset -eu\n".to_owned();
    if let Some(setup) = &options.setup {
        // Before the variables: it has no use for the credential.
        let _ = writeln!(script, "(\n{setup}\n)");
    }
    let given = UNLESS_GIVEN.iter().filter(|(name, _)| !environment.contains_key(*name)).copied();
    let variables = given.chain(environment.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    for (name, value) in variables {
        let _ = writeln!(script, "export {name}={}", quoted(value));
    }
    let _ = writeln!(script, "export HOME=\"${{HOME:-/root}}\"");
    let _ = writeln!(script, "BATON_MACHINE_ID=$(cat {INSTANCE_ID})\nexport BATON_MACHINE_ID");
    // Beside cloud-init, which is to come to its end.
    let program = quoted(&options.program);
    let _ = writeln!(script, "nohup {program} agent </dev/null >>/var/log/baton-agent.log 2>&1 &");
    script
}

/// A text as one word of the shell, whatever is in it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
#[path = "start_tests.rs"]
mod tests;
