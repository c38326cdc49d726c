//! The page of a link: one question, and its answer. It has no scripts, and a GET changes nothing: programs that look at links
//! for their previews answer nothing.

use super::message::{LONGEST_PAGE, facts};
use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{Html, IntoResponse, Response},
};
use llm_do::core::question::{Answer, Question, Waiting};
use serde_json::Value;
use std::sync::Arc;

/// The fields of the form.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Form {
    answer: String,
    text: String,
}

impl Form {
    /// The fields of a form that were sent as the body of a request.
    pub(crate) fn read(body: &[u8]) -> Self {
        let mut form = Self::default();
        for (name, value) in url::form_urlencoded::parse(body) {
            match &*name {
                "answer" => form.answer = value.into_owned(),
                "text" => form.text = value.into_owned(),
                _ => {}
            }
        }
        form
    }

    /// The answer that it gives. None of them holds for more than the question.
    pub(crate) fn answer(self, question: &Question) -> Option<Answer> {
        let reason = Some(self.text.clone()).filter(|text| !text.trim().is_empty());
        Some(match (question, self.answer.as_str()) {
            (Question::Approval(_), "approve") => Answer::Approve { remember: false },
            (Question::Approval(_), "deny") => Answer::Deny { reason, remember: false },
            (Question::Input(_), "decline") => Answer::Decline { reason },
            (Question::Input(input), "give") => {
                let value = match &input.schema {
                    None => self.text.into(),
                    Some(_) => serde_json::from_str::<Value>(&self.text).unwrap_or_else(|_| self.text.into()),
                };
                Answer::Give { value: Arc::new(value) }
            }
            (Question::Settlement(_), "again") => Answer::Again,
            (Question::Settlement(_), "abort") => Answer::Abort,
            _ => return None,
        })
    }
}

/// The question, with the buttons for its answers.
pub(crate) fn question(program: &str, run: &str, client: &str, waiting: &Waiting) -> Response {
    let (text, whole) = facts(&waiting.question, LONGEST_PAGE);
    let button =
        |value: &str, text: &str| format!("<button name=\"answer\" value=\"{value}\">{text}</button>");
    let (field, buttons) = match &waiting.question {
        Question::Approval(_) => {
            let approve = if whole { button("approve", "Approve") } else { String::new() };
            ("Reason for a denial", approve + &button("deny", "Deny"))
        }
        Question::Input(_) => ("Answer", button("give", "Send") + &button("decline", "Decline")),
        Question::Settlement(_) => ("", button("again", "Run it again") + &button("abort", "End the run")),
    };
    let field = match field {
        "" => String::new(),
        label => format!("<label>{label}<textarea name=\"text\" rows=\"3\" dir=\"auto\"></textarea></label>"),
    };
    let note = if whole { "" } else { "<p>This is the beginning. It is too long to be approved here.</p>" };
    let about = format!("{program}, run {run}, started by {client}");
    page(
        StatusCode::OK,
        "A run asks",
        &format!(
            "<p>{}</p><pre>{}</pre>{note}<form method=\"post\">{field}<p>{buttons}</p></form>",
            escaped(&about),
            escaped(&text)
        ),
    )
}

/// A page that says something.
pub(crate) fn says(status: StatusCode, text: &str) -> Response {
    page(status, "llm-do", &format!("<p>{}</p>", escaped(text)))
}

fn page(status: StatusCode, title: &str, body: &str) -> Response {
    let style = "body{font:1rem/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}pre{white-space:pre-wrap;overflow-wrap:anywhere;border:1px solid;padding:1rem}button{font:inherit;min-height:44px;min-width:44px;padding:0 1.5rem;margin-right:1rem}textarea{display:block;width:100%;box-sizing:border-box;font:inherit}";
    let html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title><style>{style}</style></head><body><h1>{title}</h1>{body}</body></html>"
    );
    let mut response = (status, Html(html)).into_response();
    let headers = response.headers_mut();
    for (name, value) in [
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
        ),
        // The address holds the token. With `no-referrer`, the form would have no origin.
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}
