#!/usr/bin/env python3
"""Follows the pages of the skill literally, each in a fresh folder, with the `llm-do` on the PATH.

- A block after a line that ends in "`PATH`:" is a file; it is written.
- A block `console` has commands (`$ …`) and their output, stdout and stderr together. It is run with bash.
  `…` stands for any text, and on a line of its own for any lines. `# exit code N` at the end of a command is its
  exit code; without it, the command must succeed.
- Other blocks are neither written nor run.

The test also reads the front matter, and tries the links and the names of pages for `llm-do docs`.

Usage: follow.py [PAGE.md ...]
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SKILL = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"(?:^|\s)`([^`\s]+)`:\s*$")
EXIT = re.compile(r"\s+# exit code (\d+)$")
MOST_SECONDS = 60


def blocks(text):
    """Returns kind, preceding text, content and line of each block."""
    end = 0
    for found in BLOCK.finditer(text):
        yield found[1], text[end:found.start()], found[2], text.count("\n", 0, found.start(2)) + 1
        end = found.end()


def commands(block, line):
    """Returns command, expected exit code, expected output and line of each command of a block."""
    found = []
    for number, text in enumerate(block.splitlines(), line):
        if text.startswith("$ "):
            code = EXIT.search(text)
            found.append((EXIT.sub("", text[2:]), int(code[1]) if code else 0, [], number))
        elif not found:
            raise ValueError(f"line {number}: a block `console` begins with a command")
        else:
            found[-1][2].append(text)
    return found


def pattern(lines):
    """Returns the regular expression of an expected output."""
    parts = []
    for text in lines:
        if text.strip() == "…":
            parts.append(r"(?:[^\n]*\n)*")
        else:
            parts.append("[^\n]*".join(re.escape(part) for part in text.split("…")) + r"\n")
    return re.compile("".join(parts))


def run(command, folder, environment):
    """Runs a command; returns its exit code and its output, without spaces at the ends of lines."""
    process = subprocess.Popen(
        ["bash", "-c", command], cwd=folder, env=environment, text=True, encoding="utf-8", errors="replace",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,  # without a terminal
    )
    try:
        output, _ = process.communicate(timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output = process.communicate()[0] + f"(ended after {MOST_SECONDS} seconds)\n"
    return process.returncode, "".join(f"{text.rstrip()}\n" for text in output.splitlines())


def faults(page):
    """Returns what is wrong with a page itself: its front matter, links, and pages of the documentation that it names."""
    text = page.read_text(encoding="utf-8")
    found = []
    if page.name == "SKILL.md":
        front = re.match(r"---\nname: ([a-z0-9-]+)\ndescription: >-\n((?:  .*\n)+)", text)
        if not front or front[1] != SKILL.name:
            found.append(f"the front matter needs `name: {SKILL.name}` and a folded `description`")
        elif len(" ".join(front[2].split())) > 1024:
            found.append("the description has more than 1024 characters")
        if len(text.splitlines()) > 500:
            found.append("SKILL.md has more than 500 lines")
    for target in re.findall(r"\]\(([^)#:]+)", text):
        if not (page.parent / target).is_file():
            found.append(f"the link {target} leads nowhere")
    for name in sorted(set(re.findall(r"`llm-do docs ([a-z0-9/-]+)`", text) + re.findall(r"\b[EW]\d{4}\b", text))):
        if subprocess.run(["llm-do", "docs", name], stdout=subprocess.DEVNULL).returncode:
            found.append(f"`llm-do docs {name}` fails")
    return [f"{page.relative_to(SKILL.parent)}: {fault}\n" for fault in found]


def follow(page):
    """Follows a page; returns the number of commands and the failures."""
    count, failures = 0, faults(page)
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as folder:
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("LLM_DO_") and not name.endswith("_API_KEY")}
        environment |= {"HOME": home, "NO_COLOR": "1"}
        # A version manager in the old home finds its Python through these.
        for name, place in (("PYENV_ROOT", ".pyenv"), ("ASDF_DATA_DIR", ".asdf")):
            if (there := Path.home() / place).is_dir():
                environment.setdefault(name, str(there))
        for kind, before, content, line in blocks(page.read_text(encoding="utf-8")):
            if name := FILE.search(before):
                file = Path(folder, name[1])
                if Path(folder).resolve() not in file.resolve().parents:
                    raise ValueError(f"{page.name}:{line}: {name[1]} leads out of the folder")
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(content, encoding="utf-8")
            elif kind == "console":
                for command, code, expected, at in commands(content, line):
                    count += 1
                    got, output = run(command, folder, environment)
                    if got != code or not pattern(expected).fullmatch(output):
                        wanted = "".join(f"  | {text}\n" for text in expected)
                        shown = "".join(f"  | {text}\n" for text in output.splitlines())
                        failures.append(f"{page.relative_to(SKILL.parent)}:{at}: $ {command}\n"
                                        f"  expected exit code {code}:\n{wanted}  got exit code {got}:\n{shown}")
    return count, failures


def main():
    pages = [Path(name).resolve() for name in sys.argv[1:]]
    pages = pages or [SKILL / "SKILL.md", *sorted((SKILL / "references").glob("*.md"))]
    with ThreadPoolExecutor(max_workers=2) as pool:
        results = list(pool.map(follow, pages))
    count = sum(commands for commands, _ in results)
    failures = [failure for _, failures in results for failure in failures]
    print("\n".join(failures), end="")
    print(f"{count} commands of {len(pages)} pages, {len(failures)} differences from what the skill says")
    if failures or not all(commands for commands, _ in results):
        sys.exit(1)


if __name__ == "__main__":
    main()
