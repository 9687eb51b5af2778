//! Functions of workflows, all made alike.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::state::{decode, encode};
use super::step::BoxFuture;
use super::{Context, WorkflowError};

/// A workflow's function: JSON in, JSON out.
pub(crate) type Handler = Arc<dyn Fn(Context, Bytes) -> BoxFuture<'static, Result<Bytes, WorkflowError>> + Send + Sync>;

pub(crate) fn handler<I, O, E, F, R>(function: F) -> Handler
where
    F: Fn(Context, I) -> R + Send + Sync + 'static,
    R: Future<Output = Result<O, E>> + Send + 'static,
    I: DeserializeOwned + Send + 'static,
    O: Serialize,
    E: Into<WorkflowError>,
{
    let function = Arc::new(function);
    Arc::new(move |context, input| {
        let function = function.clone();
        Box::pin(async move {
            let input = decode(&input, || "the input".into()).map_err(|error| match error {
                WorkflowError::Decode { .. } => WorkflowError::fatal(error).with_code("invalid_input"),
                other => other,
            })?;
            let future = function(context, input);
            let output = future.await.map_err(Into::into)?;
            encode(&output).map_err(|error| {
                WorkflowError::fatal(format!("what the workflow returned cannot be written as JSON: {error}"))
                    .with_code("encode")
            })
        })
    })
}
