//! The language service, asked about files of a program with texts that are not saved.

#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

use llm_do_core::{authority::Place, toolset::ToolsetRegistry};
use llm_do_program::{
    Checker, LoadOptions, Source, Start,
    language::{self, Renamed, Target},
    source::MemoryTree,
};
use std::{collections::BTreeMap, sync::Arc};

/// A program, with the text of one file as it is edited: `¦` is the position.
struct Edited {
    checker: Checker,
    path: String,
    text: String,
    offset: usize,
}

fn edited(files: &[(&str, &str)], path: &str, marked: &str) -> Edited {
    let tree = Arc::new(MemoryTree::new(Place::new("/p"), files.iter().copied()));
    let source = Source { tree, start: Start::Entry(None), manifest: true, work: None };
    let host = LoadOptions {
        toolsets: ToolsetRegistry::built_in(),
        providers: vec!["openai".into()],
        ..LoadOptions::default()
    };
    let mut checker = Checker::new(source, host);
    let offset = marked.find('¦').unwrap();
    let text = marked.replace('¦', "");
    checker.check(BTreeMap::from([(path.to_owned(), text.clone())]));
    Edited { checker, path: path.to_owned(), text, offset }
}

impl Edited {
    fn labels(&self) -> Vec<String> {
        let symbols = self.checker.symbols();
        let found = language::complete(symbols.as_ref(), &self.path, &self.text, self.offset);
        found.into_iter().map(|one| one.label).collect()
    }

    /// The definitions of the word at the position: file and name.
    fn definitions(&self) -> Vec<(String, String)> {
        let symbols = self.checker.symbols().unwrap();
        let Some((_, named)) = language::named(&symbols, &self.path, &self.text, self.offset) else {
            return Vec::new();
        };
        let shown = |Target { file, range, text }: Target| {
            (file, text.map(|text| text[range].to_owned()).unwrap_or_default())
        };
        language::definition(&symbols, &named).into_iter().map(shown).collect()
    }

    /// The changed texts, as `file: line`, and the moved files.
    fn renamed(&self, new: &str) -> Result<(Vec<String>, Vec<(String, String)>), String> {
        let symbols = self.checker.symbols().unwrap();
        let (_, named) = language::named(&symbols, &self.path, &self.text, self.offset).unwrap();
        let Renamed { edits, files } = language::rename(&symbols, &named, new)?;
        let lines = edits.iter().map(|edit| {
            let (file, range) = (edit.span.file(), edit.span.range().unwrap());
            let start = file.text()[..range.start].rfind('\n').map_or(0, |at| at + 1);
            let rest = file.text()[range.end..].lines().next().unwrap_or_default();
            format!("{}: {}{}{rest}", file.path(), &file.text()[start..range.start], edit.text)
        });
        let mut lines: Vec<String> = lines.collect();
        lines.sort();
        Ok((lines, files))
    }
}

const MANIFEST: (&str, &str) = ("project.yaml", "name: p\nmodel: openai:x\nentry: main\n");
const FILES: [(&str, &str); 10] = [
    MANIFEST,
    (
        "workers/main.worker",
        "---\nallow_workers: [other]\nschema_in_ref: in.json\n---\n{% include \"parts/head.j2\" %} {{ file('notes.txt') }}\n",
    ),
    ("workers/other.worker", "---\nschema_out_ref: \"../schemas/in.json\"\n---\n{% extends 'base.j2' %}\n"),
    ("templates/parts/head.j2", "{% import \"parts/macros.j2\" as m %}Hi.\n"),
    ("templates/parts/macros.j2", "{% macro x() %}{% endmacro %}"),
    ("templates/base.j2", "{% include 'parts/head.j2' %}"),
    ("templates/notes.txt", "Notes."),
    (
        "schemas/in.json",
        "{\"type\": \"object\", \"properties\": {\"a\": {\"$ref\": \"common/part.json#/$defs/a\"}}}",
    ),
    (
        "schemas/common/part.json",
        "{\"$defs\": {\"a\": {\"type\": \"string\"}, \"b\": {\"$ref\": \"../in.json\"}}}",
    ),
    ("tools.py", "def unrelated(): ...\n"),
];

#[test]
fn a_template_is_renamed_with_every_text_that_includes_it() {
    let program = edited(&FILES, "workers/main.worker", "---\n---\n{% include \"parts/he¦ad.j2\" %}\n");
    assert_eq!(
        program.renamed("top.j2"),
        Ok((
            vec![
                "templates/base.j2: {% include 'parts/top.j2' %}".into(),
                "workers/main.worker: {% include \"parts/top.j2\" %}".into(),
            ],
            vec![("templates/parts/head.j2".into(), "templates/parts/top.j2".into())],
        ))
    );
    for (new, reason) in [
        ("macros.j2", "there is a file `templates/parts/macros.j2` already"),
        ("top.txt", "ending `.j2`"),
        ("../top.j2", "is not the name of the file"),
        (".j2", "is not the name of the file"),
    ] {
        let refused = program.renamed(new).unwrap_err();
        assert!(refused.contains(reason), "{new}: {refused}");
    }
    // A file beside the worker is found before the one that would be renamed.
    let shadowed: Vec<_> = FILES.into_iter().chain([("workers/parts/top.j2", "")]).collect();
    let program = edited(&shadowed, "workers/main.worker", "---\n---\n{% include \"parts/he¦ad.j2\" %}\n");
    let refused = program.renamed("top.j2").unwrap_err();
    assert!(refused.contains("would name `workers/parts/top.j2`"), "{refused}");
}

