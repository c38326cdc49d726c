//! The short requests that chat clients send beside the conversation: for its title, its tags, and questions that could
//! follow. They start no program. A plain model answers them if the server has one. Otherwise the answer consists of
//! words of the conversation.

use crate::service::Service;
use llm_do::core::{
    call_path::CallPath,
    model::{Delta, DeltaSink, Message, MessageId, ModelRequest, ModelSettings, Part, Purpose, Role, Usage},
};
use serde_json::json;
use std::sync::Arc;

/// The beginning of every such request of Open WebUI, and the tags around its conversation
/// (<https://docs.openwebui.com/getting-started/env-configuration>, `TITLE_GENERATION_PROMPT_TEMPLATE` and the like).
const TASK: &str = "### Task:";
const HISTORY: (&str, &str) = ("<chat_history>", "</chat_history>");
/// The beginnings of LibreChat's requests for a title
/// (<https://www.librechat.ai/docs/configuration/librechat_yaml/object_structure/custom_endpoint>, `titlePrompt`).
const TITLES: [&str; 2] = [
    "Provide a concise, 5-word-or-less title for the conversation",
    "Analyze this conversation and provide:",
];
/// Longest title, in words and in characters.
const MOST_WORDS: usize = 6;
const LONGEST: usize = 60;

/// A client's request for a title or other information about a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Task {
    wants: Wants,
    /// The first words of the user.
    begins: String,
    /// The whole request, for a model.
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wants {
    /// A title as text.
    Title,
    /// JSON with that field: a title, or a list that may be empty.
    Json(&'static str),
}

impl Task {
    /// Reads the task from the only message of a conversation. Returns `None` if the message is no task.
    pub(super) fn of(message: &str) -> Option<Self> {
        let text = message.trim_start();
        if TITLES.iter().any(|title| text.starts_with(title)) {
            return Some(Self { wants: Wants::Title, begins: first_words(text), text: text.to_owned() });
        }
        if !text.starts_with(TASK) {
            return None;
        }
        let (instructions, history) = text.split_once(HISTORY.0)?;
        let (history, _) = history.split_once(HISTORY.1)?;
        let output = instructions.rsplit("### Output").next().unwrap_or_default();
        let field = ["title", "tags", "follow_ups", "queries"]
            .into_iter()
            .find(|field| output.contains(&format!("\"{field}\"")));
        let wants = match field {
            Some(field) => Wants::Json(field),
            None if instructions.contains("title") => Wants::Title,
            None => return None,
        };
        Some(Self { wants, begins: first_words(history), text: text.to_owned() })
    }

    /// Returns the answer and its usage.
    pub(super) async fn answer(&self, service: &Service) -> (String, Usage) {
        if let Some(answer) = self.of_model(service).await {
            return answer;
        }
        (self.own_answer(), Usage::default())
    }

    /// An answer without a model.
    fn own_answer(&self) -> String {
        let words: Vec<&str> = self.begins.split_whitespace().take(MOST_WORDS).collect();
        let title: String = words.join(" ").chars().take(LONGEST).collect();
        let title = title.trim_end_matches(['.', ',', ':', ';']);
        let title = if title.is_empty() { "New chat" } else { title };
        match self.wants {
            Wants::Title => title.to_owned(),
            Wants::Json("title") => json!({"title": title}).to_string(),
            Wants::Json(list) => json!({list: []}).to_string(),
        }
    }

    async fn of_model(&self, service: &Service) -> Option<(String, Usage)> {
        let (name, model) = service.title_model()?;
        let message = Message {
            id: MessageId(0),
            parent: None,
            role: Role::User,
            parts: vec![Part::text(self.text.as_str())],
        };
        let place = CallPath::root();
        let request = ModelRequest {
            conversation: &place,
            run: "title",
            worker: "title",
            purpose: Purpose::Answer,
            turn: 0,
            model: name,
            system: &Arc::from(""),
            messages: &[Arc::new(message)],
            tools: &Arc::from([]),
            server_tools: &Arc::from([]),
            settings: &ModelSettings::default(),
            output: None,
        };
        let answered = model.respond(request, &Unheard).await;
        model.forget("title", &place);
        match answered {
            Ok(response) => {
                let text: String = response.parts.iter().filter_map(Part::as_text).collect();
                (!text.trim().is_empty()).then_some((text, response.usage))
            }
            Err(error) => {
                service.log(&format!("the model for titles: {error}"));
                None
            }
        }
    }
}

struct Unheard;

impl DeltaSink for Unheard {
    fn delta(&self, _: Delta) {}
}

/// Returns the user's first line in a history whose lines begin with the name of the speaker.
fn first_words(history: &str) -> String {
    let users = |line: &str| {
        let (who, words) = line.trim().split_once(':')?;
        let who = who.trim_matches(['*', '#', ' ']);
        who.eq_ignore_ascii_case("user").then(|| words.trim().to_owned())
    };
    history.lines().find_map(users).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn webui(what: &str, output: &str) -> String {
        format!(
            "{TASK}\n{what}\n### Output:\n{output}\n### Chat History:\n<chat_history>\nUSER: Where is the station, and how do I get there?\nASSISTANT: Left.\n</chat_history>"
        )
    }

    #[test]
    fn the_known_tasks_are_answered_from_the_conversation() {
        for (text, answer) in [
            (
                webui("Generate a concise, 3-5 word title.", "JSON format: { \"title\": \"…\" }"),
                "{\"title\":\"Where is the station, and how\"}",
            ),
            (webui("Generate a title.", "Return ONLY the title text"), "Where is the station, and how"),
            (webui("Generate 1-3 broad tags.", "JSON format: { \"tags\": [\"a\"] }"), "{\"tags\":[]}"),
            (
                webui("Suggest 3-5 follow-up questions.", "{ \"follow_ups\": [\"Question 1?\"] }"),
                "{\"follow_ups\":[]}",
            ),
            (
                format!("{}, using title case.\n\nConversation:\nUser: Hello there.\nAI: Hi", TITLES[0]),
                "Hello there",
            ),
        ] {
            let task = Task::of(&text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(task.own_answer(), answer);
        }
    }

    #[test]
    fn other_messages_are_no_tasks() {
        for text in [
            "### Task: sort my mail".to_owned(),
            "Generate a title for <chat_history>a</chat_history>".to_owned(),
            webui("Summarise it.", "Text"),
            "Please provide a concise title".to_owned(),
        ] {
            assert_eq!(Task::of(&text), None, "{text}");
        }
    }
}
