//! Numbers that a seed decides (splitmix64), for what has to be random and still told again.

/// Dice that fall the same way for the same seed.
#[derive(Debug)]
pub struct Dice(u64);

impl Dice {
    /// Dice of this seed.
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// A number below `sides`.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        scramble(self.0) % sides.max(1)
    }
}

/// Another number for each number, without a pattern.
pub fn scramble(number: u64) -> u64 {
    let bits = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
