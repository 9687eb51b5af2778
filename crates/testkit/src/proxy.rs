//! A network that can be told to lose answers.
//!
//! It forwards bytes and knows no protocol: an answer is whatever the server sends after it got something from the
//! client. A lost answer closes the connection *after* the request was delivered and answered, which is the case
//! that tells whether repeating a call is safe.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A proxy in front of one address. Dropping it cuts everything.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    network: Arc<Network>,
    listening: JoinHandle<()>,
}

#[derive(Debug)]
struct Network {
    faults: Mutex<Faults>,
    lost: AtomicU64,
    /// Counts cuts; every connection ends when it changes.
    cut: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Faults {
    next: u64,
    probability: f64,
    dice: u64,
    delay: Duration,
    refusing: bool,
}

impl Proxy {
    /// Starts to forward to `target`, without any fault.
    pub async fn start(target: SocketAddr) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("no free port on 127.0.0.1");
        let address = listener.local_addr().expect("a bound socket has an address");
        let network = Arc::new(Network {
            faults: Mutex::new(Faults::default()),
            lost: AtomicU64::new(0),
            cut: watch::Sender::new(0),
        });
        let listening = tokio::spawn(listen(listener, target, Arc::clone(&network)));
        Proxy { address, network, listening }
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Loses the next `count` answers.
    pub fn lose_answers(&self, count: u64) {
        self.network.faults().next = count;
    }

    /// Loses each answer with this probability, by dice that the seed decides.
    pub fn lose_answers_at_random(&self, probability: f64, seed: u64) {
        let mut faults = self.network.faults();
        (faults.probability, faults.dice) = (probability, seed);
    }

    /// Holds each answer back this long.
    pub fn delay(&self, delay: Duration) {
        self.network.faults().delay = delay;
    }

    /// Cuts every connection, and refuses new ones until [`Proxy::mend`].
    pub fn cut(&self) {
        self.network.faults().refusing = true;
        self.network.cut.send_modify(|cuts| *cuts += 1);
    }

    /// Takes new connections again.
    pub fn mend(&self) {
        self.network.faults().refusing = false;
    }

    /// How many answers were lost so far.
    pub fn lost(&self) -> u64 {
        self.network.lost.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
        self.cut();
    }
}

impl Network {
    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides over one answer: how long to hold it back, or `None` to lose it.
    fn fate(&self) -> Option<Duration> {
        let mut faults = self.faults();
        let by_count = faults.next > 0;
        faults.next -= u64::from(by_count);
        let by_chance = faults.probability > 0.0 && roll(&mut faults.dice) < faults.probability;
        if by_count || by_chance {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(faults.delay)
    }
}

/// A number from 0 to 1 (splitmix64): the same seed gives the same losses.
fn roll(dice: &mut u64) -> f64 {
    *dice = dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *dice;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

async fn listen(listener: TcpListener, target: SocketAddr, network: Arc<Network>) {
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        if network.faults().refusing {
            continue;
        }
        tokio::spawn(connection(client, target, Arc::clone(&network)));
    }
}

/// Forwards one connection until either side closes it, an answer is lost, or everything is cut.
async fn connection(client: TcpStream, target: SocketAddr, network: Arc<Network>) {
    let mut cut = network.cut.subscribe();
    // A target that is down looks to the client like a connection that closes at once.
    let Ok(server) = TcpStream::connect(target).await else { return };
    // Delayed acknowledgements would hide what is measured; a socket that is gone already says so below.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let asked = Arc::new(AtomicBool::new(false));
    tokio::select! {
        () = requests(from_client, to_server, &asked) => {}
        () = answers(from_server, to_client, &asked, &network) => {}
        _ = cut.changed() => {}
    }
}

async fn requests(mut client: OwnedReadHalf, mut server: OwnedWriteHalf, asked: &AtomicBool) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = client.read(&mut buffer).await {
        asked.store(true, Ordering::SeqCst);
        if server.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}

async fn answers(mut server: OwnedReadHalf, mut client: OwnedWriteHalf, asked: &AtomicBool, network: &Network) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = server.read(&mut buffer).await {
        if asked.swap(false, Ordering::SeqCst) {
            match network.fate() {
                Some(delay) => tokio::time::sleep(delay).await,
                None => return,
            }
        }
        if client.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    /// A server that counts the bytes it got and sends them back.
    async fn echo() -> (SocketAddr, Arc<AtomicUsize>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let (address, count) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        tokio::spawn({
            let count = Arc::clone(&count);
            async move {
                while let Ok((mut socket, _)) = listener.accept().await {
                    let count = Arc::clone(&count);
                    tokio::spawn(async move {
                        let mut buffer = [0; 64];
                        while let Ok(length @ 1..) = socket.read(&mut buffer).await {
                            count.fetch_add(length, Ordering::SeqCst);
                            socket.write_all(&buffer[..length]).await.unwrap();
                        }
                    });
                }
            }
        });
        (address, count)
    }

    async fn ask(address: SocketAddr) -> Option<u8> {
        let mut socket = TcpStream::connect(address).await.ok()?;
        socket.write_all(&[7]).await.ok()?;
        socket.read_u8().await.ok()
    }

    #[tokio::test]
    async fn a_lost_answer_was_a_delivered_request() {
        let (server, delivered) = echo().await;
        let proxy = Proxy::start(server).await;
        assert_eq!(ask(proxy.address()).await, Some(7));
        proxy.lose_answers(2);
        assert_eq!(ask(proxy.address()).await, None);
        assert_eq!(ask(proxy.address()).await, None);
        assert_eq!(ask(proxy.address()).await, Some(7));
        assert_eq!((delivered.load(Ordering::SeqCst), proxy.lost()), (4, 2));
    }

    #[tokio::test]
    async fn the_same_seed_loses_the_same_answers() {
        let (server, _) = echo().await;
        let mut seen = Vec::new();
        for _ in 0..2 {
            let proxy = Proxy::start(server).await;
            proxy.lose_answers_at_random(0.5, 42);
            let mut answers = Vec::new();
            for _ in 0..20 {
                answers.push(ask(proxy.address()).await.is_some());
            }
            seen.push(answers);
        }
        assert_eq!(seen[0], seen[1]);
        assert!(seen[0].contains(&true) && seen[0].contains(&false));
    }

    #[tokio::test]
    async fn a_cut_ends_connections_until_it_is_mended() {
        let (server, _) = echo().await;
        let proxy = Proxy::start(server).await;
        let mut socket = TcpStream::connect(proxy.address()).await.unwrap();
        socket.write_all(&[1]).await.unwrap();
        assert_eq!(socket.read_u8().await.unwrap(), 1);
        proxy.cut();
        assert!(socket.read_u8().await.is_err());
        assert_eq!(ask(proxy.address()).await, None);
        proxy.mend();
        assert_eq!(ask(proxy.address()).await, Some(7));
    }
}
