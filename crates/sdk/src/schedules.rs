//! Calls about schedules.

use baton_proto::{
    BackfillSchedule, BackfilledSchedule, ChangeSchedule, CreateSchedule, NextFires, PauseSchedule, ScheduleFires,
    SchedulePage, ScheduleView, TriggerSchedule, TriggeredSchedule,
};

use crate::client::Call;
use crate::filter::{Query, encode};
use crate::{Client, ClientError};

fn path(namespace: &str, id: &str, verb: &str) -> Query {
    Query::new(format!("/api/v1/schedules/{}{verb}", encode(id))).add("namespace", Some(namespace))
}

impl Client {
    /// Makes a schedule. The same again gives the same answer.
    pub async fn create_schedule(&self, schedule: &CreateSchedule) -> Result<ScheduleView, ClientError> {
        self.json(Call::post("/api/v1/schedules").body(schedule)?).await
    }

    /// A page of the schedules of a namespace, or of all the key is good for.
    pub async fn schedules(
        &self,
        namespace: Option<&str>,
        limit: Option<usize>,
        cursor: Option<&str>,
    ) -> Result<SchedulePage, ClientError> {
        let query = Query::new("/api/v1/schedules").add("namespace", namespace).page(limit, cursor, false);
        self.json(Call::get(query.path)).await
    }

    /// One schedule.
    pub async fn schedule(&self, namespace: &str, id: &str) -> Result<ScheduleView, ClientError> {
        self.json(Call::get(path(namespace, id, "").path)).await
    }

    /// Changes a schedule. A new rule holds from now on.
    pub async fn change_schedule(
        &self,
        namespace: &str,
        id: &str,
        change: &ChangeSchedule,
    ) -> Result<ScheduleView, ClientError> {
        self.json(Call::patch(path(namespace, id, "").path).body(change)?).await
    }

    /// Deletes a schedule. Its runs stay.
    pub async fn delete_schedule(&self, namespace: &str, id: &str) -> Result<(), ClientError> {
        self.empty(Call::delete(path(namespace, id, "").path)).await
    }

    /// Lets a schedule wait.
    pub async fn pause_schedule(
        &self,
        namespace: &str,
        id: &str,
        pause: &PauseSchedule,
    ) -> Result<ScheduleView, ClientError> {
        self.json(Call::post(path(namespace, id, "/pause").path).body(pause)?).await
    }

    /// Lets a schedule fire again, from now on.
    pub async fn resume_schedule(&self, namespace: &str, id: &str) -> Result<ScheduleView, ClientError> {
        self.json(Call::post(path(namespace, id, "/resume").path)).await
    }

    /// Starts a run of a schedule now, whatever its rule says.
    pub async fn trigger_schedule(
        &self,
        namespace: &str,
        id: &str,
        trigger: &TriggerSchedule,
    ) -> Result<TriggeredSchedule, ClientError> {
        self.json(Call::post(path(namespace, id, "/trigger").path).body(trigger)?).await
    }

    /// Starts the runs of a range that has passed; each once, however often it is asked for.
    pub async fn backfill_schedule(
        &self,
        namespace: &str,
        id: &str,
        range: &BackfillSchedule,
    ) -> Result<BackfilledSchedule, ClientError> {
        self.json(Call::post(path(namespace, id, "/backfill").path).body(range)?).await
    }

    /// A page of what became of a schedule's fires, newest first.
    pub async fn schedule_runs(
        &self,
        namespace: &str,
        id: &str,
        limit: Option<usize>,
        cursor: Option<&str>,
    ) -> Result<ScheduleFires, ClientError> {
        self.json(Call::get(path(namespace, id, "/runs").page(limit, cursor, false).path)).await
    }

    /// When a schedule fires next, whether it is paused or not.
    pub async fn next_fires(&self, namespace: &str, id: &str, count: Option<usize>) -> Result<NextFires, ClientError> {
        let count = count.map(|count| count.to_string());
        self.json(Call::get(path(namespace, id, "/next").add("count", count.as_deref()).path)).await
    }
}
