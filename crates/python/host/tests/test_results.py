"""What tools return."""

import sys
import unittest

from harness import HostTest, decoded

HEAD = """
import collections, dataclasses, datetime, decimal, enum, pathlib, uuid
from typing import NamedTuple
import llm_do
class Color(enum.Enum):
    RED = "red"
class Size(str, enum.Enum):
    BIG = "big"
class Level(enum.IntEnum):
    LOW = 1
class Pair(NamedTuple):
    left: int
    right: str
@dataclasses.dataclass
class Point:
    x: int
    when: datetime.date
class Text(str): pass
class Opaque:
    def __str__(self): return "opaque"
class Map(collections.abc.Mapping):
    def __getitem__(self, key): return 1
    def __iter__(self): return iter(["a"])
    def __len__(self): return 1
"""

TABLE = [
    ("None", None),
    ("'x'", "x"),
    ("[1, 2.5, True, None]", [1, 2.5, True, None]),
    ("(1, 2)", [1, 2]),
    ("{3, 1, 2}", [1, 2, 3]),
    ("frozenset(['b', 'a'])", ["a", "b"]),
    ("{1, 'a'}", [1, "a"]),
    ("{'a': {'b': ()}}", {"a": {"b": []}}),
    ("{1: 'a', None: 'b', True: 'c', Color.RED: 'd'}", {"1": "c", "null": "b", "red": "d"}),
    ("Color.RED", "red"),
    ("Size.BIG", "big"),
    ("Level.LOW", 1),
    ("Text('x')", "x"),
    ("Pair(1, 'r')", {"left": 1, "right": "r"}),
    ("Point(1, datetime.date(2024, 1, 2))", {"x": 1, "when": "2024-01-02"}),
    ("datetime.datetime(2024, 1, 2, 3, 4)", "2024-01-02T03:04:00"),
    ("datetime.time(3, 4)", "03:04:00"),
    ("datetime.timedelta(hours=25)", "P1DT1H"),
    ("decimal.Decimal('1.10')", "1.10"),
    ("uuid.UUID(int=1)", "00000000-0000-0000-0000-000000000001"),
    ("pathlib.Path('/a/b')", "/a/b"),
    ("collections.OrderedDict(a=1)", {"a": 1}),
    ("collections.Counter('aab')", {"a": 2, "b": 1}),
    ("collections.deque([1])", [1]),
    ("range(3)", [0, 1, 2]),
    ("{'a': 1}.keys()", ["a"]),
    ("{'a': 1}.values()", [1]),
    ("Map()", {"a": 1}),
    ("''", ""),
    ("'\\u00e9\\u2028\\x00\\\"'", 'é\u2028\x00"'),
]

#: Values without a JSON form, with what is handed on instead and the words of the note.
NOTED = [
    ("Opaque()", "opaque", "of type"),
    ("int", "<class 'int'>", "a class"),
    ("len", "<built-in function len>", "a function"),
    ("{(1, 2): 3}", {"(1, 2)": 3}, "key of type tuple"),
    ("{1: 'a', '1': 'b'}", "{1: 'a', '1': 'b'}", "twice"),
    ("decimal.Decimal('NaN')", "NaN", "NaN"),
    ("float('inf')", "inf", "inf"),
    ("{'a': [Opaque(), 1], 'b': 2}", {"a": ["opaque", 1], "b": 2}, "['a'][0]"),
    ("[{'a': [{'b': Opaque()}]}, 3]", [{"a": [{"b": "opaque"}]}, 3], "[0]['a'][0]['b']"),
    ("[float('nan')] * 9", ["nan"] * 9, "[4]"),
    ("2 ** 64", "18446744073709551616", "64 bits"),
    ("[-(2 ** 63) - 1, -(2 ** 63), 2 ** 64 - 1]", ["-9223372036854775809", -(2**63), 2**64 - 1], "64 bits"),
]

#: Values that stand for work that was not done.
UNFINISHED = [("open('/dev/null')", "TextIOWrapper"), ("map(str, [1])", "list(…)")]


