//! Credentials. Random ones are stored as hashes; lease tokens are derived from what a run's row
//! has anyway.
//!
//! Every credential has a prefix that says what it is, so that one that leaks can be recognised.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::pools::OrderId;
use crate::{Epoch, RunId, WorkerId};

/// Prefix of an API key.
pub const API_KEY_PREFIX: &str = "bk_";
/// Prefix of a lease token.
pub const LEASE_PREFIX: &str = "bl_";
/// Prefix of a one-time password for a machine.
pub const OTP_PREFIX: &str = "bo_";
/// Prefix of a machine's token.
pub const MACHINE_PREFIX: &str = "bv_";
/// Prefix of a token that is good for a machine's heartbeats and nothing else.
pub const BEAT_PREFIX: &str = "bh_";
/// Prefix of a build's token.
pub const BUILD_PREFIX: &str = "bb_";
/// Prefix of a builder's token.
pub const BUILDER_PREFIX: &str = "bw_";
/// Prefix of the token with which the agent of a new machine joins its pool.
pub const JOIN_PREFIX: &str = "bj_";
/// Prefix of a runner's token.
pub const RUNNER_PREFIX: &str = "br_";
/// Prefix of the token of a session in the dashboard.
pub const SESSION_PREFIX: &str = "bs_";
/// Prefix of the token in a link that signs in once.
pub const SIGNIN_PREFIX: &str = "bi_";
/// Prefix of a master key.
pub const MASTER_KEY_PREFIX: &str = "bmk_";
/// The newest generation of secrets that there can be: a payload's reference has room for no more.
pub const GENERATION_MAX: u32 = (1 << 15) - 1;
/// Shortest API key a person may choose for themselves, in characters.
pub const API_KEY_LENGTH_MIN: usize = 16;

/// The hash of a credential, which is all that is kept of it.
pub type Hash = [u8; 32];

/// Makes an API key from 160 random bits.
pub fn api_key(random: [u8; 20]) -> String {
    format!("{API_KEY_PREFIX}{}", base32(&random))
}

/// Makes the token of a session from 256 random bits.
pub fn session(random: [u8; 32]) -> String {
    format!("{SESSION_PREFIX}{}", base32(&random))
}

/// Makes the token of a link that signs in once from 256 random bits.
pub fn signin_link(random: [u8; 32]) -> String {
    format!("{SIGNIN_PREFIX}{}", base32(&random))
}

/// Makes a master key from 256 random bits.
pub fn master_key(random: [u8; 32]) -> String {
    format!("{MASTER_KEY_PREFIX}{}", base32(&random))
}

/// Whether this has the form of a master key. One has 256 bits, in 52 characters.
pub fn is_master_key(text: &str) -> bool {
    let digits = text.strip_prefix(MASTER_KEY_PREFIX).unwrap_or_default();
    digits.len() == 52 && digits.bytes().all(|digit| ALPHABET.contains(&digit))
}

/// What a master key is called where everybody may read it: `mk_` and 48 bits of its hash.
pub fn master_key_id(key: &str) -> String {
    let sum = Sha256::new().chain_update(b"baton master key id\n").chain_update(key).finalize();
    let digits: String = sum.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("mk_{digits}")
}

/// A generation of the installation's secret, ready to derive tokens from. The first part of the
/// work is done once, when it is made.
#[derive(Clone)]
pub struct TokenKey {
    /// `g<generation>_`; nothing for generation 0, from before there were generations.
    marker: String,
    generation: u32,
    mac: Hmac<Sha256>,
}

impl TokenKey {
    /// The key of this generation.
    pub fn new(generation: u32, secret: &[u8]) -> TokenKey {
        let marker = if generation == 0 { String::new() } else { format!("g{generation}_") };
        let mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
        TokenKey { marker, generation, mac }
    }

    /// Which one it is.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    fn strip<'a>(&self, prefix: &str, token: &'a str) -> Option<&'a str> {
        token.strip_prefix(prefix)?.strip_prefix(self.marker.as_str())
    }
}

impl std::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TokenKey({})", self.generation)
    }
}

/// The generation that a derived token says it is of. Anybody can write anything there: only the
/// key of that generation tells whether it is true.
pub fn generation_of(token: &str) -> u32 {
    let marked = token.get(3..).and_then(|rest| rest.strip_prefix('g')).and_then(|rest| rest.split_once('_'));
    marked.and_then(|(number, _)| number.parse().ok()).unwrap_or(0)
}

