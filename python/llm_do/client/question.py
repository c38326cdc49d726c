"""The questions of a run to its operator, and the answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Awaitable, Callable, Dict, List, Mapping, Optional, Union


class Answer:
    """An answer. The methods of `Question` make answers."""

    __slots__ = ("fields",)

    def __init__(self, fields: Dict[str, Any]) -> None:
        self.fields = fields

    def __repr__(self) -> str:
        return f"Answer({self.fields!r})"


@dataclass(frozen=True)
class Question:
    """A question of a run. Arguments and prompts are a model's words: show them as hostile text.

    `kind` is `approval` (may this call be made?), `input` (a worker wants words or a form) or `settlement` (what became of a tool
    that was cut off?). `raw` holds all fields (`docs/reference/operator-protocol.md`).
    """

    raw: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """`approval`, `input` or `settlement`."""
        return str(self.raw.get("question"))

    @property
    def run(self) -> str:
        """The ID of the run that asks."""
        return str(self.raw.get("run"))

    @property
    def chain(self) -> List[str]:
        """The workers from the one that was called down to the one that asks."""
        return list(self.raw.get("chain") or [])

    @property
    def function(self) -> str:
        """Of an approval or a settlement: the tool or worker that is called."""
        return str(self.raw.get("function") or "")

    @property
    def input(self) -> Any:
        """The arguments of that call."""
        return self.raw.get("input")

    @property
    def risk(self) -> str:
        """The risk of that call."""
        return str(self.raw.get("risk") or "")

    @property
    def preview(self) -> Optional[Mapping[str, Any]]:
        """The file before and after the call, if it changes one."""
        return self.raw.get("preview")

    @property
    def prompt(self) -> str:
        """Of an input: what is asked."""
        return str(self.raw.get("prompt") or "")

    @property
    def schema(self) -> Optional[Mapping[str, Any]]:
        """Of an input: JSON Schema of the answer; `None` for free text."""
        return self.raw.get("schema")

    def approve(self, *, remember: bool = False) -> Answer:
        """The call is made; with `remember` the same call later in this run too."""
        return Answer({"answer": "approve", "remember": remember})

    def deny(self, reason: Optional[str] = None, *, remember: bool = False) -> Answer:
        """The call is not made, and the model is told the reason."""
        return Answer(_without_none({"answer": "deny", "reason": reason, "remember": remember}))

    def edit(self, input: Any) -> Answer:
        """The call is made with these arguments, which pass every check again except the asking."""
        return Answer({"answer": "edit", "input": input})

    def give(self, value: Any) -> Answer:
        """The words, or a value that fits `schema`."""
        return Answer({"answer": "give", "value": value})

    def decline(self, reason: Optional[str] = None) -> Answer:
        """There is no answer to an input, and the caller is told the reason."""
        return Answer(_without_none({"answer": "decline", "reason": reason}))


Operator = Callable[[Question], Union[Answer, None, Awaitable[Optional[Answer]]]]
"""Answers questions. `None` denies or declines."""


def refusal(question: Question) -> Answer:
    """The answer of an operator that has none."""
    if question.kind == "approval":
        return question.deny()
    if question.kind == "input":
        return question.decline()
    return Answer({"answer": "abort"})


def _without_none(fields: Dict[str, Any]) -> Dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
