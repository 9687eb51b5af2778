//! What operations are called, for those who generate clients. A name that was released never changes: it is a method of
//! somebody's program.

/// Method, path and name of every operation.
const OPERATION_IDS: &[(&str, &str, &str)] = &[
    ("get", "/api/builds", "listExpoBuilds"),
    ("post", "/api/builds", "submitExpoBuild"),
    ("get", "/api/builds/active", "listActiveExpoBuilds"),
    ("get", "/api/builds/statistics", "getExpoBuildStatistics"),
    ("post", "/api/builds/submit", "submitExpoBuildAlias"),
    ("get", "/api/builds/{id}", "getExpoBuild"),
    ("post", "/api/builds/{id}/artifact", "uploadExpoArtifact"),
    ("post", "/api/builds/{id}/authenticate", "authenticateExpoMachine"),
    ("post", "/api/builds/{id}/cancel", "cancelExpoBuild"),
    ("get", "/api/builds/{id}/certs", "downloadExpoCerts"),
    ("get", "/api/builds/{id}/certs-secure", "getExpoSigningParts"),
    ("get", "/api/builds/{id}/download", "downloadExpoResult"),
    ("get", "/api/builds/{id}/download/{which}", "downloadExpoFile"),
    ("post", "/api/builds/{id}/heartbeat", "sendExpoMachineHeartbeat"),
    ("get", "/api/builds/{id}/logs", "getExpoBuildLogs"),
    ("post", "/api/builds/{id}/logs", "addExpoBuildLogs"),
    ("post", "/api/builds/{id}/retry", "retryExpoBuild"),
    ("get", "/api/builds/{id}/source", "downloadExpoSource"),
    ("get", "/api/builds/{id}/status", "getExpoBuildStatus"),
    ("get", "/api/builds/{id}/telemetry", "getExpoBuildTelemetry"),
    ("post", "/api/builds/{id}/telemetry", "addExpoBuildTelemetry"),
    ("post", "/api/builds/{id}/vm-ready", "markExpoMachineReady"),
    ("get", "/api/builds/{id}/vm-status", "getExpoMachineStatus"),
    ("post", "/api/diagnostics/report", "reportExpoDiagnostics"),
    ("get", "/api/diagnostics/{worker_id}", "listExpoDiagnostics"),
    ("get", "/api/diagnostics/{worker_id}/latest", "getLatestExpoDiagnostics"),
    ("get", "/api/health", "getHealthAlias"),
    ("get", "/api/stats", "getPublicStatsAlias"),
    ("get", "/api/v1/attention", "getAttention"),
    ("get", "/api/v1/audit", "listAudit"),
    ("post", "/api/v1/builds", "submitGitBuild"),
    ("get", "/api/v1/builds/pending", "claimGitBuild"),
    ("post", "/api/v1/builds/{id}/result", "endGitBuild"),
    ("get", "/api/v1/bulk", "listBulkOperations"),
    ("post", "/api/v1/bulk", "createBulkOperation"),
    ("get", "/api/v1/bulk/{id}", "getBulkOperation"),
    ("post", "/api/v1/bulk/{id}/stop", "stopBulkOperation"),
    ("get", "/api/v1/cache/{sha256}", "getCachedFile"),
    ("put", "/api/v1/cache/{sha256}", "putCachedFile"),
    ("get", "/api/v1/events", "followEvents"),
    ("get", "/api/v1/keys", "listKeys"),
    ("post", "/api/v1/keys", "createKey"),
    ("delete", "/api/v1/keys/{id}", "revokeKey"),
    ("post", "/api/v1/keys/{id}/rotate", "rotateKey"),
    ("delete", "/api/v1/keys/{id}/sessions", "endSessions"),
    ("get", "/api/v1/namespaces", "listNamespaces"),
    ("post", "/api/v1/namespaces", "createNamespace"),
    ("get", "/api/v1/namespaces/{name}", "getNamespace"),
    ("patch", "/api/v1/namespaces/{name}", "changeNamespace"),
    ("post", "/api/v1/namespaces/{name}/disable", "disableNamespace"),
    ("post", "/api/v1/namespaces/{name}/enable", "enableNamespace"),
    ("get", "/api/v1/pools", "listPools"),
    ("post", "/api/v1/pools", "createPool"),
    ("delete", "/api/v1/pools/{pool}", "deletePool"),
    ("get", "/api/v1/pools/{pool}", "getPool"),
    ("patch", "/api/v1/pools/{pool}", "changePool"),
    ("get", "/api/v1/pools/{pool}/claims", "listPoolClaims"),
    ("post", "/api/v1/pools/{pool}/claims", "openPoolClaim"),
    ("delete", "/api/v1/pools/{pool}/claims/{run_id}", "releasePoolClaim"),
    ("get", "/api/v1/pools/{pool}/claims/{run_id}", "getPoolClaim"),
    ("get", "/api/v1/pools/{pool}/runners", "listRunners"),
    ("delete", "/api/v1/pools/{pool}/runners/{id}", "endRunner"),
    ("get", "/api/v1/pools/{pool}/runners/{id}", "getRunner"),
    ("get", "/api/v1/queues", "listQueues"),
    ("get", "/api/v1/queues/{name}", "getQueue"),
    ("patch", "/api/v1/queues/{name}", "limitQueue"),
    ("post", "/api/v1/queues/{name}/pause", "pauseQueue"),
    ("post", "/api/v1/queues/{name}/resume", "resumeQueue"),
    ("post", "/api/v1/runners/join", "joinRunner"),
    ("post", "/api/v1/runners/{id}/heartbeat", "sendRunnerHeartbeat"),
    ("get", "/api/v1/runners/{id}/next", "getRunnerOrder"),
    ("delete", "/api/v1/runners/{id}/registration", "deregisterRunner"),
    ("post", "/api/v1/runners/{id}/registration", "registerRunner"),
    ("post", "/api/v1/runners/{id}/signals", "signalRunner"),
    ("get", "/api/v1/runs", "listRuns"),
    ("post", "/api/v1/runs", "submitRun"),
    ("post", "/api/v1/runs/batch", "submitRuns"),
    ("post", "/api/v1/runs/complete", "completeRuns"),
    ("post", "/api/v1/runs/fail", "failRuns"),
    ("post", "/api/v1/runs/give_back", "giveBackRuns"),
    ("post", "/api/v1/runs/start", "startRuns"),
    ("get", "/api/v1/runs/{id}", "getRun"),
    ("post", "/api/v1/runs/{id}/cancel", "cancelRun"),
    ("post", "/api/v1/runs/{id}/complete", "completeRun"),
    ("get", "/api/v1/runs/{id}/explain", "explainRun"),
    ("post", "/api/v1/runs/{id}/fail", "failRun"),
    ("post", "/api/v1/runs/{id}/give_back", "giveBackRun"),
    ("get", "/api/v1/runs/{id}/history", "getRunHistory"),
    ("post", "/api/v1/runs/{id}/retry", "retryRun"),
    ("post", "/api/v1/runs/{id}/sleep", "sleepRun"),
    ("post", "/api/v1/runs/{id}/start", "startRun"),
    ("get", "/api/v1/schedules", "listSchedules"),
    ("post", "/api/v1/schedules", "createSchedule"),
    ("delete", "/api/v1/schedules/{id}", "deleteSchedule"),
    ("get", "/api/v1/schedules/{id}", "getSchedule"),
    ("patch", "/api/v1/schedules/{id}", "changeSchedule"),
    ("post", "/api/v1/schedules/{id}/backfill", "backfillSchedule"),
    ("get", "/api/v1/schedules/{id}/next", "listNextFires"),
    ("post", "/api/v1/schedules/{id}/pause", "pauseSchedule"),
    ("post", "/api/v1/schedules/{id}/resume", "resumeSchedule"),
    ("get", "/api/v1/schedules/{id}/runs", "listScheduleFires"),
    ("post", "/api/v1/schedules/{id}/trigger", "triggerSchedule"),
    ("get", "/api/v1/secrets", "getSecretStatus"),
    ("post", "/api/v1/secrets/rotate", "rotateSecret"),
    ("get", "/api/v1/settings", "listSettings"),
    ("patch", "/api/v1/settings", "changeSettings"),
    ("post", "/api/v1/signin-links", "createSigninLink"),
    ("get", "/api/v1/statistics", "getStatistics"),
    ("options", "/api/v1/uploads", "getUploadOptions"),
    ("post", "/api/v1/uploads", "createUpload"),
    ("delete", "/api/v1/uploads/{id}", "deleteUpload"),
    ("head", "/api/v1/uploads/{id}", "getUploadOffset"),
    ("patch", "/api/v1/uploads/{id}", "sendUploadPiece"),
    ("get", "/api/v1/webhooks", "listWebhooks"),
    ("post", "/api/v1/webhooks", "createWebhook"),
    ("delete", "/api/v1/webhooks/{id}", "deleteWebhook"),
    ("get", "/api/v1/webhooks/{id}", "getWebhook"),
    ("patch", "/api/v1/webhooks/{id}", "changeWebhook"),
    ("get", "/api/v1/webhooks/{id}/deliveries", "listWebhookDeliveries"),
    ("post", "/api/v1/webhooks/{id}/deliveries/{delivery}/replay", "replayWebhookDelivery"),
    ("post", "/api/v1/webhooks/{id}/pause", "pauseWebhook"),
    ("post", "/api/v1/webhooks/{id}/replay", "replayWebhook"),
    ("post", "/api/v1/webhooks/{id}/resume", "resumeWebhook"),
    ("post", "/api/v1/webhooks/{id}/rotate", "rotateWebhook"),
    ("post", "/api/v1/webhooks/{id}/test", "testWebhook"),
    ("get", "/api/v1/whoami", "getWhoami"),
    ("get", "/api/v1/workers", "listWorkers"),
    ("post", "/api/v1/workers", "registerWorker"),
    ("get", "/api/v1/workers/{id}", "getWorker"),
    ("post", "/api/v1/workers/{id}/claim", "claimRuns"),
    ("post", "/api/v1/workers/{id}/deregister", "deregisterWorker"),
    ("post", "/api/v1/workers/{id}/drain", "drainWorker"),
    ("post", "/api/v1/workers/{id}/heartbeat", "sendHeartbeat"),
    ("post", "/api/v1/workers/{id}/offline", "forceWorkerOffline"),
    ("post", "/api/workers/abandon", "abandonExpoBuild"),
    ("post", "/api/workers/fail", "failExpoBuild"),
    ("post", "/api/workers/heartbeat", "sendExpoHeartbeat"),
    ("get", "/api/workers/poll", "pollExpoBuild"),
    ("post", "/api/workers/register", "registerExpoBuilder"),
    ("post", "/api/workers/result", "endExpoBuildAlias"),
    ("post", "/api/workers/unregister", "unregisterExpoBuilder"),
    ("post", "/api/workers/upload", "endExpoBuild"),
    ("get", "/api/workers/{id}/stats", "getExpoBuilderStats"),
    ("get", "/docs/errors", "getErrorPage"),
    ("get", "/health", "getHealth"),
    ("get", "/healthz", "getLiveness"),
    ("get", "/metrics", "getMetrics"),
    ("get", "/public/stats", "getPublicStats"),
    ("get", "/readyz", "getReadiness"),
];

