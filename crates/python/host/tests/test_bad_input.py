"""Modules and functions that misbehave. Nothing here may hang, and the host answers each call once or is gone."""

import os
import signal
import time
import unittest

from harness import Gone, HostTest


class Importing(HostTest):
    def test_syntax_error_has_its_place(self) -> None:
        report = self.report("def f(:\n    pass\n")
        error = report["error"]
        self.assertEqual((error["kind"], error["type"]), ("import", "SyntaxError"))
        self.assertEqual(
            (error["file"], error["line"], error["column"]), (os.path.join(self.root, "tools.py"), 1, 7)
        )
        self.assertEqual(error["text"], "def f(:")
        self.assertEqual(report["functions"], [])

    def test_syntax_error_in_another_file_names_that_file(self) -> None:
        helper = self.write("helper.py", "x = 1\nif x\n    pass\n")
        error = self.report("import helper\n")["error"]
        self.assertEqual((error["file"], error["line"]), (helper, 2))

    def test_import_error_has_user_frames_only(self) -> None:
        error = self.report("x = 1\n1 / 0\n")["error"]
        self.assertEqual(
            (error["kind"], error["type"], error["message"]),
            ("import", "ZeroDivisionError", "division by zero"),
        )
        self.assertEqual([(frame["line"], frame["text"]) for frame in error["frames"]], [(2, "1 / 0")])

    def test_missing_package_is_named(self) -> None:
        module = self.module("import pandaz.core\n")
        error = self.host.load(module)[0]["error"]
        self.assertEqual((error["kind"], error["missing"]), ("missing", "pandaz"))
        self.assertEqual(self.error(self.host.call(module, "f"), "missing")["missing"], "pandaz")

    def test_missing_local_module_is_an_import_error(self) -> None:
        self.write("lib/__init__.py", "")
        self.assertEqual(self.report("import lib.other\n")["error"]["kind"], "import")

    def test_missing_file(self) -> None:
        report = self.host.load({"key": "x", "path": f"{self.root}/no.py", "root": self.root, "name": "no"})[
            0
        ]
        self.assertEqual(report["error"]["type"], "FileNotFoundError")

    def test_exit_at_import(self) -> None:
        self.assertEqual(self.report("import sys\nsys.exit(3)\n")["error"]["kind"], "exit")

    def test_print_and_threads_at_import(self) -> None:
        report = self.report(
            """
            import threading, time
            print("hello from import")
            threading.Thread(target=lambda: time.sleep(3600)).start()
            def f(n: int) -> int:
                return n
            """
        )
        self.assertEqual(report["logs"], "hello from import\n")
        self.assertEqual(self.host.value({"key": "tools.py"}, "f", n=1), 1)
        self.host.send(t="exit")
        self.assertEqual(self.host.process.wait(30), 0)

    def test_endless_import_of_a_call_can_be_interrupted_and_says_where(self) -> None:
        # The loop makes the mark, so an interrupt that follows the mark arrives in the loop.
        mark = f"{self.root}/mark"
        module = self.module(f"n = 0\nwhile True:\n    n += 1\n    if n == 1: open({mark!r}, 'w').close()\n")
        id = self.host.start_call(module, "f")
        self.wait_until(lambda: os.path.exists(mark), "the import")
        self.host.cancel(id)
        error = self.error(self.host.finish_call(id), "cancelled")
        self.assertIn(error["frames"][0]["line"], (2, 3, 4))

    def test_other_modules_of_a_load_are_not_harmed(self) -> None:
        bad, good = (
            self.module("1/0", "bad.py"),
            self.module("def f(x: int) -> int:\n    return x\n", "good.py"),
        )
        reports = self.host.load(bad, good)
        self.assertIsNotNone(reports[0]["error"])
        self.assertEqual([f["name"] for f in reports[1]["functions"]], ["f"])


