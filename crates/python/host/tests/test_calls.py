import os
import sys
import unittest

from harness import Host, HostTest


class Calls(HostTest):
    def test_a_plain_function_is_called(self) -> None:
        module = self.module("def add(a: int, b: int) -> int:\n    return a + b\n")
        self.assertEqual(self.host.value(module, "add", plain=True, a=2, b=3), 5)

    def test_the_working_directory_shows_the_mounts(self) -> None:
        self.write("real/a.txt", "hello")
        os.mkdir(f"{self.root}/out")
        os.mkdir(f"{self.root}/tmp")
        view = [["/input", f"{self.root}/real"], ["/output", f"{self.root}/out"]]
        host = Host(view=view, TMPDIR=f"{self.root}/tmp")
        self.addCleanup(host.close)
        host.ready()
        module = self.module(
            """
            import os
            def f():
                with open("output/b.txt", "w") as file:
                    file.write("b")
                return [sorted(os.listdir()), open("input/a.txt").read()]
            """
        )
        self.assertEqual(host.value(module, "f"), [["input", "output"], "hello"])
        with open(f"{self.root}/out/b.txt") as file:
            self.assertEqual(file.read(), "b")

    def test_discovery_then_call(self) -> None:
        module = self.module(
            '''
            def add(a: int, b: int = 1) -> int:
                """Adds.

                Args:
                    a: the first
                    b: the second
                """
                return a + b
            '''
        )
        report = self.host.load(module)[0]
        self.assertIsNone(report["error"], report)
        self.assertEqual(report["exposes"], "plain")
        (function,) = report["functions"]
        self.assertEqual(
            function["input"],
            {
                "type": "object",
                "properties": {
                    "a": {"type": "integer", "description": "the first"},
                    "b": {"type": "integer", "description": "the second", "default": 1},
                },
                "required": ["a"],
                "additionalProperties": False,
            },
        )
        self.assertEqual(function["description"], "Adds.")
        self.assertTrue(function["plain"])
        self.assertEqual(self.host.value(module, function["function"], plain=True, a=2), 3)

    def test_context_calls_back(self) -> None:
        module = self.module(
            """
            from llm_do import ToolContext
            def f(ctx: ToolContext, n: int):
                return [ctx.call("w", {"n": i}) for i in range(n)] + ctx.call_all([("a", {"x": 1}), ("b", {"x": 2})])
            async def g(ctx: ToolContext, n: int):
                return [await ctx.call("w", n=i) for i in range(n)] + await ctx.call_all([("a", {"x": 1}), ("b", {"x": 2})])
            """
        )
        for name in ("f", "g"):
            self.assertEqual(self.host.value(module, name, n=2), [{"n": 0}, {"n": 1}, {"x": 1}, {"x": 2}])

    def test_exceptions(self) -> None:
        module = self.module("def f():\n    raise ValueError('no')\n")
        error = self.error(self.host.call(module, "f"), "exception")
        self.assertEqual(
            error["frames"],
            [{"file": module["path"], "line": 2, "function": "f", "text": "raise ValueError('no')"}],
        )

    def test_large_and_split_frames(self) -> None:
        module = self.module("def size(text: str) -> int:\n    return len(text)\n")
        self.assertEqual(self.host.value(module, "size", plain=True, text="é" * (12 << 20)), 12 << 20)
        import json

        call = {
            "t": "call",
            "module": module,
            "function": "size",
            "args": {"text": "x"},
            "plain": True,
            "ctx": None,
        }
        data = b""
        for id in (1, 2, 3):
            body = json.dumps({**call, "id": id}).encode()
            data += len(body).to_bytes(4, "big") + body
        for at in range(0, len(data), 7):
            self.host.socket.sendall(data[at : at + 7])
        self.assertEqual([self.host.next("result")["id"] for _ in range(3)], [1, 2, 3])

    def test_a_frame_that_is_too_large_ends_the_host(self) -> None:
        self.host.socket.sendall((65 << 20).to_bytes(4, "big") + b"x")
        self.assertEqual(self.host.process.wait(30), 1)
        self.assertIn("too large", self.host.raw_output())

    def test_broken_frames_end_the_host(self) -> None:
        for body in (b"{", b"[]", b'{"t": "call"}', b"\xff"):
            host = self.start()
            host.socket.sendall(len(body).to_bytes(4, "big") + body)
            self.assertNotEqual(host.process.wait(30), 0)

    def test_ready_says_which_interpreter(self) -> None:
        host = Host()
        ready = host.ready()
        host.close()
        self.assertEqual(ready["version"], "{}.{}.{}".format(*sys.version_info))
        self.assertEqual((ready["prefix"], ready["pid"]), (sys.prefix, host.process.pid))

    def test_exit_runs_what_was_left_for_it(self) -> None:
        module = self.module(
            f"import atexit\ndef f():\n    atexit.register(lambda: open({self.root + '/left'!r}, 'w').close())\n"
        )
        self.host.value(module, "f")
        self.host.send(t="exit")
        self.assertEqual(self.host.process.wait(30), 0)
        self.assertTrue(os.path.exists(f"{self.root}/left"))

    def test_a_thousand_calls_leave_nothing_behind(self) -> None:
        module = self.module(
            """
            import gc
            from llm_do import ToolContext
            def f(ctx: ToolContext, n: int):
                print(n)
                return ctx.call("w", n)
            def count(): return [gc.collect(), len(gc.get_objects())][1]
            """
        )
        for n in range(50):
            self.host.value(module, "f", plain=True, n=n)
        before = self.host.value(module, "count")
        for n in range(1000):
            self.host.value(module, "f", plain=True, n=n)
        self.assertLess(self.host.value(module, "count"), before + 50)


if __name__ == "__main__":
    unittest.main()
