"""The package for editors and unit tests, which holds the module `llm_do` that the host provides."""

import ast
import importlib.util
import os
import re
import sys
import unittest

from harness import HostTest
from test_docstrings import host

from join import PACKAGE

spec = importlib.util.spec_from_file_location("llm_do_stubs", PACKAGE)
stubs = importlib.util.module_from_spec(spec)
sys.modules["llm_do_stubs"] = stubs
spec.loader.exec_module(stubs)


class Same(HostTest):
    def test_names(self) -> None:
        module = self.module("import llm_do\ndef f():\n    return sorted(llm_do.__all__)\n")
        self.assertEqual(self.host.value(module, "f"), sorted(stubs.__all__))
        self.assertTrue(all(hasattr(stubs, name) for name in stubs.__all__))
        self.assertIs(stubs.AskAgain, stubs.ModelRetry)

    def test_client_can_be_imported_and_not_used(self) -> None:
        package = os.path.dirname(PACKAGE)
        with open(os.path.join(package, "client", "__init__.py"), encoding="utf-8") as file:
            names = ast.literal_eval(file.read().split("__all__ = ", 1)[1])
        self.assertEqual(list(host.CLIENT_NAMES), names)
        with open(PACKAGE, encoding="utf-8") as file:
            typed = re.findall(r"from \.client import (\w+) as \1\n", file.read())
        self.assertEqual(sorted(typed), sorted(names))
        module = self.module(
            "from llm_do import load, Refused, tool\n"
            "@tool\ndef f() -> str:\n"
            "    try:\n        load('.')\n"
            "    except Refused:\n        pass\n"
            "    except RuntimeError as error:\n        return str(error)\n"
            "    return 'loaded'\n"
        )
        self.assertIn("ctx.call", self.host.value(module, "f"))
        wrong = self.module(
            "def f() -> bool:\n    import llm_do\n    return hasattr(llm_do, 'laod')\n", "g.py"
        )
        self.assertIs(self.host.value(wrong, "f"), False)

    def test_run_contexts_override_nothing_public(self) -> None:
        for name in ("RunContext", "SyncRunContext", "AsyncRunContext"):
            own = vars(getattr(host, name))
            self.assertEqual([member for member in own if not member.startswith("_")], [], name)
        self.assertTrue(issubclass(host.SyncRunContext, host.ToolContext))
        self.assertTrue(issubclass(host.AsyncRunContext, host.AsyncToolContext))
        # The host keeps no copy of a method whose signature says something else.
        for kind, base in (("SyncRunContext", "ToolContext"), ("AsyncRunContext", "AsyncToolContext")):
            for member in ("call", "call_tool", "call_all", "map", "step", "log"):
                self.assertIs(getattr(getattr(host, kind), member), getattr(getattr(host, base), member))

    def test_types_say_what_is_checked(self) -> None:
        """What only type checkers see, against what a run checks."""
        with open(PACKAGE, encoding="utf-8") as file:
            tree = ast.parse(file.read())
        words, keywords = {}, []
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in ("Risk", "Rule"):
                words[node.targets[0].id] = [
                    one.value for one in ast.walk(node) if isinstance(one, ast.Constant)
                ]
            if isinstance(node, ast.FunctionDef) and node.name == "tool" and node.args.kwonlyargs:
                keywords = [one.arg for one in node.args.kwonlyargs]
        self.assertEqual(words, {"Risk": list(stubs.RISKS), "Rule": list(stubs.RULES)})
        self.assertEqual(keywords, list(stubs.Options.__slots__))


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
