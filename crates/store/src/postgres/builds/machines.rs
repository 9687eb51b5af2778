//! Machines of leases, and what is measured on them.

use baton_core::{Millis, RunId};

use super::super::PostgresStore;
use super::super::params::params;
use super::super::pool::Outcome;
use super::super::sql;
use crate::{LeaseRef, Machine, Measured, NewMeasurement, OtpAnswer};

impl PostgresStore {
    pub(super) async fn use_up_otp(&self, lease: LeaseRef, good_ms: Millis) -> Outcome<OtpAnswer> {
        // What is added to a time must not go beyond what the database can count to.
        let (now, epoch, good_ms) = (self.database.fixed_now(), lease.epoch.code(), good_ms.min(1 << 60));
        let rows = self.database.query(sql::USE_OTP, params![now, lease.run.0, epoch, good_ms]).await?;
        let Some(row) = rows.first() else { return Ok(OtpAnswer::LeaseLost) };
        Ok(match (row.try_get("is_used")?, row.try_get("is_late")?) {
            (true, _) => OtpAnswer::Good,
            (false, true) => OtpAnswer::Expired,
            (false, false) => OtpAnswer::Used,
        })
    }

    pub(super) async fn see_machine(&self, lease: LeaseRef, ready: bool, progress: Option<f64>) -> Outcome<bool> {
        let (now, epoch) = (self.database.fixed_now(), lease.epoch.code());
        let params = params![now, lease.run.0, epoch, ready, progress];
        Ok(!self.database.query(sql::SEE_MACHINE, params).await?.is_empty())
    }

    pub(super) async fn read_machine(&self, lease: LeaseRef) -> Outcome<Option<Machine>> {
        let rows = self.database.query(sql::READ_MACHINE, params![lease.run.0, lease.epoch.code()]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(Some(Machine {
            otp_used_at: row.try_get("otp_used_at")?,
            ready_at: row.try_get("ready_at")?,
            seen_at: row.try_get("seen_at")?,
            progress: row.try_get("progress")?,
        }))
    }

    pub(super) async fn insert_measurement(&self, lease: LeaseRef, new: NewMeasurement, keep: usize) -> Outcome<bool> {
        let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
        let (cpu, memory, memory_mb) = (finite(new.cpu), finite(new.memory), finite(new.memory_mb));
        let (now, epoch, keep) = (self.database.fixed_now(), lease.epoch.code(), keep.max(1) as i64);
        let params = params![now, lease.run.0, epoch, cpu, memory, memory_mb, keep];
        Ok(!self.database.query(sql::ADD_MEASUREMENT, params).await?.is_empty())
    }

    pub(super) async fn list_measurements(&self, run: RunId, limit: usize) -> Outcome<Vec<Measured>> {
        let mut newest = Vec::new();
        for row in self.database.query(sql::LIST_MEASUREMENTS, params![run.0, limit as i64]).await? {
            newest.push(Measured {
                at: row.try_get("at")?,
                cpu: row.try_get("cpu")?,
                memory: row.try_get("memory")?,
                memory_mb: row.try_get("memory_mb")?,
            });
        }
        newest.reverse();
        Ok(newest)
    }
}
