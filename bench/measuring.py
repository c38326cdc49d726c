"""What the benchmarks measure with: built programs, the model server, the machine."""

import contextlib
import functools
import json
import os
import platform
import re
import subprocess
import sys
import urllib.request
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CPUS = sorted(os.sched_getaffinity(0))
PEERS = ["llm==0.36", "mcp==2.3.0", "pydantic-ai-slim[openai]==2.68.0"]
MCP_PEERS = ["mcp==2.3.0", "pydantic-ai-slim[mcp]==2.68.0"]


def output(*command):
    result = subprocess.run([*map(str, command)], cwd=ROOT, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{command[0]} failed: {result.stderr}")
    return result.stdout


def cargo_build(*arguments):
    subprocess.run(["cargo", "build", "--release", "--locked", *arguments], cwd=ROOT, check=True)


@functools.cache
def release():
    """Where the built programs are."""
    metadata = json.loads(output("cargo", "metadata", "--no-deps", "--format-version=1"))
    return Path(metadata["target_directory"]) / "release"


@contextlib.contextmanager
def server(*arguments):
    """A model server on the last processor; what is measured runs on the first."""
    command = [release() / "llm-do-testserver", *map(str, arguments)]
    os.sched_setaffinity(0, CPUS[-1:])
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    finally:
        os.sched_setaffinity(0, CPUS[:1])
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait()
        os.sched_setaffinity(0, CPUS)


def stats(url):
    """What the server counts since it was last asked."""
    with urllib.request.urlopen(f"{url}/stats") as answer:
        return json.load(answer)


def environment(name, packages):
    """An environment in `target` with these packages from PyPI; its interpreter."""
    place = ROOT / "target" / name
    python, installed = place / "bin" / "python", place / "installed"
    if not installed.exists() or installed.read_text().split() != packages:
        venv.create(place, clear=True, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)
        installed.write_text("\n".join(packages))
    return python


def peers():
    """The programs that llm-do is compared with."""
    return environment("bench-peers", PEERS)


def mcp_peers():
    """Other clients of the Model Context Protocol. Memory is measured, so that nothing is there that they don't need."""
    return environment("bench-mcp", MCP_PEERS)


def machine():
    cpu = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    memory = int(re.search(r"MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text())[1])
    return {
        "cpu": cpu[1] if cpu else platform.machine(),
        "cores": len(CPUS),
        "memory_gb": round(memory / 2**20),
        "real_time_priority": os.sched_getscheduler(0) != os.SCHED_OTHER,
        "kernel": platform.release().split("-")[0],
        "rustc": output("rustc", "--version").split()[1],
        "commit": output("git", "describe", "--always", "--dirty").strip(),
    }
