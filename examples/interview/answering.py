#!/usr/bin/env python3
"""Another program as the operator of a run: docs/reference/operator-protocol.md.

    python3 examples/interview/answering.py llm-do examples/interview "Plan a weekend trip."

It starts the command, shows each question of the run, and answers it with the next line of its own input. `/done` ends a
conversation. At the end of the input it closes the connection: the run is suspended, and `llm-do runs resume` continues it.
"""

import json
import socket
import subprocess
import sys


def show(text):
    """A model's words: control characters could move the cursor, so they are spelled out."""
    print("".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text), flush=True)


def answer(question, line):
    """What the line means as an answer, without the question's identity."""
    kind = question["question"]
    if kind == "approval":
        return {"answer": "approve"} if line == "yes" else {"answer": "deny", "reason": line}
    if kind == "settlement":
        return {"answer": "again"} if line == "yes" else {"answer": "abort"}
    if "conversation" in question:
        return {"answer": "end"} if line == "/done" else {"answer": "give", "value": line}
    # A form is answered with JSON. A text needs no quotes.
    try:
        return {"answer": "give", "value": json.loads(line)}
    except json.JSONDecodeError:
        return {"answer": "give", "value": line}


def words(question):
    """What is asked, for a person."""
    chain = " > ".join(question["chain"])
    if question["question"] == "input":
        schema = f"\n(as {json.dumps(question['schema'])})" if "schema" in question else ""
        return f"{chain}: {question['prompt']}{schema}"
    if question["question"] == "approval":
        return f"{chain} wants to call {question['function']} with {json.dumps(question['input'])}: yes, or why not?"
    return f"{question['function']} was cut off. Run it again? yes or no"


def main():
    ours, theirs = socket.socketpair()
    number = theirs.fileno()
    command = [*sys.argv[1:], "--operator", f"fd:{number}"]
    # The lines of our input are not for the run.
    run = subprocess.Popen(command, pass_fds=[number], stdin=subprocess.DEVNULL)
    theirs.close()
    with ours, ours.makefile("rw", encoding="utf-8") as channel:
        for text in channel:
            message = json.loads(text)
            if message["type"] == "error":
                show(f"not accepted: {message['message']}")
            if message["type"] != "question":
                continue
            show(words(message))
            line = sys.stdin.readline()
            if not line:
                break
            identity = {"call": message["call"], "step": message["step"]}
            print(json.dumps(identity | answer(message, line.strip())), file=channel, flush=True)
    return run.wait()


if __name__ == "__main__":
    sys.exit(main())
