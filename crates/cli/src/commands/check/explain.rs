//! `check --explain`: the pages on the codes.

use crate::{
    args::Format,
    exit::{Complaint, Exit},
    markdown,
    render::Output,
};
use llm_do::program::diagnostics::{
    Code,
    codes::{self, ALL},
    nearest,
};
use serde_json::{Value, json};

/// Shows the page of a code, or all codes where none is named.
pub(crate) fn explain(code: &str, output: &Output) -> Result<Exit, Complaint> {
    if code.is_empty() {
        list(output);
        return Ok(Exit::Done);
    }
    let found = codes::Code::find(code).ok_or_else(|| unknown(code))?;
    match output.format {
        Format::Text if output.out_terminal => output.print(&markdown::styled(found.page(), output.out)),
        Format::Text => output.print(found.page()),
        _ => {
            let mut one = as_json(found);
            one["page"] = found.page().into();
            output.print_json(&one);
        }
    }
    Ok(Exit::Done)
}

fn list(output: &Output) {
    if output.format != Format::Text {
        output.print_json(&json!({ "codes": ALL.iter().copied().map(as_json).collect::<Vec<_>>() }));
        return;
    }
    let lines: String =
        ALL.iter().map(|code| format!("{}  {}\n", output.out.bold(code.id), code.title)).collect();
    output.print(&lines);
}

fn as_json(code: Code) -> Value {
    json!({ "code": code.id, "title": code.title })
}

fn unknown(code: &str) -> Complaint {
    let complaint = Complaint::wrong(format!("there is no code `{code}`"));
    let near = nearest(code, ALL.iter().map(|code| code.id));
    let near: Vec<String> =
        near.iter().filter_map(|id| Code::find(id)).map(|code| format!("{code} ({})", code.title)).collect();
    match near.as_slice() {
        [] => complaint.hint("`llm-do check --explain` lists all codes"),
        near => complaint.hint(format!("did you mean {}?", near.join(" or "))),
    }
}
