//! Sending files: read as they go out, never held in memory.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::stream;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use serde::de::DeserializeOwned;

use crate::client::{Body, Call};
use crate::transfer::{CHUNK_BYTES, Pulse, hexadecimal};
use crate::{Client, ClientError, Progress, TransferError};

/// A file to be sent. It can be sent again: where it was read to does not matter.
#[derive(Clone, Debug)]
pub struct FileToSend {
    file: Arc<File>,
    size: u64,
    name: String,
}

impl FileToSend {
    /// An open file, under the name that the other side shall see.
    pub fn new(file: File, name: impl Into<String>) -> io::Result<FileToSend> {
        let size = file.metadata()?.len();
        Ok(FileToSend { file: Arc::new(file), size, name: name.into() })
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The name that the other side sees.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// A piece of a body.
pub(crate) enum Part {
    Text(Bytes),
    File(FileToSend),
}

impl Part {
    fn length(&self) -> u64 {
        match self {
            Part::Text(text) => text.len() as u64,
            Part::File(file) => file.size,
        }
    }
}

/// The fields of a form, written as RFC 7578 wants them. All lengths are known, so nothing has to be sent in chunks.
pub(crate) struct Form {
    boundary: String,
    parts: Vec<Part>,
}

impl Form {
    pub(crate) fn new() -> Result<Form, ClientError> {
        let mut random = [0; 16];
        getrandom::fill(&mut random)
            .map_err(|error| ClientError::Invalid(format!("the system gives no random numbers: {error}")))?;
        Ok(Form { boundary: format!("baton-{}", hexadecimal(&random)), parts: Vec::new() })
    }

    pub(crate) fn text(mut self, field: &str, value: Option<&str>) -> Form {
        if let Some(value) = value {
            let boundary = &self.boundary;
            let text = format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{field}\"\r\n\r\n{value}\r\n");
            self.parts.push(Part::Text(text.into()));
        }
        self
    }

    pub(crate) fn file(mut self, field: &str, file: Option<&FileToSend>) -> Form {
        if let Some(file) = file {
            let (boundary, name) = (&self.boundary, quoted(&file.name));
            let head = format!(
                "--{boundary}\r\nContent-Disposition: form-data; name=\"{field}\"; filename=\"{name}\"\r\n\
                 Content-Type: application/octet-stream\r\n\r\n"
            );
            self.parts.extend([Part::Text(head.into()), Part::File(file.clone()), Part::Text("\r\n".into())]);
        }
        self
    }

    pub(crate) fn finish(mut self, call: Call) -> Result<(Call, Vec<Part>), ClientError> {
        self.parts.push(Part::Text(format!("--{}--\r\n", self.boundary).into()));
        let call = call.header(CONTENT_TYPE, &format!("multipart/form-data; boundary={}", self.boundary))?;
        Ok((call, self.parts))
    }
}

/// A file name as forms carry it: what would end the quotation or the line is percent-encoded.
fn quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

impl Client {
    /// Sends a call whose body is these parts, and reads the JSON of its answer. It takes as long as something moves.
    pub(crate) async fn upload<T: DeserializeOwned>(
        &self,
        call: Call,
        parts: Vec<Part>,
        progress: Progress,
    ) -> Result<T, TransferError> {
        let length: u64 = parts.iter().map(Part::length).sum();
        let call = call.header(CONTENT_LENGTH, &length.to_string())?;
        let reader = Arc::new(Reader { pulse: Pulse::new(), trouble: Mutex::default(), progress });
        let body = reader.clone().body(parts);
        let answered = async {
            let answer = self.open(call, Some(body)).await?;
            let body = answer.into_body().collect().await.map_err(|error| self.unreachable(&error))?.to_bytes();
            serde_json::from_slice(&body).map_err(|error| ClientError::Decode(error.to_string()))
        };
        let answer = tokio::select! {
            answer = answered => answer,
            silence = reader.pulse.silence() => Err(silence),
        };
        // A body that broke off on this side looks like a broken connection from there.
        match reader.trouble.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some((path, error)) => Err(TransferError::File { path, error }),
            None => Ok(answer?),
        }
    }
}

struct Reader {
    pulse: Pulse,
    trouble: Mutex<Option<(PathBuf, io::Error)>>,
    progress: Progress,
}

