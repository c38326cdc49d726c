//! `llm-do doctor`: what this machine has of what runs need.

use crate::{args::Format, exit::Complaint, program::home, render::Output, visible};
use llm_do::{
    Environment, PythonFor,
    confine::{self, Tier},
    models::Providers,
    place_of,
};

use serde_json::{Value, json};
use std::{path::Path, sync::Arc};

/// One thing that was looked at.
struct Finding {
    what: &'static str,
    works: bool,
    found: String,
}

/// Carries out the command. It reports missing things, which are no error: not every program needs them.
pub(crate) fn run(target: Option<&Path>, output: &Output) -> Result<(), Complaint> {
    let folder = target.unwrap_or(Path::new("."));
    let project =
        place_of(folder).map_err(|error| Complaint::wrong(format!("`{}`: {error}", folder.display())))?;
    let environment: Environment = Arc::new(|name| std::env::var(name).ok());
    let mut findings = confinement();
    findings.push(python(&project, &environment));
    findings.extend(models(&environment));
    if output.format == Format::Text {
        for Finding { what, works, found } in &findings {
            let mark = if *works { output.out.green("ok     ") } else { output.out.yellow("missing") };
            output.print(&format!("{mark}  {what:<12}  {}\n", visible::line(found)));
        }
    } else {
        let all: Vec<Value> = findings
            .iter()
            .map(|Finding { what, works, found }| json!({"what": what, "works": works, "found": found}))
            .collect();
        let tier = confine::probe().tier;
        output.print_json(&json!({"version": env!("CARGO_PKG_VERSION"), "tier": tier, "findings": all}));
    }
    Ok(())
}

/// The tier that processes run in, and its layers (docs/reference/sandbox.md).
fn confinement() -> Vec<Finding> {
    let probe = confine::probe();
    let found = match probe.tier {
        Some(Tier::Namespaces) => "tier A: processes run in namespaces of their own".to_owned(),
        Some(Tier::Landlock) => {
            "tier B: processes run under Landlock; a mount with something to hide is not \
                                 given to them"
                .to_owned()
        }
        Some(Tier::Seatbelt) => {
            "tier S, unverified: processes run in macOS's own sandbox; a mount with something to hide is not given to them"
                .to_owned()
        }
        None => "none: tools that are processes need `--grant unconfined`".to_owned(),
    };
    let whole = Finding { what: "confinement", works: probe.tier.is_some(), found };
    let layers = probe.layers.iter().map(|layer| Finding {
        what: layer.name,
        works: layer.works,
        found: layer.found.clone(),
    });
    std::iter::once(whole).chain(layers).collect()
}

fn python(project: &llm_do::core::authority::Place, environment: &Environment) -> Finding {
    let python =
        PythonFor { project, home: &home(), environment, confiner: Arc::default(), only_looks: true }
            .python();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let found = runtime
        .map_err(|error| error.to_string())
        .and_then(|runtime| runtime.block_on(python.interpreter()).map_err(|error| error.to_string()));
    match found {
        Ok(interpreter) => Finding { what: "python", works: true, found: interpreter.to_string() },
        Err(found) => Finding { what: "python", works: false, found },
    }
}

fn models(environment: &Environment) -> Vec<Finding> {
    let lookup = Arc::clone(environment);
    let providers = Providers::new(move |name| lookup(name));
    let keys: Vec<String> =
        providers.with_keys().iter().map(|(name, variable)| format!("{name} ({variable})")).collect();
    let found =
        if keys.is_empty() { "no provider has a key in the environment".to_owned() } else { keys.join(", ") };
    let default = match providers.default_model() {
        Some(chosen) => (true, format!("{}, since {}", chosen.name, chosen.because)),
        None => (false, "none, unless a program names one or a local model is here".to_owned()),
    };
    let mut findings = vec![
        Finding { what: "providers", works: !keys.is_empty(), found },
        Finding { what: "default", works: default.0, found: default.1 },
    ];
    findings.extend(local_models());
    findings
}

/// The local models that are here.
#[cfg(feature = "local")]
fn local_models() -> Option<Finding> {
    let store = crate::opening::store();
    let names: Vec<String> =
        store.list().ok()?.into_iter().map(|model| format!("local:{}", model.name)).collect();
    let found = match names.is_empty() {
        true => format!("none in {}: `llm-do models pull` fetches one", store.dir().display()),
        false => names.join(", "),
    };
    Some(Finding { what: "local", works: !names.is_empty(), found })
}

#[cfg(not(feature = "local"))]
fn local_models() -> Option<Finding> {
    Some(Finding { what: "local", works: false, found: "this build runs no local models".to_owned() })
}
