//! What a database URL says. `tokio-postgres` reads most of it; what libpq knows besides (the stricter
//! values of `sslmode`, the files with certificates) is read here. Nothing that is said of a URL which
//! cannot be used repeats any of it: it may hold a password wherever it is broken.

use std::path::PathBuf;
use std::str::FromStr;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, LoadBalanceHosts, SslMode, SslNegotiation, TargetSessionAttrs};

use super::pool::mind_silence;
use super::tls::{Roots, TlsMode, TlsParams};

/// What a URL may begin with.
const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];
/// What `tokio-postgres` reads itself.
const READ_BY_DRIVER: [&str; 18] = [
    "user",
    "password",
    "dbname",
    "options",
    "application_name",
    "sslnegotiation",
    "host",
    "hostaddr",
    "port",
    "connect_timeout",
    "tcp_user_timeout",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_retries",
    "target_session_attrs",
    "channel_binding",
    "load_balance_hosts",
];
/// What libpq knows and Baton does not.
const UNSUPPORTED: [&str; 20] = [
    "passfile",
    "replication",
    "require_auth",
    "client_encoding",
    "fallback_application_name",
    "keepalives_count",
    "gssencmode",
    "gssdelegation",
    "gsslib",
    "krbsrvname",
    "sslcompression",
    "sslpassword",
    "sslcertmode",
    "sslcrl",
    "sslcrldir",
    "sslsni",
    "requirepeer",
    "ssl_min_protocol_version",
    "ssl_max_protocol_version",
    "service",
];

/// One host of a URL.
pub(super) struct HostAddress {
    /// Host and port, or the directory of a socket.
    pub(super) name: String,
    /// Everything about a connection to it.
    pub(super) config: Config,
    /// True for a socket of this machine, where there is no TLS.
    pub(super) is_socket: bool,
}

/// A URL that was understood.
pub(super) struct Address {
    pub(super) hosts: Vec<HostAddress>,
    pub(super) tls: TlsParams,
    pub(super) mode: TlsMode,
    /// Whether TLS begins without asking whether the server has it.
    pub(super) direct: bool,
    /// Whether to begin with any of the hosts, rather than with the first.
    pub(super) random: bool,
}

impl Address {
    pub(super) fn read(url: &str, application_name: &str) -> Result<Address, String> {
        let (rest, tls) = split(url)?;
        let mode = tls.mode()?;
        // The parser's words may hold parts of the URL, but for those that name a parameter.
        let mut config = Config::from_str(&rest).map_err(|error| {
            match std::error::Error::source(&error).map(ToString::to_string) {
                Some(why) if why.starts_with("invalid value for option `") => format!("the database URL has an {why}"),
                Some(_) | None => format!("the database URL cannot be read; {FORM}"),
            }
        })?;
        config.application_name(application_name);
        // Of several hosts the one that can be written to, whichever of them that is now.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        config.ssl_mode(match mode {
            TlsMode::Disable => SslMode::Disable,
            TlsMode::Prefer => SslMode::Prefer,
            TlsMode::Require | TlsMode::VerifyCa | TlsMode::VerifyFull => SslMode::Require,
        });
        mind_silence(&mut config);
        let random = config.get_load_balance_hosts() == LoadBalanceHosts::Random;
        let direct = config.get_ssl_negotiation() == SslNegotiation::Direct;
        if direct && matches!(mode, TlsMode::Disable | TlsMode::Prefer) {
            return Err("sslnegotiation=direct needs sslmode=require or stricter".into());
        }
        Ok(Address { hosts: hosts(&config)?, tls, mode, direct, random })
    }

    /// All hosts with their ports, for people.
    pub(super) fn names(&self) -> String {
        let names: Vec<_> = self.hosts.iter().map(|host| host.name.as_str()).collect();
        names.join(", ")
    }
}

const FORM: &str = "it has the form postgres://user:password@host:5432/database?sslmode=verify-full, and what \
     is not a letter or a digit in user and password is percent-encoded (@ is %40, / is %2F)";

