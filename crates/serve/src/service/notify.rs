//! Messages about runs that wait, fail or end, and answers from anywhere (`docs/reference/notify.md`).
//!
//! A notifier's messages follow from the runs: the questions that wait, and the runs that have ended since the notifier
//! was set. Only what was said is kept. A process that ends in between leaves the rest to the next one.

mod answering;
mod links;
mod message;
mod page;

use super::{LARGEST_PAGE, Page, Service};
use crate::{
    known::KnownNames,
    listing::Filter,
    live::now_ms,
    log::LogEntry,
    notices::Signal,
    notify_settings::{NotifierSettings, NotifySettings, When},
    outgoing::Outgoing,
    program::Programs,
    signing::{Secret, SecretAt},
    token::Token,
    views::State,
};
use links::Links;
use llm_do::{
    core::{
        question::{Question, Waiting},
        schema::sha256,
    },
    digest,
};
use message::{Leads, News};
use std::{
    collections::BTreeSet,
    fs, io,
    path::Path,
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::{
    sync::{broadcast::error::RecvError, mpsc},
    time::{sleep, timeout},
};

/// Most messages of a notifier that wait. Further ones are dropped, and the log says so.
const MOST_WAITING: usize = 1000;
/// The most tries of a message.
const TRIES: u32 = 8;
/// Time before the second try. It doubles from one try to the next.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest time between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The time for which changes are gathered before the questions are looked at.
const GATHERED: Duration = Duration::from_millis(50);
/// The minutes for which a link holds, unless the settings say otherwise.
const LINK_MINUTES: u32 = 24 * 60;
/// Runs that ended in an earlier process are looked for among so many pages of the list.
const MOST_PAGES: usize = 5;

/// The way of messages to their receiver.
enum Kind {
    Webhook { url: String, secret: Secret },
    Slack { url: String, signing: Option<Secret>, users: BTreeSet<String> },
    Ntfy { url: String, token: Option<String> },
}

/// A receiver of messages.
struct Notifier {
    settings: NotifierSettings,
    kind: Kind,
    said: KnownNames,
    /// The time at which it was set, in milliseconds since 1970. Runs that ended before are no news.
    since_ms: u64,
    waiting: OnceLock<mpsc::Sender<News>>,
}

/// The receivers of messages about a service's runs.
pub(crate) struct Notifiers {
    all: Vec<Arc<Notifier>>,
    links: Links,
    link_minutes: u32,
    /// The address at which people reach the server.
    url: OnceLock<String>,
}

impl Notifiers {
    /// Creates the notifiers of the settings. `None`: there are none.
    ///
    /// # Errors
    /// A notifier has wrong settings, or its files can't be used.
    pub(crate) fn new(
        settings: &NotifySettings,
        programs: &Programs,
        home: &Path,
    ) -> Result<Option<Self>, String> {
        if settings.to.is_empty() {
            return Ok(None);
        }
        let mut all: Vec<Arc<Notifier>> = Vec::new();
        for each in &settings.to {
            let wrong = |reason: String| format!("serve.yaml: notify: `{}`: {reason}", each.name);
            if all.iter().any(|known| known.settings.name == each.name) {
                return Err(wrong("two notifiers have this name".into()));
            }
            all.push(Arc::new(Notifier::new(each, programs, home).map_err(wrong)?));
        }
        let url = OnceLock::new();
        if let Some(given) = &settings.url {
            let given = given.trim_end_matches('/');
            if !is_address(given) {
                return Err(format!("serve.yaml: notify: url: `{given}` is no http:// or https:// address"));
            }
            // It is empty until now.
            let _ = url.set(given.to_owned());
        }
        let links = Links::open(home).map_err(|error| format!("cannot use {}: {error}", home.display()))?;
        let link_minutes = settings.link_minutes.map_or(LINK_MINUTES, std::num::NonZeroU32::get);
        Ok(Some(Self { all, links, link_minutes, url }))
    }

    fn leads(&self, run: &str, token: Option<String>) -> Leads {
        let url = self.url.get().map(String::as_str).unwrap_or_default();
        Leads {
            run: format!("{url}/#/runs/{run}"),
            answer: token.as_ref().map(|token| format!("{url}/answer/{token}")),
            token,
        }
    }
}

fn is_address(text: &str) -> bool {
    url::Url::parse(text).is_ok_and(|url| ["http", "https"].contains(&url.scheme()))
}

impl Notifier {
    fn new(settings: &NotifierSettings, programs: &Programs, home: &Path) -> Result<Self, String> {
        let NotifierSettings { name, when, programs: only, .. } = settings;
        if name.parse::<crate::ProgramName>().is_err() {
            return Err(
                "a name has at most 64 letters, digits and -_., and begins with a letter or a digit".into()
            );
        }
        if when.is_empty() {
            return Err("`when` is empty: it would never be told anything".into());
        }
        if let Some(unknown) = only.iter().flatten().find(|program| programs.get(program).is_none()) {
            return Err(format!("the program `{unknown}` is not served"));
        }
        // What the address is may be a secret.
        let address = |at: &SecretAt| {
            let url = at.text().map_err(|error| format!("url: {error}"))?;
            if is_address(&url) {
                Ok(url)
            } else {
                Err("url: it is no http:// or https:// address".to_owned())
            }
        };
        let kind = match (&settings.webhook, &settings.slack, &settings.ntfy) {
            (Some(webhook), None, None) => Kind::Webhook {
                url: address(&webhook.url)?,
                secret: webhook.secret.secret().map_err(|error| format!("secret: {error}"))?,
            },
            (None, Some(slack), None) => {
                if slack.signing_secret.is_some() == slack.users.is_empty() {
                    return Err("slack: give `signing_secret` and `users`, or none of them".into());
                }
                let signing = slack.signing_secret.as_ref().map(SecretAt::secret);
                Kind::Slack {
                    url: address(&slack.url)?,
                    signing: signing.transpose().map_err(|error| format!("signing_secret: {error}"))?,
                    users: slack.users.clone(),
                }
            }
            (None, None, Some(ntfy)) => Kind::Ntfy {
                url: address(&ntfy.url)?,
                token: ntfy
                    .token
                    .as_ref()
                    .map(SecretAt::text)
                    .transpose()
                    .map_err(|error| format!("token: {error}"))?,
            },
            _ => return Err("give one of `webhook`, `slack` and `ntfy`".into()),
        };
        let failed = |error: io::Error| format!("cannot use {}: {error}", home.display());
        Ok(Self {
            said: KnownNames::open(&home.join("serve").join("notify"), &format!("{name}.said"))
                .map_err(failed)?,
            since_ms: since(home, name).map_err(failed)?,
            settings: settings.clone(),
            kind,
            waiting: OnceLock::new(),
        })
    }

    fn wants(&self, when: When, program: &str, worker: &str) -> bool {
        let is_of = |only: &Option<BTreeSet<Arc<str>>>, name: &str| {
            only.as_ref().is_none_or(|only| only.contains(name))
        };
        let NotifierSettings { when: wanted, programs, workers, .. } = &self.settings;
        wanted.contains(&when) && is_of(programs, program) && is_of(workers, worker)
    }
}

/// The time at which a notifier was set.
fn since(home: &Path, name: &str) -> io::Result<u64> {
    let (folder, file) = (home.join("serve").join("notify"), format!("{name}.since"));
    match fs::read_to_string(folder.join(&file)) {
        Ok(text) => text.trim().parse().map_err(|_| io::Error::other(format!("{file} is no time"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let now = now_ms();
            llm_do::write_below(&folder, Path::new(&file), format!("{now}\n").as_bytes())?;
            Ok(now)
        }
        Err(error) => Err(error),
    }
}

/// The notifiers' word for the end of a run.
fn when_of(state: State) -> Option<When> {
    match state {
        State::Done => Some(When::Done),
        State::Failed | State::Limit | State::Refused => Some(When::Failed),
        State::Cancelled => Some(When::Cancelled),
        State::Queued | State::Running | State::Waiting | State::CutOff | State::Changed => None,
    }
}

impl Service {
    /// Starts to send messages to the notifiers. Their links lead to `url` unless the settings name another address.
    pub(crate) fn set_notifiers(&self, url: &str) {
        let Some(notifiers) = self.notifiers() else { return };
        notifiers.url.get_or_init(|| url.to_owned());
        for notifier in &notifiers.all {
            let (sender, waiting) = mpsc::channel(MOST_WAITING);
            if notifier.waiting.set(sender).is_ok() {
                let (service, notifier) = (self.clone(), Arc::clone(notifier));
                self.spawn(async move { service.tell(&notifier, waiting).await });
            }
        }
        let service = self.clone();
        self.spawn(async move { service.watch_runs().await });
    }

    /// Watches runs, and queues messages about them.
    async fn watch_runs(&self) {
        let Some(mut signals) = self.signals() else { return };
        self.find_ended().await;
        self.find_questions();
        loop {
            match signals.recv().await {
                Ok(Signal::Run(changed)) if when_of(changed.state).is_some() => {
                    self.has_ended(
                        &changed.run,
                        &changed.program,
                        &changed.worker,
                        &changed.client,
                        changed.state,
                    );
                }
                Ok(Signal::Run(_) | Signal::Questions) => {
                    sleep(GATHERED).await;
                    self.find_questions();
                }
                Err(RecvError::Lagged(_)) => {
                    self.find_ended().await;
                    self.find_questions();
                }
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// Queues messages about runs that have ended, for notifiers that have not sent one.
    async fn find_ended(&self) {
        let Some(notifiers) = self.notifiers() else { return };
        let Some(since) = notifiers.all.iter().map(|notifier| notifier.since_ms).min() else { return };
        let token = Arc::new(Token::of_owner());
        let mut before = None;
        for _ in 0..MOST_PAGES {
            let page = Page { before, limit: LARGEST_PAGE, filter: Filter::default(), previews: false };
            let Ok(listed) = self.runs(&token, page).await else { return };
            for run in &listed.runs {
                // A run that began before may have ended after.
                let ended_ms = run.started_ms.saturating_add(run.took_ms.unwrap_or_default());
                if ended_ms >= since {
                    self.has_ended(&run.run, &run.program, &run.worker, &run.client, run.state);
                }
            }
            match listed.next {
                Some(next) => before = Some(next.to_string()),
                None => return,
            }
        }
    }

    fn has_ended(
        &self,
        run: &Arc<str>,
        program: &Arc<str>,
        worker: &Arc<str>,
        client: &Arc<str>,
        state: State,
    ) {
        let Some(when) = when_of(state) else { return };
        self.enqueue(&format!("{run} {}", state.name()), |id| News {
            id,
            when,
            run: Arc::clone(run),
            program: Arc::clone(program),
            worker: Arc::clone(worker),
            client: Arc::clone(client),
            state: state.name(),
            question: None,
        });
    }

    /// Queues messages about questions that wait, for notifiers that have not sent one.
    fn find_questions(&self) {
        for run in self.live_runs() {
            for waiting in run.questions().waiting() {
                // A chat that waits for the next message does not ask.
                let is_talk =
                    matches!(&waiting.question, Question::Input(input) if input.conversation.is_some());
                if is_talk {
                    continue;
                }
                let (client, worker) = (run.client(), &run.about.worker);
                let (name, question) =
                    (format!("{} {} {}", run.id, waiting.id, digest(&waiting)), Arc::new(waiting));
                self.enqueue(&name, |id| News {
                    id,
                    when: When::Waiting,
                    run: Arc::clone(&run.id),
                    program: Arc::clone(&client.program),
                    worker: Arc::clone(worker),
                    client: Arc::clone(&client.name),
                    state: State::Waiting.name(),
                    question: Some(Arc::clone(&question)),
                });
            }
        }
    }

    /// Queues an event for the notifiers that want it and do not know it. Never waits.
    fn enqueue(&self, name: &str, news: impl Fn(String) -> News) {
        let Some(notifiers) = self.notifiers() else { return };
        for notifier in &notifiers.all {
            let id = sha256(format!("{}\0{name}", notifier.settings.name).as_bytes());
            let news = news(id.chars().take(32).collect());
            if !notifier.wants(news.when, &news.program, &news.worker) || notifier.said.has(&news.id) {
                continue;
            }
            let run = Arc::clone(&news.run);
            // From here on it is known in this process; it is kept when it was said.
            notifier.said.learn(&news.id);
            let sent = notifier.waiting.get().is_some_and(|waiting| waiting.try_send(news).is_ok());
            if !sent {
                self.not_told(notifier, &run, "too many messages wait");
            }
        }
    }

    fn not_told(&self, notifier: &Notifier, run: &str, why: &str) {
        self.metrics().notified(&notifier.settings.name, "failed");
        self.log_entry(LogEntry {
            event: "not_notified",
            run: Some(run.to_owned()),
            text: format!("notify {}: the message was not delivered: {why}", notifier.settings.name),
            ..LogEntry::default()
        });
    }

    /// Delivers the messages of a notifier, one after the other.
    async fn tell(&self, notifier: &Arc<Notifier>, mut waiting: mpsc::Receiver<News>) {
        while let Some(news) = waiting.recv().await {
            let told = self.deliver_news(notifier, &news).await;
            match told {
                Ok(true) => self.metrics().notified(&notifier.settings.name, "delivered"),
                // It has been answered meanwhile.
                Ok(false) => {}
                Err(why) => self.not_told(notifier, &news.run, &why),
            }
            // What failed for so long is not tried again by the next process either.
            if let Err(error) = notifier.said.keep(&news.id) {
                self.log(&format!("notify {}: cannot note a message: {error}", notifier.settings.name));
            }
        }
    }

    /// Delivers a message. Returns false if its question no longer waits.
    async fn deliver_news(&self, notifier: &Notifier, news: &News) -> Result<bool, String> {
        let Some(notifiers) = self.notifiers() else { return Ok(false) };
        let (mut pause, mut token) = (PAUSE, None);
        for tried in 1.. {
            if let Some(question) = &news.question {
                if !self.waits(&news.run, question) {
                    return Ok(false);
                }
                if token.is_none() {
                    let (of, digest) = (&question.id, digest(question));
                    let made = notifiers.links.make(
                        &news.run,
                        of,
                        &digest,
                        &notifier.settings.name,
                        notifiers.link_minutes,
                    );
                    token = Some(made.map_err(|error| format!("its link can't be kept: {error}"))?);
                }
            }
            let leads = notifiers.leads(&news.run, token.clone());
            let request = match &notifier.kind {
                Kind::Webhook { url, secret } => news.webhook(url, secret, &leads, now_ms() / 1000),
                Kind::Slack { url, signing, .. } => news.slack(url, &leads, signing.is_some()),
                Kind::Ntfy { url, token } => news.ntfy(url, token.as_deref(), &leads),
            };
            let why = match self.send(request).await {
                Ok(status) if (200..300).contains(&status) => return Ok(true),
                Ok(status) if [408, 429].contains(&status) || status >= 500 => format!("status {status}"),
                Ok(status) => return Err(format!("status {status}")),
                Err(why) => why,
            };
            if tried >= TRIES {
                return Err(format!("{why}, {TRIES} times"));
            }
            self.metrics().notified(&notifier.settings.name, "retried");
            sleep(pause).await;
            pause = LONGEST_PAUSE.min(pause * 2);
        }
        Ok(false)
    }

    async fn send(&self, request: Outgoing) -> Result<u16, String> {
        // The host has limits of its own; one that never answers must not hold the others up.
        let sent = timeout(Duration::from_secs(15), self.host().post(request)).await;
        sent.map_err(|_| "no answer within 15 s".to_owned())?
    }

    /// The question still waits for an answer.
    fn waits(&self, run: &str, question: &Waiting) -> bool {
        self.live_run(run).is_some_and(|live| {
            live.questions()
                .waiting()
                .iter()
                .any(|waiting| waiting.id == question.id && digest(waiting) == digest(question))
        })
    }
}
