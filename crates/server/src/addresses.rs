//! What one address may take of the server, so that others always find room: connections, requests
//! at once, requests without a credential, and how often it may break the rules of a protocol.
//!
//! Many workers may share one address, so an address may have most of the connections, and nobody
//! is turned away while a connection sits idle somewhere: the address with the most connections
//! loses its oldest idle one. docs/adr/0020 has the reasons.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton_core::rate::{self, Bucket};
use http::HeaderMap;
use tokio::sync::Semaphore;

use crate::connection::{Activity, STREAMS_MAX};
use crate::{Error, Settings};

/// Connections that are looked at to find an idle one. Busy ones go to the back of the line.
const LOOKS_MAX: usize = 64;
/// Addresses that are remembered before those that have nothing open are forgotten.
const ADDRESSES_MAX: usize = 10_000;
/// Connections of an address that may be cut off for breaking rules, in a row and a second, before
/// its new ones have to wait.
const OFFENCES_MAX: f64 = 10.0;
const OFFENCES_PER_SECOND: f64 = 1.0;
/// How long they wait.
const OFFENCE_DELAY: Duration = Duration::from_secs(1);
/// Streams that all connections of an address may reset at once, beyond what each may. Workers that
/// stop give up all that they wait for: this many fill four connections.
const RESETS_MAX: f64 = 4.0 * STREAMS_MAX as f64;
const RESETS_PER_SECOND: f64 = 100.0;
/// Connections that an address with no room left may put in the place of its own idle ones, in a
/// row and a second, before its new ones have to wait.
const REPLACEMENTS: f64 = 50.0;

/// Headers that carry a credential. Whether it is good is found out later.
const CREDENTIALS: [&str; 7] =
    ["x-api-key", "authorization", "x-worker-token", "x-build-token", "x-vm-token", "x-lease", "x-worker-id"];

/// What counts as one place: an address, or with IPv6 the network of a single subscriber, who has
/// as many addresses as he likes.
pub(crate) fn network(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64))),
        v4 => v4,
    }
}

/// What is known of one address.
#[derive(Debug)]
pub(crate) struct Address {
    /// Requests that are being answered.
    requests: AtomicUsize,
    /// Requests without a credential that it may still send.
    unauthenticated: Mutex<Bucket>,
    offences: Mutex<Bucket>,
    replacements: Mutex<Bucket>,
    /// Streams that it may still reset before they are answered.
    resets: Mutex<Bucket>,
    /// TLS handshakes that compute at once.
    pub(crate) handshakes: Semaphore,
    begun: Instant,
}

impl Address {
    fn new(begun: Instant, unauthenticated: f64) -> Address {
        let at = begun.elapsed().as_millis() as i64;
        Address {
            requests: AtomicUsize::new(0),
            unauthenticated: Mutex::new(Bucket { tokens: unauthenticated, at }),
            offences: Mutex::new(Bucket { tokens: OFFENCES_MAX, at }),
            replacements: Mutex::new(Bucket { tokens: REPLACEMENTS, at }),
            resets: Mutex::new(Bucket { tokens: RESETS_MAX, at }),
            handshakes: Semaphore::new(1),
            begun,
        }
    }

    fn take(&self, bucket: &Mutex<Bucket>, per_second: f64, count: u32) -> bool {
        self.take_of(bucket, per_second, per_second.max(1.0), count)
    }

    fn take_of(&self, bucket: &Mutex<Bucket>, per_second: f64, full: f64, count: u32) -> bool {
        let mut bucket = bucket.lock().expect("nobody panics while holding it");
        let now = self.begun.elapsed().as_millis() as i64;
        let (granted, left) = rate::take_of(*bucket, per_second, full, now, count);
        // A look takes nothing.
        if count > 0 {
            *bucket = left;
        }
        granted > 0 || (count == 0 && left.tokens >= 1.0)
    }

