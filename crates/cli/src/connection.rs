//! Where the server is, and the key to it.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use baton::Client;
use clap::Args;

use crate::exit::Exit;

/// Options of every command.
#[derive(Args)]
#[command(next_help_heading = "Server")]
pub struct Connection {
    /// Address of the server; that of the one running on this machine unless given, or else http://127.0.0.1:7400.
    #[arg(long, global = true, env = "BATON_URL", value_name = "URL")]
    pub url: Option<String>,
    /// API key; the one a server on this machine left in its data directory unless given.
    #[arg(long, global = true, env = "BATON_API_KEY", hide_env_values = true, value_name = "KEY")]
    pub api_key: Option<String>,
    /// Data directory of the server; the user's data directory unless given.
    #[arg(long, global = true, env = "BATON_DATA", value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// Where a server listens unless told otherwise.
const URL_DEFAULT: &str = "127.0.0.1:7400";

/// The address at which a server that listens everywhere can be reached from here.
fn reachable(address: SocketAddr) -> String {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => format!("127.0.0.1:{}", address.port()),
        IpAddr::V6(ip) if ip.is_unspecified() => format!("[::1]:{}", address.port()),
        IpAddr::V4(_) | IpAddr::V6(_) => address.to_string(),
    }
}

impl Connection {
    /// A client of the server.
    pub fn client(&self) -> Result<Client, Exit> {
        Ok(Client::new(&self.find_url(), &self.find_api_key()?.unwrap_or_default())?)
    }

    /// Where a server on this machine keeps its files.
    pub fn data_directory(&self) -> PathBuf {
        self.data.clone().unwrap_or_else(baton_server::data_default)
    }

    /// The address as given, or as a server on this machine left it, or the usual one.
    pub fn find_url(&self) -> String {
        self.url.clone().unwrap_or_else(|| {
            let left = std::fs::read_to_string(self.data_directory().join(baton_server::ADDRESS_FILE));
            let address = left.ok().and_then(|address| address.trim().parse().ok());
            format!("http://{}", address.map_or_else(|| URL_DEFAULT.to_owned(), reachable))
        })
    }

    /// Where a server on this machine leaves its first key.
    pub fn admin_key_path(&self) -> PathBuf {
        self.data_directory().join("admin.key")
    }

    /// The key as given, or as a server on this machine left it, or none.
    pub fn find_api_key(&self) -> Result<Option<String>, Exit> {
        if let Some(key) = &self.api_key {
            return Ok(Some(key.clone()));
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
    use super::*;

    #[test]
    fn the_address_is_the_one_given_or_left_or_the_usual_one() {
        let directory = tempfile::tempdir().unwrap();
        let connection = |url: Option<&str>| Connection {
            url: url.map(str::to_owned),
            api_key: None,
            data: Some(directory.path().to_owned()),
        };
        assert_eq!(connection(None).find_url(), "http://127.0.0.1:7400");
        std::fs::write(directory.path().join(baton_server::ADDRESS_FILE), "0.0.0.0:81").unwrap();
        assert_eq!(connection(None).find_url(), "http://127.0.0.1:81");
        assert_eq!(connection(Some("http://there:1")).find_url(), "http://there:1");
    }
}
