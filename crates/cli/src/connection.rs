//! Where the server is, and the key to it.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use baton::{Client, ClientError};
use baton_server::address_file;
use clap::{ArgMatches, Args, parser::ValueSource};

use crate::commands::patience::until_answered;
use crate::contexts::{Context, Contexts, normal};
use crate::exit::Exit;
use crate::tls::TlsArgs;

/// Options of every command.
#[derive(Args, Default)]
#[command(next_help_heading = "Server")]
pub struct Connection {
    /// Address of the server. [default: that of the context, or of the server running on this
    /// machine, or http://127.0.0.1:7400 with a key]
    #[arg(long, global = true, env = "BATON_URL", value_name = "URL")]
    pub url: Option<String>,
    /// API key. [default: that of the context, or the one that a server left in its data directory;
    /// each goes to its own server alone]
    #[arg(long, global = true, env = "BATON_API_KEY", hide_env_values = true, value_name = "KEY")]
    pub api_key: Option<String>,
    /// Server that you have logged in to. [default: what `baton context use` says]
    #[arg(long, global = true, env = "BATON_CONTEXT", value_name = "NAME")]
    pub context: Option<String>,
    /// Data directory of the server. [default: the user's data directory]
    #[arg(long, global = true, env = "BATON_DATA", value_name = "DIR")]
    pub data: Option<PathBuf>,
    #[command(flatten)]
    pub tls: TlsArgs,
    /// The contexts, once they were read.
    #[arg(skip)]
    contexts: Contexts,
}

/// Where a server listens unless told otherwise.
const URL_DEFAULT: &str = "http://127.0.0.1:7400";

/// The address at which a server that listens everywhere can be reached from here.
fn reachable(address: SocketAddr) -> String {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => format!("127.0.0.1:{}", address.port()),
        IpAddr::V6(ip) if ip.is_unspecified() => format!("[::1]:{}", address.port()),
        IpAddr::V4(_) | IpAddr::V6(_) => address.to_string(),
    }
}

/// The address in the file that a server leaves: `127.0.0.1:7400`, or `https://127.0.0.1:7400`.
pub fn url_left(text: &str) -> Option<String> {
    let (scheme, address) = text.trim().split_once("://").unwrap_or(("http", text.trim()));
    address.parse().ok().map(|address| format!("{scheme}://{}", reachable(address)))
}

/// Whether `url` says localhost and means the server on this machine that left the address `left`. That address is then
/// used: the name may lead to another program with the same port, which must not get the key.
fn is_localhost_of(url: &str, left: &str) -> bool {
    let url = url.trim_end_matches('/');
    ["127.0.0.1:", "[::1]:"].iter().any(|here| left.replacen(here, "localhost:", 1) == url)
}

impl Connection {
    /// Settles which server is meant: what the command line names wins over what the environment
    /// does, and both over the context that is in use.
    pub fn settle(&mut self, matches: &ArgMatches) -> Result<(), Exit> {
        let is_flag = |name: &str| matches.value_source(name) == Some(ValueSource::CommandLine);
        // An empty variable of the environment is one that is not set.
        self.context = self.context.take().filter(|name| !name.is_empty());
        if is_flag("url") && is_flag("context") {
            return Err(Exit::usage("--url and --context both name a server; leave out one of them"));
        }
        if is_flag("context") {
            self.url = None;
            self.api_key = self.api_key.take().filter(|_| is_flag("api_key"));
        } else if self.url.is_some() {
            self.context = None;
        }
        self.contexts = Contexts::load()?;
        self.find_context().map(drop)
    }

    /// The context of the server that is meant, if it is one of a context.
    fn find_context(&self) -> Result<Option<&Context>, Exit> {
        if let Some(url) = &self.url {
            return Ok(self.contexts.of_url(url));
        }
        match (&self.context, &self.contexts.current) {
            (Some(name), _) => self.contexts.get(name).map(Some),
            // Whoever names a data directory means the server there.
            (None, Some(name)) if self.data.is_none() => self.contexts.get(name).map(Some),
            (None, _) => Ok(None),
        }
    }

    fn context(&self) -> Option<&Context> {
        self.find_context().ok().flatten()
    }

    /// A client of the server.
    pub fn client(&self) -> Result<Client, Exit> {
        if !self.is_named() && self.left_url().is_none() {
            return Err(Exit::unreachable(self.nobody_runs()));
        }
        self.client_with(&self.find_api_key()?.unwrap_or_default())
    }

    /// Whether somebody has said which server is meant.
    fn is_named(&self) -> bool {
        self.url.is_some() || self.api_key.is_some() || self.context().is_some()
    }

