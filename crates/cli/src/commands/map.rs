//! `llm-do map`: one worker over the rows of a table, or the files of a folder.

mod progress;

use crate::{
    args::{Format, MapArgs, RunArgs},
    exit::{Complaint, Exit},
    interrupt::Interrupts,
    max_cost::MaxCost,
    meant,
    opening::{NotReady, said, settings},
    program::home,
    render::Output,
    terminal::{Terminal, Withdrawal},
};
use llm_do::{
    RunOptions, Session,
    core::{gate::Mode, model::ModelName, price::Usd},
};
use llm_do_map::{
    Board, Counts, Estimate, Map, MapOptions, Problem, Range, Renamed, Stop, Stopped, Summary, Survey,
};
use progress::Progress;
use serde_json::{Value, json};
use std::{
    fmt::Write as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Runs the command.
pub(crate) fn run(args: &MapArgs, output: &Output) -> Exit {
    mapped(args, output).unwrap_or_else(|not_ready| said(not_ready, output))
}

fn mapped(args: &MapArgs, output: &Output) -> Result<Exit, NotReady> {
    let max_cost = args.max_cost.as_deref().map(MaxCost::parse).transpose()?;
    let terminal = Terminal::open();
    if args.approval.operator.is_some() {
        return Err(Complaint::wrong("--operator: a map asks nothing, so no program can answer")
            .hint("a call that needs an approval fails its row; --allow RULE lets calls run")
            .into());
    }
    let session = session(args)?;
    super::run::say(&session, output);
    check_prices(&session, max_cost)?;
    if terminal.is_none() && max_cost.is_none() {
        let complaint = Complaint::wrong("--max-cost is required without a terminal");
        return Err(Complaint { exit: Exit::Refused, ..complaint }
            .hint(
                "say how much they may cost with --max-cost, such as --max-cost 5usd or --max-cost unlimited",
            )
            .into());
    }
    let interrupts = Interrupts::listen(terminal.clone())
        .map_err(|error| Complaint::failed(format!("cannot listen to signals: {error}")))?;
    // One thread: rows wait for models far more than they compute.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Complaint::failed(format!("cannot start: {error}")))?;
    let context = runtime.enter();
    let (board, stop) = (Board::default(), Stop::default());
    let free = session.model_names().iter().all(ModelName::is_free);
    let mut map =
        Map::open(session, options(args, max_cost)?, board.clone(), stop.clone()).map_err(not_ready)?;
    say(map.survey(), output);
    drop(context);
    let question = OpenQuestion::default();
    let (stopping, withdrawn, on_signal) = (stop.clone(), question.clone(), output.clone());
    interrupts.on_first(move || {
        on_signal.note("stopping: no more rows begin, and those that run come to their end. Ctrl-C again ends at once; the state is kept either way");
        stopping.stop();
        withdrawn.withdraw();
    });
    let screen = Arc::clone(&output.screen);
    interrupts.on_end(move || screen.live(Vec::new()));
    runtime.block_on(map.render()).map_err(not_ready)?;
    if let Err(error) = map.list_for_service() {
        output.warn(&format!("the web app can't show this map, because it can't be listed: {error}"));
    }
    if output.err_terminal && !output.quiet {
        output.screen.go_live();
    }
    let mut work = Work { map, board, stop, output, terminal, question, max_cost, free };
    let stopped = runtime.block_on(work.all(args.pilot));
    let exit = work.publish(stopped);
    // What was cut off is not waited for.
    runtime.shutdown_background();
    exit
}

/// Opens the program. Its calls that need an approval fail their rows.
fn session(args: &MapArgs) -> Result<Session, NotReady> {
    let run = RunArgs {
        first: Some(args.target.clone()),
        // Beside a message, if an empty one, a word is never the message.
        second: Some(String::new()),
        program: args.program.clone(),
        model: args.model.clone(),
        approval: args.approval.clone(),
        ..RunArgs::default()
    };
    let mut settings = settings(&run)?;
    let RunOptions { mode, .. } = &mut settings.run;
    if mode.is_none_or(|mode| mode == Mode::Interactive) {
        *mode = Some(Mode::Defer);
    }
    Ok(Session::open(settings)?)
}

fn options(args: &MapArgs, max_cost: Option<MaxCost>) -> Result<MapOptions, Complaint> {
    let renamed = meant::pairs("--set-column", &args.set_column)?;
    Ok(MapOptions {
        inputs: args.inputs.clone(),
        outputs: args.outputs.clone(),
        renamed: renamed.into_iter().map(|(parameter, column)| Renamed { parameter, column }).collect(),
        ignored: args.ignore_column.clone(),
        constants: meant::pairs("--param", &args.params)?,
        trusted: args.trusted,
        unordered: args.unordered,
        keep: args.keep,
        concurrency: args.concurrency.into(),
        max_failures: args.max_failures,
        max_cost: match max_cost {
            Some(MaxCost::Dollars(dollars)) => Some(dollars),
            Some(MaxCost::Unlimited) | None => None,
        },
        batch: args.batch,
        retry_failed: args.retry_failed,
    })
}

/// Checks that prices are known if the cost is limited.
fn check_prices(session: &Session, max_cost: Option<MaxCost>) -> Result<(), Complaint> {
    let Some(MaxCost::Dollars(_)) = max_cost else { return Ok(()) };
    let unknown =
        session.model_names().into_iter().find(|name| !name.is_free() && session.terms(name).price.is_none());
    match unknown {
        None => Ok(()),
        Some(name) => Err(Complaint::wrong(format!("--max-cost: the price of {name} is not known"))
            .hint(format!("set it under `prices` in {}", home().join("config.yaml").display()))
            .hint("or accept any cost: --max-cost unlimited")),
    }
}

fn not_ready(problem: Problem) -> NotReady {
    match problem {
        Problem::Prompt(problem) => problem.into(),
        problem => complaint(&problem).into(),
    }
}

fn complaint(problem: &Problem) -> Complaint {
    let complaint = match problem {
        Problem::State { .. } | Problem::Refused(_) => Complaint::failed(problem.to_string()),
        problem => Complaint::wrong(problem.to_string()),
    };
    Complaint { hints: problem.hints(), ..complaint }
}

/// Shows the work that is to be done.
fn say(survey: &Survey, output: &Output) {
    if survey.changed {
        output.note("the definitions, the model or the settings have changed: rows that were done with others run again");
    }
    let mut text = format!("{}: {} done, {} missing", rows(survey.rows), survey.done, survey.missing());
    if survey.failed > 0 {
        _ = write!(text, ", {} failed before", survey.failed);
    }
    if survey.unfinished > 0 {
        _ = write!(text, "; {} of the missing rows began before and will continue", survey.unfinished);
    }
    output.note(&text);
    if survey.unreadable > 0 {
        let mut text = format!("{} can't be used and fail:", rows(survey.unreadable));
        survey.examples.iter().for_each(|example| _ = write!(text, "\n  {example}"));
        if survey.unreadable > survey.examples.len() as u64 {
            text.push_str("\n  …");
        }
        output.warn(&text);
    }
}

/// The open question on the terminal, if there is one. Clones share it.
#[derive(Clone, Default)]
struct OpenQuestion(Arc<Mutex<Option<Withdrawal>>>);

impl OpenQuestion {
    fn lock(&self) -> MutexGuard<'_, Option<Withdrawal>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn withdraw(&self) {
        if let Some(withdrawal) = &*self.lock() {
            withdrawal.withdraw();
        }
    }
}