/// The hash under which a credential is stored. The credentials are long and random, so a plain hash is enough.
pub fn hash(credential: &str) -> Hash {
    Sha256::digest(credential.as_bytes()).into()
}

/// Compares two hashes in constant time.
pub fn same(left: &Hash, right: &Hash) -> bool {
    left.ct_eq(right).into()
}

/// What a token that belongs to one lease of one run is good for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purpose {
    Lease,
    Otp,
    Machine,
    Beat,
}

impl Purpose {
    fn prefix(self) -> &'static str {
        match self {
            Purpose::Lease => LEASE_PREFIX,
            Purpose::Otp => OTP_PREFIX,
            Purpose::Machine => MACHINE_PREFIX,
            Purpose::Beat => BEAT_PREFIX,
        }
    }

    fn word(self) -> &'static [u8] {
        match self {
            Purpose::Lease => b"lease",
            Purpose::Otp => b"otp",
            Purpose::Machine => b"machine",
            Purpose::Beat => b"beat",
        }
    }

    fn token(self, key: &TokenKey, run: RunId, epoch: Epoch, tenant: Option<Tenant>) -> String {
        let (prefix, marker) = (self.prefix(), &key.marker);
        let mac = self.mac(key, run, epoch, tenant);
        match (epoch.mark(), tenant) {
            (0, _) => format!("{prefix}{marker}{epoch}_{mac}"),
            (mark, None) => format!("{prefix}{marker}{epoch}_{mark:08x}_{mac}"),
            (mark, Some(Tenant(tenant))) => format!("{prefix}{marker}{epoch}_{mark:08x}_{tenant:08x}_{mac}"),
        }
    }

    fn open(self, key: &TokenKey, run: RunId, token: &str) -> Option<(Epoch, Option<Tenant>)> {
        let mut parts = key.strip(self.prefix(), token)?.splitn(4, '_');
        let number = Epoch::new(parts.next()?.parse().ok()?);
        let bits = |part: &str| u32::from_str_radix(part, 16).ok();
        let (epoch, tenant) = match (parts.next()?, parts.next(), parts.next()) {
            (_, None, _) => (number, None),
            (mark, Some(_), None) => (number.marked(bits(mark)?), None),
            (mark, Some(tenant), Some(_)) => {
                (number.marked(bits(mark)?), Some(Tenant(bits(tenant).filter(|bits| *bits != 0)?)))
            }
        };
        // The whole token, so that there is one spelling of each.
        is_same_text(&self.token(key, run, epoch, tenant), token).then_some((epoch, tenant))
    }

    fn mac(self, key: &TokenKey, run: RunId, epoch: Epoch, tenant: Option<Tenant>) -> String {
        let (number, mark) = (epoch.number().to_be_bytes(), epoch.mark().to_be_bytes());
        let tenant = tenant.map_or([0; 4], |Tenant(bits)| bits.to_be_bytes());
        // Leases from before there were marks, and tenants, stay good.
        let (mark, tenant): (&[u8], &[u8]) = match (epoch.mark(), tenant) {
            (0, _) => (&[], &[]),
            (_, [0, 0, 0, 0]) => (&mark, &[]),
            (_, _) => (&mark, &tenant),
        };
        mac(key, &[self.word(), run.0.as_bytes(), &number, mark, tenant])
    }
}

/// A namespace as a lease token names it: 32 bits that say nothing to whoever has no secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tenant(u32);

impl Tenant {
    /// The bits of this namespace.
    pub fn of(key: &TokenKey, namespace: &str) -> Tenant {
        let [a, b, c, d, ..] = mac_bits(key, &[b"namespace", namespace.as_bytes()]);
        // Zero would be no tenant.
        Tenant(u32::from_be_bytes([a, b, c, d]).max(1))
    }
}

/// The token that proves a claim: `bl_g<generation>_<number>_<mark>_<tenant>_<mac>`. It is derived from the
/// installation's secret, the run, the epoch and the run's namespace, so every server can check it,
/// a later claim makes it stale, and nobody has to look up whose run it is. The mark is random, so
/// it stays stale even where the database has forgotten the claim and counts the same number again.
pub fn lease(key: &TokenKey, run: RunId, epoch: Epoch, namespace: &str) -> String {
    Purpose::Lease.token(key, run, epoch, Some(Tenant::of(key, namespace)))
}

/// Reads the epoch, and whose run it is, from a lease token of this run, or `None` when the token
/// is not one of ours. Tokens from before say no tenant.
pub fn open_lease(key: &TokenKey, run: RunId, token: &str) -> Option<(Epoch, Option<Tenant>)> {
    Purpose::Lease.open(key, run, token)
}