class Dying(HostTest):
    def dies(self, text: str) -> str:
        module = self.module(text)
        self.host.start_call(module, "f")
        with self.assertRaises(Gone) as gone:
            self.host.next("result", "error")
        self.host.process.wait(30)
        return str(gone.exception)

    def test_segfault_says_where(self) -> None:
        output = self.dies("import ctypes\ndef f():\n    ctypes.string_at(0)\n")
        self.assertIn("Segmentation fault", output)
        self.assertIn('tools.py", line 3 in f', output)

    def test_exit_at_once(self) -> None:
        self.dies("import os\ndef f():\n    os._exit(7)\n")
        self.assertEqual(self.host.process.returncode, 7)

    def test_abort(self) -> None:
        self.dies("import os\ndef f():\n    os.abort()\n")

    def test_closed_socket_ends_the_host(self) -> None:
        self.host.socket.close()
        self.assertEqual(self.host.process.wait(30), 0)

    def test_closed_socket_ends_a_host_that_waits_for_an_answer(self) -> None:
        module = self.module("from llm_do import ToolContext\ndef f(ctx: ToolContext):\n    ctx.call('w')\n")
        self.host.start_call(module, "f")
        self.host.next("callback")
        self.host.socket.close()
        self.assertEqual(self.host.process.wait(30), 0)


