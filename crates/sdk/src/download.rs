//! Fetching files: written as they come, resumed where a connection was cut, checked, and only then given their name.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_proto::LEASE_HEADER;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, IF_RANGE, RANGE};
use http::{HeaderMap, HeaderName, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use sha2::{Digest, Sha256};
use tokio::fs::{File, OpenOptions};
use tokio::io::{AsyncSeekExt, AsyncWriteExt};
use tokio::time::sleep;

use crate::client::{Call, within};
use crate::transfer::{STALL_TIMEOUT, hexadecimal};
use crate::{Client, ClientError, Progress, TransferError};

/// How often in a row a cut download is taken up again without a single new byte.
const TRIES_MAX: u32 = 6;
const PAUSE_FIRST: Duration = Duration::from_millis(200);
const CHECKSUM_HEADER: &str = "x-checksum-sha256";

/// A file that has been fetched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Downloaded {
    /// Its size in bytes.
    pub size: u64,
    /// Its sha-256 in hexadecimal digits.
    pub sha256: String,
}

impl Client {
    /// Fetches a file to `target`. Until it is whole and checked it has another name, in the same directory.
    pub(crate) async fn download(
        &self,
        path: &str,
        lease: Option<&str>,
        target: &Path,
        progress: Progress,
    ) -> Result<Downloaded, TransferError> {
        let first = self.ask(path, lease, None).await?;
        let mut partial = Partial::create(target, first.headers()).await?;
        let mut answer: Result<_, ClientError> = Ok(first);
        let mut tries = 0;
        loop {
            let before = partial.received;
            let outcome = match answer {
                Ok(answer) => self.receive(answer, &mut partial, &progress).await,
                Err(error) => Err(error.into()),
            };
            match outcome {
                Ok(()) => return partial.finish(target).await,
                Err(TransferError::Call(error)) if error.is_transient() => {
                    tries = if partial.received > before { 1 } else { tries + 1 };
                    if tries > TRIES_MAX {
                        return Err(error.into());
                    }
                }
                Err(error) => return Err(error),
            }
            sleep(PAUSE_FIRST * (1 << tries)).await;
            answer = self.ask(path, lease, Some(&partial)).await;
        }
    }

    async fn ask(
        &self,
        path: &str,
        lease: Option<&str>,
        partial: Option<&Partial>,
    ) -> Result<Response<Incoming>, ClientError> {
        let mut call = Call::get(path);
        if let Some(lease) = lease {
            call = call.header(HeaderName::from_static(LEASE_HEADER), lease)?;
        }
        // Without a tag nobody could say whether the rest is the rest of the same file.
        if let Some((partial, tag)) = partial.and_then(|partial| Some((partial, partial.tag.as_deref()?)))
            && partial.received > 0
        {
            call = call.header(RANGE, &format!("bytes={}-", partial.received))?.header(IF_RANGE, tag)?;
        }
        within(STALL_TIMEOUT, self.open(call, None)).await
    }

    async fn receive(
        &self,
        answer: Response<Incoming>,
        partial: &mut Partial,
        progress: &Progress,
    ) -> Result<(), TransferError> {
        let (head, mut body) = answer.into_parts();
        if head.status != StatusCode::PARTIAL_CONTENT {
            partial.begin_anew(&head.headers).await?;
        } else if begins_at(&head.headers) != Some(partial.received) {
            let range = head.headers.get(CONTENT_RANGE);
            return Err(ClientError::Decode(format!("another part came than was asked for: {range:?}")).into());
        }
        progress(partial.received);
        loop {
            let next = within(STALL_TIMEOUT, async {
                body.frame().await.transpose().map_err(|error| self.unreachable(&error))
            });
            let Some(frame) = next.await? else { break };
            if let Ok(chunk) = frame.into_data() {
                partial.write(&chunk).await?;
                progress(partial.received);
            }
        }
        match partial.size {
            Some(size) if size != partial.received => {
                let got = partial.received;
                Err(ClientError::Unreachable(format!("the file ended after {got} of {size} bytes")).into())
            }
            Some(_) | None => Ok(()),
        }
    }
}

fn begins_at(headers: &HeaderMap) -> Option<u64> {
    let range = headers.get(CONTENT_RANGE)?.to_str().ok()?;
    range.strip_prefix("bytes ")?.split('-').next()?.parse().ok()
}

fn text(headers: &HeaderMap, name: impl http::header::AsHeaderName) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// A file that is not whole yet. Unless it is finished, it is removed.
struct Partial {
    path: PathBuf,
    file: File,
    hasher: Sha256,
    received: u64,
    size: Option<u64>,
    tag: Option<String>,
    expected: Option<String>,
}

impl Partial {
    async fn create(target: &Path, headers: &HeaderMap) -> Result<Partial, TransferError> {
        let mut random = [0; 6];
        getrandom::fill(&mut random)
            .map_err(|error| ClientError::Invalid(format!("the system gives no random numbers: {error}")))?;
        let mut name = target.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", hexadecimal(&random)));
        let path = target.with_file_name(name);
        match OpenOptions::new().write(true).create_new(true).open(&path).await {
            Ok(file) => {
                let mut partial =
                    Partial { path, file, hasher: Sha256::new(), received: 0, size: None, tag: None, expected: None };
                partial.describe(headers);
                Ok(partial)
            }
            Err(error) => Err(TransferError::File { path: target.to_owned(), error }),
        }
    }

    fn describe(&mut self, headers: &HeaderMap) {
        self.size = text(headers, CONTENT_LENGTH).and_then(|length| length.parse().ok());
        self.tag = text(headers, ETAG);
        self.expected = text(headers, CHECKSUM_HEADER).map(|sum| sum.to_lowercase());
    }

    fn failed(&self) -> impl Fn(io::Error) -> TransferError {
        let path = self.path.clone();
        move |error| TransferError::File { path: path.clone(), error }
    }

    /// The whole file comes, whatever came before.
    async fn begin_anew(&mut self, headers: &HeaderMap) -> Result<(), TransferError> {
        self.describe(headers);
        if self.received > 0 {
            self.file.set_len(0).await.map_err(self.failed())?;
            self.file.rewind().await.map_err(self.failed())?;
            (self.hasher, self.received) = (Sha256::new(), 0);
        }
        Ok(())
    }

    async fn write(&mut self, chunk: &[u8]) -> Result<(), TransferError> {
        self.file.write_all(chunk).await.map_err(self.failed())?;
        self.hasher.update(chunk);
        self.received += chunk.len() as u64;
        Ok(())
    }

    async fn finish(mut self, target: &Path) -> Result<Downloaded, TransferError> {
        let found = hexadecimal(&self.hasher.finalize_reset());
        if let Some(expected) = self.expected.take().filter(|expected| *expected != found) {
            return Err(TransferError::Damaged { expected, found });
        }
        self.file.flush().await.map_err(self.failed())?;
        // A name must not stand for a file that a crash could empty.
        self.file.sync_data().await.map_err(self.failed())?;
        tokio::fs::rename(&self.path, target).await.map_err(self.failed())?;
        Ok(Downloaded { size: self.received, sha256: found })
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // After a rename there is nothing left under this name.
        let _ = std::fs::remove_file(&self.path);
    }
}
