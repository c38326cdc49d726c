"""Cancellation, and processes that end: llm-do, its parent, a child of the parent."""

import asyncio
import logging
import multiprocessing
import os
import signal
import stat
import subprocess
import sys
import threading
import time
import unittest
from typing import Any

from harness import ClientTest

from llm_do import Disconnected, LlmDoError, NotLoaded, Program, load


def alive(pid: int) -> bool:
    """Whether there is such a process, and it has not ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Cancellation(ClientTest):
    def test_cancelled_task_cancels_its_run(self) -> None:
        program = self.load()

        async def main() -> None:
            task = asyncio.ensure_future(program.slow.acall("x"))
            await asyncio.get_running_loop().run_in_executor(None, self.until, lambda: program.runs(limit=1))
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(program.slow.acall("x"), 0.3)

        asyncio.run(main())
        self.until(lambda: [run["state"] for run in program.runs()] == ["cancelled", "cancelled"])

    def test_interrupt_cancels_the_run_and_the_process_stays(self) -> None:
        program = self.load()
        main = threading.main_thread().ident
        assert main is not None
        # A process that was started in the background may ignore it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        interrupt = threading.Timer(0.5, lambda: signal.pthread_kill(main, signal.SIGINT))
        interrupt.start()
        with self.assertRaises(KeyboardInterrupt):
            program.slow("x")
        self.until(lambda: program.runs(limit=1)[0]["state"] == "cancelled")
        self.assertEqual(program["a/b"]("Ada"), "Hello, Ada!")


class Ends(ClientTest):
    def test_process_ends_with_the_block_and_calls_under_way_fail(self) -> None:
        failed = []

        def call(program: Program) -> None:
            try:
                program.slow("x")
            except LlmDoError as error:
                failed.append(error)

        with self.load() as program:
            waiting = threading.Thread(target=call, args=(program,))
            waiting.start()
            self.until(lambda: program.runs(limit=1))
        waiting.join()
        self.assertFalse(alive(program.connection.process.pid))
        self.assertEqual(len(failed), 1)
        with self.assertRaisesRegex(Disconnected, "closed"):
            program.slow("x")

    def test_binary_that_dies_in_the_middle_of_a_call(self) -> None:
        program = self.load()
        process = program.connection.process
        threading.Timer(0.5, process.kill).start()
        with self.assertRaisesRegex(Disconnected, "signal 9"):
            program.slow("x")
        with self.assertRaisesRegex(Disconnected, "signal 9"):
            program.slow("x")

    def test_killed_parent_leaves_no_process(self) -> None:
        for leaves_a_child in (False, True):
            script = (
                "import os, sys, time\n"
                f"sys.path[:0] = {sys.path!r}\n"
                "from llm_do import load\n"
                f"program = load({self.project!r}, cwd={self.project!r})\n"
                "stream = program.slow.stream('x')\n"
                "next(iter(stream))\n"
                # A child that is forked holds the pipe.
                f"if {leaves_a_child} and os.fork() == 0:\n    time.sleep(600)\n"
                "print(program.connection.process.pid, flush=True)\n"
                "time.sleep(600)\n"
            )
            parent = subprocess.Popen(
                [sys.executable, "-c", script], env=self.env, stdout=subprocess.PIPE, start_new_session=True
            )
            self.addCleanup(parent.stdout.close)  # type: ignore[union-attr]
            self.addCleanup(_kill_group, parent.pid)
            assert parent.stdout is not None
            pid = int(parent.stdout.readline())
            self.assertTrue(alive(pid))
            parent.kill()
            parent.wait()
            self.until(lambda pid=pid: not alive(pid))

    def test_forked_child_is_told_to_load_its_own(self) -> None:
        program = self.load()
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe()

        def child() -> None:
            try:
                theirs.send(program["a/b"]("x"))
            except Disconnected as error:
                theirs.send(str(error))

        process = context.Process(target=child)
        process.start()
        self.assertIn("another process", ours.recv())
        process.join()
        self.assertEqual(program["a/b"]("Ada"), "Hello, Ada!")


class NotStarted(ClientTest):
    def fake(self, script: str) -> str:
        path = self.write("fake", f"#!{sys.executable}\nimport sys, json, os, time\n{script}\n")
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
        return path

    def refused(self, reason: str, **options: Any) -> None:
        started = time.monotonic()
        with self.assertRaisesRegex(NotLoaded, reason):
            load(self.project, cwd=self.project, env=self.env, **options)
        self.assertLess(time.monotonic() - started, 60)

    def test_program_that_does_not_load(self) -> None:
        self.write("project.yaml", "nam: desk\n")
        self.refused("nam")
        self.write("project.yaml", "name: desk\nmodel: script:none.yaml\nexports: [greeter]\n")
        self.refused("none.yaml")

    def test_binaries_that_are_something_else(self) -> None:
        self.refused("there is no program", binary=os.path.join(self.folder, "nothing"))
        self.refused("exit code 3.*said this", binary=self.fake("sys.stderr.write('said this'); sys.exit(3)"))
        self.refused("no message", binary=self.fake("print('Hello!', flush=True); time.sleep(600)"))
        answer = "hello = json.loads(sys.stdin.readline())\nprint(json.dumps({'jsonrpc': '2.0', 'id': hello['id'], %s}))"
        other = "'result': {'protocol': 2, 'version': '9.9.9', 'workers': []}"
        self.refused("9.9.9 speaks another protocol", binary=self.fake(answer % other))
        error = "'error': {'code': -32602, 'message': 'the client speaks version 1'}"
        self.refused("speaks version 1", binary=self.fake(answer % error))
        self.refused("another protocol", binary=self.fake(answer % "'result': []"))

    def test_log_reaches_the_logger_of_the_module(self) -> None:
        with self.assertLogs(logging.getLogger("llm_do"), "WARNING") as logged:
            program = self.load()
            program.writer("go")
            program.close()
        self.assertEqual(sum("takes no questions" in line for line in logged.output), 1)


def _kill_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass


if __name__ == "__main__":
    unittest.main()
