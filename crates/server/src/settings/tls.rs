//! Settings of TLS that make no sense together.

use super::Settings;
use crate::tls::SELF_SIGNED;

impl Settings {
    /// Refuses what cannot be meant. Whether the files are good is found out when they are read.
    pub(super) fn check_tls(&self) -> Result<(), String> {
        if let Some(tls) = self.tls.as_deref().filter(|tls| *tls != SELF_SIGNED) {
            return Err(format!(
                "tls must be {SELF_SIGNED}, not {tls:?}; a certificate from elsewhere is given with tls_cert and tls_key"
            ));
        }
        match (&self.tls_cert, &self.tls_key) {
            (Some(_), Some(_)) if self.tls.is_some() => {
                return Err(format!(
                    "tls = {SELF_SIGNED:?} and tls_cert exclude each other: the server has one certificate"
                ));
            }
            (Some(_), None) => return Err("tls_key is missing: tls_cert needs the key that belongs to it".into()),
            (None, Some(_)) => return Err("tls_cert is missing: tls_key belongs to a certificate".into()),
            (Some(_), Some(_)) | (None, None) => {}
        }
        if !["optional", "required"].contains(&self.tls_client_auth.as_str()) {
            return Err(format!("tls_client_auth must be optional or required, not {:?}", self.tls_client_auth));
        }
        let needs_tls = [
            ("tls_client_ca", self.tls_client_ca.is_some()),
            ("tls_client_auth", self.tls_client_auth == "required"),
            ("tls_client_keys", !self.tls_client_keys.is_empty()),
        ];
        let given = needs_tls.iter().find(|(_, is_given)| *is_given).map(|(name, _)| name);
        match (given, self.has_tls(), &self.tls_client_ca) {
            (Some(name), false, _) => {
                Err(format!("{name} is about TLS, which is off: set tls_cert and tls_key, or tls to {SELF_SIGNED}"))
            }
            (Some(name), true, None) => {
                Err(format!("{name} needs tls_client_ca, a file with whoever vouches for the certificates of clients"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::SettingsFlags;
    use super::*;

    fn load(env: &[(&str, &str)]) -> Result<Settings, String> {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Settings::load(None, env, SettingsFlags::default())
    }

    #[test]
    fn what_makes_no_sense_together_is_named() {
        let own = ("BATON_TLS", SELF_SIGNED);
        let (cert, key, ca) = (("BATON_TLS_CERT", "/c"), ("BATON_TLS_KEY", "/k"), ("BATON_TLS_CLIENT_CA", "/a"));
        let (required, keys) =
            (("BATON_TLS_CLIENT_AUTH", "required"), ("BATON_TLS_CLIENT_KEYS", "{ \"CN=a\" = \"k1\" }"));
        for good in [vec![], vec![own], vec![cert, key], vec![cert, key, ca], vec![own, ca, required, keys]] {
            assert!(load(&good).is_ok(), "{good:?}: {:?}", load(&good));
        }
        assert_eq!(load(&[own, ca, keys]).unwrap().tls_client_keys["CN=a"], "k1");
        let wrong = [
            (vec![("BATON_TLS", "yes")], "tls must be self-signed"),
            (vec![cert], "tls_key is missing"),
            (vec![key], "tls_cert is missing"),
            (vec![own, cert, key], "exclude each other"),
            (vec![ca], "tls_client_ca is about TLS, which is off"),
            (vec![required], "tls_client_auth is about TLS"),
            (vec![own, required], "needs tls_client_ca"),
            (vec![own, keys], "tls_client_keys needs tls_client_ca"),
            (vec![own, ca, ("BATON_TLS_CLIENT_AUTH", "maybe")], "optional or required"),
            (vec![own, ca, ("BATON_TLS_CLIENT_KEYS", "CN=a")], "must be a table like"),
            (vec![own, ("BATON_TLS_HANDSHAKE_TIMEOUT_MS", "0")], "tls_handshake_timeout_ms must be at least 1"),
        ];
        for (env, expected) in wrong {
            let why = load(&env).unwrap_err();
            assert!(why.contains(expected), "{env:?}: {why}");
        }
    }
}