class Misbehaving(HostTest):
    def check_alive(self) -> None:
        module = self.module("def ok() -> int:\n    return 1\n", "alive.py")
        self.assertEqual(self.host.value(module, "ok"), 1)

    def call(self, text: str, **args: object) -> dict:
        answer = self.host.call(self.module(text), "f", **args)
        self.check_alive()
        return answer

    def test_sys_exit_is_an_error(self) -> None:
        self.error(self.call("import sys\ndef f():\n    sys.exit('enough')\n"), "exit")

    def test_keyboard_interrupt_of_its_own(self) -> None:
        self.error(self.call("def f():\n    raise KeyboardInterrupt\n"), "exception")

    def test_nan(self) -> None:
        answer = self.call("def f():\n    return {'a': [1.0, float('nan')], 'b': 2}\n")
        self.assertIn("['a'][1] is nan", self.noted(answer))
        self.assertEqual(answer["value"], {"a": [1.0, "nan"], "b": 2})

    def test_infinity(self) -> None:
        answer = self.call("def f():\n    return -float('inf')\n")
        self.noted(answer)
        self.assertEqual(answer["value"], "-inf")

    def test_generator(self) -> None:
        error = self.error(self.call("def f():\n    return (x for x in [1])\n"), "result")
        self.assertIn("list", error["message"])
        self.error(self.call("def f():\n    return iter([1])\n"), "result")

    def test_coroutine(self) -> None:
        self.error(self.call("async def g():\n    pass\ndef f():\n    return g()\n"), "result")

    def test_hundred_megabytes(self) -> None:
        answer = self.call("def f():\n    return 'x' * 100_000_000\n")
        self.assertIn("16 MiB", self.noted(answer))
        self.assertIn("16 MiB", answer["value"])

    def test_large_through_escapes(self) -> None:
        answer = self.call("def f():\n    return '\\x00' * 10_000_000\n")
        self.assertIn("bytes", self.noted(answer))
        self.assertIn("bytes", answer["value"])

    def test_many_small_values(self) -> None:
        self.noted(self.call("def f():\n    return [[]] * 12_000_000\n"))

    def test_just_below_the_limit(self) -> None:
        self.assertEqual(len(self.call("def f():\n    return 'x' * (15 << 20)\n")["value"]), 15 << 20)

    def test_cycles(self) -> None:
        answer = self.call("def f():\n    a = {}\n    a['a'] = [a]\n    return a\n")
        self.assertIn("contains itself", self.noted(answer))

    def test_same_object_twice_is_no_cycle(self) -> None:
        self.assertEqual(self.call("def f():\n    a = [1]\n    return [a, a]\n")["value"], [[1], [1]])

    def test_depth(self) -> None:
        answer = self.call("def f():\n    a = []\n    for _ in range(100_000): a = [a]\n    return a\n")
        self.assertIn("levels deep", self.noted(answer))

    def test_endless_recursion(self) -> None:
        error = self.error(self.call("def f():\n    return f()\n"), "exception")
        self.assertEqual(error["type"], "RecursionError")
        self.assertLessEqual(len(error["frames"]), 20)

    def test_raises_in_str(self) -> None:
        text = """
            class Bad(Exception):
                def __str__(self):
                    raise SystemExit
                __repr__ = __str__
            def f():
                raise Bad()
            """
        error = self.error(self.call(text), "exception")
        self.assertIn("__str__", error["message"])
        self.assertEqual(error["type"], "Bad")

    def test_object_that_raises_everywhere(self) -> None:
        text = """
            class Bad:
                def __getattr__(self, name):
                    raise RuntimeError("no " + name)
                def __repr__(self):
                    raise ValueError
            def f():
                return Bad()
            """
        self.noted(self.call(text))

    def test_huge_integer(self) -> None:
        self.assertEqual(self.call("def f():\n    return 2 ** 200\n")["value"], str(2**200))
        self.call("def f():\n    return 10 ** 10_000\n")

    def test_lone_surrogates(self) -> None:
        self.assertEqual(
            self.call("def f():\n    print('\\udc80')\n    return 'a\\ud800b'\n")["value"], "a\ufffdb"
        )

    def test_surrogates_in_errors_and_keys(self) -> None:
        self.error(self.call("def f():\n    raise ValueError('\\ud800')\n"), "exception")
        self.call("def f():\n    return {'\\ud800': 1}\n")

    def test_long_message_is_cut(self) -> None:
        error = self.error(self.call("def f():\n    raise ValueError('x' * 1_000_000)\n"), "exception")
        self.assertLessEqual(len(error["message"]), 4_000)

    def test_input(self) -> None:
        error = self.error(self.call("def f():\n    return input('name? ')\n"), "exception")
        self.assertEqual(error["type"], "EOFError")
        self.assertIn("parameter", error["message"])
        error = self.error(self.call("import sys\ndef f():\n    return sys.stdin.read()\n"), "exception")
        self.assertEqual(error["type"], "EOFError")

    def test_closes_stdout(self) -> None:
        text = """
            import os, sys
            def f():
                sys.stdout.close(); sys.stderr.close(); sys.stdin.close()
                os.close(1)
                sys.stdout = None
                return "done"
            """
        self.assertEqual(self.call(text)["value"], "done")
        module = self.module("def g():\n    print('still here')\n", "g.py")
        self.host.value(module, "g")
        self.assertIn("still here\n", self.host.text())

    def test_closes_low_descriptors_and_writes_to_them(self) -> None:
        text = """
            import os
            def f():
                os.closerange(3, 200)
                for fd in range(3, 200):
                    try:
                        os.write(fd, b"garbage")
                    except OSError:
                        pass
                return "done"
            """
        self.assertEqual(self.call(text)["value"], "done")

    def test_leaks_descriptors(self) -> None:
        text = """
            import os
            leaked = []
            def f():
                try:
                    while True:
                        leaked.append(os.open("/dev/null", os.O_RDONLY))
                except OSError as error:
                    return error.errno
            """
        module = self.module(text)
        import resource

        limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, limit[1]))
        try:
            self.host  # noqa: B018  It starts with this limit.
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limit)
        self.assertEqual(self.host.value(module, "f"), 24)
        self.assertEqual(self.host.value(module, "f"), 24)

    def test_prints_from_c_do_not_reach_the_protocol(self) -> None:
        text = """
            import os, subprocess
            def f():
                os.write(1, b"raw one")
                subprocess.run(["sh", "-c", "echo raw two; echo raw three >&2"])
                return 1
            """
        self.assertEqual(self.call(text)["value"], 1)
        for word in ("raw one", "raw two", "raw three"):
            self.assertIn(word, self.host.raw_output())

    def test_patched_modules(self) -> None:
        text = """
            import builtins, json, os, sys
            def broken(*args, **kwargs):
                raise RuntimeError("patched")
            json.dumps = json.loads = json.JSONEncoder = json.JSONDecoder = broken
            json.encoder.c_make_encoder = json.decoder.scanstring = broken
            os.read = os.write = os._exit = os.getpid = broken
            import __main__
            for name in list(vars(__main__)):
                setattr(__main__, name, broken)
            def f(n):
                return {"n": n}
            """
        self.assertEqual(self.call(text, n=[1.5, "x"])["value"], {"n": [1.5, "x"]})

    def test_the_main_module_is_not_the_host(self) -> None:
        text = "import __main__\ndef f():\n    return [n for n in vars(__main__) if not n.startswith('__')]\n"
        self.assertEqual(self.call(text)["value"], [])


