"""Findings of the server, beside those of `llm-do check` and of a server that opens a program for the first time."""

import json
import os
import random
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from client import BINARY, ROOT, WHOLE, Case, Failed, Server, path, uri  # noqa: E402

BAD = ROOT / "crates/program/tests/check"
EXAMPLES = ROOT / "examples"
MARKS = ["project.yaml", "llm-do.yaml", "lib.yaml", "main.worker"]


def checked(folder, **environment):
    """The findings of the command line, with the places in UTF-16."""
    run = subprocess.run(
        [BINARY, "check", str(folder), "--json"], capture_output=True, env={**os.environ, **environment}
    )
    found = []
    for one in json.loads(run.stdout)["diagnostics"]:
        # A finding about the program as a whole is shown at its manifest.
        one["file"] = one["file"] or next(mark for mark in MARKS if (folder / mark).exists())
        file = folder / one["file"]
        line, column = (one["line"] or 1) - 1, (one["column"] or 1) - 1
        if one["line"]:
            text = file.read_bytes().decode().split("\n")[line].removeprefix("\ufeff" if line == 0 else "")
            start = 1 if line == 0 and file.read_bytes().decode().startswith("\ufeff") else 0
            column = start + len(text[:column].encode("utf-16-le")) // 2
        fix = None
        if one["fix"]:
            fix = one["fix"]["title"]
        found.append((str(file), one["code"], line, column, one["message"], fix))
    return sorted(found, key=str)


def shown(server, folder):
    """The findings that a server has published for a folder, with the titles of their fixes."""
    found = []
    for at, all_of_file in server.found.items():
        file = path(at)
        if not file.startswith(f"{folder}/") and not all_of_file:
            continue
        actions = []
        if Path(file).is_file() and all_of_file:
            try:
                text = Path(file).read_bytes().decode()
                server.open(file, text)
                whole = {"start": {"line": 0, "character": 0}, "end": {"line": 99_999, "character": 0}}
                request = {"textDocument": {"uri": at}, "range": whole, "context": {"diagnostics": []}}
                actions = server.ask("textDocument/codeAction", request) or []
                server.tell("textDocument/didClose", {"textDocument": {"uri": at}})
            except UnicodeDecodeError:
                pass
        fixes = {}
        for action in actions:
            if action["kind"] == "quickfix":
                of = action["diagnostics"][0]
                fixes[(of["code"], str(of["range"]), of["message"])] = action["title"]
        for one in all_of_file:
            start = one["range"]["start"]
            message = one["message"].split("\nnote: ")[0].split("\nhelp: ")[0]
            fix = fixes.get((one["code"], str(one["range"]), one["message"]))
            found.append((file, one["code"], start["line"], start["character"], message, fix))
    return sorted(found, key=str)


