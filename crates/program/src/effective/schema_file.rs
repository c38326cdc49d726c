//! Schemas in JSON files. See `docs/reference/worker-files.md`.

use crate::{
    context::Context,
    diagnostics::{Diagnostic, codes},
    front_matter,
    resolve::WorkerFile,
    source::{SourceTree, folder_of, join, plain},
    span::{SourceFile, Span},
    yaml::{self, Node},
};
use llm_do_core::schema::{Schema, subschemas};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Maximum number of files that one schema consists of.
const MOST_FILES: usize = 64;

impl Context<'_> {
    /// Reads the schema that a reference names: a file relative to the worker's file, else in the project's `schemas/`,
    /// or a Python class.
    pub(super) fn schema(
        &self,
        located: &WorkerFile,
        node: &Node,
        found: &mut Vec<Diagnostic>,
    ) -> Option<Value> {
        let text = node.as_text()?;
        if !text.ends_with(".json") {
            return self.schema_of_class(located, node, found);
        }
        self.bundle(located, text, node, found).map(|bundle| bundle.schema)
    }

    /// Reads a schema like [`Context::schema`], for an input: its defaults must fit.
    pub(super) fn schema_of_input(
        &self,
        located: &WorkerFile,
        node: &Node,
        found: &mut Vec<Diagnostic>,
    ) -> Option<Value> {
        let text = node.as_text()?;
        if !text.ends_with(".json") {
            return self.schema_of_class(located, node, found);
        }
        let bundle = self.bundle(located, text, node, found)?;
        let unfit = Schema::new(bundle.schema.clone()).ok()?.unfit_defaults();
        if unfit.is_empty() {
            return Some(bundle.schema);
        }
        found.extend(unfit.iter().map(|unfit| {
            let (pointer, path, span) = bundle.place(&unfit.pointer);
            let message = format!(
                "the default at `{pointer}` of `{path}` does not fit its own schema: {}",
                unfit.message
            );
            Diagnostic::error(codes::BAD_SCHEMA, message).at(&span).related("it is named here", &node.span)
        }));
        None
    }

    fn bundle(
        &self,
        located: &WorkerFile,
        text: &str,
        node: &Node,
        found: &mut Vec<Diagnostic>,
    ) -> Option<Bundle> {
        let candidate = self.schema_file(located, text, node, found)?;
        let bundle = match Files::read(self.tree(), &candidate) {
            Ok(bundle) => bundle,
            Err(error) => {
                found.push(error.related("it is named here", &node.span));
                return None;
            }
        };
        if let Err(error) = Schema::new(bundle.schema.clone()) {
            let wrong = Diagnostic::error(codes::BAD_SCHEMA, format!("`{candidate}`: {error}"));
            found.push(wrong.at(&node.span));
            return None;
        }
        Some(bundle)
    }

    /// Returns the file that a reference to a schema names: relative to the worker's file, then the project's
    /// `schemas/`.
    pub(super) fn schema_file(
        &self,
        located: &WorkerFile,
        path: &str,
        node: &Node,
        found: &mut Vec<Diagnostic>,
    ) -> Option<String> {
        let Ok(path) = plain(path) else {
            found.push(
                Diagnostic::error(codes::ESCAPES_ROOT, format!("`{path}` is outside the program's root"))
                    .at(&node.span),
            );
            return None;
        };
        let candidates = [join(folder_of(&located.path), &path), join("schemas", &path)];
        for candidate in &candidates {
            match self.tree().kind(candidate) {
                Ok(None) => {}
                Ok(Some(_)) => return Some(candidate.clone()),
                Err(error) => {
                    let file = front_matter::unread(self.tree(), candidate);
                    found.push(
                        front_matter::unreadable(&file, &error).related("it is named here", &node.span),
                    );
                    return None;
                }
            }
        }
        let text = node.as_text().unwrap_or_default();
        found.push(
            Diagnostic::error(codes::BAD_SCHEMA, format!("the schema `{text}` does not exist"))
                .at(&node.span)
                .note(format!("tried {}", candidates.join(", "))),
        );
        None
    }
}

/// A schema file and the files that it refers to, directly or through others. They become one schema: each further file
/// is one of its `$defs`, because models and validators get a schema without its folder.
struct Files<'a> {
    tree: &'a dyn SourceTree,
    /// Each file once; the first is the schema itself.
    all: Vec<File>,
}

/// Several files as one schema.
struct Bundle {
    schema: Value,
    /// The place of each file in the schema, a JSON Pointer, with its path and text. The first is the schema itself.
    files: Vec<(String, String, Arc<SourceFile>)>,
}