/// Takes out of a URL what is said of TLS.
fn split(url: &str) -> Result<(String, TlsParams), String> {
    let scheme = SCHEMES.iter().find(|scheme| url.starts_with(**scheme));
    let Some(scheme) = scheme else { return Err(format!("the database URL cannot be read; {FORM}")) };
    // As tokio-postgres splits it: the first @ ends the credentials, whatever comes before it.
    let begin = url.find('@').map_or(scheme.len(), |at| at + 1);
    let Some(mark) = url[begin..].find('?').map(|at| begin + at) else {
        return Ok((url.to_owned(), TlsParams::default()));
    };
    let (mut rest, mut tls) = (url[..=mark].to_owned(), TlsParams::default());
    for pair in url[mark + 1..].split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decoded = || {
            let text = percent_decode_str(value).decode_utf8().map_err(|_| format!("{key} is not UTF-8"))?;
            match text.is_empty() {
                true => Err(format!("{key} has no value in the database URL")),
                false => Ok(text.into_owned()),
            }
        };
        match key {
            "sslmode" => tls.mode = Some(TlsMode::read(&decoded()?)?),
            "sslrootcert" => {
                let value = decoded()?;
                tls.roots = Some(if value == "system" { Roots::System } else { Roots::File(value.into()) });
            }
            "sslcert" => tls.certificate = Some(PathBuf::from(decoded()?)),
            "sslkey" => tls.key = Some(PathBuf::from(decoded()?)),
            _ if READ_BY_DRIVER.contains(&key) => {
                rest.push_str(pair);
                rest.push('&');
            }
            _ if UNSUPPORTED.contains(&key) => return Err(format!("{key} in the database URL is not supported")),
            _ => return Err(format!("the database URL has a parameter that is not known; {FORM}")),
        }
    }
    Ok((rest, tls))
}

