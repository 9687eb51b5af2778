//! Where a webhook may call: anywhere in public, and in private only what somebody has allowed by name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Most entries of a list of allowed targets.
const ALLOWED_MAX: usize = 1_000;

/// Networks of version 4 that are not public: address and length of the prefix.
const PRIVATE_V4: [(Ipv4Addr, u8); 15] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),       // this network
    (Ipv4Addr::new(10, 0, 0, 0), 8),      // private
    (Ipv4Addr::new(100, 64, 0, 0), 10),   // carriers' translators
    (Ipv4Addr::new(127, 0, 0, 0), 8),     // loopback
    (Ipv4Addr::new(169, 254, 0, 0), 16),  // link local, and clouds' metadata
    (Ipv4Addr::new(172, 16, 0, 0), 12),   // private
    (Ipv4Addr::new(192, 0, 0, 0), 24),    // protocol assignments
    (Ipv4Addr::new(192, 0, 2, 0), 24),    // documentation
    (Ipv4Addr::new(192, 88, 99, 0), 24),  // 6to4 relays
    (Ipv4Addr::new(192, 168, 0, 0), 16),  // private
    (Ipv4Addr::new(198, 18, 0, 0), 15),   // benchmarks
    (Ipv4Addr::new(198, 51, 100, 0), 24), // documentation
    (Ipv4Addr::new(203, 0, 113, 0), 24),  // documentation
    (Ipv4Addr::new(224, 0, 0, 0), 4),     // multicast
    (Ipv4Addr::new(240, 0, 0, 0), 4),     // reserved, and broadcast
];

/// What is public of version 6; everything else is loopback, unspecified, unique local, link local, multicast or reserved.
const GLOBAL_V6: Network = Network { address: IpAddr::V6(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0)), prefix: 3 };
/// What of it is not public after all.
const PRIVATE_V6: [(Ipv6Addr, u8); 4] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23), // protocol assignments, Teredo among them
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32), // documentation
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16), // 6to4
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20), // documentation
];
/// Translators to version 4: the last 32 bits say where it goes.
const NAT64: Network = Network { address: IpAddr::V6(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0)), prefix: 96 };

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    fn parse(text: &str) -> Option<Network> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address.parse::<IpAddr>().ok()?, Some(prefix.parse::<u8>().ok()?)),
            None => (text.parse::<IpAddr>().ok()?, None),
        };
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.unwrap_or(bits);
        (prefix <= bits).then_some(Network { address, prefix })
    }

    fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let kept = u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0);
                own.to_bits() & kept == other.to_bits() & kept
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let kept = u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0);
                own.to_bits() & kept == other.to_bits() & kept
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// The address of version 4 that one of version 6 stands for, if it stands for one.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let is_translated = NAT64.contains(IpAddr::V6(address));
    address.to_ipv4_mapped().or_else(|| is_translated.then(|| Ipv4Addr::from_bits(address.to_bits() as u32)))
}

/// True when everybody may call this address.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(own) => !PRIVATE_V4
            .iter()
            .any(|(network, prefix)| Network { address: IpAddr::V4(*network), prefix: *prefix }.contains(own.into())),
        IpAddr::V6(own) => match embedded(own) {
            Some(inner) => is_public(IpAddr::V4(inner)),
            None => {
                let is_private = |(network, prefix): &(Ipv6Addr, u8)| {
                    Network { address: IpAddr::V6(*network), prefix: *prefix }.contains(address)
                };
                GLOBAL_V6.contains(address) && !PRIVATE_V6.iter().any(is_private)
            }
        },
    }
}

/// What may be called although it is not public: names of hosts, addresses and networks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AllowedTargets {
    hosts: Vec<String>,
    networks: Vec<Network>,
}

impl AllowedTargets {
    /// Reads names, addresses and networks with commas between them. Says what is none of these.
    pub fn parse(text: &str) -> Result<AllowedTargets, String> {
        let mut allowed = AllowedTargets::default();
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        for word in words {
            if allowed.hosts.len() + allowed.networks.len() == ALLOWED_MAX {
                return Err(format!("has more than {ALLOWED_MAX} entries"));
            }
            if let Some(network) = Network::parse(&word.replace(['[', ']'], "")) {
                allowed.networks.push(network);
            } else if is_host_name(word) {
                allowed.hosts.push(plain(word));
            } else {
                return Err(format!("has {word:?}, which is no host name, no address and no network like 10.1.0.0/16"));
            }
        }
        Ok(allowed)
    }

