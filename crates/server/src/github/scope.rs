//! Where the runners of a pool are to be registered: the pool's options that begin with `github.`.

use std::collections::BTreeMap;

const PREFIX: &str = "github.";
const REPOSITORY: &str = "github.repository";
const ORGANIZATION: &str = "github.organization";
const GROUP: &str = "github.runner_group_id";
const METHOD: &str = "github.registration";
/// Hooks are for pools that register elsewhere.
const HOOKS: [&str; 2] = ["agent.register_hook", "agent.deregister_hook"];

/// How a runner is registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// With a configuration that is made for it alone.
    Jit,
    /// With a token.
    Token,
}

/// The repository or the organization that gets the runners of a pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GithubScope {
    /// `owner/repository`, or the organization.
    name: String,
    is_repository: bool,
    /// The runner group; none is the default one.
    pub group: Option<u64>,
    /// How they are registered.
    pub method: Method,
}

impl GithubScope {
    /// Whether an option is about this.
    fn is_option(name: &str) -> bool {
        name.starts_with(PREFIX)
    }

    /// Takes out the options about this: providers have nothing to do with where machines are
    /// registered.
    pub fn strip(options: &mut BTreeMap<String, String>) {
        options.retain(|name, _| !GithubScope::is_option(name));
    }

    /// What the options of a pool say, if it is one for GitHub.
    pub fn of(options: &BTreeMap<String, String>) -> Result<Option<GithubScope>, String> {
        let known = [REPOSITORY, ORGANIZATION, GROUP, METHOD];
        let own = || options.keys().filter(|name| GithubScope::is_option(name));
        if let Some(other) = own().find(|name| !known.contains(&name.as_str())) {
            return Err(format!("options: there is no {other}; {} are known", known.join(", ")));
        }
        let (name, is_repository) = match (options.get(REPOSITORY), options.get(ORGANIZATION)) {
            (Some(repository), None) => (repository, true),
            (None, Some(organization)) => (organization, false),
            (None, None) if own().next().is_none() => return Ok(None),
            _ => return Err(format!("options: one of {REPOSITORY} and {ORGANIZATION} is wanted")),
        };
        let is_right = match is_repository {
            true => name.split_once('/').is_some_and(|(owner, repository)| is_name(owner) && is_name(repository)),
            false => is_name(name),
        };
        if !is_right {
            let like = if is_repository { "acme/shop" } else { "acme" };
            return Err(format!("options: {name:?} is not a name like {like}"));
        }
        if let Some(hook) = HOOKS.iter().find(|hook| options.contains_key(**hook)) {
            return Err(format!("options: a pool that registers at GitHub has no {hook}"));
        }
        let group = options.get(GROUP).map(|group| group.parse::<u64>()).transpose();
        let method = match options.get(METHOD).map(String::as_str) {
            None | Some("jit") => Method::Jit,
            Some("token") => Method::Token,
            Some(_) => return Err(format!("options: {METHOD} must be jit or token")),
        };
        let group = group.map_err(|_| format!("options: {GROUP} must be a number"))?;
        if method == Method::Token && group.is_some() {
            return Err(format!(
                "options: {GROUP} does not go with {METHOD}=token, which registers in the default group"
            ));
        }
        Ok(Some(GithubScope { name: name.clone(), is_repository, group, method }))
    }

    /// Where its runners are in the API.
    pub fn path(&self) -> String {
        let kind = if self.is_repository { "repos" } else { "orgs" };
        format!("/{kind}/{}/actions/runners", self.name)
    }

    /// Its address, for people and for `config.sh`.
    pub fn url(&self, github: &str) -> String {
        format!("{github}/{}", self.name)
    }
}

fn is_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=100).contains(&text.len()) && text.chars().all(is_plain) && !matches!(text, "." | "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(options: &[(&str, &str)]) -> Result<Option<GithubScope>, String> {
        GithubScope::of(&options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn a_pool_is_for_a_repository_or_for_an_organization() {
        assert_eq!(of(&[("script", "x")]), Ok(None));
        let repository = of(&[("github.repository", "acme/shop")]).unwrap().unwrap();
        assert_eq!(repository.path(), "/repos/acme/shop/actions/runners");
        assert_eq!(repository.url("https://github.com"), "https://github.com/acme/shop");
        assert_eq!((repository.group, repository.method), (None, Method::Jit));
        let organization = of(&[("github.organization", "acme"), ("github.runner_group_id", "7")]).unwrap().unwrap();
        assert_eq!(organization.path(), "/orgs/acme/actions/runners");
        assert_eq!((organization.group, organization.method), (Some(7), Method::Jit));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for wrong in [
            &[("github.repository", "acme")][..],
            &[("github.repository", "acme/shop/x")],
            &[("github.repository", "../orgs")],
            &[("github.repository", "a/b?x")],
            &[("github.organization", "a/b")],
            &[("github.organization", "")],
            &[("github.repository", "a/b"), ("github.organization", "a")],
            &[("github.runner_group_id", "1")],
            &[("github.repository", "a/b"), ("github.runner_group_id", "one")],
            &[("github.repository", "a/b"), ("github.registration", "x")],
            &[("github.repository", "a/b"), ("github.repo", "x")],
            &[("github.organization", "a"), ("github.registration", "token"), ("github.runner_group_id", "7")],
            &[("github.repository", "a/b"), ("agent.register_hook", "true")],
        ] {
            assert!(of(wrong).is_err(), "{wrong:?}");
        }
    }
}
