"""Programs: `with load("my-project") as p: p.summarizer(text="…")`."""

from __future__ import annotations

import asyncio
import os
import warnings
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Generator,
    Generic,
    List,
    Mapping,
    Optional,
    Sequence,
    Type,
    TypedDict,
    TypeVar,
    Union,
    cast,
    overload,
)

from .connection import PROTOCOL, Connection, find_binary
from .errors import LlmDoError, NotLoaded, StubsOutOfDate
from .question import Operator
from .worker import Worker

if TYPE_CHECKING:
    AnyPath = Union[str, "os.PathLike[str]"]

R = TypeVar("R")
P = TypeVar("P", bound="Program")
Texts = Union[str, Sequence[str]]


class Program:
    """A program in a process of its own. Its workers are its attributes, and `p["a/b"]` names any worker.

    All threads and tasks share the process. It ends with the `with` block, with `close`, and with this program.
    """

    #: In types that `llm-do stubs` has written: the hash of the signatures.
    SIGNATURES: Optional[str] = None

    def __init__(
        self, connection: Connection, hello: Mapping[str, Any], operator: Optional[Operator]
    ) -> None:
        self.connection = connection
        self.operator = operator
        #: Its name.
        self.name = str(hello.get("program") or "program")
        #: Version of llm-do.
        self.version = str(hello.get("version"))
        self._entry = str(hello.get("entry"))
        self._signatures = str(hello.get("signatures"))
        self._views: Dict[str, Mapping[str, Any]] = {
            str(view["worker"]): view for view in hello.get("workers", ())
        }
        self._broken: Dict[str, str] = {
            str(one["worker"]): str(one["reason"]) for one in hello.get("broken", ())
        }
        self._returns: Dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"<program {self.name} with {', '.join(self._views)}>"

    # -- workers

    def __getattr__(self, name: str) -> Worker[Any]:
        if name.startswith("_") or "_views" not in self.__dict__:
            raise AttributeError(name)
        if name not in self._views:
            raise AttributeError(self._unknown(name))
        return self.worker(name)

    def __getitem__(self, name: str) -> Worker[Any]:
        return self.worker(name)

    def __dir__(self) -> List[str]:
        return [*super().__dir__(), *(name for name in self._views if name.isidentifier())]

    if TYPE_CHECKING:

        @overload
        def worker(self, name: Optional[str] = None, *, returns: Type[R], **options: Any) -> Worker[R]: ...
        @overload
        def worker(self, name: Optional[str] = None, **options: Any) -> Worker[Any]: ...

    def worker(self, name: Optional[str] = None, *, returns: Any = None, **options: Any) -> Worker[Any]:
        """A worker by its ID, with the options of `Worker.using`. Without a name: the entry."""
        name = self._entry if name is None else name
        if name in self._broken:
            raise NotLoaded(f"the worker {name} can't be loaded: {self._broken[name]}")
        view = self._views.get(name)
        if view is None:
            if ":" not in name:  # Workers of libraries are not listed.
                raise NotLoaded(self._unknown(name))
            view = {"worker": name, "known": False}
        returns = self._returns.get(name) if returns is None else returns
        worker: Worker[Any] = Worker(self, view, {})
        return worker.using(returns=returns, **options) if returns is not None or options else worker

    def workers(self) -> List[str]:
        """The IDs of the workers."""
        return list(self._views)

    def _unknown(self, name: str) -> str:
        if name in self._broken:
            return f"the worker {name} can't be loaded: {self._broken[name]}"
        return f"{self.name} has no worker {name!r}; it has {', '.join(self._views) or 'none'}"

    # -- runs

    def run(self, run: str) -> Dict[str, Any]:
        """A run of this program, as `docs/reference/http.md` describes runs."""
        return cast("Dict[str, Any]", self.connection.request("run", {"run": run}).wait())

    def runs(self, *, limit: int = 50, before: Optional[str] = None) -> List[Dict[str, Any]]:
        """The newest runs of this program."""
        params: Dict[str, Any] = {"limit": limit}
        if before is not None:
            params["before"] = before
        return cast("List[Dict[str, Any]]", self.connection.request("runs", params).wait()["runs"])

    # -- the process

    def close(self) -> None:
        """Ends the process. Its runs are cancelled; those that wait for answers are suspended."""
        self.connection.close()

    async def aclose(self) -> None:
        """Like `close`, to be awaited."""
        await asyncio.get_running_loop().run_in_executor(None, self.connection.close)

    def __enter__(self: P) -> P:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    async def __aenter__(self: P) -> P:
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await self.aclose()


class _Loading(Generic[P]):
    """What `aload` returns: `async with aload(…) as p`, or `p = await aload(…)`."""

    def __init__(self, load: Callable[[], P]) -> None:
        self._load = load
        self._program: Optional[P] = None

    async def _loaded(self) -> P:
        return await asyncio.get_running_loop().run_in_executor(None, self._load)

    def __await__(self) -> Generator[Any, None, P]:
        return self._loaded().__await__()

    async def __aenter__(self) -> P:
        self._program = await self._loaded()
        return self._program

    async def __aexit__(self, *_: object) -> None:
        if self._program is not None:
            await self._program.aclose()