class Programs(Case):
    def test_bad_programs_have_the_findings_of_the_command_line(self):
        compared = 0
        for folder in sorted(BAD.iterdir()):
            if not folder.is_dir() or folder.suffix == ".libs" or not any((folder / mark).exists() for mark in MARKS):
                continue
            if not WHOLE and compared % 4 and folder.name not in ("bad_yaml",):
                compared += 1
                continue
            copy = self.folder / folder.name
            shutil.copytree(folder, copy, symlinks=True)
            environment = {}
            libraries = BAD / f"{folder.name}.libs"
            if libraries.is_dir():
                environment["LLM_DO_LIBS"] = str(libraries)
            expected = checked(copy, **environment)
            os.environ.update(environment)
            server = self.server(copy, trusted=True)
            os.environ.pop("LLM_DO_LIBS", None)
            # The answer comes after the findings of the first check.
            server.ask("workspace/symbol", {"query": ""})
            server.until(lambda: not expected or any(server.found.values()))
            server.ask("workspace/symbol", {"query": ""})
            own = [one for one in expected if one[0].startswith(f"{copy}/")]
            with self.subTest(folder.name):
                self.assertEqual([one for one in shown(server, copy) if one[0].startswith(f"{copy}/")], own)
            compared += 1
            server.kill()
        self.assertGreater(compared, 60)

    def test_edited_programs_have_the_findings_of_a_first_opening(self):
        """LLM_DO_TEST_WHOLE makes 5,000 edits of 20 programs; else there are a few."""
        random.seed(20)
        programs = [folder for folder in sorted(EXAMPLES.iterdir()) if any((folder / mark).exists() for mark in MARKS)]
        programs += [BAD / name for name in sorted(os.listdir(BAD)) if (BAD / name / "project.yaml").exists()]
        programs = programs[:20] if WHOLE else programs[:3]
        edits = 250 if WHOLE else 12
        pieces = ["", "x", ":", "\n", "  ", "- ", "{{ ", " }}", "[", "]", "{", "---\n", "model: a:b\n", "😀", "漢", '"', "#", "parameters: {a: string}\n", "allow_workers: [x]\n", "\r\n", "{% if %}"]
        for program in programs:
            copy = self.folder / program.name
            shutil.copytree(program, copy, symlinks=True, ignore=shutil.ignore_patterns(".llm-do"))
            files = [file for file in sorted(copy.rglob("*")) if file.suffix in (".worker", ".yaml") and file.is_file()]
            server = self.server(copy)
            texts = {}
            opened = {}
            for number in range(edits):
                file = random.choice(files)
                if file not in texts:
                    texts[file] = file.read_bytes().decode()
                    opened[file] = (server.open(file, texts[file]), 1)
                at, version = opened[file]
                text = texts[file]
                start = random.randint(0, len(text))
                end = min(len(text), start + random.choice([0, 0, 0, 1, 5, 40]))
                # An edit must not split an end of line, which is one step of a cursor.
                if text[start - 1 : start + 1] == "\r\n" or text[end - 1 : end + 1] == "\r\n":
                    continue
                new = random.choice(pieces)
                place = {"start": self.place(text, start), "end": self.place(text, end)}
                texts[file] = text[:start] + new + text[end:]
                opened[file] = (at, version + 1)
                server.change(at, version + 1, [{"range": place, "text": new}])
                if number % (1 if WHOLE else 3):
                    continue
                server.settled(at, version + 1)
                server.ask("workspace/symbol", {"query": ""})
                fresh = self.server(copy)
                for other, text in texts.items():
                    fresh.open(other, text, opened[other][1])
                for other in texts:
                    fresh.settled(opened[other][0], opened[other][1])
                fresh.ask("workspace/symbol", {"query": ""})
                for other in texts:
                    server.settled(opened[other][0], opened[other][1])
                keep = lambda found: {at: all_of for at, all_of in found.items() if all_of}
                self.assertEqual(keep(server.found), keep(fresh.found), f"{program.name}: edit {number}")
                fresh.kill()
            server.kill()

    @staticmethod
    def place(text, offset):
        before = text[:offset].replace("\r\n", "\n").replace("\r", "\n")
        column = len(before.rsplit("\n", 1)[-1].encode("utf-16-le")) // 2
        return {"line": before.count("\n"), "character": column}

    def test_every_prefix_of_every_example_has_findings_and_answers(self):
        """LLM_DO_TEST_WHOLE types every character; else only some are typed."""
        step = 1 if WHOLE else 61
        copy = self.folder / "examples"
        shutil.copytree(EXAMPLES, copy, ignore=shutil.ignore_patterns(".llm-do"))
        server = self.server(self.folder / "none")
        files = [file for file in sorted(copy.rglob("*")) if file.suffix in (".worker", ".yaml", ".j2", ".jinja")]
        self.assertGreater(len(files), 20)
        for file in files:
            text = file.read_text()
            at = server.open(file, "")
            waiting = []
            for version, end in enumerate(range(step, len(text) + step, step), start=2):
                typed = text[: end - step]
                place = self.place(typed, len(typed))
                piece = text[end - step : end]
                server.change(at, version, [{"range": {"start": place, "end": place}, "text": piece}])
                document = {"textDocument": {"uri": at}}
                here = self.place(text[:end], len(text[:end]))
                for method in ["diagnostic", "completion", "hover", "semanticTokens/full", "documentSymbol", "formatting"]:
                    waiting.append(
                        (method, server.begin(f"textDocument/{method}", {**document, "position": here, "options": {}}))
                    )
                if len(waiting) > 60 or end >= len(text):
                    for method, number in waiting:
                        try:
                            server.wait_for(number)
                        except Failed as failed:
                            # A later edit was faster.
                            self.assertEqual(failed.code, -32801, f"{file}:{end}: {method}: {failed}")
                    waiting = []
            server.tell("textDocument/didClose", {"textDocument": {"uri": at}})
        self.assertFalse([one for one in server.said if "defect" in json.dumps(one)], server.said)
        self.assertEqual(server.end(), 0)


if __name__ == "__main__":
    unittest.main()
