//! The runs of a tenant: spawn, claim, heartbeat, complete, suspend, wake, cancel.
//!
//! Each operation may be repeated: an operation whose answer was lost may have happened.

use crate::{
    database::{Database, FORMAT},
    error::ClusterError,
};
use llm_do_runs::{NewRunId, SealKey};
use std::{sync::Arc, time::Duration};
use tokio_postgres::{Row, types::ToSql};

/// Most attempts to add a run.
const SPAWNS: u32 = 10;

/// The runs of one tenant.
#[derive(Clone)]
pub struct Dispatch {
    database: Arc<Database>,
    tenant: Arc<str>,
}

/// A run that a node has claimed.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The ID of the run.
    pub run: String,
    /// The claim's own ID. A later claim of the run has another one.
    pub attempt: String,
    /// The bundle of its program.
    pub bundle: String,
    /// The data with which it was spawned.
    pub start: String,
    /// True if the run is to end.
    pub cancelled: bool,
    /// The number of claims before this one that added no record.
    pub fruitless: i32,
}

/// The answer to a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beat {
    /// The node holds the run.
    Held,
    /// The node holds the run, which is to end.
    Cancelled,
    /// The run belongs to this node no longer.
    Lost,
}

/// A run in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunInfo {
    /// The ID.
    pub id: String,
    /// `queued`, `running`, `suspended`, or the status of its end.
    pub state: String,
    /// The bundle of its program.
    pub bundle: String,
    /// The node that runs it.
    pub node: Option<String>,
    /// The number of its records.
    pub records: i64,
    /// Why no node continues it.
    pub reason: Option<String>,
}

impl RunInfo {
    /// Returns true if the run has ended and is not continued.
    pub fn has_ended(&self) -> bool {
        !["queued", "running", "suspended"].contains(&&*self.state)
    }
}

/// A long value of a run, with the name of its file below the run's folder.
pub(crate) struct NamedBlob {
    pub(crate) name: String,
    pub(crate) content: Vec<u8>,
}

impl Dispatch {
    pub(crate) fn new(database: Arc<Database>, tenant: String) -> Self {
        Self { database, tenant: tenant.into() }
    }

