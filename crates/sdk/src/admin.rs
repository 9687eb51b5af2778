//! Calls about keys, the audit log, settings and the server itself.

use baton_proto::{
    AuditPage, ChangeSettings, CreateKey, CreatedKey, EndedSessions, Keys, RotateKey, RotateSecret, RotatedSecret,
    SecretStatus, ServerHealth, SettingList, SigninLink, Whoami,
};

use crate::client::Call;
use crate::filter::{Query, encode};
use crate::{Client, ClientError};

impl Client {
    /// Makes an API key. The answer holds the key itself, this once.
    pub async fn create_key(&self, key: &CreateKey) -> Result<CreatedKey, ClientError> {
        self.json(Call::post("/api/v1/keys").body(key)?).await
    }

    /// All API keys.
    pub async fn keys(&self) -> Result<Keys, ClientError> {
        let mut all = Keys::default();
        loop {
            let query = Query::new("/api/v1/keys").page(None, all.next_cursor.as_deref(), false);
            let page: Keys = self.json(Call::get(query.path)).await?;
            all.keys.extend(page.keys);
            all.next_cursor = page.next_cursor;
            if all.next_cursor.is_none() {
                return Ok(all);
            }
        }
    }

    /// Who is calling: the API key of this client, what it may do and where.
    pub async fn whoami(&self) -> Result<Whoami, ClientError> {
        self.json(Call::get("/api/v1/whoami")).await
    }

    /// Gives an API key another secret. The answer holds it, this once.
    pub async fn rotate_key(&self, id: &str, rotation: &RotateKey) -> Result<CreatedKey, ClientError> {
        self.json(Call::post(format!("/api/v1/keys/{}/rotate", encode(id))).body(rotation)?).await
    }

    /// Makes a link that signs in to the dashboard once, as the key of this client.
    pub async fn create_signin_link(&self) -> Result<SigninLink, ClientError> {
        self.json(Call::post("/api/v1/signin-links")).await
    }

    /// Ends all sessions of an API key in the dashboard, and takes back its links.
    pub async fn end_sessions(&self, key_id: &str) -> Result<EndedSessions, ClientError> {
        self.json(Call::delete(format!("/api/v1/keys/{}/sessions", encode(key_id)))).await
    }

    /// Revokes an API key. The last admin key is refused.
    pub async fn revoke_key(&self, id: &str) -> Result<(), ClientError> {
        self.empty(Call::delete(format!("/api/v1/keys/{}", encode(id)))).await
    }

    /// Revokes an API key, even if nobody can administer the server afterwards.
    pub async fn force_revoke_key(&self, id: &str) -> Result<(), ClientError> {
        let path = Query::new(format!("/api/v1/keys/{}", encode(id))).add("force", Some("true")).path;
        self.empty(Call::delete(path)).await
    }

    /// A page of the audit log, newest first.
    pub async fn audit_log(&self, limit: Option<usize>, cursor: Option<&str>) -> Result<AuditPage, ClientError> {
        self.json(Call::get(Query::new("/api/v1/audit").page(limit, cursor, false).path)).await
    }

    /// The audit log after the line with this number, oldest first.
    pub async fn audit_log_after(&self, line: i64, limit: Option<usize>) -> Result<AuditPage, ClientError> {
        let query = Query::new("/api/v1/audit").page(limit, Some(&line.to_string()), false);
        self.json(Call::get(query.add("oldest_first", Some("true")).path)).await
    }

    /// Where the master key is, and which generations of the installation's secret it wraps.
    pub async fn secret_status(&self) -> Result<SecretStatus, ClientError> {
        self.json(Call::get("/api/v1/secrets")).await
    }

    /// Makes a new generation of the installation's secret.
    pub async fn rotate_secret(&self, rotation: &RotateSecret) -> Result<RotatedSecret, ClientError> {
        self.json(Call::post("/api/v1/secrets/rotate").body(rotation)?).await
    }

    /// The settings that can be changed while the servers run.
    pub async fn settings(&self) -> Result<SettingList, ClientError> {
        self.json(Call::get("/api/v1/settings")).await
    }

    /// Changes settings while the servers run: all, or none.
    pub async fn change_settings(&self, change: &ChangeSettings) -> Result<SettingList, ClientError> {
        self.json(Call::patch("/api/v1/settings").body(change)?).await
    }

    /// Says whether the server lives.
    pub async fn healthz(&self) -> Result<(), ClientError> {
        self.empty(Call::get("/healthz")).await
    }

    /// Says how the server is: its builds, and whether its storages answer. A storage that does not
    /// is the error `storage_unavailable`, whose text says to administrators which one.
    pub async fn health(&self) -> Result<ServerHealth, ClientError> {
        self.json(Call::get("/health")).await
    }

    /// Says whether the server can work: its store answers.
    pub async fn readyz(&self) -> Result<String, ClientError> {
        self.text(Call::get("/readyz")).await
    }

    /// The server's metrics, in the Prometheus text format.
    pub async fn metrics(&self) -> Result<String, ClientError> {
        self.text(Call::get("/metrics")).await
    }

    /// The description of the HTTP API, as JSON text.
    pub async fn openapi(&self) -> Result<String, ClientError> {
        self.text(Call::get("/openapi.json")).await
    }
}
