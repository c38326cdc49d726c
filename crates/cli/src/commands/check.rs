//! `llm-do check`: loads a program and reports what is wrong with it, and runs nothing (SPEC §5).

use crate::{
    args::{Format, ProgramArgs},
    exit::{Complaint, Exit},
    program::{findings, looked_at, surroundings},
    render::Output,
};
use llm_do::{
    core::toolset::ToolsetRegistry,
    models::Providers,
    program::{Diagnostic, Program, diagnostics::json::to_json, target},
};

/// Carries out the command: exit code 2 if the program does not load.
pub(crate) fn run(program: &ProgramArgs, output: &Output) -> Result<Exit, Complaint> {
    let request = looked_at(program);
    let around =
        surroundings().map_err(|error| Complaint::wrong(format!("no current directory: {error}")))?;
    let mut providers: Vec<String> =
        Providers::new(|_| None).names().into_iter().map(str::to_owned).collect();
    providers.push("local".into());
    let found = match target::find(&request, &around) {
        Err(found) => found.0,
        Ok(target) => {
            let mut found = target.warnings;
            let host = request.host(&around, ToolsetRegistry::built_in(), providers);
            match Program::load(target.source, host) {
                Ok(loaded) => found.extend(loaded.warnings),
                Err(more) => found.extend(more.0),
            }
            found
        }
    };
    let errors = found.iter().filter(|finding| finding.is_error()).count();
    if output.format == Format::Text {
        output.print(&findings(&found, output.out));
        summary(&found, errors, output);
    } else {
        output.print_json(&to_json(&found));
    }
    Ok(if errors > 0 { Exit::Wrong } else { Exit::Done })
}

fn summary(found: &[Diagnostic], errors: usize, output: &Output) {
    if output.quiet {
        return;
    }
    let warnings = found.len() - errors;
    let many = |number: usize, noun: &str| format!("{number} {noun}{}", if number == 1 { "" } else { "s" });
    let line = match (errors, warnings) {
        (0, 0) => output.err.green("nothing is wrong").to_string(),
        (0, warnings) => format!("it loads; {}", many(warnings, "warning")),
        (errors, 0) => format!("it does not load: {}", many(errors, "error")),
        (errors, warnings) => {
            format!("it does not load: {}, {}", many(errors, "error"), many(warnings, "warning"))
        }
    };
    output.screen.line(&line);
}
