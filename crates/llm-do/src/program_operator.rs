//! An operator that is another program: an editor, a service, a test. `docs/reference/operator-protocol.md` documents
//! the messages: one JSON object a line, each way.

use crate::open_questions::{NotTaken, OpenQuestions};
use llm_do_core::{
    operator::{Operator, Recall},
    question::{Answer, Given, OPERATOR, QuestionId, Reply, Waiting},
    send::BoxFuture,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    sync::mpsc,
    task::JoinHandle,
};

/// Version of the protocol, in the first message.
pub const PROTOCOL: u32 = 2;
/// The longest accepted line, in bytes. Edited arguments may be long.
const LONGEST_LINE: u64 = 16 << 20;
/// The channel through which the answers come, as recorded.
const VIA: &str = "operator protocol";

/// A message to the program.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Message<'a> {
    /// The first message.
    Hello { protocol: u32, version: &'static str },
    /// A question. Several may be open.
    Question {
        #[serde(flatten)]
        waiting: &'a Waiting,
    },
    /// An answer was taken.
    Accepted {
        #[serde(flatten)]
        id: &'a QuestionId,
    },
    /// An answer came too late: the question has one.
    AlreadyDecided {
        #[serde(flatten)]
        id: &'a QuestionId,
        by: &'a str,
    },
    /// A question is not open any more, and was not answered: its run was ended.
    Withdrawn {
        #[serde(flatten)]
        id: &'a QuestionId,
    },
    /// A line that could not be used. Nothing has changed.
    Error { message: String },
}

/// A message of the program: an answer to one question.
#[derive(Debug, Deserialize)]
struct Answered {
    #[serde(flatten)]
    id: QuestionId,
    #[serde(flatten)]
    answer: Answer,
    /// The author of the answer, if the program knows it.
    #[serde(default)]
    by: Option<Arc<str>>,
}

/// An operator that is a program at the other end of a pair of streams. Questions that are open when the program
/// disconnects are put off, which suspends the run.
pub struct ProgramOperator {
    talk: Arc<Talk>,
    tasks: [JoinHandle<()>; 2],
}

struct Talk {
    out: mpsc::UnboundedSender<Vec<u8>>,
    questions: OpenQuestions,
}

impl ProgramOperator {
    /// Talks to the program over these streams. Must be called inside a tokio runtime, which must run while the
    /// operator lives.
    pub fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        mut writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        let (out, mut lines) = mpsc::unbounded_channel::<Vec<u8>>();
        let talk = Arc::new(Talk { out, questions: OpenQuestions::default() });
        talk.say(&Message::Hello { protocol: PROTOCOL, version: env!("CARGO_PKG_VERSION") });
        let (listening, telling) = (Arc::clone(&talk), Arc::clone(&talk));
        let write = tokio::spawn(async move {
            while let Some(line) = lines.recv().await {
                if writer.write_all(&line).await.is_err() || writer.flush().await.is_err() {
                    return telling.questions.close();
                }
            }
        });
        let read = tokio::spawn(async move {
            listening.listen(reader).await;
            listening.questions.close();
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
    fn exchange<'a>(&'a self, waiting: &'a Waiting, _: &'a dyn Recall) -> BoxFuture<'a, Reply> {
        Box::pin(async move {
            let Some(mut asked) = self.talk.questions.ask(waiting) else { return Reply::Later };
            let mut announced = Announced { talk: &self.talk, id: &waiting.id, ended: false };
            self.talk.say(&Message::Question { waiting });
            let reply = asked.reply().await;
            announced.ended = true;
            reply
        })
    }
}

/// A question that the program knows of. The program is informed if the question is withdrawn.
struct Announced<'a> {
    talk: &'a Talk,
    id: &'a QuestionId,
    ended: bool,
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.talk.say(&Message::Withdrawn { id: self.id });
        }
    }
}

impl Talk {
    fn say(&self, said: &Message<'_>) {
        // Messages are data that serialises; after the program has gone there is no reader.
        if let Ok(mut line) = serde_json::to_vec(said) {
            line.push(b'\n');
            let _ = self.out.send(line);
        }
    }

    /// Reads answers until the program disconnects.
    async fn listen(&self, reader: impl AsyncRead + Unpin) {
        let mut reader = BufReader::new(reader);
        let mut line = Vec::new();
        loop {
            line.clear();
            match (&mut reader).take(LONGEST_LINE).read_until(b'\n', &mut line).await {
                Ok(0) | Err(_) => return,
                Ok(_) if line.last() != Some(&b'\n') && line.len() as u64 == LONGEST_LINE => {
                    let message = format!("a line has more than {LONGEST_LINE} bytes");
                    return self.say(&Message::Error { message });
                }
                Ok(_) if line.trim_ascii().is_empty() => {}
                Ok(_) => match serde_json::from_slice(&line) {
                    Ok(given) => self.take(given),
                    Err(error) => self.say(&Message::Error { message: format!("not an answer: {error}") }),
                },
            }
        }
    }

