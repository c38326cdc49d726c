//! Renaming.

use super::{
    FileKind, Named, Symbols,
    jinja::{self, WordKind},
    navigate::{declared, of_file, of_parameter, of_worker, schema_file, variables},
};
use crate::{
    diagnostics::Edit,
    fence,
    resolve::{PackageId, without_extension},
    source::{Kind, folder_of, join},
    span::{SourceFile, Span},
    yaml::scalar,
};

/// The changes of a renaming.
#[derive(Debug, Default)]
pub struct Renamed {
    /// The edits, of any number of files.
    pub edits: Vec<Edit>,
    /// Files to move, as old and new paths relative to the root.
    pub files: Vec<(String, String)>,
}

/// Renames a worker of the program, a parameter, a template or a schema.
///
/// # Errors
/// The reason why it can't be renamed.
pub fn rename(symbols: &Symbols<'_>, named: &Named, new: &str) -> Result<Renamed, String> {
    match named {
        Named::Worker(name) => rename_worker(symbols, name, new),
        Named::Parameter { worker, name } => rename_parameter(symbols, worker, name, new),
        Named::File(path) => rename_file(symbols, path, new),
        Named::Tool { .. } | Named::Code { .. } => {
            Err("only workers, parameters, templates and schemas can be renamed".into())
        }
    }
}

/// Renames a template or a schema in its folder.
fn rename_file(symbols: &Symbols<'_>, path: &str, new: &str) -> Result<Renamed, String> {
    let (folder, old) = (folder_of(path), path.rsplit('/').next().unwrap_or(path));
    let ending = old.rsplit_once('.').map_or("", |(_, ending)| ending);
    if ending != "json" && FileKind::of(path) != Some(FileKind::Template) {
        return Err("only workers, parameters, templates and schemas can be renamed".into());
    }
    if !matches!(symbols.tree().kind(path), Ok(Some(Kind::File))) {
        return Err("a file of a library can't be renamed here".into());
    }
    let valid = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    let stem = new.strip_suffix(ending).and_then(|stem| stem.strip_suffix('.'));
    if !new.chars().all(valid) || stem.is_none_or(|stem| stem.is_empty() || stem.starts_with('.')) {
        return Err(format!(
            "`{new}` is not the name of the file: use letters, digits, `_` and `-`, and the ending `.{ending}`"
        ));
    }
    let to = join(folder, new);
    if !matches!(symbols.tree().kind(&to), Ok(None)) {
        return Err(format!("there is a file `{to}` already"));
    }
    if let Some(worker) = symbols.workers().find(|worker| &**worker.effective.text.path() == path) {
        return Err(format!(
            "the file has the instructions of the worker `{}`, which find it by its name",
            worker.name()
        ));
    }
    let mut edits = Vec::new();
    for span in of_file(symbols, path) {
        let written = span.text();
        let quote = written.chars().next().filter(|c| matches!(c, '"' | '\''));
        let inside = written.trim_matches(['"', '\'']);
        let place = span.file().path();
        let kept = inside.strip_suffix(old).filter(|kept| kept.is_empty() || kept.ends_with('/'));
        let kept =
            kept.ok_or_else(|| format!("`{inside}` in {place} names it in a way that can't be changed"))?;
        let name = format!("{kept}{new}");
        // The new name must not be that of another file, which is found first.
        let other = match ending {
            "json" => schema_file(symbols, place, &name),
            _ => symbols.template(place, &name).map(|template| template.origin),
        };
        if let Some(other) = other {
            return Err(format!("`{name}` in {place} would name `{other}`"));
        }
        let quote = quote.map(String::from).unwrap_or_default();
        edits.push(Edit { span, text: format!("{quote}{name}{quote}") });
    }
    Ok(Renamed { edits, files: vec![(path.to_owned(), to)] })
}

