//! Calls about operations on all runs that a filter finds.

use baton_proto::{BulkCount, BulkPage, BulkView, CreateBulk};

use crate::client::Call;
use crate::filter::{Query, encode};
use crate::{Client, ClientError};

const PATH: &str = "/api/v1/bulk";

impl Client {
    /// Counts the runs that an operation would act on, and changes nothing.
    pub async fn bulk_count(&self, wanted: &CreateBulk) -> Result<BulkCount, ClientError> {
        self.json(Call::post(PATH).body(&CreateBulk { dry_run: true, ..wanted.clone() })?).await
    }

    /// Begins an operation. With an idempotency key the call may be repeated without harm.
    pub async fn bulk_start(
        &self,
        wanted: &CreateBulk,
        idempotency_key: Option<&str>,
    ) -> Result<BulkView, ClientError> {
        let wanted = CreateBulk { dry_run: false, ..wanted.clone() };
        self.json(Call::post(PATH).body(&wanted)?.idempotency_key(idempotency_key)?).await
    }

    /// One operation.
    pub async fn bulk(&self, id: &str) -> Result<BulkView, ClientError> {
        self.json(Call::get(format!("{PATH}/{}", encode(id)))).await
    }

    /// A page of operations, newest first: of a namespace, or of all the key is good for; in this state, or in any.
    pub async fn bulks(
        &self,
        namespace: Option<&str>,
        state: Option<&str>,
        limit: Option<usize>,
        cursor: Option<&str>,
    ) -> Result<BulkPage, ClientError> {
        let query = Query::new(PATH).add("namespace", namespace).add("state", state).page(limit, cursor, false);
        self.json(Call::get(query.path)).await
    }

    /// Asks an operation to stop. Runs that it has acted on stay as they are.
    pub async fn bulk_stop(&self, id: &str) -> Result<BulkView, ClientError> {
        self.json(Call::post(format!("{PATH}/{}/stop", encode(id)))).await
    }
}
