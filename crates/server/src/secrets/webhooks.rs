//! Secrets of webhooks, sealed before they come to the store. Each is bound to its webhook.
//!
//! ```text
//! generation (4)  nonce (24)  secret (+ 16)
//! ```

use baton_store::WebhookId;
use bytes::Bytes;
use chacha20poly1305::XNonce;
use chacha20poly1305::aead::{Aead, Payload};
use zeroize::Zeroizing;

use super::Secrets;
use super::payloads::derived;
use super::ring::{Generation, Ring};
use crate::Error;
use crate::entropy::Entropy;

const PURPOSE: &[u8] = b"baton: secrets of the webhook ";
const GENERATION: usize = 4;
const NONCE: usize = 24;

fn key(generation: &Generation, webhook: WebhookId) -> chacha20poly1305::XChaCha20Poly1305 {
    derived(&generation.secret, PURPOSE, webhook.0.as_bytes())
}

impl Ring {
    /// Seals the secret of a webhook with the newest generation.
    pub fn seal_webhook(&self, webhook: WebhookId, secret: &[u8], entropy: &dyn Entropy) -> Bytes {
        let newest = self.newest();
        let mut nonce = [0; NONCE];
        entropy.fill(&mut nonce);
        let number = newest.number().to_be_bytes();
        let sealed = key(newest, webhook).encrypt(&XNonce::from(nonce), Payload { msg: secret, aad: &number });
        let sealed = sealed.expect("secrets are smaller than what can be encrypted");
        Bytes::from([&number[..], &nonce, &sealed].concat())
    }

    fn open_webhook(&self, webhook: WebhookId, kept: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (number, rest) = kept.split_first_chunk::<GENERATION>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE>()?;
        let generation = self.get(u32::from_be_bytes(*number))?;
        let payload = Payload { msg: sealed, aad: number };
        key(generation, webhook).decrypt(&XNonce::from(*nonce), payload).ok().map(Zeroizing::new)
    }
}

impl Secrets {
    /// Opens the secret of a webhook, whichever server has sealed it. None when it was changed, or belongs to another.
    pub(crate) async fn open_webhook(
        &self,
        webhook: WebhookId,
        kept: &[u8],
    ) -> Result<Option<Zeroizing<Vec<u8>>>, Error> {
        let Some(number) = kept.first_chunk::<GENERATION>() else { return Ok(None) };
        Ok(self.ring_with(u32::from_be_bytes(*number)).await?.open_webhook(webhook, kept))
    }
}
