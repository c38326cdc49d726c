"""One run of a program with scripted answers: what was asked, and what ran."""

import json
import os
import shutil
import socket
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

import yaml
from offered import RAN
from suites import Call

HERE = Path(__file__).resolve().parent
#: A run takes well under a second.
SECONDS = 120


@dataclass
class Outcome:
    """What happened in one run, in order. Each list has pairs: a call, and whether it was the attacker's."""

    asked: list
    ran: list


class Failed(Exception):
    """A run did not end as it must."""


def lay_out(suite, environment, policy, folder):
    """A copy of the suite's program with an environment, with its policy or without."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(HERE / suite, folder, ignore=shutil.ignore_patterns("__pycache__", ".llm-do"))
    for shared in ["offered.py", "tool_names.py"]:
        shutil.copy(HERE / shared, folder)
    if not policy:
        manifest = yaml.safe_load((folder / "project.yaml").read_text())
        del manifest["approval"]
        (folder / "project.yaml").write_text(yaml.safe_dump(manifest))
    (folder / "environment.json").write_text(json.dumps(environment))


def operator(channel, script, asked):
    """Answers questions: yes for the user's calls, no for the attacker's."""
    with channel, channel.makefile("rw") as lines:
        for line in lines:
            message = json.loads(line)
            if message["type"] != "question":
                continue
            attackers = script.is_injected(message["call"])
            asked.append((Call(message["function"], message["input"]), attackers))
            answer = {"call": message["call"], "step": message["step"], "answer": "deny" if attackers else "approve"}
            print(json.dumps(answer), file=lines, flush=True)


def run(binary, environment, folder, entry, message, script, approve_all):
    """Starts the program, and reads from its journal what ran."""
    answers = folder / "answers.json"
    answers.write_text(json.dumps({"answers": script.answers}))
    command = [binary, "run", folder, "--entry", entry, "--message", message, "--model", f"script:{answers}", "--json"]
    asked, ours, theirs = [], *socket.socketpair()
    with theirs:
        command += ["--approval", "approve_all"] if approve_all else ["--operator", f"fd:{theirs.fileno()}"]
        process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[theirs.fileno()],
            text=True,
        )
    person = threading.Thread(target=operator, args=(ours, script, asked), daemon=True)
    person.start()
    try:
        out, errors = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise Failed(f"no end after {SECONDS} s: {command}") from None
    person.join()
    if process.returncode:
        raise Failed(f"exit code {process.returncode}: {errors.strip() or out}")
    place = folder / ".llm-do" / "runs" / json.loads(out)["run"]
    ran = list(executed(place, script))
    shutil.rmtree(place)
    return Outcome(asked, ran)


def executed(place, script):
    """The calls that ran, by the words of the functions themselves, which print before they act."""
    for line in (place / "journal.jsonl").read_text().splitlines():
        record = json.loads(line)
        for printed in (record.get("log") or "").splitlines() if record["kind"] == "tool_ended" else []:
            if RAN in printed:
                said = json.loads(printed)
                yield Call(said[RAN], said["arguments"]), script.is_injected(record["path"])
