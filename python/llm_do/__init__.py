"""What Python tools import from llm-do.

A tool is an ordinary function. Type hints and the docstring make its schema:

    from llm_do import tool

    @tool(risk="read")
    def word_count(text: str) -> int:
        \"\"\"Counts the words of a text.\"\"\"
        return len(text.split())

Inside llm-do this module is provided by the program itself, and this package is not needed. Install it for
your editor and your type checker, and to run your tools' unit tests: here `tool` gives the function back as
it is, and a `ToolContext` can be made by hand:

    ctx = ToolContext(calls={"summarizer": lambda input: "short"})
    assert my_tool(ctx, "long text") == "short"
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import (
    Any,
    Awaitable,
    Callable,
    Dict,
    Iterable,
    List,
    Literal,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
    Union,
    overload,
)

__all__ = [
    "tool",
    "ToolContext",
    "AsyncToolContext",
    "ModelRetry",
    "AskAgain",
    "ToolError",
    "CallError",
    "Image",
    "File",
    "Field",
]

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

Risk = Literal["read", "write", "network", "exec", "destructive"]
Rule = Literal["ask", "preApproved", "blocked"]
ApprovalMode = Literal["interactive", "approve_all", "auto_deny", "defer"]
Call = Tuple[str, Any]

_RISKS = ("read", "write", "network", "exec", "destructive")
_RULES = ("ask", "preApproved", "blocked")


class ModelRetry(Exception):
    """Tells the model what was wrong with its call, and asks it to call again.

    Raise it where other arguments would help: `raise ModelRetry("give the year with four digits")`.
    """


#: The same, by the name of what it does.
AskAgain = ModelRetry


class ToolError(Exception):
    """A failure whose message is for the model, without a traceback: `raise ToolError("no such city")`."""


class CallError(Exception):
    """A worker or a tool that was called through the context was refused or has failed.

    `kind` says how: `denied` (somebody said no), `blocked` (a rule did), `invalid_input`, `tool` (it failed),
    `limit`, `timeout`, among others. A `CallError` that the tool does not catch is the failure of the tool.
    """

    kind: str
    message: str

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(kind, message)
        self.kind = kind
        self.message = message

    def __str__(self) -> str:
        return self.message


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *,
    name: Optional[str] = None,
    description: Optional[str] = None,
    risk: Optional[Risk] = None,
    approval: Union[Rule, Callable[..., str], None] = None,
    parallel: Optional[bool] = None,
    schema: Union[Dict[str, Any], type, None] = None,
) -> Callable[[F], F]: ...
def tool(function: Any = None, /, **options: Any) -> Any:
    """Marks a function as a tool, with or without options.

    name: what the model calls it, instead of the function's name.
    description: what the model is told, instead of the docstring.
    risk: what it can do at worst; decides whether it asks before it runs.
    approval: a rule, or a function of the arguments (by name, as JSON) that gives one.
    parallel: whether it may run beside others although its risk says that it has effects.
    schema: a JSON Schema or a class (a Pydantic model, a dataclass, a TypedDict) that describes the
    arguments.
    """
    allowed = ("name", "description", "risk", "approval", "parallel", "schema")
    for key in options:
        if key not in allowed:
            raise TypeError(f"@tool has no `{key}`: it takes {', '.join(allowed)}")
    risk, approval = options.get("risk"), options.get("approval")
    if risk is not None and risk not in _RISKS:
        raise ValueError(f"@tool: risk is one of {', '.join(_RISKS)}, and not {risk!r}")
    if approval is not None and not callable(approval) and approval not in _RULES:
        raise ValueError(f"@tool: approval is one of {', '.join(_RULES)} or a function, and not {approval!r}")

    def mark(function: F) -> F:
        return function

    return mark if function is None else mark(function)


def Field(
    default: Any = ...,
    *,
    default_factory: Optional[Callable[[], Any]] = None,
    description: Optional[str] = None,
    examples: Optional[Sequence[Any]] = None,
    ge: Optional[float] = None,
    gt: Optional[float] = None,
    le: Optional[float] = None,
    lt: Optional[float] = None,
    multiple_of: Optional[float] = None,
    min_length: Optional[int] = None,
    max_length: Optional[int] = None,
    pattern: Optional[str] = None,
) -> Any:
    """What a type can't say of a parameter: `Annotated[int, Field(ge=1, description="how many")]`.

    It may also stand as the default of a parameter; outside of llm-do the function then gets the `Field`
    itself, so prefer `Annotated`. Pydantic's own `Field` is understood as well.
    """
    return _Field(
        default=default,
        default_factory=default_factory,
        description=description,
        examples=examples,
        ge=ge,
        gt=gt,
        le=le,
        lt=lt,
        multiple_of=multiple_of,
        min_length=min_length,
        max_length=max_length,
        pattern=pattern,
    )


class _Field:
    def __init__(self, **said: Any) -> None:
        self.__dict__.update(said)

    def __repr__(self) -> str:
        said = ", ".join(f"{key}={value!r}" for key, value in vars(self).items() if value not in (None, ...))
        return f"Field({said})"


class File:
    """A file as the result of a tool, alone or inside lists and dicts.

    `data` is its bytes, or a path: of this machine, or (as a `str`) of the sandbox.
    """

    def __init__(
        self,
        data: Union[bytes, bytearray, memoryview, str, "os.PathLike[str]"],
        *,
        name: Optional[str] = None,
        media_type: Optional[str] = None,
    ) -> None:
        if not isinstance(data, (bytes, bytearray, memoryview, str, os.PathLike)):
            raise TypeError(f"{type(self).__name__} takes bytes or a path, not {type(data).__name__}")
        self.data = data
        self.name = name
        self.media_type = media_type


class Image(File):
    """An image as the result of a tool: bytes, a path, or an image of Pillow."""

    def __init__(self, data: Any, *, name: Optional[str] = None, media_type: Optional[str] = None) -> None:
        if hasattr(data, "save") and hasattr(data, "tobytes"):  # Pillow
            from io import BytesIO

            out = BytesIO()
            data.save(out, format="PNG")
            data, media_type = out.getvalue(), "image/png"
        super().__init__(data, name=name, media_type=media_type)


class Mount:
    """A folder of the sandbox: `at` is what workers and tools call it, `path` is where it is."""

    at: str
    path: str
    mode: str

    def __init__(self, at: str, path: str, mode: str) -> None:
        self.at = at
        self.path = path
        self.mode = mode


class Sandbox:
    """Which files a call may touch, and how their virtual paths and the real ones belong together.

    A parameter of type `pathlib.Path` is translated without asking, and so is a `Path` that a tool returns.
    """

    #: The innermost come first.
    mounts: List[Mount]

    def __init__(self, mounts: Iterable[Mount] = ()) -> None:
        self.mounts = sorted(mounts, key=lambda mount: -len(mount.at.rstrip("/")))

    def path(self, path: Union[str, "os.PathLike[str]"]) -> Path:
        """The real path of a virtual one. `ValueError` where no mount holds it."""
        parts: List[str] = []
        for part in os.fspath(path).split("/"):
            if part == "..":
                if not parts:
                    raise ValueError(f"{path} leaves the sandbox")
                parts.pop()
            elif part not in ("", "."):
                parts.append(part)
        virtual = "/" + "/".join(parts)
        for mount in self.mounts:
            at = mount.at.rstrip("/")
            if virtual == at or virtual.startswith(at + "/"):
                return Path(mount.path.rstrip("/") + virtual[len(at) :])
        places = ", ".join(mount.at for mount in self.mounts) or "none"
        raise ValueError(f"{virtual} is in none of the mounts that this call has ({places})")

    def virtual(self, path: Union[str, "os.PathLike[str]"]) -> str:
        """The virtual path of a real one; what lies in no mount stays as it is."""
        text = os.fspath(path)
        for mount in sorted(self.mounts, key=lambda mount: -len(mount.path)):
            real = mount.path.rstrip("/")
            if text == real or text.startswith(real + "/"):
                return (mount.at.rstrip("/") + text[len(real) :]) or "/"
        return text


class Approvals:
    """How the run decides what needs approval."""

    mode: ApprovalMode

    def __init__(self, mode: ApprovalMode) -> None:
        self.mode = mode


class _Context:
    """What both contexts know of their call."""

    def __init__(
        self,
        *,
        calls: Optional[Mapping[str, Callable[[Any], Any]]] = None,
        mounts: Optional[Mapping[str, Union[str, "os.PathLike[str]"]]] = None,
        run_id: str = "test",
        worker: str = "test",
        idempotency_key: str = "test",
        mode: ApprovalMode = "approve_all",
        cancelled: bool = False,
    ) -> None:
        """A context for unit tests; inside llm-do the program makes it.

        calls: what stands in for workers and tools: functions of the input, by name.
        mounts: folders of the sandbox, virtual path to real one.
        """
        self._calls = dict(calls or {})
        self._sandbox = Sandbox(Mount(at, os.fspath(path), "rw") for at, path in (mounts or {}).items())
        self._facts = (run_id, worker, idempotency_key)
        self._approvals = Approvals(mode)
        self._cancelled = cancelled
        #: What was logged, for tests to look at.
        self.logged: List[str] = []

    @property
    def run_id(self) -> str:
        """The run that the call belongs to."""
        return self._facts[0]

    @property
    def worker(self) -> str:
        """The worker that called."""
        return self._facts[1]

    @property
    def idempotency_key(self) -> str:
        """The same whenever this very call is made again, after a crash for example."""
        return self._facts[2]

    @property
    def approvals(self) -> Approvals:
        """How the run decides what needs approval."""
        return self._approvals

    @property
    def sandbox(self) -> Sandbox:
        """The files that the call may touch."""
        return self._sandbox

    @property
    def cancelled(self) -> bool:
        """Whether the call was cancelled, so that a long loop can stop in order."""
        return self._cancelled

    def log(self, *values: object, level: str = "info") -> None:
        """Notes something in the journal of the run."""
        self.logged.append(" ".join(map(str, values)))

    def _answer(self, name: str, input: Any, arguments: Dict[str, Any]) -> Any:
        if name not in self._calls:
            raise CallError("unknown", f"this context has nothing in `calls` for {name}")
        if arguments:
            input = {**(input or {}), **arguments}
        return self._calls[name](input)


class ToolContext(_Context):
    """What a tool knows of its call, and its way back into the run. Take it as the first parameter.

    A call through it passes the same gate, limits and journal as a call of the worker's own. It may be used
    from several threads; when the call has ended it raises `RuntimeError`.

    An `async def` gets an `AsyncToolContext`, whichever of the two it is annotated with.
    """

    def call(self, name: str, input: Any = None, /, **arguments: Any) -> Any:
        """Calls a worker or a tool and gives its result: `ctx.call("summarizer", text=text)`.

        Raises `CallError` where the call is refused or fails.
        """
        return self._answer(name, input, arguments)

    def call_tool(self, name: str, input: Any = None, /, **arguments: Any) -> Any:
        """Like `call`, for tools only."""
        return self._answer(name, input, arguments)

    def call_all(self, calls: Iterable[Call], return_exceptions: bool = False) -> Any:
        """Makes several calls, `(name, input)`, at once, and gives a list of results in the same order.

        All of them are waited for. Then the first failure is raised, or with `return_exceptions` stands in
        its place.
        """
        return _all(self, calls, return_exceptions)

    @overload
    def step(self, name: str, function: Callable[[], Awaitable[T]]) -> Awaitable[T]: ...
    @overload
    def step(self, name: str, function: Callable[[], T]) -> T: ...
    def step(self, name: str, function: Callable[[], Any]) -> Any:
        """Runs an effect of the tool's own, once: when the run is resumed, its recorded value is given
        instead.

        The value must be JSON, or a dataclass and the like, of which the JSON is given back.
        """
        return function()


class AsyncToolContext(_Context):
    """The context of an async tool: like `ToolContext`, and its calls are awaited."""

    async def call(self, name: str, input: Any = None, /, **arguments: Any) -> Any:
        """Calls a worker or a tool and gives its result: `await ctx.call("summarizer", text=text)`.

        Raises `CallError` where the call is refused or fails.
        """
        return await _settled(self._answer(name, input, arguments))

    async def call_tool(self, name: str, input: Any = None, /, **arguments: Any) -> Any:
        """Like `call`, for tools only."""
        return await _settled(self._answer(name, input, arguments))

    async def call_all(self, calls: Iterable[Call], return_exceptions: bool = False) -> List[Any]:
        """Makes several calls, `(name, input)`, at once, and gives a list of results in the same order.

        All of them are waited for. Then the first failure is raised, or with `return_exceptions` stands in
        its place.
        """
        return [await _settled(one) for one in _all(self, calls, return_exceptions)]

    @overload
    async def step(self, name: str, function: Callable[[], Awaitable[T]]) -> T: ...
    @overload
    async def step(self, name: str, function: Callable[[], T]) -> T: ...
    async def step(self, name: str, function: Callable[[], Any]) -> Any:
        """Runs an effect of the tool's own, once: when the run is resumed, its recorded value is given
        instead.

        The value must be JSON, or a dataclass and the like, of which the JSON is given back.
        """
        return await _settled(function())


def _all(context: _Context, calls: Iterable[Call], return_exceptions: bool) -> List[Any]:
    results: List[Any] = []
    failure: Optional[CallError] = None
    for name, input in calls:
        try:
            results.append(context._answer(name, input, {}))
        except CallError as error:
            failure = failure or error
            results.append(error)
    if failure is not None and not return_exceptions:
        raise failure
    return results


async def _settled(value: Any) -> Any:
    return await value if hasattr(value, "__await__") else value
