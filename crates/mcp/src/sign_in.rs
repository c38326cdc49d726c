//! Signing in at a server over HTTP: OAuth 2.1 with PKCE, by a browser that is redirected to a loopback port.

use crate::{
    address::{Address, cut},
    known::ServerFiles,
    oauth::{Tokens, explained},
    remote::SignInOptions,
};
use reqwest::Url;
use rmcp::transport::auth::{AuthError, AuthorizationRequest, AuthorizationSession};
use std::{io, net::Ipv4Addr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// Most time for the user to sign in.
const PATIENCE: Duration = Duration::from_secs(600);

/// Most time for a browser to send its request, and most bytes of the request.
const BROWSER: Duration = Duration::from_secs(10);
const LONGEST_REQUEST: usize = 16 << 10;

/// The path to which the browser is redirected.
const CALLBACK: &str = "/callback";

/// A sign-in that waits for the user.
pub struct SignIn {
    tokens: Tokens,
    session: AuthorizationSession,
    listener: TcpListener,
    address: Url,
    state: String,
}

/// The result that the browser brings back.
enum Came {
    /// The address that contains the code.
    Back(String),
    /// The user or the authorisation server has refused.
    Refused(String),
    /// Something else.
    Other,
}

impl SignIn {
    /// Finds the authorisation server of the server at that address, and prepares the sign-in.
    ///
    /// # Errors
    /// The user can't sign in there.
    pub async fn begin(known: &ServerFiles, url: &str, options: SignInOptions) -> Result<Self, String> {
        let address = Address::parse(url)?;
        if !address.is_private() {
            return Err(
                "tokens need an `https` address: over `http` anyone on the way could read them".into()
            );
        }
        let failed = |error: AuthError| explained(&error);
        let tokens = Tokens::of(known, &address);
        let mut manager = tokens.manager().await.map_err(failed)?;
        let resolved = manager.resolve_metadata().await.map_err(failed)?;
        if !resolved.source.is_discovered() {
            return Err(explained(&AuthError::NoAuthorizationSupport));
        }
        for endpoint in [&resolved.metadata.authorization_endpoint, &resolved.metadata.token_endpoint] {
            if !Address::parse(endpoint).is_ok_and(|address| address.is_private()) {
                let endpoint = cut(endpoint);
                return Err(format!(
                    "the authorisation server uses plain `http`, or no usable address: {endpoint}"
                ));
            }
        }
        manager.set_metadata(resolved.metadata);
        let local = |error: io::Error| format!("cannot listen on a loopback port: {error}");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(local)?;
        let port = listener.local_addr().map_err(local)?.port();
        let mut request = AuthorizationRequest::new(format!("http://127.0.0.1:{port}{CALLBACK}"))
            .with_client_name("llm-do")
            .with_scopes(options.scopes);
        if let Some(client) = options.client_id {
            request = request.with_preregistered_client(client);
        }
        let session =
            AuthorizationSession::new(manager, request).await.map_err(|(_, error)| failed(error))?;
        let address = Url::parse(session.get_authorization_url()).map_err(|error| error.to_string())?;
        let state = parameter(&address, "state").ok_or("the address to sign in at has no state")?;
        Ok(Self { tokens, session, listener, address, state })
    }

    /// Returns the address that the user opens.
    pub fn address(&self) -> &str {
        self.address.as_str()
    }

    /// Returns the host at which the user signs in.
    pub fn host(&self) -> &str {
        self.address.host_str().unwrap_or_default()
    }

    /// Waits until the browser comes back, or until `pasted` is the address to which it was redirected. Then gets the
    /// tokens and stores them. Returns true if they are in the keyring.
    ///
    /// # Errors
    /// The sign-in gave no tokens.
    pub async fn finish(self, pasted: impl Future<Output = String>) -> Result<bool, String> {
        let back = tokio::select! {
            back = self.browser() => back?,
            pasted = pasted => match self.read(&pasted) {
                Came::Back(address) => address,
                Came::Refused(reason) => return Err(reason),
                Came::Other => return Err("that is not the address that the browser was sent back to".into()),
            },
            () = tokio::time::sleep(PATIENCE) => {
                return Err(format!("nothing came back within {} minutes", PATIENCE.as_secs() / 60));
            }
        };
        self.session.handle_callback_url(&back).await.map_err(|error| explained(&error))?;
        Ok(self.tokens.are_in_keyring())
    }

    /// Waits for the browser. Any other request to the port has no effect.
    async fn browser(&self) -> Result<String, String> {
        loop {
            let (mut stream, _) = self.listener.accept().await.map_err(|error| error.to_string())?;
            let request = tokio::time::timeout(BROWSER, first_line(&mut stream)).await;
            let target = request.ok().and_then(Result::ok).unwrap_or_default();
            let base = self.listener.local_addr().map_err(|error| error.to_string())?;
            let came = self.read(&format!("http://{base}{target}"));
            let (status, text) = match &came {
                Came::Back(_) => ("200 OK", "You can close this page and go back to the terminal."),
                Came::Refused(_) => ("200 OK", "You are not signed in. The terminal says why."),
                Came::Other => ("404 Not Found", "There is nothing here."),
            };
            let length = text.len();
            let answer = format!(
                "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
            );
            let _ = tokio::time::timeout(BROWSER, stream.write_all(answer.as_bytes())).await;
            match came {
                Came::Back(address) => return Ok(address),
                Came::Refused(reason) => return Err(reason),
                Came::Other => {}
            }
        }
    }

    /// Interprets an address to which the browser was redirected. Only the authorisation server knows `state`.
    fn read(&self, address: &str) -> Came {
        let Ok(url) = Url::parse(address.trim()) else { return Came::Other };
        if url.path() != CALLBACK || parameter(&url, "state").as_ref() != Some(&self.state) {
            return Came::Other;
        }
        match (parameter(&url, "error"), parameter(&url, "code")) {
            (Some(error), _) => {
                let more = parameter(&url, "error_description").map(|more| format!(": {}", cut(&more)));
                Came::Refused(format!(
                    "the authorisation server refuses ({}){}",
                    cut(&error),
                    more.unwrap_or_default()
                ))
            }
            (None, Some(_)) => Came::Back(url.into()),
            (None, None) => Came::Other,
        }
    }
}

/// Forgets the tokens for the server at that address. Returns true if there were any.
///
/// # Errors
/// The tokens can't be removed, or the text is no address.
pub fn sign_out(known: &ServerFiles, url: &str) -> Result<bool, String> {
    Tokens::of(known, &Address::parse(url)?).forget().map_err(|error| error.to_string())
}

fn parameter(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// Returns the target of an HTTP request.
async fn first_line(stream: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    // A request that is not read to its end would reset the connection before the answer is seen.
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < LONGEST_REQUEST {
        if stream.read_buf(&mut head).await? == 0 {
            break;
        }
    }
    let head = String::from_utf8_lossy(&head);
    let mut words = head.lines().next().unwrap_or_default().split_whitespace();
    let is_get = words.next() == Some("GET");
    Ok(words.next().filter(|_| is_get).unwrap_or_default().to_owned())
}
