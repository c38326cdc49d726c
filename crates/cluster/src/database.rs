//! Connections to the database of a cluster, and its schema.

use crate::{dispatch::Dispatch, error::ClusterError, tls::Tls};
use std::{
    collections::HashMap,
    fmt::Write as _,
    future::poll_fn,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};
use tokio::sync::mpsc;
use tokio_postgres::{
    AsyncMessage, Client, Config, Row, Statement,
    config::{Host, SslMode},
    types::ToSql,
};

/// The version of the schema that this program knows.
pub(crate) const SCHEMA: i32 = 1;
/// The format of the runs that this program starts and continues. Each format has a queue of its own, from which no older
/// program claims.
pub(crate) const FORMAT: i32 = 1;
/// The version of the engine.
pub(crate) const ENGINE: &str = "0.5.1";
/// The engine: <https://github.com/earendil-works/absurd>, with its licence beside it. A test pins its hash.
pub(crate) const ENGINE_SQL: &str = include_str!("../sql/absurd/absurd-0.5.1.sql");
const SCHEMA_SQL: &str = include_str!("../sql/1.sql");

/// The functions that members of a tenant may call.
const FOR_MEMBERS: &[&str] = &[
    "setting(text)",
    "seal_key(text)",
    "tenants_of_role()",
    "missing_files(text, text[])",
    "store_file(text, bytea)",
    "store_bundle(text, text, text[])",
    "bundle_listing(text, text)",
    "file_content(text, text)",
    "spawn(text, text, integer, text, text, bigint)",
    "claim(text, integer, text, integer)",
    "heartbeat(text, text, uuid, integer)",
    "append(text, text, uuid, bigint, text[], text[], bytea[])",
    "suspend(text, text, uuid, text[], integer, text)",
    "wake(text, text)",
    "complete(text, text, uuid, text)",
    "release(text, text, uuid, integer, text)",
    "answer(text, text, text, text)",
    "answers_of(text, text)",
    "cancel(text, text, text)",
    "records_of(text, text, bigint, integer)",
    "blob_names(text, text)",
    "blob_content(text, text, text)",
    "list_runs(text, text, integer)",
    "untrusted(text)",
    "add_untrusted(text, text[])",
    "node_is_here(text, text, integer)",
    "node_left(text)",
];

/// The database of a cluster. It connects when it is first used, and again after a connection broke.
pub struct Database {
    config: Config,
    connected: tokio::sync::Mutex<Option<Arc<Connected>>>,
}

/// A connection with its prepared statements.
struct Connected {
    client: Client,
    prepared: Mutex<HashMap<&'static str, Statement>>,
}

/// The notifications of some channels.
pub(crate) struct Notes {
    receive: mpsc::UnboundedReceiver<(String, String)>,
    /// The connection ends with it.
    _client: Client,
}

impl Notes {
    /// Waits for the next notification: its channel and its payload. `None`: the connection has ended.
    pub(crate) async fn next(&mut self) -> Option<(String, String)> {
        self.receive.recv().await
    }
}

/// A node, as the cluster saw it last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// The name.
    pub name: String,
    /// The version of llm-do.
    pub version: String,
    /// The number of its runs.
    pub running: i32,
    /// True if it takes no more runs.
    pub draining: bool,
    /// The time since its last sign of life.
    pub seen: Duration,
}

/// A tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantInfo {
    /// The name.
    pub name: String,
    /// The most runs at once.
    pub max_running: Option<i32>,
    /// The roles of its members.
    pub roles: Vec<String>,
    /// The number of runs that have not ended.
    pub open: i64,
}

