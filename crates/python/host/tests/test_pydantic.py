"""Pydantic: its models as parameters and results, and the same schemas with and without it.

Skipped where Pydantic 2 is not installed.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import unittest

from harness import HOST, HostTest
from test_schemas import HEAD as TYPES
from test_schemas import TABLE

try:
    import pydantic

    HAS_PYDANTIC = pydantic.VERSION.startswith("2")
except ImportError:
    HAS_PYDANTIC = False

HEAD = """
import datetime, decimal, enum, pathlib, uuid
from typing import *
from pydantic import BaseModel, ConfigDict, EmailStr, Field, HttpUrl, BeforeValidator, conint, StringConstraints
class Color(enum.Enum):
    RED = "red"
    GREEN = "green"
class Item(BaseModel):
    "One line of an invoice."
    name: str
    price: decimal.Decimal = Field(ge=0, description="without tax")
    color: Optional[Color] = None
class Invoice(BaseModel):
    number: int
    due: datetime.date
    items: List[Item]
class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    when: datetime.datetime
class Node(BaseModel):
    children: List["Node"] = []
class Files(BaseModel):
    first: pathlib.Path
    more: List[pathlib.Path] = []
class Aliased(BaseModel):
    from_: int = Field(alias="from")
"""

#: Runs in an interpreter with Pydantic: what Pydantic says of each type of the table.
ASK = """
import json, sys
{head}
from pydantic import TypeAdapter
import pydantic
from typing_extensions import TypedDict
class Movie(TypedDict):
    title: str
    year: int
class Partial(TypedDict, total=False):
    a: int
    when: datetime.date
Field = pydantic.Field
result = []
for said in json.loads(sys.stdin.read()):
    try:
        value = eval(said)
        value = eval(value.replace("int | None", "Optional[int]").replace("int | str", "Union[int, str]")) if isinstance(value, str) else value
        result.append(TypeAdapter(value).json_schema())
    except Exception as error:
        result.append(str(error))
print(json.dumps(result))
"""


@unittest.skipUnless(HAS_PYDANTIC, "needs Pydantic 2")
class Models(HostTest):
    def test_schema_of_a_nested_model(self) -> None:
        function = self.functions(HEAD + "def f(invoice: Invoice) -> Invoice:\n    return invoice\n")["f"]
        invoice = function["input"]["properties"]["invoice"]
        self.assertNotIn("$defs", function["input"])
        self.assertNotIn("title", json.dumps(function["input"]).replace('"title": {', ""))
        self.assertEqual(invoice["required"], ["number", "due", "items"])
        item = invoice["properties"]["items"]["items"]
        self.assertEqual(item["description"], "One line of an invoice.")
        self.assertEqual(
            item["properties"]["price"],
            {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string"}], "description": "without tax"},
        )
        self.assertEqual(function["output"]["properties"]["due"], {"type": "string", "format": "date"})

    def test_values(self) -> None:
        module = self.module(
            HEAD
            + "def f(invoice: Invoice) -> Invoice:\n    assert type(invoice.items[0]) is Item\n    return invoice\n"
        )
        invoice = {
            "number": 1,
            "due": "2024-01-02",
            "items": [{"name": "a", "price": "1.10", "color": "red"}],
        }
        self.assertEqual(self.host.value(module, "f", invoice=invoice), invoice)

    def test_problems_are_listed(self) -> None:
        module = self.module(HEAD + "def f(invoice: Invoice, n: int): pass\n")
        answer = self.host.call(module, "f", invoice={"number": "x", "items": [{"price": -1}]}, n="y")
        message = self.error(answer, "arguments")["message"]
        for words in (
            "`invoice`.number is invalid",
            "`invoice`.due is invalid",
            "`invoice`.items[0].name",
            "`invoice`.items[0].price",
            "`n` must be",
        ):
            self.assertIn(words, message)

    def test_strict_models_take_json(self) -> None:
        module = self.module(HEAD + "def f(v: Strict) -> int:\n    return v.when.year\n")
        self.assertEqual(self.host.value(module, "f", v={"when": "2024-01-02T03:04:05"}), 2024)
        self.error(self.host.call(module, "f", v={"when": "2024-01-02T03:04:05", "x": 1}), "arguments")

    def test_recursive_model(self) -> None:
        function = self.functions(HEAD + "def f(n: Node): pass\n")["f"]
        self.assertEqual(set(function["input"]["$defs"]), {"Node"})

    def test_models_and_own_types_mix(self) -> None:
        text = (
            HEAD
            + """
import dataclasses
@dataclasses.dataclass
class Box:
    item: Item
    colors: Dict[str, Color]
def f(box: Box, items: List[Item], one: Union[Item, int]) -> list:
    return [type(box.item).__name__, type(items[0]).__name__, type(one).__name__, box.colors["a"].name]
"""
        )
        module = self.module(text)
        function = self.host.load(module)[0]["functions"][0]
        self.assertIsNone(function["refused"])
        self.assertEqual(
            set(function["input"]["$defs"]), {"Item"} | ({"Color"} & set(function["input"]["$defs"]))
        )
        item = {"name": "a", "price": 1}
        value = self.host.value(
            module, "f", box={"item": item, "colors": {"a": "red"}}, items=[item], one=item
        )
        self.assertEqual(value, ["Item", "Item", "Item", "RED"])

    def test_types_of_pydantic(self) -> None:
        module = self.module(
            HEAD
            + """
