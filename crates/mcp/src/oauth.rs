//! Tokens for servers over HTTP (OAuth 2.1): their storage and renewal. `sign_in` gets them.

use crate::{
    address::{Address, chain},
    keyring::Keyring,
    known::ServerFiles,
    store,
};
use llm_do_core::schema::sha256;
use reqwest::{header::HeaderMap, redirect};
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, CredentialRefreshGuard, CredentialStore, OAuthHttpClient,
    OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRequest, StoredCredentials,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    fmt,
    fs::{self, File},
    io,
    path::PathBuf,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Most time for one request to an authorisation server.
const LONGEST_REQUEST: Duration = Duration::from_secs(30);

/// Largest answer of an authorisation server, in bytes.
const LARGEST_ANSWER: usize = 1 << 20;

/// The text that replaces a secret in messages of a server.
const HIDDEN: &str = "[hidden]";

/// Secrets that are shorter are not replaced: they can't be distinguished from other words.
const SHORTEST_SECRET: usize = 8;

/// The tokens for one server. Runs and commands that use it at the same time share the file.
#[derive(Clone, Debug)]
pub(crate) struct Tokens {
    address: Address,
    file: PathBuf,
    keyring: Option<Arc<Keyring>>,
    /// The last answer of the keyring. To ask it for each request would take long.
    last: Arc<Mutex<Option<InKeyring>>>,
}

/// The content of the file.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// The address of the server, for people who look at the file.
    server: String,
    #[serde(flatten)]
    tokens: Held,
}

/// The tokens, or the place where they are.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Held {
    /// The tokens, in the file itself.
    Credentials(Box<StoredCredentials>),
    /// The keyring holds the tokens, as a text with this SHA-256.
    Keyring(String),
}

/// A text of the keyring.
#[derive(Clone)]
struct InKeyring {
    hash: String,
    text: String,
}

impl fmt::Debug for InKeyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InKeyring")
    }
}

impl Tokens {
    /// Returns the tokens for the server at that address.
    pub(crate) fn of(known: &ServerFiles, address: &Address) -> Self {
        let key = sha256(address.as_str().as_bytes());
        let file = known.folder().join("credentials").join(format!("{key}.json"));
        Self { address: address.clone(), file, keyring: known.keyring(), last: Arc::default() }
    }

    /// Returns true if the keyring holds the tokens.
    pub(crate) fn are_in_keyring(&self) -> bool {
        matches!(store::read::<Kept>(&self.file), Ok(Some(Kept { tokens: Held::Keyring(_), .. })))
    }

    fn last(&self) -> MutexGuard<'_, Option<InKeyring>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the tokens. Blocks.
    fn read(&self) -> io::Result<Option<StoredCredentials>> {
        let hash = match store::read::<Kept>(&self.file)? {
            None => return Ok(None),
            Some(Kept { tokens: Held::Credentials(credentials), .. }) => return Ok(Some(*credentials)),
            Some(Kept { tokens: Held::Keyring(hash), .. }) => hash,
        };
        let last = self.last().clone().filter(|last| last.hash == hash);
        let text = match (last, &self.keyring) {
            (Some(last), _) => Some(last.text),
            (None, Some(keyring)) => keyring.load(self.address.as_str())?,
            (None, None) => {
                let reason =
                    "the tokens are in the keyring of your desktop session, which can't be reached from here";
                return Err(io::Error::other(reason));
            }
        };
        let Some(text) = text else { return Ok(None) };
        let credentials = serde_json::from_str(&text)?;
        *self.last() = Some(InKeyring { hash: sha256(text.as_bytes()), text });
        Ok(Some(credentials))
    }

