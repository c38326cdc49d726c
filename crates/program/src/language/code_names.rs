//! Names in the texts of code: functions, classes and tools of Python, TypeScript and JavaScript. Nothing is run.

use super::{Symbols, Worker};
use crate::{
    code_place,
    source::{Kind, folder_of, join},
};
use llm_do_core::{
    code::{CodeModule, Language, joined_import, relative_imports},
    function::tool_name,
};
use std::{collections::BTreeSet, ops::Range, sync::Arc};

/// The largest number of scripts that are read for one name.
const MOST_FILES: usize = 64;

/// A name in a file of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeName {
    /// The path of the file as it is shown.
    pub file: String,
    /// The text of the file.
    pub text: Arc<str>,
    /// The bytes of the name.
    pub range: Range<usize>,
}

impl Symbols<'_> {
    /// Finds the code of a tool of a worker: as the inspection of the code found it, else by its text.
    pub fn tool_code(&self, worker: Worker<'_>, name: &str) -> Option<CodeName> {
        let exposed = self.checked().exposed.tools(worker.effective);
        let tool = exposed.and_then(|tools| tools.get(&tool_name(name)));
        if let Some((tool, file)) = tool.and_then(|tool| Some((&tool.code, tool.code.file.as_ref()?))) {
            let span = code_place::span(self.packages(), file, tool.line, None);
            if let Some(line) = span.range() {
                let text = Arc::clone(span.file().text());
                let within = span.text().find(&*tool.name);
                let range =
                    within.map_or(line.clone(), |at| line.start + at..line.start + at + tool.name.len());
                return Some(CodeName { file: span.file().path().to_string(), text, range });
            }
        }
        let levels = worker.effective.definition.tools.iter();
        levels.flat_map(|level| &level.modules).find_map(|module| match &module.module {
            CodeModule::File(place) => self.code_in(place.rest(self.root())?, name),
            CodeModule::Installed { .. } => None,
        })
    }

    /// Finds a function, class or tool in a file of code of the program, or in a script that it imports.
    pub fn code_in(&self, path: &str, name: &str) -> Option<CodeName> {
        let path = match self.tree().kind(path) {
            Ok(Some(Kind::Folder)) => join(path, "__init__.py"),
            _ => path.to_owned(),
        };
        let (mut open, mut seen) = (vec![path], BTreeSet::new());
        while let Some(path) = open.pop() {
            if seen.len() == MOST_FILES || !seen.insert(path.clone()) {
                continue;
            }
            let (Some(text), Some(language)) = (self.text(&path), Language::of_file(&path)) else { continue };
            let range = match language {
                Language::Python => in_python(&text, name),
                Language::Script => in_script(&text, name),
            };
            if let Some(range) = range {
                return Some(CodeName { file: self.tree().shown(&path), text: text.into(), range });
            }
            if language == Language::Script {
                let imports = relative_imports(&text).filter_map(|it| joined_import(folder_of(&path), it));
                open.extend(imports);
            }
        }
        None
    }
}

/// Returns the bytes of the name in `def NAME` or `class NAME`.
fn in_python(text: &str, name: &str) -> Option<Range<usize>> {
    lines(text).find_map(|(at, line)| {
        let content = line.trim_start();
        let rest = ["async def ", "def ", "class "].iter().find_map(|word| content.strip_prefix(word))?;
        word(at + line.len(), rest.trim_start(), name)
    })
}

/// Returns the bytes of the name in `function NAME`, `const NAME` and the like, else in `name: "NAME"`.
fn in_script(text: &str, name: &str) -> Option<Range<usize>> {
    let declared = lines(text).find_map(|(at, line)| {
        let mut content = line.trim_start();
        for modifier in ["export ", "default ", "declare ", "async ", "abstract "] {
            content = content.strip_prefix(modifier).map_or(content, str::trim_start);
        }
        let kinds = ["function*", "function ", "const ", "let ", "var ", "class ", "interface ", "type "];
        let rest = kinds.iter().find_map(|kind| content.strip_prefix(kind))?;
        word(at + line.len(), rest.trim_start().trim_start_matches('*').trim_start(), name)
    });
    declared.or_else(|| {
        text.match_indices("name").find_map(|(at, key)| {
            let rest = text[at + key.len()..].trim_start().strip_prefix(':')?.trim_start();
            let start = text.len() - rest.len() + 1;
            let quoted = rest.strip_prefix(['"', '\'', '`'])?;
            let closes = quoted.strip_prefix(name)?.starts_with(['"', '\'', '`']);
            closes.then_some(start..start + name.len())
        })
    })
}

/// Returns the bytes of a name at the start of the rest of a line, which ends at `end`.
fn word(end: usize, rest: &str, name: &str) -> Option<Range<usize>> {
    let follows = rest.strip_prefix(name)?.chars().next();
    let ends = !follows.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '$'));
    let start = end - rest.len();
    ends.then_some(start..start + name.len())
}

/// Returns the lines of a text with their starts.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_inclusive('\n').scan(0, |at, line| {
        let start = *at;
        *at += line.len();
        Some((start, line))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<'a>(text: &'a str, name: &str, language: Language) -> Option<(usize, &'a str)> {
        let range = match language {
            Language::Python => in_python(text, name),
            Language::Script => in_script(text, name),
        }?;
        Some((text[..range.start].matches('\n').count(), &text[range]))
    }

    #[test]
    fn names_are_found_where_they_are_declared() {
        let python = "import x\n\nasync def  greet(name):\n    def help(): ...\nclass greeting: ...\n";
        assert_eq!(found(python, "greet", Language::Python), Some((2, "greet")));
        assert_eq!(found(python, "help", Language::Python), Some((3, "help")));
        assert_eq!(found(python, "gree", Language::Python), None);
        let script = "// greet\nexport const greetSchema = z.object({});\nexport default async function greet(input) {}\n\
                      export function* count() {}\nexport const add: Tool = {\n  name: 'sum-up',\n};\nexport class Box$ {}\n";
        assert_eq!(found(script, "greet", Language::Script), Some((2, "greet")));
        assert_eq!(found(script, "greetSchema", Language::Script), Some((1, "greetSchema")));
        assert_eq!(found(script, "count", Language::Script), Some((3, "count")));
        assert_eq!(found(script, "sum-up", Language::Script), Some((5, "sum-up")));
        assert_eq!(found(script, "Box", Language::Script), None);
        assert_eq!(found(script, "sum", Language::Script), None);
        for end in (0..=script.len()).filter(|end| script.is_char_boundary(*end)) {
            let _ = in_script(&script[..end], "sum-up");
        }
    }
}