fn rename_worker(symbols: &Symbols<'_>, name: &str, new: &str) -> Result<Renamed, String> {
    let worker = symbols.worker(name).ok_or("there is no such worker")?;
    let located = &worker.effective.located;
    if located.package != PackageId::PROGRAM {
        return Err("a worker of a library can't be renamed here".into());
    }
    let valid = |c: char| c.is_alphanumeric() || "_-./".contains(c);
    if new.is_empty() || !new.chars().all(valid) || new.split('/').any(|part| matches!(part, "" | "." | ".."))
    {
        return Err(format!("`{new}` is not the name of a worker: use letters, digits, `_`, `-` and `/`"));
    }
    if symbols.resolve(PackageId::PROGRAM, new).is_some() {
        return Err(format!("there is a worker `{new}` already"));
    }
    let old_path = &located.path;
    let stem = without_extension(old_path).ok_or("its file has no name")?;
    let below = stem.strip_suffix("/worker").filter(|_| old_path.ends_with("/worker.worker"));
    let front = below.unwrap_or(stem).strip_suffix(located.id.as_str()).ok_or("its file has another name")?;
    let tail = &old_path[below.unwrap_or(stem).len()..];
    let new_path = format!("{front}{new}{tail}");
    let mut edits = Vec::new();
    for span in of_worker(symbols, name) {
        let written = span.text().trim_matches(['"', '\'']);
        let text = if written == located.id {
            new.to_owned()
        } else {
            let changed = written.trim_start_matches("./");
            let prefix = &written[..written.len() - changed.len()];
            match changed {
                path if path == old_path => format!("{prefix}{new_path}"),
                path if path == stem => format!("{prefix}{front}{new}"),
                _ => {
                    return Err(format!(
                        "`{written}` in {} names it in a way that can't be changed",
                        span.file().path()
                    ));
                }
            }
        };
        edits.push(Edit { span, text: scalar(&text) });
    }
    let mut files = vec![(old_path.clone(), new_path)];
    for case in &symbols.checked().files.cases {
        let own = [format!("{stem}.cases.yaml"), format!("tests/{}.cases.yaml", located.id)];
        if own.contains(&case.path) {
            let moved =
                case.path.strip_suffix(".cases.yaml").and_then(|it| it.strip_suffix(located.id.as_str()));
            files.extend(moved.map(|front| (case.path.clone(), format!("{front}{new}.cases.yaml"))));
        }
    }
    Ok(Renamed { edits, files })
}

fn rename_parameter(symbols: &Symbols<'_>, worker: &str, name: &str, new: &str) -> Result<Renamed, String> {
    let worker = symbols.worker(worker).ok_or("there is no such worker")?;
    if worker.effective.located.package != PackageId::PROGRAM {
        return Err("a parameter of a library's worker can't be renamed here".into());
    }
    let is_word = new.chars().all(|c| c.is_alphanumeric() || c == '_')
        && !new.starts_with(|c: char| c.is_ascii_digit());
    if new.is_empty() || !is_word {
        return Err(format!("`{new}` is not the name of a parameter: use letters, digits and `_`"));
    }
    if worker.definition().signature.parameters.iter().any(|parameter| *parameter.name == *new) {
        return Err(format!("there is a parameter `{new}` already"));
    }
    if declared(worker, name).is_none() {
        return Err(format!("`{name}` is not declared in this file"));
    }
    let mut seen = Vec::new();
    if let Some(template) = reads(symbols, worker.file().path(), &worker.effective.text, name, &mut seen) {
        return Err(format!(
            "the template `{template}` reads `{name}` too, and other workers may include it"
        ));
    }
    let edits = of_parameter(symbols, worker, name).into_iter();
    let quoted = |span: &Span| span.text().starts_with(['"', '\'']);
    let edits = edits.map(|span| {
        let text = if quoted(&span) { format!("\"{new}\"") } else { new.to_owned() };
        Edit { text, span }
    });
    Ok(Renamed { edits: edits.collect(), files: Vec::new() })
}

/// Returns the first template below a text that reads a variable.
fn reads(
    symbols: &Symbols<'_>,
    path: &str,
    file: &SourceFile,
    name: &str,
    seen: &mut Vec<String>,
) -> Option<String> {
    let text = file.text();
    let body = if fence::keys_end(text).is_some() { FileKind::Worker.parts(text).1 } else { 0..text.len() };
    for word in jinja::words(text, body) {
        if word.kind != WordKind::Text {
            continue;
        }
        let Some(template) = symbols.template(path, text[word.range].trim_matches(['"', '\''])) else {
            continue;
        };
        if seen.contains(&template.origin) {
            continue;
        }
        seen.push(template.origin.clone());
        let below = SourceFile::new(template.origin.as_str(), template.text);
        if !variables(&below, name).is_empty() {
            return Some(template.origin);
        }
        if let Some(found) = reads(symbols, path, &below, name, seen) {
            return Some(found);
        }
    }
    None
}
