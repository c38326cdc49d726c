//! The functions of the schema, in a real database.

use crate::{
    bundle::Bundle,
    database::{Database, FORMAT},
    dispatch::{Beat, Claim, Dispatch, NamedBlob},
    error::ClusterError,
    postgres::Postgres,
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// A cluster with one stored program.
struct Cluster {
    server: Postgres,
    database: Arc<Database>,
    main: Dispatch,
    bundle: String,
}

impl Cluster {
    async fn start() -> Option<Self> {
        let server = Postgres::start()?;
        let database = Database::new(&server.url("owner")).unwrap();
        assert!(matches!(database.check().await, Err(ClusterError::NoCluster)));
        database.init().await.unwrap();
        let main = database.tenant(None).await.unwrap();
        let bundle = program(&main).await;
        Some(Self { server, database, main, bundle })
    }

    async fn spawn(&self) -> String {
        self.main.spawn(&self.bundle, "{}").await.unwrap()
    }

    async fn claim(&self, lease: u32) -> Claim {
        claimed(&self.main, lease).await
    }
}

async fn program(dispatch: &Dispatch) -> String {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("main.worker"), "---\n---\nHello.\n").unwrap();
    Bundle::pack(dir.path(), &[]).unwrap().store(dispatch).await.unwrap()
}

