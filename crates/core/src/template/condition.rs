//! Conditions: boolean expressions in the language of templates.

use super::{
    NoTemplates, Origin, Settings, environment, inspect, instrument::Instrumented, texts::Texts, to_value,
};
use minijinja::Error;
use std::sync::Arc;

/// Maximum length of a condition, in bytes.
const LONGEST: usize = 2000;

/// Checks that a text is a condition over these variables and no others.
///
/// # Errors
/// The text is not a valid condition; the error describes the problem for its author.
pub fn check_condition(text: &str, variables: &[&str]) -> Result<(), String> {
    if text.len() > LONGEST {
        return Err(format!("it is longer than {LONGEST} bytes"));
    }
    // Checked as a template first, which limits the nesting of an expression before anything parses it.
    let facts =
        inspect(&format!("{{{{ {text} }}}}"), &Origin::file("")).map_err(|error| error.message.clone())?;
    let texts = nothing();
    environment(&texts, Settings::default())
        .compile_expression(&Instrumented::expression(text).text)
        .map_err(|error| told(&error))?;
    if !facts.files.is_empty() || !facts.templates.is_empty() {
        return Err("it can't read files".into());
    }
    match facts.variables.keys().find(|name| !variables.contains(&name.as_str())) {
        Some(name) => {
            let known: Vec<String> = variables.iter().map(|name| format!("`{name}`")).collect();
            Err(format!("there is no `{name}`; there are {}", known.join(" and ")))
        }
        None => Ok(()),
    }
}

/// Returns true if a condition holds. Bounded in steps, like a rendering.
///
/// # Errors
/// The condition can't be evaluated; the error has the reason.
pub fn holds(text: &str, variables: &serde_json::Value) -> Result<bool, String> {
    let texts = nothing();
    let environment = environment(&texts, Settings::default());
    let text = Instrumented::expression(text).text;
    let value =
        environment.compile_expression(&text).and_then(|condition| condition.eval(to_value(variables)));
    value.map(|value| value.is_true()).map_err(|error| told(&error))
}

fn nothing() -> Arc<Texts> {
    Arc::new(Texts::new("", &Origin::file(""), Arc::new(NoTemplates), Settings::default().output))
}

fn told(error: &Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn conditions_hold_or_dont_or_cant_be_told() {
        let values = json!({"input": {"most": 3}, "output": {"items": [1, 2], "title": "A b"}});
        for (text, expected) in [
            ("output.items | length <= input.most", Ok(true)),
            ("output.items | length == 3", Ok(false)),
            ("'b' in output.title and output.title.startswith('A')", Ok(true)),
            ("output.items | sum == 3", Ok(true)),
            ("output.missing is undefined", Ok(true)),
            ("output.missing", Ok(false)),
        ] {
            assert_eq!(check_condition(text, &["input", "output"]), Ok(()), "{text}");
            assert_eq!(holds(text, &values), expected, "{text}");
        }
        assert!(holds("output.missing.more > 3", &values).is_err());
        assert!(holds("range(10000000) | list | length > 1", &values).is_err(), "it ends");
    }

    #[test]
    fn what_is_no_condition_is_refused() {
        let deep = format!("{}1{}", "(".repeat(500), ")".repeat(500));
        let long = "1 + ".repeat(600) + "1";
        for text in [
            "",
            "output >",
            "output }} {{ input",
            "outptu == 1",
            "file('x') == 'y'",
            "output | nope",
            &deep,
            &long,
        ] {
            assert!(check_condition(text, &["input", "output"]).is_err(), "{text}");
        }
        let told = check_condition("outptu == 1", &["input", "output"]).unwrap_err();
        assert_eq!(told, "there is no `outptu`; there are `input` and `output`");
    }
}