impl Bundle {
    /// Returns the place of a default of a subschema: the subschema in its file, the file, and the default in the text.
    fn place(&self, pointer: &str) -> (String, &str, Span) {
        let of_file = |(at, ..): &&(String, String, Arc<SourceFile>)| {
            pointer.strip_prefix(at.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let (at, path, source) = self.files.iter().rev().find(of_file).unwrap_or(&self.files[0]);
        let inside = &pointer[at.len()..];
        // JSON without tabs between its tokens is YAML, which has places.
        let text = source.text();
        let parsed = yaml::parse(source, text.len()).ok();
        let span = parsed.map(|node| node.at_pointer(&format!("{inside}/default")).span.clone());
        (inside.to_owned(), path, span.unwrap_or_else(|| Span::whole(source)))
    }
}

struct File {
    /// The path from the package's root.
    path: String,
    source: Arc<SourceFile>,
    /// The place of the file in the whole schema, a JSON Pointer.
    at: String,
    schema: Value,
}

impl<'a> Files<'a> {
    /// Reads the file as one schema.
    fn read(tree: &'a dyn SourceTree, path: &str) -> Result<Bundle, Box<Diagnostic>> {
        let mut files = Self { tree, all: Vec::new() };
        files.add(path.to_owned())?;
        let mut next = 0;
        while next < files.all.len() {
            files.rewrite(next)?;
            next += 1;
        }
        let places = files.all.iter();
        let places =
            places.map(|file| (file.at.clone(), file.path.clone(), Arc::clone(&file.source))).collect();
        let mut all = files.all.into_iter();
        let mut whole = all.next().map(|file| file.schema).unwrap_or_default();
        for file in all {
            let name = file.at.rsplit('/').next().unwrap_or_default();
            if let Some(definitions) = definitions(&mut whole) {
                definitions.insert(name.to_owned(), file.schema);
            }
        }
        Ok(Bundle { schema: whole, files: places })
    }

    /// Reads a file, unless it is known. Returns its place in the whole schema.
    fn add(&mut self, path: String) -> Result<String, Box<Diagnostic>> {
        if let Some(known) = self.all.iter().find(|file| file.path == path) {
            return Ok(known.at.clone());
        }
        let source = front_matter::read(self.tree, &path)?;
        // Some editors begin a file with a byte order mark.
        let text = source.text().strip_prefix('\u{feff}').unwrap_or(source.text());
        let mut schema: Value = serde_json::from_str(text).map_err(|error| {
            let place = Span::at(&source, error.line(), error.column());
            Diagnostic::error(codes::BAD_SCHEMA, format!("`{path}` is not JSON: {error}")).at(&place)
        })?;
        let at = match self.all.first() {
            None => String::new(),
            Some(first) => {
                // Its references are relative to the whole schema from now on.
                if let Some(schema) = schema.as_object_mut() {
                    schema.shift_remove("$id");
                    schema.shift_remove("$schema");
                }
                format!("/$defs/{}", self.free_name(&first.schema, &path))
            }
        };
        self.all.push(File { path, source, at: at.clone(), schema });
        Ok(at)
    }

    /// Returns a name for a file that no definition of the schema has.
    fn free_name(&self, first: &Value, path: &str) -> String {
        let name = path.rsplit('/').next().unwrap_or(path);
        let stem = name.strip_suffix(".json").unwrap_or(name);
        let stem = stem.replace(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'), "_");
        let taken = |name: &str| {
            let pointer = format!("/$defs/{name}");
            first.pointer(&pointer).is_some() || self.all.iter().any(|file| file.at == pointer)
        };
        let numbered = (2..).map(|n| format!("{stem}_{n}"));
        std::iter::once(stem.clone()).chain(numbered).find(|name| !taken(name)).unwrap_or(stem)
    }

    /// Makes the references of a file relative to the whole schema, and adds the files that they name.
    fn rewrite(&mut self, file: usize) -> Result<(), Box<Diagnostic>> {
        for pointer in subschemas(&self.all[file].schema) {
            let reference = self.all[file].schema.pointer(&pointer).and_then(|schema| schema.get("$ref"));
            let Some(reference) = reference.and_then(Value::as_str).map(str::to_owned) else { continue };
            let target = self.target(file, &reference)?;
            if let Some(schema) = self.all[file].schema.pointer_mut(&pointer) {
                schema["$ref"] = target.into();
            }
        }
        Ok(())
    }

    /// Converts a reference of a file to one relative to the whole schema.
    fn target(&mut self, file: usize, reference: &str) -> Result<String, Box<Diagnostic>> {
        let File { path, source, at, .. } = &self.all[file];
        let (name, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        // An address is none of our files. Whether it can be used is decided where the schema is compiled.
        if name.split_once(':').is_some_and(|(scheme, _)| !scheme.contains('/')) {
            return Ok(reference.to_owned());
        }
        let quoted = Value::from(reference).to_string();
        let place = match source.text().find(&quoted) {
            Some(start) => Span::new(source, start..start + quoted.len()),
            None => Span::whole(source),
        };
        let at = if name.is_empty() {
            at.clone()
        } else {
            let Some(wanted) = beside(path, name) else {
                let outside = format!("`{path}` refers to `{name}`, which is outside the root");
                return Err(Diagnostic::error(codes::ESCAPES_ROOT, outside).at(&place).into());
            };
            let wrong = |problem: String| Diagnostic::error(codes::BAD_SCHEMA, problem).at(&place);
            if self.all.len() == MOST_FILES {
                return Err(wrong(format!("a schema may consist of at most {MOST_FILES} files")).into());
            }
            if let Ok(None) = self.tree.kind(&wanted) {
                let missing = format!("`{path}` refers to the schema `{name}`, which does not exist");
                return Err(wrong(missing).note(format!("tried {wanted}")).into());
            }
            self.add(wanted).map_err(|error| error.related("it is referred to here", &place))?
        };
        if at.is_empty() || fragment.is_empty() || fragment.starts_with('/') {
            return Ok(format!("#{at}{fragment}"));
        }
        let anchor = format!("`{reference}` names an anchor in another file");
        Err(Diagnostic::error(codes::BAD_SCHEMA, anchor)
            .at(&place)
            .help("write a JSON Pointer: `other.json#/$defs/name`")
            .into())
    }
}

/// Resolves a relative name in a file to a path from the root. Returns `None` if it is outside.
fn beside(file: &str, name: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder_of(file).split('/').filter(|part| !part.is_empty()).collect();
    if name.starts_with('/') {
        return None;
    }
    for part in name.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    plain(&parts.join("/")).ok()
}

fn definitions(schema: &mut Value) -> Option<&mut Map<String, Value>> {
    schema.as_object_mut()?.entry("$defs").or_insert_with(|| json!({})).as_object_mut()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::MemoryTree;
    use llm_do_core::authority::Place;

    fn read(files: &[(&str, Value)]) -> Result<Value, Box<Diagnostic>> {
        let files: Vec<(&str, String)> =
            files.iter().map(|(path, schema)| (*path, schema.to_string())).collect();
        let tree = MemoryTree::new(Place::new("/p"), files.iter().map(|(path, text)| (*path, text.as_str())));
        Files::read(&tree, files[0].0).map(|bundle| bundle.schema)
    }

    #[test]
    fn files_that_refer_to_each_other_become_one_schema() {
        let whole = read(&[
            (
                "schemas/in.json",
                json!({
                    "properties": {
                        "a": {"$ref": "other.json"},
                        "b": {"$ref": "./other.json#/$defs/part"},
                        "c": {"$ref": "../common/other.json#/properties/x"},
                        "d": {"$ref": "#/$defs/own"},
                        "e": {"const": {"$ref": "none.json"}},
                        "f": {"$ref": "https://example.org/x.json"},
                    },
                    "$defs": {"own": {}, "other_2": {}},
                }),
            ),
            (
                "schemas/other.json",
                json!({
                    "$id": "https://example.org/other",
                    "items": {"$ref": "#"},
                    "$defs": {"part": {"$ref": "#/$defs/deep"}, "deep": {"$ref": "in.json#/$defs/own"}},
                }),
            ),
            ("common/other.json", json!({"properties": {"x": {"$ref": "../schemas/in.json"}}})),
        ])
        .unwrap();
        assert_eq!(
            whole,
            json!({
                "properties": {
                    "a": {"$ref": "#/$defs/other"},
                    "b": {"$ref": "#/$defs/other/$defs/part"},
                    "c": {"$ref": "#/$defs/other_3/properties/x"},
                    "d": {"$ref": "#/$defs/own"},
                    "e": {"const": {"$ref": "none.json"}},
                    "f": {"$ref": "https://example.org/x.json"},
                },
                "$defs": {
                    "own": {},
                    "other_2": {},
                    "other": {
                        "items": {"$ref": "#/$defs/other"},
                        "$defs": {"part": {"$ref": "#/$defs/other/$defs/deep"}, "deep": {"$ref": "#/$defs/own"}},
                    },
                    "other_3": {"properties": {"x": {"$ref": "#"}}},
                },
            })
        );
    }

    #[test]
    fn a_reference_stays_inside_the_root() {
        for (reference, code) in [
            ("../other.json", codes::ESCAPES_ROOT),
            ("x/../../other.json", codes::ESCAPES_ROOT),
            ("/etc/other.json", codes::ESCAPES_ROOT),
            ("none.json", codes::BAD_SCHEMA),
            ("other.json#anchor", codes::BAD_SCHEMA),
        ] {
            let error =
                read(&[("in.json", json!({"$ref": reference})), ("other.json", json!({}))]).unwrap_err();
            assert_eq!(error.code, code, "{reference}");
            assert_eq!(error.span.unwrap().text(), format!("\"{reference}\""));
        }
    }
}