/// Claims as a node does: it asks until a run is ready.
async fn claimed(dispatch: &Dispatch, lease: u32) -> Claim {
    let began = Instant::now();
    loop {
        if let Some(claim) = dispatch.claim("node", lease).await.unwrap() {
            return claim;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "no run became ready");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn is_refused<T>(result: Result<T, ClusterError>, code: &str) -> bool {
    matches!(result, Err(ClusterError::Refused { code: found, .. }) if found == code)
}

#[tokio::test]
async fn a_node_whose_lease_has_ended_writes_nothing() {
    let Some(cluster) = Cluster::start().await else { return };
    let (main, run) = (&cluster.main, cluster.spawn().await);
    let began = Instant::now();
    let first = cluster.claim(1).await;
    assert!(main.append(&first, 0, &["{\"a\":1}"], &[]).await.unwrap());
    assert!(main.append(&first, 0, &["{\"a\":1}"], &[]).await.unwrap(), "a repeated call finds its records");
    let second = cluster.claim(30).await;
    assert_eq!(second.run, run);
    assert!(began.elapsed() >= Duration::from_secs(1), "not before the lease has ended");
    let blob = NamedBlob { name: "blobs/x".into(), content: b"late".to_vec() };
    assert!(!main.append(&first, 1, &["{\"stale\":1}"], &[blob]).await.unwrap());
    assert_eq!(main.heartbeat(&first, 30).await.unwrap(), Beat::Lost);
    assert!(!main.complete(&first, "done").await.unwrap());
    assert!(!main.suspend(&first, &[], None, None).await.unwrap());
    assert!(!main.release(&first, 0, None).await.unwrap());
    assert!(main.append(&second, 1, &["{\"b\":2}", "{\"c\":3}"], &[]).await.unwrap());
    assert_eq!(main.all_records(&run).await.unwrap(), ["{\"a\":1}", "{\"b\":2}", "{\"c\":3}"]);
    assert!(main.blob_names(&run).await.unwrap().is_empty());
    assert!(is_refused(main.append(&second, 2, &["{\"other\":1}"], &[]).await, "23505"));
    assert!(main.complete(&second, "done").await.unwrap());
    assert!(main.complete(&second, "done").await.unwrap(), "a repeated call finds the run ended");
    assert_eq!(main.find(&run).await.unwrap().state, "done");
}

#[tokio::test]
async fn one_of_two_answers_at_once_counts() {
    let Some(cluster) = Cluster::start().await else { return };
    let (main, run) = (&cluster.main, cluster.spawn().await);
    let claim = cluster.claim(30).await;
    assert!(main.suspend(&claim, &[], None, None).await.unwrap());
    assert_eq!(main.find(&run).await.unwrap().state, "suspended");
    assert!(main.claim("node", 30).await.unwrap().is_none());
    let other = Database::new(&cluster.server.url("owner")).unwrap().tenant(None).await.unwrap();
    for number in 0..50 {
        let question = format!("0:ask.{number}");
        let (one, two) =
            tokio::join!(main.answer(&run, &question, "one"), other.answer(&run, &question, "two"));
        let (one, two) = (one.unwrap().unwrap(), two.unwrap().unwrap());
        assert_eq!(one, two);
    }
    assert_eq!(main.answers(&run).await.unwrap().len(), 50);
    let again = cluster.claim(30).await;
    assert_eq!(again.run, run);
    // An answer that came after the node has read the answers is not slept over.
    let seen: Vec<String> = (0..49).map(|number| format!("0:ask.{number}")).collect();
    assert!(main.suspend(&again, &seen, None, None).await.unwrap());
    let third = cluster.claim(30).await;
    assert!(main.complete(&third, "done").await.unwrap());
    assert_eq!(main.answer(&run, "0:ask.99", "late").await.unwrap(), None);
}

#[tokio::test]
async fn a_wait_ends_by_its_timeout_and_by_waking() {
    let Some(cluster) = Cluster::start().await else { return };
    let (main, run) = (&cluster.main, cluster.spawn().await);
    let claim = cluster.claim(30).await;
    assert!(main.suspend(&claim, &[], Some(1), None).await.unwrap());
    let claim = cluster.claim(30).await;
    assert!(main.suspend(&claim, &[], None, Some("the program is damaged")).await.unwrap());
    let found = main.find(&run).await.unwrap();
    assert_eq!((&*found.state, found.reason.as_deref()), ("suspended", Some("the program is damaged")));
    assert!(main.wake(&run).await.unwrap());
    assert_eq!(cluster.claim(30).await.run, run);
}

#[tokio::test]
async fn a_cancelled_run_ends_where_it_is() {
    let Some(cluster) = Cluster::start().await else { return };
    let main = &cluster.main;
    // Queued.
    let queued = cluster.spawn().await;
    assert!(main.cancel(&queued, "operator").await.unwrap());
    assert!(main.claim("node", 30).await.unwrap().is_none());
    assert_eq!(main.find(&queued).await.unwrap().state, "interrupted");
    assert!(!main.cancel(&queued, "operator").await.unwrap());
    // On a node.
    let running = cluster.spawn().await;
    let claim = cluster.claim(30).await;
    assert_eq!(main.heartbeat(&claim, 30).await.unwrap(), Beat::Held);
    assert!(main.cancel(&running, "operator").await.unwrap());
    assert_eq!(main.heartbeat(&claim, 30).await.unwrap(), Beat::Cancelled);
    assert!(main.append(&claim, 0, &["{\"the\":\"end\"}"], &[]).await.unwrap(), "the node records the end");
    assert!(main.complete(&claim, "interrupted").await.unwrap());
    assert_eq!(main.find(&running).await.unwrap().state, "interrupted");
    // Waiting.
    let waiting = cluster.spawn().await;
    let claim = cluster.claim(30).await;
    assert!(main.suspend(&claim, &[], None, None).await.unwrap());
    assert!(main.cancel(&waiting, "operator").await.unwrap());
    assert_eq!(main.answer(&waiting, "0:ask.0", "late").await.unwrap(), None);
    assert!(main.claim("node", 30).await.unwrap().is_none());
}

#[tokio::test]
async fn a_role_reaches_its_own_tenant_alone() {
    let Some(cluster) = Cluster::start().await else { return };
    let (owner, run) = (&cluster.database, cluster.spawn().await);
    owner.call("create role guest login", &[]).await.unwrap();
    owner.make_tenant("guests", Some(1)).await.unwrap();
    assert!(matches!(owner.add_member("guests", "nobody_here").await, Err(ClusterError::Missing(_))));
    owner.add_member("guests", "guest").await.unwrap();
    let guest = Database::new(&cluster.server.url("guest")).unwrap();
    let guests = guest.tenant(None).await.unwrap();
    assert_eq!(guests.tenant(), "guests");
    assert!(guest.tenant(Some("main")).await.is_err());
    // A forged dispatch of the other tenant.
    let forged = Dispatch::new(Arc::clone(&guest), "main".into());
    let claim = Claim {
        run: run.clone(),
        attempt: "00000000-0000-0000-0000-000000000000".into(),
        bundle: String::new(),
        start: String::new(),
        cancelled: false,
        fruitless: 0,
    };
    assert!(is_refused(forged.all_records(&run).await, "42501"));
    assert!(is_refused(forged.runs("", 10).await, "42501"));
    assert!(is_refused(forged.answers(&run).await, "42501"));
    assert!(is_refused(forged.answer(&run, "0:ask.0", "yes").await, "42501"));
    assert!(is_refused(forged.cancel(&run, "guest").await, "42501"));
    assert!(is_refused(forged.claim("node", 10).await, "42501"));
    assert!(is_refused(forged.append(&claim, 0, &["{}"], &[]).await, "42501"));
    assert!(is_refused(forged.bundle_listing(&cluster.bundle).await, "42501"));
    assert!(is_refused(forged.seal_key().await.map(drop), "42501"));
    for sql in [
        "select * from llm_do.records",
        "select * from llm_do.settings",
        "insert into llm_do.members values ('guest', 'main')",
        "select absurd.claim_task('main_1', 'x')",
        "select * from absurd.t_main_1",
        "select llm_do.make_tenant('x', 1, null, 'k')",
        "select llm_do.drain(null)",
        "select * from llm_do.clean(now())",
    ] {
        assert!(is_refused(guest.call(sql, &[]).await, "42501"), "{sql}");
    }
    // A run of the other tenant, named in its own.
    assert!(guests.all_records(&run).await.unwrap().is_empty());
    assert!(!guests.cancel(&run, "guest").await.unwrap());
    assert!(!guests.append(&claim, 0, &["{}"], &[]).await.unwrap());
    assert_eq!(guests.bundle_listing(&cluster.bundle).await.unwrap(), None);
    // Its limit holds for all nodes.
    let bundle = program(&guests).await;
    guests.spawn(&bundle, "{}").await.unwrap();
    guests.spawn(&bundle, "{}").await.unwrap();
    let first = guests.claim("one", 30).await.unwrap().unwrap();
    assert!(guests.claim("two", 30).await.unwrap().is_none());
    assert!(guests.complete(&first, "done").await.unwrap());
    assert!(guests.claim("two", 30).await.unwrap().is_some());
}

#[tokio::test]
async fn an_older_program_claims_no_run_of_a_newer_format_and_uses_no_newer_schema() {
    let Some(cluster) = Cluster::start().await else { return };
    let owner = &cluster.database;
    owner.call("select llm_do.make_tenant('main', 2, null, 'x')", &[]).await.unwrap();
    let spawn = "select llm_do.spawn('main', '20300101-000000-0000', 2, $1, '{}', 1)";
    owner.call(spawn, &[&cluster.bundle]).await.unwrap();
    assert_eq!(FORMAT, 1);
    assert!(cluster.main.claim("node", 30).await.unwrap().is_none());
    assert_eq!(cluster.main.find("last").await.unwrap().state, "queued");
    owner.init().await.unwrap();
    owner.call("update llm_do.settings set value = '2' where name = 'schema'", &[]).await.unwrap();
    assert!(matches!(owner.check().await, Err(ClusterError::OtherSchema { found: 2, known: 1 })));
    assert!(matches!(owner.init().await, Err(ClusterError::OtherSchema { .. })));
    assert!(owner.tenants().await.is_err());
}

#[tokio::test]
async fn a_run_that_is_claimed_in_vain_is_counted_and_unneeded_programs_are_collected() {
    let Some(cluster) = Cluster::start().await else { return };
    let (main, run) = (&cluster.main, cluster.spawn().await);
    for fruitless in 0..3 {
        let claim = cluster.claim(30).await;
        assert_eq!(claim.fruitless, fruitless);
        assert!(main.release(&claim, 0, Some("no key")).await.unwrap());
    }
    assert_eq!(main.find(&run).await.unwrap().reason.as_deref(), Some("no key"));
    let claim = cluster.claim(30).await;
    assert!(main.append(&claim, 0, &["{}"], &[]).await.unwrap());
    assert!(main.release(&claim, 0, None).await.unwrap());
    let claim = cluster.claim(30).await;
    assert_eq!(claim.fruitless, 0);
    assert_eq!(cluster.database.clean(Duration::ZERO).await.unwrap(), [0, 0, 0], "it has not ended");
    assert!(main.complete(&claim, "done").await.unwrap());
    let stored = "update llm_do.files set stored_at = stored_at - interval '1 day'";
    cluster.database.call(stored, &[]).await.unwrap();
    let stored = "update llm_do.bundles set stored_at = stored_at - interval '1 day'";
    cluster.database.call(stored, &[]).await.unwrap();
    assert_eq!(cluster.database.clean(Duration::ZERO).await.unwrap(), [1, 1, 1]);
    assert!(main.runs("", 10).await.unwrap().is_empty());
    assert_eq!(main.bundle_listing(&cluster.bundle).await.unwrap(), None);
}

#[tokio::test]
async fn connections_come_back_after_the_database_has_crashed() {
    let Some(cluster) = Cluster::start().await else { return };
    let run = cluster.spawn().await;
    let claim = cluster.claim(60).await;
    cluster.server.down();
    let down = cluster.main.append(&claim, 0, &["{}"], &[]).await;
    assert!(down.is_err_and(|error| error.is_temporary()));
    cluster.server.up();
    assert!(cluster.main.append(&claim, 0, &["{}"], &[]).await.unwrap());
    assert_eq!(cluster.main.all_records(&run).await.unwrap(), ["{}"]);
}
