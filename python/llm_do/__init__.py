"""What Python tools import from llm-do, and the client with which Python programs call workers.

    from llm_do import load

    with load("my-project") as program:
        print(program.summarizer(text="A long text."))

A tool is an ordinary function. Type hints and the docstring make its schema:

    from llm_do import tool

    @tool(risk="read")
    def word_count(text: str) -> int:
        \"\"\"Counts the words of a text.\"\"\"
        return len(text.split())

In a run, llm-do provides this module, and this package is not needed. Install the package for your editor and
your type checker, and for unit tests of your tools. A test makes a `ToolContext` itself:

    ctx = ToolContext(calls={"summarizer": lambda input: "short"})
    assert my_tool(ctx, "long text") == "short"
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
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

    from .client import Answer as Answer
    from .client import Chat as Chat
    from .client import Disconnected as Disconnected
    from .client import Event as Event
    from .client import Events as Events
    from .client import Failed as Failed
    from .client import InvalidInput as InvalidInput
    from .client import InvalidOutput as InvalidOutput
    from .client import LimitReached as LimitReached
    from .client import LlmDoError as LlmDoError
    from .client import NotLoaded as NotLoaded
    from .client import Program as Program
    from .client import Question as Question
    from .client import Refused as Refused
    from .client import Reply as Reply
    from .client import Result as Result
    from .client import Stream as Stream
    from .client import StubsOutOfDate as StubsOutOfDate
    from .client import Suspended as Suspended
    from .client import Usage as Usage
    from .client import Worker as Worker
    from .client import aload as aload
    from .client import load as load


def __getattr__(name: str) -> object:
    """The client is imported when it is used: tools don't need it."""
    if not name.startswith("_") and name != "client":
        from importlib import import_module

        client = import_module(".client", __name__)
        if name in client.__all__:
            return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# The host's section `llm_do` begins here.
#
# A run has no package `llm_do`: the host's file, which is joined from sections, holds this part of it
# (`crates/python/host/join.py`). So it uses nothing above this line but `TYPE_CHECKING`, `os` and the imports for
# type checkers, which the host has too, and imports nothing at run time. The contexts work with what a test gives
# them; the host's section `context` overrides those of their methods whose names begin with an underscore.

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

if TYPE_CHECKING:
    F = TypeVar("F", bound=Callable[..., Any])
    T = TypeVar("T")

    Risk = Literal["read", "write", "network", "exec", "destructive"]
    Rule = Literal["ask", "preApproved", "blocked"]
    ApprovalMode = Literal["interactive", "approve_all", "auto_deny", "defer"]
    AnyPath = Union[str, "os.PathLike[str]"]

RISKS = ("read", "write", "network", "exec", "destructive")
RULES = ("ask", "preApproved", "blocked")


class ModelRetry(Exception):
    """Tells the model what was wrong with its call, and asks it to call again.

    Raise it where other arguments would help: `raise ModelRetry("give the year with four digits")`.
    """


#: Another name of `ModelRetry`.
AskAgain = ModelRetry


class ToolError(Exception):
    """A failure whose message is for the model, without a traceback: `raise ToolError("no such city")`."""


class CallError(Exception):
    """A worker or a tool that was called through the context was refused or has failed.

    `kind` is `denied` (the operator refused), `blocked` (a rule refused), `invalid_input`, `tool` (it failed),
    `limit` or `timeout`, among others. A `CallError` that the tool does not catch is the failure of the tool.
    """

    kind: str
    message: str

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(kind, message)
        self.kind = kind
        self.message = message

    def __str__(self) -> str:
        return self.message


