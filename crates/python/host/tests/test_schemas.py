"""Types of parameters: their schemas, and how JSON values become them."""

import sys
import unittest

from harness import HostTest

HEAD = """
import collections, collections.abc, dataclasses, datetime, decimal, enum, os, pathlib, typing, uuid
from typing import *
from llm_do import Field, ToolContext, tool
try:
    from typing import NotRequired, Required
except ImportError:
    pass
class Color(enum.Enum):
    RED = "red"
    GREEN = "green"
class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2
@dataclasses.dataclass
class Point:
    '''A place.

    Args:
        x: across
    '''
    x: int
    y: float = 0.0
@dataclasses.dataclass
class Line:
    start: Point
    end: Point
    tags: List[str] = dataclasses.field(default_factory=list)
@dataclasses.dataclass
class Node:
    value: int
    children: List["Node"] = dataclasses.field(default_factory=list)
class Movie(TypedDict):
    title: str
    year: int
class Partial(TypedDict, total=False):
    a: int
    when: datetime.date
class Pair(NamedTuple):
    left: int
    right: str = "r"
UserId = NewType("UserId", int)
T = TypeVar("T")
B = TypeVar("B", bound=int)
"""


def obj(required: list, **properties: dict) -> dict:
    schema = {"type": "object", "properties": properties}
    return {**schema, "required": required} if required else schema


POINT = {
    **obj(["x"], x={"type": "integer", "description": "across"}, y={"type": "number", "default": 0.0}),
    "description": "A place.",
}

