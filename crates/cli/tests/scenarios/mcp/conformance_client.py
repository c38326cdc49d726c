"""The client that the public conformance suite starts: `llm-do` with a worker that uses the suite's server.

conformance_client.py BINARY URL    MCP_CONFORMANCE_SCENARIO names what the suite looks at
"""

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.parse
import urllib.request
from pathlib import Path

# The call that a scenario waits for. Those of authorisation have one tool.
CALLS = {
    "initialize": None,
    "tools_call": ("add_numbers", {"a": 5, "b": 3}),
    "elicitation-sep1034-client-defaults": ("test_client_elicitation_defaults", {}),
    "sse-retry": ("test_reconnection", {}),
}
AUTHORISED_CALL = ("test-tool", {})


def write_project(folder, url, call):
    answers = [{"text": "done"}]
    if call:
        tool, arguments = call
        answers.insert(0, {"when": {"turn": 0}, "calls": [{"tool": f"s__{tool}", "arguments": arguments}]})
    worker = {"model": "script:s.yaml", "toolsets": {"mcp": {"servers": {"s": {"url": url}}}}}
    (folder / "main.worker").write_text(f"---\n{json.dumps(worker)}\n---\nGo.\n")
    (folder / "s.yaml").write_text(json.dumps({"answers": answers}))


def accept_forms(channel):
    """The operator, who accepts each form as it is."""
    with channel, channel.makefile("rw", encoding="utf-8") as lines:
        for line in lines:
            message = json.loads(line)
            if message["type"] == "question":
                answer = {"call": message["call"], "step": message["step"], "answer": "give", "value": {}}
                print(json.dumps(answer), file=lines, flush=True)


def run(binary, folder, environment, host):
    ours, theirs = socket.socketpair()
    operator = threading.Thread(target=accept_forms, args=(ours,))
    operator.start()
    with theirs:
        channel = theirs.fileno()
        command = [binary, ".", "--allow", "s:*", "--grant", f"network={host}", "--operator", f"fd:{channel}"]
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            pass_fds=[channel],
        )
    operator.join()
    print(done.stdout, done.stderr, sep="\n", file=sys.stderr)
    return done


def failures(folder):
    """What the last run says of calls that failed: the model is told, and the user reads it in the journal."""
    journals = sorted(folder.glob(".llm-do/runs/*/journal.jsonl"), key=lambda path: path.stat().st_mtime)
    records = [json.loads(line) for line in journals[-1].open()] if journals else []
    endings = [record["ending"] for record in records if record["kind"] == "tool_ended"]
    return " ".join(ending["failure"]["message"] for ending in endings if "failure" in ending)


def sign_in(binary, environment, url, scopes):
    """The browser of a user who agrees: it opens the address that is shown, and goes where it is sent."""
    command = [binary, "mcp", "login", url, *scopes]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, env=environment, text=True, **pipes) as login:
        for line in login.stdout:
            print(line, end="", file=sys.stderr)
            address = re.search(r"https?://\S+\?\S+", line)
            if address:
                urllib.request.urlopen(address[0], timeout=20).read()
    return login.returncode == 0


def main():
    binary, url = sys.argv[1:]
    call = CALLS.get(os.environ["MCP_CONFORMANCE_SCENARIO"], AUTHORISED_CALL)
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as project:
        environment = {"HOME": home, "PATH": "/usr/bin:/bin"}
        project = Path(project)
        write_project(project, url, call)
        host = urllib.parse.urlsplit(url).netloc
        # The suite runs all scenarios at once, and a busy machine may take longer than a conversation waits.
        for _ in range(5):
            done = run(binary, project, environment, host)
            if "did not start within" not in done.stderr:
                break
        # The user does what a message says: signs in, and signs in again with the scopes that it names.
        for _ in range(3):
            wanted = re.search(r"`[^`]*mcp login \S+?((?: --scope [^ `]+)*)`", done.stderr + failures(project))
            if not wanted or not sign_in(binary, environment, url, wanted[1].split()):
                break
            done = run(binary, project, environment, host)
        return done.returncode


sys.exit(main())
