//! A run's records as lines of its tree, one after another as they come.

use super::{Line, Tone, argument, compacted, duration, first_line, shown, state_of_ending, tokens};
use crate::{
    render::tone_of,
    run_state::{OpenRun, RunState},
    view::RunView,
};
use llm_do_core::{
    gate::Rule,
    journal::{Ending, Record, RecordKind},
    question::{Answer, Input, Question},
};

/// Makes lines of records. Lines of parallel calls are mixed; each line is indented by its call's depth and names its
/// function.
pub struct Following {
    view: RunView,
}

impl Default for Following {
    fn default() -> Self {
        Self { view: RunView::of_calls_under_way() }
    }
}

impl Following {
    /// Returns the line of a record; most records have none.
    pub fn line(&mut self, record: &Record) -> Option<Line> {
        self.view.fold(record.into());
        let (tone, text) = self.said(record)?;
        let after = duration(record.at_ms.saturating_sub(self.view.started_ms()));
        let indent = "  ".repeat(record.path.depth().min(24));
        Some(Line(vec![(Tone::Dim, format!("{:>7}  {indent}", format!("+{after}"))), (tone, text)]))
    }

    fn said(&self, record: &Record) -> Option<(Tone, String)> {
        let call = self.view.call(&record.path);
        let name = call.map(|call| shown(&call.function)).unwrap_or_default();
        Some(match &record.body {
            RecordKind::RunStarted { entry, .. } => (Tone::Strong, format!("run of {}", shown(entry))),
            RecordKind::RunResumed { .. } => (Tone::Strong, "resumed".to_owned()),
            RecordKind::CallStarted { function, input, .. } => {
                let argument = argument(input);
                let space = if argument.is_empty() { "" } else { " " };
                (Tone::Plain, format!("▸ {}{space}{argument}", shown(function)))
            }
            RecordKind::Asked(question) => {
                call?;
                let place = shown(record.path.as_str());
                let waits_for = match question {
                    Question::Approval(approval) => {
                        format!("waits for approval: {}", shown(&approval.rule.to_string()))
                    }
                    Question::Input(Input { conversation: Some(_), .. }) => {
                        "waits for the user's next message".to_owned()
                    }
                    Question::Input(input) => format!("waits for input: {}", first_line(&input.prompt)),
                    Question::Settlement(_) => "was cut off and waits for a decision".to_owned(),
                };
                (Tone::Notice, format!("? {name} at {place} {waits_for}"))
            }
            RecordKind::Answered(given) => {
                call?;
                let because = |reason: &Option<String>| {
                    reason.as_ref().map(|reason| format!(": {}", shown(reason))).unwrap_or_default()
                };
                match &given.answer {
                    Answer::Approve { .. } => (Tone::Notice, format!("{name} approved")),
                    Answer::Allow { calls } => {
                        (Tone::Notice, format!("{name} approved, and for the session {}", shown(calls)))
                    }
                    Answer::Edit { .. } => (Tone::Notice, format!("{name} approved with other arguments")),
                    Answer::Deny { reason, .. } => (Tone::Bad, format!("{name} denied{}", because(reason))),
                    Answer::Give { .. } => (Tone::Notice, format!("{name} got its input")),
                    Answer::Decline { reason } => {
                        (Tone::Bad, format!("{name} got no input{}", because(reason)))
                    }
                    Answer::Stop => (Tone::Notice, format!("{name}: the user stopped the answer")),
                    Answer::End => (Tone::Notice, format!("{name}: the user ended the conversation")),
                    Answer::Attach { file, .. } => {
                        (Tone::Notice, format!("{name}: the user attached {}", shown(file)))
                    }
                    Answer::Detach { message } => {
                        (Tone::Notice, format!("{name}: the user took back what message {message} added"))
                    }
                    Answer::Keep { message } => {
                        (Tone::Notice, format!("{name}: the user kept the result of message {message}"))
                    }
                    Answer::Model { model } => {
                        (Tone::Notice, format!("{name}: the user chose {}", shown(&model.to_string())))
                    }
                    Answer::Run { worker, .. } => {
                        (Tone::Notice, format!("{name}: the user called {}", shown(worker)))
                    }
                    Answer::Rule { rule, calls } => (
                        Tone::Notice,
                        format!("{name}: the user made the rule {} {}", rule.verb(), shown(calls)),
                    ),
                    Answer::Forget { of } => (
                        Tone::Notice,
                        format!("{name}: the user took back the answer to {}", shown(&of.to_string())),
                    ),
                    Answer::Undo { message } => {
                        (Tone::Notice, format!("{name} goes back to before message {message}"))
                    }
                    Answer::Compact { .. } => {
                        (Tone::Notice, format!("{name}: the user compacts the conversation"))
                    }
                    Answer::UndoCompaction => {
                        (Tone::Notice, format!("{name}: the user takes the last compaction back"))
                    }
                    Answer::Again => (Tone::Notice, format!("{name} runs again")),
                    Answer::Done { .. } => (Tone::Notice, format!("{name} counts as done")),
                    Answer::Abort => (Tone::Bad, format!("{name}: the operator ended the run")),
                }
            }
            RecordKind::Verdict { rule: Rule::Blocked, by, .. } => {
                (Tone::Bad, format!("⊘ {name} refused: {}", shown(&by.to_string())))
            }
            RecordKind::ToolEnded { ending, .. } => self.ended(record, ending, String::new())?,
            RecordKind::CallEnded { ending, usage, .. } => self.ended(record, ending, tokens(*usage))?,
            RecordKind::TimedOut { .. } if record.step.is_tool() => {
                (Tone::Bad, format!("✗ {name} timed out"))
            }
            RecordKind::Cancelled => {
                (Tone::Bad, format!("✗ {name} cancelled: {}", shown(&record.step.to_string())))
            }
            RecordKind::ModelFailed { error, .. } => {
                (Tone::Bad, format!("{name}: a request failed: {}", first_line(&error.message)))
            }
            RecordKind::ModelChosen { model, .. } => {
                (Tone::Notice, format!("{name}: {} answers from here on", shown(model.as_str())))
            }
            RecordKind::ModelNotChosen { reason } => (Tone::Bad, format!("{name}: {}", first_line(reason))),
            RecordKind::Compacted(compaction) => {
                (Tone::Dim, format!("{name}: {}", first_line(&compacted(compaction))))
            }
            RecordKind::Limit { what } => (Tone::Bad, first_line(what)),
            RecordKind::Note { text } => (Tone::Dim, first_line(text)),
            RecordKind::RunEnded { status, ending, .. } => {
                let state = RunState::Ended(*status);
                let why = match ending {
                    Ending::Failure(failure) => format!(": {}", first_line(&failure.message)),
                    _ => String::new(),
                };
                (tone_of(state), format!("{}{why}", state.as_str()))
            }
            _ => return None,
        })
    }

    fn ended(&self, record: &Record, ending: &Ending, tokens: String) -> Option<(Tone, String)> {
        let call = self.view.call(&record.path)?;
        let (tone, sign) = state_of_ending(ending);
        let took = duration(call.took_ms(record.at_ms));
        let mut text = format!("{sign} {} {took}", shown(&call.function));
        if !tokens.is_empty() {
            text.push_str(&format!("  {tokens}"));
        }
        if let Ending::Failure(failure) = ending {
            text.push_str(&format!("  {}", first_line(&failure.message)));
        }
        Some((tone, text))
    }

    /// Returns the last line of a run that has no record of its end.
    pub fn last_line(state: RunState) -> Option<Line> {
        match state {
            RunState::Open(OpenRun::CutOff) => {
                Some(Line(vec![(Tone::Bad, "cut off: no process writes the journal any more".to_owned())]))
            }
            RunState::Open(OpenRun::Running | OpenRun::Damaged) | RunState::Ended(_) => None,
        }
    }
}
