//! Calls about webhooks.

use baton_proto::{
    ChangeWebhook, CreateWebhook, ReplayWebhook, ReplayedWebhook, RotateWebhook, WebhookDelivery, WebhookDeliveryPage,
    WebhookPage, WebhookTest, WebhookView,
};

use crate::client::Call;
use crate::filter::{Query, encode};
use crate::{Client, ClientError};

fn path(id: &str, verb: &str) -> String {
    format!("/api/v1/webhooks/{}{verb}", encode(id))
}

impl Client {
    /// Makes a webhook. The answer has its secret, which is never shown again; the same call again gives the same webhook
    /// without it.
    pub async fn create_webhook(&self, webhook: &CreateWebhook) -> Result<WebhookView, ClientError> {
        self.json(Call::post("/api/v1/webhooks").body(webhook)?).await
    }

    /// A page of the webhooks of a namespace, or of all the key is good for, newest first.
    pub async fn webhooks(
        &self,
        namespace: Option<&str>,
        limit: Option<usize>,
        cursor: Option<&str>,
    ) -> Result<WebhookPage, ClientError> {
        let query = Query::new("/api/v1/webhooks").add("namespace", namespace).page(limit, cursor, false);
        self.json(Call::get(query.path)).await
    }

    /// One webhook.
    pub async fn webhook(&self, id: &str) -> Result<WebhookView, ClientError> {
        self.json(Call::get(path(id, ""))).await
    }

    /// Changes what a webhook calls, or which events it hears of.
    pub async fn change_webhook(&self, id: &str, change: &ChangeWebhook) -> Result<WebhookView, ClientError> {
        self.json(Call::patch(path(id, "")).body(change)?).await
    }

    /// Deletes a webhook with all of its deliveries.
    pub async fn delete_webhook(&self, id: &str) -> Result<(), ClientError> {
        self.empty(Call::delete(path(id, ""))).await
    }

    /// Lets a webhook rest. What happens meanwhile is not kept for it.
    pub async fn pause_webhook(&self, id: &str) -> Result<WebhookView, ClientError> {
        self.json(Call::post(path(id, "/pause"))).await
    }

    /// Lets a webhook that is paused or disabled hear of events again, from now on.
    pub async fn resume_webhook(&self, id: &str) -> Result<WebhookView, ClientError> {
        self.json(Call::post(path(id, "/resume"))).await
    }

    /// Calls the receiver now, and says what came of it.
    pub async fn test_webhook(&self, id: &str) -> Result<WebhookTest, ClientError> {
        self.json(Call::post(path(id, "/test"))).await
    }

    /// Gives a webhook another secret. Deliveries are signed with both for a while.
    pub async fn rotate_webhook(&self, id: &str, rotation: &RotateWebhook) -> Result<WebhookView, ClientError> {
        self.json(Call::post(path(id, "/rotate")).body(rotation)?).await
    }

    /// A page of the deliveries of a webhook (`waiting`, `delivered`, `dead`, or all), newest first.
    pub async fn webhook_deliveries(
        &self,
        id: &str,
        state: Option<&str>,
        limit: Option<usize>,
        cursor: Option<&str>,
    ) -> Result<WebhookDeliveryPage, ClientError> {
        let query = Query::new(path(id, "/deliveries")).add("state", state).page(limit, cursor, false);
        self.json(Call::get(query.path)).await
    }

    /// Has one delivery made again.
    pub async fn replay_webhook_delivery(&self, id: &str, delivery: &str) -> Result<WebhookDelivery, ClientError> {
        self.json(Call::post(path(id, &format!("/deliveries/{}/replay", encode(delivery))))).await
    }

    /// Has dead deliveries made again.
    pub async fn replay_webhook(&self, id: &str, replay: &ReplayWebhook) -> Result<ReplayedWebhook, ClientError> {
        self.json(Call::post(path(id, "/replay")).body(replay)?).await
    }
}