    /// Notes that one of its connections was cut off because it broke the rules.
    pub(crate) fn offend(&self) {
        self.take_of(&self.offences, OFFENCES_PER_SECOND, OFFENCES_MAX, 1);
    }

    /// Takes one of the streams that it may reset.
    pub(crate) fn may_reset(&self) -> bool {
        self.take_of(&self.resets, RESETS_PER_SECOND, RESETS_MAX, 1)
    }

    /// How long its new connections have to wait.
    pub(crate) fn delay(&self) -> Option<Duration> {
        (!self.take_of(&self.offences, OFFENCES_PER_SECOND, OFFENCES_MAX, 0)).then_some(OFFENCE_DELAY)
    }

    /// Admits a request, which counts until it is dropped.
    pub(crate) fn admit(self: &Arc<Self>, settings: &Settings, headers: &HeaderMap) -> Result<Request, Error> {
        let request = Request(self.clone());
        if self.requests.fetch_add(1, Ordering::Relaxed) >= settings.requests_per_address_max {
            return Err(Error::TooMany { retry_after_ms: 1_000 });
        }
        let per_second = f64::from(settings.unauthenticated_per_second);
        let is_known = per_second == 0.0 || CREDENTIALS.iter().any(|name| headers.contains_key(*name));
        match is_known || self.take(&self.unauthenticated, per_second, 1) {
            true => Ok(request),
            false => Err(Error::TooMany { retry_after_ms: 1_000 }),
        }
    }
}

/// A request of an address, while it is being answered.
#[derive(Debug)]
pub(crate) struct Request(Arc<Address>);

impl Drop for Request {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// All addresses with something open, and some more.
#[derive(Debug)]
pub(crate) struct Addresses {
    connections_max: usize,
    per_address_max: usize,
    unauthenticated: f64,
    begun: Instant,
    places: Mutex<Places>,
}

#[derive(Debug, Default)]
struct Places {
    connections: usize,
    by: HashMap<IpAddr, Place>,
    /// How many may be remembered before it is worth looking which can be forgotten.
    forget_at: usize,
}

#[derive(Debug)]
struct Place {
    address: Arc<Address>,
    /// Its connections by their turn: the oldest first, and those that were found busy at the back.
    open: BTreeMap<u64, Arc<Activity>>,
}

impl Place {
    fn add(&mut self, activity: Arc<Activity>) {
        let turn = self.open.last_key_value().map_or(0, |(last, _)| last + 1);
        activity.turn.store(turn, Ordering::Relaxed);
        self.open.insert(turn, activity);
    }

    /// Closes its oldest idle connection.
    fn close_idle(&mut self) -> bool {
        for _ in 0..self.open.len().min(LOOKS_MAX) {
            let Some((_, oldest)) = self.open.pop_first() else { break };
            if oldest.close_if_idle() {
                return true;
            }
            self.add(oldest);
        }
        false
    }
}

impl Places {
    /// Closes the oldest idle connection of the address that has the most.
    fn close_idle(&mut self) -> bool {
        let mut crowded: Vec<_> = self.by.values_mut().filter(|place| !place.open.is_empty()).collect();
        crowded.sort_unstable_by_key(|place| std::cmp::Reverse(place.open.len()));
        crowded.into_iter().take(LOOKS_MAX).any(Place::close_idle)
    }
}

impl Addresses {
    pub(crate) fn new(settings: &Settings, connections_max: usize) -> Addresses {
        Addresses {
            connections_max,
            per_address_max: settings.connections_per_address_max.min(connections_max),
            unauthenticated: f64::from(settings.unauthenticated_per_second),
            begun: Instant::now(),
            places: Mutex::default(),
        }
    }

    fn with<T>(&self, change: impl FnOnce(&mut Places) -> T) -> T {
        change(&mut self.places.lock().expect("nobody panics while holding it"))
    }

