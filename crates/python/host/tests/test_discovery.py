"""What a module exposes, and what is said of it."""

import importlib.util
import marshal
import os
import py_compile
import subprocess
import sys
import unittest

from harness import HostTest


class Exposing(HostTest):
    def test_plain_functions_with_hints(self) -> None:
        report = self.report(
            """
            from os.path import join
            from typing import Callable
            from textwrap import dedent
            class A: pass
            def a(x: int): pass
            def b(x): pass
            def c() -> int: return 1
            def _d(x: int): pass
            def main(input: dict) -> str: return ""
            async def e(x: str) -> str: return x
            alias = a
            """
        )
        self.assertEqual(report["exposes"], "plain")
        self.assertEqual([f["name"] for f in report["functions"]], ["a", "c", "e"])
        self.assertEqual([f["async"] for f in report["functions"]], [False, False, True])

    def test_all(self) -> None:
        report = self.report(
            """
            __all__ = ["b", "A", "LIMIT"]
            LIMIT = 3
            class A: pass
            def a(x: int): pass
            def b(x): pass
            """
        )
        self.assertEqual((report["exposes"], [f["name"] for f in report["functions"]]), ("__all__", ["b"]))

    def test_all_that_names_nothing(self) -> None:
        report = self.report("__all__ = ['no']\n")
        self.assertEqual(report["error"]["type"], "AttributeError")

    def test_decorated(self) -> None:
        report = self.report(
            """
            from llm_do import tool
            __all__ = ["plain"]
            def plain(x: int): pass
            def described(x: int): "Looks like a tool."
            @tool
            def a(x: int): "A."
            @tool()
            def b(x: int): pass
            @tool(name="see", description="Sees.", risk="read", approval="preApproved", parallel=True)
            def c(x: int): "Not this."
            @tool(approval=lambda x: "ask")
            def d(x: int): pass
            @tool(untrusted=["body"])
            def e(x: int): pass
            """
        )
        self.assertEqual(report["exposes"], "decorated")
        functions = {f["name"]: f for f in report["functions"]}
        self.assertEqual(list(functions), ["a", "b", "see", "d", "e"])
        self.assertEqual([f["untrusted"] for f in report["functions"]], [None, None, None, None, ["body"]])
        see = functions["see"]
        self.assertEqual(see["function"], "c")
        self.assertEqual(
            [see[key] for key in ("description", "risk", "approval", "parallel")],
            ["Sees.", "read", "preApproved", True],
        )
        self.assertEqual(
            (functions["a"]["risk"], functions["a"]["approval"], functions["a"]["description"]),
            (None, None, "A."),
        )
        self.assertEqual(functions["d"]["approval"], "callable")
        self.assertEqual([(f["name"], f["line"]) for f in report["hidden"]], [("described", 4)])

    def test_imported_tools_belong_to_their_module(self) -> None:
        self.write("other.py", "from llm_do import tool\n@tool\ndef other(x: int): pass\n")
        report = self.report(
            "from llm_do import tool\nfrom other import other\n@tool\ndef mine(x: int): pass\n"
        )
        self.assertEqual([f["name"] for f in report["functions"]], ["mine"])

    def test_a_package_exposes_what_it_imports_and_lists(self) -> None:
        self.write("kit/__init__.py", "from .a import one\nfrom .b import two\n__all__ = ['one', 'two']\n")
        self.write("kit/a.py", "def one(x: int) -> int:\n    return x\n")
        self.write("kit/b.py", "from . import a\ndef two(x: int) -> int:\n    return a.one(x) * 2\n")
        module = {"key": "kit", "path": f"{self.root}/kit", "root": self.root, "name": "kit"}
        report = self.host.load(module)[0]
        self.assertIsNone(report["error"], report)
        self.assertEqual([f["name"] for f in report["functions"]], ["one", "two"])
        self.assertEqual(self.host.value(module, "two", x=2), 4)

    def test_a_package_exposes_decorated_functions_of_its_files(self) -> None:
        self.write("kit/__init__.py", "from .a import one\n")
        self.write("kit/a.py", "from llm_do import tool\n@tool\ndef one(x: int) -> int:\n    return x\n")
        report = self.host.load({"key": "kit", "path": f"{self.root}/kit", "root": self.root, "name": "kit"})[
            0
        ]
        self.assertEqual([f["name"] for f in report["functions"]], ["one"])

    def test_register(self) -> None:
        text = """
            def register(agent):
                @agent.tool
                def a(ctx, x: int) -> int:
                    "A."
                    return x
                @agent.tool(name="bee", description="B.")
                async def b(x: int) -> int:
                    return x + 1
                @agent.tool_plain
                def c(context: int) -> int:
                    return context + 2
                agent.add_tool(top)
                agent.add_tool(lambda x: x, name="anonymous")
            def top(x: int) -> int:
                return x + 3
            """
        report = self.report(text)
        self.assertEqual(report["exposes"], "register")
        functions = {f["name"]: f for f in report["functions"]}
        self.assertEqual(list(functions), ["a", "bee", "c", "top", "anonymous"])
        self.assertEqual([f["context"] for f in functions.values()], [True, False, False, False, False])
        module = {"key": "tools.py", "path": f"{self.root}/tools.py", "root": self.root}
        for host in (self.host, self.start()):  # One knows the module, the other imports it for the call.
            for name, args, value in (
                ("a", {"x": 1}, 1),
                ("bee", {"x": 1}, 2),
                ("c", {"context": 1}, 3),
                ("top", {"x": 1}, 4),
            ):
                self.assertEqual(host.value(module, functions[name]["function"], plain=True, **args), value)

    def test_register_of_a_package_module(self) -> None:
        self.write("pkg/__init__.py", "")
        self.write(
            "pkg/more.py", "def setup(agent):\n    agent.tool(f)\ndef f(x: int) -> int:\n    return x\n"
        )
        module = {"key": "m", "module": "pkg.more", "attribute": "setup", "root": self.root, "name": "more"}
        report = self.host.load(module)[0]
        self.assertEqual((report["exposes"], [f["name"] for f in report["functions"]]), ("register", ["f"]))
        self.assertEqual(self.host.value(module, "f", x=3), 3)

    def test_a_tool_called_register(self) -> None:
        report = self.report("def register(email: str) -> str:\n    return email\ndef a(x: int): pass\n")
        self.assertEqual([f["name"] for f in report["functions"]], ["register", "a"])

    def test_register_of_other_things(self) -> None:
        error = self.report("def register(agent):\n    agent.instructions('x')\n")["error"]
        self.assertIn("tool_plain", error["message"])
        self.assertEqual(error["frames"][0]["line"], 2)

    def test_names(self) -> None:
        text = "def a(x): pass\ndef b(x: int): pass\ndef _c(): pass\n"
        report = self.report(text, names=["a", "_c"])
        self.assertEqual(
            (report["exposes"], [f["name"] for f in report["functions"]]), ("names", ["a", "_c"])
        )

    def test_names_that_are_missing(self) -> None:
        report = self.report("def greet(x): pass\n", names=["gret"])
        self.assertIn("`gret`; did you mean greet?", report["error"]["message"])
        report = self.report("def greet(x): pass\ndef wave(): return 1\n", "b.py", names=["gret", "wave"])
        self.assertEqual(report["error"]["type"], "MissingName")
        self.assertEqual([f["name"] for f in report["functions"]], ["wave"])
        self.assertEqual(self.host.value({"key": "b.py"}, "wave"), 1)

    def test_nothing(self) -> None:
        report = self.report("x = 1\ndef f(a): pass\n")
        self.assertEqual((report["exposes"], report["functions"], report["error"]), ("nothing", [], None))

    def test_two_tools_with_one_name(self) -> None:
        report = self.report(
            """
            from llm_do import tool
            @tool
            def a(x: int): pass
            @tool(name="a")
            def b(x: int): pass
            """
        )
        self.assertEqual(report["error"]["type"], "DuplicateTool")
        self.assertEqual([frame["line"] for frame in report["error"]["frames"]], [2, 4])

    def test_bad_decorators_have_their_place(self) -> None:
        for options, words in (
            ("rsk='read'", "did you mean risk?"),
            ("risk='reed'", "did you mean read?"),
            ("approval='never'", "ask, preApproved, blocked"),
            ("parallel=1", 'True, False or "process"'),
            ("parallel='processes'", 'True, False or "process"'),
            ("name=''", "not empty"),
            ("'greet'", "by keyword"),
            ("schema=3", "JSON Schema"),
            ("untrusted='body'", "a list of fields"),
            ("untrusted=[1]", "a list of fields"),
        ):
            error = self.report(
                f"from llm_do import tool\n@tool({options})\ndef f(): pass\n", f"m{abs(hash(options))}.py"
            )["error"]
            self.assertIn(words, error["message"])
            self.assertEqual(error["frames"][0]["line"], 2)

    def test_tool_on_a_class(self) -> None:
        self.assertIn(
            "@tool marks functions",
            self.report("from llm_do import tool\n@tool\nclass A: pass\n")["error"]["message"],
        )