/// A map that is running.
struct Work<'a> {
    map: Map,
    board: Board,
    stop: Stop,
    output: &'a Output,
    terminal: Option<Arc<Terminal>>,
    question: OpenQuestion,
    max_cost: Option<MaxCost>,
    /// True if all models cost nothing.
    free: bool,
}

/// The end of the work.
enum Ended {
    Stopped(Stopped),
    Declined,
}

impl Work<'_> {
    /// Runs the pilot, asks, and runs the remaining rows.
    async fn all(&mut self, pilot: u64) -> Result<Ended, Problem> {
        let missing = self.map.survey().missing();
        if pilot > 0 && pilot < missing {
            self.output.note(&format!("running {} first, to estimate the cost of all", rows(pilot)));
            let stopped = self.work(Some(pilot)).await?;
            if stopped != Stopped::Pilot {
                return Ok(Ended::Stopped(stopped));
            }
            self.map.flush()?;
            let estimate = self.map.estimate();
            if let Some(estimate) = &estimate {
                self.output.note(&estimated(estimate, self.free));
            }
            if self.max_cost.is_none() && !self.wants(estimate.as_ref()) {
                return Ok(self.unwanted());
            }
        } else if pilot == 0 && missing > 0 && self.max_cost.is_none() && !self.wants(None) {
            return Ok(self.unwanted());
        }
        Ok(Ended::Stopped(self.work(None).await?))
    }

    async fn work(&mut self, most: Option<u64>) -> Result<Stopped, Problem> {
        let progress = Progress::show(self.board.clone(), self.output);
        let stopped = self.map.work(most).await;
        progress.end();
        stopped
    }

    /// Asks if the remaining rows are to run.
    fn wants(&self, estimate: Option<&Estimate>) -> bool {
        let Some(terminal) = &self.terminal else { return false };
        let counts = self.board.counts();
        let rest = counts.rows.saturating_sub(counts.ended());
        let cost = match estimate.map(|estimate| estimate.dollars) {
            Some(Some(dollars)) => format!(" for {}", range(dollars)),
            _ => String::new(),
        };
        let other = if estimate.is_some() { "the other " } else { "" };
        let question = format!("Run {other}{}{cost}?\n", rows(rest));
        let _paused = self.output.screen.pause();
        let keys = [('y', "yes"), ('n', "no")];
        let asked = |withdrawal| {
            *self.question.lock() = Some(withdrawal);
            // A signal may have come before.
            if self.stop.is_on() {
                self.question.withdraw();
            }
        };
        let chosen = terminal.choose_while(move |_| question.clone(), &keys, self.output.err, asked);
        self.question.lock().take();
        chosen == Some('y')
    }

    /// Returns the end of the work if the remaining rows are not to run.
    fn unwanted(&self) -> Ended {
        if self.stop.is_on() { Ended::Stopped(Stopped::Interrupted) } else { Ended::Declined }
    }

    /// Writes the output, and shows the result.
    fn publish(self, ended: Result<Ended, Problem>) -> Result<Exit, NotReady> {
        let Self { map, board, output, .. } = self;
        let ended = match ended {
            Ok(ended) => ended,
            Err(problem @ Problem::Prompt(_)) => return Err(not_ready(problem)),
            Err(problem) => {
                // What is done is seen, too.
                if matches!(problem, Problem::Refused(_))
                    && let Err(problem) = map.publish()
                {
                    return Ok(stopped_by(not_published(&problem), &board.counts(), output));
                }
                return Ok(stopped_by(complaint(&problem), &board.counts(), output));
            }
        };
        let summary = match map.publish() {
            Ok(summary) => summary,
            Err(problem) => return Ok(stopped_by(not_published(&problem), &board.counts(), output)),
        };
        let (exit, status) = match ended {
            Ended::Declined => (Exit::Refused, "declined"),
            Ended::Stopped(Stopped::Interrupted) => (Exit::Interrupted, "interrupted"),
            Ended::Stopped(Stopped::MaxCost) => (Exit::Limit, "max_cost"),
            Ended::Stopped(Stopped::UnknownCost) => (Exit::Limit, "unknown_cost"),
            Ended::Stopped(Stopped::MaxFailures) => (Exit::Limit, "max_failures"),
            Ended::Stopped(Stopped::Done | Stopped::Pilot) if summary.counts.failed > 0 => {
                (Exit::Failed, "failed")
            }
            Ended::Stopped(Stopped::Done | Stopped::Pilot) => (Exit::Done, "done"),
        };
        if output.format == Format::Text {
            let stopped = match status {
                "max_cost" => Some("one more row could cost more than --max-cost allows"),
                "unknown_cost" => {
                    Some("the cost of a row is unknown, because the model reported no token counts")
                }
                "max_failures" => Some("more rows failed than --max-failures allows"),
                _ => None,
            };
            if let Some(why) = stopped {
                output.line(&format!("stopped: {why}"));
            }
            output.print(&told(&summary, status));
        } else {
            output.print_json(&as_json(&summary, status));
        }
        Ok(exit)
    }
}

