//! Calls about builds: of those who submit them, and of those who build.

use std::path::Path;
use std::time::Duration;

use baton_proto::{
    BuildLogs, BuildPage, BuildStatus, BuildTelemetry, BuildView, CancelledBuild, LEASE_HEADER, NewLogLine, NewLogs,
    SubmitGitBuild, SubmittedBuild,
};
use bytes::Bytes;
use http::HeaderName;
use serde::Serialize;

use crate::client::Call;
use crate::download::Downloaded;
use crate::filter::{Query, encode};
use crate::upload::{FileToSend, Form, Part};
use crate::{Client, ClientError, Progress, TransferError};

const CHECKSUM_HEADER: HeaderName = HeaderName::from_static("x-checksum-sha256");
const LEASE: HeaderName = HeaderName::from_static(LEASE_HEADER);

fn path(id: &str, verb: &str) -> String {
    format!("/api/builds/{}{verb}", encode(id))
}

/// A build to be submitted.
#[derive(Clone, Debug)]
pub struct NewBuild {
    /// What it is built for: `ios`, `android`, ...
    pub platform: String,
    /// Builds of one project share limits, turns and warm caches.
    pub project: Option<String>,
    /// 0 to 9; 9 goes first.
    pub priority: Option<u8>,
    /// The image of the machine to build on.
    pub base_image: Option<String>,
    /// The archive of the source: zip, tar or tar.gz.
    pub source: FileToSend,
    /// The archive's sha-256 in hexadecimal digits, which the server checks.
    pub source_sha256: Option<String>,
    /// A zip of signing certificates.
    pub certs: Option<FileToSend>,
}

/// Which builds to list. Everything left out does not matter.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BuildFilter {
    /// In this state.
    pub status: Option<BuildStatus>,
    /// For this platform.
    pub platform: Option<String>,
    /// At most this many.
    pub limit: Option<usize>,
    /// After the page that ended with this cursor.
    pub cursor: Option<String>,
}

/// What a worker measures while it builds.
#[derive(Serialize)]
struct Telemetry {
    cpu: Option<f64>,
    memory: Option<f64>,
}

/// What is said when there is nothing to say but that it worked.
#[derive(serde::Deserialize)]
struct Done {}

impl Client {
    /// Submits a build. With an idempotency key the call may be repeated without harm.
    pub async fn submit_build(
        &self,
        build: &NewBuild,
        idempotency_key: Option<&str>,
        progress: Progress,
    ) -> Result<SubmittedBuild, TransferError> {
        let mut call = Call::post("/api/builds").idempotency_key(idempotency_key)?;
        if let Some(sum) = &build.source_sha256 {
            call = call.header(CHECKSUM_HEADER, sum)?;
        }
        let priority = build.priority.map(|priority| priority.to_string());
        // Short fields first: the server refuses what is wrong with them before it reads gigabytes.
        let form = Form::new()?
            .text("platform", Some(&build.platform))
            .text("project", build.project.as_deref())
            .text("priority", priority.as_deref())
            .text("baseImageId", build.base_image.as_deref())
            .file("certs", build.certs.as_ref())
            .file("source", Some(&build.source));
        let (call, parts) = form.finish(call)?;
        self.upload(call, parts, progress).await
    }

    /// Submits a build from a repository.
    pub async fn submit_git_build(
        &self,
        build: &SubmitGitBuild,
        idempotency_key: Option<&str>,
    ) -> Result<BuildView, ClientError> {
        self.json(Call::post("/api/v1/builds").body(build)?.idempotency_key(idempotency_key)?).await
    }

    /// A page of builds, newest first.
    pub async fn builds(&self, filter: &BuildFilter) -> Result<BuildPage, ClientError> {
        let query = Query::new("/api/builds")
            .add("status", filter.status.map(BuildStatus::as_str))
            .add("platform", filter.platform.as_deref())
            .page(filter.limit, filter.cursor.as_deref(), false);
        self.json(Call::get(query.path)).await
    }