    /// A client of the server with this key, whether or not there is one.
    pub fn client_with(&self, api_key: &str) -> Result<Client, Exit> {
        Ok(Client::new_with_tls(&self.find_url(), api_key, &self.tls_options()?)?)
    }

    /// Which servers are believed. The one on this machine is, whatever its certificate says: who
    /// can write into its data directory has its key as well.
    pub fn tls_options(&self) -> Result<baton::Tls, Exit> {
        let is_own = self.left_url().as_deref() == Some(self.find_url().trim_end_matches('/'));
        let left = is_own.then(|| self.data_directory().join(baton_server::tls::PIN_FILE));
        match self.context() {
            Some(context) => self.tls.or(context.ca.clone(), context.tls_pin.clone()).options(left),
            None => self.tls.options(left),
        }
    }

    /// As [`Connection::client`], for what must not be lost while a server restarts: one that has
    /// run on this machine and has stopped is waited for.
    pub async fn patient_client(&self) -> Result<Client, Exit> {
        if !self.is_named() && self.admin_key_path().exists() {
            until_answered(async || match self.left_url() {
                Some(_) => Ok(()),
                None => Err(ClientError::Unreachable(self.nobody_runs())),
            })
            .await?;
        }
        self.client()
    }

    fn nobody_runs(&self) -> String {
        format!(
            "no server is running for {}; start it with baton serve, or name one with --url and --api-key, or log in to \
             one with baton login",
            self.data_directory().display()
        )
    }

    /// Where a server on this machine keeps its files.
    pub fn data_directory(&self) -> PathBuf {
        self.data.clone().unwrap_or_else(baton_server::data_default)
    }

    /// The address as given, or that of the context, or as a server on this machine left it, or the
    /// usual one.
    pub fn find_url(&self) -> String {
        let left = self.left_url();
        match (&self.url, self.context()) {
            (Some(url), _) => left.filter(|left| is_localhost_of(url, left)).unwrap_or_else(|| url.clone()),
            (None, Some(context)) => context.url.clone(),
            (None, None) => left.unwrap_or_else(|| URL_DEFAULT.to_owned()),
        }
    }

    /// The address that a server on this machine left, if it is still there.
    fn left_url(&self) -> Option<String> {
        let left = address_file::read(&self.data_directory().join(baton_server::ADDRESS_FILE))?;
        url_left(&left)
    }

    /// Where the key was found that nobody gave.
    pub fn key_place(&self) -> String {
        match self.context().and_then(|context| context.api_key.as_ref()) {
            Some(_) => "the context (`baton context list`)".into(),
            None => self.admin_key_path().display().to_string(),
        }
    }

    /// Where a server on this machine leaves its first key.
    pub fn admin_key_path(&self) -> PathBuf {
        self.data_directory().join("admin.key")
    }

