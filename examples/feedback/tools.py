import json
from collections import Counter
from pathlib import Path


def count_letters() -> dict[str, int]:
    """Counts the classified letters by topic and mood."""
    lines = Path("results/letters.jsonl").read_text().splitlines()
    outputs = [json.loads(line)["output"] for line in lines]
    return dict(Counter(f"{output['topic']}, {output['mood']}" for output in outputs))
