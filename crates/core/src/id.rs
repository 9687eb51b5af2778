//! Identifiers: time-ordered for runs, random for workers, a plain number for the fence.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Millis;

/// How many bits of a [`RunId`] hold the store's submission counter.
pub const SEQUENCE_BITS: u32 = 26;

/// Names one run. A version 7 UUID made by the store, so that identifiers sort in submission order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub Uuid);

impl RunId {
    /// Builds the identifier of the run submitted at `now` as number `sequence` of this store.
    ///
    /// 48 bits of time, 26 bits of the store's own counter (so that two runs of one millisecond keep their
    /// order), 48 bits of `random`.
    pub fn new(now: Millis, sequence: u64, random: u64) -> RunId {
        let time = (now.max(0) as u64) & 0xffff_ffff_ffff;
        let sequence = sequence & ((1 << SEQUENCE_BITS) - 1);
        let high = time << 16 | 0x7000 | sequence >> 14;
        let low = 0x8000_0000_0000_0000 | (sequence & 0x3fff) << 48 | random & 0xffff_ffff_ffff;
        RunId(Uuid::from_u64_pair(high, low))
    }

    /// The smallest identifier a run submitted at or after `at` can have.
    pub fn floor(at: Millis) -> RunId {
        RunId::new(at, 0, 0)
    }

    /// When the run was submitted, read from its identifier.
    pub fn submitted_at(self) -> Millis {
        (self.0.as_u64_pair().0 >> 16) as Millis
    }
}

/// The last digits of a run's identifier. Identifiers begin with their time, so those of one day begin alike; their ends
/// are random, and people can tell runs apart by them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IdSuffix(String);

/// Fewest digits of an [`IdSuffix`]: fewer stand for too many runs.
pub const ID_SUFFIX_DIGITS_MIN: usize = 4;
/// Most digits of an [`IdSuffix`]: so many are random.
pub const ID_SUFFIX_DIGITS_MAX: usize = 12;
/// Fewest digits of an [`IdPrefix`].
pub const ID_PREFIX_DIGITS_MIN: usize = 4;
/// Digits of a whole identifier.
const UUID_DIGITS: usize = 32;

impl IdSuffix {
    /// Reads 4 to 12 hexadecimal digits, in either case.
    pub fn parse(text: &str) -> Option<IdSuffix> {
        let fits = (ID_SUFFIX_DIGITS_MIN..=ID_SUFFIX_DIGITS_MAX).contains(&text.len());
        let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        (fits && is_hex).then(|| IdSuffix(text.to_ascii_lowercase()))
    }

    /// The last bytes of identifiers that end like this. Of an odd number of digits the first is left out.
    pub fn bytes(&self) -> Vec<u8> {
        let digits = &self.0[self.0.len() % 2..];
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        digits.as_bytes().chunks(2).filter_map(byte).collect()
    }

    /// True when this identifier ends like this.
    pub fn is_end_of(&self, run: RunId) -> bool {
        run.0.as_simple().to_string().ends_with(&self.0)
    }
}

/// The first digits of a run's identifier: the range of identifiers that begin with them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdPrefix {
    /// The smallest identifier that begins like this.
    pub first: RunId,
    /// The smallest one beyond, unless there is none.
    pub beyond: Option<RunId>,
}

impl IdPrefix {
    /// Reads 4 to 32 hexadecimal digits, in either case, with the dashes of an identifier or without.
    pub fn parse(text: &str) -> Option<IdPrefix> {
        let digits: String = text.chars().filter(|digit| *digit != '-').collect();
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_hex || !(ID_PREFIX_DIGITS_MIN..=UUID_DIGITS).contains(&digits.len()) {
            return None;
        }
        let shift = 4 * (UUID_DIGITS - digits.len()) as u32;
        let number = u128::from_str_radix(&digits, 16).ok()?;
        let beyond = number.checked_add(1).and_then(|next| next.checked_mul(1 << shift));
        Some(IdPrefix {
            first: RunId(Uuid::from_u128(number << shift)),
            beyond: beyond.map(|beyond| RunId(Uuid::from_u128(beyond))),
        })
    }
}

/// Names one incarnation of a worker: every start is a new one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkerId(pub Uuid);

impl WorkerId {
    /// Builds an identifier from 128 random bits.
    pub fn from_random(random: u128) -> WorkerId {
        WorkerId(uuid::Builder::from_random_bytes(random.to_be_bytes()).into_uuid())
    }
}

/// The fence: its number grows by one with every claim of a run, and a write that carries an older
/// one is refused.
///
/// Beside the number it has a mark, 31 random bits of the claim that it began with. A database that
/// was restored, copied or failed over may count a number again; the mark tells the two claims
/// apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Epoch(i64);

