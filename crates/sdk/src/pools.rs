//! Calls about runner pools: of those who keep them, of those who claim machines, and of the agents on the machines.

use std::time::Duration;

use baton_core::pools::{ClaimState, RunnerState};
use baton_proto::{
    ChangePool, ClaimPage, ClaimView, CreatePool, JoinRunner, JoinedRunner, OpenClaim, PoolPage, PoolView,
    RegisterRunner, RunnerOrder, RunnerPage, RunnerRegistration, RunnerView, SignalRunner, SignalledRunner,
};
use http::header::AUTHORIZATION;

use crate::client::Call;
use crate::filter::{Query, encode};
use crate::{Client, ClientError};

fn path(namespace: &str, pool: &str, rest: &str) -> Query {
    Query::new(format!("/api/v1/pools/{}{rest}", encode(pool))).add("namespace", Some(namespace))
}

fn claim_path(namespace: &str, pool: &str, run_id: &str) -> Query {
    path(namespace, pool, &format!("/claims/{}", encode(run_id)))
}

fn runner_path(namespace: &str, pool: &str, runner: &str) -> Query {
    path(namespace, pool, &format!("/runners/{}", encode(runner)))
}

/// Of an agent, which proves who it is with a token of its own.
fn agent_call(call: Call, token: &str) -> Result<Call, ClientError> {
    call.header(AUTHORIZATION, &format!("Bearer {token}"))
}

fn agent_path(runner: &str, verb: &str) -> String {
    format!("/api/v1/runners/{}{verb}", encode(runner))
}

fn ms(wait: Duration) -> String {
    wait.as_millis().to_string()
}

impl Client {
    /// Makes a pool of machines.
    pub async fn create_pool(&self, pool: &CreatePool) -> Result<PoolView, ClientError> {
        self.json(Call::post("/api/v1/pools").body(pool)?).await
    }

    /// A page of the pools of a namespace, or of all the key is good for.
    pub async fn pools(
        &self,
        namespace: Option<&str>,
        limit: Option<usize>,
        cursor: Option<&str>,
    ) -> Result<PoolPage, ClientError> {
        let query = Query::new("/api/v1/pools").add("namespace", namespace).page(limit, cursor, false);
        self.json(Call::get(query.path)).await
    }

    /// One pool, with its numbers.
    pub async fn pool(&self, namespace: &str, pool: &str) -> Result<PoolView, ClientError> {
        self.json(Call::get(path(namespace, pool, "").path)).await
    }

    /// Changes a pool. Machines that are there keep what they were made with.
    pub async fn change_pool(&self, namespace: &str, pool: &str, change: &ChangePool) -> Result<PoolView, ClientError> {
        self.json(Call::patch(path(namespace, pool, "").path).body(change)?).await
    }

    /// Begins to delete a pool: it takes no claims from now on, and goes when its last machine has.
    pub async fn delete_pool(&self, namespace: &str, pool: &str) -> Result<PoolView, ClientError> {
        self.json(Call::delete(path(namespace, pool, "").path)).await
    }

    /// As [`Client::delete_pool`], and machines that are being ended are given up: for a provider that does not say any more what it has.
    pub async fn force_delete_pool(&self, namespace: &str, pool: &str) -> Result<PoolView, ClientError> {
        self.json(Call::delete(path(namespace, pool, "").add("force", Some("true")).path)).await
    }

    /// Asks for machines, all or none. Answers at once; [`Client::wait_for_pool_claim`] waits. The same again is the same claim.
    pub async fn open_pool_claim(
        &self,
        namespace: &str,
        pool: &str,
        claim: &OpenClaim,
    ) -> Result<ClaimView, ClientError> {
        self.json(Call::post(path(namespace, pool, "/claims").path).body(claim)?).await
    }

    /// The claim of a run, with its machines and those that it had to discard.
    pub async fn pool_claim(&self, namespace: &str, pool: &str, run_id: &str) -> Result<ClaimView, ClientError> {
        self.json(Call::get(claim_path(namespace, pool, run_id).path)).await
    }

    /// The claim of a run, as soon as it no longer waits or `wait` is over.
    pub async fn wait_for_pool_claim(
        &self,
        namespace: &str,
        pool: &str,
        run_id: &str,
        wait: Duration,
    ) -> Result<ClaimView, ClientError> {
        let query = claim_path(namespace, pool, run_id).add("wait_ms", Some(&ms(wait)));
        self.json(Call::get(query.path).waits(wait)).await
    }

