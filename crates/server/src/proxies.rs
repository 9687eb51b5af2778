//! Proxies that are believed when they say whom they speak for.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::HeaderMap;
use http::header::FORWARDED;

const X_FORWARDED_FOR: &str = "x-forwarded-for";
const X_FORWARDED_PROTO: &str = "x-forwarded-proto";

/// A network: an address, and how many of its first bits count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    fn parse(text: &str) -> Option<Network> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address.parse::<IpAddr>().ok()?, Some(bits.parse().ok()?)),
            None => (text.parse::<IpAddr>().ok()?, None),
        };
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        (bits <= most).then_some(Network { address, bits })
    }

    fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                (own.to_bits() ^ other.to_bits()) & mask == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                (own.to_bits() ^ other.to_bits()) & mask == 0
            }
            _ => false,
        }
    }
}

/// The networks of trusted proxies.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Proxies(Vec<Network>);

impl Proxies {
    /// Reads addresses and networks (`10.0.0.0/8`) with commas between them.
    pub fn parse(text: &str) -> Result<Proxies, String> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let wrong = |part: &str| {
            format!(
                "trusted_proxies must be addresses or networks like 10.0.0.0/8 with commas between them, not {part:?}"
            )
        };
        parts.map(|part| Network::parse(part).ok_or_else(|| wrong(part))).collect::<Result<_, _>>().map(Proxies)
    }

    /// True for an address of a trusted proxy.
    pub fn trust(&self, address: IpAddr) -> bool {
        !self.0.is_empty() && self.0.iter().any(|network| network.contains(address.to_canonical()))
    }

    /// The address that a request comes from: what a trusted proxy says, or else the other end of
    /// its connection. Each proxy adds an address at the end, so the last one that is not a trusted
    /// proxy's counts: a client can only lie before it.
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let peer = peer.to_canonical();
        if !self.trust(peer) {
            return peer;
        }
        let mut nearest = peer;
        for address in forwarded(headers).into_iter().rev() {
            let Some(address) = address else { break };
            nearest = address;
            if !self.trust(address) {
                break;
            }
        }
        nearest
    }
}

/// True when somebody says to have passed this request on.
pub fn is_forwarded(headers: &HeaderMap) -> bool {
    [FORWARDED.as_str(), X_FORWARDED_FOR, "via", "x-real-ip"].iter().any(|name| headers.contains_key(*name))
}

/// True when the proxy that a client spoke to says that this was over TLS. Only of a trusted proxy this says anything.
pub fn says_https(headers: &HeaderMap) -> bool {
    let first = |name: &str| headers.get(name)?.to_str().ok()?.split(',').next().map(str::to_owned);
    let of_element = |element: String| {
        let mut pairs = element.split(';').filter_map(|pair| pair.split_once('='));
        let proto = pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case("proto"));
        proto.map(|(_, value)| value.trim().trim_matches('"').to_owned())
    };
    let proto = first(FORWARDED.as_str()).and_then(of_element).or_else(|| first(X_FORWARDED_PROTO));
    proto.is_some_and(|proto| proto.trim().eq_ignore_ascii_case("https"))
}

/// The addresses that proxies have added, in their order; `None` for what is no address.
/// `Forwarded` counts where both are there.
fn forwarded(headers: &HeaderMap) -> Vec<Option<IpAddr>> {
    let lines = |name: &str| headers.get_all(name).iter().filter_map(|line| line.to_str().ok()).collect::<Vec<_>>();
    let standard = lines(FORWARDED.as_str());
    if standard.is_empty() {
        return lines(X_FORWARDED_FOR).iter().flat_map(|line| line.split(',')).map(address).collect();
    }
    let of_element = |element: &str| {
        let pairs = element.split(';').filter_map(|pair| pair.split_once('='));
        let mut named = pairs.filter(|(name, _)| name.trim().eq_ignore_ascii_case("for"));
        named.next().and_then(|(_, value)| address(value))
    };
    standard.iter().flat_map(|line| line.split(',')).map(of_element).collect()
}

