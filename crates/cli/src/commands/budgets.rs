//! `llm-do budgets`: the budgets over time, and their use (docs/guides/budgets.md).

use crate::{
    args::Format,
    exit::Exit,
    program::{home, show_problem},
    render::Output,
    visible,
};
use llm_do::{BudgetState, BudgetsOverTime, Problem, core::price::Usd};
use serde_json::{Map, Value, json};

/// Shows the state of every budget.
pub(crate) fn run(output: &Output) -> Exit {
    match shown(output) {
        Ok(()) => Exit::Done,
        Err(problem) => show_problem(&problem, output),
    }
}

fn shown(output: &Output) -> Result<(), Problem> {
    let home = home();
    let budgets = BudgetsOverTime::read(&home, std::env::home_dir().as_deref())?;
    let states = budgets.states()?;
    budgets.warnings().iter().for_each(|warning| output.warn(warning));
    if output.format != Format::Text {
        output.print_json(&json!({ "budgets": states.iter().map(as_json).collect::<Vec<_>>() }));
        return Ok(());
    }
    if states.is_empty() {
        output.note(&format!(
            "there are no budgets over time: write them in {} (`llm-do docs budgets`)",
            home.join("budgets.yaml").display()
        ));
        return Ok(());
    }
    let head = ["BUDGET", "PER", "LIMIT", "USED", "RESERVED", "LEFT", "OPENS AGAIN"].map(str::to_owned);
    let mut rows = vec![head];
    states.iter().for_each(|state| rows.extend(lines(state)));
    let widths: [usize; 7] = std::array::from_fn(|column| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
    });
    for (number, row) in rows.iter().enumerate() {
        let cells: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        let line = format!("{}\n", cells.join("  ").trim_end());
        match number {
            0 => output.print(&output.out.dim(line).to_string()),
            _ => output.print(&line),
        }
    }
    Ok(())
}

/// Returns the name of a budget and of those that it counts.
fn name(state: &BudgetState) -> String {
    let name = match (&state.budget, &state.token) {
        (Some(budget), _) => visible::line(budget).into_owned(),
        (None, Some(token)) => format!("token {}", visible::line(token)),
        (None, None) => String::new(),
    };
    match state.program.as_deref() {
        None => name,
        Some("each") => format!("{name} (each program)"),
        Some(program) => format!("{name} ({})", visible::line(program)),
    }
}

/// Returns a line for each limit of a budget.
fn lines(state: &BudgetState) -> Vec<[String; 7]> {
    let (max, tokens) = (state.max, |count: u64| format!("{count} tokens"));
    let cost = max.max_cost_usd.map(|max| {
        let left = max.minus(state.used_cost).minus(state.reserved_cost);
        [max, state.used_cost, state.reserved_cost, left].map(|amount| amount.to_string())
    });
    let count = max.max_tokens.map(|max| {
        let left = max.saturating_sub(state.used_tokens).saturating_sub(state.reserved_tokens);
        [max, state.used_tokens, state.reserved_tokens, left].map(tokens)
    });
    let opens = state.opens_again.as_ref().map(|time| time.strftime("%Y-%m-%d %H:%M %:z").to_string());
    cost.into_iter()
        .chain(count)
        .map(|[max, used, reserved, left]| {
            let opens = opens.clone().unwrap_or_default();
            [name(state), state.period.name().to_owned(), max, used, reserved, left, opens]
        })
        .collect()
}

fn as_json(state: &BudgetState) -> Value {
    let mut fields = Map::new();
    let mut set = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            fields.insert(key.to_owned(), value);
        }
    };
    set("budget", state.budget.as_deref().map(Value::from));
    set("token", state.token.as_deref().map(Value::from));
    set("program", state.program.as_deref().map(Value::from));
    set("per", Some(state.period.name().into()));
    set("period", Some(state.current.as_str().into()));
    let dollars = |amount: Usd| Some(json!(amount));
    if let Some(max) = state.max.max_cost_usd {
        set("max_cost_usd", dollars(max));
        set("used_cost_usd", dollars(state.used_cost));
        set("reserved_cost_usd", dollars(state.reserved_cost));
        set("left_cost_usd", dollars(max.minus(state.used_cost).minus(state.reserved_cost)));
    }
    if let Some(max) = state.max.max_tokens {
        set("max_tokens", Some(max.into()));
        set("used_tokens", Some(state.used_tokens.into()));
        set("reserved_tokens", Some(state.reserved_tokens.into()));
        let left = max.saturating_sub(state.used_tokens).saturating_sub(state.reserved_tokens);
        set("left_tokens", Some(left.into()));
    }
    let opens = state.opens_again.as_ref();
    set("opens_again", opens.map(|time| time.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string().into()));
    Value::Object(fields)
}