/// The hosts of a configuration, each on its own: so that each can be tried in its own way, and what
/// is wrong with each can be told.
fn hosts(config: &Config) -> Result<Vec<HostAddress>, String> {
    let (names, addresses, ports) = (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
    let count = names.len().max(addresses.len());
    if count == 0 {
        return Err(format!("the database URL names no host; {FORM}"));
    }
    if !names.is_empty() && !addresses.is_empty() && names.len() != addresses.len() {
        return Err("the database URL has another number of host than of hostaddr".into());
    }
    if ports.len() > 1 && ports.len() != count {
        return Err("the database URL has another number of ports than of hosts".into());
    }
    let host = |at: usize| {
        let mut own = without_hosts(config);
        let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
        own.port(port);
        let address = addresses.get(at).copied();
        if let Some(address) = address {
            own.hostaddr(address);
        }
        let (name, is_socket) = match (names.get(at), address) {
            (Some(Host::Tcp(name)), _) => {
                own.host(name);
                (format!("{name}:{port}"), false)
            }
            (Some(Host::Unix(path)), _) => {
                own.host_path(path).ssl_mode(SslMode::Disable);
                (path.display().to_string(), true)
            }
            // A certificate may be for an address, too.
            (None, Some(address)) => {
                own.host(address.to_string());
                (format!("{address}:{port}"), false)
            }
            (None, None) => unreachable!("there are as many of one or the other"),
        };
        HostAddress { name, config: own, is_socket }
    };
    Ok((0..count).map(host).collect())
}

/// Everything but the hosts.
fn without_hosts(config: &Config) -> Config {
    let mut own = Config::new();
    if let Some(user) = config.get_user() {
        own.user(user);
    }
    if let Some(password) = config.get_password() {
        own.password(password);
    }
    if let Some(database) = config.get_dbname() {
        own.dbname(database);
    }
    if let Some(options) = config.get_options() {
        own.options(options);
    }
    if let Some(name) = config.get_application_name() {
        own.application_name(name);
    }
    if let Some(timeout) = config.get_connect_timeout() {
        own.connect_timeout(*timeout);
    }
    if let Some(timeout) = config.get_tcp_user_timeout() {
        own.tcp_user_timeout(*timeout);
    }
    if let Some(interval) = config.get_keepalives_interval() {
        own.keepalives_interval(interval);
    }
    if let Some(retries) = config.get_keepalives_retries() {
        own.keepalives_retries(retries);
    }
    own.keepalives(config.get_keepalives())
        .keepalives_idle(config.get_keepalives_idle())
        .ssl_mode(config.get_ssl_mode())
        .ssl_negotiation(config.get_ssl_negotiation())
        .target_session_attrs(config.get_target_session_attrs())
        .channel_binding(config.get_channel_binding())
        .load_balance_hosts(config.get_load_balance_hosts());
    own
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio_postgres::config::ChannelBinding;

    use super::*;

    fn read(url: &str) -> Result<Address, String> {
        Address::read(url, "baton")
    }

    #[test]
    fn what_is_said_of_tls_is_read_and_the_rest_goes_to_the_driver() {
        let url = "postgres://me:pass%40word@db.internal:6432/jobs?sslmode=verify-full&connect_timeout=7\
                   &sslrootcert=%2Fetc%2Fbaton%2Fca.pem&sslcert=/c.pem&sslkey=/k.pem&channel_binding=require";
        let address = read(url).unwrap();
        assert_eq!(address.mode, TlsMode::VerifyFull);
        let tls = TlsParams {
            mode: Some(TlsMode::VerifyFull),
            roots: Some(Roots::File("/etc/baton/ca.pem".into())),
            certificate: Some("/c.pem".into()),
            key: Some("/k.pem".into()),
        };
        assert_eq!(address.tls, tls);
        let [host] = &address.hosts[..] else { panic!("{}", address.names()) };
        assert_eq!((host.name.as_str(), host.is_socket), ("db.internal:6432", false));
        let config = &host.config;
        assert_eq!((config.get_user(), config.get_dbname()), (Some("me"), Some("jobs")));
        assert_eq!(config.get_password(), Some(&b"pass@word"[..]));
        assert_eq!(config.get_ssl_mode(), SslMode::Require);
        assert_eq!(config.get_connect_timeout(), Some(&Duration::from_secs(7)));
        assert_eq!(config.get_channel_binding(), ChannelBinding::Require);
        assert_eq!(config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        let direct = read("postgresql://h/d?sslmode=require&sslnegotiation=direct").unwrap();
        assert_eq!(direct.hosts[0].config.get_ssl_negotiation(), SslNegotiation::Direct);
    }

    #[test]
    fn without_a_word_tls_is_preferred_and_a_socket_never_has_it() {
        let plain = read("postgres://me@localhost/d").unwrap();
        assert_eq!((plain.mode, plain.hosts[0].config.get_ssl_mode()), (TlsMode::Prefer, SslMode::Prefer));
        for url in ["postgres:///d?host=/run/postgresql", "postgres://%2Frun%2Fpostgresql/d?sslmode=verify-full"] {
            let socket = read(url).unwrap();
            assert_eq!(socket.hosts[0].config.get_ssl_mode(), SslMode::Disable, "{url}");
            assert_eq!((socket.names().as_str(), socket.hosts[0].is_socket), ("/run/postgresql", true));
        }
    }

    #[test]
    fn each_host_of_several_is_one_of_its_own() {
        let url = "postgres://me:x@a.test:1,b.test,[::1]:3/d?target_session_attrs=read-write&tcp_user_timeout=9";
        let address = read(url).unwrap();
        assert_eq!(address.names(), "a.test:1, b.test:5432, ::1:3");
        for host in &address.hosts {
            assert_eq!((host.config.get_hosts().len(), host.config.get_ports().len()), (1, 1));
            assert_eq!(host.config.get_tcp_user_timeout(), Some(&Duration::from_secs(9)));
            assert_eq!(host.config.get_keepalives_idle(), Duration::from_secs(1));
        }
        let named = read("postgres://me@a.test,b.test/d?hostaddr=10.0.0.1,10.0.0.2").unwrap();
        assert_eq!(named.hosts[1].config.get_hosts(), [Host::Tcp("b.test".into())]);
        assert_eq!(named.hosts[1].config.get_hostaddrs(), ["10.0.0.2".parse::<std::net::IpAddr>().unwrap()]);
        let bare = read("postgres:///d?hostaddr=10.0.0.1").unwrap();
        assert_eq!(bare.hosts[0].config.get_hosts(), [Host::Tcp("10.0.0.1".into())]);
    }

    #[test]
    fn a_url_that_cannot_be_used_is_explained_without_its_secrets() {
        for (url, word) in [
            ("postgres://me:CANARY@h/d?sslmode=on", "verify-full"),
            ("postgres://me:CANARY@h/d?sslmode=", "no value"),
            ("postgres://me:CANARY@h/d?sslrootcert=%FF", "sslrootcert"),
            ("postgres://me:CANARY@h/d?sslmode=require&sslrootcert=system", "sslmode=verify-full"),
            ("postgres://me:CANARY@h/d?connect_timeout=soon", "connect_timeout"),
            ("postgres://me:CANARY@h:CANARY/d", "port"),
            ("postgres://me:CANARY@h/d?sslcrl=x", "sslcrl"),
            ("postgres://me:CANARY@h/d?sslnegotiation=direct", "sslmode=require"),
            ("postgres://me:CANARY@", "host"),
            // Passwords that were not encoded.
            ("postgres://me:pass@CANARY?CANARY=1@h/d", "percent-encoded"),
            ("postgres://me:pass@h/CANARY?CANARY", "percent-encoded"),
            ("host=h password=CANARY", "postgres://"),
            ("mysql://me:CANARY@h/d", "postgres://"),
        ] {
            let said = read(url).err().unwrap_or_else(|| panic!("{url} is taken"));
            assert!(said.contains(word) && !said.contains("CANARY"), "{url}: {said}");
        }
    }
}