    /// The key as given, or that of the context, or as a server on this machine left it, or none. A key that was kept goes
    /// to the server that it was kept for and to nobody else: any program may listen where a server usually does, and keep
    /// what it is sent.
    pub fn find_api_key(&self) -> Result<Option<String>, Exit> {
        if let Some(key) = &self.api_key {
            return Ok(Some(key.clone()));
        }
        if let Some(context) = self.context().filter(|context| normal(&context.url) == normal(&self.find_url()))
            && let Some(key) = &context.api_key
        {
            return Ok(Some(key.clone()));
        }
        if self.left_url().as_deref() != Some(self.find_url().trim_end_matches('/')) {
            return Ok(None);
        }
        let path = self.admin_key_path();
        match std::fs::read_to_string(&path) {
            Ok(key) => Ok(Some(key.trim().to_owned())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            // Another user's server: whoever may not read the file has to bring a key.
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Ok(None),
            Err(error) => Err(Exit::failed(format!("cannot read {}: {error}", path.display()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use baton_server::address_file::AddressFile;

    use super::*;

    fn connection(directory: &tempfile::TempDir, url: Option<&str>, key: Option<&str>) -> Connection {
        let (url, api_key) = (url.map(str::to_owned), key.map(str::to_owned));
        Connection { url, api_key, data: Some(directory.path().to_owned()), ..Connection::default() }
    }

    fn with_contexts(url: Option<&str>, key: Option<&str>, context: Option<&str>) -> Connection {
        let kept =
            |url: &str, key: &str| Context { url: url.into(), api_key: Some(key.into()), ca: None, tls_pin: None };
        let contexts = [
            ("prod".to_owned(), kept("https://prod.example", "bk_prod")),
            ("test".to_owned(), kept("http://test.example:7400/", "bk_test")),
        ];
        Connection {
            url: url.map(str::to_owned),
            api_key: key.map(str::to_owned),
            context: context.map(str::to_owned),
            contexts: Contexts { current: Some("prod".into()), contexts: contexts.into() },
            ..Connection::default()
        }
    }

    #[test]
    fn a_context_says_where_the_server_is_unless_somebody_says_otherwise() {
        let found = |connection: &Connection| (connection.find_url(), connection.find_api_key().unwrap());
        let some = |text: &str| Some(text.to_owned());
        let current = with_contexts(None, None, None);
        assert_eq!(found(&current), ("https://prod.example".into(), some("bk_prod")));
        let named = with_contexts(None, None, Some("test"));
        assert_eq!(found(&named), ("http://test.example:7400/".into(), some("bk_test")));
        let own_key = with_contexts(None, Some("bk_own"), Some("test"));
        assert_eq!(found(&own_key), ("http://test.example:7400/".into(), some("bk_own")));
        let nobody = with_contexts(None, None, Some("tset"));
        assert!(format!("{:?}", nobody.find_context().err().unwrap()).contains("Did you mean test?"));
        let directory = tempfile::tempdir().unwrap();
        let here = Connection { data: Some(directory.path().to_owned()), ..with_contexts(None, None, None) };
        assert_eq!(found(&here), (URL_DEFAULT.into(), None), "whoever names a data directory means the server there");
    }

    #[test]
    fn the_key_of_a_context_goes_to_its_own_server_alone() {
        let key = |url| with_contexts(Some(url), None, None).find_api_key().unwrap();
        assert_eq!(key("http://test.example:7400").as_deref(), Some("bk_test"));
        assert_eq!(key("https://prod.example/").as_deref(), Some("bk_prod"));
        for other in [
            "http://prod.example",
            "https://prod.example:444",
            "https://prod.example.evil",
            "https://prod.example@evil",
            "https://evil/https://prod.example",
            "http://127.0.0.1:1",
        ] {
            assert_eq!(key(other), None, "{other}");
        }
    }

    #[test]
    fn the_address_is_the_one_given_or_left_or_the_usual_one() {
        let directory = tempfile::tempdir().unwrap();
        let url = |given| connection(&directory, given, None).find_url();
        assert_eq!(url(None), "http://127.0.0.1:7400");
        let leave = |text: &str| AddressFile::leave(directory.path().join(baton_server::ADDRESS_FILE), text.into());
        let server = leave("0.0.0.0:81").unwrap();
        assert_eq!(url(None), "http://127.0.0.1:81");
        drop(server);
        let _server = leave("https://[::]:81\n").unwrap();
        assert_eq!(url(None), "https://[::1]:81");
        assert_eq!(url(Some("http://there:1")), "http://there:1");
    }

    #[test]
    fn a_key_that_was_left_goes_only_to_the_server_that_left_it() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("admin.key"), "bk_left\n").unwrap();
        let key = |url, given| connection(&directory, url, given).find_api_key().unwrap();
        // Nobody runs: who listens at the usual address is somebody else.
        assert_eq!(key(None, None), None);
        assert!(connection(&directory, None, None).client().is_err());
        // One that was killed has left its address: whoever listens there now is somebody else, too.
        let path = directory.path().join(baton_server::ADDRESS_FILE);
        std::fs::write(&path, "127.0.0.1:81").unwrap();
        assert_eq!(key(None, None), None);
        assert_eq!(key(Some("http://127.0.0.1:81/"), None), None);
        let _server = AddressFile::leave(path, "127.0.0.1:81".into()).unwrap();
        assert_eq!(key(None, None).as_deref(), Some("bk_left"));
        assert_eq!(key(Some("http://127.0.0.1:81/"), None).as_deref(), Some("bk_left"));
        assert_eq!(key(Some("http://localhost:81/"), None).as_deref(), Some("bk_left"));
        let named = |url| connection(&directory, Some(url), None).find_url();
        assert_eq!(named("http://localhost:81/"), "http://127.0.0.1:81", "whoever else listens there");
        assert_eq!(named("https://localhost:81"), "https://localhost:81");
        assert_eq!(key(Some("http://localhost:82"), None), None);
        assert_eq!(key(Some("http://127.0.0.1:7400"), None), None);
        assert_eq!(key(Some("http://there:81"), None), None);
        assert_eq!(key(Some("http://there:81"), Some("bk_given")).as_deref(), Some("bk_given"));
    }
}