class Context(HostTest):
    def test_forms_of_the_annotation(self) -> None:
        functions = self.functions(
            """
            from __future__ import annotations
            import llm_do
            from typing import TYPE_CHECKING, Optional, Generic, TypeVar
            from llm_do import ToolContext, AsyncToolContext
            if TYPE_CHECKING:
                from somewhere import RunContext
            def a(ctx: ToolContext, x: int): pass
            def b(c: llm_do.ToolContext, x: int): pass
            def c(c: "ToolContext", x: int): pass
            def d(c: Optional[ToolContext] = None, x: int = 1): pass
            def e(c: ToolContext | None = None): pass
            async def f(c: AsyncToolContext): pass
            def g(ctx: RunContext[int], x: int): pass
            def h(x: int, *, ctx: ToolContext): pass
            def i(ctx: int): pass
            """
        )
        self.assertEqual(
            {name: f["context"] for name, f in functions.items()},
            {**dict.fromkeys("abcdefgh", True), "i": False},
        )
        self.assertEqual(list(functions["a"]["input"]["properties"]), ["x"])
        self.assertIsNone(functions["g"]["refused"])

    def test_without_future_annotations(self) -> None:
        functions = self.functions(
            """
            from typing import Optional
            from llm_do import ToolContext
            def a(ctx: ToolContext, x: int): pass
            def b(ctx: "ToolContext"): pass
            def c(ctx: Optional[ToolContext] = None): pass
            def d(ctx: "Optional[ToolContext]" = None): pass
            """
        )
        self.assertTrue(all(f["context"] for f in functions.values()))

    def test_wrapped_functions_and_methods(self) -> None:
        text = """
            import functools
            from llm_do import ToolContext
            def traced(f):
                @functools.wraps(f)
                def inner(*args, **kwargs):
                    return ["traced", f(*args, **kwargs)]
                return inner
            @traced
            def a(ctx: ToolContext, x: int) -> list:
                "A."
                return [x, ctx.worker]
            class Box:
                def get(self, ctx: ToolContext, x: int) -> int:
                    return x
                def __call__(self, x: int) -> int:
                    return x
            def register(agent):
                agent.add_tool(a)
                agent.add_tool(Box().get, name="get")
                agent.add_tool(Box(), name="box")
                agent.add_tool(functools.partial(a, x=3), name="three")
            """
        functions = self.functions(text)
        self.assertEqual(
            {name: f["context"] for name, f in functions.items()},
            {"a": True, "get": True, "box": False, "three": True},
        )
        self.assertEqual(list(functions["get"]["input"]["properties"]), ["x"])
        module = {"key": "tools.py"}
        ctx = {"worker": "w"}
        self.assertEqual(
            self.host.value(module, functions["a"]["function"], ctx=ctx, x=1), ["traced", [1, "w"]]
        )
        self.assertEqual(self.host.value(module, functions["get"]["function"], x=1), 1)
        self.assertEqual(self.host.value(module, functions["box"]["function"], x=1), 1)
        self.assertEqual(self.host.value(module, functions["three"]["function"]), ["traced", [3, ""]])

    def test_partials_and_objects_that_are_called(self) -> None:
        text = """
            import functools
            from llm_do import ToolContext
            def scale(factor: int, ctx: ToolContext, x: int) -> list:
                "Scales."
                return [factor * x, ctx.worker]
            class Shout:
                "A class."
                def __call__(self, x: str) -> str:
                    "Shouts."
                    return x.upper()
            def register(agent):
                agent.add_tool(functools.partial(scale, 3))
                agent.add_tool(Shout(), name="shout")
            """
        functions = self.functions(text)
        self.assertEqual(
            {name: f["description"] for name, f in functions.items()},
            {"scale": "Scales.", "shout": "Shouts."},
        )
        self.assertEqual(list(functions["scale"]["input"]["properties"]), ["x"])
        function = functions["scale"]["function"]
        self.assertEqual(self.host.value({"key": "tools.py"}, function, ctx={"worker": "w"}, x=2), [6, "w"])

    def test_wrapped_async_functions(self) -> None:
        text = """
            import asyncio, functools
            from llm_do import ToolContext
            def traced(f):
                @functools.wraps(f)
                def inner(*args, **kwargs):
                    return f(*args, **kwargs)
                return inner
            @traced
            async def a(ctx: ToolContext, x: int) -> int:
                await asyncio.sleep(0)
                return await ctx.call("w", x)
            """
        self.assertTrue(self.functions(text)["a"]["async"])
        self.assertEqual(self.host.value({"key": "tools.py"}, "a", x=1), 1)