class Forking(HostTest):
    def test_child_that_returns(self) -> None:
        module = self.module("import os\ndef f():\n    return os.fork()\n")
        self.assertGreater(self.host.value(module, "f"), 0)
        self.assertGreater(self.host.value(module, "f"), 0)

    def test_child_that_raises_prints_and_calls(self) -> None:
        module = self.module(
            """
            import os, sys
            from llm_do import ToolContext
            def f(ctx: ToolContext):
                pid = os.fork()
                if pid == 0:
                    print("from the child")
                    try:
                        ctx.call("w")
                    except RuntimeError as error:
                        print("child:", error)
                    raise ValueError("in the child")
                os.waitpid(pid, 0)
                return "parent"
            """
        )
        self.assertEqual(self.host.value(module, "f"), "parent")
        self.assertEqual(self.host.callbacks, [])
        self.assertIn("from the child", self.host.raw_output())
        self.assertIn("child: a forked process", self.host.raw_output())

    def test_child_of_an_async_tool(self) -> None:
        module = self.module("import os\nasync def f():\n    return os.fork()\n")
        for _ in range(3):
            self.assertGreater(self.host.value(module, "f"), 0)

    def test_fork_that_python_does_not_know_of(self) -> None:
        module = self.module(
            """
            import ctypes, os
            def f():
                pid = ctypes.CDLL(None).fork()
                print("one of two")
                if pid:
                    os.waitpid(pid, 0)
                return pid
            """
        )
        self.assertGreater(self.host.value(module, "f"), 0)
        self.assertEqual(self.host.text(), "one of two\n")

    def test_multiprocessing(self) -> None:
        module = self.module(
            """
            import multiprocessing
            def work(n):
                print("worker", n)
                return n * n
            def f(method):
                with multiprocessing.get_context(method).Pool(2) as pool:
                    return pool.map(work, [1, 2, 3])
            """
        )
        for method in ("fork", "spawn"):
            self.assertEqual(self.host.value(module, "f", method=method), [1, 4, 9], method)


class Interrupting(HostTest):
    def started(self, text: str, **more: object) -> int:
        """Starts `f` and waits until it has made the file `mark`."""
        module = self.module(text.replace("MARK", f"open({self.root + '/mark'!r}, 'w').close()"))
        id = self.host.start_call(module, "f", **more)
        self.wait_until(lambda: os.path.exists(f"{self.root}/mark"), "the call")
        return id

    def check_alive(self) -> None:
        module = self.module("def ok() -> int:\n    return 1\n", "alive.py")
        self.assertEqual(self.host.value(module, "ok"), 1)

    def test_endless_loop(self) -> None:
        id = self.started("def f():\n    MARK\n    while True:\n        pass\n")
        self.host.cancel(id)
        error = self.error(self.host.finish_call(id), "cancelled")
        self.assertEqual(error["frames"][0]["function"], "f")
        self.check_alive()

    def test_a_signal_alone_interrupts_nothing(self) -> None:
        id = self.started(
            "import time\ndef f():\n    MARK\n    for _ in range(20): time.sleep(0.01)\n    return 'whole'\n"
        )
        self.host.interrupt()
        self.assertEqual(self.host.finish_call(id).get("value"), "whole")

    def test_a_cancellation_alone_suffices(self) -> None:
        # Not one long sleep: a signal in the moment before it begins would not end it.
        id = self.started("import time\ndef f():\n    MARK\n    while True:\n        time.sleep(0.05)\n")
        self.host.send(t="cancel", id=id)
        self.error(self.host.finish_call(id), "cancelled")
        self.check_alive()

    def test_while_waiting_for_an_answer(self) -> None:
        module = self.module(
            "from llm_do import ToolContext\ndef f(ctx: ToolContext):\n    return ctx.call('w')\n"
        )
        id = self.host.start_call(module, "f")
        self.host.next("callback")
        self.host.cancel(id)
        self.error(self.host.finish_call(id), "cancelled")
        self.check_alive()

    def test_a_late_signal_does_not_hit_the_next_call(self) -> None:
        module = self.module("def f():\n    return 1\n", "quick.py")
        id = self.host.start_call(module, "f")
        self.host.finish_call(id)
        self.host.send(t="cancel", id=id)
        id = self.started(
            "import time\ndef f():\n    MARK\n    for _ in range(20): time.sleep(0.01)\n    return 'whole'\n"
        )
        self.host.interrupt()  # Meant for the first call.
        self.assertEqual(self.host.finish_call(id).get("value"), "whole")

    def test_between_calls(self) -> None:
        self.check_alive()
        for _ in range(20):
            self.host.interrupt()
            self.check_alive()

    def test_reset_and_blocked_signals_are_put_back(self) -> None:
        module = self.module(
            """
            import signal
            def g():
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))
            """,
            "rude.py",
        )
        self.host.value(module, "g")
        id = self.started("def f():\n    MARK\n    while True:\n        pass\n")
        self.host.cancel(id)
        self.error(self.host.finish_call(id), "cancelled")

    def test_signals_while_printing_break_no_frame(self) -> None:
        text = """
            import llm_do, time
            def f():
                end = time.monotonic() + 20
                try:
                    MARK
                    while time.monotonic() < end:
                        print("x" * 300)
                except BaseException as error:
                    return type(error).__name__
            """
        for _ in range(20):
            id = self.started(text)
            self.host.cancel(id)
            answer = self.host.finish_call(id)
            # Since 3.12 an exception that a signal raises at the end of a loop can miss the `try` around it.
            self.assertIn("CallInterrupted", (answer.get("value"), answer.get("type")), answer)
            os.unlink(f"{self.root}/mark")
        self.check_alive()

    def test_interrupted_while_the_result_is_written(self) -> None:
        text = """
            class Slow(dict):
                def items(self):
                    MARK
                    while True:
                        pass
            def f():
                return Slow()
            """
        id = self.started(text)
        self.host.cancel(id)
        self.error(self.host.finish_call(id), "cancelled")

    def test_interrupted_while_the_error_is_described(self) -> None:
        text = """
            class Bad(Exception):
                def __str__(self):
                    MARK
                    while True:
                        pass
            def f():
                raise Bad()
            """
        id = self.started(text)
        self.host.cancel(id)
        self.assertEqual(self.error(self.host.finish_call(id), "exception")["type"], "Bad")

    def test_swallowed_interrupt_leaves_the_host_killable(self) -> None:
        text = """
            def f():
                while True:
                    try:
                        MARK
                        while True:
                            pass
                    except BaseException:
                        print("never")
            """
        self.host.cancel(self.started(text))
        frame = self.host.receive()
        if frame["t"] == "error":  # As above: it was not swallowed after all.
            self.error(frame, "cancelled")
            return
        self.assertEqual(frame["text"], "never")
        self.host.process.send_signal(signal.SIGKILL)
        self.host.process.wait(30)


