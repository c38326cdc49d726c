"""Workers as functions."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections import deque
from typing import (
    TYPE_CHECKING,
    Any,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Deque,
    Dict,
    Generic,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Type,
    TypeVar,
    Union,
    cast,
    overload,
)

from . import returns as types
from .chat import Chat, Heard
from .connection import Hear, Request
from .errors import Disconnected, InvalidInput, InvalidOutput, LlmDoError, of_run
from .question import Answer, Operator, Question, refusal
from .result import Result, Usage
from .stream import Events, Stream, settled
from .tool import function_of

if TYPE_CHECKING:
    from .program import Program

T = TypeVar("T")
R = TypeVar("R")
Input = Union[str, Mapping[str, Any]]
_NOT_GIVEN: Any = object()


class Worker(Generic[T]):
    """A worker of a program, as a function: `worker(text="…")`.

    Keyword arguments are the worker's parameters. A single text is the message, a single dict the whole input.
    """

    _program: Program
    #: The worker's ID.
    name: str
    #: What it does.
    description: Optional[str]
    #: JSON Schema of its input.
    input_schema: Mapping[str, Any]
    #: JSON Schema of its output; `None` for text.
    output_schema: Optional[Mapping[str, Any]]

    def __init__(self, program: Program, view: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        self._program = program
        self._view = view
        self._options = options
        self.name = str(view["worker"])
        self.description = view.get("description")
        self.input_schema = view.get("input") or {}
        self.output_schema = view.get("output")
        self.__doc__ = self.description
        self._returns: Any = options.get("returns")
        if self._returns is not None and view.get("known", True):
            types.compare(self.name, self._returns, self.output_schema)

    def __repr__(self) -> str:
        return f"<worker {self.name} of {self._program.name}>"

    def using(
        self,
        *,
        returns: Optional[Type[R]] = None,
        operator: Optional[Operator] = None,
        approval: Optional[str] = None,
        ask: Sequence[str] = (),
        deny: Sequence[str] = (),
        budget: Sequence[str] = (),
        attachments: Sequence[Union[str, os.PathLike[str]]] = (),
    ) -> Worker[R]:
        """The same worker with options. Rules, mode and budget can only be stricter than those of the program.

        `returns`: a Pydantic model, a dataclass or another type that outputs are read as.
        `attachments`: files for the worker's model.
        """
        given = dict(returns=returns, operator=operator, approval=approval)
        files = [os.path.abspath(os.fspath(path)) for path in attachments]
        lists = dict(ask=list(ask), deny=list(deny), budget=list(budget), attachments=files)
        options = {**self._options, **{name: value for name, value in given.items() if value is not None}}
        for name, lines in lists.items():
            options[name] = [*options.get(name, []), *lines]
        return Worker(self._program, self._view, options)

    # -- calls

    if TYPE_CHECKING:

        @overload
        def __call__(self, input: Input = ..., /, *, returns: Type[R], **arguments: Any) -> R: ...
        @overload
        def __call__(self, input: Input = ..., /, **arguments: Any) -> T: ...

    def __call__(self, input: Any = _NOT_GIVEN, /, **arguments: Any) -> Any:
        """Calls the worker and returns its output."""
        return self._typed(arguments)._result(input, arguments).output

    if TYPE_CHECKING:

        @overload
        async def acall(self, input: Input = ..., /, *, returns: Type[R], **arguments: Any) -> R: ...
        @overload
        async def acall(self, input: Input = ..., /, **arguments: Any) -> T: ...

    async def acall(self, input: Any = _NOT_GIVEN, /, **arguments: Any) -> Any:
        """Like a call, to be awaited. Cancelling the task cancels the run."""
        return (await self._typed(arguments)._aresult(input, arguments)).output

    def result(self, input: Input = _NOT_GIVEN, /, **arguments: Any) -> Result[T]:
        """Calls the worker and returns its output with the run, its tokens and their cost."""
        return cast("Result[T]", self._typed(arguments)._result(input, arguments))

    async def aresult(self, input: Input = _NOT_GIVEN, /, **arguments: Any) -> Result[T]:
        """Like `result`, to be awaited."""
        return cast("Result[T]", await self._typed(arguments)._aresult(input, arguments))

    def stream(self, input: Input = _NOT_GIVEN, /, **arguments: Any) -> Stream[T]:
        """Starts the worker. The stream gives its events, then its result."""
        return cast("Stream[T]", self._typed(arguments)._stream(input, arguments))

    def map(
        self,
        rows: Iterable[Input],
        *,
        concurrency: int = 16,
        return_exceptions: bool = False,
    ) -> Iterator[T]:
        """Calls the worker for each row. The outputs come in the order of the rows.

        A failed row raises its error and cancels the others; with `return_exceptions` the error takes the output's place.
        """
        waiting: Deque[Request] = deque()
        try:
            for row in rows:
                waiting.append(self._start(row, {}))
                if len(waiting) >= max(1, concurrency):
                    yield self._mapped(waiting.popleft().wait, return_exceptions)
            while waiting:
                yield self._mapped(waiting.popleft().wait, return_exceptions)
        finally:
            for request in waiting:
                request.cancel()

    async def amap(
        self,
        rows: Union[Iterable[Input], AsyncIterable[Input]],
        *,
        concurrency: int = 16,
        return_exceptions: bool = False,
    ) -> AsyncIterator[T]:
        """Like `map`, for `async for`."""
        waiting: Deque[Request] = deque()

        async def first() -> T:
            request = waiting.popleft()
            try:
                view = await settled(request)
            except LlmDoError as error:
                if not return_exceptions:
                    raise
                return cast(T, error)
            return self._mapped(lambda: view, return_exceptions)

        try:
            async for row in _each(rows):
                waiting.append(self._start(row, {}))
                if len(waiting) >= max(1, concurrency):
                    yield await first()
            while waiting:
                yield await first()
        finally:
            for request in waiting:
                request.cancel()

    def chat(self, input: Input = _NOT_GIVEN, /, **arguments: Any) -> Chat[T]:
        """A conversation with the worker. With an input it begins at once, and else with the first message."""
        begins = input is not _NOT_GIVEN or bool(arguments)
        return Chat(self, input, arguments, begins=begins)

    def as_tool(self, *, asynchronous: bool = False) -> Callable[..., Any]:
        """A plain function with name, docstring and type hints, which agent frameworks take as a tool.

        Its attribute `json_schema` is the schema of its arguments, for frameworks that take one.
        """
        call = self.acall if asynchronous else self.__call__
        return function_of(self.name, self.description, self.input_schema, call, asynchronous)

    # -- inside

    def _typed(self, arguments: Dict[str, Any]) -> Worker[Any]:
        """Takes the option `returns` from the arguments, unless the worker has a parameter with this name."""
        properties = self.input_schema.get("properties") or {}
        if "returns" not in arguments or "returns" in properties:
            return self
        return self.using(returns=arguments.pop("returns"))

    def _result(self, input: Any, arguments: Dict[str, Any]) -> Result[Any]:
        return self._decoded(self._start(input, arguments).wait())

    async def _aresult(self, input: Any, arguments: Dict[str, Any]) -> Result[Any]:
        return self._decoded(await settled(self._start(input, arguments, asyncio.get_running_loop())))

    def _stream(self, input: Any, arguments: Dict[str, Any]) -> Stream[Any]:
        def start(stream: Events[Result[Any]]) -> Request:
            return self._start(input, arguments, events=stream.hear)

        return Stream(start, self._decoded, self._returns)

    def _mapped(self, wait: Callable[[], Any], return_exceptions: bool) -> T:
        try:
            return cast(T, self._decoded(wait()).output)
        except LlmDoError as error:
            if not return_exceptions:
                raise
            return cast(T, error)

    def _params(self, input: Any, arguments: Dict[str, Any]) -> Dict[str, Any]:
        params: Dict[str, Any] = {"worker": self.name}
        if input is _NOT_GIVEN:
            params["input"] = arguments
        elif arguments:
            raise TypeError(f"{self.name}: give either one input or keyword arguments, not both")
        elif isinstance(input, str):
            params["message"] = input
        elif isinstance(input, Mapping):
            params["input"] = dict(input)
        else:
            raise TypeError(f"{self.name}: the input is a text or a dict, not {type(input).__name__}")
        for name in ("approval", "ask", "deny", "budget", "attachments"):
            if self._options.get(name):
                params[name] = self._options[name]
        return params

    def _start(
        self,
        input: Any,
        arguments: Dict[str, Any],
        loop: Optional[asyncio.AbstractEventLoop] = None,
        events: Optional[Callable[[Dict[str, Any]], None]] = None,
        chat: Optional[Heard] = None,
    ) -> Request:
        """Starts a run. `events` gets its events; `chat` gets what is about the conversation that it is then."""
        params = self._params(input, arguments)
        operator: Optional[Operator] = self._options.get("operator") or self._program.operator
        if chat is not None:
            params["chat"] = True
            operator = operator or refusal
        if operator is not None:
            params["questions"] = True
        if events is not None:
            params["events"] = True
        started: List[Request] = []

        def hear(method: str, heard: Dict[str, Any]) -> None:
            if chat is not None and chat(method, heard):
                return
            if method == "event" and events is not None:
                events(heard)
            elif method == "question" and operator is not None:
                asked = Question(heard)
                # Not in the thread that reads: the answer may take long, and may call workers.
                work = threading.Thread(
                    target=_answer,
                    args=(self._program, operator, asked, loop, started),
                    name="llm-do operator",
                    daemon=True,
                )
                work.start()

        listens: Optional[Hear] = hear if operator is not None or events is not None else None
        try:
            request = self._program.connection.request("call", params, listens)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"{self.name}: the input is no JSON: {error}", kind="invalid_input") from error
        started.append(request)
        return request

    def _decoded(self, view: Any) -> Result[Any]:
        if view.get("state") != "done":
            raise of_run(view)
        output, usage = view.get("output"), Usage.of(view.get("usage"))
        if self._returns is not None:
            try:
                output = types.decode(self._returns, output)
            except Exception as error:  # Validators of a model may raise anything.
                raise InvalidOutput(
                    f"{self.name}: the output does not fit {types.shown(self._returns)}: {error}",
                    run=view.get("run"),
                    kind="invalid_output",
                    partial=output,
                    usage=usage,
                ) from error
        return Result(output, str(view.get("run")), usage, view.get("took_ms"))


def _answer(
    program: Program,
    operator: Operator,
    question: Question,
    loop: Optional[asyncio.AbstractEventLoop],
    started: List[Request],
) -> None:
    """Asks the operator, in a thread of its own. An error of the operator ends the call with this error."""
    try:
        given: Any = operator(question)
        if inspect.isawaitable(given):
            given = _awaited(given, loop)
        answer = refusal(question) if given is None else given
        if not isinstance(answer, Answer):
            raise TypeError(f"an operator returns an answer of the question, not {type(answer).__name__}")
        named = {name: question.raw[name] for name in ("run", "call", "step", "digest")}
        program.connection.request("answer", {**named, **answer.fields}).wait()
    except Disconnected:
        pass  # The call itself reports it.
    except LlmDoError as error:
        # The question is over: the run has ended, or somebody else has answered.
        if error.kind not in ("already_decided", "not_found", "conflict"):
            _fail(started, error)
    except BaseException as error:
        _fail(started, error)


def _fail(started: List[Request], error: BaseException) -> None:
    for request in started:
        request.cancel()
        request.settle(None, error)


def _awaited(awaitable: Any, loop: Optional[asyncio.AbstractEventLoop]) -> Any:
    async def wait() -> Any:
        return await awaitable

    if loop is not None and loop.is_running():
        return asyncio.run_coroutine_threadsafe(wait(), loop).result()
    return asyncio.run(wait())


async def _each(rows: Union[Iterable[Input], AsyncIterable[Input]]) -> AsyncIterator[Input]:
    if isinstance(rows, AsyncIterable):
        async for row in rows:
            yield row
    else:
        for row in rows:
            yield row
