//! Randomness, handed to the server from outside, so that a simulator can replay it.

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

/// The operating system's.
#[derive(Clone, Copy, Debug)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, buffer: &mut [u8]) {
        getrandom::fill(buffer).expect("the operating system gives random bytes");
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