impl Database {
    /// Reads a URL such as `postgres://user@host/database?sslmode=require`.
    ///
    /// # Errors
    /// [`ClusterError::Url`].
    pub fn new(url: &str) -> Result<Arc<Self>, ClusterError> {
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
            let mut text = error.to_string();
            if let Some(source) = std::error::Error::source(&error) {
                let _ = write!(text, ": {source}");
            }
            ClusterError::Url(text)
        })?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_secs(5));
        }
        if config.get_hosts().iter().all(|host| matches!(host, Host::Unix(_))) {
            config.ssl_mode(SslMode::Disable);
        }
        // A connection to a machine that is gone fails within the time of a lease.
        config.tcp_user_timeout(Duration::from_secs(8)).keepalives_idle(Duration::from_secs(5));
        if config.get_application_name().is_none() {
            config.application_name("llm-do");
        }
        Ok(Arc::new(Self { config, connected: tokio::sync::Mutex::default() }))
    }

    async fn connected(&self) -> Result<Arc<Connected>, ClusterError> {
        let mut connected = self.connected.lock().await;
        if let Some(connected) = connected.as_ref().filter(|connected| !connected.client.is_closed()) {
            return Ok(Arc::clone(connected));
        }
        let (client, connection) = self.config.connect(Tls).await?;
        // Its error reaches the queries that it breaks.
        tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(Arc::clone(connected.insert(Arc::new(Connected { client, prepared: Mutex::default() }))))
    }

    /// Calls a function. A statement is prepared once for each connection.
    pub(crate) async fn call(
        &self,
        sql: &'static str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, ClusterError> {
        let connected = self.connected().await?;
        let prepared = || connected.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        let known = prepared().get(sql).cloned();
        let statement = match known {
            Some(statement) => statement,
            None => {
                let statement = connected.client.prepare(sql).await?;
                prepared().insert(sql, statement.clone());
                statement
            }
        };
        Ok(connected.client.query(&statement, parameters).await?)
    }

    /// Listens to channels on a connection of its own.
    pub(crate) async fn listen(&self, channels: &str) -> Result<Notes, ClusterError> {
        let (client, mut connection) = self.config.connect(Tls).await?;
        let (send, receive) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                if let AsyncMessage::Notification(note) = message
                    && send.send((note.channel().to_owned(), note.payload().to_owned())).is_err()
                {
                    return;
                }
            }
        });
        client.batch_execute(channels).await?;
        Ok(Notes { receive, _client: client })
    }

    /// Installs the schema with a tenant `main`. Does nothing if it is installed.
    ///
    /// # Errors
    /// The database can't be reached, or has another version.
    pub async fn init(&self) -> Result<(), ClusterError> {
        let connected = self.connected().await?;
        let client = &connected.client;
        // One at a time; the lock ends with the transaction.
        client
            .batch_execute("begin; select pg_advisory_xact_lock(hashtextextended('llm_do schema', 0))")
            .await?;
        let installed = self.install(client).await;
        client.batch_execute(if installed.is_ok() { "commit" } else { "rollback" }).await?;
        installed
    }

    async fn install(&self, client: &Client) -> Result<(), ClusterError> {
        let has = |name: &'static str| async move {
            let rows = client.query("select from pg_namespace where nspname = $1", &[&name]).await?;
            Ok::<_, ClusterError>(!rows.is_empty())
        };
        if has("absurd").await? {
            let found: String = client.query_one("select absurd.get_schema_version()", &[]).await?.get(0);
            if found != ENGINE {
                return Err(ClusterError::OtherEngine { found, known: ENGINE });
            }
        } else {
            client.batch_execute(ENGINE_SQL).await?;
        }
        if has("llm_do").await? {
            return self.check().await;
        }
        client.batch_execute(SCHEMA_SQL).await?;
        let settings =
            "insert into llm_do.settings (name, value) values ('schema', $1), ('owner', session_user)";
        client.execute(settings, &[&SCHEMA.to_string()]).await?;
        make_tenant(client, "main", None).await
    }

    /// Checks that the database has the schema that this program knows.
    ///
    /// # Errors
    /// [`ClusterError::NoCluster`], [`ClusterError::OtherSchema`], or the database can't be reached.
    pub async fn check(&self) -> Result<(), ClusterError> {
        let found = match self.call("select llm_do.setting('schema')", &[]).await {
            // No schema, no function, or no right to them.
            Err(ClusterError::Refused { code, .. }) if ["3F000", "42883", "42501"].contains(&&*code) => {
                return Err(ClusterError::NoCluster);
            }
            rows => rows?.first().and_then(|row| row.get::<_, Option<String>>(0)),
        };
        let found = found.and_then(|found| found.parse().ok()).ok_or(ClusterError::NoCluster)?;
        if found == SCHEMA { Ok(()) } else { Err(ClusterError::OtherSchema { found, known: SCHEMA }) }
    }

    /// Makes a tenant, or changes its limit of runs at once.
    ///
    /// # Errors
    /// The database can't be reached, or this role does not own the cluster.
    pub async fn make_tenant(&self, name: &str, max_running: Option<i32>) -> Result<(), ClusterError> {
        make_tenant(&self.connected().await?.client, name, max_running).await
    }

    /// Makes a role of the database a member of a tenant: it may spawn, execute and read the tenant's runs.
    ///
    /// # Errors
    /// The role or the tenant does not exist, or this role does not own the cluster.
    pub async fn add_member(&self, tenant: &str, role: &str) -> Result<(), ClusterError> {
        let connected = self.connected().await?;
        let client = &connected.client;
        let quoted: Option<String> = client
            .query_one("select (select quote_ident(rolname) from pg_roles where rolname = $1)", &[&role])
            .await?
            .get(0);
        let Some(quoted) = quoted else {
            return Err(ClusterError::Missing(format!("the database has no role `{role}`")));
        };
        let insert = "insert into llm_do.members (role, tenant) values ($1, $2) on conflict do nothing";
        client.execute(insert, &[&role, &tenant]).await?;
        let mut grants = format!("grant usage on schema llm_do to {quoted};");
        for function in FOR_MEMBERS {
            // Writing to a `String` does not fail.
            let _ = write!(grants, "grant execute on function llm_do.{function} to {quoted};");
        }
        Ok(client.batch_execute(&grants).await?)
    }

    /// The dispatch of a tenant; of the only one that this role may use, without a name.
    ///
    /// # Errors
    /// There is no such tenant, or no name although there are several.
    pub async fn tenant(self: &Arc<Self>, name: Option<&str>) -> Result<Dispatch, ClusterError> {
        let tenants = self.tenants().await?;
        let found = match name {
            Some(name) => tenants.into_iter().find(|tenant| tenant.tenant() == name),
            None if tenants.len() > 1 => {
                let names: Vec<&str> = tenants.iter().map(Dispatch::tenant).collect();
                let names = names.join(", ");
                return Err(ClusterError::Missing(format!(
                    "the cluster has several tenants: name one of {names}"
                )));
            }
            None => tenants.into_iter().next(),
        };
        found.ok_or_else(|| match name {
            Some(name) => ClusterError::Missing(format!("this role may not use a tenant `{name}`")),
            None => ClusterError::NoCluster,
        })
    }

    /// The dispatches of the tenants that this role may use.
    ///
    /// # Errors
    /// The database can't be reached, or has another schema.
    pub async fn tenants(self: &Arc<Self>) -> Result<Vec<Dispatch>, ClusterError> {
        self.check().await?;
        let rows = self.call("select llm_do.tenants_of_role()", &[]).await?;
        Ok(rows.iter().map(|row| Dispatch::new(Arc::clone(self), row.get(0))).collect())
    }

    /// All tenants with their members. Only the owner of the cluster may see them.
    ///
    /// # Errors
    /// The database can't be reached, or this role does not own the cluster.
    pub async fn all_tenants(&self) -> Result<Vec<TenantInfo>, ClusterError> {
        let rows = self.call(
            "select name, max_running, array(select role from llm_do.members m where m.tenant = t.name order by role), \
             (select count(*) from llm_do.runs r where r.tenant = t.name and r.ended_at is null) \
             from llm_do.tenants t order by name",
            &[],
        );
        let tenant = |row: &Row| TenantInfo {
            name: row.get(0),
            max_running: row.get(1),
            roles: row.get(2),
            open: row.get(3),
        };
        Ok(rows.await?.iter().map(tenant).collect())
    }

    /// The nodes that gave a sign of life in the last minute. Only the owner of the cluster may see them.
    ///
    /// # Errors
    /// As for [`Database::all_tenants`].
    pub async fn nodes(&self) -> Result<Vec<NodeInfo>, ClusterError> {
        let rows = self.call(
            "select name, version, running, draining, seen_at from llm_do.nodes \
             where seen_at > clock_timestamp() - interval '1 minute' order by name",
            &[],
        );
        let now = SystemTime::now();
        let node = |row: &Row| NodeInfo {
            name: row.get(0),
            version: row.get(1),
            running: row.get(2),
            draining: row.get(3),
            seen: now.duration_since(row.get(4)).unwrap_or_default(),
        };
        Ok(rows.await?.iter().map(node).collect())
    }

    /// Asks a node, or all nodes, to take no more runs and to end after their last. Returns the number of nodes.
    ///
    /// # Errors
    /// As for [`Database::all_tenants`].
    pub async fn drain(&self, node: Option<&str>) -> Result<i32, ClusterError> {
        let rows = self.call("select llm_do.drain($1)", &[&node]).await?;
        Ok(rows.first().map_or(0, |row| row.get(0)))
    }

    /// Removes the runs that ended that long ago, and the bundles and files that no run needs. Returns the numbers of each.
    ///
    /// # Errors
    /// As for [`Database::all_tenants`].
    pub async fn clean(&self, age: Duration) -> Result<[i32; 3], ClusterError> {
        let before = SystemTime::now() - age;
        let rows = self.call("select runs, bundles, files from llm_do.clean($1)", &[&before]).await?;
        Ok(rows.first().map_or([0; 3], |row| [row.get(0), row.get(1), row.get(2)]))
    }

    /// Notes that a node is there. Returns true if it is to take no more runs.
    pub(crate) async fn node_is_here(
        &self,
        node: &str,
        version: &str,
        running: i32,
    ) -> Result<bool, ClusterError> {
        let rows = self.call("select llm_do.node_is_here($1, $2, $3)", &[&node, &version, &running]).await?;
        Ok(rows.first().is_some_and(|row| row.get(0)))
    }

    pub(crate) async fn node_left(&self, node: &str) -> Result<(), ClusterError> {
        self.call("select llm_do.node_left($1)", &[&node]).await.map(drop)
    }
}

async fn make_tenant(client: &Client, name: &str, max_running: Option<i32>) -> Result<(), ClusterError> {
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(|error| ClusterError::Damaged(error.to_string()))?;
    let key = key.iter().fold(String::new(), |mut text, byte| {
        // Writing to a `String` does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    });
    let made = client
        .execute("select llm_do.make_tenant($1, $2, $3, $4)", &[&name, &FORMAT, &max_running, &key])
        .await;
    match made.map_err(ClusterError::from) {
        Err(ClusterError::Refused { code, .. }) if code == "23514" => Err(ClusterError::Missing(format!(
            "`{name}` can't be the name of a tenant: a name has up to 31 lower-case letters, digits and `_`"
        ))),
        made => made.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest as _, Sha256};

    #[test]
    fn the_engine_is_the_published_one() {
        let hash = Sha256::digest(ENGINE_SQL.as_bytes());
        let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hash, "9119e6ae8cee54e3aca5d98bb3279bded79e44cc82d02fdff83bbc95d6c7d0dc");
        assert!(ENGINE_SQL.contains(&format!("select '{ENGINE}'::text;")));
    }
}