    /// One build, with its place in the queue and its files.
    pub async fn build(&self, id: &str) -> Result<BuildView, ClientError> {
        self.json(Call::get(path(id, ""))).await
    }

    /// Lines of a build's log after this number. When there are none, waits for some until `wait` is over or the build
    /// has ended.
    pub async fn build_logs(
        &self,
        id: &str,
        after: u64,
        limit: usize,
        wait: Duration,
    ) -> Result<BuildLogs, ClientError> {
        let query = Query::new(path(id, "/logs"))
            .add("after", Some(&after.to_string()))
            .add("limit", Some(&limit.to_string()))
            .add("wait_ms", Some(&wait.as_millis().to_string()));
        self.json(Call::get(query.path).waits(wait)).await
    }

    /// Cancels a build: at once when nobody has it, otherwise its worker is told.
    pub async fn cancel_build(&self, id: &str) -> Result<CancelledBuild, ClientError> {
        self.json(Call::post(path(id, "/cancel"))).await
    }

    /// Submits a build again that has ended.
    pub async fn retry_build(&self, id: &str, idempotency_key: Option<&str>) -> Result<SubmittedBuild, ClientError> {
        self.json(Call::post(path(id, "/retry")).idempotency_key(idempotency_key)?).await
    }

    /// Fetches what came out of a build. A cut connection is taken up again, and the sum is checked.
    pub async fn download_result(
        &self,
        id: &str,
        target: &Path,
        progress: Progress,
    ) -> Result<Downloaded, TransferError> {
        self.download(&path(id, "/download"), None, target, progress).await
    }

    /// Fetches the source of a build, for the worker that holds it.
    pub async fn download_source(
        &self,
        id: &str,
        lease: &str,
        target: &Path,
        progress: Progress,
    ) -> Result<Downloaded, TransferError> {
        self.download(&path(id, "/source"), Some(lease), target, progress).await
    }

    /// The zip of a build's certificates, for the worker that holds it. The server writes down who read it.
    pub async fn build_certs(&self, id: &str, lease: &str) -> Result<Bytes, ClientError> {
        self.bytes(Call::get(path(id, "/certs")).header(LEASE, lease)?).await
    }

    /// Adds lines to a build's log, for the worker that holds it. `first_line` is the number of the first of them among all that this
    /// lease adds, from 1: with it, the same lines may be sent again after a lost answer.
    pub async fn add_build_logs(
        &self,
        id: &str,
        lease: &str,
        first_line: Option<u64>,
        logs: Vec<NewLogLine>,
    ) -> Result<(), ClientError> {
        let lines = NewLogs::Many { logs, first_line };
        self.empty(Call::post(path(id, "/logs")).body(&lines)?.header(LEASE, lease)?).await
    }

    /// Adds a measurement to a build, for the worker that holds it. Shares of one.
    pub async fn add_build_telemetry(
        &self,
        id: &str,
        lease: &str,
        cpu: Option<f64>,
        memory: Option<f64>,
    ) -> Result<(), ClientError> {
        self.empty(Call::post(path(id, "/telemetry")).body(&Telemetry { cpu, memory })?.header(LEASE, lease)?).await
    }

    /// What was measured while a build was built, oldest first.
    pub async fn build_telemetry(&self, id: &str) -> Result<BuildTelemetry, ClientError> {
        self.json(Call::get(path(id, "/telemetry"))).await
    }

    /// Stores the file that came out of a build and completes it, for the worker that holds it. The same file may be sent again
    /// after a lost answer.
    pub async fn complete_build(
        &self,
        id: &str,
        lease: &str,
        result: &FileToSend,
        sha256: &str,
        progress: Progress,
    ) -> Result<(), TransferError> {
        let query = Query::new(path(id, "/artifact")).add("complete", Some("true")).add("name", Some(result.name()));
        let call = Call::post(query.path).header(LEASE, lease)?.header(CHECKSUM_HEADER, sha256)?;
        let call = call.header(http::header::CONTENT_TYPE, "application/octet-stream")?;
        let Done {} = self.upload(call, vec![Part::File(result.clone())], progress).await?;
        Ok(())
    }
}
