//! Messages of notifiers: a request for each of their kinds.

use crate::{notify_settings::When, outgoing::Outgoing, signing::Secret, views::QuestionView};
use llm_do::{
    core::question::{Fact, Question, Waiting},
    program::visible,
    question_text,
};
use serde_json::{Value, json};
use std::{fmt::Write as _, sync::Arc};

/// The longest text of a message of Slack, in characters: its blocks have at most 3,000.
const LONGEST_SLACK: usize = 2800;
/// The longest text of a message of ntfy, in bytes: longer ones become attachments.
const LONGEST_NTFY: usize = 3500;
/// The longest question of a signed webhook, in bytes. Of a longer one only the digest is sent.
const LONGEST_QUESTION: usize = 256 << 10;
/// The longest text of a page, in characters.
pub(super) const LONGEST_PAGE: usize = 400_000;

/// An event of a run, about which a message is sent.
#[derive(Clone, Debug)]
pub(crate) struct News {
    /// The ID of the delivery. Each attempt has the same ID.
    pub(crate) id: String,
    pub(crate) when: When,
    pub(crate) run: Arc<str>,
    pub(crate) program: Arc<str>,
    pub(crate) worker: Arc<str>,
    /// The name of the token that started the run.
    pub(crate) client: Arc<str>,
    /// The state of the run, as lists name it.
    pub(crate) state: &'static str,
    pub(crate) question: Option<Arc<Waiting>>,
}

/// The addresses to which a message leads.
#[derive(Clone, Debug)]
pub(crate) struct Leads {
    /// The run in the app.
    pub(crate) run: String,
    /// The page that answers the question, once.
    pub(crate) answer: Option<String>,
    /// The token of that page.
    pub(crate) token: Option<String>,
}

impl Leads {
    fn first(&self) -> &str {
        self.answer.as_deref().unwrap_or(&self.run)
    }
}

impl News {
    fn title(&self) -> String {
        let Self { program, worker, .. } = self;
        match self.when {
            When::Waiting => format!("{program}: {worker} asks"),
            When::Done => format!("{program}: {worker} is done"),
            When::Failed => format!("{program}: {worker} failed ({})", self.state),
            When::Cancelled => format!("{program}: {worker} was cancelled"),
        }
    }

    /// All facts, or their beginning; and whether it is all.
    fn text(&self, longest: usize) -> (String, bool) {
        match &self.question {
            Some(waiting) => facts(&waiting.question, longest),
            None => (format!("Run {}, started by {}", self.run, self.client), true),
        }
    }

    /// A request signed as Standard Webhooks are.
    pub(super) fn webhook(&self, url: &str, secret: &Secret, leads: &Leads, now_s: u64) -> Outgoing {
        let question = self.question.as_deref().map(|waiting| {
            let view = QuestionView::from(waiting.clone());
            let digest = view.digest.clone();
            match serde_json::to_value(view) {
                Ok(view) if view.to_string().len() <= LONGEST_QUESTION => view,
                _ => json!({"digest": digest, "call": waiting.id.call, "step": waiting.id.step.to_string(), "left_out": true}),
            }
        });
        let mut body = json!({
            "type": format!("run.{}", self.when.name()),
            "run": self.run,
            "program": self.program,
            "worker": self.worker,
            "client": self.client,
            "state": self.state,
            "url": leads.run,
        });
        if let Some(question) = question {
            body["question"] = question;
        }
        if let Some(answer) = &leads.answer {
            body["answer"] = answer.as_str().into();
        }
        let (body, time) = (body.to_string(), now_s.to_string());
        let headers = vec![
            ("content-type", "application/json".to_owned()),
            ("webhook-id", self.id.clone()),
            ("webhook-signature", secret.sign(&self.id, &time, body.as_bytes())),
            ("webhook-timestamp", time),
        ];
        Outgoing { url: url.to_owned(), headers, body }
    }

    /// A message of ntfy.
    pub(super) fn ntfy(&self, url: &str, token: Option<&str>, leads: &Leads) -> Outgoing {
        let (text, whole) = self.text(LONGEST_NTFY);
        let mut end = text.len().min(LONGEST_NTFY);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let whole = whole && end == text.len();
        let more = if whole { "" } else { "\n… The link shows all of it." };
        // Headers are ASCII. The ID of a worker may have other letters.
        let title: String =
            self.title().chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).collect();
        let mut headers = vec![
            ("content-type", "text/plain; charset=utf-8".to_owned()),
            ("title", title),
            ("click", leads.first().to_owned()),
            ("x-llm-do-id", self.id.clone()),
        ];
        if let Some(token) = token {
            headers.push(("authorization", format!("Bearer {token}")));
        }
        Outgoing { url: url.to_owned(), headers, body: format!("{}{more}", &text[..end]) }
    }

    /// A message of Slack, whose buttons answer if `buttons`.
    pub(super) fn slack(&self, url: &str, leads: &Leads, buttons: bool) -> Outgoing {
        let (text, whole) = self.text(LONGEST_SLACK);
        // What is escaped is longer.
        let escaped = slack_text(&text);
        let shown: String = escaped.chars().take(LONGEST_SLACK).collect();
        let whole = whole && shown.len() == escaped.len();
        let title = slack_text(&self.title());
        let mut blocks = vec![
            json!({"type": "section", "text": {"type": "mrkdwn", "text": format!("*{title}*")}}),
            json!({"type": "section", "text": {"type": "mrkdwn", "text": format!("```{shown}```"), "verbatim": true}}),
        ];
        if !whole {
            let note = "This is the beginning. Open the link to see and to approve all of it.";
            blocks.push(json!({"type": "context", "elements": [{"type": "mrkdwn", "text": note}]}));
        }
        let mut elements = Vec::new();
        if let (true, Some(token), Some(Question::Approval(_))) =
            (buttons, &leads.token, self.question.as_deref().map(|waiting| &waiting.question))
        {
            let button = |id: &str, text: &str, style: &str| {
                json!({"type": "button", "action_id": id, "style": style, "value": token,
                    "text": {"type": "plain_text", "text": text}})
            };
            // Only what was seen whole is approved.
            if whole {
                elements.push(button("approve", "Approve", "primary"));
            }
            elements.push(button("deny", "Deny", "danger"));
        }
        elements.push(json!({"type": "button", "action_id": "open", "url": leads.first(),
            "text": {"type": "plain_text", "text": "Open"}}));
        blocks.push(json!({"type": "actions", "elements": elements}));
        let body: Value = json!({"text": title, "blocks": blocks});
        let headers = vec![("content-type", "application/json".to_owned()), ("x-llm-do-id", self.id.clone())];
        Outgoing { url: url.to_owned(), headers, body: body.to_string() }
    }
}