#[test]
fn a_schema_is_renamed_in_workers_and_in_other_schemas() {
    let marked = "---\nallow_workers: [other]\nschema_in_ref: in¦.json\n---\nHi.\n";
    let program = edited(&FILES, "workers/main.worker", marked);
    assert_eq!(program.definitions(), [("schemas/in.json".to_owned(), String::new())]);
    let (edits, files) = program.renamed("order.json").unwrap();
    assert_eq!(
        edits,
        [
            "schemas/common/part.json: {\"$defs\": {\"a\": {\"type\": \"string\"}, \"b\": {\"$ref\": \"../order.json\"}}}",
            "workers/main.worker: schema_in_ref: order.json",
            "workers/other.worker: schema_out_ref: \"../schemas/order.json\"",
        ]
    );
    assert_eq!(files, [("schemas/in.json".to_owned(), "schemas/order.json".to_owned())]);
    let code = edited(&FILES, "project.yaml", "name: p\ntools: {modules: [to¦ols.py]}\n");
    assert!(code.renamed("other.py").unwrap_err().starts_with("only workers"), "code is not renamed");
}

#[test]
fn files_of_mounts_are_completed_as_the_worker_sees_them() {
    let files = [
        MANIFEST,
        ("data/in/mail.txt", ""),
        ("data/in/mail.pdf", ""),
        ("data/in/deep/a.txt", ""),
        ("data/in/.env", ""),
        ("secret.txt", ""),
    ];
    let labels = |pattern: &str| {
        let sandbox = "sandbox: {paths: {inbox: {root: ./data/in, mode: ro, suffixes: [.txt]}, out/final: {root: ./out, mode: rw}}}";
        let marked = format!("---\n{sandbox}\ntool_rules:\n  {pattern}\n---\nHi.\n");
        edited(&files, "workers/main.worker", &marked).labels()
    };
    assert_eq!(labels("read_file(¦"), ["inbox/", "out/"]);
    assert_eq!(labels("read_file(inbox/¦"), ["inbox/deep/", "inbox/mail.txt"]);
    assert_eq!(labels("read_file(inbox/deep/¦"), ["inbox/deep/a.txt"]);
    assert_eq!(labels("write_file(out/¦"), ["out/final/"]);
    assert_eq!(labels("read_file(data/¦"), [""; 0], "the worker does not see the folder under this name");
    let alone = edited(&files, "workers/main.worker", "---\ntool_rules:\n  read_file(data/in/¦\n---\nHi.\n");
    assert!(alone.labels().contains(&"data/in/mail.pdf".to_owned()), "{:?}", alone.labels());
}

#[test]
fn tools_and_entries_in_scripts_have_definitions() {
    let files = [
        ("project.yaml", "name: p\nmodel: openai:x\nentry: workers/code.mts:start\n"),
        (
            "tools.ts",
            "import { helper } from \"./lib/more.ts\";\nexport { sum } from './lib/more.ts';\nexport async function greet(input: { name: string }) {\n  return helper(input);\n}\n",
        ),
        ("lib/more.ts", "export function helper() {}\nexport const sum = tool({ name: \"sum_up\" });\n"),
        ("workers/code.mts", "export default function start() {}\n"),
    ];
    let of = |path: &str, marked: &str| edited(&files, path, marked).definitions();
    let worker =
        |rule: &str| format!("---\ntoolsets: {{custom: {{}}}}\ntool_rules: {{{rule}: ask}}\n---\nHi.\n");
    let found = |file: &str, name: &str| vec![(file.to_owned(), name.to_owned())];
    assert_eq!(of("workers/main.worker", &worker("gre¦et")), found("tools.ts", "greet"));
    assert_eq!(of("workers/main.worker", &worker("s¦um")), found("lib/more.ts", "sum"));
    assert_eq!(of("workers/main.worker", &worker("sum_¦up")), found("lib/more.ts", "sum_up"));
    assert_eq!(of("workers/main.worker", &worker("no¦ne")), []);
    let entry = "name: p\nentry: workers/code.mts:st¦art\n";
    assert_eq!(of("project.yaml", entry), found("workers/code.mts", "start"));
    let module = "---\ntoolsets: {custom: {module: ./to¦ols.ts}}\n---\nHi.\n";
    assert_eq!(of("workers/main.worker", module), found("tools.ts", ""));
}

#[test]
fn a_manifest_with_a_syntax_error_keeps_its_other_keys() {
    let files = [
        ("workers/main.worker", "---\nallow_workers: [other]\nmodel: fast\n---\nHi.\n"),
        ("workers/other.worker", "---\nmodel: quick\n---\nHi.\n"),
        ("workers/apart.worker", "---\nallow_workers: [utils:x]\n---\nHi.\n"),
    ];
    let manifest = "name: p\nentry: main\ndescription: \"half\nmodels:\n  fast: {model: openai:x}\nmo¦\n";
    let mut program = edited(&files, "project.yaml", manifest);
    let (found, _) = program.checker.check(BTreeMap::from([("project.yaml".into(), program.text.clone())]));
    let shown: Vec<_> = found.iter().map(|one| (one.code.id, one.message.as_str())).collect();
    // The error itself, and nothing that may follow from what could not be read.
    assert!(shown.iter().all(|(code, _)| *code == "E0107"), "{shown:?}");
    let symbols = program.checker.symbols().unwrap();
    assert_eq!(symbols.models()[0], "fast");
    assert_eq!(symbols.manifest().name.as_deref(), Some("p"));
    let labels = program.labels();
    assert!(labels.contains(&"model".to_owned()) && !labels.contains(&"entry".to_owned()), "{labels:?}");
}