    /// Stores the tokens: in the keyring if there is one, else in the file. Blocks.
    fn write(&self, credentials: StoredCredentials) -> io::Result<()> {
        let server = self.address.as_str();
        let text = serde_json::to_string(&credentials)?;
        // A keyring that refuses must not cost the user tokens that were just renewed.
        let held = match self.keyring.as_ref().map(|keyring| keyring.store(server, &text)) {
            Some(Ok(())) => Held::Keyring(sha256(text.as_bytes())),
            Some(Err(_)) | None => Held::Credentials(Box::new(credentials)),
        };
        store::write(&self.file, &Kept { server: server.to_owned(), tokens: held })
    }

    /// Returns the token to send, renewed if it is about to expire. `None`: the user has not signed in.
    ///
    /// # Errors
    /// The token can't be read or renewed.
    pub(crate) async fn token(&self) -> Result<Option<String>, AuthError> {
        if self.load().await?.is_none_or(|credentials| credentials.token_response.is_none()) {
            return Ok(None);
        }
        // Only a token that has to be renewed needs the authorisation server.
        match self.manager().await?.get_access_token().await {
            Err(AuthError::InternalError(_)) => match self.connected().await? {
                Some(manager) => manager.get_access_token().await.map(Some),
                None => Ok(None),
            },
            token => token.map(Some),
        }
    }

    /// Returns another token in the place of one that the server refuses.
    ///
    /// # Errors
    /// The token can't be renewed.
    pub(crate) async fn renewed(&self, refused: &str) -> Result<String, AuthError> {
        let manager = self.connected().await?.ok_or(AuthError::AuthorizationRequired)?;
        // Another process may have renewed it in the meantime.
        let now = manager.get_access_token().await?;
        if now != refused {
            return Ok(now);
        }
        manager.refresh_token().await?;
        manager.get_access_token().await
    }

    /// Makes a manager of the authorisation. It has not contacted the authorisation server yet.
    pub(crate) async fn manager(&self) -> Result<AuthorizationManager, AuthError> {
        let messenger = Arc::new(Messenger { local: self.address.is_loopback() });
        let mut manager =
            AuthorizationManager::new_with_oauth_http_client(self.address.as_str(), messenger).await?;
        manager.set_credential_store(self.clone());
        Ok(manager)
    }

    /// Makes a manager that has the metadata of the authorisation server. `None`: the user has not signed in there.
    async fn connected(&self) -> Result<Option<AuthorizationManager>, AuthError> {
        let mut manager = self.manager().await?;
        Ok(manager.initialize_from_store().await?.then_some(manager))
    }

    /// Removes the tokens from a text of the server, which was sent them.
    pub(crate) async fn hide(&self, value: Value) -> Value {
        let secrets = self.secrets().await;
        if secrets.is_empty() { value } else { without(value, &secrets) }
    }

    /// Returns the tokens themselves.
    pub(crate) async fn secrets(&self) -> Vec<String> {
        let Ok(Some(credentials)) = self.load().await else { return Vec::new() };
        let response = serde_json::to_value(&credentials.token_response).unwrap_or_default();
        let token = |name: &str| Some(response.get(name)?.as_str()?.to_owned());
        let tokens = ["access_token", "refresh_token"].into_iter().filter_map(token);
        tokens.filter(|token| token.len() >= SHORTEST_SECRET).collect()
    }

    /// Forgets the tokens. Returns true if there were any.
    ///
    /// # Errors
    /// The file can't be removed.
    pub(crate) fn forget(&self) -> io::Result<bool> {
        if let Some(keyring) = self.keyring.as_ref().filter(|_| self.are_in_keyring()) {
            keyring.forget(self.address.as_str())?;
        }
        match fs::remove_file(&self.file) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn on_file<T: Send + 'static>(
        &self,
        work: impl FnOnce(Self) -> io::Result<T> + Send + 'static,
    ) -> Result<T, AuthError> {
        let tokens = self.clone();
        let done = tokio::task::spawn_blocking(move || work(tokens)).await;
        let failed =
            |error: String| AuthError::CredentialStoreError(format!("{}: {error}", self.file.display()));
        done.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))
    }
}

