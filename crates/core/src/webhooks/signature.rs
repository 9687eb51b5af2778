//! Signatures by the [Standard Webhooks](https://www.standardwebhooks.com) specification, version 1.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Prefix of a secret where it is shown; base64 follows.
pub const SECRET_PREFIX: &str = "whsec_";
/// Shortest secret.
pub const SECRET_BYTES_MIN: usize = 24;
/// Longest secret.
pub const SECRET_BYTES_MAX: usize = 64;

/// The signature of a message: what follows `v1,` in the header `webhook-signature`, before it is written as base64.
pub fn signature(secret: &[u8], id: &str, timestamp_s: i64, body: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("a key may have any length");
    for part in [id.as_bytes(), b".", timestamp_s.to_string().as_bytes(), b".", body] {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vector of the reference libraries: the secret `whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw`, and the signature
    /// `g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=`.
    #[test]
    fn a_message_is_signed_as_the_specification_says() {
        let secret =
            b"\x31\xf2\x90\xf6\xbf\x06\x29\x8a\xab\x4f\x08\xd4\x3c\x3f\x08\x2c\xf6\x48\xa3\x62\xda\x2d\xa4\xb0";
        let signed = signature(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        let expected = "83484cf52b04f8e4cf2531adfed9882ad4b2665137b852442d594d20e2c9d4e1";
        assert_eq!(signed.iter().map(|byte| format!("{byte:02x}")).collect::<String>(), expected);
    }
}
