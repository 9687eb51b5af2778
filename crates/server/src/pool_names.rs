//! Names of runner pools. They never change, and numbers of pools are never used again, so what is known stays true.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use baton_store::{Page, Pool, PoolNo, Store, StoreResult};

/// Most pools that are read at once.
const POOLS_PAGE: usize = 1_000;

/// A cache of the names of the store's pools.
#[derive(Debug)]
pub struct PoolNames {
    store: Arc<dyn Store>,
    known: Mutex<HashMap<PoolNo, (String, String)>>,
}

impl PoolNames {
    pub(crate) fn new(store: Arc<dyn Store>) -> PoolNames {
        PoolNames { store, known: Mutex::default() }
    }

    /// All pools. Their names are remembered, and those of others forgotten.
    pub(crate) async fn all(&self) -> StoreResult<Vec<Pool>> {
        let mut pools: Vec<Pool> = Vec::new();
        loop {
            let after = pools.last().map(|pool| (pool.namespace.clone(), pool.name.clone()));
            let page = self.store.pools(None, Page { after, limit: POOLS_PAGE }).await?;
            let is_last = page.len() < POOLS_PAGE;
            pools.extend(page);
            if is_last {
                break;
            }
        }
        let mut known = self.known.lock().expect("nobody panics while holding it");
        known.clear();
        known.extend(pools.iter().map(|pool| (pool.number, (pool.namespace.clone(), pool.name.clone()))));
        drop(known);
        Ok(pools)
    }

    /// Namespace and name of a pool, unless it is gone.
    pub(crate) async fn name(&self, pool: PoolNo) -> StoreResult<Option<(String, String)>> {
        let known = self.known.lock().expect("nobody panics while holding it").get(&pool).cloned();
        if known.is_some() {
            return Ok(known);
        }
        let found = self.all().await?.into_iter().find(|found| found.number == pool);
        Ok(found.map(|found| (found.namespace, found.name)))
    }
}
