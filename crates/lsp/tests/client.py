"""A client of the language server, in Python without packages."""

import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading
import unittest
import urllib.parse
from pathlib import Path

BINARY = os.environ["LLM_DO_BIN"]
ROOT = Path(__file__).resolve().parents[3]
WHOLE = bool(os.environ.get("LLM_DO_TEST_WHOLE"))
# A machine that is busy with other tests must not fail these.
PATIENCE = 120


def uri(path):
    return "file://" + urllib.parse.quote(str(path))


def path(of):
    return urllib.parse.unquote(of.removeprefix("file://"))


class Failed(Exception):
    def __init__(self, error):
        super().__init__(error["message"])
        self.code = error["code"]


class Server:
    """A running server. Messages that it sends by itself are collected in `said`."""

    def __init__(self, folders, encodings=("utf-16",), trusted=False, capabilities=None, start=True):
        self.process = subprocess.Popen(
            [BINARY, "lsp", "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/", start_new_session=True
        )
        self.incoming = queue.Queue()
        self.said = []
        self.found = {}
        self.number = 0
        self.answers = {}
        self.versions = {}
        self.texts = {}
        threading.Thread(target=self.read, daemon=True).start()
        if start:
            self.first = self.ask(
                "initialize",
                {
                    "processId": os.getpid(),
                    "rootUri": None,
                    "capabilities": {"general": {"positionEncodings": list(encodings)}, **(capabilities or {})},
                    "initializationOptions": {"trusted": trusted},
                    "workspaceFolders": [{"uri": uri(folder), "name": "x"} for folder in folders],
                },
            )
            self.tell("initialized", {})

    def read(self):
        out = self.process.stdout
        while True:
            length = None
            while (line := out.readline().strip()) != b"":
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            if length is None:
                self.incoming.put(None)
                return
            self.incoming.put(json.loads(out.read(length)))

    def send(self, message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def tell(self, method, params):
        self.send({"method": method, "params": params})

    def begin(self, method, params):
        self.number += 1
        self.send({"id": self.number, "method": method, "params": params})
        return self.number

    def ask(self, method, params):
        return self.wait_for(self.begin(method, params))

    def wait_for(self, number):
        while number not in self.answers:
            self.next()
        answer = self.answers.pop(number)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer["result"]

    def next(self):
        message = self.incoming.get(timeout=PATIENCE)
        if message is None:
            raise EOFError(f"the server ended with {self.process.wait()}")
        if "method" not in message:
            self.answers[message["id"]] = message
        elif message["method"] == "textDocument/publishDiagnostics":
            params = message["params"]
            self.found[params["uri"]] = params["diagnostics"]
            if "version" in params:
                self.versions[params["uri"]] = params["version"]
        else:
            self.said.append(message)
            if "id" in message:
                self.send({"id": message["id"], "result": None})
        return message

    def until(self, holds):
        while not holds():
            self.next()

    def open(self, file, text=None, version=1):
        at = file if str(file).startswith(("file:", "untitled:")) else uri(file)
        text = Path(file).read_text() if text is None else text
        self.texts[at] = text
        item = {"uri": at, "languageId": "llm-do", "version": version, "text": text}
        self.versions.pop(at, None)
        self.tell("textDocument/didOpen", {"textDocument": item})
        return at

    def change(self, at, version, changes):
        self.tell(
            "textDocument/didChange", {"textDocument": {"uri": at, "version": version}, "contentChanges": changes}
        )

    def settled(self, at, version):
        """The findings of that version of a document."""
        self.until(lambda: self.versions.get(at) == version)
        return self.found[at]

    def position(self, at, marker, plus=0):
        """The position of a text in an open document, in UTF-16."""
        before = self.texts[at][: self.texts[at].index(marker) + plus]
        line = before.count("\n")
        column = len(before.rsplit("\n", 1)[-1].encode("utf-16-le")) // 2
        return {"line": line, "character": column}

    def about(self, method, at, marker, plus=0, **more):
        place = {"textDocument": {"uri": at}, "position": self.position(at, marker, plus)}
        return self.ask(f"textDocument/{method}", {**place, **more})

    def labels(self, at, marker, plus=None):
        plus = len(marker) if plus is None else plus
        answer = self.about("completion", at, marker, plus)
        return [item["label"] for item in (answer or {"items": []})["items"]]

    def end(self):
        self.ask("shutdown", None)
        self.tell("exit", None)
        self.process.stdin.close()
        code = self.process.wait(timeout=PATIENCE)
        self.process.stdout.close()
        return code

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def apply(text, edits):
    """Applies edits of one document, in UTF-16."""

    def offset(place):
        lines = text.split("\n")
        before = sum(len(line) + 1 for line in lines[: place["line"]])
        line = lines[place["line"]] if place["line"] < len(lines) else ""
        return before + len(line.encode("utf-16-le")[: place["character"] * 2].decode("utf-16-le"))

    placed = [(offset(edit["range"]["start"]), offset(edit["range"]["end"]), edit["newText"]) for edit in edits]
    for start, end, new in sorted(placed, reverse=True):
        text = text[:start] + new + text[end:]
    return text


class Case(unittest.TestCase):
    """A test with a folder, whose servers are ended."""

    maxDiff = None

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="lsp-")).resolve()
        self.servers = []

    def tearDown(self):
        for server in self.servers:
            server.kill()
        shutil.rmtree(self.folder)

    def server(self, *folders, **more):
        server = Server(folders or [self.folder], **more)
        self.servers.append(server)
        return server

    def put(self, name, text):
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file