class Options:
    """The options of `@tool`."""

    __slots__ = ("name", "description", "risk", "approval", "parallel", "schema", "untrusted")

    def __init__(self, what: str, given: Dict[str, Any]) -> None:
        for key in given:
            if key not in self.__slots__:
                raise TypeError(
                    f"{what} has no option `{key}`{did_you_mean(key, self.__slots__)}; "
                    f"its options are {', '.join(self.__slots__)}"
                )
        self.name = given.get("name")
        self.description = given.get("description")
        self.risk = given.get("risk")
        self.approval = given.get("approval")
        self.parallel = given.get("parallel")
        self.schema = given.get("schema")
        self.untrusted = given.get("untrusted")
        for key in ("name", "description"):
            value = getattr(self, key)
            if value is not None and (not isinstance(value, str) or not value.strip()):
                raise TypeError(f"{what}: `{key}` must be a text that is not empty, not {value!r}")
        if self.risk is not None and self.risk not in RISKS:
            raise ValueError(
                f"{what}: `risk` must be one of {', '.join(RISKS)}, not {self.risk!r}{did_you_mean(self.risk, RISKS)}"
            )
        approval = self.approval
        if approval is not None and not callable(approval) and approval not in RULES:
            names = ", ".join(RULES)
            raise ValueError(
                f"{what}: `approval` must be one of {names} or a function, not {approval!r}{did_you_mean(approval, RULES)}"
            )
        if callable(approval) and is_async(approval):
            raise TypeError(f"{what}: `approval` must be a plain function, not an async one")
        if self.parallel is not None and not isinstance(self.parallel, bool) and self.parallel != "process":
            raise ValueError(f'{what}: `parallel` must be True, False or "process", not {self.parallel!r}')
        if self.schema is not None and not isinstance(self.schema, (dict, type)):
            raise TypeError(
                f"{what}: `schema` must be a JSON Schema (a dict) or a class, not {self.schema!r}"
            )
        untrusted = self.untrusted
        fields = isinstance(untrusted, (list, tuple)) and all(
            isinstance(field, str) and field for field in untrusted
        )
        if untrusted is not None and not isinstance(untrusted, bool) and not fields:
            raise TypeError(
                f"{what}: `untrusted` must be True, False or a list of fields of the result, not {untrusted!r}"
            )


if TYPE_CHECKING:

    @overload
    def tool(function: F, /) -> F: ...
    @overload
    def tool(
        *,
        name: Optional[str] = None,
        description: Optional[str] = None,
        risk: Optional[Risk] = None,
        approval: Union[Rule, Callable[..., str], None] = None,
        parallel: Union[bool, Literal["process"], None] = None,
        schema: Union[Dict[str, Any], type, None] = None,
        untrusted: Union[bool, Sequence[str], None] = None,
    ) -> Callable[[F], F]: ...


def tool(function: Any = None, /, **options: Any) -> Any:
    """Marks a function as a tool: `@tool`, or with options `@tool(risk="read")`.

    name: the name that the model sees, instead of the function's name.
    description: the description that the model sees, instead of the docstring.
    risk: the worst that the tool can do. It decides whether the operator is asked first.
    approval: a rule, or a function that takes the arguments by name, as JSON, and returns a rule. It may also
        take `args` (all arguments), `input` (the input of the run), `caller` (the worker that calls) and `origins`
        (for each argument `trusted`, `typed` or `untrusted`).
    parallel: True if it may run beside other calls: in a thread of the same process, or in its event loop for
        `async`. "process" runs it in a process of its own. Otherwise functions run one after another, in one
        process.
    schema: a JSON Schema or a class (a Pydantic model, a dataclass, a TypedDict) that describes the
    arguments.
    untrusted: True if others wrote the result, such as mails or web pages; or a list of the fields that they
    wrote, of the result or of each element of a list.
    """
    checked = Options("@tool", options)

    def mark(function: Any) -> Any:
        if (
            isinstance(function, (staticmethod, classmethod))
            or isinstance(function, type)
            or not callable(function)
        ):
            raise TypeError(f"@tool marks functions, not {show(function)}")
        setattr(function, "__llm_do_tool__", checked)
        return function

    if function is None:
        return mark
    if isinstance(function, str):
        raise TypeError(f"@tool takes its options by keyword: @tool(name={function!r})")
    return mark(function)


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
    clean: Optional[bool] = None,
    untrusted: Optional[bool] = None,
) -> Any:
    """Describes a parameter beyond its type: `Annotated[int, Field(ge=1, description="how many")]`.

    clean: a text is one line of visible characters. It needs a `max_length`.
    untrusted: in the type of a result: others wrote this part of it.

    It may also be the default of a parameter. Outside a run the function then gets the `Field` itself, so
    prefer `Annotated`. Pydantic's own `Field` works as well.
    """
    return FieldOptions(locals())


