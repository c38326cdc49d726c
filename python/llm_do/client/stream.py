"""A call whose events are followed."""

from __future__ import annotations

import asyncio
import copy
import threading
from collections import deque
from typing import (
    Any,
    AsyncIterator,
    Callable,
    Deque,
    Dict,
    Generic,
    Iterator,
    List,
    Optional,
    Tuple,
    TypeVar,
)

from .connection import Waited
from .errors import LlmDoError
from .partial import Partial, reader
from .result import Event, Result

T = TypeVar("T")
E = TypeVar("E")
S = TypeVar("S", bound="Events[Any]")
#: Deltas that wait for a slow reader. Further ones are lost; records never are.
MOST_DELTAS = 10_000
_DELTAS = ("text", "reasoning", "call", "partial")
_Waiter = Tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]


class Events(Generic[E]):
    """The events of a run or of an answer, for `for` and `async for`, and its result.

    A failure is raised after the last event. `close` ends what is not over; `with` does this too.
    """

    def __init__(self, start: Callable[[Events[E]], Waited], decode: Callable[[Any], E]) -> None:
        self._events: Deque[Event] = deque()
        self._deltas = 0
        self._partial = Partial()
        self._changed = threading.Condition()
        self._waiters: List[_Waiter] = []
        self._over = False
        self._decode = decode
        self._request = start(self)
        self._request.future.add_done_callback(lambda _: self._end())

    # -- the thread that reads

    def hear(self, params: Dict[str, Any]) -> None:
        """Takes an event."""
        event = Event.of(params)
        with self._changed:
            # The value so far loses nothing.
            if event.path == "0":
                if event.kind == "partial":
                    # The event keeps what it says.
                    self._partial.grow(event.turn, copy.deepcopy(event.growth))
                elif event.kind in ("discard", "discard_partial"):
                    self._partial.discard()
            if event.kind in _DELTAS:
                if self._deltas >= MOST_DELTAS:
                    return
                self._deltas += 1
            self._events.append(event)
            self._wake()

    def _end(self) -> None:
        with self._changed:
            self._over = True
            self._wake()

    def _wake(self) -> None:
        self._changed.notify_all()
        waiters, self._waiters = self._waiters, []
        for loop, future in waiters:
            try:
                loop.call_soon_threadsafe(_set, future)
            except RuntimeError:
                pass  # That loop is closed.

    def _next(self) -> Optional[Event]:
        if not self._events:
            return None
        event = self._events.popleft()
        if event.kind in _DELTAS:
            self._deltas -= 1
        return event

    def _so_far(self) -> Partial:
        """The value so far, as it is now."""
        with self._changed:
            return copy.deepcopy(self._partial)

    # -- readers

    def __iter__(self) -> Iterator[Event]:
        try:
            while True:
                with self._changed:
                    while not self._events and not self._over:
                        self._changed.wait()
                    event = self._next()
                if event is None:
                    break
                yield event
        except BaseException:
            self.close()
            raise
        self.result()

    async def __aiter__(self) -> AsyncIterator[Event]:
        try:
            while True:
                loop = asyncio.get_running_loop()
                future: Optional[asyncio.Future[None]] = None
                with self._changed:
                    event = self._next()
                    if event is None:
                        if self._over:
                            break
                        future = loop.create_future()
                        self._waiters.append((loop, future))
                if event is not None:
                    yield event
                elif future is not None:
                    await future
        except BaseException:
            self.close()
            raise
        await self.aresult()

    def text(self) -> Iterator[str]:
        """The pieces of the worker's own answer. Pieces of a request that failed and is repeated are among them."""
        answer = _Answer()
        for event in self:
            piece = answer.piece(event)
            if piece:
                yield piece

    async def atext(self) -> AsyncIterator[str]:
        """Like `text`, for `async for`."""
        answer = _Answer()
        async for event in self:
            piece = answer.piece(event)
            if piece:
                yield piece

    def result(self) -> E:
        """Waits for the end, and returns the result."""
        return self._decode(self._request.wait())

    async def aresult(self) -> E:
        """Like `result`, to be awaited."""
        return self._decode(await settled(self._request))

    def close(self) -> None:
        """Ends it if it is not over."""
        if not self._over:
            self._request.cancel()

    def __enter__(self: S) -> S:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self: S) -> S:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class Stream(Events[Result[T]], Generic[T]):
    """The events of a run, and its result. `close` cancels the run."""

    def __init__(
        self,
        start: Callable[[Events[Result[T]]], Waited],
        decode: Callable[[Any], Result[T]],
        returns: Any = None,
    ) -> None:
        self._returns = returns
        super().__init__(start, decode)

    def partials(self) -> Iterator[Any]:
        """The typed output so far, each time it has grown. A slow reader gets the newest.

        With a Pydantic model as `returns`, it is a partial form of the model: fields that have not arrived are `None`. Else
        it is the JSON value. Strings grow at their end, lists and objects by further items. `None` is given when the value
        so far does not count: the answer was invalid, or its request failed.
        """
        states = _States(reader(self._returns))
        for event in self:
            for value in states.of(self, event):
                yield value

    async def apartials(self) -> AsyncIterator[Any]:
        """Like `partials`, for `async for`."""
        states = _States(reader(self._returns))
        async for event in self:
            for value in states.of(self, event):
                yield value


class _States:
    """The states of a value that grows, each once."""

    def __init__(self, read: Callable[[Any], Any]) -> None:
        self._read = read
        self._last = Partial()
        self._shown = False

    def of(self, stream: Stream[Any], event: Event) -> List[Any]:
        """What the event makes of the value: nothing, or its new state."""
        if event.path != "0" or event.kind not in ("partial", "discard", "discard_partial"):
            return []
        if stream._partial.version == self._last.version:
            return []
        last, now = self._last, stream._so_far()
        self._last = now
        states: List[Any] = []
        if self._shown and now.discarded != last.discarded:
            self._shown = False
            states.append(None)
        if now.begun:
            try:
                states.append(self._read(now.value))
                self._shown = True
            except ValueError:
                pass  # The type asks for more than the schema of the worker. The output itself will tell.
        return states


class _Answer:
    """What has been heard of an answer that is being made.

    Deltas can be missing: they begin with the subscription, and a slow reader loses some. The record of the answer is never
    lost, and has the rest.
    """

    def __init__(self) -> None:
        self._heard = ""

    def piece(self, event: Event) -> str:
        """What the event adds to the text."""
        if event.path != "0":
            return ""
        if event.kind == "text":
            self._heard += event.text
            return event.text
        if event.kind == "discard":
            self._heard = ""
        record = event.record or {}
        if record.get("kind") != "model_answered" or not str(record.get("step")).startswith("model."):
            return ""
        heard, self._heard = self._heard, ""
        whole = _text_of(record.get("message") or {})
        return whole[len(heard) :] if whole.startswith(heard) else ""


def _text_of(message: Dict[str, Any]) -> str:
    """The text of a recorded message. A long one lies beside the journal."""
    texts = [part.get("text") for part in message.get("parts") or [] if part.get("part") == "text"]
    return "".join(text for text in texts if isinstance(text, str))


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def settled(request: Waited) -> Any:
    """The result of a request. A task that is cancelled cancels the request."""
    try:
        # Only the wait is cancelled with the task: others may wait for the same.
        return await asyncio.shield(asyncio.wrap_future(request.future))
    except BaseException as error:
        if not isinstance(error, LlmDoError):
            request.cancel()
        raise