/// Returns an error for output that could not be written. The rows have run, so the command line was not wrong.
fn not_published(problem: &Problem) -> Complaint {
    Complaint { hints: problem.hints(), ..Complaint::failed(problem.to_string()) }
}

/// Shows the reason why a map stopped, with the rows that have ended: unlike a map that has not started, this one has
/// had effects.
fn stopped_by(complaint: Complaint, counts: &Counts, output: &Output) -> Exit {
    output.screen.line(&complaint.render(output.err));
    if output.format != Format::Text {
        let Complaint { message, hints, .. } = &complaint;
        output.print_json(&json!({
            "status": "error",
            "rows": rows_as_json(counts),
            "usage": counts.usage,
            "error": {"message": message, "hints": hints},
        }));
    }
    Exit::Failed
}

fn told(summary: &Summary, status: &str) -> String {
    let Summary { counts, outputs, failures } = summary;
    let mut text = format!("{}: {} done", rows(counts.rows), counts.done);
    if counts.done_before > 0 {
        _ = write!(text, " ({} before)", counts.done_before);
    }
    if counts.failed > 0 {
        _ = write!(text, ", {} failed", counts.failed);
    }
    let missing = counts.rows - counts.ended();
    if missing > 0 {
        _ = write!(text, ", {missing} missing");
    }
    if let Some(used) = used(counts) {
        _ = write!(text, "; {used}");
    }
    _ = writeln!(text, "\noutput:   {}", outputs.display());
    if let Some(failures) = failures {
        _ = writeln!(text, "failures: {}", failures.display());
    }
    if missing > 0 {
        text.push_str(match status {
            "max_failures" => "to run the missing rows, raise --max-failures or run the failed rows again with --retry-failed\n",
            "unknown_cost" => "to run the missing rows, accept any cost: --max-cost unlimited\n",
            _ => "the same command again runs the missing rows\n",
        });
    }
    text
}