class Importing(HostTest):
    def test_two_modules_of_one_name(self) -> None:
        one = self.module("def f() -> int:\n    return 1\n", "a/tools.py")
        two = self.module("def f() -> int:\n    return 2\n", "b/tools.py")
        self.assertEqual([self.host.value(one, "f"), self.host.value(two, "f")], [1, 2])

    def test_one_file_is_imported_once(self) -> None:
        self.write(
            "helper.py",
            "print('imported')\nstate = []\ndef push(x: int) -> int:\n    state.append(x)\n    return len(state)\n",
        )
        module = self.module("import helper\ndef f(x: int) -> int:\n    return helper.push(x)\n")
        helper = {"key": "helper.py", "path": f"{self.root}/helper.py", "root": self.root, "name": "helper"}
        self.assertEqual([self.host.value(module, "f", x=1), self.host.value(helper, "push", x=1)], [1, 2])
        self.assertEqual(self.host.text(), "imported\n")

    def test_a_file_in_a_package_imports_relatively(self) -> None:
        self.write("kit/__init__.py", "")
        self.write("kit/words.py", "hello = 'hello'\n")
        module = self.module(
            "from .words import hello\ndef f() -> str:\n    return hello\n", "kit/formatting.py"
        )
        self.assertEqual(self.host.value(module, "f"), "hello")

    def test_names_of_the_standard_library(self) -> None:
        module = self.module(
            "def f() -> int:\n    import random, statistics\n    return statistics.mean([1, 3])\n",
            "statistics.py",
        )
        self.assertEqual(self.host.value(module, "f"), 2)

    def test_imports_from_folder_and_root(self) -> None:
        self.write("shared.py", "a = 1\n")
        self.write("workers/x/near.py", "b = 2\n")
        module = self.module(
            "import shared, near\ndef f() -> int:\n    return shared.a + near.b\n", "workers/x/tools.py"
        )
        self.assertEqual(self.host.value(module, "f"), 3)

    def test_bytecode_of_the_program_is_not_read(self) -> None:
        def planted(path: str, source: str) -> str:
            """A file whose cached bytecode, valid by time and size, does something else."""
            file = self.write(path, source)
            other = source.replace("reviewed", "planted!")
            self.assertEqual(len(other), len(source))
            cached = importlib.util.cache_from_source(file)
            os.makedirs(os.path.dirname(cached), exist_ok=True)
            code = compile(other, file, "exec")
            facts = os.stat(file)
            with open(cached, "wb") as out:
                out.write(importlib.util.MAGIC_NUMBER + bytes(4))
                out.write(int(facts.st_mtime).to_bytes(4, "little") + facts.st_size.to_bytes(4, "little"))
                out.write(marshal.dumps(code))
            return file

        planted(
            "tools.py",
            "import helper, kit.part\ndef f() -> list: return ['reviewed', helper.a, kit.part.a]\n",
        )
        planted("helper.py", "a = 'reviewed'\n")
        planted("kit/__init__.py", "b = 'reviewed'\n")
        planted("kit/part.py", "a = 'reviewed'\n")
        module = {"key": "t", "path": f"{self.root}/tools.py", "root": self.root, "name": "tools"}
        # The control: Python itself runs the bytecode.
        said = subprocess.run(
            [
                sys.executable,
                "-c",
                f"import sys; sys.path.insert(0, {self.root!r}); import helper; print(helper.a)",
            ],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(said.stdout, "planted!\n", said.stderr)
        self.assertEqual(self.host.value(module, "f"), ["reviewed"] * 3)

    def test_bytecode_is_no_module(self) -> None:
        path = self.write("helper.py", "a = 1\n")
        py_compile.compile(path, cfile=f"{self.root}/helper.pyc")
        os.remove(path)
        module = self.module("def f() -> int:\n    import helper\n    return helper.a\n")
        self.assertIn(
            "No module named 'helper'", self.error(self.host.call(module, "f"), "missing")["message"]
        )

    def test_no_bytecode_is_written(self) -> None:
        self.write("shared.py", "a = 1\n")
        self.host.load(self.module("import shared\n"))
        self.assertFalse(os.path.exists(f"{self.root}/__pycache__"))

    def test_names_that_are_no_identifiers(self) -> None:
        self.assertEqual(
            self.host.value(self.module("def f() -> int:\n    return 1\n", "my-tools.py"), "f"), 1
        )

    def test_calling_what_is_not_there(self) -> None:
        module = self.module("def greet(x: int): pass\n")
        self.assertIn(
            "did you mean greet?", self.error(self.host.call(module, "gret"), "exception")["message"]
        )


if __name__ == "__main__":
    unittest.main()
