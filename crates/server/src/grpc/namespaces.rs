//! `NamespaceService`.

use baton_proto::v1::namespace_service_server::NamespaceService;
use baton_proto::{ChangeNamespace, CreateNamespace, NamespaceView, v1};
use baton_store::Page;
use tonic::{Request, Response, Status};

use super::convert::{next_token, page, timestamp};
use super::workflows::opened;
use crate::App;
use crate::service::namespaces;
use crate::service::workflows::invalid;

/// The service.
#[derive(Clone, Debug)]
pub struct Namespaces {
    pub(super) app: App,
}

#[tonic::async_trait]
impl NamespaceService for Namespaces {
    async fn create_namespace(
        &self,
        request: Request<v1::CreateNamespaceRequest>,
    ) -> Result<Response<v1::Namespace>, Status> {
        let (who, request) = opened(request)?;
        let wanted = request.namespace.ok_or_else(|| invalid("namespace", "must be given"))?;
        let wanted = CreateNamespace {
            name: wanted.namespace_id,
            description: wanted.description,
            live_runs_max: limit(wanted.live_runs_max),
            workers_max: limit(wanted.workers_max),
            schedules_max: limit(wanted.schedules_max),
            seal_payloads: wanted.seal_payloads,
        };
        let (made, _) = namespaces::create(&self.app, &who.caller, wanted).await?;
        Ok(Response::new(shown(made)))
    }

    async fn get_namespace(
        &self,
        request: Request<v1::GetNamespaceRequest>,
    ) -> Result<Response<v1::Namespace>, Status> {
        let (who, request) = opened(request)?;
        let found = namespaces::get(&self.app, &who.caller, &request.namespace_id).await?;
        Ok(Response::new(shown(found)))
    }

    async fn list_namespaces(
        &self,
        request: Request<v1::ListNamespacesRequest>,
    ) -> Result<Response<v1::ListNamespacesResponse>, Status> {
        let (who, request) = opened(request)?;
        let page: Page<String> = page(request.page_size, &request.page_token, |token| Some(token.to_owned()))?;
        let limit = page.limit;
        let (found, total_count) = namespaces::list(&self.app, &who.caller, page).await?;
        let next_page_token = next_token(&found, limit, |last| last.name.clone());
        let namespaces = found.into_iter().map(shown).collect();
        Ok(Response::new(v1::ListNamespacesResponse { namespaces, next_page_token, total_count }))
    }

    async fn update_namespace(
        &self,
        request: Request<v1::UpdateNamespaceRequest>,
    ) -> Result<Response<v1::Namespace>, Status> {
        let (who, request) = opened(request)?;
        let change = ChangeNamespace {
            description: request.description,
            live_runs_max: request.live_runs_max.map(limit),
            workers_max: request.workers_max.map(limit),
            schedules_max: request.schedules_max.map(limit),
            seal_payloads: request.seal_payloads,
        };
        let changed = namespaces::change(&self.app, &who.caller, &request.namespace_id, change).await?;
        Ok(Response::new(shown(changed)))
    }

    async fn disable_namespace(
        &self,
        request: Request<v1::DisableNamespaceRequest>,
    ) -> Result<Response<v1::Namespace>, Status> {
        let (who, request) = opened(request)?;
        let name = &request.namespace_id;
        let disabled = namespaces::disable(&self.app, &who.caller, name, &request.reason).await?;
        Ok(Response::new(shown(disabled)))
    }

    async fn enable_namespace(
        &self,
        request: Request<v1::EnableNamespaceRequest>,
    ) -> Result<Response<v1::Namespace>, Status> {
        let (who, request) = opened(request)?;
        let enabled = namespaces::enable(&self.app, &who.caller, &request.namespace_id).await?;
        Ok(Response::new(shown(enabled)))
    }
}

/// A limit as it was sent: 0 is none.
fn limit(most: impl Into<u64>) -> Option<u64> {
    Some(most.into()).filter(|most| *most > 0)
}

fn shown(view: NamespaceView) -> v1::Namespace {
    let small = |limit: Option<u64>| limit.map_or(0, |most| u32::try_from(most).unwrap_or(u32::MAX));
    v1::Namespace {
        namespace_id: view.name,
        description: view.description,
        disabled: view.disabled,
        created_at: Some(timestamp(view.created_at.0)),
        live_runs_max: view.live_runs_max.unwrap_or(0),
        workers_max: small(view.workers_max),
        schedules_max: small(view.schedules_max),
        seal_payloads: view.seal_payloads,
    }
}
