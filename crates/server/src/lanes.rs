//! Names of lanes and their numbers. Lanes are never renamed or removed, so what is known stays true.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use baton_store::{Lane, LaneId, LaneName, QueueId, Store, StoreResult};

use crate::service::workflows::VERSION_MARK;

#[derive(Debug, Default)]
struct Known {
    by_name: HashMap<LaneName, Lane>,
    by_id: HashMap<LaneId, (Arc<LaneName>, QueueId)>,
    /// Those that the store knows as lanes of workflows, as far as this server has heard.
    workflows: HashSet<LaneId>,
}

/// A cache of the store's lanes.
#[derive(Debug)]
pub struct Lanes {
    store: Arc<dyn Store>,
    known: RwLock<Known>,
    /// When the lanes of workflows were last read.
    looked_at_workflows: Mutex<Option<Instant>>,
}

/// How long lanes of workflows are not read again.
const WORKFLOWS_FRESH: Duration = Duration::from_secs(1);

impl Lanes {
    /// Reads what the store has.
    pub async fn load(store: Arc<dyn Store>) -> StoreResult<Lanes> {
        let lanes = Lanes { store, known: RwLock::default(), looked_at_workflows: Mutex::default() };
        lanes.refresh().await?;
        Ok(lanes)
    }

    async fn refresh(&self) -> StoreResult<()> {
        let all = self.store.all_lanes().await?;
        self.remember(all);
        Ok(())
    }

    fn remember(&self, lanes: Vec<(LaneName, Lane)>) {
        let mut known = self.known.write().expect("nobody panics while holding it");
        for (name, lane) in lanes {
            known.by_id.insert(lane.lane, (Arc::new(name.clone()), lane.queue));
            known.by_name.insert(name, lane);
        }
    }

    fn known(&self, name: &LaneName) -> Option<Lane> {
        self.known.read().expect("nobody panics while holding it").by_name.get(name).copied()
    }

    /// The lanes with these names, in order, made on first use.
    pub async fn get(&self, names: Vec<LaneName>) -> StoreResult<Vec<Lane>> {
        if let Some(lanes) = names.iter().map(|name| self.known(name)).collect() {
            return Ok(lanes);
        }
        let lanes = self.store.lanes(&names).await?;
        self.remember(names.into_iter().zip(lanes.iter().copied()).collect());
        Ok(lanes)
    }

    /// Says that runs of these lanes are workflows. The store is told once.
    pub async fn mark_workflows(&self, lanes: &[Lane]) -> StoreResult<()> {
        let new: Vec<LaneId> = {
            let known = self.known.read().expect("nobody panics while holding it");
            lanes.iter().map(|lane| lane.lane).filter(|lane| !known.workflows.contains(lane)).collect()
        };
        if new.is_empty() {
            return Ok(());
        }
        self.store.mark_workflow_lanes(&new).await?;
        self.known.write().expect("nobody panics while holding it").workflows.extend(new);
        Ok(())
    }

    /// The name of a lane; another server may have made it.
    pub async fn name(&self, lane: LaneId) -> StoreResult<Option<Arc<LaneName>>> {
        if let Some(name) = self.known_name(lane) {
            return Ok(Some(name));
        }
        self.refresh().await?;
        Ok(self.known_name(lane))
    }

    pub(crate) fn known_name(&self, lane: LaneId) -> Option<Arc<LaneName>> {
        let known = self.known.read().expect("nobody panics while holding it");
        known.by_id.get(&lane).map(|(name, _)| name.clone())
    }

    /// The queues that are known here, each with the name of one of its lanes.
    pub(crate) fn queues(&self) -> BTreeMap<QueueId, Arc<LaneName>> {
        let known = self.known.read().expect("nobody panics while holding it");
        known.by_id.values().map(|(name, queue)| (*queue, name.clone())).collect()
    }

    /// The queue of a lane, if the lane is known here.
    pub fn queue_of(&self, lane: LaneId) -> Option<QueueId> {
        self.known.read().expect("nobody panics while holding it").by_id.get(&lane).map(|(_, queue)| *queue)
    }

    /// Whether runs of a lane are workflows; another server may have said so.
    pub async fn is_workflow(&self, lane: LaneId) -> StoreResult<bool> {
        Ok(!self.workflows_among([lane].into()).await?.is_empty())
    }

    /// Those of these lanes whose runs are workflows.
    pub async fn workflows_among(&self, mut lanes: HashSet<LaneId>) -> StoreResult<HashSet<LaneId>> {
        let are_known = {
            let known = self.known.read().expect("nobody panics while holding it");
            lanes.is_subset(&known.workflows)
        };
        if !are_known {
            let all = self.store.workflow_lanes().await?;
            let mut known = self.known.write().expect("nobody panics while holding it");
            known.workflows.extend(all);
            lanes.retain(|lane| known.workflows.contains(lane));
        }
        Ok(lanes)
    }

    /// As [`Lanes::is_workflow`], where a lane that another server has marked a moment ago may be missed: the store is not
    /// asked again for each lane that is none.
    pub async fn known_workflow(&self, lane: LaneId) -> StoreResult<bool> {
        let is_stale = {
            let mut looked = self.looked_at_workflows.lock().expect("nobody panics while holding it");
            let is_stale = looked.is_none_or(|at| at.elapsed() >= WORKFLOWS_FRESH);
            if is_stale {
                *looked = Some(Instant::now());
            }
            is_stale
        };
        if is_stale {
            let all = self.store.workflow_lanes().await?;
            self.known.write().expect("nobody panics while holding it").workflows.extend(all);
        }
        Ok(self.known.read().expect("nobody panics while holding it").workflows.contains(&lane))
    }

    /// How many lanes are known here.
    pub fn count(&self) -> usize {
        self.known.read().expect("nobody panics while holding it").by_id.len()
    }

    /// The lanes of workflows that a filter of names finds. A type is found with all of its versions.
    pub async fn find_workflows(
        &self,
        namespace: Option<&str>,
        queue: Option<&str>,
        workflow_type: Option<&str>,
    ) -> StoreResult<Vec<LaneId>> {
        let mut found = Vec::new();
        for lane in self.store.workflow_lanes().await? {
            let Some(name) = self.name(lane).await? else { continue };
            let matches = |wanted: Option<&str>, name: &str| wanted.is_none_or(|wanted| wanted == name);
            let plain = name.kind.split(VERSION_MARK).next().unwrap_or_default();
            if matches(namespace, &name.namespace) && matches(queue, &name.queue) && matches(workflow_type, plain) {
                found.push(lane);
            }
        }
        Ok(found)
    }

    /// The lanes that a filter of names finds.
    pub async fn find(
        &self,
        namespace: Option<&str>,
        queue: Option<&str>,
        kind: Option<&str>,
    ) -> StoreResult<Vec<LaneId>> {
        if self.store.is_shared() {
            self.refresh().await?;
        }
        let matches = |wanted: Option<&str>, name: &str| wanted.is_none_or(|wanted| wanted == name);
        let known = self.known.read().expect("nobody panics while holding it");
        let found = known.by_name.iter().filter(|(name, _)| {
            matches(namespace, &name.namespace) && matches(queue, &name.queue) && matches(kind, &name.kind)
        });
        Ok(found.map(|(_, lane)| lane.lane).collect())
    }
}
