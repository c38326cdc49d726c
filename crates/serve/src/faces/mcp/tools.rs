//! The requests of clients, whatever the transport: each worker of a program is a tool.

use super::{call::Call, caller::Caller, exact::REFUSED, outcome::error, tasks::detailed, tool::tool};
use llm_do::not_for_clients;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, CustomRequest, CustomResult, ErrorCode,
        GetTaskParams, GetTaskResult, Implementation, ListToolsResult, PaginatedRequestParams,
        ServerCapabilities, ServerConfig, UpdateTaskParams,
    },
    service::RequestContext,
};
use serde_json::Value;
use std::sync::Arc;

/// Key of a request's `_meta` under which a client gives its idempotency key.
const IDEMPOTENCY_META: &str = "llm-do/idempotency-key";

/// The tools of a server.
#[derive(Clone)]
pub(super) struct Tools {
    /// The name of the server.
    name: Arc<str>,
    /// The only client of the server. Absent if each request contains its caller.
    client: Option<Caller>,
}

impl Tools {
    /// Tools for any caller.
    pub(super) fn of_requests(name: &str) -> Self {
        Self { name: name.into(), client: None }
    }

    /// Tools for one client.
    pub(super) fn of_client(name: &str, client: Caller) -> Self {
        Self { name: name.into(), client: Some(client) }
    }

    fn caller(&self, context: &RequestContext<RoleServer>) -> Result<Caller, ErrorData> {
        self.client.clone().map_or_else(|| Caller::in_request(context), Ok)
    }
}

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tasks().build())
            .with_server_info(Implementation::new(self.name.to_string(), env!("CARGO_PKG_VERSION")))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.caller(&context)?.sessions()?.iter().map(tool).collect();
        Ok(ListToolsResult::with_all_items(tools))
    }

    /// Refuses a request with a number that can't be kept exactly. The check of messages has given it the method
    /// [`REFUSED`].
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if request.method != REFUSED {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None));
        }
        let reason = request.params.as_ref().and_then(|params| params.get("reason")?.as_str());
        Err(ErrorData::invalid_params(reason.unwrap_or("it is refused").to_owned(), None))
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let (view, outcome) = self.caller(&context)?.look(&request.task_id, &context).await?;
        Ok(GetTaskResult::new(detailed(&view, outcome)))
    }

    /// Only looks the task up: tasks ask their clients nothing, so there is nothing to answer.
    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.caller(&context)?.look(&request.task_id, &context).await.map(drop)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.caller(&context)?.cancel(&request.task_id, &context).await
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let caller = self.caller(&context)?;
        let session = caller.session(&request.name)?;
        let arguments = request.arguments.clone().unwrap_or_default();
        if let Some(name) = not_for_clients(session.entry(), &arguments) {
            return Ok(error(format!("the tool has no parameter `{name}`")).into());
        }
        let key = match context.meta.get(IDEMPOTENCY_META) {
            None => None,
            Some(Value::String(key)) => Some(key.clone()),
            Some(_) => {
                let message = format!("_meta.{IDEMPOTENCY_META} must be a string");
                return Err(ErrorData::invalid_params(message, None));
            }
        };
        let call = Call::new(&caller, &session, &context, arguments);
        match &request.request_state {
            Some(state) => call.continued(state, request.input_responses.as_ref()).await,
            None => call.begun(key).await,
        }
    }
}
