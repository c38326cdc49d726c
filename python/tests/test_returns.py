"""Outputs as types, which are compared with the workers when the program is loaded."""

import dataclasses
import datetime
import unittest
from typing import Any, Dict, List, Optional

from harness import ClientTest

from llm_do import InvalidOutput, NotLoaded


@dataclasses.dataclass
class Line:
    item: str
    n: int


@dataclasses.dataclass
class Invoice:
    number: str
    total: float
    due: datetime.date
    lines: List[Line]
    note: Optional[str] = None


EXPECTED = Invoice("A-1", 3.0, datetime.date(2026, 11, 25), [Line("pear", 2)])


@dataclasses.dataclass
class Changed:
    number: int
    total: int
    due: datetime.datetime
    vat: float


class Returns(ClientTest):
    def test_dataclass(self) -> None:
        program = self.load(returns={"extractor": Invoice})
        self.assertEqual(program.extractor(text="x"), EXPECTED)
        self.assertEqual(program.extractor.result(text="x").output, EXPECTED)
        self.assertEqual(program.extractor.stream(text="x").result().output, EXPECTED)
        self.assertEqual(list(program.extractor.map([{"text": "x"}])), [EXPECTED])
        self.assertEqual(program.extractor(text="x", returns=Dict[str, Any])["due"], "2026-11-25")

    def test_types_that_do_not_fit_are_told_before_any_call(self) -> None:
        with self.assertRaises(NotLoaded) as caught:
            self.load(returns={"extractor": Changed})
        for difference in (
            "`number` may be string, and not only integer",
            "`total` may be number, and not only integer",
            "`due` need not be in the format date-time",
            "has no `vat`",
        ):
            self.assertIn(difference, str(caught.exception))
        program = self.load()
        with self.assertRaisesRegex(NotLoaded, "returns text"):
            program.greeter(name="x", returns=Invoice)
        self.assertEqual(program.runs(), [])

    def test_output_that_the_type_refuses(self) -> None:
        self.write(
            "invoice.yaml", "answers:\n  - json: {number: A-1, total: 3, due: '2026-13-45', lines: []}\n"
        )
        program = self.load(returns={"extractor": Invoice})
        with self.assertRaises(InvalidOutput) as caught:
            program.extractor(text="x")
        self.assertIn(caught.exception.kind, ("invalid_output",))


if __name__ == "__main__":
    unittest.main()