    fn place<'a>(&self, places: &'a mut Places, from: IpAddr) -> &'a mut Place {
        if places.by.len() >= places.forget_at.max(ADDRESSES_MAX) {
            places.by.retain(|_, place| !place.open.is_empty() || Arc::strong_count(&place.address) > 1);
            places.forget_at = 2 * places.by.len();
        }
        places.by.entry(network(from)).or_insert_with(|| Place {
            address: Arc::new(Address::new(self.begun, self.unauthenticated)),
            open: BTreeMap::new(),
        })
    }

    /// The address that a request comes from.
    pub(crate) fn get(&self, from: IpAddr) -> Arc<Address> {
        self.with(|places| self.place(places, from).address.clone())
    }

    /// Lets a connection in, if need be in the place of one that is idle. A trusted proxy speaks for
    /// many, and has no limit of its own.
    pub(crate) fn open(self: &Arc<Self>, from: IpAddr, is_proxy: bool) -> Result<Open, Shut> {
        let (address, activity) = self.with(|places| {
            let (count, max) = (places.connections, self.connections_max);
            let place = self.place(places, from);
            let address = place.address.clone();
            if !is_proxy && place.open.len() >= self.per_address_max {
                // Those it loses come back at once, and so on without an end.
                if !address.take(&address.replacements, REPLACEMENTS, 1) {
                    return Err(Shut::ForNow);
                }
                if !place.close_idle() {
                    return Err(Shut::Full);
                }
            }
            if count >= max && !places.close_idle() {
                return Err(Shut::Full);
            }
            let activity = Arc::new(Activity::new((!is_proxy).then(|| address.clone())));
            self.place(places, from).add(activity.clone());
            places.connections += 1;
            Ok((address, activity))
        })?;
        Ok(Open { addresses: self.clone(), from: network(from), address, activity })
    }

    /// Closes an idle connection, because the system has no room for another.
    pub(crate) fn relieve(&self) {
        self.with(Places::close_idle);
    }
}

/// Why a connection was not let in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shut {
    /// There is no room for it, and none is idle.
    Full,
    /// Its address has no room left, and puts new connections in the place of its own too fast.
    ForNow,
}

/// A connection that was let in.
#[derive(Debug)]
pub(crate) struct Open {
    addresses: Arc<Addresses>,
    from: IpAddr,
    pub(crate) address: Arc<Address>,
    pub(crate) activity: Arc<Activity>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.addresses.with(|places| {
            places.connections -= 1;
            // One that was closed for another is not in its line any more.
            let turn = self.activity.turn.load(Ordering::Relaxed);
            if let Some(place) = places.by.get_mut(&self.from)
                && place.open.get(&turn).is_some_and(|open| Arc::ptr_eq(open, &self.activity))
            {
                place.open.remove(&turn);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_that_comes_back_at_once_has_to_wait_and_others_do_not() {
        let settings = Settings { connections_per_address_max: 2, ..Settings::default() };
        let addresses = Arc::new(Addresses::new(&settings, 1_000));
        let crowd = "192.0.2.7".parse().unwrap();
        let mut open = Vec::new();
        let shut = loop {
            match addresses.open(crowd, false) {
                Ok(one) => open.push(one),
                Err(shut) => break shut,
            }
        };
        assert_eq!(shut, Shut::ForNow);
        assert!(open.len() >= 2 + REPLACEMENTS as usize && open.len() < 200, "{}", open.len());
        assert!(addresses.open("192.0.2.8".parse().unwrap(), false).is_ok());
        assert!(addresses.open(crowd, true).is_ok(), "a trusted proxy has no limit of its own");
    }

    #[test]
    fn addresses_of_one_subscriber_are_one_place() {
        let place = |text: &str| network(text.parse().unwrap()).to_string();
        assert_eq!(place("192.0.2.7"), "192.0.2.7");
        assert_eq!(place("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(place("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(place("2001:db8:1:2:ffff::1"), place("2001:db8:1:2::9"));
        assert_ne!(place("2001:db8:1:3::"), place("2001:db8:1:2::"));
    }
}
