"""Joins the sections in `src`, in the order of `src/ORDER`.

    python join.py host > host.py   # the file that every interpreter runs
    python join.py package --write  # makes python/llm_do/__init__.py

The host is one file because that starts faster than a package: an interpreter opens and reads one compiled
file. For the binary, `build.rs` joins it in the same way. A test compares the two.
"""

from __future__ import annotations

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.normpath(os.path.join(HERE, "..", "..", "..", "python", "llm_do", "__init__.py"))


def read(name: str) -> str:
    with open(os.path.join(HERE, "src", name), encoding="utf-8") as file:
        return file.read()


def sections(wanted: str) -> list[str]:
    """The names that `ORDER` lists below `[wanted]`."""
    names, below = [], ""
    for line in read("ORDER").splitlines():
        if line.startswith("["):
            below = line.strip("[]")
        elif line and not line.startswith("#") and below == wanted:
            names.append(line)
    return names


def join(wanted: str) -> str:
    return "\n\n\n".join(read(f"{name}.py").strip("\n") for name in sections(wanted)) + "\n"


def main(wanted: str, *options: str) -> None:
    text = join(wanted)
    if options == ("--write",) and wanted == "package":
        with open(PACKAGE, "w", encoding="utf-8") as file:
            file.write(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