class FieldOptions:
    """The arguments of `Field`."""

    default: Any
    default_factory: Optional[Callable[[], Any]]

    def __init__(self, given: Dict[str, Any]) -> None:
        self.__dict__.update(given)

    def __repr__(self) -> str:
        given = ", ".join(f"{key}={value!r}" for key, value in vars(self).items() if value not in (None, ...))
        return f"Field({given})"


class File:
    """A file as the result of a tool, alone or inside lists and dicts.

    `data` is its bytes, or a path on this machine, or (as a `str`) a path in the sandbox.
    """

    def __init__(
        self,
        data: Union[bytes, bytearray, memoryview, AnyPath],
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
    """An image as the result of a tool: bytes, a path, or a Pillow image."""

    def __init__(self, data: Any, *, name: Optional[str] = None, media_type: Optional[str] = None) -> None:
        if is_pillow(data):
            data, media_type = pillow_bytes(data)
        super().__init__(data, name=name, media_type=media_type)


class Mount:
    """A folder of the sandbox. Workers and tools call it `at`; on this machine it is `path`."""

    __slots__ = ("at", "path", "mode")

    def __init__(self, at: str, path: str, mode: str) -> None:
        self.at = at
        self.path = path
        self.mode = mode

    def __repr__(self) -> str:
        return f"Mount({self.at!r}, {self.mode!r})"


class Sandbox:
    """The folders that a call may touch, and the translation between virtual and real paths.

    llm-do translates a parameter of type `pathlib.Path` itself, and a `Path` that a tool returns.
    """

    #: The innermost come first.
    mounts: List[Mount]

    def __init__(self, mounts: Iterable[Mount] = ()) -> None:
        self.mounts = sorted(mounts, key=lambda mount: -len(mount.at.rstrip("/")))

    def path(self, path: AnyPath) -> Path:
        """The real path of a virtual one. Raises `ValueError` for a path outside all mounts."""
        from pathlib import Path

        return Path(self.locate(os.fspath(path)))

    def locate(self, path: str) -> str:
        """Like `path`, but takes and returns a text."""
        if "\0" in path:
            raise ValueError("a path cannot hold a NUL character")
        parts: List[str] = []
        for part in path.split("/"):
            if part == "..":
                if not parts:
                    raise ValueError(f"{path} leaves the sandbox")
                parts.pop()
            elif part not in ("", "."):
                parts.append(part)
        virtual = "/" + "/".join(parts)
        for mount in self.mounts:
            at = mount.at.rstrip("/")
            if is_below(virtual, at or "/"):
                return mount.path.rstrip("/") + virtual[len(at) :].rstrip("/") or "/"
        places = ", ".join(mount.at for mount in self.mounts) or "none"
        raise ValueError(f"{virtual} is outside the mounts of this call ({places})")

    def virtual(self, path: AnyPath) -> str:
        """The virtual path of a real one. A path outside all mounts is returned as it is."""
        text = os.fspath(path)
        for real in (text, os.path.realpath(text)) if text.startswith("/") and self.mounts else ():
            holding = [mount for mount in self.mounts if is_below(real, mount.path.rstrip("/") or "/")]
            if holding:
                mount = max(holding, key=lambda mount: len(mount.path))
                rest = real[len(mount.path.rstrip("/")) :]
                return (mount.at.rstrip("/") + rest) or "/"
        return text

    def __repr__(self) -> str:
        return f"Sandbox({self.mounts!r})"


class Approvals:
    """How the run decides about calls that need approval."""

    __slots__ = ("mode",)

    def __init__(self, mode: ApprovalMode) -> None:
        self.mode = mode


class State:
    """JSON values that the functions of one package share in a run: `ctx.state.set("seen", 3)`.

    Unlike the variables of a module, they survive a resume, and parallel workers see the same values.
    """

    def __init__(self, context: CallContext) -> None:
        self._context = context

    def get(self, name: str, default: Any = None) -> Any:
        """The value of that name, or the default."""
        found = self._context._get_state(name)
        return default if found is None else found

    def set(self, name: str, value: Any) -> None:
        """Sets a value. It must be JSON, or something with a JSON form. `None` removes it."""
        self._context._set_state(name, value)


class AsyncState:
    """The state of async functions: like `State`, but awaited."""

    def __init__(self, context: CallContext) -> None:
        self._context = context

    async def get(self, name: str, default: Any = None) -> Any:
        """The value of that name, or the default."""
        found = await settled(self._context._get_state(name))
        return default if found is None else found

    async def set(self, name: str, value: Any) -> None:
        """Sets a value. It must be JSON, or something with a JSON form. `None` removes it."""
        await settled(self._context._set_state(name, value))


class CallContext:
    """What both contexts know about their call."""

    _run_id: str
    _worker: str
    _key: str
    _approvals: Approvals
    _sandbox: Sandbox

    def __init__(
        self,
        *,
        calls: Optional[Mapping[str, Callable[[Any], Any]]] = None,
        mounts: Optional[Mapping[str, AnyPath]] = None,
        run_id: str = "test",
        worker: str = "test",
        idempotency_key: str = "test",
        mode: ApprovalMode = "approve_all",
        cancelled: bool = False,
    ) -> None:
        """Makes a context for a unit test. In a run, llm-do makes the context.

        calls: functions that take the place of workers and tools, by name. They get the input.
        mounts: the folders of the sandbox: virtual path to real path.
        """
        self._calls = dict(calls or {})
        self._run_id = run_id
        self._worker = worker
        self._key = idempotency_key
        self._approvals = Approvals(mode)
        self._sandbox = Sandbox([Mount(at, os.fspath(path), "rw") for at, path in (mounts or {}).items()])
        self._cancelled = cancelled
        self._values: Dict[str, Any] = {}
        #: The texts that the tool logged.
        self.logged: List[str] = []

    @property
    def run_id(self) -> str:
        """The ID of the run."""
        return self._run_id

    @property
    def worker(self) -> str:
        """The worker that called."""
        return self._worker

    @property
    def idempotency_key(self) -> str:
        """The key of this call. It stays the same when the call is made again, for example after a crash."""
        return self._key

    @property
    def approvals(self) -> Approvals:
        """How the run decides about calls that need approval."""
        return self._approvals

    @property
    def sandbox(self) -> Sandbox:
        """The files that the call may touch."""
        return self._sandbox

    @property
    def cancelled(self) -> bool:
        """Whether the call was cancelled. A long loop can check it and clean up before it ends."""
        return self._is_cancelled()

    def log(self, *values: object, level: str = "info") -> None:
        """Writes a text to the journal of the run."""
        self._log(" ".join(str(value) for value in values), level)

    def _is_cancelled(self) -> bool:
        return self._cancelled

    def _log(self, text: str, _level: str) -> None:
        self.logged.append(text)

    def _make(self, _op: str, name: str, input: Any, arguments: Dict[str, Any]) -> Any:
        if name not in self._calls:
            raise CallError("unknown", f"`calls` of this context has no function for {name!r}")
        return self._calls[name]({**(input or {}), **arguments} if arguments else input)

    def _run_step(self, _name: str, function: Callable[[], Any]) -> Any:
        return function()

    def _get_state(self, name: str) -> Any:
        return self._values.get(name)

    def _set_state(self, name: str, value: Any) -> Any:
        self._values[name] = value


class ToolContext(CallContext):
    """What a tool knows about its call, and how it makes calls in the run. Take it as the first parameter.

    A call through it passes the same approvals, limits and journal as a call of the worker. It may be used
    from several threads. After the end of the call its methods raise `RuntimeError`.

    An `async def` gets an `AsyncToolContext`, even where it is annotated with `ToolContext`.
    """

    @property
    def state(self) -> State:
        """Values that the functions of this package share in the run."""
        return State(self)

    def call(self, name: str, input: Any = None, /, **arguments: Any) -> Any:
        """Calls a worker or a tool and returns its result: `ctx.call("summarizer", text=text)`.

        Raises `CallError` where the call is refused or fails.
        """
        return self._make("call", name, input, arguments)

    def call_tool(self, name: str, input: Any = None, /, **arguments: Any) -> Any:
        """Like `call`, for tools only."""
        return self._make("call_tool", name, input, arguments)

    def call_all(self, calls: Iterable[Tuple[str, Any]], return_exceptions: bool = False) -> Any:
        """Makes several calls, `(name, input)`, at once. Returns a list of results in the same order.

        Waits for all of them, and then raises the first failure. With `return_exceptions` the list holds the
        failures instead.
        """
        return self._make_all(calls, return_exceptions)

    def map(self, items: Iterable[Any], name: str, limit: int, return_exceptions: bool = False) -> Any:
        """Calls a worker or a tool for each of the items, its inputs, at once: `ctx.map(pages, "reader", limit=50)`.

        Returns a list of results in the order of the items. `limit` is the greatest number of items: with more, no
        call is made and `ValueError` is raised. Failures are raised as by `call_all`.
        """
        return self._make_all(calls_of(items, name, limit), return_exceptions)

    if TYPE_CHECKING:

        @overload
        def step(self, name: str, function: Callable[[], Awaitable[T]]) -> Awaitable[T]: ...
        @overload
        def step(self, name: str, function: Callable[[], T]) -> T: ...

    def step(self, name: str, function: Callable[[], Any]) -> Any:
        """Runs an effect of the tool once. A resumed run returns the recorded value instead.

        The value must be JSON, or something with a JSON form, like a dataclass. Then the step returns its
        JSON.
        """
        return self._run_step(name, function)

    def _make_all(self, calls: Iterable[Tuple[str, Any]], return_exceptions: bool) -> Any:
        results = []
        for name, input in calls:
            try:
                results.append(self._make("call", name, input, {}))
            except CallError as error:
                results.append(error)
        return raise_first(results, return_exceptions)


class AsyncToolContext(CallContext):
    """The context of an async tool: like `ToolContext`, but its calls are awaited."""

    @property
    def state(self) -> AsyncState:
        """Values that the functions of this package share in the run."""
        return AsyncState(self)

    async def call(self, name: str, input: Any = None, /, **arguments: Any) -> Any:
        """Calls a worker or a tool and returns its result: `await ctx.call("summarizer", text=text)`.

        Raises `CallError` where the call is refused or fails.
        """
        return await settled(self._make("call", name, input, arguments))

    async def call_tool(self, name: str, input: Any = None, /, **arguments: Any) -> Any:
        """Like `call`, for tools only."""
        return await settled(self._make("call_tool", name, input, arguments))

    async def call_all(self, calls: Iterable[Tuple[str, Any]], return_exceptions: bool = False) -> List[Any]:
        """Makes several calls, `(name, input)`, at once. Returns a list of results in the same order.

        Waits for all of them, and then raises the first failure. With `return_exceptions` the list holds the
        failures instead.
        """
        return await self._make_all(calls, return_exceptions)

    async def map(
        self, items: Iterable[Any], name: str, limit: int, return_exceptions: bool = False
    ) -> List[Any]:
        """Calls a worker or a tool for each of the items, its inputs, at once: `await ctx.map(pages, "reader", limit=50)`.

        Returns a list of results in the order of the items. `limit` is the greatest number of items: with more, no
        call is made and `ValueError` is raised. Failures are raised as by `call_all`.
        """
        return await self._make_all(calls_of(items, name, limit), return_exceptions)

    if TYPE_CHECKING:

        @overload
        async def step(self, name: str, function: Callable[[], Awaitable[T]]) -> T: ...
        @overload
        async def step(self, name: str, function: Callable[[], T]) -> T: ...

    async def step(self, name: str, function: Callable[[], Any]) -> Any:
        """Runs an effect of the tool once. A resumed run returns the recorded value instead.

        The value must be JSON, or something with a JSON form, like a dataclass. Then the step returns its
        JSON.
        """
        return await settled(self._run_step(name, function))

    async def _make_all(self, calls: Iterable[Tuple[str, Any]], return_exceptions: bool) -> List[Any]:
        results = []
        for name, input in calls:
            try:
                results.append(await settled(self._make("call", name, input, {})))
            except CallError as error:
                results.append(error)
        return raise_first(results, return_exceptions)


async def settled(value: Any) -> Any:
    """The value, awaited if it can be."""
    return await value if hasattr(value, "__await__") else value


def raise_first(results: List[Any], return_exceptions: bool) -> List[Any]:
    """The results of several calls. Raises the first failure among them, if failures are not returned."""
    for result in results:
        if isinstance(result, CallError) and not return_exceptions:
            raise result
    return results


def calls_of(items: Iterable[Any], name: str, limit: int) -> List[Tuple[str, Any]]:
    """The calls of `map`. Raises `ValueError` if there are more items than the limit, before any call is made."""
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
        raise TypeError(f"the limit of map must be a number of items, not {show(limit)}")
    calls: List[Tuple[str, Any]] = []
    for item in items:
        if len(calls) == limit:
            raise ValueError(
                f"there are more than {limit} items for {name!r}: pass fewer, as in items[:{limit}], or a greater limit"
            )
        calls.append((name, item))
    return calls


def did_you_mean(name: object, names: Iterable[str]) -> str:
    """`; did you mean …?`, if a name is similar."""
    import difflib

    found = difflib.get_close_matches(str(name), list(names), 3, 0.6)
    return f"; did you mean {' or '.join(found)}?" if found else ""


def show(value: object) -> str:
    """A type or an object in few words, even if its `__repr__` raises."""
    try:
        if isinstance(value, type):
            text = (
                value.__qualname__
                if value.__module__ == "builtins"
                else f"{value.__module__}.{value.__qualname__}"
            )
        else:
            text = repr(value).replace("typing.", "")
    except Exception:
        text = f"an object of type {type(value).__name__}"
    return text if len(text) <= 200 else text[:200] + "…"


def code_of(target: Any) -> Any:
    """The code of a function, of a method or of a callable object; None for one that is written in C."""
    for _ in range(10):
        code = getattr(target, "__code__", None)
        if code is not None:
            return code
        inner = (
            getattr(target, "__func__", None)
            or getattr(target, "func", None)
            or getattr(target, "__wrapped__", None)
        )
        if inner is None:
            inner = vars(type(target)).get("__call__")
            if not hasattr(inner, "__code__"):
                return None
        target = inner
    return None


def is_async(target: Any) -> bool:
    """Whether a call of it returns a coroutine. It may also be the wrapper of a coroutine function."""
    while target is not None:
        code = code_of(target)
        if code is not None and code.co_flags & 0x180:  # CO_COROUTINE, CO_ITERABLE_COROUTINE
            return True
        target = getattr(target, "__wrapped__", None)
    return False


def is_below(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies in it, by name."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def is_pillow(value: object) -> bool:
    return any(
        parent.__module__.startswith("PIL.") and parent.__name__ == "Image" for parent in type(value).__mro__
    )


def pillow_bytes(image: Any) -> Tuple[bytes, str]:
    """A Pillow image in its own format if models can read that, else as PNG."""
    from io import BytesIO

    kind = image.format if image.format in ("PNG", "JPEG", "GIF", "WEBP") else "PNG"
    out = BytesIO()
    image.save(out, format=kind)
    return out.getvalue(), f"image/{kind.lower()}"
