//! The options of a pool that this provider reads.

use baton_core::pools::PoolSpec;
use baton_server::providers::AGENT_PREFIX;

const TEMPLATE: &str = "launch_template";
const VERSION: &str = "launch_template_version";
const SUBNETS: &str = "subnets";
const REGION: &str = "region";
const PRICE: &str = "spot_max_price";
const SETUP: &str = "setup";
const PROGRAM: &str = "program";
const NAMES: [&str; 7] = [TEMPLATE, VERSION, SUBNETS, REGION, PRICE, SETUP, PROGRAM];

/// Most subnets of a pool: each is tried with each type.
const SUBNETS_MAX: usize = 20;
/// The version of a launch template that its owner has declared to be the one.
const VERSION_DEFAULT: &str = "$Default";
/// Where images have the program.
const PROGRAM_DEFAULT: &str = "/usr/local/bin/baton";

/// What a pool's machines are made from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Options {
    pub template: Template,
    /// A number, `$Default` or `$Latest`.
    pub version: String,
    /// None: where the launch template says.
    pub subnets: Vec<String>,
    pub region: Option<String>,
    /// Most dollars for an hour of a spot machine.
    pub spot_max_price: Option<String>,
    /// Shell commands that are run before the agent.
    pub setup: Option<String>,
    /// The program that is the agent.
    pub program: String,
}

/// A launch template.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Template {
    Id(String),
    Name(String),
}

impl Options {
    /// Reads the options, or says what is wrong with them.
    pub fn of(spec: &PoolSpec) -> Result<Options, String> {
        let is_known = |name: &String| NAMES.contains(&name.as_str()) || name.starts_with(AGENT_PREFIX);
        if let Some(name) = spec.options.keys().find(|name| !is_known(name)) {
            return Err(format!(
                "options: the provider ec2 knows no {name}; it knows {}, and those of agents begin with {AGENT_PREFIX}",
                NAMES.join(", ")
            ));
        }
        if spec.types.is_empty() {
            return Err(
                "the provider ec2 needs types: instance types such as m7i.large, or patterns such as m7?.large".into(),
            );
        }
        if let Some(wrong) = spec.types.iter().find(|kind| !kind.chars().all(|c| is_plain(c) || "*?".contains(c))) {
            return Err(format!("types: {wrong:?} is no instance type, and no pattern of some"));
        }
        let option = |name: &str| spec.options.get(name).map(|value| value.trim()).filter(|value| !value.is_empty());
        let template = option(TEMPLATE).ok_or_else(|| {
            format!("the provider ec2 needs options.{TEMPLATE}: the id (lt-...) or the name of a launch template")
        })?;
        let version = option(VERSION).unwrap_or(VERSION_DEFAULT);
        let is_number = version.len() <= 18 && version.parse::<u64>().is_ok_and(|number| number > 0);
        if !is_number && !matches!(version, "$Default" | "$Latest") {
            return Err(format!("options.{VERSION}: {version:?} must be a number, $Default or $Latest"));
        }
        let region = option(REGION);
        if let Some(wrong) = region.filter(|region| region.len() > 40 || !region.chars().all(is_plain)) {
            return Err(format!("options.{REGION}: {wrong:?} is no region; one is eu-central-1"));
        }
        let price = option(PRICE);
        if let Some(wrong) = price.filter(|price| !is_price(price)) {
            return Err(format!(
                "options.{PRICE}: {wrong:?} must be dollars for an hour, as in 0.05, and more than 0.001"
            ));
        }
        let program = option(PROGRAM).unwrap_or(PROGRAM_DEFAULT);
        if !program.starts_with('/') {
            return Err(format!("options.{PROGRAM}: {program:?} must be a path that begins with /"));
        }
        Ok(Options {
            template: Template::of(template)?,
            version: version.to_owned(),
            subnets: subnets(option(SUBNETS).unwrap_or_default())?,
            region: region.map(str::to_owned),
            spot_max_price: price.map(str::to_owned),
            setup: option(SETUP).map(str::to_owned),
            program: program.to_owned(),
        })
    }
}

impl Template {
    fn of(text: &str) -> Result<Template, String> {
        if is_id("lt-", text) {
            return Ok(Template::Id(text.to_owned()));
        }
        // What EC2 says of names.
        let is_good = |c: char| c.is_ascii_alphanumeric() || "()./_-".contains(c);
        match (3..=128).contains(&text.len()) && text.chars().all(is_good) {
            true => Ok(Template::Name(text.to_owned())),
            false => {
                Err(format!("options.{TEMPLATE}: {text:?} is neither an id (lt-...) nor a name of a launch template"))
            }
        }
    }
}

fn subnets(text: &str) -> Result<Vec<String>, String> {
    let mut subnets = Vec::new();
    for subnet in text.split(',').map(str::trim).filter(|subnet| !subnet.is_empty()) {
        if !is_id("subnet-", subnet) {
            return Err(format!(
                "options.{SUBNETS}: {subnet:?} is no subnet; they are listed as in subnet-0a1b,subnet-2c3d"
            ));
        }
        if !subnets.iter().any(|known| known == subnet) {
            subnets.push(subnet.to_owned());
        }
    }
    match subnets.len() > SUBNETS_MAX {
        true => Err(format!("options.{SUBNETS} may list at most {SUBNETS_MAX}")),
        false => Ok(subnets),
    }
}

/// Whether this is an identifier of EC2 with such a beginning.
pub(crate) fn is_id(prefix: &str, text: &str) -> bool {
    let is_hex = |rest: &str| (1..=40).contains(&rest.len()) && rest.chars().all(|c| c.is_ascii_hexdigit());
    text.strip_prefix(prefix).is_some_and(is_hex)
}

fn is_plain(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.')
}

fn is_price(text: &str) -> bool {
    let is_decimal = text.len() <= 12 && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    is_decimal && text.parse::<f64>().is_ok_and(|price| price > 0.001)
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
