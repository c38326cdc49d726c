//! The MCP servers that a client passes on to a session.

use crate::opening::wrong;
use agent_client_protocol::{
    Error,
    v1::schema::{McpServer, McpServerHttp, McpServerStdio},
};
use llm_do::{ClientServer, ClientServers, program::visible};

/// The most servers of a session.
const MOST: usize = 64;

/// Reads the servers of a request.
///
/// # Errors
/// A server is of a kind that the capabilities do not name, or can't be used.
pub(crate) fn of(servers: Vec<McpServer>) -> Result<ClientServers, Error> {
    if servers.len() > MOST {
        return Err(wrong(format!("{} MCP servers: a session can have at most {MOST}", servers.len())));
    }
    let mut all = ClientServers::default();
    for server in servers {
        let (name, server) = match server {
            McpServer::Stdio(McpServerStdio { name, command, args, env, .. }) => {
                let env = env.into_iter().map(|variable| (variable.name, variable.value)).collect();
                (name, ClientServer::Process { command, args, env })
            }
            McpServer::Http(McpServerHttp { name, url, headers, .. }) => {
                let headers = headers.into_iter().map(|header| (header.name, header.value)).collect();
                (name, ClientServer::Http { url, headers })
            }
            McpServer::Sse(server) => return Err(unsupported(&server.name, "SSE")),
            _ => return Err(unsupported("", "a transport that this version does not know")),
        };
        all.add(&name, server).map_err(|error| wrong(visible::line(&error.to_string()).into_owned()))?;
    }
    Ok(all)
}

fn unsupported(name: &str, transport: &str) -> Error {
    let name = visible::line(name).into_owned();
    wrong(format!(
        "the MCP server `{name}` uses {transport}; llm-do supports stdio and streamable HTTP (`http`)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn of_json(servers: Value) -> Result<ClientServers, Error> {
        of(serde_json::from_value(servers).unwrap())
    }

    #[test]
    fn stdio_and_http_are_taken_and_sse_is_an_error_that_says_so() {
        let stdio = json!({"name": "notes", "command": "/usr/bin/python3", "args": ["s.py"], "env": []});
        let http = json!({"type": "http", "name": "wiki", "url": "https://example.org/mcp", "headers": []});
        assert!(!of_json(json!([stdio, http])).unwrap().is_empty());
        assert!(of_json(json!([])).unwrap().is_empty());
        let sse =
            json!({"type": "sse", "name": "old\u{202e}", "url": "https://example.org/sse", "headers": []});
        let error = of_json(json!([stdio, sse])).unwrap_err();
        assert!(error.message.contains("uses SSE; llm-do supports stdio and streamable HTTP"), "{error:?}");
        assert!(!error.message.contains('\u{202e}'));
        let twice = of_json(json!([stdio, stdio])).unwrap_err();
        assert!(twice.message.contains("another one has the name"), "{twice:?}");
    }
}
