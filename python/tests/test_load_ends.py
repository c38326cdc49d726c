"""`load` and its process: each point at which the process, a thread or a pipe can end settles what waits."""

import faulthandler
import json
import os
import signal
import stat
import sys
import threading
import unittest
from types import FrameType
from typing import Any
from unittest import mock

from harness import ClientTest

from llm_do import Disconnected, NotLoaded, load
from llm_do.client import connection
from llm_do.client.connection import Connection

CLIENT = os.path.dirname(connection.__file__)


class Bounded(ClientTest):
    """A test that is ended if it hangs, with the stacks of its threads."""

    def setUp(self) -> None:
        super().setUp()
        faulthandler.dump_traceback_later(300, exit=True)
        self.addCleanup(faulthandler.cancel_dump_traceback_later)

    def fake(self, script: str) -> str:
        path = self.write("fake", f"#!{sys.executable} -S\nimport sys, json, os, time\n{script}\n")
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
        return path

    def started(self, **options: Any) -> Any:
        return load(self.project, cwd=self.project, env=self.env, **options)


def dies(pid: int) -> None:
    """Kills a process, and waits until it is dead."""
    try:
        os.kill(pid, signal.SIGKILL)
        # Its status is left for the client.
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    except (ChildProcessError, ProcessLookupError):
        pass  # The client has waited for it.


class Killed(Bounded):
    def test_before_each_line_of_the_client(self) -> None:
        """Kills the process before the first, the second, … line that any thread of the client executes."""
        loaded = 0
        for nth in range(1_000_000):
            lock, left, made = threading.Lock(), [nth], []
            init = Connection._start

            def start(connection: Connection, *args: Any, made: Any = made, init: Any = init) -> Any:
                made[:] = made or [connection.process]
                return init(connection, *args)

            def trace(
                frame: FrameType, event: str, _: Any, lock: Any = lock, left: Any = left, made: Any = made
            ) -> Any:
                if not frame.f_code.co_filename.startswith(CLIENT):
                    return None
                if event == "line" and made:
                    with lock:
                        left[0] -= 1
                        now = left[0] == -1
                    if now:
                        dies(made[0].pid)
                return trace

            program = None
            threading.settrace(trace)
            sys.settrace(trace)
            try:
                with mock.patch.object(Connection, "_start", start):
                    program = self.started()
            except (NotLoaded, Disconnected):
                pass
            finally:
                sys.settrace(None)
                threading.settrace(None)  # type: ignore[arg-type]
            if program is not None:
                loaded += 1
                program.close()
                if left[0] >= 0:
                    break  # It was loaded before that line.
        self.assertGreater(nth, 30)

    def test_before_each_thread_is_started(self) -> None:
        start = threading.Thread.start
        for nth in range(4):
            left = [nth]

            def late(thread: threading.Thread, left: Any = left) -> None:
                if thread.name.startswith("llm-do "):
                    left[0] -= 1
                    if left[0] == -1:
                        for pid in children():
                            dies(pid)
                start(thread)

            with (
                mock.patch.object(threading.Thread, "start", late),
                self.assertRaisesRegex(NotLoaded, "signal 9"),
            ):
                self.started()

    def test_thread_that_cannot_be_started(self) -> None:
        start = threading.Thread.start
        for nth in range(4):
            left = [nth]

            def refused(thread: threading.Thread, left: Any = left) -> None:
                if thread.name.startswith("llm-do "):
                    left[0] -= 1
                    if left[0] == -1:
                        raise RuntimeError("can't start new thread")
                start(thread)

            with (
                mock.patch.object(threading.Thread, "start", refused),
                self.assertRaisesRegex(NotLoaded, "thread"),
            ):
                self.started()
            self.until(lambda: not children())


class Pipes(Bounded):
    def refused(self, reason: str, script: str) -> None:
        with self.assertRaisesRegex(NotLoaded, reason):
            self.started(binary=self.fake(script))

    def test_process_that_lives_without_a_pipe(self) -> None:
        self.refused("closed its pipes", "os.close(1)\ntime.sleep(600)")
        self.refused("closed its pipes", "sys.stdin.readline()\nos.close(1)\ntime.sleep(600)")

    def test_another_process_that_holds_the_pipes(self) -> None:
        kept = "if os.fork() == 0:\n    os.setsid()\n    time.sleep(20)\n    os._exit(0)\n"
        self.refused("exit code 5", f"{kept}os._exit(5)")
        self.refused("exit code 5", f"{kept}sys.stdin.readline()\nos._exit(5)")

    def test_end_in_the_middle_of_a_line(self) -> None:
        self.refused("no message", "sys.stdin.readline()\nos.write(1, b'{\"jsonrpc')")
        self.refused(
            "no message", "sys.stdin.readline()\nos.write(1, b'[' * 200000 + b'\\n')\ntime.sleep(600)"
        )

    def test_messages_that_are_none(self) -> None:
        for message in (
            {"id": []},
            {"id": {}},
            {"method": "event", "params": {"request": []}},
            {"id": 0, "error": 7},
        ):
            line = json.dumps(message)
            self.refused("no message", f"sys.stdin.readline()\nprint({line!r}, flush=True)\ntime.sleep(600)")


class Threads(Bounded):
    def test_thread_that_fails(self) -> None:
        def fails(*_: Any) -> None:
            raise MemoryError("no memory")

        for name in ("_take", "_status"):
            with self.subTest(name), mock.patch.object(Connection, name, fails), self.assertRaises(NotLoaded):
                self.started(binary=self.fake("sys.stdin.readline()\nprint('{}', flush=True)"))

    def test_listener_that_fails_ends_its_call_alone(self) -> None:
        program = self.load()

        def hear(_: str, __: Any) -> None:
            raise SystemExit(3)

        params = {"worker": "greeter", "input": {"name": "Ada"}, "events": True}
        with self.assertRaises(SystemExit):
            program.connection.request("call", params, hear).wait()
        self.assertEqual(program.greeter(name="Ada"), "Hello, Ada!")


def children() -> "list[int]":
    """The processes that this one has started and not waited for."""
    with open(f"/proc/self/task/{threading.main_thread().native_id}/children", encoding="utf-8") as file:
        return [int(pid) for pid in file.read().split()]


if __name__ == "__main__":
    unittest.main()
