//! Randomness, handed to the server from outside, so that a simulator can replay it.

use std::cell::RefCell;
use std::fmt;

/// A source of random bits.
pub trait Entropy: Send + Sync + fmt::Debug {
    /// Fills the buffer.
    fn fill(&self, buffer: &mut [u8]);

    /// 64 random bits.
    fn bits(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_ne_bytes(bytes)
    }

    /// A die from 0 to 1.
    fn die(&self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Bytes that a thread asks the operating system for at once, for numbers: every request and run takes one.
const NUMBER_BYTES: usize = 512;

/// Random bytes of a thread that become numbers, and how many of them have.
struct Numbers {
    bytes: [u8; NUMBER_BYTES],
    taken: usize,
}

thread_local! {
    static NUMBERS: RefCell<Numbers> =
        const { RefCell::new(Numbers { bytes: [0; NUMBER_BYTES], taken: NUMBER_BYTES }) };
}

/// The operating system's. Numbers come from a reserve; secrets never lie in one.
#[derive(Clone, Copy, Debug)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, buffer: &mut [u8]) {
        getrandom::fill(buffer).expect("the operating system gives random bytes");
    }

    fn bits(&self) -> u64 {
        NUMBERS.with_borrow_mut(|numbers| {
            if numbers.taken == NUMBER_BYTES {
                self.fill(&mut numbers.bytes);
                numbers.taken = 0;
            }
            let mut bytes = [0; size_of::<u64>()];
            bytes.copy_from_slice(&numbers.bytes[numbers.taken..numbers.taken + size_of::<u64>()]);
            numbers.taken += size_of::<u64>();
            u64::from_ne_bytes(bytes)
        })
    }
}

/// A seeded one for tests and simulations: the same seed, the same dice.
#[derive(Debug)]
pub struct SeededEntropy(std::sync::Mutex<u64>);

impl SeededEntropy {
    /// Starts at this seed.
    pub fn new(seed: u64) -> SeededEntropy {
        SeededEntropy(std::sync::Mutex::new(seed))
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, buffer: &mut [u8]) {
        let mut state = self.0.lock().expect("nobody panics while holding it");
        for chunk in buffer.chunks_mut(8) {
            // SplitMix64: small, and good enough for dice.
            *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = *state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            chunk.copy_from_slice(&(mixed ^ (mixed >> 31)).to_ne_bytes()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_number_comes_twice_whatever_thread_takes_it() {
        let take = || (0..1_000).map(|_| SystemEntropy.bits()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(take)).collect();
        let numbers: Vec<u64> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), 4_000);
    }
}
