//! How many more runs a queue may take in. Counting a queue for every submit would cost more than the submit; see `allowance`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use baton_store::{QueueId, Store};

use crate::allowance::{Admission, Allowance};
use crate::settings::LiveSettings;
use crate::{Error, service};

/// The backlogs of all queues.
#[derive(Debug)]
pub struct Backlogs {
    store: Arc<dyn Store>,
    live: Arc<LiveSettings>,
    queues: Mutex<HashMap<QueueId, Arc<Allowance>>>,
}

impl Backlogs {
    /// Knows nothing yet.
    pub fn new(store: Arc<dyn Store>, live: Arc<LiveSettings>) -> Backlogs {
        Backlogs { store, live, queues: Mutex::default() }
    }

    /// The limit of a queue with this name that has none of its own.
    pub fn limit_default(&self, queue: &str) -> u64 {
        let settings = self.live.get();
        match queue {
            service::builds::QUEUE => settings.build_backlog_max,
            _ => settings.backlog_max,
        }
    }

    fn of(&self, queue: QueueId) -> Arc<Allowance> {
        self.queues.lock().expect("nobody panics while holding it").entry(queue).or_default().clone()
    }

    /// Forgets the allowance of a queue whose limit was changed.
    pub fn forget(&self, queue: QueueId) {
        self.of(queue).forget();
    }

    /// Forgets the allowances of all queues.
    pub fn forget_all(&self) {
        self.queues.lock().expect("nobody panics while holding it").values().for_each(|allowance| allowance.forget());
    }

    /// Takes room for so many runs in each of these queues, or refuses.
    pub async fn admit(&self, wanted: &[(QueueId, u64)]) -> Result<Admission, Error> {
        let mut admission = Admission::default();
        for (queue, count) in wanted {
            let allowance = self.of(*queue);
            admission.add(match allowance.take(*count) {
                Some(taken) => taken,
                None => self.count(*queue, *count, &allowance).await?,
            });
        }
        Ok(admission)
    }

    async fn count(&self, queue: QueueId, count: u64, allowance: &Arc<Allowance>) -> Result<Admission, Error> {
        let limit = async || {
            let settings = self.store.queues(None).await?.into_iter().find(|known| known.id == queue);
            let (name, own) = settings.map_or((String::new(), None), |known| (known.name, known.backlog_max));
            let limit = own.unwrap_or_else(|| self.limit_default(&name));
            Ok((limit, Error::QueueFull { queue: name, limit }))
        };
        let waiting = async |cap| {
            let depth = self.store.depths(&[queue], cap).await?;
            Ok(depth.iter().map(|depth| depth.ready + depth.scheduled).sum())
        };
        allowance.take_counted(count, limit, waiting).await
    }
}