struct Rest {
    parts: VecDeque<Part>,
    /// How much of the first part has been sent.
    offset: u64,
    /// How much of all files has been sent.
    sent: u64,
}

impl Reader {
    fn body(self: Arc<Self>, parts: Vec<Part>) -> Body {
        let rest = Rest { parts: parts.into(), offset: 0, sent: 0 };
        let frames = stream::try_unfold(rest, move |rest| {
            let reader = self.clone();
            async move { reader.next(rest).await }
        });
        StreamBody::new(frames).boxed_unsync()
    }

    async fn next(&self, mut rest: Rest) -> io::Result<Option<(Frame<Bytes>, Rest)>> {
        self.pulse.beat();
        loop {
            let Some(part) = rest.parts.front() else { return Ok(None) };
            let file = match part {
                Part::Text(text) => {
                    let text = text.clone();
                    rest.parts.pop_front();
                    return Ok(Some((Frame::data(text), rest)));
                }
                Part::File(file) if rest.offset == file.size => {
                    rest.parts.pop_front();
                    rest.offset = 0;
                    continue;
                }
                Part::File(file) => file.clone(),
            };
            let chunk = self.read(file, rest.offset).await?;
            rest.offset += chunk.len() as u64;
            rest.sent += chunk.len() as u64;
            (self.progress)(rest.sent);
            return Ok(Some((Frame::data(chunk), rest)));
        }
    }

    async fn read(&self, file: FileToSend, offset: u64) -> io::Result<Bytes> {
        let length = usize::try_from(file.size - offset).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
        let name = file.name.clone();
        let read = tokio::task::spawn_blocking(move || {
            let mut chunk = vec![0; length];
            file.file.read_exact_at(&mut chunk, offset)?;
            io::Result::Ok(Bytes::from(chunk))
        });
        read.await.map_err(io::Error::other).and_then(|read| read).inspect_err(|error| {
            let again = match error.kind() {
                io::ErrorKind::UnexpectedEof => io::Error::other("it became shorter while it was sent"),
                kind => io::Error::new(kind, error.to_string()),
            };
            *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some((name.into(), again));
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file(content: &[u8], name: &str) -> FileToSend {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        FileToSend::new(file, name).unwrap()
    }

    async fn sent(parts: Vec<Part>) -> (Result<Bytes, io::Error>, Arc<Reader>) {
        let reader = Arc::new(Reader { pulse: Pulse::new(), trouble: Mutex::default(), progress: Arc::new(drop) });
        let collected = reader.clone().body(parts).collect().await;
        (collected.map(http_body_util::Collected::to_bytes), reader)
    }

    #[tokio::test]
    async fn a_form_is_as_long_as_it_says() {
        let large: Vec<u8> = (0..CHUNK_BYTES * 2 + 7).map(|i| i as u8).collect();
        let form = Form::new().unwrap().text("platform", Some("ios")).text("project", None);
        let form = form.file("source", Some(&file(&large, "a\"\r\nb.zip"))).file("empty", Some(&file(b"", "c")));
        let boundary = form.boundary.clone();
        let (_, parts) = form.finish(Call::post("/x")).unwrap();
        let length: u64 = parts.iter().map(Part::length).sum();
        let body = sent(parts).await.0.unwrap();
        assert_eq!(body.len() as u64, length);
        let head = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"platform\"\r\n\r\nios\r\n--{boundary}\r\n\
             Content-Disposition: form-data; name=\"source\"; filename=\"a%22%0D%0Ab.zip\"\r\n"
        );
        assert!(body.starts_with(head.as_bytes()), "{:?}", String::from_utf8_lossy(&body[..300]));
        assert!(body.windows(large.len()).any(|window| window == large));
        assert!(body.ends_with(format!("--{boundary}--\r\n").as_bytes()));
    }

    #[tokio::test]
    async fn a_file_that_shrinks_is_named() {
        let shrinking = file(&[1; CHUNK_BYTES * 2], "app.zip");
        shrinking.file.set_len(10).unwrap();
        let (body, reader) = sent(vec![Part::File(shrinking)]).await;
        assert!(body.is_err());
        let (path, error) = reader.trouble.lock().unwrap().take().unwrap();
        assert_eq!((path, error.to_string()), ("app.zip".into(), "it became shorter while it was sent".into()));
    }
}
