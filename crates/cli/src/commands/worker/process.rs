//! One shell command for one run: started, fed, read, stopped.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use baton::proto::ClaimedRun;
use baton::runs::{Cancel, Failure};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use super::group::Group;

/// Servers take outputs of this size and no larger, unless they are told otherwise.
const OUTPUT_BYTES_MAX: usize = 32 << 20;
/// How much of the error output is kept to say why the command failed.
const ERROR_BYTES_MAX: usize = 4 << 10;
const ERROR_LINES_MAX: usize = 20;
/// How long pipes may stay open after the command has ended, held by something it left behind.
const LEFTOVER_GRACE: Duration = Duration::from_millis(500);

/// Runs the command for one run and makes what it printed the output.
pub async fn execute(command: &str, run: ClaimedRun, cancel: Cancel) -> Result<Value, Failure> {
    let mut group = Group::start(shell(command, &run)).map_err(|error| format!("cannot start the command: {error}"))?;
    let mut stdin = group.child.stdin.take().ok_or("the command has no standard input")?;
    let stdout = group.child.stdout.take().ok_or("the command has no standard output")?;
    let stderr = group.child.stderr.take().ok_or("the command has no error output")?;
    let input = run.input;
    let feed = tokio::spawn(async move {
        // A command that does not read its input is no failure.
        let _ = stdin.write_all(input.as_deref().map_or("null", |input| input.get()).as_bytes()).await;
    });
    let mut stdout = tokio::spawn(read_head(stdout));
    let mut stderr = tokio::spawn(read_tail(stderr));
    let status = tokio::select! {
        status = group.child.wait() => status.map_err(|error| format!("cannot wait for the command: {error}"))?,
        why = cancel.stopped() => {
            group.stop(why).await;
            return Err(Failure::new(format!("the command was stopped: {why:?}")).code("stopped"));
        }
    };
    feed.abort();
    let mut pipes = std::pin::pin!(async { (joined(&mut stdout).await, joined(&mut stderr).await) });
    let (output, errors) = match tokio::time::timeout(LEFTOVER_GRACE, &mut pipes).await {
        Ok(read) => read,
        Err(_) => {
            // Something the command left behind holds the pipes.
            group.signal(libc::SIGKILL);
            tokio::time::timeout(LEFTOVER_GRACE, pipes)
                .await
                .map_err(|_| "something the command started does not let go of its output")?
        }
    };
    verdict(status, output, &errors)
}

fn shell(command: &str, run: &ClaimedRun) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell
        .arg("-c")
        .arg(command)
        // Nobody gives it to a worker on purpose.
        .env_remove(baton_server::secrets::MASTER_KEY_VARIABLE)
        .env("BATON_RUN_ID", &run.run_id)
        .env("BATON_RUN_TYPE", &run.kind)
        .env("BATON_ATTEMPT", run.attempt.to_string())
        .env("BATON_EPOCH", run.epoch.to_string())
        // What the command calls and submits is part of the run's trace, not of the worker's own.
        .env_remove("TRACEPARENT")
        .env_remove("TRACESTATE")
        .envs(trace_variables(run))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    shell
}

/// The run's place in its trace, as programs look for it.
pub fn trace_variables(run: &ClaimedRun) -> impl Iterator<Item = (&'static str, &str)> {
    let named = [("TRACEPARENT", run.traceparent.as_deref()), ("TRACESTATE", run.tracestate.as_deref())];
    named.into_iter().filter_map(|(name, value)| Some((name, value?)))
}

async fn joined<T: Default>(read: &mut tokio::task::JoinHandle<T>) -> T {
    read.await.unwrap_or_default()
}

fn verdict(status: ExitStatus, output: Option<Vec<u8>>, errors: &[u8]) -> Result<Value, Failure> {
    if !status.success() {
        let lines = last_lines(errors);
        let message = if lines.is_empty() { status.to_string() } else { format!("{status}\n{lines}") };
        return Err(Failure::new(message));
    }
    let Some(output) = output else {
        let message = format!("the command printed more than {OUTPUT_BYTES_MAX} bytes");
        return Err(Failure::new(message).code("output_too_large").not_retryable());
    };
    let text = String::from_utf8_lossy(&output);
    match text.trim() {
        "" => Ok(Value::Null),
        text => Ok(serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))),
    }
}

fn last_lines(errors: &[u8]) -> String {
    let text = String::from_utf8_lossy(errors);
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(ERROR_LINES_MAX)..].join("\n")
}

/// Reads everything, or returns `None` when it is more than an output may be. Goes on reading in that case, so that
/// the command does not hang on a full pipe.
async fn read_head(mut pipe: impl AsyncRead + Unpin) -> Option<Vec<u8>> {
    let mut kept = Vec::new();
    let mut fits = true;
    let mut chunk = vec![0; 16 << 10];
    while let Ok(read) = pipe.read(&mut chunk).await
        && read > 0
    {
        fits = fits && kept.len() + read <= OUTPUT_BYTES_MAX;
        if fits {
            kept.extend_from_slice(&chunk[..read]);
        }
    }
    fits.then_some(kept)
}

/// Reads everything, passes it on to our own error output, and keeps the end of it.
async fn read_tail(mut pipe: impl AsyncRead + Unpin) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut chunk = vec![0; ERROR_BYTES_MAX];
    while let Ok(read) = pipe.read(&mut chunk).await
        && read > 0
    {
        let _ = std::io::Write::write_all(&mut std::io::stderr(), &chunk[..read]);
        kept.extend_from_slice(&chunk[..read]);
        kept.drain(..kept.len().saturating_sub(ERROR_BYTES_MAX));
    }
    kept
}
