//! An operator that is another program: an editor, a service, a test (SPEC §9.4). `docs/operator-protocol.md` documents
//! what is said: one JSON object a line, each way.

use llm_do_core::{
    call_path::CallPath,
    operator::{Answer, Ask, Operator},
    send::BoxFuture,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

/// Version of the protocol, in the first message.
pub const PROTOCOL: u32 = 1;
/// Longest line that is taken, in bytes: edited arguments may be long.
const LONGEST_LINE: u64 = 16 << 20;

/// What is said to the program.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Said<'a> {
    /// First of all.
    Hello { protocol: u32, version: &'static str },
    /// A question. Several may be open.
    Ask { id: &'a CallPath, ask: &'a Ask },
    /// An answer was taken.
    Accepted { id: &'a CallPath },
    /// An answer came too late: the question was answered before.
    AlreadyDecided { id: &'a CallPath },
    /// A question is open no more, and was not answered: its run was ended.
    Withdrawn { id: &'a CallPath },
    /// A line that could not be used. Nothing has changed.
    Error { message: String },
}

/// What the program says: an answer to one question.
#[derive(Debug, Deserialize)]
struct Given {
    id: CallPath,
    #[serde(flatten)]
    answer: Answer,
}

/// Asks a program over a pair of streams. Questions that it leaves open when it goes are put off, and so suspend the run.
pub struct ProgramOperator {
    talk: Arc<Talk>,
    tasks: [JoinHandle<()>; 2],
}

struct Talk {
    out: mpsc::UnboundedSender<Vec<u8>>,
    questions: Mutex<Questions>,
}

#[derive(Default)]
struct Questions {
    open: HashMap<CallPath, oneshot::Sender<Answer>>,
    decided: HashSet<CallPath>,
    /// The program has gone: nobody answers any more.
    gone: bool,
}

impl ProgramOperator {
    /// Talks over these streams. To be called inside a tokio runtime, which must go on while the operator lives.
    pub fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        mut writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        let (out, mut lines) = mpsc::unbounded_channel::<Vec<u8>>();
        let talk = Arc::new(Talk { out, questions: Mutex::default() });
        talk.say(&Said::Hello { protocol: PROTOCOL, version: env!("CARGO_PKG_VERSION") });
        let (listening, telling) = (Arc::clone(&talk), Arc::clone(&talk));
        let write = tokio::spawn(async move {
            while let Some(line) = lines.recv().await {
                if writer.write_all(&line).await.is_err() || writer.flush().await.is_err() {
                    return telling.lost();
                }
            }
        });
        let read = tokio::spawn(async move {
            listening.listen(reader).await;
            listening.lost();
        });
        Self { talk, tasks: [read, write] }
    }
}

impl Drop for ProgramOperator {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Operator for ProgramOperator {
    fn answer<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            {
                let mut questions = self.talk.questions();
                if questions.gone {
                    return Answer::Later;
                }
                questions.open.insert(ask.call.clone(), answer);
            }
            let mut question = Question { talk: &self.talk, id: &ask.call, answered: false };
            self.talk.say(&Said::Ask { id: &ask.call, ask });
            let answer = answered.await;
            question.answered = true;
            // The program has gone with the question open.
            answer.unwrap_or(Answer::Later)
        })
    }

    fn takes_several(&self) -> bool {
        true
    }
}

/// A question while it is open.
struct Question<'a> {
    talk: &'a Talk,
    id: &'a CallPath,
    answered: bool,
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.talk.questions().open.remove(self.id);
            self.talk.say(&Said::Withdrawn { id: self.id });
        }
    }
}