#: A type, its schema, a JSON value, and what `repr` of the argument must be.
TABLE = [
    ("int", {"type": "integer"}, 3, "3"),
    ("float", {"type": "number"}, 3, "3.0"),
    ("str", {"type": "string"}, "x", "'x'"),
    ("bool", {"type": "boolean"}, True, "True"),
    ("None", {"type": "null"}, None, "None"),
    ("Any", {}, [1], "[1]"),
    ("object", {}, [1], "[1]"),
    ("list", {"type": "array"}, [1], "[1]"),
    ("List", {"type": "array"}, [1], "[1]"),
    ("list[int]", {"type": "array", "items": {"type": "integer"}}, [1], "[1]"),
    ("List[float]", {"type": "array", "items": {"type": "number"}}, [1], "[1.0]"),
    ("Sequence[int]", {"type": "array", "items": {"type": "integer"}}, [1], "[1]"),
    ("collections.abc.Iterable[str]", {"type": "array", "items": {"type": "string"}}, ["a"], "['a']"),
    ("set[int]", {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, [2, 1], "{1, 2}"),
    ("FrozenSet[str]", {"type": "array", "items": {"type": "string"}, "uniqueItems": True}, ["a"], "frozenset({'a'})"),
    ("Tuple[int, ...]", {"type": "array", "items": {"type": "integer"}}, [1, 2], "(1, 2)"),
    (
        "tuple[int, str]",
        {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2},
        [1, "a"],
        "(1, 'a')",
    ),
    ("dict", {"type": "object"}, {"a": 1}, "{'a': 1}"),
    ("dict[str, int]", {"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1}, "{'a': 1}"),
    ("Mapping[str, float]", {"type": "object", "additionalProperties": {"type": "number"}}, {"a": 1}, "{'a': 1.0}"),
    ("Dict[int, bool]", {"type": "object", "additionalProperties": {"type": "boolean"}}, {"7": True}, "{7: True}"),
    ("Optional[int]", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, None, "None"),
    ("Union[int, str, None]", {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]}, "x", "'x'"),
    ("'int | str'", {"anyOf": [{"type": "integer"}, {"type": "string"}]}, 1, "1"),
    ("'list[int | None]'", {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}, [None], "[None]"),
    ("Union[int, float]", {"anyOf": [{"type": "integer"}, {"type": "number"}]}, 1.5, "1.5"),
    ("Union[Dict[str, int], List[str]]",
     {"anyOf": [{"type": "object", "additionalProperties": {"type": "integer"}}, {"type": "array", "items": {"type": "string"}}]},
     ["a"], "['a']"),
    ("Literal['a', 'b']", {"enum": ["a", "b"], "type": "string"}, "b", "'b'"),
    ("Literal['a']", {"const": "a", "type": "string"}, "a", "'a'"),
    ("Literal[1, 'x', None]", {"enum": [1, "x", None]}, 1, "1"),
    ("Color", {"enum": ["red", "green"], "type": "string"}, "red", "<Color.RED: 'red'>"),
    ("Level", {"enum": [1, 2], "type": "integer"}, 2, "<Level.HIGH: 2>"),
    ("datetime.datetime", {"type": "string", "format": "date-time"}, "2024-05-01T12:30:00Z",
     "datetime.datetime(2024, 5, 1, 12, 30, tzinfo=datetime.timezone.utc)"),
    ("datetime.datetime", {"type": "string", "format": "date-time"}, "2024-05-01T12:30:00.5+0200",
     "datetime.datetime(2024, 5, 1, 12, 30, 0, 500000, tzinfo=datetime.timezone(datetime.timedelta(seconds=7200)))"),
    ("datetime.date", {"type": "string", "format": "date"}, "2024-05-01", "datetime.date(2024, 5, 1)"),
    ("datetime.time", {"type": "string", "format": "time"}, "12:30:00", "datetime.time(12, 30)"),
    ("datetime.timedelta", {"type": "string", "format": "duration"}, "P1DT2H", "datetime.timedelta(days=1, seconds=7200)"),
    ("pathlib.Path", {"type": "string", "format": "path"}, "a/b", "PosixPath('a/b')"),
    ("decimal.Decimal", {"anyOf": [{"type": "number"}, {"type": "string"}]}, "1.10", "Decimal('1.10')"),
    ("uuid.UUID", {"type": "string", "format": "uuid"}, "12345678123456781234567812345678",
     "UUID('12345678-1234-5678-1234-567812345678')"),
    ("UserId", {"type": "integer"}, 3, "3"),
    ("T", {}, 3, "3"),
    ("B", {"type": "integer"}, 3, "3"),
    ("Point", POINT, {"x": 1, "y": 2}, "Point(x=1, y=2.0)"),
    ("List[Point]", {"type": "array", "items": POINT}, [{"x": 1}], "[Point(x=1, y=0.0)]"),
    ("Movie", obj(["title", "year"], title={"type": "string"}, year={"type": "integer"}),
     {"title": "x", "year": 1}, "{'title': 'x', 'year': 1}"),
    ("Partial", obj([], a={"type": "integer"}, when={"type": "string", "format": "date"}),
     {"when": "2024-01-02"}, "{'when': datetime.date(2024, 1, 2)}"),
    ("Annotated[int, Field(ge=1, lt=10, description='n')]",
     {"type": "integer", "minimum": 1, "exclusiveMaximum": 10, "description": "n"}, 3, "3"),
    ("Annotated[str, Field(min_length=1, max_length=3, pattern='^a', examples=['a'])]",
     {"type": "string", "minLength": 1, "maxLength": 3, "pattern": "^a", "examples": ["a"]}, "a", "'a'"),
    ("Annotated[str, Field(max_length=9, clean=True)]", {"type": "string", "maxLength": 9, "clean": True}, "a", "'a'"),
    ("Annotated[List[int], Field(min_length=1)]",
     {"type": "array", "items": {"type": "integer"}, "minItems": 1}, [1], "[1]"),
    ("Annotated[Optional[int], Field(gt=0)]",
     {"anyOf": [{"type": "integer", "exclusiveMinimum": 0}, {"type": "null"}]}, 1, "1"),
]  # fmt: skip

#: What the host describes in its own way, whatever Pydantic would say.
OWN_TABLE = [
    ("Annotated[Optional[str], Field(max_length=9, clean=True)]",
     {"anyOf": [{"type": "string", "maxLength": 9, "clean": True}, {"type": "null"}]}, "a", "'a'"),
    ("bytes", {"type": "string", "contentEncoding": "base64"}, "aGk=", "b'hi'"),
    ("Annotated[int, 'a number']", {"type": "integer", "description": "a number"}, 1, "1"),
    ("Pair", obj(["left"], left={"type": "integer"}, right={"type": "string", "default": "r"}), {"left": 1}, "Pair(left=1, right='r')"),
    ("collections.deque", {"type": "array"}, [1], "deque([1])"),
    ("collections.OrderedDict[str, int]", {"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1},
     "OrderedDict([('a', 1)])" if sys.version_info < (3, 12) else "OrderedDict({'a': 1})"),
    ("Dict[Color, int]",
     {"type": "object", "additionalProperties": {"type": "integer"}, "propertyNames": {"enum": ["red", "green"], "type": "string"}},
     {"red": 1}, "{<Color.RED: 'red'>: 1}"),
    ("Tuple[()]", {"type": "array", "prefixItems": [], "minItems": 0, "maxItems": 0} if sys.version_info < (3, 11) else {"type": "array"},
     [], "()"),
]  # fmt: skip


class Table(HostTest):
    def test_schemas_and_values(self) -> None:
        table = TABLE + OWN_TABLE
        text = HEAD + "".join(
            f"def f{at}(v: {said}) -> str:\n    return repr(v)\n" for at, (said, *_) in enumerate(table)
        )
        module = self.module(text)
        report = self.host.load(module)[0]
        self.assertIsNone(report["error"], report)
        functions = {f["name"]: f for f in report["functions"]}
        for at, (said, schema, value, shown) in enumerate(table):
            with self.subTest(said):
                function = functions[f"f{at}"]
                self.assertIsNone(function["refused"])
                expected = {
                    "type": "object",
                    "properties": {"v": schema},
                    "required": ["v"],
                    "additionalProperties": False,
                }
                self.assertEqual(function["input"], expected)
                answer = self.host.call(module, function["function"], plain=function["plain"], v=value)
                self.assertEqual(answer.get("value"), shown, answer)


class Signatures(HostTest):
    def one(self, text: str) -> dict:
        functions = self.functions(HEAD + text)
        return list(functions.values())[-1]

    def properties(self, text: str) -> dict:
        return self.one(text)["input"]["properties"]

    def test_future_annotations_everywhere(self) -> None:
        properties = self.functions(
            "from __future__ import annotations\n"
            + HEAD
            + "def f(a: int | None, b: Point, c: list[Color], d: dict[str, int | str] = {}): pass\n"
        )["f"]["input"]["properties"]
        self.assertEqual(properties["a"], {"anyOf": [{"type": "integer"}, {"type": "null"}]})
        self.assertEqual(properties["b"], POINT)
        self.assertEqual(
            properties["c"], {"type": "array", "items": {"enum": ["red", "green"], "type": "string"}}
        )
        self.assertEqual(properties["d"]["default"], {})

    @unittest.skipIf(sys.version_info < (3, 10), "written this way since 3.10")
    def test_unions_with_a_bar(self) -> None:
        self.assertEqual(
            self.properties("def f(a: int | None): pass\n")["a"],
            {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        )

    @unittest.skipIf(sys.version_info < (3, 12), "written this way since 3.12")
    def test_type_aliases_and_parameters(self) -> None:
        function = self.one(
            "type Numbers = list[int]\ntype Tree = dict[str, Tree] | int\ndef f[X: int](a: Numbers, b: Tree, c: X): pass\n"
        )
        self.assertEqual(
            function["input"]["properties"]["a"], {"type": "array", "items": {"type": "integer"}}
        )
        self.assertEqual(function["input"]["properties"]["b"], {"$ref": "#/$defs/Tree"})
        self.assertEqual(function["input"]["properties"]["c"], {"type": "integer"})
        self.assertEqual(self.host.value({"key": "tools.py"}, "f", a=[1], b={"x": {"y": 1}}, c=1), None)

    def test_shared_and_recursive_definitions(self) -> None:
        function = self.one("def f(a: Line, n: Node): pass\n")
        schema = function["input"]
        self.assertEqual(set(schema["$defs"]), {"Point", "Node"})
        self.assertEqual(schema["properties"]["a"]["properties"]["start"], {"$ref": "#/$defs/Point"})
        self.assertEqual(schema["$defs"]["Node"]["properties"]["children"]["items"], {"$ref": "#/$defs/Node"})

    def test_recursive_values(self) -> None:
        module = self.module(HEAD + "def f(n: Node) -> str:\n    return repr(n)\n")
        value = self.host.value(module, "f", n={"value": 1, "children": [{"value": 2}]})
        self.assertEqual(value, "Node(value=1, children=[Node(value=2, children=[])])")

    def test_required_and_not_required(self) -> None:
        if sys.version_info < (3, 11):
            self.skipTest("since 3.11")
        function = self.one("class M(TypedDict):\n    a: int\n    b: NotRequired[str]\ndef f(m: M): pass\n")
        self.assertEqual(
            function["input"]["properties"]["m"], obj(["a"], a={"type": "integer"}, b={"type": "string"})
        )

    def test_defaults(self) -> None:
        properties = self.properties(
            "def f(a: int = 1, b: Color = Color.RED, c: pathlib.Path = pathlib.Path('x'), d: Point = Point(1), "
            "e: object = object(), g: int = None, h=2, i: datetime.date = datetime.date(2024, 1, 2)): pass\n"
        )
        self.assertEqual(properties["a"], {"type": "integer", "default": 1})
        self.assertEqual(properties["b"]["default"], "red")
        self.assertEqual(properties["c"]["default"], "x")
        self.assertEqual(properties["d"]["default"], {"x": 1, "y": 0.0})
        self.assertEqual(properties["e"], {})
        self.assertEqual(properties["g"], {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None})
        self.assertEqual(properties["h"], {"default": 2})
        self.assertEqual(properties["i"]["default"], "2024-01-02")

    def test_field_as_default(self) -> None:
        module = self.module(
            HEAD
            + "def f(a: int = Field(ge=1), b: int = Field(2, description='b'), c: list = Field(default_factory=list)) -> list:\n"
            "    return [a, b, c]\n"
        )
        function = self.host.load(module)[0]["functions"][0]
        self.assertEqual(function["input"]["required"], ["a"])
        self.assertEqual(function["input"]["properties"]["a"], {"type": "integer", "minimum": 1})
        self.assertEqual(
            function["input"]["properties"]["b"], {"type": "integer", "description": "b", "default": 2}
        )
        self.assertFalse(function["plain"])
        self.assertEqual(self.host.value(module, "f", a=1), [1, 2, []])
        self.assertIn("`a` is missing", self.error(self.host.call(module, "f"), "arguments")["message"])

    def test_keywords(self) -> None:
        self.assertEqual(
            self.one("def f(a: int, **more: int): pass\n")["input"]["additionalProperties"],
            {"type": "integer"},
        )
        self.assertIsNone(self.host.value({"key": "tools.py"}, "f", a=1, b=2))
        self.error(self.host.call({"key": "tools.py"}, "f", a=1, b="x"), "arguments")
        report = self.report("def f(a: int, **more): pass\n", "any.py")
        self.assertIs(report["functions"][0]["input"]["additionalProperties"], True)

    def test_refusals_name_parameter_and_type(self) -> None:
        for signature, words in (
            ("*args: int", "`*args`"),
            ("a: int, /, b: int", "`a` is positional-only"),
            ("a: Callable[[int], str]", "parameter `a`"),
            ("a: complex", "complex"),
            ("a: 'NoSuchThing'", "'NoSuchThing'"),
            ("a: List[threading.Thread]", "Thread"),
            ("a: Type[int]", "ype[int]"),
        ):
            report = self.report(
                HEAD + f"import threading\ndef f({signature}) -> int: pass\n", f"m{abs(hash(signature))}.py"
            )
            refused = report["functions"][0]["refused"]
            self.assertIn(words, refused or "", signature)
            self.assertFalse(report["functions"][0]["plain"])

    def test_generators_are_refused(self) -> None:
        self.assertIn("generator", self.one("def f(a: int):\n    yield a\n")["refused"])
        report = self.report("async def f(a: int):\n    yield a\n", "asynchronous.py")
        self.assertIn("generator", report["functions"][0]["refused"])

    def test_descriptions(self) -> None:
        properties = self.properties(
            "def f(a: int, b: Annotated[int, Field(description='from the field')]):\n"
            "    '''Does.\n\n    :param a: from the docstring\n    :param b: not this\n    '''\n"
        )
        self.assertEqual(properties["a"]["description"], "from the docstring")
        self.assertEqual(properties["b"]["description"], "from the field")

    def test_output(self) -> None:
        for said, schema in (
            ("int", {"type": "integer"}),
            (
                "Point",
                {
                    **POINT,
                    "required": ["x", "y"],
                    "properties": {
                        "x": {"type": "integer", "description": "across"},
                        "y": {"type": "number"},
                    },
                },
            ),
            ("decimal.Decimal", {"type": "string"}),
            ("bytes", None),
            ("threading.Thread", None),
            ("None", {"type": "null"}),
            ("List[Color]", {"type": "array", "items": {"enum": ["red", "green"], "type": "string"}}),
            ("Any", None),
        ):
            report = self.report(
                HEAD + f"import threading\ndef f(a: int) -> {said}: pass\n", f"m{abs(hash(said))}.py"
            )
            self.assertEqual(report["functions"][0]["output"], schema, said)

    def test_paths(self) -> None:
        function = self.one(
            "def f(a: pathlib.Path, b: Optional[pathlib.Path], c: List[pathlib.Path], d: str): pass\n"
        )
        self.assertEqual(function["paths"], ["a", "b", "c"])

    def test_companion_schemas(self) -> None:
        text = """
            import dataclasses
            from llm_do import tool
            greet_schema = {"type": "object", "properties": {"name": {"type": "string", "minLength": 2}}, "required": ["name"]}
            def greet(name: str) -> str:
                return "hello " + name
            @dataclasses.dataclass
            class Args:
                a: int
                b: float = 2.0
            wave_schema = Args
            def wave(a: int, b: float) -> list:
                return [a, b]
            def nod(args: Args) -> str:
                return repr(args)
            nod_schema = Args
            def bow(x: int) -> int: return x
            bow_schema = {"type": "object", "properties": {"y": {}}}
            """
        functions = self.functions(text)
        self.assertEqual(functions["greet"]["input"]["properties"]["name"]["minLength"], 2)
        self.assertEqual(functions["wave"]["input"]["required"], ["a"])
        self.assertIn("`y`", functions["bow"]["refused"])
        module = {"key": "tools.py"}
        self.assertEqual(self.host.value(module, "greet", name="you"), "hello you")
        self.assertEqual(self.host.value(module, "wave", a=1), [1, 2.0])
        self.assertEqual(self.host.value(module, "nod", a=1, b=3), "Args(a=1, b=3.0)")

    def test_one_parameter_takes_the_whole_input_of_its_companion(self) -> None:
        properties = "{'type': 'object', 'properties': {'name': {'type': 'string'}}, 'required': ['name']}"
        text = f"""
            from typing import TypedDict
            class Person(TypedDict):
                name: str
            def plain(args: dict) -> str:
                return "Hello, " + args["name"]
            plain_schema = {properties}
            def bare(args):
                return args["name"]
            bare_schema = {properties}
            def typed(person: Person) -> str:
                return person["name"]
            typed_schema = {properties}
            def with_context(ctx: "ToolContext", args: dict) -> str:
                return ctx.worker + args["name"]
            with_context_schema = {properties}
            def named(name: dict) -> str:
                return str(name)
            named_schema = {properties}
            """
        module = self.module(text)
        functions = {one["name"]: one for one in self.host.load(module)[0]["functions"]}
        for name, value in (("plain", "Hello, Ada"), ("typed", "Ada"), ("with_context", "Ada")):
            self.assertIsNone(functions[name]["refused"])
            self.assertEqual(functions[name]["input"]["properties"], {"name": {"type": "string"}})
            self.assertFalse(functions[name]["plain"])
            self.assertEqual(self.host.value(module, name, name="Ada"), value)
        self.error(self.host.call(module, "named", name="Ada"), "arguments")

    def test_companions_that_cannot_work_are_refused(self) -> None:
        text = """
            def short(name: str): pass
            short_schema = {"name": {"type": "string"}}
            def less(a: int, b: int): pass
            less_schema = {"type": "object", "properties": {"a": {}}}
            """
        functions = self.functions(text)
        self.assertIn("under `properties`", functions["short"]["refused"])
        self.assertIn("no property `b`", functions["less"]["refused"])

    def test_schema_of_the_decorator(self) -> None:
        function = self.one(
            "@tool(schema={'type': 'object', 'properties': {'a': {'type': 'integer', 'maximum': 3}}})\ndef f(a): pass\n"
        )
        self.assertEqual(function["input"]["properties"]["a"]["maximum"], 3)

    def test_schema_frame(self) -> None:
        path = self.write("models.py", HEAD)
        for name, schema in (("Point", POINT), ("Color", {"enum": ["red", "green"], "type": "string"})):
            self.host.send(t="schema", key="m", path=path, root=self.root, name="models", **{"class": name})
            self.assertEqual(self.host.next("schema")["schema"], schema)
        self.host.send(t="schema", key="m", path=path, root=self.root, name="models", **{"class": "Pont"})
        self.assertIn("did you mean Point", self.host.next("error")["message"])


class Arguments(HostTest):
    def test_all_problems_at_once(self) -> None:
        module = self.module(
            HEAD
            + "def f(a: datetime.date, b: uuid.UUID, c: Point, d: List[Color], e: Dict[str, datetime.time]): pass\n"
        )
        answer = self.host.call(
            module, "f", a="soon", b="x", c={"y": "z"}, d=["red", "blue"], e={"k": 1}, g=1
        )
        message = self.error(answer, "arguments")["message"]
        for words in (
            "`a` must be a date like 2024-05-01, not 'soon'",
            "`b` must be a UUID",
            "`c`.x is missing",
            "`c`.y must be a number",
            "`d`[1] must be one of 'red', 'green', not 'blue'",
            "`e`['k'] must be a time",
            "`g` is not a parameter",
        ):
            self.assertIn(words, message)

    def test_unions_take_what_fits_best(self) -> None:
        module = self.module(
            HEAD
            + """
@dataclasses.dataclass
class A:
    x: int
@dataclasses.dataclass
class B:
    x: int
    y: int
def f(v: Union[A, B, datetime.date, str]) -> str:
    return repr(v)
"""
        )
        for value, shown in (
            ({"x": 1, "y": 2}, "B(x=1, y=2)"),
            ({"x": 1}, "A(x=1)"),
            ({"x": 1, "z": 2}, "A(x=1)"),
            ("2024-01-02", "datetime.date(2024, 1, 2)"),
            ("soon", "'soon'"),
        ):
            self.assertEqual(self.host.value(module, "f", v=value), shown)
        self.error(self.host.call(module, "f", v=[]), "arguments")

    def test_post_init_that_refuses(self) -> None:
        module = self.module(
            "import dataclasses\n@dataclasses.dataclass\nclass A:\n    x: int\n    def __post_init__(self):\n"
            "        if self.x < 0: raise ValueError('x is negative')\ndef f(a: A): pass\n"
        )
        self.assertIn(
            "x is negative", self.error(self.host.call(module, "f", a={"x": -1}), "arguments")["message"]
        )

    def test_integers_that_come_as_floats(self) -> None:
        module = self.module("def f(a: int) -> str:\n    return repr(a)\n")
        self.assertEqual(self.host.value(module, "f", plain=True, a=2.0), "2")
        self.error(self.host.call(module, "f", plain=True, a=2.5), "arguments")

    def test_durations(self) -> None:
        module = self.module(
            "from datetime import timedelta\ndef f(a: timedelta) -> timedelta:\n    return a\n"
        )
        for text, back in (
            ("PT0.5S", "PT0.5S"), ("-P1D", "-P1D"), ("P1W", "P7D"), ("1:02:03", "PT1H2M3S"), ("PT90M", "PT1H30M"), ("PT0S", "PT0S"),
        ):  # fmt: skip
            self.assertEqual(self.host.value(module, "f", a=text), back)
        for text in ("", "P", "PT", "P1Y", "1 day"):
            self.error(self.host.call(module, "f", a=text), "arguments")

    def test_enum_by_value_not_by_kind(self) -> None:
        module = self.module(
            HEAD + "def f(a: Level, b: Literal[True, 0]) -> list:\n    return [repr(a), repr(b)]\n"
        )
        self.assertEqual(self.host.value(module, "f", a=1, b=True), ["<Level.LOW: 1>", "True"])
        self.error(self.host.call(module, "f", a=True, b=1), "arguments")


if __name__ == "__main__":
    unittest.main()
