"""How calls end without an output. Each error names the run, if there is one: `llm-do runs show RUN` shows it."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Type

from .result import Usage


class LlmDoError(Exception):
    """Base class of all errors of this client.

    `run` is the ID of the run, `kind` the kind of failure, `partial` the last invalid output or the text before a limit,
    `usage` what the run has used, `questions` what it waits for.
    """

    message: str
    run: Optional[str]
    kind: Optional[str]
    partial: Any
    usage: Usage
    questions: List[Dict[str, Any]]

    def __init__(
        self,
        message: str,
        *,
        run: Optional[str] = None,
        kind: Optional[str] = None,
        partial: Any = None,
        usage: Optional[Usage] = None,
        questions: Optional[List[Dict[str, Any]]] = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.run = run
        self.kind = kind
        self.partial = partial
        self.usage = usage or Usage()
        self.questions = questions or []

    def __str__(self) -> str:
        return f"{self.message} (run {self.run})" if self.run else self.message


class NotLoaded(LlmDoError):
    """The program can't be used: llm-do is not installed or of another version, or the program has errors."""


class StubsOutOfDate(NotLoaded):
    """The signatures of the workers have changed since `llm-do stubs` wrote the types."""


class InvalidInput(LlmDoError):
    """The input does not fit the worker's parameters. Nothing was sent to a model."""


class Disconnected(LlmDoError):
    """The process has ended, or was closed, in the middle of the call."""


class Failed(LlmDoError):
    """The run failed, or was cancelled by something else than this call. `kind` says how."""


class InvalidOutput(Failed):
    """The worker gave no valid output after all attempts, or the output does not fit `returns`."""


class Refused(LlmDoError):
    """The call was refused: by a rule, by the operator, or for want of a grant."""


class LimitReached(LlmDoError):
    """A limit ended the run."""


class Suspended(LlmDoError):
    """The run waits for answers. `questions` lists them; `llm-do runs resume` continues it."""


def of_run(view: Dict[str, Any]) -> LlmDoError:
    """The error for a run that is over without an output."""
    failure = view.get("failure") or {}
    kind = failure.get("kind")
    state = view.get("state")
    cls: Type[LlmDoError] = Failed
    message = failure.get("message")
    if state == "limit":
        cls = LimitReached
    elif state == "refused":
        cls = Refused
    elif state == "cut_off" and view.get("reason"):
        kind = "cut_off"
        message = str(view["reason"])
    elif state in ("waiting", "suspended", "running", "cut_off"):
        cls = Suspended
        message = message or "the run waits for answers: `llm-do runs resume` continues it"
    elif state == "cancelled":
        kind = kind or "cancelled"
        message = message or "the run was cancelled"
    elif kind in ("invalid_output", "postcondition"):
        cls = InvalidOutput
    return cls(
        message or f"the run ended as {state}",
        run=view.get("run"),
        kind=kind,
        partial=failure.get("partial"),
        usage=Usage.of(view.get("usage")),
        questions=view.get("questions"),
    )


def of_response(error: Dict[str, Any]) -> LlmDoError:
    """The error for a request that had no effect."""
    message = str(error.get("message", "llm-do refused the request"))
    code = (error.get("data") or {}).get("code")
    if code == "bad_input":
        return InvalidInput(message, kind="invalid_input")
    if code == "forbidden":
        return Refused(message, kind="forbidden")
    if code == "shutting_down":
        return Disconnected(message, kind=code)
    return Failed(message, kind=code or "request")
