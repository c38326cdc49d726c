"""A call whose events are followed."""

from __future__ import annotations

import asyncio
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
from .result import Event, Result

T = TypeVar("T")
E = TypeVar("E")
S = TypeVar("S", bound="Events[Any]")
#: Deltas that wait for a slow reader. Further ones are lost; records never are.
MOST_DELTAS = 10_000
_Waiter = Tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]


class Events(Generic[E]):
    """The events of a run or of an answer, for `for` and `async for`, and its result.

    A failure is raised after the last event. `close` ends what is not over; `with` does this too.
    """

    def __init__(self, start: Callable[[Events[E]], Waited], decode: Callable[[Any], E]) -> None:
        self._events: Deque[Event] = deque()
        self._deltas = 0
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
            if event.kind in ("text", "reasoning", "call"):
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
        if event.kind in ("text", "reasoning", "call"):
            self._deltas -= 1
        return event

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
