//! The workers of one program as tools, for clients that know nothing of a service.

use crate::{
    faces::mcp,
    http::Http,
    program::{BadPrograms, Host, Served, distinct},
    quotas::Limits,
    service::Service,
    token::{NewToken, Token, Tokens},
};
use llm_do::Session;
use std::{io, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
};

/// Most runs at once.
const MOST_RUNS: usize = 64;
/// The time that runs have to end when the server ends. All are suspended or cancelled, so that they take as long as their tools do.
const GRACE: Duration = Duration::from_secs(24 * 60 * 60);

/// A program as a server of the Model Context Protocol.
pub struct McpServer {
    service: Service,
    tools: Vec<String>,
}

impl McpServer {
    /// A server of the program whose workers have these sessions, as [`Session::open_exported`] gives them for that target. Clients
    /// over HTTP need the token.
    ///
    /// # Errors
    /// Two workers have the same name as tools.
    pub fn new(
        target: String,
        mut sessions: Vec<Session>,
        token: Option<&NewToken>,
        host: Arc<dyn Host>,
    ) -> Result<Self, BadPrograms> {
        sessions.sort_by_key(mcp::tool_name);
        distinct(&sessions)?;
        let tools: Vec<String> = sessions.iter().map(mcp::tool_name).collect();
        let limits = Limits {
            runs: MOST_RUNS,
            runs_of_token: None,
            queue: 0,
            streams: usize::MAX,
            streams_of_token: None,
            grace: GRACE,
            chats_expire: None,
        };
        let tokens = token.map_or_else(Tokens::default, |token| Tokens::default().with_tools(token));
        let service = Service::of_tools(Served::of_tools(target, sessions), tokens, limits, host)?;
        Ok(Self { service, tools })
    }

    /// The names of the server's tools.
    pub fn tools(&self) -> &[String] {
        &self.tools
    }

    /// Serves one client until it closes its stream, or `stop` ends. Then the runs end: those that wait for an answer are
    /// suspended, the others are cancelled. Returns when their journals are complete.
    ///
    /// # Errors
    /// The client speaks no protocol that the server knows.
    pub async fn serve_stdio(
        self,
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        stop: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let token = Arc::new(Token::of_tools(String::new()));
        mcp::serve_client(self.service, token, reader, writer, stop).await
    }

    /// The server over HTTP, on a socket of [`Http::listen`], at `/mcp`.
    pub fn http(self, listener: TcpListener) -> Http {
        Http::new(self.service, listener).of_tools()
    }
}