/// The password with which a machine that builds for this lease makes itself known, once.
pub fn otp(key: &TokenKey, run: RunId, epoch: Epoch) -> String {
    Purpose::Otp.token(key, run, epoch, None)
}

/// Reads the epoch from a one-time password of this run.
pub fn open_otp(key: &TokenKey, run: RunId, token: &str) -> Option<Epoch> {
    Purpose::Otp.open(key, run, token).map(|(epoch, _)| epoch)
}

/// The token of a machine that builds for this lease. It dies with the lease.
pub fn machine(key: &TokenKey, run: RunId, epoch: Epoch) -> String {
    Purpose::Machine.token(key, run, epoch, None)
}

/// Reads the epoch from a machine's token of this run.
pub fn open_machine(key: &TokenKey, run: RunId, token: &str) -> Option<Epoch> {
    Purpose::Machine.open(key, run, token).map(|(epoch, _)| epoch)
}

/// A token with which whoever watches the machine of this lease sends its heartbeats, and does
/// nothing else. It dies with the lease.
pub fn beat(key: &TokenKey, run: RunId, epoch: Epoch) -> String {
    Purpose::Beat.token(key, run, epoch, None)
}

/// Reads the epoch from a token for heartbeats of this run.
pub fn open_beat(key: &TokenKey, run: RunId, token: &str) -> Option<Epoch> {
    Purpose::Beat.open(key, run, token).map(|(epoch, _)| epoch)
}

/// The token with which whoever submitted a build follows it.
pub fn build(key: &TokenKey, run: RunId) -> String {
    format!("{BUILD_PREFIX}{}{}", key.marker, mac(key, &[b"build", run.0.as_bytes()]))
}

/// Whether this is the token of that build.
pub fn is_build(key: &TokenKey, run: RunId, token: &str) -> bool {
    is_same_text(&build(key, run), token)
}

/// The n-th token of a builder's incarnation: `bw_g<generation>_<worker>_<n>_<mac>`.
pub fn builder(key: &TokenKey, worker: WorkerId, number: i64) -> String {
    format!("{BUILDER_PREFIX}{}{}_{number}_{}", key.marker, worker.0.simple(), builder_mac(key, worker, number))
}

/// Reads worker and number from a builder's token, or `None` when the token is not one of ours.
pub fn open_builder(key: &TokenKey, token: &str) -> Option<(WorkerId, i64)> {
    let mut parts = key.strip(BUILDER_PREFIX, token)?.splitn(3, '_');
    let worker = WorkerId(parts.next()?.parse().ok()?);
    let number = parts.next()?.parse().ok()?;
    is_same_text(&builder_mac(key, worker, number), parts.next()?).then_some((worker, number))
}

fn builder_mac(key: &TokenKey, worker: WorkerId, number: i64) -> String {
    mac(key, &[b"builder", worker.0.as_bytes(), &number.to_be_bytes()])
}

/// The token that the machines of an order are started with: `bj_g<generation>_<order>_<mac>`. The same however often the order is repeated, by whichever server.
pub fn join(key: &TokenKey, order: OrderId) -> String {
    format!("{JOIN_PREFIX}{}{}_{}", key.marker, order.0.simple(), mac(key, &[b"join", order.0.as_bytes()]))
}

/// Reads the order from a join token, or `None` when the token is not one of ours.
pub fn open_join(key: &TokenKey, token: &str) -> Option<OrderId> {
    let (order, _) = key.strip(JOIN_PREFIX, token)?.split_once('_')?;
    let order = OrderId(order.parse().ok()?);
    is_same_text(&join(key, order), token).then_some(order)
}

/// The token of the runner whose agent joined with this nonce, on this machine of an order: who joins again with the same ones gets the same token.
/// It is kept as a hash. It does not name the runner: which one that is gets decided by the write that also keeps the hash.
pub fn runner(key: &TokenKey, order: OrderId, machine_id: &str, nonce: [u8; 16]) -> String {
    format!("{RUNNER_PREFIX}{}", mac(key, &[b"runner", order.0.as_bytes(), &hash(machine_id), &nonce]))
}

fn is_same_text(left: &str, right: &str) -> bool {
    left.as_bytes().ct_eq(right.as_bytes()).into()
}

/// The signature under what a row says of a payload that is kept elsewhere.
pub(crate) fn payload(key: &TokenKey, said: &[u8]) -> [u8; 16] {
    mac_bits(key, &[b"payload", said])
}

