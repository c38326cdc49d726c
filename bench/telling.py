"""What the benchmarks tell: raw results kept by date, and their places in the documentation."""

import datetime
import json
import re
import statistics
import sys

from measuring import ROOT

RESULTS = ROOT / "bench" / "results"
DOCUMENT = ROOT / "docs" / "performance.md"

median = statistics.median


def today():
    return datetime.date.today().isoformat()


def keep(results, folder="."):
    """Keeps raw results under their date."""
    place = RESULTS / folder
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{results['date']}.json").write_text(json.dumps(results) + "\n")


def newest(folder="."):
    kept = sorted((RESULTS / folder).glob("*.json"))
    return json.loads(kept[-1].read_text()) if kept else sys.exit(f"no raw results yet in {RESULTS / folder}")


def filled(text, name, told):
    """The document's text with `told` in the one place of that name."""
    block = f"<!-- {name} -->\n{told}\n<!-- end -->"
    text, found = re.subn(rf"<!-- {name} -->\n.*?<!-- end -->", lambda _: block, text, flags=re.S)
    if found != 1:
        sys.exit(f"the document has {found} places for `{name}`, not one")
    return text


def fill(name, told, document=DOCUMENT):
    document.write_text(filled(document.read_text(), name, told))


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def met(yes):
    return "yes" if yes else "**no**"


def with_missed(rows):
    """A table of targets, and below it what is missed."""
    missed = [row[0] for row in rows if row[-1] != "yes"]
    said = f"Missed: {'; '.join(missed)}." if missed else "All are met."
    return f"{table(['measure', 'target', 'measured', 'met'], rows)}\n\n{said}"


def about(results):
    """When, where and under which load."""
    m = results["machine"]
    load = f"{results['load_before']:.1f} before and {results['load_after']:.1f} after"
    if m["real_time_priority"]:
        load += " (other work; what is measured had real-time priority)"
    return (
        f"Measured on {results['date']}: {m['cores']} cores of {m['cpu']}, {m['memory_gb']} GB, Linux {m['kernel']}, "
        f"rustc {m['rustc']}, commit `{m['commit']}`; load average {load}."
    )
