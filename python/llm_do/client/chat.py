"""Conversations with workers: `chat = p.talker.chat()`, `chat.send("Hello")`."""

from __future__ import annotations

import asyncio
import base64
import os
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Dict, Generic, Mapping, Optional, Sequence, TypeVar, Union

from .connection import Request, Waited
from .errors import Disconnected, Failed, InvalidInput, LlmDoError, of_run
from .result import Result
from .stream import Events, settled

if TYPE_CHECKING:
    from .worker import Worker

    AnyPath = Union[str, "os.PathLike[str]"]

T = TypeVar("T")
#: Records that say why something was not done that an answer asked for.
_NOT_DONE = ("not_attached", "model_not_chosen")


@dataclass(frozen=True)
class Reply:
    """What the worker has said last."""

    text: str
    #: The number of the message that comes next. `undo` takes it.
    number: int
    #: Whether the answer was cut off: by `stop`, or at the model's limit.
    cut_off: bool = False
    #: Tokens of the next request, if they are known.
    context_tokens: Optional[int] = None

    @staticmethod
    def of(question: Mapping[str, Any]) -> Reply:
        """From the question for the next message."""
        turn = question.get("conversation") or {}
        context = turn.get("context") or {}
        return Reply(
            str(question.get("prompt") or ""),
            int(turn.get("number") or 0),
            bool(turn.get("cut_off")),
            context.get("tokens"),
        )


class _Turn(Waited):
    """The wait for the next turn of a conversation."""

    def __init__(self, chat: Chat[Any]) -> None:
        super().__init__()
        self.chat = chat

    def cancel(self) -> None:
        """Stops the answer under way."""
        self.chat.stop()