    fn take(&self, Answered { id, answer, by }: Answered) {
        let by = by.unwrap_or_else(|| OPERATOR.into());
        match self.questions.take(&id, None, &answer, &by) {
            Ok(taken) => {
                self.say(&Message::Accepted { id: &id });
                taken.give(Given::new(answer, by, VIA));
            }
            Err(NotTaken::AlreadyDecided { by, .. }) => {
                self.say(&Message::AlreadyDecided { id: &id, by: &by });
            }
            Err(error) => self.say(&Message::Error { message: error.to_string() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use llm_do_core::{
        call_path::CallPath,
        question::{Approval, Question},
        risk::Risk,
        rule::DecidedBy,
        step_name::StepName,
    };
    use serde_json::{Value, json};
    use tokio::io::{DuplexStream, duplex, split};

    fn ask(call: &CallPath) -> Waiting {
        let approval = Approval {
            chain: vec!["main".into()],
            function: "send".into(),
            risk: Risk::Network,
            input: Arc::new(json!({"to": call.as_str()})),
            preview: None,
            rule: DecidedBy::Default(Risk::Network),
            calls: None,
            steering: None,
            rules: Vec::new(),
            expires_ms: None,
            arguments: Default::default(),
        };
        Waiting { id: QuestionId::new(call, &StepName::Ask(0)), question: Question::Approval(approval) }
    }

    fn given(answer: Answer) -> Reply {
        Reply::Given(Given::operator(answer, VIA))
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
        let asks: Vec<Waiting> = places.iter().map(ask).collect();
        let answers = futures_util::future::join_all(asks.iter().map(|ask| operator.exchange(ask, &())));
        let client = async {
            let mut heard = Vec::new();
            for _ in 0..50 {
                let said = client.hears().await;
                assert_eq!((&said["type"], &said["question"]), (&json!("question"), &json!("approval")));
                assert_eq!((&said["input"]["to"], &said["step"]), (&said["call"], &json!("ask")));
                heard.push(said["call"].as_str().unwrap().to_owned());
            }
            heard.reverse();
            for call in &heard {
                let answer = json!({"call": call, "step": "ask", "answer": "deny", "reason": call});
                client.says(&answer.to_string()).await;
                let accepted = json!({"type": "accepted", "call": call, "step": "ask"});
                assert_eq!(client.hears().await, accepted);
            }
        };
        let (answers, ()) = tokio::join!(answers, client);
        for (place, answer) in places.iter().zip(answers) {
            let reason = Some(place.to_string());
            assert_eq!(answer, given(Answer::Deny { reason, remember: false }));
        }
    }

    #[tokio::test]
    async fn answering_twice_or_wrongly_is_harmless() {
        let (operator, mut client) = connected().await;
        let place = CallPath::root().call(0, 0);
        let ask = ask(&place);
        let client = async {
            client.hears().await;
            let wrongs = [
                "{",
                "[]",
                r#"{"call": "0/0.0", "step": "ask"}"#,
                r#"{"call": "0/0.0", "answer": "approve"}"#,
                r#"{"call": "0/9.9", "step": "ask", "answer": "approve"}"#,
                r#"{"call": "0/0.0", "step": "settle", "answer": "approve"}"#,
                r#"{"call": "0/0.0", "step": "ask", "answer": "later"}"#,
                r#"{"call": "0/0.0", "step": "ask", "answer": "again"}"#,
            ];
            for wrong in wrongs {
                client.says(wrong).await;
                assert_eq!(client.hears().await["type"], "error", "{wrong}");
            }
            client.says(r#"{"call": "0/0.0", "step": "ask", "answer": "approve", "by": "ada"}"#).await;
            assert_eq!(client.hears().await["type"], "accepted");
            client.says(r#"{"call": "0/0.0", "step": "ask", "answer": "deny"}"#).await;
            let decided = client.hears().await;
            assert_eq!((&decided["type"], &decided["by"]), (&json!("already_decided"), &json!("ada")));
        };
        let (answer, ()) = tokio::join!(operator.exchange(&ask, &()), client);
        let by = Given::new(Answer::Approve { remember: false }, "ada".into(), VIA);
        assert_eq!(answer, Reply::Given(by));
    }

    #[tokio::test]
    async fn a_program_that_goes_leaves_its_questions_for_later() {
        let (operator, mut client) = connected().await;
        let (first, second) = (ask(&CallPath::root().call(0, 0)), ask(&CallPath::root().call(0, 1)));
        let leave = async {
            client.hears().await;
            drop(client);
        };
        let (answer, ()) = tokio::join!(operator.exchange(&first, &()), leave);
        assert_eq!(answer, Reply::Later);
        assert_eq!(operator.exchange(&second, &()).await, Reply::Later);
    }

    #[tokio::test]
    async fn a_question_that_nobody_waits_for_is_withdrawn() {
        let (operator, mut client) = connected().await;
        let ask = ask(&CallPath::root());
        let mut asking = operator.exchange(&ask, &());
        assert!(futures_util::poll!(&mut asking).is_pending());
        assert_eq!(client.hears().await["type"], "question");
        drop(asking);
        assert_eq!(client.hears().await, json!({"type": "withdrawn", "call": "0", "step": "ask"}));
    }
}
