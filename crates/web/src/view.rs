//! What a page knows of the one who looks at it.

use std::sync::Arc;

use baton_core::Millis;
use baton_proto::NAMESPACE_DEFAULT;
use baton_server::{App, Caller, Error, Scope};
use http::{HeaderMap, Uri};
use jiff::tz::TimeZone;

use crate::parts;
use crate::query::{Query, escape};
use crate::session::{Visitor, cookie};

/// The cookie in which the script leaves the reader's time zone.
const ZONE: &str = "baton_zone";
/// The cookie in which it leaves the theme.
const THEME: &str = "baton_theme";
/// How long a namespace may be.
const NAMESPACE_MAX: usize = 200;
/// How long the name of a host may be.
const HOST_MAX: usize = 255;

/// Who looks at what, from where.
#[derive(Clone, Debug)]
pub struct View {
    /// The server.
    pub app: App,
    /// Who looks.
    pub caller: Arc<Caller>,
    /// The namespace that is shown.
    pub namespace: String,
    /// The path of the page.
    pub path: String,
    /// Its query.
    pub query: Query,
    /// Where the browser reached this server: `http://127.0.0.1:7400`.
    pub base: String,
    /// The reader's time zone.
    pub zone: TimeZone,
    /// `dark`, `light`, or what the system says.
    pub theme: Option<&'static str>,
    /// Now, on the store's clock.
    pub now: Millis,
    /// True for a page that is made again for somebody who has it: what the script adds by itself is left out.
    pub is_again: bool,
}

impl View {
    /// What a request asks to see.
    pub async fn of(app: &App, visitor: &Visitor, headers: &HeaderMap, uri: &Uri) -> Result<View, Error> {
        let query = Query::parse(uri.query().unwrap_or_default());
        let own = visitor.caller.namespace.clone();
        let asked = query.get("ns").filter(|name| name.len() <= NAMESPACE_MAX).map(str::to_owned);
        let namespace = asked.or(own).unwrap_or_else(|| NAMESPACE_DEFAULT.to_owned());
        let zone = cookie(headers, ZONE).and_then(crate::query::unescape).and_then(|name| TimeZone::get(&name).ok());
        let theme = match cookie(headers, THEME) {
            Some("dark") => Some("dark"),
            Some("light") => Some("light"),
            _ => None,
        };
        Ok(View {
            app: app.clone(),
            caller: visitor.caller.clone(),
            namespace,
            path: uri.path().to_owned(),
            query,
            base: base(app, headers),
            zone: zone.unwrap_or(TimeZone::UTC),
            theme,
            now: app.time.now().await?,
            is_again: false,
        })
    }

    /// The same a moment later.
    pub async fn again(&self) -> Result<View, Error> {
        Ok(View { now: self.app.time.now().await?, is_again: true, ..self.clone() })
    }

    /// True when the caller may do this in the namespace that is shown.
    pub fn may(&self, scope: Scope) -> bool {
        self.caller.can(scope) && self.caller.sees(&self.namespace)
    }

    /// An address in the namespace that is shown. `path` may have a query.
    pub fn href(&self, path: &str) -> String {
        if self.namespace == self.caller.namespace.as_deref().unwrap_or(NAMESPACE_DEFAULT) {
            return path.to_owned();
        }
        let (path, fragment) = path.split_once('#').map_or((path, None), |(path, fragment)| (path, Some(fragment)));
        let joined = if path.contains('?') { '&' } else { '?' };
        let fragment = fragment.map_or_else(String::new, |fragment| format!("#{fragment}"));
        format!("{path}{joined}ns={}{fragment}", escape(&self.namespace))
    }

    /// A command that means this server, and the namespace that is shown where `has_namespace`.
    pub fn command(&self, arguments: &str, has_namespace: bool) -> String {
        let mut text = format!("baton {arguments}");
        if has_namespace && self.namespace != NAMESPACE_DEFAULT {
            text.push_str(&format!(" --namespace {}", parts::word(&self.namespace)));
        }
        text.push_str(&format!(" --url {}", parts::word(&self.base)));
        let data = &self.app.settings.data;
        // Where the key is is nobody's business who could not read it.
        if self.is_here() && self.may(Scope::Admin) && *data != baton_server::data_default() {
            text.push_str(&format!(" --data {}", parts::word(&data.display().to_string())));
        }
        text
    }

    /// True when the browser is on the machine of the server, as far as the address that it uses tells.
    pub fn is_here(&self) -> bool {
        is_loopback(&self.base)
    }

    /// This page with another value of a parameter, from its beginning.
    pub fn here_with(&self, name: &str, value: &str) -> String {
        self.query.without("after").without("before").with(name, value).at(&self.path)
    }
}

/// The address in the browser, as far as its requests tell.
fn base(app: &App, headers: &HeaderMap) -> String {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let is_plain = |host: &&str| {
        host.len() <= HOST_MAX && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte))
    };
    let host = text("host").filter(is_plain).unwrap_or(&app.settings.listen);
    let is_encrypted = app.tls.get().is_some() || text("x-forwarded-proto") == Some("https");
    format!("{}://{host}", if is_encrypted { "https" } else { "http" })
}

fn is_loopback(base: &str) -> bool {
    let host = base.split_once("://").map_or(base, |(_, host)| host);
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    matches!(name, "localhost" | "127.0.0.1" | "[::1]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_on_the_machine_of_the_server_is_known_by_its_address() {
        let here = ["http://127.0.0.1:7400", "http://localhost:7400", "http://[::1]:7400", "https://localhost"];
        here.iter().for_each(|base| assert!(is_loopback(base), "{base}"));
        let elsewhere = ["https://baton.internal", "http://localhost.evil:80", "http://10.0.0.7:7400", ""];
        elsewhere.iter().for_each(|base| assert!(!is_loopback(base), "{base}"));
    }
}
