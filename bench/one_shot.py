"""Commands that change files and end, for `bench/kills`: what they change, and how an unharmed change is told from half of one."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

# Names that a killed command may leave until the next one: no tool, no program and no list takes them for a file.
LEFT = (".llm-do-tmp-", ".llm-do-new-", ".installing-")
WORKER = "---\nmodel: script:s.yaml\n---\nGo.\n"
PROJECT = {"project.yaml": "name: desk\nversion: 1.0.0\n", "main.worker": WORKER, "s.yaml": "answers:\n  - text: done\n"}
WRITES = {
    "project.yaml": "name: desk\nsandbox: {paths: {out: {root: ./out, mode: rw}}}\n",
    "main.worker": "---\nmodel: script:s.yaml\ntoolsets: {filesystem: {tools: [append_file]}}\n---\nGo.\n",
    "s.yaml": json.dumps(
        {
            "answers": [
                {"when": {"turn": 0}, "calls": [{"tool": "append_file", "arguments": {"path": "out/log.txt", "content": "once\n"}}]},
                {"text": "written"},
            ]
        }
    ),
}
LIBRARY = {
    "library/lib.yaml": "name: texts\nversion: 1.0.0\nexports: [a]\n",
    "library/workers/a.worker": "---\ndescription: Reads.\n---\nRead.\n",
    "library/notes.txt": "kept\n",
}
CASES = "cases:\n- name: a\n  input: hi\n  expect: {output: done}\n- name: b\n  input: ho\n  expect: {output: done}\n"
OLD = {
    "program.yaml": "name: decks\ndelegation:\n  maxDepth: 2\n",
    "main.agent": "---\nname: main\ntoolsets:\n  - filesystem_project\n  - evaluator\n---\nEvaluate all decks.\n",
    "workers/evaluator.yaml": "name: evaluator\ndescription: Evaluates one deck.\n",
    "prompts/evaluator.jinja2": "Evaluate {{ input }}.\n",
    "notes.txt": "kept\n",
}
SERVERS = {"mcpServers": {"a": {"command": "python3", "args": ["a.py"]}, "b": {"command": "python3", "args": ["b.py"]}}}


def any_text(path, content):
    """A file whose content differs from run to run, and is whole if its end is there."""
    if path.suffix == ".html":
        return content.rstrip().endswith(b"</html>")
    if path.suffix in (".jsonl", ".recorded"):
        return content.endswith(b"\n") and all(json.loads(line) for line in content.splitlines())
    return content.endswith(b"\n")


@dataclass
class OneShot:
    """A command that changes files and ends."""

    arguments: list
    files: dict = field(default_factory=lambda: PROJECT)
    # Commands before it, which are not killed.
    before: list = field(default_factory=list)
    # The standard input of all of them.
    stdin: str = ""
    # The folder, relative to that of the desk, that is compared.
    watched: str = "project"
    # The folder that it runs in, relative to the project.
    within: str = "."
    # Exit codes of a repeat: what is made is not made twice.
    again: tuple = (0,)
    # What continues a run that has begun, in the place of the same command.
    continued: list | None = None
    # Files of the user's folder.
    home: dict = field(default_factory=dict)
    # Tells whether a file whose content differs from run to run is whole. Without it, files are compared byte by byte.
    whole: Callable | None = None
    # Ends of names of files that are not compared.
    ignored: tuple = ()


COMMANDS = {
    "init": OneShot(["init", "new-project"], again=(0, 2)),
    "init-here": OneShot(["init", "."], files={}, within="new", again=(0, 2)),
    "check-fix": OneShot(
        ["check", "--fix"],
        files={**PROJECT, "main.worker": "---\nlocked: yes\n---\nGo.\n", "workers/b.worker": "---\nlocked: no\n---\nGo.\n"},
    ),
    "test-update": OneShot(["test", "--update"], files={**PROJECT, "main.cases.yaml": CASES}, whole=any_text),
    "lib-install": OneShot(["lib", "install", "./library", "--lib", "libs"], files={**PROJECT, **LIBRARY}),
    "lib-pin": OneShot(
        ["lib", "install", "--lib", "libs"],
        files={
            **PROJECT,
            **LIBRARY,
            "project.yaml": "name: desk\ndependencies: [texts@1.0.0]\n",
        },
        before=[["lib", "install", "./library", "--lib", "libs"]],
    ),
    "lib-remove": OneShot(
        ["lib", "remove", "texts", "--lib", "libs"],
        files={**PROJECT, **LIBRARY},
        before=[["lib", "install", "./library", "--lib", "libs"]],
        again=(0, 2),
    ),
    "runs-clean": OneShot(
        ["runs", "clean", "--keep", "0"],
        before=[[".", "one"], [".", "two"]],
        watched="project/.llm-do/runs",
        whole=lambda path, content: True,
    ),
    "runs-export": OneShot(
        ["runs", "export", "last", "--html", "-o", "page.html"], before=[[".", "one"]], whole=any_text
    ),
    "runs-export-cases": OneShot(
        ["runs", "export", "last", "--cases", "main"], before=[[".", "one"]], whole=lambda path, content: bool(content)
    ),
    "runs-resume": OneShot(
        ["runs", "resume", "last", "--approve", "all", "-o", "result.txt"],
        files=WRITES,
        before=[[".", "go", "--approval", "defer"]],
    ),
    "run-to-file": OneShot(
        [".", "go", "--allow", "append_file", "-o", "result.txt"],
        files=WRITES,
        continued=["runs", "resume", "last", "-o", "result.txt"],
    ),
    "migrate": OneShot(["migrate", "--write"], files=OLD, again=(0, 2)),
    "migrate-into": OneShot(["migrate", "--into", "new", "--write"], files=OLD, again=(0, 2)),
    "mcp-add": OneShot(["mcp", "add", "notes", "--", "python3", "notes.py"], again=(0, 2)),
    "mcp-add-from": OneShot(
        ["mcp", "add", "--from", "mcp.json"],
        files={"main.worker": WORKER, "s.yaml": PROJECT["s.yaml"], "mcp.json": json.dumps(SERVERS)},
        again=(0, 2),
    ),
    "mcp-remove": OneShot(
        ["mcp", "remove", "notes"], before=[["mcp", "add", "notes", "--", "python3", "notes.py"]], again=(0, 2)
    ),
    "models-pull": OneShot(
        ["models", "pull", "hf:a/m"], watched="home/models", ignored=(".lock", ".part"), whole=lambda path, content: content == b"GGUF"
    ),
    "models-remove": OneShot(
        ["models", "remove", "a/m:Q4_K_M"],
        before=[["models", "pull", "hf:a/m"]],
        watched="home/models",
        ignored=(".lock", ".part"),
        again=(0, 2),
    ),
    "stubs": OneShot(["stubs", "--python", "-o", "types.pyi"]),
    "man": OneShot(["man", "pages"]),
    "grants-revoke": OneShot(
        ["grants", "revoke", "--all"],
        watched="home",
        home={
            "grants.yaml": "grants:\n- program: /p\n  capabilities:\n  - /etc:ro\n  granted_at: 2026-01-02T03:04:05Z\n",
        },
        again=(0, 2),
        ignored=(".lock", ".key"),
    ),
    "keys-set": OneShot(["keys", "set", "openai"], stdin="sk-0123456789abcdef\n", watched="home", ignored=(".lock", ".key")),
    "keys-remove": OneShot(
        ["keys", "remove", "openai"],
        before=[["keys", "set", "openai"]],
        stdin="sk-0123456789abcdef\n",
        watched="home",
        again=(0, 2),
        ignored=(".lock", ".key"),
    ),
}


class Hub(BaseHTTPRequestHandler):
    """A hub with one model of four bytes, on this machine."""

    FILE = {
        "type": "file",
        "path": "m-Q4_K_M.gguf",
        "size": 4,
        "lfs": {"oid": "b83633aa785344791618f2fddf131b010ea04912a60430760b070bad293f65bd", "size": 4},
    }
    ANSWERS = {
        "/api/models/a/m": json.dumps({"sha": "c0ffee", "tags": ["license:mit"]}),
        "/api/models/a/m/tree/c0ffee?recursive=true": json.dumps([FILE]),
        "/a/m/resolve/c0ffee/m-Q4_K_M.gguf": "GGUF",
    }

    def do_GET(self):
        body = self.ANSWERS.get(self.path, "").encode()
        self.send_response(200 if body else 404)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def hub():
    """Starts the hub. Gives its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def files(folder, ignored=()):
    """The files of a folder with their contents, without llm-do's own folder in a project."""
    found = {}
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        place = path.relative_to(folder)
        if ".llm-do" in place.parts or not path.is_file() or any(str(place).endswith(end) for end in ignored):
            continue
        found[place] = path.read_bytes()
    return found


def is_left(place):
    """Whether a killed command may leave that until the next one."""
    return any(part.startswith(LEFT) for part in place.parts)


def misfit(command, found, before, after):
    """A file that is neither what it was nor what it becomes, if there is one."""
    for place, content in found.items():
        known = [state[place] for state in (before, after) if place in state]
        is_whole = command.whole is not None and command.whole(place, content)
        if not is_left(place) and content not in known and not (known and is_whole):
            return place
    return None


def missing(command, found, after):
    """A file that the command has made or changed and that is not there as it must be, if there is one."""
    for place, content in after.items():
        if place not in found:
            return place
        if found[place] != content and (command.whole is None or not command.whole(place, found[place])):
            return place
    return None
