"""Joins the sections of the host, in the order of `src/ORDER`.

    python join.py > host.py   # the file that every interpreter runs

The host is one file because that starts faster than a package: an interpreter opens and reads one compiled
file. For the binary, `build.rs` joins it in the same way. A test compares the two.
"""

from __future__ import annotations

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.normpath(os.path.join(HERE, "..", "..", "..", "python", "llm_do", "__init__.py"))
#: The host's section `llm_do` is the package from this line on.
MARK = "# The host's section `llm_do` begins here.\n"


def section(name: str) -> str:
    path = PACKAGE if name == "llm_do" else os.path.join(HERE, "src", f"{name}.py")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    return text.split(MARK, 1)[1] if name == "llm_do" else text


def join() -> str:
    with open(os.path.join(HERE, "src", "ORDER"), encoding="utf-8") as file:
        names = [line for line in file.read().splitlines() if line and not line.startswith("#")]
    return "\n\n\n".join(section(name).strip("\n") for name in names) + "\n"


if __name__ == "__main__":
    sys.stdout.write(join())
