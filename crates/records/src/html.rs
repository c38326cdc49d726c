//! A run as one self-contained HTML page: it needs no network and no other file. All content is readable without
//! scripting; the script only opens many calls at once and filters them.
//!
//! The page shows text of models, tools and documents, which may be hostile. [`markup`] escapes all of it. As a second
//! line of defence, the page's content security policy allows only the page's own script and style sheet, by their
//! hashes.

mod calls;
mod conversation;
mod detail;
mod markup;
mod template;
mod value;

pub use template::page_from;

use crate::{
    render::Tone,
    render::{duration, moment, thousands, tone_of},
    run_state::{Open, RunState},
    tree::{CallNode, CallState, WaitsFor},
    whole::WholeRun,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use llm_do_core::{
    gate::{Mode, Rule},
    journal::{Record, RecordKind, RunStatus, UsedDefinition},
};
use markup::Markup;
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");

/// Makes the page of a run.
pub fn page(run: &WholeRun) -> String {
    let tree = run.tree();
    let mut style = Markup::default();
    style.ours(STYLE);
    calls::lines(&mut style, run);
    let mut m = Markup::default();
    m.ours("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n");
    let policy = format!(
        "default-src 'none'; img-src data:; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        hash(style.as_str()),
        hash(SCRIPT)
    );
    m.start("meta", &[("http-equiv", "Content-Security-Policy"), ("content", &policy)]);
    m.ours("\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    m.ours("<meta name=\"color-scheme\" content=\"light dark\"><meta name=\"referrer\" content=\"no-referrer\">\n");
    m.with("title", &[], |m| m.text(&format!("{} · {} · {}", tree.entry, tree.state_in_words(), tree.run)));
    m.ours("<style>");
    m.add(&style);
    m.ours("</style></head>\n<body>\n");
    header(&mut m, run);
    result(&mut m, run);
    calls::section(&mut m, run);
    program(&mut m, run.records());
    footer(&mut m, run.records());
    m.ours("<script>");
    m.ours(SCRIPT);
    m.ours("</script>\n</body></html>\n");
    m.finish()
}

fn hash(text: &str) -> String {
    STANDARD.encode(Sha256::digest(text))
}

fn header(m: &mut Markup, run: &WholeRun) {
    let tree = run.tree();
    m.ours("<header>");
    m.class("p", "over", |m| {
        m.ours("llm-do run ");
        m.with("code", &[], |m| m.text(&tree.run));
    });
    m.with("h1", &[], |m| {
        m.text(&tree.entry);
        m.ours(" ");
        let class = format!("badge {}", class_of(tone_of(tree.state)));
        m.with("span", &[("class", &class)], |m| m.text(tree.state_in_words()));
    });
    m.class("p", "dim", |m| {
        if *tree.target != *tree.entry {
            m.with("code", &[], |m| m.text(&tree.target));
            m.ours(" · ");
        }
        m.text(&moment(tree.started_ms));
        if let Some(mode) = run.records().iter().find_map(approval) {
            m.ours(" · approvals: ");
            m.text(mode);
        }
    });
    let sum = Sum::of(&tree.calls);
    let tokens = |count: Option<u64>| count.map_or_else(|| "?".to_owned(), thousands);
    m.class("dl", "figures", |m| {
        figure(m, "time", &duration(tree.took_ms));
        figure(m, "calls", &thousands(sum.calls));
        figure(m, "model requests", &thousands(sum.requests));
        figure(m, "tokens in", &tokens(tree.usage.input_tokens));
        if let Some(cached) = tree.usage.cached_tokens.filter(|cached| *cached > 0) {
            figure(m, "of these cached", &thousands(cached));
        }
        figure(m, "tokens out", &tokens(tree.usage.output_tokens));
        if let Some(cost) = tree.usage.cost_usd {
            figure(m, "cost", &cost.to_string());
        }
        for (name, count) in [("approved", sum.approved), ("refused", sum.refused), ("failed", sum.failed)] {
            if count > 0 {
                figure(m, name, &thousands(count));
            }
        }
        if sum.waited_ms >= 1000 {
            figure(m, "waited for answers", &duration(sum.waited_ms));
        }
    });
    m.ours("</header>\n");
}

fn figure(m: &mut Markup, name: &'static str, figure: &str) {
    m.with("div", &[], |m| {
        m.ours("<dt>");
        m.ours(name);
        m.ours("</dt>");
        m.with("dd", &[], |m| m.text(figure));
    });
}

/// The sums over all calls.
#[derive(Default)]
struct Sum {
    calls: u64,
    requests: u64,
    approved: u64,
    refused: u64,
    failed: u64,
    waited_ms: u64,
}

impl Sum {
    fn of(calls: &[CallNode]) -> Self {
        let mut sum = Self::default();
        let mut left: Vec<&CallNode> = calls.iter().collect();
        while let Some(call) = left.pop() {
            sum.calls += 1;
            sum.requests += u64::from(call.requests);
            sum.waited_ms = sum.waited_ms.saturating_add(call.waited_ms);
            let by_operator = call
                .verdict
                .as_ref()
                .is_some_and(|verdict| verdict.rule == Rule::PreApproved && verdict.by.is_operator());
            sum.approved += u64::from(by_operator);
            sum.refused += u64::from(call.state == CallState::Refused);
            sum.failed += u64::from(matches!(call.state, CallState::Failed | CallState::TimedOut));
            left.extend(&call.calls);
        }
        sum
    }
}

fn approval(record: &Record) -> Option<&'static str> {
    match &record.body {
        RecordKind::RunStarted { approval, .. } => Some(match approval {
            Mode::Interactive => "asked for",
            Mode::ApproveAll => "all given",
            Mode::AutoDeny => "all refused",
            Mode::Defer => "deferred",
        }),
        _ => None,
    }
}

