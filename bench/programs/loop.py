"""What the loops of the peers share with those in Rust (`crates/bench/src/lib.rs`): options, transcript, and the line printed."""

import argparse
import asyncio
import json
import re
import time
from pathlib import Path

MODEL = "loopback"
SYSTEM = "You read the files you are asked for, one by one, and say when all are read."
USER = "Read all files in input/."
RESULT = "Line one of the file, with some words in it.\nLine two of the file, with some more words in it.\n"
FINAL = "All of it is read."


def read_file(path: str) -> str:
    """Reads a text file."""
    return RESULT


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--warm", action="store_true", help="begin with a conversation that does not count")
    for name, default in (("turns", 10), ("concurrency", 1), ("repeat", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser.parse_args()


async def measure(program, options, converse):
    """R conversations one after another in each of N loops side by side. `converse` holds one and gives back the last text."""

    async def loop():
        for _ in range(options.repeat):
            text = await converse()
            if text != FINAL:
                raise SystemExit(f"the conversation ended with {text!r}")

    if options.warm:
        await converse()
    wall, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(loop() for _ in range(options.concurrency)))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    requests = options.concurrency * options.repeat * (options.turns + 1)
    peak = re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())
    figures = {
        "program": program,
        "requests": requests,
        "wall_ms_per_turn": round(wall * 1e3 / requests, 4),
        "cpu_ms_per_turn": round(cpu * 1e3 / requests, 4),
        "turns_per_second": round(requests / wall, 1),
        "peak_rss_kb": int(peak[1]),
    }
    print(json.dumps(figures))
