"""The features of the server, in one program."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from client import Case, Failed, apply, uri  # noqa: E402

MANIFEST = """\
name: features
model: openai:gpt-x   # the default
entry: main
sandbox:
  paths:
    notes: {root: ./notes, mode: rw}
"""
MAIN = """\
---
description: It delegates.
allow_workers:
  - writer
  - name: summarize
    with: {style: short}
tool_rules:
  write_file(notes/**): preApproved
toolsets:
  filesystem: {}
---
# Work

Ask {{ input }} others. {# why #}

## Details

{% include "head.j2" %}
"""
WRITER = """\
---
# A comment that stays.
description: It writes.
parameters:
  topic: string
  tone: {type: string, enum: [plain, warm]}
toolsets: [custom]
---
Write about {{ topic | upper }} in a {{ tone }} tone: {{ topic }}.
"""
SUMMARIZE = """\
---
parameters: {style: string, text: string}
schema_out_ref: out.json
mode: single
---
{{ style }} {{ text }}
"""


class Features(Case):
    def setUp(self):
        super().setUp()
        self.put("project.yaml", MANIFEST)
        self.put("main.worker", MAIN)
        self.put("workers/writer.worker", WRITER)
        self.put("workers/summarize.worker", SUMMARIZE)
        self.put("workers/out.json", '{"type": "object"}')
        self.put("templates/head.j2", "Be careful with {{ input }}.\n")
        self.put("notes/a.md", "x\n")
        self.put("tools.py", 'def search(query: str) -> str:\n    """Searches."""\n    return query\n')
        self.put("workers/writer.cases.yaml", "cases:\n- name: one\n  input: {topic: x, tone: warm}\n  expect: {output: y}\n")
        self.run_server = self.server(
            capabilities={"workspace": {"workspaceEdit": {"resourceOperations": ["rename"], "documentChanges": True}}}
        )

    def open_worker(self, name, text=None):
        at = self.run_server.open(self.folder / name, text)
        self.run_server.settled(at, 1)
        return at

    def change(self, at, version, text):
        self.run_server.texts[at] = text
        self.run_server.change(at, version, [{"text": text}])

    def test_completion_of_keys_and_values(self):
        server = self.run_server
        at = self.open_worker("workers/new.worker", "---\nmo\nlimits:\n  max_\nmode: \ntoolsets:\n  fi\n---\nHi\n")
        items = server.about("completion", at, "mo\n", 2)["items"]
        model = next(item for item in items if item["label"] == "model")
        self.assertIn("provider:model", model["documentation"]["value"])
        self.assertEqual(model["textEdit"]["newText"], "model: ")
        self.assertNotIn("limits", [item["label"] for item in items], "the file has it")
        self.assertIn("max_turns", server.labels(at, "  max_"))
        self.assertNotIn("model", server.labels(at, "  max_"))
        self.assertEqual(server.labels(at, "mode: "), ["single", "chat"])
        self.assertIn("filesystem", server.labels(at, "  fi"))

    def test_completion_of_names(self):
        server = self.run_server
        text = "---\nallow_workers: [wr]\nmodel: op\ntoolsets: {workers: {}}\ntool_rules:\n  wri\nsandbox: {paths: {x: ./no}}\nschema_in_ref: workers/\n---\nHi\n"
        at = self.open_worker("workers/new.worker", text)
        self.assertEqual(server.labels(at, "[wr"), ["main", "summarize", "writer"])
        self.assertIn("openai:gpt-x", server.labels(at, "model: op"))
        self.assertIn("write_file", server.labels(at, "  wri"))
        self.assertIn("./notes/", server.labels(at, "./no"))
        self.assertIn("workers/out.json", server.labels(at, "workers/"))
        manifest = self.open_worker("project.yaml", MANIFEST.replace("entry: main", "entry: w"))
        self.assertIn("writer", server.labels(manifest, "entry: w"))
        at = self.open_worker("main.worker", MAIN.replace("write_file(notes/**)", "write_file(notes/a)"))
        self.assertIn("notes/a.md", server.labels(at, "write_file(notes/a"))

    def test_completion_in_templates(self):
        server = self.run_server
        text = WRITER.replace("Write about", "{{ to }} {{ tone | up }} {% include \"h\" %} {% if topic is de %} Write about")
        at = self.open_worker("workers/writer.worker", text)
        labels = server.labels(at, "{{ to")
        self.assertLess(labels.index("topic"), labels.index("input"))
        self.assertIn("upper", server.labels(at, "| up"))
        self.assertNotIn("topic", server.labels(at, "| up"))
        self.assertEqual(server.labels(at, 'include "h'), ["head.j2"])
        self.assertIn("defined", server.labels(at, "is de"))
        self.assertEqual(server.labels(at, "Write ab"), [])

    def test_hover(self):
        server = self.run_server
        at = self.open_worker("main.worker")

        def hover(marker, plus=1):
            answer = server.about("hover", at, marker, plus)
            return answer and answer["contents"]["value"]

        self.assertIn("shown to callers", hover("description"))
        self.assertIn("writer(topic: string, tone:", hover("writer"))
        self.assertIn("It writes.", hover("writer"))
        self.assertIn("summarize(style", hover("summarize"))
        self.assertIn("run without a question", hover("write_file"))
        self.assertIsNone(hover("Ask"))
        writer = self.open_worker("workers/writer.worker", WRITER.replace("---\n#", "---\nsandbox: {}\n#"))
        answer = server.about("hover", writer, "sandbox", 1)["contents"]["value"]
        self.assertIn("from project.yaml:6", answer, "a value that is inherited")
        self.assertIn("topic: string", server.about("hover", writer, "{{ topic", 4)["contents"]["value"])

    def test_definition(self):
        server = self.run_server
        at = self.open_worker("main.worker")

        def go(at, marker, plus=1):
            return [(Path(one["uri"]).name, one["range"]["start"]) for one in server.about("definition", at, marker, plus)]

        start = {"line": 0, "character": 0}
        self.assertEqual(go(at, "writer"), [("writer.worker", start)])
        self.assertEqual(go(at, "head.j2"), [("head.j2", start)])
        self.assertEqual(go(at, "style: short"), [("summarize.worker", {"line": 1, "character": 13})])
        writer = self.open_worker("workers/writer.worker")
        self.assertEqual(go(writer, "{{ topic", 4), [("writer.worker", {"line": 4, "character": 2})])
        summarize = self.open_worker("workers/summarize.worker")
        self.assertEqual(go(summarize, "out.json"), [("out.json", start)])
        rules = self.open_worker("workers/rules.worker", WRITER.replace("---\nWrite", "tool_rules: {search: ask}\n---\nWrite"))
        self.assertEqual(go(rules, "search"), [("tools.py", {"line": 0, "character": 4})], "without discovery")

    def test_references(self):
        server = self.run_server
        at = self.open_worker("main.worker")
        found = server.about("references", at, "writer", 1, context={"includeDeclaration": True})
        self.assertEqual([(Path(one["uri"]).name, one["range"]["start"]["line"]) for one in found], [("main.worker", 3)])
        writer = self.open_worker("workers/writer.worker")
        found = server.about("references", writer, "{{ topic", 4, context={"includeDeclaration": True})
        lines = sorted((Path(one["uri"]).name, one["range"]["start"]["line"]) for one in found)
        self.assertEqual(
            lines, [("writer.cases.yaml", 2), ("writer.worker", 4), ("writer.worker", 8), ("writer.worker", 8)]
        )
        without = server.about("references", writer, "{{ topic", 4, context={"includeDeclaration": False})
        self.assertEqual(len(without), 3)
        template = server.about("references", at, "head.j2", 1, context={"includeDeclaration": True})
        self.assertEqual([Path(one["uri"]).name for one in template], ["main.worker"])

    def renamed(self, at, marker, plus, new):
        """Applies a renaming to the files on disk."""
        edit = self.run_server.about("rename", at, marker, plus, newName=new)
        for change in edit["documentChanges"]:
            if change.get("kind") == "rename":
                Path(change["oldUri"].removeprefix("file://")).rename(change["newUri"].removeprefix("file://"))
            else:
                file = Path(change["textDocument"]["uri"].removeprefix("file://"))
                file.write_text(apply(file.read_text(), change["edits"]))

    def findings(self):
        """The errors of a new server."""
        server = self.server()
        at = server.open(self.folder / "main.worker")
        server.settled(at, 1)
        server.about("hover", at, "description", 1)
        return [one["message"] for found in server.found.values() for one in found if one["severity"] == 1]

    def test_rename_a_worker(self):
        before = self.findings()
        at = self.open_worker("main.worker")
        self.renamed(at, "writer", 1, "author")
        self.assertTrue((self.folder / "workers/author.worker").exists())
        self.assertTrue((self.folder / "workers/author.cases.yaml").exists())
        self.assertIn("  - author\n", (self.folder / "main.worker").read_text())
        self.assertEqual(self.findings(), before)
        for wrong in ["", "../x", "a b", "summarize"]:
            with self.assertRaises(Failed):
                self.run_server.about("rename", at, "summarize", 1, newName=wrong)

    def test_rename_a_parameter(self):
        before = self.findings()
        writer = self.open_worker("workers/writer.worker")
        self.renamed(writer, "{{ topic", 4, "subject")
        text = (self.folder / "workers/writer.worker").read_text()
        self.assertEqual(text, WRITER.replace("topic", "subject"))
        self.assertIn("subject: x", (self.folder / "workers/writer.cases.yaml").read_text())
        at = self.open_worker("main.worker")
        self.renamed(at, "style: short", 1, "manner")
        self.assertIn("with: {manner: short}", (self.folder / "main.worker").read_text())
        self.assertIn("{{ manner }}", (self.folder / "workers/summarize.worker").read_text())
        self.assertEqual(self.findings(), before)
        for wrong in ["", "two words", "text", "1x"]:
            with self.assertRaises(Failed):
                self.run_server.about("rename", at, "style: short", 1, newName=wrong)

    def test_rename_a_template_and_a_schema(self):
        before = self.findings()
        server = self.run_server
        at = self.open_worker("main.worker")
        prepared = server.about("prepareRename", at, "head.j2", 1)
        self.assertEqual(prepared["placeholder"], "head.j2")
        self.renamed(at, "head.j2", 1, "top.j2")
        self.assertIn('{% include "top.j2" %}', (self.folder / "main.worker").read_text())
        self.assertTrue((self.folder / "templates/top.j2").exists())
        at = self.open_worker("workers/summarize.worker")
        for wrong in ["", "../x.json", "x.yaml", ".json"]:
            with self.assertRaises(Failed):
                server.about("rename", at, "out.json", 1, newName=wrong)
        self.renamed(at, "out.json", 1, "summary.json")
        self.assertIn("schema_out_ref: summary.json\n", (self.folder / "workers/summarize.worker").read_text())
        self.assertTrue((self.folder / "workers/summary.json").exists())
        self.assertEqual(self.findings(), before)

    def test_a_manifest_with_a_syntax_error(self):
        at = self.open_worker("project.yaml", MANIFEST.replace("features", "[features") + "mo")
        found = self.run_server.settled(at, 1)
        self.assertEqual([one["code"] for one in found if one["severity"] == 1], ["E0107"])
        self.assertIn("models", self.run_server.labels(at, "rw}\nmo"))
        self.assertNotIn("entry", self.run_server.labels(at, "rw}\nmo"))

    def test_symbols_and_folds(self):
        server = self.run_server
        at = self.open_worker("main.worker")
        document = {"textDocument": {"uri": at}}
        symbols = server.ask("textDocument/documentSymbol", document)
        self.assertEqual(
            [symbol["name"] for symbol in symbols],
            ["description", "allow_workers", "tool_rules", "toolsets", "Work", "Details"],
        )
        self.assertEqual(symbols[3]["children"][0]["name"], "filesystem")
        folds = server.ask("textDocument/foldingRange", document)
        self.assertIn({"startLine": 0, "endLine": 10}, folds)
        self.assertIn({"startLine": 2, "endLine": 5}, folds)
        found = server.ask("workspace/symbol", {"query": "sumz"})
        self.assertEqual([one["name"] for one in found], ["summarize"])
        broken = self.open_worker("workers/broken.worker", "---\nmodel: [\nlimits:\n  max_turns: 3\n---\n# Title\n")
        names = [one["name"] for one in server.ask("textDocument/documentSymbol", {"textDocument": {"uri": broken}})]
        self.assertEqual(names, ["model", "limits", "Title"])

    def test_call_hierarchy(self):
        server = self.run_server
        at = self.open_worker("main.worker")
        item = server.about("prepareCallHierarchy", at, "# Work", 2)[0]
        self.assertEqual(item["name"], "main")
        outgoing = server.ask("callHierarchy/outgoingCalls", {"item": item})
        self.assertEqual([call["to"]["name"] for call in outgoing], ["summarize", "writer"])
        incoming = server.ask("callHierarchy/incomingCalls", {"item": outgoing[1]["to"]})
        self.assertEqual([(call["from"]["name"], call["fromRanges"][0]["start"]["line"]) for call in incoming], [("main", 3)])

    def test_hints_and_lenses(self):
        server = self.run_server
        at = self.open_worker("workers/writer.worker")
        whole = {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}
        hints = server.ask("textDocument/inlayHint", {"textDocument": {"uri": at}, "range": whole})
        labels = {hint["label"]: hint["tooltip"] for hint in hints}
        self.assertEqual(labels["model: openai:gpt-x"], "from project.yaml:2")
        self.assertEqual(labels["mode: single"], "from the default")
        self.assertIn("notes: rw", labels)
        lenses = server.ask("textDocument/codeLens", {"textDocument": {"uri": at}})
        commands = {lens["command"]["command"]: lens["command"] for lens in lenses}
        self.assertEqual(set(commands), {"llm-do.run", "llm-do.prompt", "llm-do.chat", "llm-do.test"})
        self.assertEqual(commands["llm-do.run"]["arguments"], [at, "writer"])

    def test_semantic_tokens(self):
        server = self.run_server
        at = self.open_worker("main.worker")
        answer = server.ask("textDocument/semanticTokens/full", {"textDocument": {"uri": at}})
        legend = server.first["capabilities"]["semanticTokensProvider"]["legend"]["tokenTypes"]
        lines = MAIN.split("\n")
        seen, line, column = [], 0, 0
        data = answer["data"]
        for i in range(0, len(data), 5):
            column = data[i + 1] if data[i] else column + data[i + 1]
            line += data[i]
            seen.append((lines[line][column : column + data[i + 2]], legend[data[i + 3]]))
        for expected in [
            ("description", "property"),
            ("It delegates.", "string"),
            ("# Work", "heading"),
            ("input", "variable"),
            ("{# why #}", "comment"),
            ("include", "keyword"),
            ('"head.j2"', "string"),
        ]:
            self.assertIn(expected, seen)
        prompt = "---\nmode: single\n---\n- *Be* **brief** with `x` and [y](z).\n"
        at = self.open_worker("workers/marked.worker", prompt)
        data = server.ask("textDocument/semanticTokens/full", {"textDocument": {"uri": at}})["data"]
        kinds = [legend[data[i + 3]] for i in range(10, len(data), 5)]
        self.assertEqual(kinds, ["listMarker", "emphasis", "strong", "code", "link"])
        yaml = "instructions: |\n  Hi {{ input }}\n  there # no comment\n# a comment\nmode: single\n"
        at = self.open_worker("workers/only.yaml", yaml)
        data = server.ask("textDocument/semanticTokens/full", {"textDocument": {"uri": at}})["data"]
        self.assertTrue(data)

    def test_formatting_keeps_comments(self):
        server = self.run_server
        text = WRITER.replace("description: It", "description:    It").replace("stays.", "stays.   ")
        at = self.open_worker("workers/writer.worker", text)
        options = {"tabSize": 2, "insertSpaces": True}
        edits = server.ask("textDocument/formatting", {"textDocument": {"uri": at}, "options": options})
        self.assertEqual(apply(text, edits), WRITER)
        self.change(at, 2, WRITER)
        self.assertEqual(server.ask("textDocument/formatting", {"textDocument": {"uri": at}, "options": options}), [])

    def test_quick_fixes(self):
        server = self.run_server
        text = MAIN.replace("toolsets:", "locked: yes\nallow_empty_input: on\ntoolsets:")
        at = self.open_worker("main.worker", text)
        line = text[: text.index("locked")].count("\n")
        place = {"start": {"line": line, "character": 0}, "end": {"line": line, "character": 1}}
        params = {"textDocument": {"uri": at}, "range": place, "context": {"diagnostics": []}}
        actions = server.ask("textDocument/codeAction", params)
        fix = next(action for action in actions if action["kind"] == "quickfix")
        self.assertEqual(apply(text, fix["edit"]["changes"][at]), text.replace("locked: yes", "locked: true"))
        all_of_them = next(action for action in actions if action["kind"] == "source.fixAll")
        fixed = apply(text, all_of_them["edit"]["changes"][at])
        self.assertEqual(fixed, text.replace("locked: yes", "locked: true").replace("input: on", "input: true"))
        only = {**params, "context": {"diagnostics": [], "only": ["source.fixAll"]}}
        self.assertEqual([action["kind"] for action in server.ask("textDocument/codeAction", only)], ["source.fixAll"])


if __name__ == "__main__":
    unittest.main()
