//! `llm-do runs resume`: a run goes on from where it was suspended or cut off (SPEC §12).

use super::run::{Asked, NotReady, asking, carry_out, said, surrounded};
use crate::{
    args::ResumeArgs,
    exit::{Complaint, Exit},
    interrupt::Interrupts,
    operator::cut_off,
    program::{home, show_complaint},
    render::{Output, show_questions, show_unsettled},
};
use llm_do::{CutOffLeaf, Decisions, PastRun, Problem, Session};
use llm_do_core::{call_path::CallPath, gate::Mode, operator::Answer};
use llm_do_runs::Settle;
use std::path::PathBuf;

/// Carries out the command.
pub(crate) fn run(folders: &[PathBuf], args: &ResumeArgs, output: &Output) -> Exit {
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
        let dir = super::runs::find(folders, &args.run)?;
        let past = PastRun::open(&dir, &home()).map_err(Problem::from)?;
        let mut decisions = decisions(args, &past)?;
        past.admits(&decisions).map_err(Problem::from)?;
        // Nothing would happen but the same end.
        let (questions, unsettled) = (past.questions(), past.unsettled());
        let nothing_decided = decisions.answers.is_empty() && past.mode() == Mode::Defer;
        let undecided = unsettled.iter().filter(|leaf| !decisions.settle.contains_key(&leaf.path));
        let undecided: Vec<CutOffLeaf> = undecided.cloned().collect();
        for leaf in &undecided {
            let settle =
                asked.terminal.as_ref().and_then(|terminal| cut_off::ask(terminal, leaf, output.err));
            let Some(settle) = settle else {
                show_unsettled(output, &undecided);
                return Ok(Exit::Suspended);
            };
            decisions.settle.insert(leaf.path.clone(), settle);
        }
        if nothing_decided && !questions.is_empty() {
            show_questions(output, &questions);
            return Ok(Exit::Suspended);
        }
        let settings = past.settings(surrounded()?).map_err(Problem::from)?;
        let session = Session::open(asking(settings, &asked, output))?;
        let start = |operator, events| session.resume(past, decisions, operator, Some(events));
        carry_out(start, &mut asked, &interrupts, output)
    };
    resumed().unwrap_or_else(|not_ready: NotReady| said(not_ready, output))
}

/// What the command line decides.
fn decisions(args: &ResumeArgs, past: &PastRun) -> Result<Decisions, Complaint> {
    let mut decisions = Decisions::default();
    let approve = || Answer::Approve { remember: false };
    for call in &args.approve {
        if call == "all" {
            decisions.answers.extend(past.questions().into_iter().map(|ask| (ask.call, approve())));
        } else {
            decisions.answers.insert(CallPath::typed(call), approve());
        }
    }
    for denied in &args.deny {
        let (call, reason) = match denied.split_once('=') {
            Some((call, reason)) => (call, Some(reason.to_owned())),
            None => (denied.as_str(), None),
        };
        let before =
            decisions.answers.insert(CallPath::typed(call), Answer::Deny { reason, remember: false });
        if before.is_some() && !args.approve.iter().any(|call| call == "all") {
            return Err(Complaint::wrong(format!("`{call}` is both approved and denied")));
        }
    }
    for call in &args.again {
        decisions.settle.insert(CallPath::typed(call), Settle::Again);
    }
    for given in &args.result {
        let parsed =
            given.split_once('=').and_then(|(call, json)| Some((call, serde_json::from_str(json).ok()?)));
        let Some((call, value)) = parsed else {
            return Err(Complaint::wrong(format!("`--result {given}` is not CALL=JSON"))
                .hint("a text is written in quotes: --result '0/3.1=\"sent\"'"));
        };
        decisions.settle.insert(CallPath::typed(call), Settle::Given(std::sync::Arc::new(value)));
    }
    Ok(decisions)
}
