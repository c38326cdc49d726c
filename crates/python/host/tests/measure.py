"""Measures what start and a warm call cost. Run it by hand: `python tests/measure.py`."""

from __future__ import annotations

import os
import py_compile
import statistics
import subprocess
import sys
import tempfile
import time

from harness import HOST, Host

TOOLS = """
def add(a: int, b: int) -> int:
    return a + b
def echo(text: str) -> str:
    return text
async def add_async(a: int, b: int) -> int:
    return a + b
"""


def median(samples: list[float], unit: float) -> str:
    samples.sort()
    return f"{statistics.median(samples) * unit:8.2f}  (p90 {samples[len(samples) * 9 // 10] * unit:.2f})"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        compiled = os.path.join(folder, "host.pyc")
        py_compile.compile(HOST, compiled, doraise=True)
        bare, ready = [], []
        for _ in range(30):
            begin = time.perf_counter()
            subprocess.run([sys.executable, "-I", "-X", "utf8", "-c", "pass"], check=True)
            bare.append(time.perf_counter() - begin)
            host = Host(script=compiled)
            host.ready()
            ready.append(time.perf_counter() - host.started)
            host.close()
        print(
            f"{sys.version.split()[0]}: bare interpreter {median(bare, 1e3)} ms; start to ready {median(ready, 1e3)} ms"
        )
        path = os.path.join(folder, "tools.py")
        with open(path, "w") as file:
            file.write(TOOLS)
        module = {"key": "tools", "path": path, "root": folder, "name": "tools"}
        host = Host(script=compiled)
        host.ready()
        for name, args in (
            ("add", {"a": 1, "b": 2}),
            ("echo", {"text": "x" * 1024}),
            ("add_async", {"a": 1, "b": 2}),
        ):
            samples = []
            for _ in range(2000):
                begin = time.perf_counter()
                host.value(module, name, plain=True, **args)
                samples.append(time.perf_counter() - begin)
            print(f"{name:10} round trip {median(samples[100:], 1e6)} µs")
        cpu = time.perf_counter()
        with open(f"/proc/{host.process.pid}/stat") as file:
            before = sum(map(int, file.read().rpartition(")")[2].split()[11:13]))
        for _ in range(20_000):
            host.value(module, "add", plain=True, a=1, b=2)
        with open(f"/proc/{host.process.pid}/stat") as file:
            after = sum(map(int, file.read().rpartition(")")[2].split()[11:13]))
        ticks = os.sysconf("SC_CLK_TCK")
        print(
            f"CPU of the host per warm call {(after - before) / ticks / 20_000 * 1e6:.1f} µs ({time.perf_counter() - cpu:.1f} s)"
        )
        host.close()


if __name__ == "__main__":
    main()