    /// True when a host is allowed as it is written: by its name, or as an address.
    pub fn names(&self, host: &str) -> bool {
        match host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            Ok(address) => self.has(address),
            Err(_) => self.hosts.contains(&plain(host)),
        }
    }

    fn has(&self, address: IpAddr) -> bool {
        let inner = match address {
            IpAddr::V6(own) => embedded(own).map(IpAddr::V4),
            IpAddr::V4(_) => None,
        };
        self.networks
            .iter()
            .any(|network| network.contains(address) || inner.is_some_and(|inner| network.contains(inner)))
    }

    /// True when a host may be called at all of these addresses, which its name stands for.
    pub fn may_call(&self, host: &str, addresses: &[IpAddr]) -> bool {
        self.names(host) || addresses.iter().all(|address| is_public(*address) || self.has(*address))
    }
}

/// Without the dot at the end that names may have, and in small letters.
fn plain(host: &str) -> String {
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

fn is_host_name(word: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    let labels = word.strip_suffix('.').unwrap_or(word);
    // Four numbers are an address that was misspelt.
    let is_number = labels.split('.').all(|label| label.bytes().all(|byte| byte.is_ascii_digit()));
    labels.len() <= 253 && labels.split('.').all(is_label) && !is_number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_told_from_public_ones() {
        let private = [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "10.255.255.255",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:2::1",
            "2001:10::1",
            "2001:20::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:808:808::1",
            "3fff::1",
            "3fff:fff::1",
            "4000::1",
            "5f00::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ];
        let public = [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.1",
            "100.63.255.255",
            "100.128.0.1",
            "126.255.255.255",
            "128.0.0.1",
            "169.253.255.255",
            "169.255.0.1",
            "172.15.255.255",
            "172.32.0.1",
            "191.255.255.255",
            "192.0.1.1",
            "192.167.1.1",
            "192.169.1.1",
            "198.17.1.1",
            "198.20.1.1",
            "223.255.255.255",
            "2001:200::1",
            "2001:4860:4860::8888",
            "2606:4700::1111",
            "2a00:1450::1",
            "3ffe::1",
            "3fff:1000::1",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
        ];
        for (addresses, expected) in [(&private[..], false), (&public[..], true)] {
            for address in addresses {
                assert_eq!(is_public(address.parse().unwrap()), expected, "{address}");
            }
        }
    }

    #[test]
    fn what_is_private_is_called_only_where_it_was_allowed_by_name() {
        let allowed =
            AllowedTargets::parse("hooks.internal, 10.1.0.0/16,[fd00::]/8 , 127.0.0.1, Other.Internal.").unwrap();
        let to = |text: &str| -> Vec<IpAddr> { text.split(' ').map(|one| one.parse().unwrap()).collect() };
        let cases = [
            ("example.com", "8.8.8.8", true),
            ("example.com", "10.1.2.3", true),
            ("example.com", "10.2.2.3", false),
            ("example.com", "8.8.8.8 10.2.2.3", false),
            ("example.com", "8.8.8.8 10.1.2.3", true),
            ("example.com", "::ffff:10.1.2.3", true),
            ("example.com", "fd12::1", true),
            ("example.com", "fe80::1", false),
            ("hooks.internal", "10.2.2.3", true),
            ("HOOKS.internal.", "169.254.169.254", true),
            ("other.internal", "192.168.0.1", true),
            ("a.hooks.internal", "10.2.2.3", false),
            ("localhost", "127.0.0.1", true),
            ("localhost", "127.0.0.2", false),
        ];
        for (host, addresses, expected) in cases {
            assert_eq!(allowed.may_call(host, &to(addresses)), expected, "{host} at {addresses}");
        }
        for (host, expected) in [("10.1.9.9", true), ("10.2.0.1", false), ("[fd00::1]", true), ("localhost", false)] {
            assert_eq!(allowed.names(host), expected, "{host}");
        }
        assert!(!AllowedTargets::default().names("hooks.internal"));
    }

    #[test]
    fn a_list_of_targets_says_what_it_cannot_read() {
        for wrong in ["http://a", "a b", "10.0.0.0/33", "10.0.0", "10.0.0.0.1", "*", "a..b", "::1/129", "host:80"] {
            let why = AllowedTargets::parse(wrong).unwrap_err();
            assert!(why.contains("no host name"), "{wrong}: {why}");
        }
        for right in ["", " , ", "a", "a_b.c-d", "0.0.0.0/0", "::/0", "1.2.3.4"] {
            AllowedTargets::parse(right).unwrap();
        }
    }
}
