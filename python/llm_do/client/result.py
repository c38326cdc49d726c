"""What calls and streams give."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Generic, Optional, Tuple, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Usage:
    """The tokens of a run. `None` means unknown."""

    input_tokens: Optional[int] = None
    output_tokens: Optional[int] = None
    cached_tokens: Optional[int] = None
    cost_usd: Optional[float] = None

    @staticmethod
    def of(usage: Optional[Dict[str, Any]]) -> Usage:
        """From its JSON."""
        given = usage or {}
        cost = given.get("cost_usd")
        return Usage(
            given.get("input_tokens"),
            given.get("output_tokens"),
            given.get("cached_tokens"),
            None if cost is None else float(cost),
        )


@dataclass(frozen=True)
class Result(Generic[T]):
    """An output with its run."""

    output: T
    #: The run's ID: `llm-do runs show RUN` shows it.
    run: str
    usage: Usage = field(default_factory=Usage)
    took_ms: Optional[int] = None

    @property
    def cost(self) -> Optional[float]:
        """The cost in US dollars, if the model's price is known."""
        return self.usage.cost_usd


@dataclass(frozen=True)
class Event:
    """Something that happens in a run.

    `kind` is `text`, `reasoning` or `call` for a piece of an answer that is being made, `partial` if its typed output has
    grown, `discard_partial` if that output does not count, `discard` if neither the pieces nor the output of that turn count
    because the request failed, and `record` for a record of the journal.
    """

    kind: str
    #: The call: `0` is the worker that was called.
    path: str
    turn: Optional[int] = None
    #: The piece, or the name of the tool that is called.
    text: str = ""
    #: The record.
    record: Optional[Dict[str, Any]] = None
    #: How the output has grown: `at` is the place, and `set` or `append` what has come. `Stream.partials` applies it.
    growth: Tuple[Dict[str, Any], ...] = ()

    @staticmethod
    def of(params: Dict[str, Any]) -> Event:
        """From its JSON."""
        if params.get("event") == "record":
            record = params.get("record") or {}
            return Event("record", str(record.get("path", "")), None, "", record)
        path, turn = str(params.get("path", "")), params.get("turn")
        if params.get("event") in ("discard", "discard_partial"):
            return Event(str(params["event"]), path, turn)
        if params.get("event") == "partial":
            return Event("partial", path, turn, growth=tuple(params.get("growth") or ()))
        return Event(str(params.get("delta")), path, turn, params.get("text") or params.get("name") or "")