fn mac(key: &TokenKey, parts: &[&[u8]]) -> String {
    base32(&mac_bits(key, parts))
}

/// 128 bits, keyed by the secret. The first part tells the kinds apart, and the others of a kind
/// have the same lengths; only a tenant, or a mark and a tenant, may be missing at the end.
fn mac_bits(key: &TokenKey, parts: &[&[u8]]) -> [u8; 16] {
    let mut mac = key.mac.clone();
    parts.iter().for_each(|part| mac.update(part));
    let mut bits = [0; 16];
    bits.copy_from_slice(&mac.finalize().into_bytes()[..16]);
    bits
}

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Lower-case base 32 without the letters that look like digits (Crockford's alphabet).
fn base32(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 8 / 5 + 1);
    let (mut buffer, mut bits) = (0u32, 0);
    for byte in bytes {
        buffer = buffer << 8 | u32::from(*byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            text.push(ALPHABET[(buffer >> bits & 31) as usize] as char);
        }
    }
    if bits > 0 {
        text.push(ALPHABET[(buffer << (5 - bits) & 31) as usize] as char);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One from before there were generations.
    fn old() -> TokenKey {
        TokenKey::new(0, b"an installation's secret")
    }

    fn another() -> TokenKey {
        TokenKey::new(0, b"another")
    }

    #[test]
    fn a_lease_opens_only_its_own_run_and_epoch() {
        let run = RunId::new(1_000, 1, 1);
        let (seven, marked) = (Epoch::new(7), Epoch::new(7).marked(0xab));
        let token = lease(&old(), run, marked, "alpha");
        assert!(token.starts_with("bl_7_000000ab_"));
        assert_eq!(open_lease(&old(), run, &token), Some((marked, Some(Tenant::of(&old(), "alpha")))));
        assert_eq!(open_lease(&old(), RunId::new(1_000, 2, 1), &token), None);
        assert_eq!(open_lease(&another(), run, &token), None);
        for other in ["bl_8_000000ab_", "bl_7_000000ac_", "bl_7_AB_", "bl_07_000000ab_", "bl_7_"] {
            assert_eq!(open_lease(&old(), run, &token.replace("bl_7_000000ab_", other)), None, "{other}");
        }
        let others = lease(&old(), run, marked, "beta");
        let (tenant, foreign) = (token.split('_').nth(3).unwrap(), others.split('_').nth(3).unwrap());
        assert_ne!(tenant, foreign);
        assert_eq!(open_lease(&old(), run, &token.replace(tenant, foreign)), None, "another tenant");
        // From before there were tenants, and before there were marks.
        let before = Purpose::Lease.token(&old(), run, marked, None);
        assert_eq!(open_lease(&old(), run, &before), Some((marked, None)));
        assert_eq!(open_lease(&old(), run, &lease(&old(), run, seven, "alpha")), Some((seven, None)));
        for broken in ["", "bl_", "bl_7", "bl_7_", "bl_x_y", "bl_-1_a", "bl_99999999999_a"] {
            assert_eq!(open_lease(&old(), run, broken), None, "{broken}");
        }
    }

    #[test]
    fn no_token_is_good_for_another_purpose() {
        let run = RunId::new(1_000, 1, 1);
        let epoch = Epoch::new(3).marked(5);
        let lease = Purpose::Lease.token(&old(), run, epoch, None);
        let [otp, machine, beat] = [otp, machine, beat].map(|make| make(&old(), run, epoch));
        let tokens = [lease, otp, machine, beat];
        type Open = fn(&TokenKey, RunId, &str) -> Option<Epoch>;
        let lease_of: Open = |secret, run, token| open_lease(secret, run, token).map(|(epoch, _)| epoch);
        let readers: [Open; 4] = [lease_of, open_otp, open_machine, open_beat];
        for (made_for, token) in tokens.iter().enumerate() {
            for (read_as, open) in readers.iter().enumerate() {
                assert_eq!(open(&old(), run, token).is_some(), made_for == read_as, "{token}");
                // Nor does another prefix make it so.
                let renamed = format!("{}{}", &tokens[read_as][..3], &token[3..]);
                assert_eq!(open(&old(), run, &renamed).is_some(), made_for == read_as, "{renamed}");
            }
        }
    }

    #[test]
    fn a_build_token_is_good_for_its_build() {
        let (run, other) = (RunId::new(1_000, 1, 1), RunId::new(1_000, 2, 1));
        let token = build(&old(), run);
        assert!(token.starts_with("bb_") && is_build(&old(), run, &token));
        assert!(!is_build(&old(), other, &token) && !is_build(&another(), run, &token) && !is_build(&old(), run, ""));
    }

    #[test]
    fn a_builder_token_says_whose_and_which() {
        let worker = WorkerId::from_random(7);
        let token = builder(&old(), worker, 12);
        assert_eq!(open_builder(&old(), &token), Some((worker, 12)));
        assert_eq!(open_builder(&another(), &token), None);
        assert_eq!(open_builder(&old(), &token.replace("_12_", "_13_")), None);
        for broken in ["", "bw_", "bw_x_1_a", "bw__", &token[..token.len() - 1], &token[3..]] {
            assert_eq!(open_builder(&old(), broken), None, "{broken}");
        }
    }

    #[test]
    fn a_join_token_says_which_order_and_a_runner_token_belongs_to_one_agent() {
        let order = OrderId::from_random(7);
        let token = join(&old(), order);
        assert_eq!((open_join(&old(), &token), open_join(&another(), &token)), (Some(order), None));
        assert_eq!(
            open_join(
                &old(),
                &token.replace(&order.0.simple().to_string(), &OrderId::from_random(8).0.simple().to_string())
            ),
            None
        );
        for broken in ["", "bj_", "bj_x_y", &token[..token.len() - 1], &token[3..]] {
            assert_eq!(open_join(&old(), broken), None, "{broken}");
        }
        let other = OrderId::from_random(8);
        let token = runner(&old(), order, "m-1", [1; 16]);
        assert_eq!(token, runner(&old(), order, "m-1", [1; 16]));
        assert_ne!(token, runner(&old(), order, "m-1", [2; 16]));
        assert_ne!(token, runner(&old(), order, "m-2", [1; 16]));
        assert_ne!(token, runner(&old(), other, "m-1", [1; 16]));
    }

    #[test]
    fn a_token_says_its_generation_and_is_good_for_no_other() {
        let run = RunId::new(1_000, 1, 1);
        let (epoch, worker, order) = (Epoch::new(7).marked(9), WorkerId::from_random(7), OrderId::from_random(8));
        let secret = b"the same secret in all of them";
        let keys = [0, 1, 2, 12, GENERATION_MAX].map(|generation| TokenKey::new(generation, secret));
        for key in &keys {
            let tokens = [
                lease(key, run, epoch, "alpha"),
                otp(key, run, epoch),
                machine(key, run, epoch),
                beat(key, run, epoch),
                build(key, run),
                builder(key, worker, 12),
                join(key, order),
            ];
            for token in &tokens {
                assert_eq!(generation_of(token), key.generation(), "{token}");
            }
            for other in &keys {
                let opened = [
                    open_lease(other, run, &tokens[0]).is_some(),
                    open_otp(other, run, &tokens[1]).is_some(),
                    open_machine(other, run, &tokens[2]).is_some(),
                    open_beat(other, run, &tokens[3]).is_some(),
                    is_build(other, run, &tokens[4]),
                    open_builder(other, &tokens[5]).is_some(),
                    open_join(other, &tokens[6]).is_some(),
                ];
                assert_eq!(opened, [key.generation() == other.generation(); 7], "{tokens:?}");
            }
            assert!(open_lease(key, run, &tokens[0].replacen("bl_g", "bl_g0", 1)).is_some() == (key.generation() == 0));
        }
        for made_up in ["", "bl_", "bl_g", "bl_gx_1", "bl_g-1_1", "bl_g99999999999_1", "bb_gabc", "\u{e4}\u{e4}g1_"] {
            assert_eq!(generation_of(made_up), 0, "{made_up}");
        }
    }

    #[test]
    fn a_master_key_has_a_form_and_a_public_name_that_does_not_give_it_away() {
        let key = master_key([7; 32]);
        assert!(is_master_key(&key) && key.len() == 56 && key != master_key([8; 32]));
        for wrong in ["", "bmk_", &key[..55], &format!("{key}0"), &key.replace("bmk_", "bk_"), &key.to_uppercase()] {
            assert!(!is_master_key(wrong), "{wrong}");
        }
        let id = master_key_id(&key);
        assert!(id.starts_with("mk_") && id.len() == 15 && id != master_key_id(&master_key([8; 32])));
        assert!(!key.contains(&id[3..]));
    }

    #[test]
    fn keys_are_prefixed_and_hashed() {
        let key = api_key([255; 20]);
        assert_eq!(key, format!("bk_{}", "z".repeat(32)));
        assert!(same(&hash(&key), &hash(&key)));
        assert!(!same(&hash(&key), &hash("bk_other")));
    }
}