fn result(m: &mut Markup, run: &WholeRun) {
    let tree = run.tree();
    m.ours("<section class=\"result\">");
    if let Some(output) = &tree.output {
        m.ours("<h2>Output</h2>");
        value::value(m, output);
    } else if let Some(failure) = &tree.failure {
        m.ours("<h2>Failure</h2>");
        detail::failure(m, failure);
    } else {
        m.class("p", "notice", |m| {
            m.ours(match tree.state {
                RunState::Ended(RunStatus::Suspended) => match tree.waits_for {
                    Some(WaitsFor::Approval) => "The run waits for an approval.",
                    Some(WaitsFor::Message) => "The run waits for the user's next message.",
                    Some(WaitsFor::Answer | WaitsFor::Settlement) | None => "The run waits for an answer.",
                },
                RunState::Open(Open::Running) => "The run had not ended when this page was made.",
                RunState::Open(Open::CutOff) => "The run was cut off.",
                RunState::Open(Open::Damaged) => "The run's journal is damaged.",
                RunState::Ended(_) => "The run ended without an output.",
            });
        });
    }
    if tree.torn {
        m.ours(
            "<p class=\"notice\">The last record was cut off while it was written and does not count.</p>",
        );
    }
    m.ours("</section>\n");
}

fn program(m: &mut Markup, records: &[Record]) {
    let mut definitions: Vec<&UsedDefinition> = Vec::new();
    for record in records {
        match &record.body {
            RecordKind::RunStarted { definitions: used, .. } => definitions.extend(used),
            RecordKind::Definition(used) => definitions.push(used),
            _ => {}
        }
    }
    if definitions.is_empty() {
        return;
    }
    m.ours("<section><h2>Program</h2>\n<p class=\"dim\">The workers that the run began with, as their files were.</p>");
    for used in definitions {
        m.class("details", "file", |m| {
            m.with("summary", &[], |m| {
                m.with("b", &[], |m| m.text(&used.worker));
                m.ours(" ");
                m.worded("code", "dim", &used.file);
            });
            value::text_block(m, &used.text);
            m.worded("p", "dim mono", &format!("sha256 {}", used.sha256));
        });
    }
    m.ours("</section>\n");
}

fn footer(m: &mut Markup, records: &[Record]) {
    m.ours("<footer>");
    for record in records {
        if let RecordKind::RunStarted { version, runtimes, requester, .. } = &record.body {
            m.text(&format!("llm-do {version}"));
            if let Some(requester) = requester {
                m.text(&format!(" · started by {requester}"));
            }
            for runtime in runtimes {
                m.text(&format!(" · {} {} ({})", runtime.name, runtime.version, runtime.confinement));
            }
        }
    }
    m.ours("</footer>\n");
}

/// Returns the class that gives text the colour of a tone.
fn class_of(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain | Tone::Strong => "plain",
        Tone::Dim => "dim",
        Tone::Good => "good",
        Tone::Notice => "notice",
        Tone::Bad => "bad",
    }
}
