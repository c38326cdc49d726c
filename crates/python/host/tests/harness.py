"""Starts the real host and speaks its protocol. Every wait has a limit."""

from __future__ import annotations

import atexit
import base64
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from typing import Any, Callable, Dict, Iterable, List, Optional

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from join import join

LIMIT = 30.0


def joined_host() -> str:
    """The path of the host: the one in the binary if cargo runs these tests, else one joined here."""
    given = os.environ.get("LLM_DO_TEST_HOST")
    if given:
        return given
    folder = tempfile.mkdtemp(prefix="llm-do-host-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = os.path.join(folder, "host.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(join())
    return path


HOST = joined_host()

Frame = Dict[str, Any]


class Gone(Exception):
    """The host has closed the socket."""


class Host:
    """A running host and our end of its socket."""

    def __init__(
        self, python: str = sys.executable, script: str = HOST, view: Iterable[List[str]] = (), **env: str
    ) -> None:
        ours, theirs = socket.socketpair()
        self.socket = ours
        self.socket.settimeout(LIMIT)
        self.output = tempfile.TemporaryFile()
        self.started = time.perf_counter()

        def place_channel() -> None:
            os.dup2(theirs.fileno(), 3)

        command = [python, "-I", "-X", "utf8", script, "3"]
        if view:
            command.append(json.dumps(list(view), separators=(",", ":")))
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=self.output,
            close_fds=False,
            preexec_fn=place_channel,
            env={"PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", **env},
        )
        theirs.close()
        self.pending = b""
        self.logs: List[Frame] = []
        #: What answers callbacks: gets the frame, gives the fields of the reply, or None for no reply now.
        self.answer: Callable[[Frame], Optional[Frame]] = lambda frame: {"value": frame.get("input")}
        self.callbacks: List[Frame] = []
        self.next_id = 0

    def send(self, **frame: Any) -> None:
        body = json.dumps(frame, ensure_ascii=False, separators=(",", ":")).encode()
        self.socket.sendall(len(body).to_bytes(4, "big") + body)

    def receive(self, limit: float = LIMIT) -> Frame:
        """The next frame of any kind."""
        end = time.monotonic() + limit
        while True:
            if len(self.pending) >= 4:
                size = 4 + int.from_bytes(self.pending[:4], "big")
                if len(self.pending) >= size:
                    body, self.pending = self.pending[4:size], self.pending[size:]
                    return json.loads(body)
            self.socket.settimeout(max(end - time.monotonic(), 0.001))
            try:
                data = self.socket.recv(1 << 20)
            except ConnectionError:
                data = b""
            if not data:
                raise Gone(self.raw_output())
            self.pending += data

    def next(self, *kinds: str, limit: float = LIMIT) -> Frame:
        """The next frame of these kinds. Keeps logs and answers callbacks meanwhile."""
        while True:
            frame = self.receive(limit)
            kind = frame["t"]
            if kind == "log":
                self.logs.append(frame)
            if kind in kinds:
                return frame
            if kind in ("callback", "step_end"):
                self.callbacks.append(frame)
                reply = self.answer(frame)
                if reply is not None:
                    self.send(t="reply", id=frame["id"], cb=frame["cb"], **reply)
            elif kind != "log":
                raise AssertionError(f"unexpected frame {frame}")

    def ready(self) -> Frame:
        return self.next("ready")

    def start_call(
        self, module: Frame, function: str, plain: bool = False, ctx: Any = None, **args: Any
    ) -> int:
        self.next_id += 1
        self.send(
            t="call", id=self.next_id, module=module, function=function, args=args, plain=plain, ctx=ctx
        )
        return self.next_id

    def finish_call(self, id: int, limit: float = LIMIT) -> Frame:
        frame = self.next("result", "error", limit=limit)
        assert frame.get("id") == id, frame
        return frame

    def call(self, module: Frame, function: str, plain: bool = False, ctx: Any = None, **args: Any) -> Frame:
        """Calls a function and returns the whole answer."""
        return self.finish_call(self.start_call(module, function, plain, ctx, **args))

    def value(self, module: Frame, function: str, plain: bool = False, ctx: Any = None, **args: Any) -> Any:
        frame = self.call(module, function, plain, ctx, **args)
        assert frame["t"] == "result", frame
        return frame["value"]

    def load(self, *modules: Frame) -> List[Frame]:
        self.send(t="load", modules=list(modules))
        return self.next("loaded")["modules"]

    def cancel(self, id: int) -> None:
        """Cancels a call, as llm-do does it: a frame and a signal."""
        self.send(t="cancel", id=id)
        self.interrupt()

    def interrupt(self) -> None:
        os.kill(self.process.pid, signal.SIGINT)

    def text(self, stream: str = "stdout") -> str:
        """The lines that were logged on a stream."""
        return "".join(frame["text"] + "\n" for frame in self.logs if frame["stream"] == stream)

    def raw_output(self) -> str:
        self.output.seek(0)
        return self.output.read().decode("utf-8", "replace")

    def close(self) -> None:
        self.socket.close()
        try:
            self.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(LIMIT)
            raise AssertionError("the host outlived its socket") from None
        finally:
            self.output.close()


class HostTest(unittest.TestCase):
    """A test with a project folder and a host that starts on first use."""

    maxDiff = None

    def setUp(self) -> None:
        self.root = os.path.realpath(tempfile.mkdtemp(prefix="llm-do-host-"))
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)
        self._host: Optional[Host] = None

    @property
    def host(self) -> Host:
        if self._host is None:
            self._host = self.start()
        return self._host

    def start(self, python: str = sys.executable) -> Host:
        host = Host(python)
        self.addCleanup(self._end, host)
        host.ready()
        return host

    @staticmethod
    def _end(host: Host) -> None:
        if host.process.poll() is None and not getattr(host, "may_hang", False):
            host.close()
        else:
            host.process.kill()
            host.process.wait(LIMIT)
            host.socket.close()
            host.output.close()

    def write(self, path: str, text: str) -> str:
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(text).lstrip("\n"))
        return full

    def module(self, text: str, path: str = "tools.py", **more: Any) -> Frame:
        """Writes a module and returns its MODULE."""
        full = self.write(path, text)
        name = os.path.basename(full)[:-3]
        return {"key": path, "path": full, "root": self.root, "name": name, **more}

    def report(self, text: str, path: str = "tools.py", **more: Any) -> Frame:
        return self.host.load(self.module(text, path, **more))[0]

    def functions(self, text: str, **more: Any) -> Dict[str, Frame]:
        report = self.report(text, **more)
        self.assertIsNone(report["error"], report)
        return {function["name"]: function for function in report["functions"]}

    def error(self, frame: Frame, kind: str) -> Frame:
        self.assertEqual(frame["t"], "error", frame)
        self.assertEqual(frame["kind"], kind, frame)
        return frame

    def noted(self, frame: Frame) -> str:
        """The notes about a result that has no JSON form. The call did not fail."""
        self.assertEqual(frame["t"], "result", frame)
        notes = [log["text"] for log in self.host.logs if log["id"] == frame["id"] and log["stream"] == "log"]
        self.assertTrue(notes, frame)
        return lines(notes)

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + LIMIT
        while not condition():
            if time.monotonic() > end:
                self.fail(f"{what} did not happen")
            time.sleep(0.005)


def decoded(blob: Frame) -> bytes:
    return base64.b64decode(blob["data"])


def lines(values: Iterable[Any]) -> str:
    return "\n".join(str(value) for value in values)
