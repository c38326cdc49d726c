//! `llm-do runs resume`: continues a run that was suspended or interrupted.

use crate::{
    args::{Format, ResumeArgs},
    chat::{self, Chat},
    exit::{Complaint, Exit},
    interrupt::Interrupts,
    opening::{Asked, NotReady, asking, carry_out, said, surrounded},
    past_runs,
    program::{complaint, home, quoted, show_complaint},
    render::{Output, Refuses, Renderer, show_how_to_answer, show_report, show_waiting},
    visible,
};
use llm_do::{Decisions, PastRun, Problem, Report, Session, runs::EventSink as _};
use llm_do_core::{
    call_path::CallPath,
    event::Event,
    gate::Mode,
    question::{Answer, Given, Input, Question, QuestionId, Waiting},
    step_name::StepName,
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Runs the command.
pub(crate) fn run(folders: &[PathBuf], args: &ResumeArgs, project: Option<&Path>, output: &Output) -> Exit {
    let mut asked = match Asked::open(args.operator.as_ref()) {
        Ok(asked) => asked,
        Err(complaint) => return show_complaint(&complaint, output),
    };
    let interrupts = match Interrupts::listen(asked.terminal.clone()) {
        Ok(interrupts) => interrupts,
        Err(error) => {
            return show_complaint(&Complaint::failed(format!("cannot listen to signals: {error}")), output);
        }
    };
    let mut resumed = || {
        let dir = past_runs::find(folders, &args.run)?;
        let past = PastRun::open(&dir, &home()).map_err(Problem::from)?;
        let decisions = decisions(args, &past)?;
        if decisions.0.is_empty()
            && let Some(report) = past.report()
        {
            show_again(&report, &past, output);
            return Ok(Exit::from(&report));
        }
        past.admits(&decisions).map_err(Problem::from)?;
        let waiting = past.waiting();
        let undecided: Vec<Waiting> =
            waiting.into_iter().filter(|waiting| !decisions.0.contains_key(&waiting.id)).collect();
        if decisions.0.is_empty() && args.approve.iter().any(|call| call == "all") {
            output.note("nothing was decided: no call waits for approval");
        }
        let cut_off = |waiting: &Waiting| matches!(waiting.question, Question::Settlement(_));
        let asks_in_vain = asked.is_nobody() && undecided.iter().any(cut_off);
        let waits_as_before = past.mode() == Mode::Defer
            && decisions.0.is_empty()
            && undecided.iter().any(|waiting| !cut_off(waiting));
        let is_read = [Format::Json, Format::StreamJson].contains(&output.format);
        if past.is_suspended() && (asks_in_vain || waits_as_before) && !is_read {
            // The run would only come to the same end, whose report a program reads. One that was cut off records that it waits.
            show_waiting(output, &undecided);
            let target = match (args.target.as_deref(), project) {
                (Some(target), _) => format!(" {}", quoted(target)),
                (None, Some(project)) => format!(" --project {}", quoted(&project.to_string_lossy())),
                (None, None) => String::new(),
            };
            show_how_to_answer(output, &visible::line(&format!("{}{target}", args.run)), &undecided);
            return Ok(Exit::Suspended);
        }
        let settings = past.settings(surrounded()?).map_err(Problem::from)?;
        let session = Session::open(asking(settings, &asked, output))
            .map_err(|problem| with_folder(problem, &past.invocation().here))?;
        let talks = past.invocation().chat || chat::is_held_in(&session);
        if talks && decisions.0.is_empty() && !asked.answers_by_program() && chat::is_wanted(output) {
            // The chat takes signals itself.
            interrupts.on_first(|| {});
            return Ok(chat::hold(Chat::resumed(session, past), false, output)?);
        }
        let start = |operator, events| session.resume(past, decisions, operator, Some(events));
        carry_out(start, &mut asked, &interrupts, Refuses::AsMeant, output)
    };
    resumed().unwrap_or_else(|not_ready: NotReady| said(not_ready, output))
}

/// Shows the recorded end of a run again. A command that was killed between this record and its output, or that could
/// not write its output, has not shown it.
fn show_again(report: &Report, past: &PastRun, output: &Output) {
    output.note("the run had ended already; this is its recorded end");
    if output.format == Format::StreamJson
        && let Some(record) = past.records().last().cloned()
    {
        // Its events tell a run's end, and this one tells it for all.
        Renderer::new(output.clone(), Refuses::AsMeant, || {})
            .event(Event::Record { record: Arc::new(record) });
    }
    show_report(output, report, None);
}

/// Returns the problem that prevents the program from opening. If the folder in which the run was started no longer
/// exists, a hint says so, because that is the likely cause.
fn with_folder(problem: Problem, here: &Path) -> NotReady {
    if here.exists() {
        return problem.into();
    }
    let here = here.display();
    let gone = format!("the run was started in `{here}`, which no longer exists");
    complaint(&problem).hint(format!("{gone}; to resume the run, move the project back there")).into()
}

/// The channel of the answers, as recorded.
const VIA: &str = "command line";

/// Returns the decisions on the command line.
pub(super) fn decisions(args: &ResumeArgs, past: &PastRun) -> Result<Decisions, Complaint> {
    let mut decisions = BTreeMap::new();
    let mut decide = |id: QuestionId, answer: Answer| {
        let wrong = || Complaint::wrong(format!("`{id}` is decided twice"));
        match decisions.insert(id.clone(), Given::operator(answer, VIA)) {
            None => Ok(()),
            Some(_) => Err(wrong()),
        }
    };
    let at = |call: &str, step: StepName| QuestionId { call: CallPath::typed(call), step };
    // A call is asked about again where something changed after an earlier approval.
    let waiting = past.waiting();
    let approval = |call: &str| {
        let first = at(call, StepName::Ask(0));
        let of_call = |waiting: &&Waiting| {
            waiting.id.call == first.call && matches!(waiting.question, Question::Approval(_))
        };
        waiting.iter().find(of_call).map_or_else(|| first.clone(), |waiting| waiting.id.clone())
    };
    let approve = || Answer::Approve { remember: false };
    let mut denied = Vec::new();
    for text in &args.deny {
        let (call, reason) = match text.split_once('=') {
            Some((call, reason)) => (call, Some(reason.to_owned())),
            None => (text.as_str(), None),
        };
        decide(approval(call), Answer::Deny { reason, remember: false })?;
        denied.push(approval(call));
    }
    for call in &args.approve {
        if call != "all" {
            decide(approval(call), approve())?;
            continue;
        }
        for Waiting { id, question } in waiting.clone() {
            if matches!(question, Question::Approval(_)) && !denied.contains(&id) {
                decide(id, approve())?;
            }
        }
    }
    for call in &args.again {
        decide(at(call, StepName::Settle), Answer::Again)?;
    }
    for text in &args.result {
        let Some((call, value)) = with_json(text) else {
            return Err(Complaint::wrong(format!("`--result {text}` is not CALL=JSON"))
                .hint("a text is written in quotes: --result '0/3.1=\"sent\"'"));
        };
        decide(at(call, StepName::Settle), Answer::Done { result: Arc::new(value) })?;
    }
    for text in &args.answer {
        let parsed = with_json(text).and_then(|(id, value)| Some((id.parse::<QuestionId>().ok()?, value)));
        let Some((id, value)) = parsed else {
            return Err(Complaint::wrong(format!("`--answer {text}` is not CALL:STEP=JSON")).hint(
                "`llm-do runs show` names the questions that wait: --answer '0/2.0:input.0=\"blue\"'",
            ));
        };
        let asked = waiting.iter().find(|waiting| waiting.id == id).map(|waiting| &waiting.question);
        let says_what = value.get("answer").is_some();
        let answer = match asked {
            // What the user does beside speaking: {"answer": "undo", "message": 2}.
            Some(Question::Input(Input { conversation: Some(_), .. })) if says_what => {
                serde_json::from_value(value).map_err(|error| {
                    Complaint::wrong(format!("`--answer {text}`: {error}")).hint(
                        "a conversation takes a text, {\"answer\": \"undo\", \"message\": 2}, {\"answer\": \"compact\"}, \
                         {\"answer\": \"undo_compaction\"} or {\"answer\": \"end\"}",
                    )
                })?
            }
            Some(Question::Input(_)) => Answer::Give { value: Arc::new(value) },
            Some(Question::Settlement(_)) => serde_json::from_value(value).map_err(|_| {
                Complaint::wrong(format!("`--answer {text}` decides nothing about a call that was cut off")).hint(
                    "it takes {\"answer\": \"again\"}, {\"answer\": \"done\", \"result\": …} or {\"answer\": \"abort\"}",
                )
            })?,
            _ => serde_json::from_value(value).map_err(|_| {
                Complaint::wrong(format!("`--answer {text}` is no answer to an approval"))
                    .hint("an approval takes {\"answer\": \"approve\"}, {\"answer\": \"deny\"} or {\"answer\": \"edit\", \"input\": …}")
            })?,
        };
        decide(id, answer)?;
    }
    Ok(Decisions(decisions))
}

/// Splits `NAME=JSON`.
fn with_json(text: &str) -> Option<(&str, Value)> {
    let (name, json) = text.split_once('=')?;
    Some((name, llm_do_core::json::read(json).ok()?))
}
