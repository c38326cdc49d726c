"""The package for users says of `llm_do` what the host provides."""

import importlib.util
import inspect
import os
import sys
import unittest

from harness import HOST, HostTest
from test_docstrings import host

PACKAGE = os.path.normpath(
    os.path.join(os.path.dirname(HOST), "..", "..", "..", "python", "llm_do", "__init__.py")
)
spec = importlib.util.spec_from_file_location("llm_do_stubs", PACKAGE)
stubs = importlib.util.module_from_spec(spec)
sys.modules["llm_do_stubs"] = stubs
spec.loader.exec_module(stubs)


def names(function: object, ours: bool = True) -> list:
    return [name for name in inspect.signature(function).parameters if name != "self"]


class Same(HostTest):
    def test_names(self) -> None:
        module = self.module("import llm_do\ndef f():\n    return sorted(llm_do.__all__)\n")
        self.assertEqual(self.host.value(module, "f"), sorted(stubs.__all__))
        self.assertTrue(all(hasattr(stubs, name) for name in stubs.__all__))

    def test_parameters(self) -> None:
        for name in ("Field", "File", "Image", "CallError", "tool"):
            self.assertEqual(names(getattr(host, name)), names(getattr(stubs, name)), name)

    def test_members(self) -> None:
        for name in ("ToolContext", "AsyncToolContext"):
            ours, theirs = getattr(host, name), getattr(stubs, name)
            public = {one for one in dir(ours) if not one.startswith("_")}
            self.assertEqual(
                public, {one for one in dir(theirs) if not one.startswith("_")} - {"logged"}, name
            )
            for member in ("call", "call_tool", "call_all", "step", "log"):
                mine, other = getattr(ours, member), getattr(theirs, member)
                self.assertEqual(names(mine), names(other), member)
                self.assertEqual(
                    inspect.iscoroutinefunction(mine), inspect.iscoroutinefunction(other), member
                )
        for member in ("path", "virtual"):
            self.assertEqual(names(getattr(host.Sandbox, member)), names(getattr(stubs.Sandbox, member)))

    def test_lists_of_words(self) -> None:
        self.assertEqual((host.RISKS, host.RULES), (stubs._RISKS, stubs._RULES))
        self.assertIs(stubs.AskAgain, stubs.ModelRetry)


class WithoutTheProgram(unittest.TestCase):
    def test_decorator_gives_the_function_back(self) -> None:
        def f() -> int:
            return 1

        self.assertIs(stubs.tool(f), f)
        self.assertIs(stubs.tool(name="x", risk="read")(f), f)
        for options in ({"rsk": "read"}, {"risk": "reed"}, {"approval": "never"}):
            with self.assertRaises((TypeError, ValueError)):
                stubs.tool(**options)

    def test_context_made_by_hand(self) -> None:
        ctx = stubs.ToolContext(
            calls={"w": lambda input: input["a"] + 1}, mounts={"/": "/tmp", "/input": "/data"}
        )
        self.assertEqual(ctx.call("w", a=1), 2)
        self.assertEqual(ctx.call_all([("w", {"a": 1}), ("w", {"a": 2})]), [2, 3])
        self.assertEqual(ctx.step("s", lambda: 1), 1)
        self.assertEqual([str(ctx.sandbox.path(path)) for path in ("/input/x", "y")], ["/data/x", "/tmp/y"])
        self.assertEqual(ctx.sandbox.virtual("/data/x"), "/input/x")
        with self.assertRaises(stubs.CallError):
            ctx.call("nobody")
        self.assertEqual(len(ctx.call_all([("nobody", {})], return_exceptions=True)), 1)

    def test_async_context_made_by_hand(self) -> None:
        import asyncio

        async def work() -> list:
            ctx = stubs.AsyncToolContext(calls={"w": lambda input: input})

            async def effect() -> int:
                return 1

            return [
                await ctx.call("w", 1),
                await ctx.call_all([("w", 2)]),
                await ctx.step("s", effect),
                await ctx.step("t", lambda: 2),
            ]

        self.assertEqual(asyncio.run(work()), [1, [2], 1, 2])


if __name__ == "__main__":
    unittest.main()