    /// The name of the tenant.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// The key that seals the records of the tenant's runs.
    ///
    /// # Errors
    /// The database can't be reached, or has no key.
    pub async fn seal_key(&self) -> Result<SealKey, ClusterError> {
        let rows = self.database.call("select llm_do.seal_key($1)", &[&&*self.tenant]).await?;
        let text: Option<String> = rows.first().and_then(|row| row.get(0));
        let text = text.unwrap_or_default();
        let byte = |at: usize| u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..32).map(byte).collect();
        match bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok()) {
            Some(key) => Ok(SealKey::from(key)),
            None => {
                Err(ClusterError::Damaged(format!("the tenant `{}` has no key for its records", self.tenant)))
            }
        }
    }

    /// Adds a run of that program, and returns its ID.
    ///
    /// # Errors
    /// The database can't be reached. The run may have been added nevertheless.
    pub async fn spawn(&self, bundle: &str, start: &str) -> Result<String, ClusterError> {
        let mut nonce = [0; 8];
        getrandom::fill(&mut nonce).map_err(|error| ClusterError::Damaged(error.to_string()))?;
        let nonce = i64::from_ne_bytes(nonce);
        let spawn = "select llm_do.spawn($1, $2, $3, $4, $5, $6)";
        let mut id = NewRunId::propose();
        let mut attempts = 0;
        loop {
            attempts += 1;
            let run = &**id.as_str();
            match self.database.call(spawn, &[&&*self.tenant, &run, &FORMAT, &bundle, &start, &nonce]).await {
                Ok(_) => return Ok(run.to_owned()),
                // Another run has the ID.
                Err(ClusterError::Refused { code, .. }) if code == "23505" && attempts < SPAWNS => {
                    id = NewRunId::propose();
                }
                // The same call again: if the first has happened, it changes nothing.
                Err(error) if error.is_temporary() && attempts < SPAWNS => {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Claims a run for that many seconds, if one is ready.
    ///
    /// # Errors
    /// The database can't be reached. A run that was claimed nevertheless is claimed again after its lease.
    pub async fn claim(&self, node: &str, lease: u32) -> Result<Option<Claim>, ClusterError> {
        let claim = "select run, attempt::text, bundle, start, cancelled, fruitless from llm_do.claim($1, $2, $3, $4)";
        let rows = self.database.call(claim, &[&&*self.tenant, &FORMAT, &node, &seconds(lease)]).await?;
        Ok(rows.first().map(|row| Claim {
            run: row.get(0),
            attempt: row.get(1),
            bundle: row.get(2),
            start: row.get(3),
            cancelled: row.get(4),
            fruitless: row.get(5),
        }))
    }

    pub(crate) async fn heartbeat(&self, claim: &Claim, lease: u32) -> Result<Beat, ClusterError> {
        let sql = "select llm_do.heartbeat($1, $2, $3::text::uuid, $4)";
        let rows =
            self.database.call(sql, &[&&*self.tenant, &claim.run, &claim.attempt, &seconds(lease)]).await?;
        Ok(match rows.first().map(|row| row.get::<_, &str>(0)) {
            Some("held") => Beat::Held,
            Some("cancelled") => Beat::Cancelled,
            _ => Beat::Lost,
        })
    }

    /// Adds records from that number on, with their long values. Returns false if the node has lost the run: nothing was
    /// written then.
    ///
    /// # Errors
    /// The database can't be reached, or refuses. Whether the records were written is unknown; a repeated call tells.
    pub(crate) async fn append(
        &self,
        claim: &Claim,
        first: i64,
        lines: &[&str],
        blobs: &[NamedBlob],
    ) -> Result<bool, ClusterError> {
        let names: Vec<&str> = blobs.iter().map(|blob| &*blob.name).collect();
        let contents: Vec<&[u8]> = blobs.iter().map(|blob| &*blob.content).collect();
        let sql = "select llm_do.append($1, $2, $3::text::uuid, $4, $5, $6, $7)";
        let parameters: [&(dyn ToSql + Sync); 7] =
            [&&*self.tenant, &claim.run, &claim.attempt, &first, &lines, &names, &contents];
        Ok(is_true(&self.database.call(sql, &parameters).await?))
    }

    /// Lets a run wait for an answer, or for that many seconds. With a reason, it waits until it is woken.
    pub(crate) async fn suspend(
        &self,
        claim: &Claim,
        seen: &[String],
        timeout: Option<i32>,
        reason: Option<&str>,
    ) -> Result<bool, ClusterError> {
        let sql = "select llm_do.suspend($1, $2, $3::text::uuid, $4, $5, $6)";
        let parameters: [&(dyn ToSql + Sync); 6] =
            [&&*self.tenant, &claim.run, &claim.attempt, &seen, &timeout, &reason];
        Ok(is_true(&self.database.call(sql, &parameters).await?))
    }

    pub(crate) async fn complete(&self, claim: &Claim, status: &str) -> Result<bool, ClusterError> {
        let sql = "select llm_do.complete($1, $2, $3::text::uuid, $4)";
        let rows = self.database.call(sql, &[&&*self.tenant, &claim.run, &claim.attempt, &status]).await?;
        Ok(is_true(&rows))
    }

    pub(crate) async fn release(
        &self,
        claim: &Claim,
        delay: i32,
        reason: Option<&str>,
    ) -> Result<bool, ClusterError> {
        let sql = "select llm_do.release($1, $2, $3::text::uuid, $4, $5)";
        let rows =
            self.database.call(sql, &[&&*self.tenant, &claim.run, &claim.attempt, &delay, &reason]).await?;
        Ok(is_true(&rows))
    }

    /// Lets a run that waits continue. Returns false if there is no such run, or it has ended.
    ///
    /// # Errors
    /// The database can't be reached.
    pub async fn wake(&self, run: &str) -> Result<bool, ClusterError> {
        Ok(is_true(&self.database.call("select llm_do.wake($1, $2)", &[&&*self.tenant, &run]).await?))
    }

    /// Answers a question of a run, and wakes it. Returns the answer that counts: this one, or an earlier one. `None`: there
    /// is no such run, or it has ended.
    ///
    /// # Errors
    /// The database can't be reached. The answer may be stored nevertheless.
    pub async fn answer(
        &self,
        run: &str,
        question: &str,
        given: &str,
    ) -> Result<Option<String>, ClusterError> {
        let sql = "select llm_do.answer($1, $2, $3, $4)";
        let rows = self.database.call(sql, &[&&*self.tenant, &run, &question, &given]).await?;
        Ok(rows.first().and_then(|row| row.get(0)))
    }

    /// The answers to questions of a run, as pairs of question and answer.
    ///
    /// # Errors
    /// The database can't be reached.
    pub async fn answers(&self, run: &str) -> Result<Vec<(String, String)>, ClusterError> {
        let sql = "select question, given from llm_do.answers_of($1, $2)";
        let rows = self.database.call(sql, &[&&*self.tenant, &run]).await?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }

    /// Ends a run. Returns false if there is no such run, or it has ended.
    ///
    /// # Errors
    /// The database can't be reached.
    pub async fn cancel(&self, run: &str, by: &str) -> Result<bool, ClusterError> {
        Ok(is_true(
            &self.database.call("select llm_do.cancel($1, $2, $3)", &[&&*self.tenant, &run, &by]).await?,
        ))
    }

    /// The newest runs, newest first: those whose ID begins with `prefix`.
    ///
    /// # Errors
    /// The database can't be reached.
    pub async fn runs(&self, prefix: &str, limit: i32) -> Result<Vec<RunInfo>, ClusterError> {
        let sql = "select id, state, bundle, node, records, reason from llm_do.list_runs($1, $2, $3)";
        let rows = self.database.call(sql, &[&&*self.tenant, &prefix, &limit]).await?;
        let info = |row: &Row| RunInfo {
            id: row.get(0),
            state: row.get(1),
            bundle: row.get(2),
            node: row.get(3),
            records: row.get(4),
            reason: row.get(5),
        };
        Ok(rows.iter().map(info).collect())
    }

    /// The run with that ID, or the newest for `last`, or the one whose ID begins so.
    ///
    /// # Errors
    /// There is none, or several.
    pub async fn find(&self, run: &str) -> Result<RunInfo, ClusterError> {
        let (prefix, limit) = if run == "last" { ("", 1) } else { (run, 2) };
        let mut found = self.runs(prefix, limit).await?;
        match found.len() {
            0 => Err(ClusterError::Missing(format!("the cluster has no run `{run}`"))),
            1 => Ok(found.remove(0)),
            _ if found[0].id == run => Ok(found.remove(0)),
            _ => Err(ClusterError::Missing(format!("`{run}` names several runs; give more of its ID"))),
        }
    }

    /// The lines of a run's journal from that number on, at most that many.
    ///
    /// # Errors
    /// The database can't be reached.
    pub async fn records(&self, run: &str, from: i64, most: i32) -> Result<Vec<String>, ClusterError> {
        let sql = "select line from llm_do.records_of($1, $2, $3, $4)";
        let rows = self.database.call(sql, &[&&*self.tenant, &run, &from, &most]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    pub(crate) async fn all_records(&self, run: &str) -> Result<Vec<String>, ClusterError> {
        const PAGE: i32 = 1000;
        let mut lines = Vec::new();
        loop {
            let page = self.records(run, i64::try_from(lines.len()).unwrap_or(i64::MAX), PAGE).await?;
            let is_last = page.len() < usize::try_from(PAGE).unwrap_or(usize::MAX);
            lines.extend(page);
            if is_last {
                return Ok(lines);
            }
        }
    }

    pub(crate) async fn blob_names(&self, run: &str) -> Result<Vec<String>, ClusterError> {
        let rows = self.database.call("select llm_do.blob_names($1, $2)", &[&&*self.tenant, &run]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// The content of a long value of a run: `blobs/HEX`.
    ///
    /// # Errors
    /// The database can't be reached.
    pub async fn blob(&self, run: &str, name: &str) -> Result<Option<Vec<u8>>, ClusterError> {
        let sql = "select llm_do.blob_content($1, $2, $3)";
        let rows = self.database.call(sql, &[&&*self.tenant, &run, &name]).await?;
        Ok(rows.first().and_then(|row| row.get(0)))
    }

    pub(crate) async fn missing_files(&self, hashes: &[&str]) -> Result<Vec<String>, ClusterError> {
        let rows =
            self.database.call("select llm_do.missing_files($1, $2)", &[&&*self.tenant, &hashes]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    pub(crate) async fn store_file(&self, content: &[u8]) -> Result<(), ClusterError> {
        self.database.call("select llm_do.store_file($1, $2)", &[&&*self.tenant, &content]).await.map(drop)
    }

    pub(crate) async fn store_bundle(&self, listing: &str, files: &[&str]) -> Result<String, ClusterError> {
        let sql = "select llm_do.store_bundle($1, $2, $3)";
        let rows = self.database.call(sql, &[&&*self.tenant, &listing, &files]).await?;
        Ok(rows.first().map(|row| row.get(0)).unwrap_or_default())
    }

    pub(crate) async fn bundle_listing(&self, bundle: &str) -> Result<Option<String>, ClusterError> {
        let rows =
            self.database.call("select llm_do.bundle_listing($1, $2)", &[&&*self.tenant, &bundle]).await?;
        Ok(rows.first().and_then(|row| row.get(0)))
    }

    pub(crate) async fn file(&self, sha256: &str) -> Result<Option<Vec<u8>>, ClusterError> {
        let rows =
            self.database.call("select llm_do.file_content($1, $2)", &[&&*self.tenant, &sha256]).await?;
        Ok(rows.first().and_then(|row| row.get(0)))
    }

    pub(crate) async fn untrusted(&self) -> Result<Vec<String>, ClusterError> {
        let rows = self.database.call("select llm_do.untrusted($1)", &[&&*self.tenant]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    pub(crate) async fn add_untrusted(&self, places: &[&str]) -> Result<(), ClusterError> {
        self.database.call("select llm_do.add_untrusted($1, $2)", &[&&*self.tenant, &places]).await.map(drop)
    }
}

fn is_true(rows: &[Row]) -> bool {
    rows.first().is_some_and(|row| row.get::<_, Option<bool>>(0) == Some(true))
}

fn seconds(lease: u32) -> i32 {
    i32::try_from(lease).unwrap_or(i32::MAX)
}
