"""What the programs beside llm-do have in common that `bench/pays` starts: the work, the texts, the tool."""

import sys
from pathlib import Path

URL, WIRE, WORK, FOLDER = sys.argv[1:]
SYSTEM = "You read the files you are asked for, one by one, and say when all are read."
CALLER = "You have parts read, one by one, and say when all are read."
USER = "Read all files in input/."
ALL = "Have all parts read."


def read_file(path: str) -> str:
    """Reads a text file."""
    return (Path(FOLDER) / path).read_text()
