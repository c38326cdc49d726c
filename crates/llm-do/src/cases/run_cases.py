"""Tries a function against the cases beside this file, without llm-do and without its confinement.

python3 run_cases.py ../tools.py:function
"""

import importlib.util
import json
import sys
from pathlib import Path


def load(reference):
    path, _, name = reference.rpartition(":")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(Path(path).resolve().parent))
    spec.loader.exec_module(module)
    return getattr(module, name)


def main():
    if len(sys.argv) != 2 or ":" not in sys.argv[1]:
        sys.exit(__doc__)
    function = load(sys.argv[1])
    failed = 0
    files = sorted(Path(__file__).parent.glob("*.cases.jsonl"))
    for line in (line for file in files for line in file.read_text(encoding="utf-8").splitlines() if line.strip()):
        case = json.loads(line)
        expected = case.get("expect", {}).get("output")
        if not isinstance(expected, dict) or list(expected) != ["exactly"]:
            continue
        output = expected["exactly"]
        try:
            given = json.loads(json.dumps(function(**case["input"])))
        except Exception as error:
            given = error
        if given != output:
            failed += 1
            print(f"{case['name']}: {output!r} was recorded, now it is {given!r}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