/// Removes these secrets from a text.
pub(crate) fn hidden(text: String, secrets: &[String]) -> String {
    secrets.iter().fold(text, |text, secret| text.replace(secret.as_str(), HIDDEN))
}

fn without(value: Value, secrets: &[String]) -> Value {
    match value {
        Value::String(text) => Value::String(hidden(text, secrets)),
        Value::Array(items) => items.into_iter().map(|item| without(item, secrets)).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (name, without(value, secrets))).collect()
        }
        other => other,
    }
}

type Later<'a, T> = Pin<Box<dyn Future<Output = Result<T, AuthError>> + Send + 'a>>;

impl CredentialStore for Tokens {
    fn load<'a, 'b>(&'a self) -> Later<'b, Option<StoredCredentials>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move { self.on_file(|tokens| tokens.read()).await })
    }

    fn save<'a, 'b>(&'a self, credentials: StoredCredentials) -> Later<'b, ()>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move { self.on_file(move |tokens| tokens.write(credentials)).await })
    }

    fn clear<'a, 'b>(&'a self) -> Later<'b, ()>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move { self.on_file(|tokens| tokens.forget().map(drop)).await })
    }

    fn acquire_refresh_guard<'a, 'b>(&'a self) -> Later<'b, Option<CredentialRefreshGuard>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let lock = self.on_file(|tokens| {
                let file = File::create(tokens.file.with_extension("lock"))?;
                file.lock()?;
                Ok(file)
            });
            Ok(Some(CredentialRefreshGuard::new(lock.await?)))
        })
    }
}

/// Carries requests to authorisation servers.
struct Messenger {
    /// True if the server itself is on this machine.
    local: bool,
}

impl OAuthHttpClient for Messenger {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let request = reqwest::Request::try_from(request.request)?;
            let address = Address::parse(request.url().as_str())?;
            let host = request.url().host_str().unwrap_or_default().to_owned();
            if !address.is_private() {
                return Err(format!(
                    "{host} would be asked over plain `http`, which anyone on the way can read"
                )
                .into());
            }
            if address.is_loopback() && !self.local {
                return Err(format!("the server names {host}, which is this machine").into());
            }
            // A redirect would send codes and tokens elsewhere. The library follows those of metadata within one origin.
            let client = address.client(HeaderMap::new(), redirect::Policy::none())?;
            let answer = tokio::time::timeout(LONGEST_REQUEST, collected(&client, request)).await;
            answer.map_err(|_| format!("{host} did not answer within {} s", LONGEST_REQUEST.as_secs()))?
        })
    }
}

async fn collected(
    client: &reqwest::Client,
    request: reqwest::Request,
) -> Result<http::Response<Vec<u8>>, OAuthHttpClientError> {
    let mut response = client.execute(request).await?;
    let mut builder = http::Response::builder().status(response.status());
    for (name, value) in response.headers() {
        builder = builder.header(name, value);
    }
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await? {
        if body.len() + part.len() > LARGEST_ANSWER {
            return Err(format!("its answer is longer than {} MiB", LARGEST_ANSWER >> 20).into());
        }
        body.extend_from_slice(&part);
    }
    Ok(builder.body(body)?)
}

/// Explains an error to people, without codes and tokens.
pub(crate) fn explained(error: &AuthError) -> String {
    match error {
        AuthError::AuthorizationRequired => "you are not signed in, or no longer".to_owned(),
        AuthError::AuthorizationServerMismatch { expected_issuer, received_issuer } => format!(
            "the answer is from {received_issuer}, and the server said to sign in at {expected_issuer}"
        ),
        AuthError::AuthorizationServerMissingIssuer { expected_issuer } => {
            format!("the answer does not say that it is from {expected_issuer}")
        }
        AuthError::PkceUnsupported => {
            "the authorisation server does not support PKCE with S256, so that a code could be stolen"
                .to_owned()
        }
        AuthError::NoAuthorizationSupport => "the server does not say where to sign in".to_owned(),
        other => chain(other),
    }
}
