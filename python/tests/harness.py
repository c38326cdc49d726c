"""A project in a temporary folder, and the real binary, which `LLM_DO_BIN` names."""

import os
import shutil
import sys
import tempfile
import time
import unittest
from typing import Any, Callable

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from llm_do import Program, load

INVOICE = """
parameters: {text: string}
returns:
  type: object
  properties:
    number: {type: string}
    total: {type: number}
    due: {type: string, format: date}
    lines:
      type: array
      items: {type: object, properties: {item: {type: string}, n: {type: integer}}, required: [item, n]}
  required: [number, total, due, lines]
"""
FILES = {
    "project.yaml": "name: desk\nversion: 1.0.0\nexports: [greeter]\nmodel: script:hello.yaml\n",
    "hello.yaml": 'answers:\n  - text: "Hello, {{ input }}!"\n    stream: {chars: 2, pause_ms: 1}\n'
    "    usage: {input_tokens: 12, output_tokens: 4}\n",
    "greeter.worker": "---\ndescription: Greets somebody.\nparameters: {name: string}\n---\nGreet the visitor.\n",
    "extractor.worker": f"---{INVOICE}model: script:invoice.yaml\n---\nExtract.\n",
    "invoice.yaml": "answers:\n  - json: {number: A-1, total: 3, due: '2026-11-25', lines: [{item: pear, n: 2}]}\n",
    "drafter.worker": f"---{INVOICE}model: script:drafts.yaml\n---\nExtract.\n",
    "drafts.yaml": "answers:\n"
    "  - when: {turn: 0}\n    json: {number: wrong}\n    stream: {chars: 3, pause_ms: 1}\n"
    "  - json: {number: 'A-1', total: 3, due: '2026-11-25', lines: [{item: pear, n: 2}, {item: fig, n: 1}]}\n"
    "    stream: {chars: 3, pause_ms: 1}\n",
    "a/b.worker": "---\n---\nTalk.\n",
    "class.worker": "---\n---\nTalk.\n",
    "close.worker": "---\n---\nTalk.\n",
    "odd-name.worker": "---\nparameters: {returns: string, 'self': string}\n---\nTalk.\n",
    "slow.worker": "---\nmodel: script:slow.yaml\n---\nThink.\n",
    "slow.yaml": "answers:\n  - text: late\n    delay_ms: 600000\n",
    "fails.worker": "---\nmodel: script:fails.yaml\n---\nFail.\n",
    "fails.yaml": "answers:\n  - error: {status: 400, message: no such thing}\n",
    "limited.worker": "---\nmodel: script:loops.yaml\nlimits: {max_turns: 2}\ntoolsets: {filesystem: {tools: [list_files]}}\n"
    "sandbox: {paths: {out: {root: ./out, mode: rw}}}\n---\nLoop.\n",
    "loops.yaml": "answers:\n  - calls: [{tool: list_files, arguments: {path: '/out/{{ turn }}'}}]\n",
    "wrong.worker": "---\nreturns: {type: object, properties: {n: {type: integer}}, required: [n]}\n"
    "model: script:wrong.yaml\n---\nCount.\n",
    "wrong.yaml": "answers:\n  - text: many\n",
    "writer.worker": "---\nmodel: script:writes.yaml\nsandbox: {paths: {out: {root: ./out, mode: rw}}}\n"
    "toolsets: {filesystem: {tools: [write_file]}}\n---\nWrite.\n",
    "writes.yaml": "answers:\n  - when: {turn: 0}\n"
    "    calls: [{tool: write_file, arguments: {path: out/note.txt, content: noted}}]\n"
    '  - text: "{{ last }}"\n',
    "talker.worker": "---\nmode: chat\nmodel: script:talks.yaml\n"
    "sandbox: {paths: {out: {root: ./out, mode: rw}}}\n"
    "toolsets: {filesystem: {tools: [write_file]}}\nattachment_policy: {max_attachments: 4}\n---\nTalk.\n",
    "talks.yaml": "answers:\n"
    "  - when: {last: 'write it down'}\n"
    "    calls: [{tool: write_file, arguments: {path: out/note.txt, content: noted}}]\n"
    "  - when: {last: 'fail'}\n    error: {status: 400, message: no such thing}\n"
    "  - when: {last: 'slowly'}\n    text: one two three four five six\n    stream: {chars: 2, pause_ms: 200}\n"
    "  - text: 'I heard: {{ last }}'\n    stream: {chars: 4, pause_ms: 1}\n",
    "other.yaml": "answers:\n  - text: 'another model'\n",
    "looker.worker": "---\nmodel: script:looks.yaml\nattachment_policy: {max_attachments: 4}\n---\nLook.\n",
    "looks.yaml": "answers:\n  - text: 'It says: {{ input }}'\n",
    "big.worker": "---\nmodel: script:big.yaml\n---\nTalk.\n",
    "big.yaml": "answers:\n  - text: \"{{ 'ä' * 5000000 }}\"\n",
}


class ClientTest(unittest.TestCase):
    """A test with a project of its own."""

    def setUp(self) -> None:
        self.folder = os.path.realpath(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.project = os.path.join(self.folder, "project")
        for name, text in FILES.items():
            path = name if not name.endswith(".worker") else os.path.join("workers", name)
            self.write(path, text)
        self.env = {**os.environ, "HOME": self.folder, "LLM_DO_HOME": os.path.join(self.folder, "home")}

    def write(self, path: str, text: str) -> str:
        full = os.path.join(self.project, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)
        return full

    def read(self, path: str) -> str:
        with open(os.path.join(self.project, path), encoding="utf-8") as file:
            return file.read()

    def load(self, **options: Any) -> Program:
        program = load(self.project, cwd=self.project, env=self.env, **options)
        self.addCleanup(program.close)
        return program

    def until(self, holds: Callable[[], Any], within: float = 60.0) -> Any:
        deadline = time.monotonic() + within
        while not (found := holds()):
            self.assertLess(time.monotonic(), deadline, "it does not happen")
            time.sleep(0.02)
        return found