/// The name of an operation: its handler's own (`operation_id` in its description), or the one in the table.
pub(super) fn operation_id(method: &str, path: &str, own: Option<&str>) -> Option<String> {
    // Unless it is told otherwise, the macro takes the name of the handler, which is in snake case.
    let own = own.filter(|own| own.contains(|letter: char| letter.is_ascii_uppercase()));
    let listed = || OPERATION_IDS.iter().find(|(at, of, _)| (*at, *of) == (method, path)).map(|(_, _, id)| *id);
    own.or_else(listed).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::complete::operations;
    use super::super::openapi;
    use super::*;

    #[test]
    fn every_operation_has_a_name_of_its_own_in_camel_case() {
        let mut document = openapi();
        let mut seen = BTreeSet::new();
        for (method, path, operation) in operations(&mut document) {
            let id = operation["operationId"].as_str().unwrap_or_default();
            let is_camel = id.starts_with(|first: char| first.is_ascii_lowercase())
                && id.chars().all(|letter| letter.is_ascii_alphanumeric())
                && id.contains(|letter: char| letter.is_ascii_uppercase());
            assert!(is_camel, "{method} {path} is called {id:?}: add a line to OPERATION_IDS, such as submitRun");
            assert!(seen.insert(id.to_owned()), "{method} {path}: another operation is called {id}, too");
        }
    }

    #[test]
    fn the_table_names_no_operation_that_is_gone() {
        let document = openapi();
        for (method, path, id) in OPERATION_IDS {
            assert!(document["paths"][*path].get(method).is_some(), "{id} is gone: {method} {path}");
        }
    }
}
