//! Lists of a server: its tools, resources and prompts.

use super::Connection;
use crate::{known::Definition, listing};
use rmcp::{
    ServiceError,
    model::{
        ClientRequest, GetPromptRequestParams, GetPromptResponse, ListToolsRequest, PaginatedRequestParams,
        Prompt, PromptMessage, ReadResourceRequestParams, ReadResourceResponse, Resource, ResourceContents,
        ServerResult,
    },
};
use serde_json::{Map, Value};
use std::time::Duration;
use tokio::time::timeout;

/// Most tools of one server. A list that never ends would fill any memory and any model's context.
const MOST_TOOLS: usize = 512;

/// Most resources of one server.
const MOST_RESOURCES: usize = 4096;

/// Most prompts of one server.
const MOST_PROMPTS: usize = 512;

/// The pages of a list, one after another.
#[derive(Default)]
struct Pages {
    cursor: Option<String>,
}

impl Pages {
    /// Returns the request for the page.
    fn params(&self) -> Option<PaginatedRequestParams> {
        Some(PaginatedRequestParams::default().with_cursor(self.cursor.clone()))
    }

    /// Turns to the next page, if there is one. `is_empty`: nothing was listed so far.
    fn turn(&mut self, next: Option<String>, is_empty: bool) -> bool {
        // An empty page that leads to another one, or a page that leads to itself, would never end.
        let goes_on = next.is_some() && next != self.cursor && !is_empty;
        self.cursor = next;
        goes_on
    }
}

impl Connection {
    /// Returns the tools of all pages of the server's list. An entry that is no valid tool is in the list, too:
    /// [`listing::check`] gives the reason why it can't be offered.
    ///
    /// # Errors
    /// The server does not list its tools.
    pub(crate) async fn list(&self) -> Result<Vec<Definition>, String> {
        let (mut tools, mut pages) = (Vec::new(), Pages::default());
        loop {
            let (page, next) = self.page_of_tools(pages.params()).await?;
            tools.extend(page);
            if tools.len() > MOST_TOOLS {
                return Err(format!("it lists more than {MOST_TOOLS} tools"));
            }
            if !pages.turn(next, tools.is_empty()) {
                return Ok(self.clean(tools).await);
            }
        }
    }

    /// Returns the tools of a page, and the cursor of the next one.
    async fn page_of_tools(
        &self,
        params: Option<PaginatedRequestParams>,
    ) -> Result<(Vec<Definition>, Option<String>), String> {
        match self.peer.list_tools(params.clone()).await {
            Ok(page) => Ok((page.tools.into_iter().map(listing::definition).collect(), page.next_cursor)),
            // The library reads all tools of a page or none.
            Err(ServiceError::UnexpectedResponse) => {
                let again =
                    ListToolsRequest { method: Default::default(), params, extensions: Default::default() };
                match self.peer.send_request(ClientRequest::ListToolsRequest(again)).await {
                    Ok(ServerResult::ListToolsResult(page)) => {
                        Ok((page.tools.into_iter().map(listing::definition).collect(), page.next_cursor))
                    }
                    Ok(ServerResult::CustomResult(page)) => tools_of(page.0),
                    Ok(_) => Err("its answer can't be read: it is no list of tools".to_owned()),
                    Err(error) => Err(self.explain(&error).await.reason),
                }
            }
            Err(error) => Err(self.explain(&error).await.reason),
        }
    }

    /// Returns the resources of all pages of the server's list. Each page must come within `patience`.
    ///
    /// # Errors
    /// The server does not list its resources.
    pub(crate) async fn resources(&self, patience: Duration) -> Result<Vec<Resource>, String> {
        if self.peer.peer_info().is_none_or(|info| info.capabilities.resources.is_none()) {
            return Err("it offers no resources".to_owned());
        }
        let (mut resources, mut pages) = (Vec::new(), Pages::default());
        loop {
            let page = self.within(patience, self.peer.list_resources(pages.params())).await?;
            resources.extend(page.resources);
            if resources.len() > MOST_RESOURCES {
                return Err(format!("it lists more than {MOST_RESOURCES} resources"));
            }
            if !pages.turn(page.next_cursor, resources.is_empty()) {
                return Ok(self.clean(resources).await);
            }
        }
    }

    /// Returns the parts of a resource.
    ///
    /// # Errors
    /// The resource can't be read.
    pub(crate) async fn resource(
        &self,
        uri: &str,
        patience: Duration,
    ) -> Result<Vec<ResourceContents>, String> {
        let params = ReadResourceRequestParams::new(uri);
        match self.within(patience, self.peer.read_resource_once(params)).await? {
            ReadResourceResponse::Complete(result) => Ok(self.clean(result.contents).await),
            _ => Err("it asks the user something first, which reading a resource can't".to_owned()),
        }
    }

    /// Returns the prompts of all pages of the server's list. Each page must come within `patience`.
    ///
    /// # Errors
    /// The server does not list its prompts.
    pub(crate) async fn prompts(&self, patience: Duration) -> Result<Vec<Prompt>, String> {
        if self.peer.peer_info().is_none_or(|info| info.capabilities.prompts.is_none()) {
            return Err("it offers no prompts".to_owned());
        }
        let (mut prompts, mut pages) = (Vec::new(), Pages::default());
        loop {
            let page = self.within(patience, self.peer.list_prompts(pages.params())).await?;
            prompts.extend(page.prompts);
            if prompts.len() > MOST_PROMPTS {
                return Err(format!("it lists more than {MOST_PROMPTS} prompts"));
            }
            if !pages.turn(page.next_cursor, prompts.is_empty()) {
                return Ok(self.clean(prompts).await);
            }
        }
    }

    /// Returns the messages of a prompt with these arguments.
    ///
    /// # Errors
    /// The server does not return messages.
    pub(crate) async fn prompt(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        patience: Duration,
    ) -> Result<Vec<PromptMessage>, String> {
        let params = GetPromptRequestParams::new(name).with_arguments(arguments);
        match self.within(patience, self.peer.get_prompt_once(params)).await? {
            GetPromptResponse::Complete(result) => Ok(self.clean(result.messages).await),
            _ => Err("it asks the user something first, which inserting a prompt can't".to_owned()),
        }
    }

    /// Waits for the answer to a request, for at most this time. If it does not come in time, the server gets a
    /// cancellation.
    async fn within<T>(
        &self,
        patience: Duration,
        answer: impl Future<Output = Result<T, ServiceError>>,
    ) -> Result<T, String> {
        match timeout(patience, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => {
                let reason = self.explain(&error).await.reason;
                Err(self.clean(reason).await)
            }
            Err(_) => Err(format!("it did not answer within {} s", patience.as_secs_f64())),
        }
    }
}

/// Returns the tools of a page that the library can't read as a whole, and the cursor of the next page.
fn tools_of(mut page: Value) -> Result<(Vec<Definition>, Option<String>), String> {
    let Some(Value::Array(tools)) = page.get_mut("tools").map(Value::take) else {
        return Err("its answer can't be read: it has no list `tools`".to_owned());
    };
    let next = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
    Ok((tools.into_iter().map(listing::any_definition).collect(), next))
}