def f(url: HttpUrl, n: conint(ge=1), s: Annotated[str, StringConstraints(min_length=2)], v: Annotated[int, BeforeValidator(lambda x: x + 1)],
      d: int = Field(3, ge=1, description="d")) -> list:
    return [str(url), n, s, v, d]
"""
        )
        function = self.host.load(module)[0]["functions"][0]
        self.assertIsNone(function["refused"])
        properties = function["input"]["properties"]
        self.assertEqual(properties["url"]["format"], "uri")
        self.assertEqual(properties["n"], {"type": "integer", "minimum": 1})
        self.assertEqual(properties["s"], {"type": "string", "minLength": 2})
        self.assertEqual(properties["d"], {"type": "integer", "minimum": 1, "description": "d", "default": 3})
        self.assertEqual(
            self.host.value(module, "f", url="http://x.org/a", n=1, s="ab", v=1),
            ["http://x.org/a", 1, "ab", 2, 3],
        )

    def test_paths_in_models(self) -> None:
        module = self.module(
            HEAD + "def f(files: Files) -> list:\n    return [str(files.first), *map(str, files.more)]\n"
        )
        function = self.host.load(module)[0]["functions"][0]
        self.assertEqual(function["paths"], ["files"])
        ctx = {"mounts": [{"at": "/in", "path": "/real", "mode": "ro"}]}
        self.assertEqual(
            self.host.value(module, "f", ctx=ctx, files={"first": "/in/a", "more": ["in/b"]}),
            ["/real/a", "/real/b"],
        )
        self.error(self.host.call(module, "f", ctx=ctx, files={"first": "/no/a"}), "arguments")

    def test_aliases(self) -> None:
        module = self.module(HEAD + "def f(a: Aliased) -> Aliased:\n    return a\n")
        self.assertEqual(self.host.value(module, "f", a={"from": 1}), {"from": 1})

    def test_companion_model(self) -> None:
        module = self.module(
            HEAD
            + "class greet_schema(BaseModel):\n    name: str = Field(min_length=2)\n    n: int = 1\ndef greet(name, n):\n    return name * n\n"
            "def take(item: Item): return item.name\ntake_schema = Item\n__all__ = ['greet', 'take']\n"
        )
        functions = {f["name"]: f for f in self.host.load(module)[0]["functions"]}
        self.assertEqual(
            functions["greet"]["input"]["properties"]["name"], {"type": "string", "minLength": 2}
        )
        self.assertEqual(self.host.value(module, "greet", name="ab"), "ab")
        self.assertEqual(self.host.value(module, "take", name="ab", price=1), "ab")
        self.error(self.host.call(module, "greet", name="a"), "arguments")

    def test_model_that_cannot_be_written(self) -> None:
        module = self.module(
            HEAD
            + "class M(BaseModel):\n    x: Any\ndef f():\n    return M(x=object())\ndef g():\n    return M(x=float('nan'))\n"
        )
        self.noted(self.host.call(module, "f"))
        self.host.call(module, "g")

    def test_schema_frame(self) -> None:
        path = self.write("models.py", HEAD)
        self.host.send(t="schema", key="m", path=path, root=self.root, name="models", **{"class": "Invoice"})
        self.assertEqual(self.host.next("schema")["schema"]["required"], ["number", "due", "items"])

    def test_pydantic_dataclasses(self) -> None:
        module = self.module(
            "from pydantic.dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\ndef f(p: P) -> P:\n    p.x += 1\n    return p\n"
        )
        self.assertEqual(self.host.value(module, "f", p={"x": "1"}), {"x": 2})


@unittest.skipUnless(HAS_PYDANTIC, "needs Pydantic 2")
class SameSchemas(unittest.TestCase):
    """The host's description of a plain type is Pydantic's, titles and the like apart."""

    def test_table(self) -> None:
        spec = importlib.util.spec_from_file_location("llm_do_host", HOST)
        host = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(host)
        head = TYPES.replace("from llm_do import Field, ToolContext, tool\n", "")
        said = [row[0] for row in TABLE]
        result = subprocess.run(
            [sys.executable, "-c", ASK.format(head=head)],
            input=json.dumps(said),
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        for (name, schema, *_), theirs in zip(TABLE, json.loads(result.stdout)):
            with self.subTest(name):
                self.assertIsInstance(theirs, dict, theirs)
                types = host.Types()
                tidy = types.finish(types.adopt(host.simplify_pydantic(theirs), "X"))
                # What a dataclass says of its fields in its docstring is read by the host alone.
                mine = json.loads(json.dumps(schema).replace(', "description": "across"', ""))
                theirs_text = json.dumps(tidy, sort_keys=True).replace(
                    "A place.\\n\\nArgs:\\n    x: across", "A place."
                )
                self.assertEqual(json.loads(theirs_text), mine)

    def test_the_same_function_either_way(self) -> None:
        """A module that has imported Pydantic gets the same schema as one that hasn't."""
        text = TYPES + "def f(" + ", ".join(f"a{at}: {row[0]}" for at, row in enumerate(TABLE)) + "): pass\n"

        class Case(HostTest):
            def runTest(self) -> None:
                pass

        case = Case()
        case.setUp()
        try:
            without = case.report(text, "without.py")
            with_it = case.report("import pydantic\n" + text, "with_it.py")
            self.assertIsNone(without["error"], without["error"])
            self.assertEqual(without["functions"][0]["input"], with_it["functions"][0]["input"])
        finally:
            case.doCleanups()


if __name__ == "__main__":
    unittest.main()