impl Talk {
    fn questions(&self) -> MutexGuard<'_, Questions> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, said: &Said<'_>) {
        // An ask is data that serialises; and whoever has gone hears nothing.
        if let Ok(mut line) = serde_json::to_vec(said) {
            line.push(b'\n');
            let _ = self.out.send(line);
        }
    }

    /// Takes answers until the program goes.
    async fn listen(&self, reader: impl AsyncRead + Unpin) {
        let mut reader = BufReader::new(reader);
        let mut line = Vec::new();
        loop {
            line.clear();
            match (&mut reader).take(LONGEST_LINE).read_until(b'\n', &mut line).await {
                Ok(0) | Err(_) => return,
                Ok(_) if line.last() != Some(&b'\n') && line.len() as u64 == LONGEST_LINE => {
                    let message = format!("a line has more than {LONGEST_LINE} bytes");
                    return self.say(&Said::Error { message });
                }
                Ok(_) if line.trim_ascii().is_empty() => {}
                Ok(_) => match serde_json::from_slice(&line) {
                    Ok(given) => self.take(given),
                    Err(error) => self.say(&Said::Error { message: format!("not an answer: {error}") }),
                },
            }
        }
    }

    fn take(&self, Given { id, answer }: Given) {
        let mut questions = self.questions();
        if answer == Answer::Later && questions.open.contains_key(&id) {
            // It stays open; whoever wants the run suspended closes the connection.
            drop(questions);
            return self.say(&Said::Error { message: format!("`later` is no answer: `{id}` stays open") });
        }
        match questions.open.remove(&id) {
            Some(open) => {
                questions.decided.insert(id.clone());
                drop(questions);
                self.say(&Said::Accepted { id: &id });
                // Nobody waits for the answer to a question that was withdrawn in this moment.
                let _ = open.send(answer);
            }
            None if questions.decided.contains(&id) => {
                drop(questions);
                self.say(&Said::AlreadyDecided { id: &id });
            }
            None => {
                drop(questions);
                self.say(&Said::Error { message: format!("there is no question `{id}`") });
            }
        }
    }

    /// The program has gone: open questions are put off.
    fn lost(&self) {
        let mut questions = self.questions();
        questions.gone = true;
        questions.open.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use llm_do_core::function::Risk;
    use serde_json::{Value, json};
    use tokio::io::{DuplexStream, duplex, split};

    fn ask(call: &CallPath) -> Ask {
        Ask {
            call: call.clone(),
            chain: vec!["main".into()],
            function: "send".into(),
            risk: Risk::Network,
            input: Arc::new(json!({"to": call.as_str()})),
            preview: None,
            rule: "test".into(),
        }
    }

    /// The program's end of the line.
    struct Client(BufReader<DuplexStream>);

    impl Client {
        async fn hears(&mut self) -> Value {
            let mut line = String::new();
            self.0.read_line(&mut line).await.unwrap();
            serde_json::from_str(&line).unwrap()
        }
        async fn says(&mut self, text: &str) {
            self.0.get_mut().write_all(format!("{text}\n").as_bytes()).await.unwrap();
        }
    }

    async fn connected() -> (ProgramOperator, Client) {
        let (ours, theirs) = duplex(1 << 20);
        let (reader, writer) = split(ours);
        let operator = ProgramOperator::new(reader, writer);
        let mut client = Client(BufReader::new(theirs));
        assert_eq!(client.hears().await["protocol"], PROTOCOL);
        (operator, client)
    }

    #[tokio::test]
    async fn fifty_questions_are_answered_in_any_order_each_with_its_own_answer() {
        let (operator, mut client) = connected().await;
        let places: Vec<CallPath> = (0..50).map(|index| CallPath::root().call(0, index)).collect();
        let asks: Vec<Ask> = places.iter().map(ask).collect();
        let answers = futures_util::future::join_all(asks.iter().map(|ask| operator.answer(ask)));
        let client = async {
            let mut heard = Vec::new();
            for _ in 0..50 {
                let said = client.hears().await;
                assert_eq!((&said["type"], &said["ask"]["input"]["to"]), (&json!("ask"), &said["id"]));
                heard.push(said["id"].as_str().unwrap().to_owned());
            }
            heard.reverse();
            for id in &heard {
                client.says(&json!({"id": id, "answer": "deny", "reason": id}).to_string()).await;
                assert_eq!(client.hears().await, json!({"type": "accepted", "id": id}));
            }
        };
        let (answers, ()) = tokio::join!(answers, client);
        for (place, answer) in places.iter().zip(answers) {
            let reason = Some(place.to_string());
            assert_eq!(answer, Answer::Deny { reason, remember: false });
        }
    }

    #[tokio::test]
    async fn answering_twice_or_wrongly_is_harmless() {
        let (operator, mut client) = connected().await;
        let place = CallPath::root().call(0, 0);
        let ask = ask(&place);
        let client = async {
            client.hears().await;
            for wrong in ["{", "{\"id\": \"0/0.0\"}", "{\"id\": \"0/9.9\", \"answer\": \"approve\"}", "[]"] {
                client.says(wrong).await;
                assert_eq!(client.hears().await["type"], "error", "{wrong}");
            }
            client.says(r#"{"id": "0/0.0", "answer": "later"}"#).await;
            assert_eq!(client.hears().await["type"], "error");
            client.says(r#"{"id": "0/0.0", "answer": "approve"}"#).await;
            assert_eq!(client.hears().await["type"], "accepted");
            client.says(r#"{"id": "0/0.0", "answer": "deny"}"#).await;
            assert_eq!(client.hears().await["type"], "already_decided");
        };
        let (answer, ()) = tokio::join!(operator.answer(&ask), client);
        assert_eq!(answer, Answer::Approve { remember: false });
    }

    #[tokio::test]
    async fn a_program_that_goes_leaves_its_questions_for_later() {
        let (operator, mut client) = connected().await;
        let (first, second) = (ask(&CallPath::root().call(0, 0)), ask(&CallPath::root().call(0, 1)));
        let leave = async {
            client.hears().await;
            drop(client);
        };
        let (answer, ()) = tokio::join!(operator.answer(&first), leave);
        assert_eq!(answer, Answer::Later);
        assert_eq!(operator.answer(&second).await, Answer::Later);
    }

    #[tokio::test]
    async fn a_question_that_nobody_waits_for_is_withdrawn() {
        let (operator, mut client) = connected().await;
        let ask = ask(&CallPath::root());
        let mut asking = operator.answer(&ask);
        assert!(futures_util::poll!(&mut asking).is_pending());
        assert_eq!(client.hears().await["type"], "ask");
        drop(asking);
        assert_eq!(client.hears().await, json!({"type": "withdrawn", "id": "0"}));
    }
}
