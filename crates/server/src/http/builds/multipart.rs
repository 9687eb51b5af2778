//! Files in multipart bodies, passed on as they come.

use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use axum::extract::multipart::{Field, Multipart, MultipartError};
use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, StatusCode};

use crate::artifacts::Source;
use crate::{App, Error};

/// Longest text field, in bytes.
const TEXT_BYTES_MAX: usize = 64 * 1024;

/// Room in a form for what comes with its large file: fields, boundaries, certificates.
const FORM_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Refuses a body that says of itself that it is larger than this, before any of it is read.
pub(super) fn check_length(headers: &HeaderMap, bytes_max: u64) -> Result<(), Error> {
    let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    match length {
        Some(length) if length > bytes_max => {
            Err(Error::TooLarge { limit: usize::try_from(bytes_max).unwrap_or(usize::MAX) })
        }
        Some(_) | None => Ok(()),
    }
}

/// The body of a request, which has to be a multipart one.
pub(super) async fn open(app: &App, request: Request) -> Result<Multipart, Error> {
    let bytes_max = app.settings.artifact_bytes_max.saturating_add(FORM_BYTES_MAX);
    check_length(request.headers(), bytes_max)?;
    let request =
        request.map(|body| Body::from_stream(no_more_than(bytes_max, one_at_a_time(body.into_data_stream()))));
    Multipart::from_request(request, app).await.map_err(|rejection| {
        Error::Malformed(format!("the body must be multipart/form-data: {}", rejection.body_text()))
    })
}

/// The same stream, which says after each item that the next one will take a moment.
///
/// The parser takes all that is there before it hands out any of it. A client that sends faster than the disk writes would
/// have its file in memory.
fn one_at_a_time<S: Stream + Send + Unpin + 'static>(mut stream: S) -> impl Stream<Item = S::Item> + Send + 'static {
    let mut rests = false;
    stream::poll_fn(move |context| {
        if std::mem::take(&mut rests) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let next = stream.poll_next_unpin(context);
        rests = matches!(next, Poll::Ready(Some(_)));
        next
    })
}

/// The same bytes, and an error once there are more: a body need not say how long it is.
fn no_more_than<E: Into<axum::BoxError>>(
    bytes_max: u64,
    stream: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
) -> impl Stream<Item = Result<Bytes, axum::BoxError>> + Send + 'static {
    let mut left = bytes_max;
    stream.map(move |chunk| {
        let chunk = chunk.map_err(Into::into)?;
        left = left.checked_sub(chunk.len() as u64).ok_or("the body is larger than allowed")?;
        Ok(chunk)
    })
}

/// The next field, or `None` at the end.
pub(super) async fn next<'a>(app: &App, body: &'a mut Multipart) -> Result<Option<Field<'a>>, Error> {
    within(app, body.next_field()).await?.map_err(wrong)
}

/// A short text field.
pub(super) async fn text(app: &App, mut field: Field<'_>) -> Result<String, Error> {
    let name = field.name().unwrap_or_default().to_owned();
    let mut all = Vec::new();
    while let Some(chunk) = within(app, field.chunk()).await?.map_err(wrong)? {
        all.extend_from_slice(&chunk);
        if all.len() > TEXT_BYTES_MAX {
            return Err(Error::TooLarge { limit: TEXT_BYTES_MAX });
        }
    }
    String::from_utf8(all).map_err(|_| Error::Invalid(format!("the field {name} must be UTF-8")))
}

/// Reads a field that nobody wants, whatever is in it.
pub(super) async fn skip(app: &App, mut field: Field<'_>) -> Result<(), Error> {
    let mut bytes = 0;
    while let Some(chunk) = within(app, field.chunk()).await?.map_err(wrong)? {
        bytes += chunk.len() as u64;
        if bytes > FORM_BYTES_MAX {
            return Err(Error::TooLarge { limit: FORM_BYTES_MAX as usize });
        }
    }
    Ok(())
}

/// A file field as a stream. A sender that falls silent for too long is cut off, however long the whole takes.
pub(super) fn bytes<'a>(app: &App, field: Field<'a>) -> Source<'a> {
    let patience = Duration::from_millis(app.settings.body_timeout_ms);
    stream::try_unfold(field, move |mut field| async move {
        let chunk = tokio::time::timeout(patience, field.chunk()).await.map_err(|_| Error::TooSlow)?;
        Ok(chunk.map_err(wrong)?.map(|chunk: Bytes| (chunk, field)))
    })
    .boxed()
}

async fn within<T>(app: &App, part: impl Future<Output = T>) -> Result<T, Error> {
    tokio::time::timeout(Duration::from_millis(app.settings.body_timeout_ms), part).await.map_err(|_| Error::TooSlow)
}

fn wrong(error: MultipartError) -> Error {
    match error.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Error::TooLarge { limit: TEXT_BYTES_MAX },
        _ => Error::Malformed(format!("the multipart body is broken or ended early: {}", error.body_text())),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;

    #[tokio::test]
    async fn who_takes_all_there_is_gets_one_piece() {
        let mut pieces = one_at_a_time(stream::iter([1, 2]));
        for expected in [Poll::Ready(Some(1)), Poll::Pending, Poll::Ready(Some(2)), Poll::Pending, Poll::Ready(None)] {
            assert_eq!(poll!(pieces.next()), expected);
        }
    }
}
