//! The secret that deliveries are signed with, as it is shown.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use baton_core::webhooks::{SECRET_BYTES_MAX, SECRET_BYTES_MIN, SECRET_PREFIX};
use zeroize::Zeroizing;

use crate::Error;
use crate::entropy::Entropy;

/// Bytes of a secret that the server makes.
const SECRET_BYTES: usize = 32;

/// The secret of a webhook.
pub(crate) struct WebhookSecret(pub(crate) Zeroizing<Vec<u8>>);

impl WebhookSecret {
    /// A new one.
    pub(crate) fn fresh(entropy: &dyn Entropy) -> WebhookSecret {
        let mut secret = Zeroizing::new(vec![0; SECRET_BYTES]);
        entropy.fill(&mut secret);
        WebhookSecret(secret)
    }

    /// Reads one that somebody gives. What is wrong with it is said without repeating it.
    pub(crate) fn read(shown: &str) -> Result<WebhookSecret, Error> {
        let decoded = shown.strip_prefix(SECRET_PREFIX).and_then(|digits| STANDARD.decode(digits).ok());
        let decoded = decoded.filter(|bytes| (SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&bytes.len()));
        decoded.map(|bytes| WebhookSecret(Zeroizing::new(bytes))).ok_or_else(|| {
            let why = format!(
                "must be {SECRET_PREFIX} and the base64 of {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes; leave it out, and \
                 the server makes one"
            );
            Error::field("secret", why)
        })
    }

    /// As it is shown, once.
    pub(crate) fn reveal(&self) -> String {
        format!("{SECRET_PREFIX}{}", STANDARD.encode(&*self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::SeededEntropy;

    #[test]
    fn a_secret_is_read_as_it_is_shown_and_never_repeated() {
        let fresh = WebhookSecret::fresh(&SeededEntropy::new(1));
        assert_eq!(WebhookSecret::read(&fresh.reveal()).unwrap().0, fresh.0);
        let short = format!("whsec_{}", STANDARD.encode([7; 23]));
        let long = format!("whsec_{}", STANDARD.encode([7; 65]));
        for wrong in ["", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_???", &short, &long] {
            let Err(error) = WebhookSecret::read(wrong) else { panic!("{wrong} was taken") };
            assert!(error.to_string().starts_with("secret must be whsec_ and"), "{error}");
            assert!(wrong.len() < 8 || !error.to_string().contains(wrong), "{error}");
        }
        assert!(WebhookSecret::read("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").is_ok());
    }
}
