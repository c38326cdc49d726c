// A project in a temporary folder, and the real binary, which `LLM_DO_BIN` names.
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { load } from "llm-do";

const FILES = {
  "project.yaml": "name: desk\nversion: 1.0.0\nexports: [greeter]\nmodel: script:hello.yaml\n",
  "hello.yaml":
    'answers:\n  - text: "Hello, {{ input }}!"\n    stream: {chars: 2, pause_ms: 1}\n    usage: {input_tokens: 12, output_tokens: 4}\n',
  "workers/greeter.worker":
    "---\ndescription: Greets somebody.\nparameters: {name: string}\n---\nGreet the visitor.\n",
  "workers/sorter.worker":
    "---\nparameters: {mail: string}\nreturns: {type: object, properties: {urgent: {type: boolean}}, required: [urgent]}\nmodel: script:typed.yaml\n---\nSort.\n",
  "typed.yaml": "answers:\n  - json: {urgent: true}\n",
  "workers/drafter.worker":
    "---\nreturns: {type: object, properties: {title: {type: string}, tags: {type: array, items: {type: string}}, n: {type: integer}}, required: [title, tags, n]}\nmodel: script:drafts.yaml\n---\nWrite.\n",
  "drafts.yaml":
    "answers:\n  - when: {turn: 0}\n    json: {title: wrong}\n    stream: {chars: 3, pause_ms: 1}\n  - json: {title: A walk, tags: [one, two], n: 12}\n    stream: {chars: 3, pause_ms: 1}\n",
  "workers/a/b.worker": "---\n---\nTalk.\n",
  "workers/then.worker": "---\n---\nTalk.\n",
  "workers/close.worker": "---\n---\nTalk.\n",
  "workers/__proto__.worker": "---\n---\nTalk.\n",
  "workers/constructor.worker": "---\n---\nTalk.\n",
  "workers/slow.worker": "---\nmodel: script:slow.yaml\n---\nThink.\n",
  "slow.yaml": "answers:\n  - text: late\n    delay_ms: 600000\n",
  "workers/fails.worker": "---\nmodel: script:fails.yaml\n---\nFail.\n",
  "fails.yaml": "answers:\n  - error: {status: 400, message: no such thing}\n",
  "workers/limited.worker":
    "---\nmodel: script:loops.yaml\nlimits: {max_turns: 2}\ntoolsets: {filesystem: {tools: [list_files]}}\nsandbox: {paths: {out: {root: ./out, mode: rw}}}\n---\nLoop.\n",
  "loops.yaml": "answers:\n  - calls: [{tool: list_files, arguments: {path: '/out/{{ turn }}'}}]\n",
  "workers/wrong.worker":
    "---\nreturns: {type: object, properties: {n: {type: integer}}, required: [n]}\nmodel: script:wrong.yaml\n---\nCount.\n",
  "wrong.yaml": "answers:\n  - text: many\n",
  "workers/writer.worker":
    "---\nmodel: script:writes.yaml\nsandbox: {paths: {out: {root: ./out, mode: rw}}}\ntoolsets: {filesystem: {tools: [write_file]}}\n---\nWrite.\n",
  "writes.yaml":
    'answers:\n  - when: {turn: 0}\n    calls: [{tool: write_file, arguments: {path: out/note.txt, content: noted}}]\n  - text: "{{ last }}"\n',
  "workers/talker.worker":
    "---\nmode: chat\nmodel: script:talks.yaml\nsandbox: {paths: {out: {root: ./out, mode: rw}}}\ntoolsets: {filesystem: {tools: [write_file]}}\nattachment_policy: {max_attachments: 4}\n---\nTalk.\n",
  "talks.yaml": [
    "answers:",
    "  - when: {last: 'write it down'}",
    "    calls: [{tool: write_file, arguments: {path: out/note.txt, content: noted}}]",
    "  - when: {last: 'fail'}",
    "    error: {status: 400, message: no such thing}",
    "  - when: {last: 'slowly'}",
    "    text: one two three four five six",
    "    stream: {chars: 2, pause_ms: 200}",
    "  - text: 'I heard: {{ last }}'",
    "    stream: {chars: 4, pause_ms: 1}",
    "",
  ].join("\n"),
  "other.yaml": "answers:\n  - text: 'another model'\n",
  "workers/looker.worker":
    "---\nmodel: script:looks.yaml\nattachment_policy: {max_attachments: 4}\n---\nLook.\n",
  "looks.yaml": "answers:\n  - text: 'It says: {{ input }}'\n",
  "workers/big.worker": "---\nmodel: script:big.yaml\n---\nTalk.\n",
  "big.yaml": "answers:\n  - text: \"{{ 'ä' * 5000000 }}\"\n",
};

/** A project that is removed after the test. */
export function desk(test) {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "llm-do-")));
  const project = join(folder, "project");
  const write = (path, text, mode = 0o644) => {
    const full = join(project, path);
    mkdirSync(dirname(full), { recursive: true });
    writeFileSync(full, text, { mode });
    return full;
  };
  for (const [path, text] of Object.entries(FILES)) write(path, text);
  const env = { ...process.env, HOME: folder, LLM_DO_HOME: join(folder, "home") };
  const programs = [];
  test.after(async () => {
    for (const program of programs) await program.close();
    rmSync(folder, { recursive: true, force: true });
  });
  return {
    project,
    env,
    write,
    read: (path) => readFileSync(join(project, path), "utf8"),
    open: async (options = {}) => {
      const program = await load(project, { cwd: project, env, log: () => {}, ...options });
      programs.push(program);
      return program;
    },
  };
}

/** Waits until something holds. */
export async function until(holds) {
  const deadline = Date.now() + 60_000;
  for (;;) {
    const found = await holds();
    if (found) return found;
    if (Date.now() > deadline) throw new Error("it does not happen");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