class Chat(Generic[T]):
    """A conversation with a worker. The first message starts its run.

    A message that is sent while an answer is under way waits for its end. What fails raises `Failed`, and the next
    message continues the conversation.
    Approvals go to the operator, as those of calls. The `with` block ends the conversation.
    """

    #: The ID of its run, once it has begun: `llm-do runs show RUN` shows it.
    run: Optional[str]

    def __init__(self, worker: Worker[T], input: Any, arguments: Dict[str, Any], *, begins: bool) -> None:
        self.run = None
        self._worker = worker
        self._connection = worker._program.connection
        self._lock = threading.Lock()
        self._request: Optional[Request] = None
        #: The question for the next message, while it waits.
        self._turn: Optional[Mapping[str, Any]] = None
        self._next: Optional[_Turn] = None
        self._events: Optional[Events[Reply]] = None
        #: Why what the last answer asked for was not done.
        self._not_done: Optional[str] = None
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        if begins:
            self._begin(input, arguments, ())

    def __repr__(self) -> str:
        return f"<chat {self.run or 'that has not begun'} with {self._worker.name}>"

    # -- messages

    def send(self, text: str, *, attachments: Sequence[AnyPath] = ()) -> Reply:
        """Says something, and waits for the answer. Ctrl-C stops it."""
        for file in self._attached(attachments):
            self._replied(self._act(file).wait())
        return self._replied(self._say(text, attachments).wait())

    async def asend(self, text: str, *, attachments: Sequence[AnyPath] = ()) -> Reply:
        """Like `send`, to be awaited. Cancelling the task stops the answer."""
        self._loop = asyncio.get_running_loop()
        for file in self._attached(attachments):
            self._replied(await settled(self._act(file)))
        return self._replied(await settled(self._say(text, attachments)))

    def stream(self, text: str, *, attachments: Sequence[AnyPath] = ()) -> Events[Reply]:
        """Says something. The stream gives the events of the answer, and `result()` the reply.

        Leaving it early stops the answer.
        """
        for file in self._attached(attachments):
            self._replied(self._act(file).wait())

        def start(events: Events[Reply]) -> Waited:
            self._events = events
            return self._say(text, attachments)

        return Events(start, self._replied)

    def reply(self) -> Reply:
        """What the worker has said last. Waits until it has."""
        waited = self._next
        if waited is None:
            raise LlmDoError("the chat has not begun: send a message")
        return self._replied(waited.wait())

    def say_now(self, text: str) -> None:
        """Has the answer under way take these words with its next request. Without one they are the next message."""
        self._connection.request("message", {"run": self._begun(), "text": text, "now": True}).wait()

    def stop(self) -> None:
        """Stops the answer under way, as Ctrl-C does in a terminal."""
        if self.run is None:
            if self._request is not None:
                self._request.cancel()
            return
        # There may be no answer any more.
        self._connection.request("stop", {"run": self.run})

    # -- what a conversation can do beside

    def undo(self, message: Optional[int] = None) -> Reply:
        """Takes the message with this number back, and all that came after it. Without a number: the last one."""
        number = self.reply().number - 1 if message is None else message
        return self.act(answer="undo", message=number)

    def compact(self, keep: Optional[str] = None) -> Reply:
        """Has the model summarise older turns. `keep` says what the summary must have."""
        return self.act(answer="compact") if keep is None else self.act(answer="compact", keep=keep)

    def choose_model(self, model: str) -> Reply:
        """Has another model answer from now on."""
        return self.act(answer="model", model=model)

    def attach(self, path: AnyPath) -> Reply:
        """Adds a file to the next message."""
        return self.act(**_file(path))

    def act(self, **answer: Any) -> Reply:
        """Gives one of the answers of `docs/reference/operator-protocol.md`: `act(answer="keep", message=3)`."""
        return self._replied(self._act(answer).wait())

    async def aact(self, **answer: Any) -> Reply:
        """Like `act`, to be awaited."""
        self._loop = asyncio.get_running_loop()
        return self._replied(await settled(self._act(answer)))

    # -- the end

    def end(self) -> Result[T]:
        """Ends the conversation. Its output is what the worker has said last."""
        request = self._ended()
        return self._worker._decoded(request.wait())

    async def aend(self) -> Result[T]:
        """Like `end`, to be awaited."""
        request = await asyncio.get_running_loop().run_in_executor(None, self._ended)
        return self._worker._decoded(await settled(request))

    def close(self) -> None:
        """Ends the conversation if it waits for a message, and cancels it if it is at work."""
        if self._request is None or self._request.future.done():
            return
        if self._turn is None:
            self._request.cancel()
            return
        try:
            self.end()
        except LlmDoError:
            pass  # It was over in this moment.

    def __enter__(self) -> Chat[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Chat[T]:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.close)

    # -- inside

    def _begun(self) -> str:
        if self.run is None:
            raise LlmDoError("the chat has not begun: send a message")
        return self.run

    def _attached(self, paths: Sequence[AnyPath]) -> Sequence[Dict[str, Any]]:
        """The answers that attach files. Those of the first message go with the start."""
        return () if self._request is None else [_file(path) for path in paths]

    def _say(self, text: str, attachments: Sequence[AnyPath]) -> Waited:
        if self._request is None:
            return self._begin(text, {}, attachments)
        return self._act({"answer": "give", "value": text})

    def _begin(self, input: Any, arguments: Dict[str, Any], attachments: Sequence[AnyPath]) -> Waited:
        worker = self._worker.using(attachments=attachments) if attachments else self._worker
        turn = self._next = _Turn(self)
        request = worker._start(input, arguments, self._loop, self._hear, chat=self._heard)
        self._request = request
        request.future.add_done_callback(self._over)
        return turn

    def _act(self, answer: Mapping[str, Any]) -> Waited:
        """Answers the turn. What it returns waits for the next one."""
        waited = self._next
        if waited is None:
            raise LlmDoError("the chat has not begun: send a message")
        question: Mapping[str, Any] = waited.wait()
        with self._lock:
            if self._turn is not question:
                raise Failed(
                    "another thread has answered this turn of the chat", run=self.run, kind="conflict"
                )
            self._turn = None
            turn = self._next = _Turn(self)
        named = {name: question[name] for name in ("run", "call", "step", "digest")}
        try:
            self._connection.request("answer", {**named, **answer}).wait()
        except Disconnected:
            raise
        except LlmDoError:
            # It was no answer to this turn, which still waits.
            with self._lock:
                self._turn, self._next = question, waited
            raise
        return turn

    def _ended(self) -> Request:
        if self._request is None:
            raise LlmDoError("the chat has not begun: send a message")
        if not self._request.future.done():
            self._act({"answer": "end"})
        return self._request

    def _replied(self, question: Mapping[str, Any]) -> Reply:
        failure = (question.get("conversation") or {}).get("failure")
        if failure:
            raise Failed(str(failure.get("message")), run=self.run, kind=failure.get("kind"))
        if question.get("not_done") is not None:
            raise Failed(str(question["not_done"]), run=self.run, kind="not_done")
        return Reply.of(question)

    # -- the thread that reads

    def _hear(self, params: Dict[str, Any]) -> None:
        record = params.get("record") or {}
        if record.get("path") == "0" and record.get("kind") in _NOT_DONE:
            self._not_done = str(record.get("reason"))
        events = self._events
        if events is not None:
            events.hear(params)

    def _heard(self, method: str, params: Dict[str, Any]) -> bool:
        """Takes what is about the conversation itself. `False`: it is something else."""
        if method == "started":
            self.run = str(params.get("run"))
        elif method == "question" and params.get("call") == "0" and params.get("conversation") is not None:
            # Events come before the question that they lead to.
            reason, self._not_done, self._events = self._not_done, None, None
            question = params if reason is None else {**params, "not_done": reason}
            with self._lock:
                turn, self._turn = self._next, question
            if turn is not None:
                turn.settle(question, None)
        else:
            return False
        return True

    def _over(self, future: Future[Any]) -> None:
        error = future.exception()
        if error is None:
            view = future.result()
            error = of_run(view) if view.get("state") != "done" else Failed("the chat is over", run=self.run)
        with self._lock:
            turn = self._next
            if turn is None or self._turn is not None:
                turn = self._next = _Turn(self)
            self._turn = None
        turn.settle(None, error)


def _file(path: AnyPath) -> Dict[str, Any]:
    """The answer that attaches a file. What type it has shows in its content."""
    named = os.path.abspath(os.fspath(path))
    try:
        with open(named, "rb") as file:
            data = base64.b64encode(file.read()).decode("ascii")
    except OSError as error:
        raise InvalidInput(f"cannot attach {named}: {error.strerror}", kind="invalid_input") from error
    name = os.path.basename(named)
    # Where it lies decides whether its words are trusted.
    places = sorted({named, os.path.realpath(named)})
    content = {"name": name, "media_type": "application/octet-stream", "data": data, "places": places}
    return {"answer": "attach", "file": name, "content": content}


Heard = Callable[[str, Dict[str, Any]], bool]