/// An address, perhaps with a port, in brackets, or in quotes.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim().trim_matches('"');
    if let Some(inside) = text.strip_prefix('[') {
        return inside.split(']').next()?.parse::<Ipv6Addr>().ok().map(|address| IpAddr::V6(address).to_canonical());
    }
    let plain = text.parse::<IpAddr>().ok().map(|address| address.to_canonical());
    plain.or_else(|| text.split_once(':')?.0.parse::<Ipv4Addr>().ok().map(IpAddr::V4))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(trusted: &str, peer: &str, headers: &[(&str, &str)]) -> String {
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        let proxies = Proxies::parse(trusted).unwrap();
        proxies.client(peer.parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn only_a_trusted_proxy_is_believed() {
        let says = [("x-forwarded-for", "192.0.2.7")];
        assert_eq!(client("", "10.0.0.1", &says), "10.0.0.1");
        assert_eq!(client("10.0.0.0/8", "10.0.0.1", &says), "192.0.2.7");
        assert_eq!(client("10.0.0.0/8", "11.0.0.1", &says), "11.0.0.1");
        assert_eq!(client("10.0.0.0/8", "::ffff:10.0.0.1", &says), "192.0.2.7");
        assert_eq!(client("2001:db8::/32", "2001:db8::5", &says), "192.0.2.7");
    }

    #[test]
    fn what_a_client_made_up_before_its_proxy_is_ignored() {
        let chain = [("x-forwarded-for", "1.2.3.4, 192.0.2.7, 10.0.0.9")];
        assert_eq!(client("10.0.0.0/8", "10.0.0.1", &chain), "192.0.2.7");
        assert_eq!(client("10.0.0.1", "10.0.0.1", &chain), "10.0.0.9");
        assert_eq!(client("10.0.0.0/8", "10.0.0.1", &[("x-forwarded-for", "192.0.2.7, unknown")]), "10.0.0.1");
        assert_eq!(client("10.0.0.0/8", "10.0.0.1", &[]), "10.0.0.1");
    }

    #[test]
    fn the_standard_header_is_read_too() {
        let says = [("forwarded", "for=\"[2001:db8::1]:4711\";proto=https, For=192.0.2.60:80;by=10.0.0.2")];
        assert_eq!(client("10.0.0.0/8", "10.0.0.1", &says), "192.0.2.60");
        let says = [("forwarded", "for=\"[2001:db8::1]:4711\""), ("x-forwarded-for", "192.0.2.7")];
        assert_eq!(client("10.0.0.0/8", "10.0.0.1", &says), "2001:db8::1");
    }

    #[test]
    fn a_proxy_says_whether_it_was_spoken_to_over_tls() {
        for (name, value, is_https) in [
            ("x-forwarded-proto", "https", true),
            ("x-forwarded-proto", "HTTPS, http", true),
            ("x-forwarded-proto", "http", false),
            ("forwarded", "for=192.0.2.60;proto=https;by=10.0.0.2", true),
            ("forwarded", "for=192.0.2.60;proto=http, proto=https", false),
            ("x-forwarded-for", "https", false),
        ] {
            let headers = [(name.parse().unwrap(), value.parse().unwrap())].into_iter().collect();
            assert_eq!(says_https(&headers), is_https, "{name}: {value}");
        }
    }

    #[test]
    fn what_is_no_network_is_named() {
        for wrong in ["10.0.0.0/33", "proxy.example", "10.0.0.0/x", "::/129"] {
            assert!(Proxies::parse(wrong).unwrap_err().contains(wrong), "{wrong}");
        }
        assert_eq!(Proxies::parse(" , 10.0.0.1 ,").unwrap().0.len(), 1);
        assert!(Proxies::parse("0.0.0.0/0").unwrap().trust("192.0.2.1".parse().unwrap()));
    }
}