/// The bits of a stored epoch that hold its number.
const NUMBER_BITS: u32 = 32;

impl Epoch {
    /// An epoch without a mark: of runners, and of runs that nobody has claimed.
    pub const fn new(number: u32) -> Epoch {
        Epoch(number as i64)
    }

    /// Reads one as it is stored: the mark in the upper half, the number in the lower.
    pub fn from_code(code: i64) -> Epoch {
        Epoch(code)
    }

    /// As it is stored.
    pub fn code(self) -> i64 {
        self.0
    }

    /// How many claims there were.
    pub fn number(self) -> u32 {
        self.0 as u32
    }

    /// What tells this claim from others with its number; 0 where there is none.
    pub fn mark(self) -> u32 {
        (self.0 >> NUMBER_BITS) as u32
    }

    /// The same number with this mark.
    pub fn marked(self, mark: u32) -> Epoch {
        Epoch(i64::from(mark) << NUMBER_BITS | i64::from(self.number()))
    }

    /// The next epoch, without a mark.
    pub fn next(self) -> Epoch {
        Epoch::new(self.number() + 1)
    }
}

impl Ord for Epoch {
    fn cmp(&self, other: &Epoch) -> Ordering {
        (self.number(), self.mark()).cmp(&(other.number(), other.mark()))
    }
}

impl PartialOrd for Epoch {
    fn partial_cmp(&self, other: &Epoch) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Makes the mark of a claim from random bits. Never 0: that is no mark.
pub fn mark(random: u32) -> u32 {
    (random >> 1).max(1)
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number().fmt(f)
    }
}

macro_rules! uuid_text {
    ($($name:ident),*) => {$(
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.0, f)
            }
        }
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.0, f)
            }
        }
        impl std::str::FromStr for $name {
            type Err = uuid::Error;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                uuid::Uuid::parse_str(text).map($name)
            }
        }
    )*};
}
pub(crate) use uuid_text;

uuid_text!(RunId, WorkerId);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn run_ids_sort_in_submission_order(
            now in 0i64..1 << 47, later in 0i64..1000, sequence in 0u64..(1 << SEQUENCE_BITS) - 1, dice: (u64, u64)
        ) {
            prop_assert!(RunId::new(now, sequence, dice.0) < RunId::new(now, sequence + 1, dice.1));
            prop_assert!(RunId::new(now, sequence, dice.0) < RunId::new(now + later + 1, 0, dice.1));
            prop_assert_eq!(RunId::new(now, sequence, dice.0).submitted_at(), now);
            prop_assert!(RunId::floor(now) <= RunId::new(now, sequence, dice.0));
        }

        #[test]
        fn a_prefix_is_the_range_of_identifiers_that_begin_with_it(id: u128, other: u128, digits in 4usize..=32) {
            let (id, other) = (RunId(Uuid::from_u128(id)), RunId(Uuid::from_u128(other)));
            let begin = id.0.as_simple().to_string()[..digits].to_owned();
            let prefix = IdPrefix::parse(&begin).unwrap();
            let is_in = |id: RunId| id >= prefix.first && prefix.beyond.is_none_or(|beyond| id < beyond);
            prop_assert!(is_in(id));
            prop_assert_eq!(is_in(other), other.0.as_simple().to_string().starts_with(&begin));
        }

        #[test]
        fn run_ids_are_version_7(now in 0i64..1 << 47, sequence: u64, dice: u64) {
            let id = RunId::new(now, sequence, dice);
            prop_assert_eq!(id.0.get_version_num(), 7);
            prop_assert_eq!(id.0.get_variant(), uuid::Variant::RFC4122);
            prop_assert_eq!(id.to_string().parse::<RunId>().unwrap(), id);
        }
    }

    #[test]
    fn prefixes_have_4_to_32_digits() {
        let last = IdPrefix::parse("FFFF").unwrap();
        assert_eq!((last.first.to_string().as_str(), last.beyond), ("ffff0000-0000-0000-0000-000000000000", None));
        assert_eq!(IdPrefix::parse(&"f".repeat(32)).unwrap().beyond, None);
        let dashed = IdPrefix::parse("0199a3c4-00").unwrap();
        assert_eq!(dashed.first.to_string(), "0199a3c4-0000-0000-0000-000000000000");
        assert_eq!(dashed.beyond.unwrap().to_string(), "0199a3c4-0100-0000-0000-000000000000");
        for wrong in ["", "019", "0-1-9", "0199x", "+199", &"0".repeat(33), "0199é"] {
            assert_eq!(IdPrefix::parse(wrong), None, "{wrong:?}");
        }
    }
}