class Late(HostTest):
    def test_calls_back_after_its_call_has_ended(self) -> None:
        module = self.module(
            """
            import threading, time
            from llm_do import ToolContext
            said = []
            go = threading.Event()
            def f(ctx: ToolContext):
                def late():
                    go.wait(20)
                    for what in (lambda: ctx.call("w"), lambda: ctx.step("s", lambda: 1), lambda: ctx.call_all([("a", {})])):
                        try:
                            said.append(what())
                        except RuntimeError as error:
                            said.append(str(error))
                    ctx.log("a late word")
                threading.Thread(target=late).start()
            def g():
                go.set()
                end = time.monotonic() + 20
                while len(said) < 3 and time.monotonic() < end:
                    time.sleep(0.001)
                return said
            """
        )
        self.host.value(module, "f")
        self.assertEqual(self.host.value(module, "g"), ["the call has ended"] * 3)
        self.assertEqual(self.host.callbacks, [])

    def test_thread_that_waits_when_its_call_ends(self) -> None:
        module = self.module(
            """
            import threading, time
            from llm_do import ToolContext
            said = []
            asked = threading.Event()
            def f(ctx: ToolContext):
                def ask():
                    asked.set()
                    try:
                        said.append(ctx.call("slow"))
                    except RuntimeError as error:
                        said.append(str(error))
                threading.Thread(target=ask).start()
                asked.wait(20)
                time.sleep(0.05)
            def g():
                end = time.monotonic() + 20
                while not said and time.monotonic() < end:
                    time.sleep(0.001)
                return said
            """
        )
        self.host.answer = lambda frame: None
        self.host.value(module, "f")
        begin = time.monotonic()
        self.assertEqual(self.host.value(module, "g"), ["the call has ended"], self.host.logs)
        self.assertLess(time.monotonic() - begin, 15)


if __name__ == "__main__":
    unittest.main()
