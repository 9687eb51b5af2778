//! The settings of GitHub, where runners of pools are registered.

use super::Settings;
use crate::github::Secret;

const GITHUB: &str = "https://github.com";
const GITHUB_API: &str = "https://api.github.com";
/// Enterprise with data residency has its API beside its pages, as GitHub itself does.
const RESIDENT: &str = ".ghe.com";

impl Settings {
    /// Where the API is.
    pub(crate) fn github_api(&self) -> String {
        if let Some(url) = &self.github_api_url {
            return url.trim_end_matches('/').to_owned();
        }
        match self.github_pages() {
            GITHUB => GITHUB_API.to_owned(),
            url => match url.strip_prefix("https://").filter(|host| host.ends_with(RESIDENT)) {
                Some(host) => format!("https://api.{host}"),
                None => format!("{url}/api/v3"),
            },
        }
    }

    /// Where repositories and organizations have their pages.
    pub(crate) fn github_pages(&self) -> &str {
        self.github_url.trim_end_matches('/')
    }

    /// Says what is lacking to call GitHub at all.
    pub(crate) fn has_github_access(&self) -> Result<(), String> {
        match self.github_token.is_some() || self.github_token_file.is_some() {
            true => Ok(()),
            false => Err("this server has no token for GitHub: set github_token_file (or github_token)".into()),
        }
    }

    /// The token, as it is now.
    pub(crate) async fn github_access(&self) -> Result<Secret, String> {
        self.has_github_access()?;
        let token = match &self.github_token_file {
            // Whoever renews it puts it there, and nobody has to start the server anew.
            Some(path) => match tokio::fs::read_to_string(path).await {
                Ok(text) => Secret::from(text.trim().to_owned()),
                Err(error) => {
                    tracing::error!(path, %error, "the file with the token for GitHub cannot be read");
                    return Err("the server cannot read its token for GitHub".into());
                }
            },
            None => self.github_token.clone().unwrap_or_default(),
        };
        match token.reveal().is_empty() {
            true => Err("the server's token for GitHub is empty".into()),
            false => Ok(token),
        }
    }

    /// Addresses that cannot be meant.
    pub(super) fn check_github(&self) -> Result<(), String> {
        let urls = [("github_url", Some(&self.github_url)), ("github_api_url", self.github_api_url.as_ref())];
        match urls.iter().find(|(_, url)| url.is_some_and(|url| !is_safe(url))) {
            // A token is sent there.
            Some((name, _)) => Err(format!("{name} must begin with https:// (or with http:// for this machine alone)")),
            None => Ok(()),
        }
    }
}

fn is_safe(url: &str) -> bool {
    let is_host = |rest: &str| !rest.is_empty() && !rest.starts_with('/') && !rest.contains(['?', '#', '@', ' ']);
    if let Some(rest) = url.strip_prefix("https://") {
        return is_host(rest);
    }
    let here = ["127.0.0.1", "localhost", "[::1]"];
    let Some(rest) = url.strip_prefix("http://").filter(|rest| is_host(rest)) else { return false };
    let after = here.iter().find_map(|host| rest.strip_prefix(host));
    after.is_some_and(|after| after.is_empty() || after.starts_with([':', '/']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api(url: &str) -> String {
        Settings { github_url: url.into(), ..Settings::default() }.github_api()
    }

    #[test]
    fn the_api_goes_with_the_address() {
        assert_eq!(api("https://github.com/"), "https://api.github.com");
        assert_eq!(api("https://acme.ghe.com"), "https://api.acme.ghe.com");
        assert_eq!(api("https://github.acme.com"), "https://github.acme.com/api/v3");
        let other = Settings { github_api_url: Some("https://proxy/x/".into()), ..Settings::default() };
        assert_eq!(other.github_api(), "https://proxy/x");
    }

    #[test]
    fn a_token_is_not_sent_in_the_clear() {
        for good in ["https://github.acme.com", "http://127.0.0.1:80", "http://localhost/x"] {
            assert!(is_safe(good), "{good}");
        }
        for wrong in ["", "github.com", "http://github.com", "https://", "http://127.0.0.1.acme.com", "https://a@b"] {
            assert!(!is_safe(wrong), "{wrong}");
        }
    }

    #[tokio::test]
    async fn a_token_is_read_anew_and_never_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_string_lossy().into_owned();
        let settings = Settings { github_token_file: Some(path), ..Settings::default() };
        assert!(settings.github_access().await.unwrap_err().contains("empty"));
        for token in ["one", "two"] {
            std::fs::write(file.path(), format!("{token}\n")).unwrap();
            assert_eq!(settings.github_access().await.unwrap().reveal(), token);
        }
        assert!(Settings::default().github_access().await.unwrap_err().contains("github_token_file"));
        let shown = Settings { github_token: Some("hidden".to_owned().into()), ..Settings::default() };
        assert!(!format!("{shown:?}").contains("hidden"));
    }
}