/// A line of text for Slack.
pub(super) fn slack_line(url: &str, text: &str) -> Outgoing {
    let headers = vec![("content-type", "application/json".to_owned())];
    Outgoing { url: url.to_owned(), headers, body: json!({"text": slack_text(text)}).to_string() }
}

/// Text in which Slack finds no links, mentions and ends of code.
fn slack_text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('`', "'")
}

/// The question with all its facts, of which everything that is not seen is escaped, up to a length; and whether it is all.
pub(super) fn facts(question: &Question, longest: usize) -> (String, bool) {
    let mut text = visible::line(&question.subject()).into_owned();
    for fact in question.facts() {
        // Writing to a `String` does not fail.
        let _ = match fact {
            Fact::Note(note) => write!(text, "\n{}", visible::line(&note)),
            Fact::Words(sentence, excerpt) => {
                write!(text, "\n{}\n  {}", visible::line(&sentence), visible::line(excerpt))
            }
            Fact::Prompt(prompt) => write!(text, "\n{}", visible::text(prompt)),
            Fact::Arguments(input) => {
                write!(text, "\n\nArguments:\n{}", visible::text(&format!("{input:#}")))
            }
            Fact::Change(change) => {
                write!(text, "\n\nThe change:\n{}", visible::text(&question_text::diff(change)))
            }
            Fact::Schema(schema) => {
                write!(
                    text,
                    "\n\nThe answer is JSON of this schema:\n{}",
                    visible::text(&format!("{schema:#}"))
                )
            }
            Fact::Expires(at_ms) => write!(text, "\n\n{}", question_text::expiry(at_ms)),
        };
    }
    match text.char_indices().nth(longest) {
        None => (text, true),
        Some((end, _)) => {
            text.truncate(end);
            (text, false)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn news(content: &str) -> News {
        let waiting = json!({
            "call": "0/0.0", "step": "ask", "question": "approval", "chain": ["writer"], "function": "write_file",
            "risk": "write", "input": {"content": content}, "rule": {"default": "write"},
        });
        News {
            id: "an-id".into(),
            when: When::Waiting,
            run: "20261127-120000-abcd".into(),
            program: "desk".into(),
            worker: "writer".into(),
            client: "ci".into(),
            state: "waiting",
            question: Some(Arc::new(serde_json::from_value(waiting).expect("a question"))),
        }
    }

    fn leads() -> Leads {
        Leads {
            run: "http://127.0.0.1:1/#/runs/r".into(),
            answer: Some("http://127.0.0.1:1/answer/t".into()),
            token: Some("t".into()),
        }
    }

    fn actions(message: &Outgoing) -> Vec<String> {
        let body: Value = serde_json::from_str(&message.body).expect("JSON");
        let blocks = body["blocks"].as_array().expect("blocks");
        let elements = blocks.last().expect("actions")["elements"].as_array().expect("elements").clone();
        elements.iter().map(|element| element["action_id"].as_str().expect("an ID").to_owned()).collect()
    }

    #[test]
    fn what_slack_does_not_show_whole_is_not_approved_there() {
        let short = news("a few words").slack("http://127.0.0.1:1/", &leads(), true);
        assert_eq!(actions(&short), ["approve", "deny", "open"]);
        assert!(short.body.contains("write_file") && short.body.contains("a few words"), "{}", short.body);
        let long = news(&"x".repeat(5000)).slack("http://127.0.0.1:1/", &leads(), true);
        assert_eq!(actions(&long), ["deny", "open"]);
        assert_eq!(actions(&news("a").slack("http://127.0.0.1:1/", &leads(), false)), ["open"]);
    }

    #[test]
    fn words_of_others_are_no_links_mentions_or_ends_of_code() {
        let message = news("``` <!channel> <https://evil.example|Approve>").slack(
            "http://127.0.0.1:1/",
            &leads(),
            true,
        );
        for part in ["<!channel>", "<https:", "``` "] {
            assert!(!message.body.contains(part), "{part}: {}", message.body);
        }
    }

    #[test]
    fn message_of_ntfy_fits_and_its_title_is_ascii() {
        let message = News { worker: "prüfer".into(), ..news(&"ü".repeat(5000)) }.ntfy(
            "http://127.0.0.1:1/t",
            Some("k"),
            &leads(),
        );
        assert!(
            message.body.len() < 4096 && message.body.ends_with("shows all of it."),
            "{}",
            message.body.len()
        );
        let header = |name: &str| {
            message.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
        };
        assert_eq!(header("title"), Some("desk: pr?fer asks"));
        assert_eq!(
            (header("click"), header("authorization")),
            (Some("http://127.0.0.1:1/answer/t"), Some("Bearer k"))
        );
    }
}
