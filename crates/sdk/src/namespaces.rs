//! Calls about namespaces.

use baton_proto::{ChangeNamespace, CreateNamespace, DisableNamespace, NamespacePage, NamespaceView};

use crate::client::Call;
use crate::filter::{Query, encode};
use crate::{Client, ClientError};

fn path(name: &str, verb: &str) -> String {
    format!("/api/v1/namespaces/{}{verb}", encode(name))
}

impl Client {
    /// Makes a namespace. The same again gives the same answer.
    pub async fn create_namespace(&self, namespace: &CreateNamespace) -> Result<NamespaceView, ClientError> {
        self.json(Call::post("/api/v1/namespaces").body(namespace)?).await
    }

    /// A page of the namespaces that the key sees.
    pub async fn namespaces(&self, limit: Option<usize>, cursor: Option<&str>) -> Result<NamespacePage, ClientError> {
        self.json(Call::get(Query::new("/api/v1/namespaces").page(limit, cursor, false).path)).await
    }

    /// One namespace.
    pub async fn get_namespace(&self, name: &str) -> Result<NamespaceView, ClientError> {
        self.json(Call::get(path(name, ""))).await
    }

    /// Changes a namespace's description and limits.
    pub async fn change_namespace(&self, name: &str, change: &ChangeNamespace) -> Result<NamespaceView, ClientError> {
        self.json(Call::patch(path(name, "")).body(change)?).await
    }

    /// Lets a namespace take nothing new. What is under way may finish.
    pub async fn disable_namespace(&self, name: &str, reason: &str) -> Result<NamespaceView, ClientError> {
        let reason = DisableNamespace { reason: reason.into() };
        self.json(Call::post(path(name, "/disable")).body(&reason)?).await
    }

    /// Lets a namespace take things again.
    pub async fn enable_namespace(&self, name: &str) -> Result<NamespaceView, ClientError> {
        self.json(Call::post(path(name, "/enable"))).await
    }
}
