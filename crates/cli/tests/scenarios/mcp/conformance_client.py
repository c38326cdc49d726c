"""The client that the public conformance suite starts: `llm-do` with a worker that uses the suite's server.

conformance_client.py BINARY URL    MCP_CONFORMANCE_SCENARIO names what the suite looks at
"""

import json
import os
import re
import subprocess
import sys
import tempfile
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


def run(binary, folder, environment, host):
    command = [binary, ".", "--allow", "s:*", "--grant", f"network={host}"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    print(done.stdout, done.stderr, sep="\n", file=sys.stderr)
    return done


def sign_in(binary, environment, url):
    """The browser of a user who agrees: it opens the address that is shown, and goes where it is sent."""
    command = [binary, "mcp", "login", url]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as login:
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
        write_project(Path(project), url, call)
        host = urllib.parse.urlsplit(url).netloc
        done = run(binary, project, environment, host)
        if "mcp login" in done.stderr and sign_in(binary, environment, url):
            done = run(binary, project, environment, host)
        return done.returncode


sys.exit(main())
