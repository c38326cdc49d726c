"""The lifecycle of a server, and clients that break the rules."""

import os
import shutil
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from client import Case, Failed, Server, apply, uri  # noqa: E402

WORKER = "---\nmodel: openai:x\nparameters: {topic: string}\n---\nWrite about {{ topic }}.\n"


class Session(Case):
    def test_a_session_begins_and_ends(self):
        server = self.server(start=False)
        with self.assertRaises(Failed) as early:
            server.ask("textDocument/hover", {})
        self.assertEqual(early.exception.code, -32002)
        server.ask("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
        server.tell("initialized", {})
        with self.assertRaises(Failed) as unknown:
            server.ask("llm-do/nothing", {})
        self.assertEqual(unknown.exception.code, -32601)
        self.assertEqual(server.end(), 0)
        abrupt = self.server()
        abrupt.tell("exit", None)
        self.assertEqual(abrupt.process.wait(timeout=60), 1)

    def test_encodings_are_negotiated(self):
        for wanted, chosen in [(["utf-8", "utf-16"], "utf-8"), (["utf-16"], "utf-16"), (["utf-32"], "utf-16")]:
            server = self.server(encodings=wanted)
            self.assertEqual(server.first["capabilities"]["positionEncoding"], chosen)
            server.end()

    def test_positions_behind_wide_characters(self):
        text = '---\nmodel: openai:x\ndescription: "漢字 😀"\nparameters: {topic: string}\n---\n😀 漢 {{ topic }} {{ topik }}\n'
        self.put("project.yaml", "name: wide\n")
        file = self.put("main.worker", text)
        for encoding, column in [("utf-16", 20), ("utf-8", 24)]:
            server = self.server(encodings=[encoding])
            at = server.open(file)
            found = [one for one in server.settled(at, 1) if "topik" in one["message"]]
            self.assertEqual(found[0]["range"]["start"], {"line": 5, "character": column}, encoding)
            # An edit in the same units.
            edit = {"start": {"line": 5, "character": column + 4}, "end": {"line": 5, "character": column + 5}}
            server.change(at, 2, [{"range": edit, "text": "c"}])
            self.assertFalse(any("topik" in one["message"] for one in server.settled(at, 2)))
            hover = server.ask(
                "textDocument/hover", {"textDocument": {"uri": at}, "position": {"line": 5, "character": column}}
            )
            self.assertIn("topic: string", hover["contents"]["value"])
            self.assertEqual(hover["range"]["start"]["character"], column)
            server.end()

    def test_a_client_that_lies_gets_an_error_and_loses_nothing(self):
        self.put("project.yaml", "name: lies\n")
        file = self.put("main.worker", WORKER)
        server = self.server()
        at = server.open(file)
        self.assertEqual(server.settled(at, 1), [])
        nowhere = {"start": {"line": 900, "character": 0}, "end": {"line": 901, "character": 0}}
        for version, change in [
            (2, {"range": nowhere, "text": "x"}),
            (1, {"text": "an old version"}),
            (0, {"range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}}, "text": ""}),
        ]:
            said = len(server.said)
            server.change(at, version, [change])
            server.until(lambda: len(server.said) > said)
            self.assertEqual(server.said[-1]["method"], "window/showMessage")
            self.assertIn("not applied", server.said[-1]["params"]["message"])
        hover = server.about("hover", at, "{{ topic", 4)
        self.assertIn("topic: string", hover["contents"]["value"], "the text is the last one that was valid")
        server.change(at, 9, [{"text": WORKER.replace("topic }}", "nothing }}")}])
        self.assertTrue(any("nothing" in one["message"] for one in server.settled(at, 9)))
        for params in [{}, {"textDocument": {"uri": at}}, {"textDocument": {"uri": uri("/nowhere.worker")}}]:
            with self.assertRaises(Failed) as wrong:
                server.ask("textDocument/hover", params)
            self.assertEqual(wrong.exception.code, -32602)
        with self.assertRaises(Failed):
            server.ask(
                "textDocument/hover", {"textDocument": {"uri": at}, "position": {"line": 99, "character": 0}}
            )
        server.tell("textDocument/didChange", {"nonsense": True})
        server.tell("textDocument/didOpen", None)
        untitled = server.open("untitled:Untitled-1", "---\n")
        self.assertIsNone(server.ask("textDocument/documentSymbol", {"textDocument": {"uri": untitled}}))
        self.assertEqual(server.end(), 0)

    def test_a_cancelled_request_is_answered_once(self):
        self.put("project.yaml", "name: cancelled\n")
        file = self.put("main.worker", WORKER)
        server = self.server()
        at = server.open(file)
        place = {"textDocument": {"uri": at}, "position": {"line": 0, "character": 0}}
        numbers = [server.begin("textDocument/completion", place) for _ in range(50)]
        for number in numbers:
            server.tell("$/cancelRequest", {"id": number})
        for number in numbers:
            try:
                server.wait_for(number)
            except Failed as failed:
                self.assertEqual(failed.code, -32800)
        # A second answer would come before this one.
        server.about("hover", at, "model", 1)
        self.assertEqual(server.answers, {})

    def test_files_that_change_on_disk_are_read(self):
        self.put("project.yaml", "name: disk\n")
        file = self.put("main.worker", WORKER.replace("---\n", "---\nallow_workers: [helper]\n", 1))
        watching = {"workspace": {"didChangeWatchedFiles": {"dynamicRegistration": True}}}
        for capabilities in [watching, {}]:
            server = self.server(capabilities=capabilities)
            at = server.open(file)
            self.assertTrue(any("helper" in one["message"] for one in server.settled(at, 1)))
            helper = self.put("workers/helper.worker", "---\nmodel: openai:x\n---\nHelp.\n")
            if capabilities:
                server.tell("workspace/didChangeWatchedFiles", {"changes": [{"uri": uri(helper), "type": 1}]})
            else:
                server.tell("textDocument/didSave", {"textDocument": {"uri": at}})
            server.until(lambda: server.found[at] == [])
            helper.write_text("---\nmodle: x\n---\n")
            if capabilities:
                server.tell("workspace/didChangeWatchedFiles", {"changes": [{"uri": uri(helper), "type": 2}]})
            else:
                server.tell("textDocument/didSave", {"textDocument": {"uri": at}})
            server.until(lambda: server.found.get(uri(helper)))
            helper.unlink()
            if capabilities:
                server.tell("workspace/didChangeWatchedFiles", {"changes": [{"uri": uri(helper), "type": 3}]})
            else:
                server.tell("textDocument/didSave", {"textDocument": {"uri": at}})
            server.until(lambda: server.found[at] and not server.found[uri(helper)])
            server.end()

    def test_several_programs_and_a_lone_worker(self):
        for name in ["one", "two"]:
            self.put(f"{name}/project.yaml", f"name: {name}\n")
            self.put(f"{name}/main.worker", f"---\nmodel: openai:x\nallow_workers: [only_{name}]\n---\nHi.\n")
        self.put("lib/lib.yaml", "name: lib\nversion: 1\nexports: [a]\nnonsense: 1\n")
        self.put("lib/workers/a.worker", "---\nmodel: openai:x\n---\nHi.\n")
        lone = self.put("elsewhere/lone.worker", "---\nmodle: openai:x\n---\nHi.\n")
        server = self.server()
        expected = [self.folder / "one/main.worker", self.folder / "two/main.worker", self.folder / "lib/lib.yaml"]
        server.until(lambda: all(server.found.get(uri(file)) for file in expected))
        at = server.open(lone)
        self.assertEqual([one["code"] for one in server.settled(at, 1) if one["severity"] == 1], ["E0201"])
        self.assertIn("one", server.found[uri(expected[0])][0]["message"])
        # A manifest above it makes it part of a program.
        self.put("elsewhere/project.yaml", "name: new\nentry: ./lone.worker\n")
        server.tell(
            "workspace/didChangeWatchedFiles",
            {"changes": [{"uri": uri(self.folder / "elsewhere/project.yaml"), "type": 1}]},
        )
        symbols = server.ask("workspace/symbol", {"query": "lone"})
        self.assertTrue(symbols)
        server.end()

    def test_findings_are_pulled(self):
        self.put("project.yaml", "name: pulled\n")
        file = self.put("main.worker", WORKER.replace("model", "modle"))
        server = self.server(capabilities={"textDocument": {"diagnostic": {}}})
        at = server.open(file)
        report = server.ask("textDocument/diagnostic", {"textDocument": {"uri": at}})
        self.assertEqual(report["kind"], "full")
        self.assertEqual(report["items"][0]["code"], "E0201")
        page = Path(report["items"][0]["codeDescription"]["href"].removeprefix("file://"))
        self.assertIn("E0201", page.read_text())
        server.settled(at, 1)
        self.assertEqual(server.found[at], [], "they would be shown twice")
        server.end()

    def test_large_and_unreadable_files(self):
        self.put("project.yaml", "name: large\n")
        file = self.put("main.worker", WORKER + "漢字 {{ topic }} words\n" * 200_000)
        self.put("workers/latin.worker", b"---\nmodel: openai:x\n---\nCaf\xe9\n")
        server = self.server()
        at = server.open(file)
        codes = [one["code"] for one in server.settled(at, 1)]
        self.assertIn("E0102", codes)
        server.until(lambda: server.found.get(uri(self.folder / "workers/latin.worker")))
        latin = server.found[uri(self.folder / "workers/latin.worker")]
        self.assertEqual(latin[0]["code"], "E0103")
        begin = time.monotonic()
        for method in ["documentSymbol", "foldingRange", "semanticTokens/full", "formatting"]:
            server.ask(f"textDocument/{method}", {"textDocument": {"uri": at}, "options": {}})
        self.assertTrue(server.labels(at, "{{ "))
        self.assertLess(time.monotonic() - begin, 60)
        server.end()

    def test_a_root_behind_a_link(self):
        self.put("real/project.yaml", "name: linked\n")
        self.put("real/main.worker", WORKER.replace("model", "modle"))
        (self.folder / "link").symlink_to("real")
        server = self.server(self.folder / "link")
        shown = uri(self.folder / "link/main.worker")
        server.until(lambda: server.found.get(shown))
        at = server.open(self.folder / "link/main.worker")
        self.assertEqual(at, shown)
        server.settled(at, 1)
        self.assertNotIn(uri(self.folder / "real/main.worker"), server.found)
        server.end()

    def test_a_killed_server_starts_again_with_the_same_findings(self):
        self.put("project.yaml", "name: killed\n")
        file = self.put("main.worker", WORKER)
        before = {path: path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}
        unsaved = WORKER.replace("{{ topic }}", "{{ nothing }}")
        first = self.server()
        found = first.settled(first.open(file, unsaved), 1)
        self.assertTrue(found)
        first.kill()
        again = self.server()
        self.assertEqual(again.settled(again.open(file, unsaved), 1), found)
        again.end()
        after = {path: path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}
        self.assertEqual(before, after, "a server writes nothing into a project")

    def test_code_is_inspected_only_in_trusted_workspaces(self):
        self.put("project.yaml", "name: trust\n")
        self.put("tools.py", "import os\nNOTHING = 1\n")
        file = self.put("main.worker", "---\nmodel: openai:x\ntoolsets: {custom: {}}\n---\nHi.\n")

        def of_code(server):
            at = uri(self.folder / "tools.py")
            return [one for found in server.found.values() for one in found if "tools.py" in one["message"]] or (
                server.found.get(at)
            )

        home = os.environ.get("LLM_DO_HOME")
        os.environ["LLM_DO_HOME"] = str(self.folder / "home")
        server = self.server()
        os.environ.pop("LLM_DO_HOME") if home is None else os.environ.update(LLM_DO_HOME=home)
        at = server.open(file)
        server.settled(at, 1)
        self.assertFalse(of_code(server))
        cache = self.folder / "home" / "cache" / "python"
        self.assertFalse(cache.exists(), "no Python was started")
        # Editors read their configuration from files of the workspace, too.
        settings = {"llm-do": {"trusted": True}, "llm-do.trusted": True, "trusted": True}
        server.tell("workspace/didChangeConfiguration", {"settings": settings})
        server.change(at, 2, [{"text": file.read_text() + "More.\n"}])
        server.settled(at, 2)
        self.assertFalse(of_code(server))
        self.assertFalse([one for one in server.said if one["method"] == "workspace/configuration"])
        self.assertFalse(cache.exists(), "no Python was started")
        server.tell("llm-do/didChangeTrust", {"trusted": True})
        server.until(lambda: of_code(server))
        server.end()
        shows = {"window": {"workDoneProgress": True}}
        trusted = self.server(trusted=True, capabilities=shows)
        trusted.until(lambda: of_code(trusted))
        told = [one["params"] for one in trusted.said if one["method"] == "$/progress"]
        kinds = [one["value"]["kind"] for one in told if one["token"] == told[0]["token"]]
        self.assertEqual(kinds[0], "begin")
        messages = [one["value"].get("message", "") for one in told]
        self.assertTrue([one for one in messages if one.startswith("inspecting the tools of")], told)
        trusted.until(lambda: [one for one in trusted.said if (one.get("params") or {}).get("value") == {"kind": "end"}])
        trusted.end()


if __name__ == "__main__":
    unittest.main()
