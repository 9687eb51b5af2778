//! Calls about queues.

use baton_proto::{PauseQueue, QueueLimits, QueueView, Queues};

use crate::client::Call;
use crate::filter::{Query, encode};
use crate::{Client, ClientError};

fn path(namespace: &str, name: &str, verb: &str) -> String {
    Query::new(format!("/api/v1/queues/{}{verb}", encode(name))).add("namespace", Some(namespace)).path
}

impl Client {
    /// The queues of a namespace, or of all the key is good for.
    pub async fn queues(&self, namespace: Option<&str>) -> Result<Queues, ClientError> {
        let mut all = Queues::default();
        loop {
            let query = Query::new("/api/v1/queues").add("namespace", namespace);
            let query = query.page(None, all.next_cursor.as_deref(), false);
            let page: Queues = self.json(Call::get(query.path)).await?;
            all.queues.extend(page.queues);
            all.next_cursor = page.next_cursor;
            if all.next_cursor.is_none() {
                return Ok(all);
            }
        }
    }

    /// One queue.
    pub async fn queue(&self, namespace: &str, name: &str) -> Result<QueueView, ClientError> {
        self.json(Call::get(path(namespace, name, ""))).await
    }

    /// Stops a queue from handing out runs.
    pub async fn pause_queue(&self, namespace: &str, name: &str, pause: &PauseQueue) -> Result<QueueView, ClientError> {
        self.json(Call::post(path(namespace, name, "/pause")).body(pause)?).await
    }

    /// Lets a queue hand out runs again.
    pub async fn resume_queue(&self, namespace: &str, name: &str) -> Result<QueueView, ClientError> {
        self.json(Call::post(path(namespace, name, "/resume"))).await
    }

    /// Changes the limits of a queue.
    pub async fn limit_queue(
        &self,
        namespace: &str,
        name: &str,
        limits: &QueueLimits,
    ) -> Result<QueueView, ClientError> {
        self.json(Call::patch(path(namespace, name, "")).body(limits)?).await
    }
}
