//! Which servers the commands believe over https, and what they show them.

use std::path::PathBuf;

use baton::Tls;
use clap::Args;

use crate::exit::Exit;

/// Options of every command.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Server")]
pub struct TlsArgs {
    /// Also trust servers that the authorities in this file (PEM) vouch for, besides those of the system.
    #[arg(long, global = true, env = "BATON_CA", value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Certificate to show to the server (PEM); needs --client-key.
    #[arg(long, global = true, env = "BATON_CLIENT_CERT", value_name = "FILE")]
    client_cert: Option<PathBuf>,
    /// The key that belongs to it (PEM).
    #[arg(long, global = true, env = "BATON_CLIENT_KEY", value_name = "FILE")]
    client_key: Option<PathBuf>,
    /// Trust the server with this certificate and no other: sha256:... as it prints it when it starts.
    #[arg(long, global = true, env = "BATON_TLS_PIN", value_name = "FINGERPRINT")]
    tls_pin: Option<String>,
    /// A file with such fingerprints that are trusted besides others; read for each connection.
    #[arg(long, global = true, env = "BATON_TLS_PIN_FILE", value_name = "FILE", hide = true)]
    tls_pin_file: Option<PathBuf>,
}

impl TlsArgs {
    /// What was asked for, and besides it what a server on this machine left, if anything.
    pub fn options(&self, left: Option<PathBuf>) -> Result<Tls, Exit> {
        let mut tls = Tls::new();
        // An empty variable of the environment is one that is not set.
        if let Some(path) = self.ca.as_ref().filter(|path| !path.as_os_str().is_empty()) {
            tls = tls.ca_file(path)?;
        }
        if let Some(pin) = self.tls_pin.as_deref().filter(|pin| !pin.is_empty()) {
            tls = tls.pin(pin)?;
        } else if let Some(path) = self.tls_pin_file.clone().or(left) {
            tls = tls.pin_file(path);
        }
        let given = |path: &Option<PathBuf>| path.clone().filter(|path| !path.as_os_str().is_empty());
        match (given(&self.client_cert), given(&self.client_key)) {
            (Some(certificate), Some(key)) => Ok(tls.client_certificate(certificate, key)?),
            (None, None) => Ok(tls),
            (Some(_), None) => Err(Exit::usage("--client-cert needs --client-key (BATON_CLIENT_KEY)")),
            (None, Some(_)) => Err(Exit::usage("--client-key needs --client-cert (BATON_CLIENT_CERT)")),
        }
    }

    /// The same, with what a context says where nobody else says anything.
    pub fn or(&self, ca: Option<PathBuf>, tls_pin: Option<String>) -> TlsArgs {
        TlsArgs { ca: self.ca.clone().or(ca), tls_pin: self.tls_pin.clone().or(tls_pin), ..self.clone() }
    }

    /// What is kept with a context: the authorities as a whole path, and the fingerprint.
    pub fn kept(&self) -> Result<(Option<PathBuf>, Option<String>), Exit> {
        let ca = self.ca.as_ref().filter(|path| !path.as_os_str().is_empty());
        let ca = ca.map(std::fs::canonicalize).transpose();
        let ca = ca.map_err(|error| Exit::usage(format!("--ca cannot be read: {error}")))?;
        Ok((ca, self.tls_pin.clone().filter(|pin| !pin.is_empty())))
    }

    /// The same for an agent, which its pool may tell in options of its own (`agent.ca`).
    pub fn for_agent(&self) -> TlsArgs {
        let said = |name: &str| std::env::var_os(format!("BATON_AGENT_{name}")).filter(|value| !value.is_empty());
        let path = |own: &Option<PathBuf>, name| own.clone().or_else(|| said(name).map(PathBuf::from));
        let pin = || said("TLS_PIN").and_then(|pin| pin.into_string().ok());
        TlsArgs {
            ca: path(&self.ca, "CA"),
            client_cert: path(&self.client_cert, "CLIENT_CERT"),
            client_key: path(&self.client_key, "CLIENT_KEY"),
            tls_pin: pin().or_else(|| self.tls_pin.clone()),
            tls_pin_file: self.tls_pin_file.clone(),
        }
    }
}
