//! Answers by links and by the buttons of Slack.

use super::{
    Kind,
    links::Link,
    message::slack_line,
    page::{self, Form},
};
use crate::{
    error::{ApiError, Code},
    service::Service,
    token::Token,
    views::GiveAnswer,
};
use axum::{
    http::{HeaderMap, StatusCode},
    response::Response,
};
use llm_do::{
    core::question::{Answer, Waiting},
    digest,
    program::visible,
};
use serde_json::Value;
use std::sync::Arc;

/// The most characters of a Slack user's name that are recorded.
const LONGEST_NAME: usize = 64;

impl Service {
    /// The question of a link, with the program and the client of its run. `None`: the question no longer waits.
    fn linked(&self, link: &Link) -> Option<(Waiting, Arc<str>, Arc<str>)> {
        let live = self.live_run(&link.run)?;
        let found = live.questions().waiting().into_iter().find(|waiting| waiting.id == link.question);
        let waiting = found.filter(|waiting| digest(waiting) == link.digest)?;
        Some((waiting, Arc::clone(&live.client().program), Arc::clone(&live.client().name)))
    }

    fn link(&self, token: &str) -> Option<Link> {
        self.notifiers()?.links.find(token)
    }

    /// The page of a link.
    pub(crate) fn link_page(&self, token: &str) -> Response {
        // The same for each reason, so that a stranger learns nothing.
        let gone = || {
            page::says(StatusCode::GONE, "The link has expired or was used, or its question has an answer.")
        };
        let Some(link) = self.link(token) else { return gone() };
        match self.linked(&link) {
            Some((waiting, program, client)) => page::question(&program, &link.run, &client, &waiting),
            None => gone(),
        }
    }

    /// Takes the answer of a link's page.
    pub(crate) async fn link_answer(&self, token: &str, body: &[u8]) -> Response {
        let Some(link) = self.link(token) else { return self.link_page(token) };
        let Some((waiting, ..)) = self.linked(&link) else { return self.link_page(token) };
        let Some(answer) = Form::read(body).answer(&waiting.question) else {
            return page::says(StatusCode::BAD_REQUEST, "The question does not take this answer.");
        };
        let by = Arc::clone(&link.by);
        match self.use_link(link, answer, by, "link").await {
            Ok(()) => page::says(StatusCode::OK, "The answer was taken. The link can't be used again."),
            Err(error) => page::says(error.code().status(), error.detail()),
        }
    }

    /// Answers the question of a link, once.
    async fn use_link(
        &self,
        link: Link,
        answer: Answer,
        by: Arc<str>,
        via: &'static str,
    ) -> Result<(), ApiError> {
        let gone = || {
            ApiError::new(
                Code::QuestionExpired,
                "the link has expired or was used, or its question has an answer",
            )
        };
        let notifiers = self.notifiers().ok_or_else(gone)?;
        let Some((_, program, _)) = self.linked(&link) else { return Err(gone()) };
        // Two answers at once: one of them has it.
        let link = notifiers.links.take(&link).ok_or_else(gone)?;
        let given = GiveAnswer { id: link.question.clone(), digest: link.digest.clone(), answer };
        let token = Token::of_link(by, program);
        match self.answer_via(&token, &link.run, given, via).await {
            Ok(()) => {
                if let Err(error) = notifiers.links.used(&link) {
                    self.log(&format!("notify: cannot note that a link was used: {error}"));
                }
                Ok(())
            }
            Err(error) => {
                notifiers.links.give_back(link);
                Err(error)
            }
        }
    }

    /// Takes the request that Slack sends when somebody presses a button.
    ///
    /// # Errors
    /// Slack has not signed the request, the user may not answer, or the question has an answer.
    pub(crate) async fn slack_answer(&self, headers: &HeaderMap, body: &[u8]) -> Result<(), ApiError> {
        let refused = || ApiError::new(Code::Forbidden, "the signature of Slack is missing, wrong or late");
        let notifiers = self.notifiers().ok_or_else(refused)?;
        let signed = notifiers.all.iter().filter_map(|notifier| match &notifier.kind {
            Kind::Slack { url, signing: Some(secret), users } if secret.has_signed_slack(headers, body) => {
                Some((&notifier.settings.name, url, users))
            }
            _ => None,
        });
        let signed: Vec<_> = signed.collect();
        if signed.is_empty() {
            return Err(refused());
        }
        let wrong = || ApiError::new(Code::BadRequest, "this is no press of a button of llm-do");
        let payload =
            url::form_urlencoded::parse(body).find(|(name, _)| name == "payload").ok_or_else(wrong)?.1;
        let payload: Value = serde_json::from_str(&payload).map_err(|_| wrong())?;
        let action = &payload["actions"][0];
        let answer = match action["action_id"].as_str() {
            Some("approve") => Answer::Approve { remember: false },
            Some("deny") => Answer::Deny { reason: None, remember: false },
            // Slack also tells of the button that opens the link.
            Some("open") => return Ok(()),
            _ => return Err(wrong()),
        };
        let link = action["value"].as_str().and_then(|token| self.link(token)).ok_or_else(|| {
            ApiError::new(
                Code::QuestionExpired,
                "the button has expired or was used, or its question has an answer",
            )
        })?;
        // The secret of one app answers only what its own messages ask.
        let (_, url, users) = signed.into_iter().find(|(name, ..)| **name == link.by).ok_or_else(refused)?;
        let id = payload["user"]["id"].as_str().unwrap_or_default();
        if !users.contains(id) {
            self.log(&format!("notify {}: the Slack user {} may not answer", link.by, visible::line(id)));
            return Err(ApiError::new(
                Code::Forbidden,
                "this user may not answer: `users` of the notifier does not have the ID",
            ));
        }
        let name = payload["user"]["username"].as_str().or(payload["user"]["name"].as_str()).unwrap_or(id);
        let name: String = visible::line(name).chars().take(LONGEST_NAME).collect();
        let by: Arc<str> = format!("{name} ({id})").into();
        let words = match &answer {
            Answer::Approve { .. } => "approved",
            _ => "denied",
        };
        let (run, url) = (Arc::clone(&link.run), url.clone());
        self.use_link(link, answer, Arc::clone(&by), "slack").await?;
        // Slack waits for the response; whether the channel hears of it changes nothing.
        let service = self.clone();
        self.spawn(async move {
            if let Err(why) =
                service.send(slack_line(&url, &format!("{by} {words} the call of run {run}."))).await
            {
                service.log(&format!("notify: the channel was not told of an answer: {why}"));
            }
        });
        Ok(())
    }
}
