//! What schedules and namespaces need of a store. docs/schedules.md has the promises.

use async_trait::async_trait;
use baton_core::{Millis, WorkerId};

use crate::{
    DueSchedules, Fire, FireAnswer, FireKind, FireRecord, FireRun, Namespace, NamespaceChange, NamespaceLimits,
    NewSchedule, Page, Schedule, ScheduleAnswer, ScheduleChange, ScheduleNo, StoreResult, Submitted,
};

/// The verbs of schedules. Every [`crate::Store`] has them.
#[async_trait]
pub trait Schedules: Send + Sync {
    /// Makes a schedule, if there is none with its id and its namespace may have one more.
    async fn add_schedule(&self, schedule: NewSchedule) -> StoreResult<ScheduleAnswer>;
    /// One schedule.
    async fn schedule(&self, namespace: &str, id: &str) -> StoreResult<Option<Schedule>>;
    /// The schedules of a namespace (all when `None`), by namespace and id.
    async fn schedules(&self, namespace: Option<&str>, page: Page<(String, String)>) -> StoreResult<Vec<Schedule>>;
    /// How many there are.
    async fn count_schedules(&self, namespace: Option<&str>) -> StoreResult<u64>;
    /// Changes a schedule, unless somebody has changed it since it had this revision (then: `None`).
    async fn change_schedule(
        &self,
        schedule: ScheduleNo,
        revision: i64,
        change: ScheduleChange,
    ) -> StoreResult<Option<Schedule>>;
    /// Deletes a schedule; its runs stay. False when it is gone already.
    async fn delete_schedule(&self, schedule: ScheduleNo) -> StoreResult<bool>;

    /// Schedules that have something to do now, and when the next one has.
    async fn due_schedules(&self, limit: usize) -> StoreResult<DueSchedules>;
    /// Carries out fires whose time has come: decides by the overlap policy which start runs, submits those, writes down what became of each, and
    /// moves the schedule on. All of it, or nothing when the schedule is not as it was seen.
    async fn fire(&self, fire: Fire) -> StoreResult<FireAnswer>;
    /// Starts runs of a schedule by hand, whatever its rule says, and writes down those that are new. `None`: there is no such schedule.
    async fn fire_by_hand(
        &self,
        schedule: ScheduleNo,
        kind: FireKind,
        fires: Vec<FireRun>,
    ) -> StoreResult<Option<Vec<Submitted>>>;
    /// What became of a schedule's fires, newest first.
    async fn fires(&self, schedule: ScheduleNo, page: Page<i64>) -> StoreResult<Vec<FireRecord>>;
    /// What became of the last fires of each of these schedules, newest first, at most so many of each.
    async fn last_fires(&self, schedules: &[ScheduleNo], most: usize) -> StoreResult<Vec<(ScheduleNo, FireRecord)>>;
    /// Forgets fires that were carried out before `now - age_ms`, at most `limit`. Returns how many.
    async fn forget_fires(&self, age_ms: Millis, limit: usize) -> StoreResult<u64>;
}

/// The verbs of namespaces. Every [`crate::Store`] has them.
#[async_trait]
pub trait Namespaces: Send + Sync {
    /// Namespaces whose last change has this number or a later one, by name. 0 finds all.
    async fn namespaces(&self, change_no: i64) -> StoreResult<Vec<Namespace>>;
    /// Makes a namespace. False, and as it is, when there is one of this name.
    async fn add_namespace(
        &self,
        name: &str,
        description: &str,
        limits: NamespaceLimits,
    ) -> StoreResult<(Namespace, bool)>;
    /// Changes a namespace. `None` when there is none of this name.
    async fn change_namespace(&self, name: &str, change: NamespaceChange) -> StoreResult<Option<Namespace>>;
    /// The worker that registered as this instance, if it did.
    async fn worker_of_instance(&self, instance: &str) -> StoreResult<Option<WorkerId>>;
}