    /// A page of the claims of a pool, newest first and without their machines.
    pub async fn pool_claims(
        &self,
        namespace: &str,
        pool: &str,
        state: Option<ClaimState>,
        limit: Option<usize>,
        cursor: Option<&str>,
    ) -> Result<ClaimPage, ClientError> {
        let query = path(namespace, pool, "/claims").add("state", state.map(ClaimState::as_str));
        self.json(Call::get(query.page(limit, cursor, false).path)).await
    }

    /// Gives back the machines of a run, or stops waiting for them.
    pub async fn release_pool_claim(
        &self,
        namespace: &str,
        pool: &str,
        run_id: &str,
    ) -> Result<ClaimView, ClientError> {
        self.json(Call::delete(claim_path(namespace, pool, run_id).path)).await
    }

    /// A page of the machines of a pool. Those that are gone are listed only by their state.
    pub async fn pool_runners(
        &self,
        namespace: &str,
        pool: &str,
        state: Option<RunnerState>,
        limit: Option<usize>,
        cursor: Option<&str>,
    ) -> Result<RunnerPage, ClientError> {
        let query = path(namespace, pool, "/runners").add("state", state.map(RunnerState::as_str));
        self.json(Call::get(query.page(limit, cursor, false).path)).await
    }

    /// One machine of a pool, with its past.
    pub async fn pool_runner(&self, namespace: &str, pool: &str, runner: &str) -> Result<RunnerView, ClientError> {
        self.json(Call::get(runner_path(namespace, pool, runner).path)).await
    }

    /// Ends a machine of a pool, whatever it is doing.
    pub async fn end_pool_runner(&self, namespace: &str, pool: &str, runner: &str) -> Result<RunnerView, ClientError> {
        self.json(Call::delete(runner_path(namespace, pool, runner).path)).await
    }

    /// Makes the agent of a new machine known, with the token that its provider gave it. The same nonce again gets the same answer.
    pub async fn join_runner(&self, join_token: &str, join: &JoinRunner) -> Result<JoinedRunner, ClientError> {
        self.json(agent_call(Call::post("/api/v1/runners/join").body(join)?, join_token)?).await
    }

    /// Tells the server that an agent lives, and hears what that is to do.
    pub async fn beat_runner(&self, runner: &str, token: &str) -> Result<RunnerOrder, ClientError> {
        self.json(agent_call(Call::post(agent_path(runner, "/heartbeat")), token)?).await
    }

    /// What an agent is to do, as soon as it is something else than the order with the serial `after`, or `wait` is over.
    pub async fn next_runner_order(
        &self,
        runner: &str,
        token: &str,
        after: &str,
        wait: Duration,
    ) -> Result<RunnerOrder, ClientError> {
        let query = Query::new(agent_path(runner, "/next")).add("after", Some(after)).add("wait_ms", Some(&ms(wait)));
        self.json(agent_call(Call::get(query.path).waits(wait), token)?).await
    }

    /// Tells the server what an agent did, and hears what comes next. May be repeated after a lost answer.
    pub async fn signal_runner(
        &self,
        runner: &str,
        token: &str,
        signal: &SignalRunner,
    ) -> Result<SignalledRunner, ClientError> {
        self.json(agent_call(Call::post(agent_path(runner, "/signals")).body(signal)?, token)?).await
    }

    /// What the agent of a claimed machine needs to register it at GitHub. May be repeated after a lost answer: the last answer counts.
    pub async fn register_runner(
        &self,
        runner: &str,
        token: &str,
        wanted: &RegisterRunner,
    ) -> Result<RunnerRegistration, ClientError> {
        self.json(agent_call(Call::post(agent_path(runner, "/registration")).body(wanted)?, token)?).await
    }

    /// Takes back what the agent of a machine has registered at GitHub. May be repeated.
    pub async fn deregister_runner(&self, runner: &str, token: &str) -> Result<(), ClientError> {
        self.empty(agent_call(Call::delete(agent_path(runner, "/registration")), token)?).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_place() {
        assert_eq!(path("a&b", "x/y", "/claims").path, "/api/v1/pools/x%2Fy/claims?namespace=a%26b");
        assert_eq!(
            claim_path("default", "mac", "17/../x").path,
            "/api/v1/pools/mac/claims/17%2F..%2Fx?namespace=default"
        );
        assert_eq!(agent_path("6f1c", "/next"), "/api/v1/runners/6f1c/next");
    }
}