class Results(HostTest):
    def test_values(self) -> None:
        module = self.module(HEAD + "def f(code):\n    return eval(code)\n")
        for code, value in TABLE:
            with self.subTest(code):
                self.assertEqual(self.host.value(module, "f", plain=True, code=code), value)

    def test_values_without_a_json_form_are_handed_on_with_a_note(self) -> None:
        module = self.module(HEAD + "def f(code):\n    return eval(code)\n")
        for code, value, words in NOTED:
            with self.subTest(code):
                self.host.logs.clear()
                answer = self.host.call(module, "f", plain=True, code=code)
                self.assertIn(words, self.noted(answer))
                self.assertEqual(answer["value"], value)

    def test_unfinished_work_is_an_error(self) -> None:
        module = self.module(HEAD + "def f(code):\n    return eval(code)\n")
        for code, words in UNFINISHED:
            with self.subTest(code):
                error = self.error(self.host.call(module, "f", plain=True, code=code), "result")
                self.assertIn(words, error["message"])
                self.assertEqual(error["frames"], [])

    def test_blobs(self) -> None:
        module = self.module(
            HEAD
            + """
def alone():
    return b"\\x89PNG\\r\\n\\x1a\\n1234"
def inside():
    return {"a": [llm_do.Image(b"x", media_type="image/webp", name="n.webp")], "b": llm_do.File(b"y", name="t.csv"), "c": bytearray(b"z")}
def from_path(path):
    return llm_do.File(path)
"""
        )
        answer = self.host.call(module, "alone")
        self.assertEqual(answer["value"], "[image/png, 12 bytes]")
        self.assertEqual(
            (answer["blobs"][0]["media_type"], decoded(answer["blobs"][0])[:4]), ("image/png", b"\x89PNG")
        )
        answer = self.host.call(module, "inside")
        self.assertEqual(answer["value"], {"a": [{"$blob": 0}], "b": {"$blob": 1}, "c": {"$blob": 2}})
        self.assertEqual(
            [blob["media_type"] for blob in answer["blobs"]],
            ["image/webp", "text/csv", "application/octet-stream"],
        )
        self.assertEqual([blob["name"] for blob in answer["blobs"]], ["n.webp", "t.csv", None])
        path = self.write("in/page.html", "<p>")
        ctx = {"mounts": [{"at": "/data", "path": f"{self.root}/in", "mode": "ro"}]}
        for given in (path, "/data/page.html"):
            answer = self.host.call(module, "from_path", ctx=ctx, path=given)
            self.assertEqual((answer["blobs"][0]["name"], decoded(answer["blobs"][0])), ("page.html", b"<p>"))

    def test_a_blob_that_is_too_large(self) -> None:
        module = self.module("def f():\n    return {'a': b'x' * 13_000_000}\n")
        answer = self.host.call(module, "f")
        self.assertIn("16 MiB", self.noted(answer))
        self.assertNotIn("blobs", answer)

    def test_table_libraries(self) -> None:
        module = self.module(
            """
            import sys, types
            pandas = types.ModuleType("pandas")
            class DataFrame: __module__ = "pandas.core.frame"
            def f():
                return DataFrame()
            """
        )
        self.assertIn('.to_dict("records")', self.noted(self.host.call(module, "f")))


class Errors(HostTest):
    def test_kinds(self) -> None:
        module = self.module(
            """
            import errno, os
            from llm_do import AskAgain, CallError, ModelRetry, ToolError, ToolContext
            class Own(Exception): pass
            def retry(): raise ModelRetry("give a year")
            def again(): raise AskAgain("give a month")
            def tool(): raise ToolError("no such city")
            def denied(): raise PermissionError(errno.EACCES, "no", "/x")
            def wrapped():
                try:
                    raise OSError(errno.EROFS, "read-only", "/y")
                except OSError:
                    raise Own("could not save")
            def caused():
                try:
                    {}["k"]
                except KeyError as error:
                    raise Own("bad") from error
            def missing(): import pandaz
            def refused(ctx: ToolContext): ctx.call("w")
            def caught(ctx: ToolContext):
                try:
                    ctx.call("w")
                except CallError as error:
                    return [error.kind, error.message, str(error)]
            """
        )
        call = lambda name: self.host.call(module, name)  # noqa: E731
        self.assertEqual(self.error(call("retry"), "retry")["message"], "give a year")
        self.assertEqual(self.error(call("again"), "retry")["message"], "give a month")
        self.assertEqual(self.error(call("tool"), "exception")["frames"], [])
        error = self.error(call("denied"), "denied")
        self.assertEqual((error["errno"], error["path"]), ("EACCES", "/x"))
        error = self.error(call("wrapped"), "denied")
        self.assertEqual((error["errno"], error["path"], error["message"]), ("EROFS", "/y", "could not save"))
        self.assertEqual(self.error(call("caused"), "exception")["message"], "bad (because of KeyError: 'k')")
        self.assertEqual(self.error(call("missing"), "missing")["missing"], "pandaz")
        self.host.answer = lambda frame: {"error": {"kind": "blocked", "message": "not allowed"}}
        error = self.error(call("refused"), "refused")
        self.assertEqual((error["cause"], error["message"]), ("blocked", "not allowed"))
        self.assertEqual(call("caught")["value"], ["blocked", "not allowed", "not allowed"])

    def test_frames_are_the_users_own(self) -> None:
        self.write("helper.py", "import json\ndef parse(text):\n    return json.loads(text)\n")
        self.write(
            ".venv/lib/python3/site-packages/pkg.py",
            "def one(f):\n    return two(f)\ndef two(f):\n    return f()\n",
        )
        module = self.module(
            f"""
            import sys
            sys.path.append("{self.root}/.venv/lib/python3/site-packages")
            import helper, pkg
            def f():
                return pkg.one(lambda: helper.parse("x"))
            """
        )
        error = self.error(self.host.call(module, "f"), "exception")
        self.assertEqual(
            [frame["file"].rpartition("/")[2] for frame in error["frames"]],
            ["tools.py", "pkg.py", "tools.py", "helper.py"],
        )
        self.assertEqual(
            error["frames"][-1],
            {
                "file": f"{self.root}/helper.py",
                "line": 3,
                "function": "parse",
                "text": "return json.loads(text)",
            },
        )

    @unittest.skipIf(sys.version_info < (3, 11), "since 3.11")
    def test_exception_groups(self) -> None:
        module = self.module(
            """
            def one(): raise ExceptionGroup("all", [ValueError("a")])
            def two(): raise ExceptionGroup("all", [ValueError("a"), TypeError("b")])
            """
        )
        self.assertEqual(self.error(self.host.call(module, "one"), "exception")["type"], "ValueError")
        self.assertIn("- TypeError: b", self.error(self.host.call(module, "two"), "exception")["message"])


if __name__ == "__main__":
    unittest.main()
