//! What stands in front of several servers: passes each connection on to the first one that takes it.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A load balancer without any wits. Dropping it closes its port.
pub struct Balancer {
    address: SocketAddr,
    listening: JoinHandle<()>,
}

impl Balancer {
    /// Starts in front of the servers at these addresses (`http://host:port`).
    pub async fn start(urls: &[String]) -> Balancer {
        let servers: Arc<[SocketAddr]> = urls.iter().map(|url| address(url)).collect();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let listening = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass_on(client, servers.clone()));
            }
        });
        Balancer { address, listening }
    }

    /// Where clients connect to.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn pass_on(mut client: TcpStream, servers: Arc<[SocketAddr]>) {
    for server in servers.iter() {
        if let Ok(mut server) = TcpStream::connect(server).await {
            // A connection that breaks is for its client to notice.
            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            return;
        }
    }
}

/// The address in a URL.
pub fn address(url: &str) -> SocketAddr {
    url.strip_prefix("http://").and_then(|address| address.parse().ok()).expect("http://address:port")
}