if TYPE_CHECKING:
    from typing_extensions import Unpack

    class Options(TypedDict, total=False):
        """The options of `load` and `aload` beside `stubs`."""

        entry: Optional[str]
        operator: Optional[Operator]
        returns: Optional[Mapping[str, Any]]
        model: Optional[str]
        settings: Optional[Mapping[str, object]]
        approval: Optional[str]
        allow: Texts
        ask: Texts
        deny: Texts
        grant: Texts
        budget: Texts
        max_runs: Optional[int]
        env: Optional[Mapping[str, str]]
        cwd: Optional[AnyPath]
        binary: Optional[AnyPath]


if TYPE_CHECKING:

    @overload
    def load(target: AnyPath = ".", *, stubs: Type[P], **options: Unpack[Options]) -> P: ...
    @overload
    def load(target: AnyPath = ".", *, stubs: None = None, **options: Unpack[Options]) -> Program: ...


def load(
    target: Any = ".",
    *,
    stubs: Any = None,
    entry: Optional[str] = None,
    operator: Optional[Operator] = None,
    returns: Optional[Mapping[str, Any]] = None,
    model: Optional[str] = None,
    settings: Optional[Mapping[str, object]] = None,
    approval: Optional[str] = None,
    allow: Texts = (),
    ask: Texts = (),
    deny: Texts = (),
    grant: Texts = (),
    budget: Texts = (),
    max_runs: Optional[int] = None,
    env: Optional[Mapping[str, str]] = None,
    cwd: Any = None,
    binary: Any = None,
) -> Any:
    """Loads a program: a project's directory or a worker file. It starts one process, which waits for calls.

    entry: the worker that `p.worker()` is, if the program names none or another.
    operator: answers the questions of runs. Without it, calls that need an approval are denied.
    returns: for workers by their ID, the types that their outputs are read as. They are compared with the workers at once.
    stubs: the class of this program that `llm-do stubs` has written. It is compared with the workers at once.
    model, settings, approval, allow, ask, deny, grant, budget: as the options of `llm-do run`. You are the operator, so
        that you may grant and allow.
    max_runs: most runs at once; further calls wait.
    env, cwd, binary: environment, folder and path of the process.
    """
    arguments = [find_binary(None if binary is None else os.fspath(binary)), "serve", "--stdio"]
    options: Dict[str, Texts] = dict(allow=allow, ask=ask, deny=deny, grant=grant, budget=budget)
    if settings:
        options["set"] = [f"{name}={_setting(value)}" for name, value in settings.items()]
    single = {
        "entry": entry,
        "model": model,
        "approval": approval,
        "max-runs": None if max_runs is None else str(max_runs),
    }
    for name, value in single.items():
        if value is not None:
            options[name] = value
    for name, values in options.items():
        texts = [values] if isinstance(values, str) else values
        arguments.extend(f"--{name}={text}" for text in texts)
    arguments.extend(["--", os.fspath(target)])
    connection = Connection(arguments, env, None if cwd is None else os.fspath(cwd))
    try:
        program = _greeted(connection, operator, Program if stubs is None else stubs)
        for name, type_ in (returns or {}).items():
            program._returns[name] = program.worker(name, returns=type_)._returns
    except BaseException:
        connection.close()
        raise
    connection.loaded = True
    return program


if TYPE_CHECKING:

    @overload
    def aload(target: AnyPath = ".", *, stubs: Type[P], **options: Unpack[Options]) -> _Loading[P]: ...
    @overload
    def aload(
        target: AnyPath = ".", *, stubs: None = None, **options: Unpack[Options]
    ) -> _Loading[Program]: ...


def aload(target: Any = ".", **options: Any) -> Any:
    """Like `load`, for `async with` and `await`."""
    return _Loading(lambda: load(target, **options))


def _greeted(connection: Connection, operator: Optional[Operator], cls: Type[P]) -> P:
    try:
        hello = connection.request("hello", {"protocol": PROTOCOL}).wait()
    except LlmDoError as error:
        raise NotLoaded(error.message) from error
    if not isinstance(hello, dict) or hello.get("protocol") != PROTOCOL:
        version = hello.get("version") if isinstance(hello, dict) else None
        raise NotLoaded(
            f"llm-do {version or 'of an unknown version'} speaks another protocol than this module: install both in the "
            "same version"
        )
    program = cls(connection, hello, operator)
    if cls.SIGNATURES is not None and cls.SIGNATURES != program._signatures:
        raise StubsOutOfDate(
            f"the workers of {program.name} have other signatures than {cls.__module__}.{cls.__name__}: write it again with "
            "`llm-do stubs --python`"
        )
    for stale in hello.get("stale_stubs", ()):
        if stale.get("language") == "python" and cls is Program:
            warnings.warn(f"{stale.get('file')} is out of date: `llm-do check` says more", stacklevel=4)
    return program


def _setting(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