/// Formats the tokens and the cost of this command, as far as they are known.
fn used(counts: &Counts) -> Option<String> {
    match counts.usage.cost_usd {
        Some(cost) => Some(cost.to_string()),
        None => {
            Some(counts.usage.total()).filter(|tokens| *tokens > 0).map(|tokens| format!("{tokens} tokens"))
        }
    }
}

fn as_json(summary: &Summary, status: &str) -> Value {
    let Summary { counts, outputs, failures } = summary;
    json!({
        "status": status,
        "rows": rows_as_json(counts),
        "usage": counts.usage,
        "seconds": counts.worked().as_secs_f64(),
        "refused_requests": counts.refused,
        "outputs": outputs,
        "failures": failures,
    })
}

fn rows_as_json(counts: &Counts) -> Value {
    json!({
        "all": counts.rows,
        "done": counts.done,
        "failed": counts.failed,
        "missing": counts.rows.saturating_sub(counts.ended()),
        "before": counts.before,
    })
}

fn estimated(estimate: &Estimate, free: bool) -> String {
    let Estimate { measured, rows: left, tokens, dollars } = estimate;
    let cost = match dollars {
        Some(dollars) => range(*dollars),
        None if free && tokens.high == 0.0 => "nothing".into(),
        None if free => format!("{:.0} to {:.0} tokens, at no cost", tokens.low, tokens.high),
        None if tokens.high == 0.0 => "an unknown amount: the model does not count tokens".into(),
        None => format!("{:.0} to {:.0} tokens, at a price that is not known", tokens.low, tokens.high),
    };
    format!("judged by {}, the other {left} will use {cost}", rows(*measured))
}

fn range(Range { low, mean, high }: Range) -> String {
    let dollars = |amount: f64| Usd::dollars(amount).unwrap_or(Usd::ZERO);
    match high > 0.0 {
        true => format!("{} to {}, about {}", dollars(low), dollars(high), dollars(mean)),
        false => "nothing".into(),
    }
}

fn rows(count: u64) -> String {
    if count == 1 { "1 row".into() } else { format!("{count} rows") }
}
