//! `llm-do skill`: the skill that teaches coding agents llm-do, which is part of the program.

use crate::{
    args::{Format, SkillInstallArgs},
    exit::{Complaint, Exit},
    program::quoted,
    render::Output,
};
use llm_do::check_named;
use llm_do_packages::skill::{self, Installed};
use serde_json::json;

/// The paths and the texts of the skill's files.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/skill.rs"));

/// The name of the skill, and of its folder.
const NAME: &str = "llm-do";

/// Writes the skill.
pub(crate) fn install(args: &SkillInstallArgs, output: &Output) -> Result<Exit, Complaint> {
    let target = args.to.join(NAME);
    let installed =
        check_named(&target).and_then(|()| skill::install(FILES, &args.to, NAME, args.replace)).map_err(
            |error| Complaint::failed(format!("`{}` can't be written: {error}", target.display())),
        )?;
    let result = match installed {
        Installed::UpToDate => "is up to date",
        Installed::Written => "written",
        Installed::Replaced => "replaced",
        Installed::Differs => {
            return Err(Complaint::wrong(format!("`{}` exists and differs", target.display())).hint(
                format!(
                    "to replace it: llm-do skill install --to {} --replace",
                    quoted(&args.to.display().to_string())
                ),
            ));
        }
    };
    match output.format {
        Format::Text if !output.quiet => output.screen.line(&format!("{}: {result}", target.display())),
        Format::Text => {}
        _ => output.print_json(&json!({"skill": target, "result": result})),
    }
    Ok(Exit::Done)
}
