//! `llm-do prices`: the prices and sizes of models that this program knows (docs/guides/models.md).

use crate::{args::Format, exit::Complaint, program::home, render::Output};
use llm_do::{
    core::{model::Terms, price::Usd},
    models::PriceList,
    user_config,
};
use serde_json::{Value, json};

/// Lists the models whose names begin with `start`, the user's own first.
pub(crate) fn list(start: Option<&str>, output: &Output) -> Result<(), Complaint> {
    let own = user_config(&home()).map_err(|problem| Complaint::wrong(problem.to_string()))?.prices;
    let built_in = PriceList::built_in();
    let start = start.unwrap_or_default();
    let wanted = |(name, _): &&(String, Terms)| name.starts_with(start);
    let own: Vec<&(String, Terms)> = own.iter().filter(wanted).collect();
    let listed: Vec<&(String, Terms)> = built_in.models.iter().filter(wanted).collect();
    if own.is_empty() && listed.is_empty() {
        return Err(Complaint::wrong(format!("no model begins with `{start}`"))
            .hint("`llm-do prices list` lists all; names have the form provider:model")
            .hint("add a price under `prices` in config.yaml: `llm-do docs models`"));
    }
    if output.format != Format::Text {
        let rows = |rows: &[&(String, Terms)]| -> serde_json::Map<String, Value> {
            rows.iter().map(|(name, terms)| (name.clone(), as_json(terms))).collect()
        };
        output.print_json(&json!({
            "package": built_in.package,
            "read": built_in.read,
            "yours": rows(&own),
            "models": rows(&listed),
        }));
        return Ok(());
    }
    let names = own.iter().chain(&listed).map(|(name, _)| name.len());
    let width = names.max().unwrap_or_default().clamp("MODEL".len(), 60);
    let head =
        format!("{:width$}  {:>9}  {:>9}  {:>9}  {:>9}\n", "MODEL", "INPUT", "CACHED", "OUTPUT", "WINDOW");
    output.print(&output.out.dim(head).to_string());
    for (name, terms) in &own {
        output.print(&row(name, terms, width, "  yours"));
    }
    for (name, terms) in &listed {
        output.print(&row(name, terms, width, ""));
    }
    output.note(&format!(
        "US dollars for a million tokens; a window is the most tokens of one request; {} of {}",
        built_in.package, built_in.read
    ));
    if listed.iter().any(|(_, terms)| terms.price.is_some_and(|price| price.above.is_some())) {
        output.note("+: longer requests cost more (`--json` has the prices)");
    }
    Ok(())
}

fn row(name: &str, terms: &Terms, width: usize, whose: &str) -> String {
    let dollars = |amount: Option<Usd>| amount.map_or("-".into(), |amount| amount.as_dollars().to_string());
    let price = terms.price;
    let more = if price.is_some_and(|price| price.above.is_some()) { "+" } else { "" };
    let input = format!("{}{more}", dollars(price.map(|price| price.input)));
    let cached = dollars(price.and_then(|price| price.cached_input));
    let produced = format!("{}{more}", dollars(price.map(|price| price.output)));
    let window = terms.context.map_or("-".into(), |tokens| tokens.to_string());
    format!("{name:width$}  {input:>9}  {cached:>9}  {produced:>9}  {window:>9}{whose}\n")
}

/// Returns a model's terms in the form that `prices` of the user's configuration takes.
fn as_json(terms: &Terms) -> Value {
    let mut fields = match terms.price.map(|price| json!(price)) {
        Some(Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    if let Some(tokens) = terms.max_output {
        fields.insert("max_output".into(), tokens.into());
    }
    if let Some(tokens) = terms.context {
        fields.insert("context".into(), tokens.into());
    }
    Value::Object(fields)
}
