"""The process in which llm-do runs Python tools.

llm-do starts this file as `python -I -X utf8 host.pyc 3` and speaks to it over the stream socket whose number
is the argument: frames of a four byte length and a JSON object. The file needs nothing but the standard
library, and runs on Python 3.9 to 3.13.

It reads from top to bottom: framing, interrupts, streams, what users import (`llm_do`), modules, docstrings,
schemas with the coercion of arguments, results, errors, the context of a call, the loop.

Three rules explain most of what looks odd here:

- Start is fast. At the top only what framing needs is imported. `typing`, `inspect`, `asyncio` and the like
  are imported by the functions that use them.
- User code runs in this process, and may replace anything that it finds in a module. What a call needs is
  bound to names of this file before any user code runs.
- An interrupt (SIGINT) raises in user code and nowhere else, so that no frame is ever half written.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` makes enums of numbers at each call.
import os
import sys
from _collections import deque  # type: ignore[import-not-found]  # `collections` imports much more.
from _thread import RLock, allocate_lock, get_ident
from contextvars import ContextVar
from io import TextIOBase, UnsupportedOperation
from itertools import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterable, List, NoReturn, Optional, Sequence, Set, Tuple

    Json = Any
    Frame = Dict[str, Any]

_exit = os._exit
_getpid = os.getpid
_read = os.read
_write = os.write
_set_signal = _signal.signal
_signal_mask = _signal.pthread_sigmask

HOST_FILE = (lambda: 0).__code__.co_filename
HOST_PID = _getpid()

#: No frame to the host is larger; one that claims to be is a broken stream.
MAX_FRAME = 64 << 20
#: A result that is larger is refused: no model reads it, and the journal would hold it.
MAX_RESULT = 16 << 20
#: A signal in the moment before a sleep begins does not end it: whoever waits looks up as often as this.
NAP_MS = 1000
#: What one call may print, in characters.
MAX_LOG = 256 << 10
MAX_MESSAGE = 4_000
#: Readers of JSON stop at 128 levels; the frame itself and the call around the value need some of them.
MAX_DEPTH = 100
MAX_FRAMES = 20


# ---- Framing -----------------------------------------------------------------------------------------------


def _no_default(value: object) -> NoReturn:
    raise TypeError(f"{type(value).__name__} is not JSON")


class _Scanning:
    """What the scanner of `_json` asks for: everything as usual."""

    strict = False
    object_hook = object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


def _make_json() -> Tuple[Callable[[object], str], Callable[[str, int], Tuple[Json, int]]]:
    """Compact JSON without NaN, and its reader.

    The C functions behind the `json` module are taken without it: its import is most of what start would
    cost, and a tool that patches it can't reach these.
    """
    try:
        from _json import encode_basestring, make_encoder, make_scanner
    except ImportError:  # A Python that has them in Python only.
        import json

        encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return encoder.encode, json.JSONDecoder(strict=False).raw_decode
    chunks = make_encoder(None, _no_default, encode_basestring, None, ":", ",", False, False, False)
    join = "".join
    return (lambda value: join(chunks(value, 0))), make_scanner(_Scanning)  # type: ignore[arg-type]


encode, _scan = _make_json()


def decode(text: str) -> Json:
    """JSON without white space around it."""
    return _scan(text, 0)[0]


def to_bytes(text: str) -> bytes:
    """UTF-8. A lone surrogate, which JSON can't carry, becomes U+FFFD; a pair becomes its character."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


class Channel:
    """The socket to llm-do. Any thread may send; who holds `reading` may receive."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.reading = allocate_lock()
        self._writing = allocate_lock()
        self._out: deque[bytes] = deque()
        self._in = bytearray()
        self._poll: Any = None

    def send(self, message: Frame) -> None:
        """Sends one frame. To be called with interrupts held."""
        self.send_bytes(to_bytes(encode(message)))

    def send_bytes(self, body: bytes) -> None:
        """Sends an encoded frame.

        Nobody waits for the lock: the frame is queued, and who holds the lock writes what is queued. So a
        finaliser that prints while its own thread is writing can't stop it for ever.
        """
        if _getpid() != HOST_PID:  # A fork made by C code, which runs no handlers of ours.
            return
        out = self._out
        out.append(len(body).to_bytes(4, "big") + body)
        while out:
            if not self._writing.acquire(False):
                return  # The holder looks into the queue again after letting go.
            try:
                while out:
                    self._write_all(out.popleft())
            finally:
                self._writing.release()

    def _write_all(self, data: bytes) -> None:
        try:
            done = _write(self.fd, data)
            if done < len(data):
                rest = memoryview(data)[done:]
                while rest:
                    rest = rest[_write(self.fd, rest) :]
        except OSError:
            _exit(0)  # llm-do is gone, or a tool has closed the descriptor. Either way nobody listens.

    def receive(self) -> List[Frame]:
        """The frames that one read brings. Ends the process where llm-do has closed the socket."""
        try:
            data = _read(self.fd, 65536)
        except OSError:
            _exit(0)
        if not data or _getpid() != HOST_PID:
            _exit(0)
        pending = self._in
        if not pending and len(data) >= 4 and int.from_bytes(data[:4], "big") == len(data) - 4:
            return [decode(data[4:].decode("utf-8", "replace"))]
        pending += data
        frames = []
        while len(pending) >= 4:
            end = 4 + int.from_bytes(pending[:4], "big")
            if end > MAX_FRAME + 4:
                _write(2, b"The Python host got a frame that is too large, and stops.\n")
                _exit(1)
            if len(pending) < end:
                break
            frames.append(decode(pending[4:end].decode("utf-8", "replace")))
            del pending[:end]
        return frames

    def readable(self, timeout: Optional[int] = None) -> bool:
        """Waits until there is something to read, for at most `timeout` milliseconds."""
        if self._poll is None:
            import select

            self._poll = select.poll()
            self._poll.register(self.fd, select.POLLIN)
        return bool(self._poll.poll(timeout))


# ---- Interrupts --------------------------------------------------------------------------------------------


class CallInterrupted(BaseException):
    """Raised in a running tool when its call is cancelled or has run out of time."""


class Interrupts:
    """When SIGINT may raise: while user code runs for a sync call in the main thread, and the gate is open.

    The gate closes around everything that must not stop half way (`hold`, `release`). A signal that comes
    then is noted and raises when the gate opens again. Each call is interrupted at most once.
    """

    def __init__(self) -> None:
        self.call: Optional[Call] = None
        self.open = False
        self.pending = False
        self.main = get_ident()
        #: Says whether the signal was meant for a call that has ended; set by the host.
        self.is_stale: Callable[[], bool] = lambda: False

    def on_signal(self, _number: int, _frame: object) -> None:
        if self.call is None:
            return
        if not self.open:
            self.pending = True
            return
        self.open = False
        if self.is_stale():
            self.open = True
            return
        raise CallInterrupted("the call was interrupted")

    def hold(self) -> bool:
        """Closes the gate, and says whether it was open. Other threads have no gate."""
        if not self.open or get_ident() != self.main:
            return False
        self.open = False
        return True

    def release(self, was_open: bool) -> None:
        """Opens the gate again, and raises what came meanwhile."""
        if was_open:
            self.open = True
            if self.pending:  # Looked at after opening, so that no signal falls between.
                self.open = self.pending = False
                if not self.is_stale():
                    raise CallInterrupted("the call was interrupted")
                self.open = True

    def run(
        self, call: Call, function: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any]
    ) -> Outcome:
        """Runs user code with the gate open. Nothing that it raises comes out of here."""
        outer = self.call
        self.call = call
        self.pending = False
        _set_signal(_signal.SIGINT, self.on_signal)  # User code may have changed both.
        _signal_mask(_signal.SIG_UNBLOCK, (_signal.SIGINT,))
        try:
            try:
                self.release(True)
                outcome: Outcome = (True, function(*args, **kwargs))
            except BaseException as error:
                outcome = (False, error)
            self.open = False
        except CallInterrupted as error:  # Between the end of the function and the closing of the gate.
            outcome = (False, error)
        self.open = False
        self.call = outer
        if _getpid() != HOST_PID:
            _exit(0)  # A forked child that came back from the tool. Its parent answers.
        return outcome


if TYPE_CHECKING:
    Outcome = Tuple[bool, Any]

interrupts = Interrupts()


# ---- Streams -----------------------------------------------------------------------------------------------


class Call:
    """One call from llm-do: whose output is whose, and who may still call back."""

    __slots__ = (
        "id",
        "module",
        "ctx",
        "sandbox",
        "ended",
        "cancelled",
        "waiters",
        "logged",
        "lines",
        "captured",
        "task",
    )

    def __init__(
        self, id: Optional[int], module: Optional[Module] = None, ctx: Optional[Frame] = None
    ) -> None:
        self.id = id
        self.module = module
        self.ctx: Frame = ctx or {}
        self.sandbox = Sandbox(self.ctx.get("mounts") or ())
        self.ended = False
        self.cancelled = False
        self.waiters: Dict[int, Waiter] = {}
        self.logged = 0
        #: Output without its line's end yet, by stream and thread.
        self.lines: Dict[Tuple[str, int], str] = {}
        #: Where output goes instead of into frames, while modules are loaded.
        self.captured: Optional[List[str]] = None
        self.task: Any = None


#: The call that the running code belongs to: in the main thread, in tasks, in threads that got the context.
current: ContextVar[Optional[Call]] = ContextVar("llm_do_call", default=None)


class Logs:
    """What tools print, as frames that name the call."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.lock = RLock()  # Not a plain lock: a finaliser may print while its thread prints.
        self.nobody = Call(None)

    def owner(self) -> Call:
        """The call that runs here. A thread without context belongs to the sync call, if there is one."""
        return current.get() or interrupts.call or self.nobody

    def write(self, stream: str, text: str) -> None:
        held = interrupts.hold()
        try:
            call = self.owner()
            # A line of one thread is not mixed with those of others: `print` writes it in pieces.
            key = (stream, get_ident())
            with self.lock:
                begun = call.lines.pop(key, "")
                whole, newline, rest = (begun + text).rpartition("\n")
                if newline or len(rest) > 8192:
                    if not newline:
                        whole, rest = rest, ""
                    self.send(call, stream, "info", whole)
                if rest:
                    call.lines[key] = rest
        finally:
            interrupts.release(held)

    def send(self, call: Call, stream: str, level: str, text: str) -> None:
        """One log frame, or none where the call has printed enough. To be called with interrupts held."""
        left = MAX_LOG - call.logged
        if left < 0:
            return
        call.logged += len(text) + 1
        if len(text) > left:
            self._emit(call, stream, level, text[:left])
            text = f"[output of this call beyond {MAX_LOG >> 10} KiB is left out]"
            call.logged = MAX_LOG + 1
        self._emit(call, stream, level, text)

    def _emit(self, call: Call, stream: str, level: str, text: str) -> None:
        if call.captured is not None:
            call.captured.append(text + "\n")
        else:
            self.channel.send(
                {"t": "log", "id": call.id, "stream": stream, "level": str(level), "text": text}
            )

    def flush(self, call: Call) -> None:
        """Sends lines without an end, when their call ends."""
        if call.lines:
            with self.lock:
                lines, call.lines = call.lines, {}
                for (stream, _), rest in lines.items():
                    self.send(call, stream, "info", rest)


class Output(TextIOBase):
    """`sys.stdout` and `sys.stderr` of tools. Closing it does nothing."""

    encoding = "utf-8"
    errors = "backslashreplace"

    def __init__(self, logs: Logs, stream: str, fd: int) -> None:
        self._logs: Optional[Logs] = logs
        self._stream = stream
        self._fd = fd
        self.buffer = OutputBytes(self)
        self.name = f"<{stream}>"
        self.mode = "w"

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if self._logs is None:
            os.write(self._fd, text.encode("utf-8", "backslashreplace"))
        else:
            self._logs.write(self._stream, text)
        return len(text)

    def forked(self) -> None:
        """In a child there is no protocol: what it prints goes to the pipe that it shares with its parent."""
        self._logs = None

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        pass

    def detach(self) -> NoReturn:
        raise UnsupportedOperation("the output of a tool cannot be detached")

    def reconfigure(self, **_options: object) -> None:
        pass


class OutputBytes:
    """`sys.stdout.buffer`: bytes that are text or are shown as such."""

    def __init__(self, text: Output) -> None:
        self._text = text
        self.raw = self

    closed = False

    def write(self, data: Any) -> int:
        data = bytes(data)
        self._text.write(data.decode("utf-8", "backslashreplace"))
        return len(data)

    def writelines(self, lines: Iterable[Any]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return self._text.fileno()


class Input(TextIOBase):
    """`sys.stdin` of tools: there is nobody to type anything."""

    encoding = "utf-8"
    errors = "strict"

    def _none(self, *_args: object) -> NoReturn:
        raise EOFError(
            "a tool has no standard input: take what it needs as a parameter, or ask with ctx.call"
        )

    read = readline = readlines = __next__ = _none

    @property
    def buffer(self) -> Input:
        return self

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 0

    def close(self) -> None:
        pass


# ---- What users import -------------------------------------------------------------------------------------


class ModelRetry(Exception):
    """Tells the model what was wrong with its call, and asks it to call again."""


class ToolError(Exception):
    """A failure whose message is for the model, without a traceback."""


class CallError(Exception):
    """A worker or a tool that was called through the context was refused or has failed.

    `kind` says how, for example `denied`, `blocked`, `invalid_input`, `tool`, `limit`, `timeout`.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(kind, message)
        self.kind = kind
        self.message = message

    def __str__(self) -> str:
        return self.message


class _Unset:
    def __repr__(self) -> str:
        return "..."


UNSET = _Unset()

#: Keyword of `Field`, keyword of JSON Schema for numbers, for strings, for arrays.
CONSTRAINTS = {
    "ge": ("minimum", None, None),
    "gt": ("exclusiveMinimum", None, None),
    "le": ("maximum", None, None),
    "lt": ("exclusiveMaximum", None, None),
    "multiple_of": ("multipleOf", None, None),
    "min_length": (None, "minLength", "minItems"),
    "max_length": (None, "maxLength", "maxItems"),
    "pattern": (None, "pattern", None),
}


class Field:
    """What a type can't say of a parameter, in `Annotated[int, Field(ge=1)]` or as a default."""

    def __init__(
        self,
        default: Any = UNSET,
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
    ) -> None:
        self.default = UNSET if default is ... else default
        self.default_factory = default_factory
        self.description = description
        self.examples = examples
        self.ge = ge
        self.gt = gt
        self.le = le
        self.lt = lt
        self.multiple_of = multiple_of
        self.min_length = min_length
        self.max_length = max_length
        self.pattern = pattern


class File:
    """A file as a result. `data` is its bytes, or a path of this machine or of the sandbox."""

    def __init__(self, data: Any, *, name: Optional[str] = None, media_type: Optional[str] = None) -> None:
        if not isinstance(data, (bytes, bytearray, memoryview, str, os.PathLike)):
            raise TypeError(f"{type(self).__name__} takes bytes or a path, not {type(data).__name__}")
        self.data = data
        self.name = name
        self.media_type = media_type

    def read(self, sandbox: Sandbox) -> bytes:
        """The bytes, read now where `data` is a path."""
        if not isinstance(self.data, (str, os.PathLike)):
            return bytes(self.data)
        path = os.fspath(self.data)
        if isinstance(self.data, str) and sandbox.mounts:
            try:
                path = sandbox.locate(path)
            except ValueError:
                pass  # A path of this machine.
        with open(path, "rb") as file:
            return file.read(MAX_RESULT + 1)


class Image(File):
    """An image as a result: bytes, a path, or an image of Pillow."""

    def __init__(self, data: Any, *, name: Optional[str] = None, media_type: Optional[str] = None) -> None:
        if is_pillow(data):
            data, media_type = pillow_bytes(data)
        super().__init__(data, name=name, media_type=media_type)


RISKS = ("read", "write", "network", "exec", "destructive")
RULES = ("ask", "preApproved", "blocked")


class Options:
    """What `@tool` says of a function."""

    __slots__ = ("name", "description", "risk", "approval", "parallel", "schema")

    def __init__(self, what: str, given: Dict[str, Any]) -> None:
        for key in given:
            if key not in self.__slots__:
                raise TypeError(
                    f"{what} has no `{key}`: it takes {', '.join(self.__slots__)}{near(key, self.__slots__)}"
                )
        self.name = given.get("name")
        self.description = given.get("description")
        self.risk = given.get("risk")
        self.approval = given.get("approval")
        self.parallel = given.get("parallel")
        self.schema = given.get("schema")
        for key in ("name", "description"):
            value = getattr(self, key)
            if value is not None and (not isinstance(value, str) or not value.strip()):
                raise TypeError(f"{what}: `{key}` is a text that is not empty, and not {value!r}")
        if self.risk is not None and self.risk not in RISKS:
            raise ValueError(
                f"{what}: risk is one of {', '.join(RISKS)}, and not {self.risk!r}{near(self.risk, RISKS)}"
            )
        approval = self.approval
        if approval is not None and not callable(approval) and approval not in RULES:
            names = ", ".join(RULES)
            raise ValueError(
                f"{what}: approval is one of {names} or a function, and not {approval!r}{near(approval, RULES)}"
            )
        if callable(approval) and is_async(approval):
            raise TypeError(f"{what}: approval is a plain function, and not an async one")
        if self.parallel is not None and not isinstance(self.parallel, bool):
            raise TypeError(f"{what}: parallel is True or False, and not {self.parallel!r}")
        if self.schema is not None and not isinstance(self.schema, (dict, type)):
            raise TypeError(f"{what}: schema is a JSON Schema (a dict) or a class, and not {self.schema!r}")


NO_OPTIONS = Options("tool", {})


def options_of(function: Any) -> Options:
    """What `@tool` said of a function, if it did."""
    said = getattr(function, "__llm_do_tool__", None)
    return said if isinstance(said, Options) else NO_OPTIONS


def tool(function: Any = None, /, **options: Any) -> Any:
    """Marks a function as a tool: `@tool` or `@tool(name=…, risk=…)`."""
    checked = Options("@tool", options)

    def mark(function: Any) -> Any:
        if (
            isinstance(function, (staticmethod, classmethod))
            or isinstance(function, type)
            or not callable(function)
        ):
            raise TypeError(f"@tool marks functions, and not {show(function)}")
        function.__llm_do_tool__ = checked
        return function

    if function is None:
        return mark
    if isinstance(function, str):
        raise TypeError(f"@tool takes keywords only: @tool(name={function!r})")
    return mark(function)


class Agent:
    """What a module's `register(agent)` gets."""

    #: Options that other frameworks take here and that have another place in llm-do.
    _ELSEWHERE = (
        "retries",
        "strict",
        "docstring_format",
        "require_parameter_descriptions",
        "timeout",
        "metadata",
    )

    def __init__(self) -> None:
        self._found: List[Tuple[Any, Options, bool]] = []

    def tool(self, function: Any = None, /, **options: Any) -> Any:
        """Registers a function that may take the context first."""
        return self._register("agent.tool", function, options, True)

    def tool_plain(self, function: Any = None, /, **options: Any) -> Any:
        """Registers a function that takes no context."""
        return self._register("agent.tool_plain", function, options, False)

    def add_tool(self, function: Any, /, **options: Any) -> Any:
        """Registers a function that may be marked with `@tool` already."""
        return self._register("agent.add_tool", function, options, True)

    def _register(self, what: str, function: Any, options: Dict[str, Any], context: bool) -> Any:
        if options.pop("requires_approval", False):
            options.setdefault("approval", "ask")
        if options.pop("sequential", False):
            options.setdefault("parallel", False)
        for key in self._ELSEWHERE:
            if key in options:
                del options[key]
                print(f"{what}: `{key}` has no effect here", file=sys.stderr)
        checked = Options(what, options)

        def add(function: Any) -> Any:
            if isinstance(function, type) or not callable(function):
                raise TypeError(f"{what} takes functions, and not {show(function)}")
            said = checked if options else options_of(function)
            self._found.append((function, said, context))
            return function

        return add if function is None else add(function)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"the agent of llm-do has no `{name}`: it takes tools by tool, tool_plain and add_tool"
        )


def near(name: object, names: Iterable[str]) -> str:
    """`; did you mean …?`, where there is something near."""
    import difflib

    found = difflib.get_close_matches(str(name), list(names), 3, 0.6)
    return f"; did you mean {' or '.join(found)}?" if found else ""


def show(value: object) -> str:
    """A type or an object in few words, whatever its `__repr__` does."""
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


# ---- Modules -----------------------------------------------------------------------------------------------


class Module:
    """A module of tools that was imported."""

    __slots__ = ("key", "root", "path", "object", "tools", "exposes", "duplicates", "missing")

    def __init__(self, key: str, root: str, path: str, object: Any) -> None:
        self.key = key
        self.root = root
        self.path = path
        self.object = object
        #: By the name that calls use.
        self.tools: Dict[str, Tool] = {}
        self.exposes = "nothing"
        #: Pairs of tools with one name.
        self.duplicates: List[Tuple[Tool, Tool]] = []
        #: What was asked for by name and isn't there, as a sentence.
        self.missing: Optional[str] = None

    def find(self, function: str) -> Tool:
        """The tool of that name, or any function: an entry's `main` is no tool and is called all the same."""
        found = self.tools.get(function)
        if found is None:
            value = self.object
            for part in function.split("."):
                value = getattr(value, part, None)
            if value is None or not callable(value) or isinstance(value, type):
                names = list(self.tools) or [name for name in vars(self.object) if not name.startswith("_")]
                raise AttributeError(f"{self.path} has no function `{function}`{near(function, names)}")
            found = self.tools[function] = Tool(self, value, function, options_of(value))
        return found


class Tool:
    """A function that llm-do may call."""

    __slots__ = (
        "module",
        "target",
        "function",
        "options",
        "name",
        "is_async",
        "context",
        "context_first",
        "_plan",
    )

    def __init__(
        self,
        module: Module,
        target: Any,
        function: str,
        options: Options,
        name: str = "",
        bare_context: bool = False,
    ) -> None:
        self.module = module
        self.target = target
        self.function = function
        self.options = options
        self.name = options.name or name or function.rpartition(":")[2].rpartition(".")[2]
        self.is_async = is_async(target)
        self.context, self.context_first = context_parameter(target, bare_context or function == "main")
        self._plan: Optional[Plan] = None

    @property
    def plan(self) -> Plan:
        """How arguments are read. Made when first needed, since it needs `inspect` and `typing`."""
        if self._plan is None:
            self._plan = Plan(self)
        return self._plan


def code_of(target: Any) -> Any:
    """The code of a function, a method or an object that can be called; None for what is written in C."""
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
    """Whether calling it gives a coroutine, itself or as the wrapper of a function that does."""
    while target is not None:
        code = code_of(target)
        if code is not None and code.co_flags & 0x180:  # CO_COROUTINE, CO_ITERABLE_COROUTINE
            return True
        target = getattr(target, "__wrapped__", None)
    return False


CONTEXT_NAMES = ("ToolContext", "AsyncToolContext", "RunContext")
BARE_NAMES = ("ctx", "_ctx", "context", "run_context", "_")


def is_context(annotation: Any) -> bool:
    """Whether an annotation means the context: a class, generic or optional, or its name."""
    if isinstance(annotation, str):
        text = annotation.replace('"', "").replace("'", "")
        text = text.replace("Optional[", "").replace("None", "").strip(" |]")
        return text.partition("[")[0].rpartition(".")[2] in CONTEXT_NAMES
    if getattr(annotation, "__forward_arg__", None):
        return is_context(annotation.__forward_arg__)
    origin = getattr(annotation, "__origin__", annotation)
    if getattr(origin, "__name__", None) in CONTEXT_NAMES:
        return True
    inner = getattr(annotation, "__args__", ())
    return isinstance(inner, tuple) and type(None) in inner and any(is_context(one) for one in inner)


def context_parameter(target: Any, bare: bool) -> Tuple[Optional[str], bool]:
    """The parameter that takes the context, and whether it is the first. `bare`: its name alone may say so.

    This is done without `inspect`, since every tool needs it.
    """
    partial = False
    while not hasattr(target, "__code__"):
        inner = getattr(target, "__wrapped__", None) or getattr(target, "func", None)
        if inner is None:
            break
        partial = partial or hasattr(target, "func")
        target = inner
    while hasattr(target, "__wrapped__"):
        target = target.__wrapped__
    code = code_of(target)
    if code is None:
        return None, False
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    bound = 1 if names and not hasattr(target, "__code__") or hasattr(target, "__self__") else 0
    try:
        annotations = (
            getattr(target, "__annotations__", None)
            or getattr(target.__call__, "__annotations__", None)
            or {}
        )
    except Exception:
        annotations = {}
    for index, name in enumerate(names[bound:]):
        said = annotations.get(name)
        if is_context(said) if said is not None else bare and name in BARE_NAMES:
            return name, index == 0 and bound + index < code.co_argcount and not partial
    return None, False


def put_on_path(folder: str) -> None:
    """Makes modules of a folder importable: before installed packages, after the standard library.

    A file `queue.py` or `types.py` in a project then can't break the packages that need the real one.
    """
    path = sys.path
    if folder in path:
        return
    place = len(path)
    for index, entry in enumerate(path):
        if entry.endswith(("site-packages", "dist-packages")):
            place = index
            break
    path.insert(place, folder)


def is_below(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies in it, by name."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def file_of(module: Any) -> Optional[str]:
    try:
        file = module.__file__
    except Exception:
        return None
    return file if isinstance(file, str) else None


def import_path(path: str, root: str) -> Any:
    """Imports a file or a package folder under its own name, or under another where that is taken."""
    import importlib
    import importlib.util

    package = os.path.isdir(path)
    file = os.path.join(path, "__init__.py") if package else path
    if not os.path.isfile(file):
        raise FileNotFoundError(f"there is no Python module at {path}")
    real = os.path.realpath(file)
    for module in list(sys.modules.values()):
        known = file_of(module)
        if (
            known is not None
            and os.path.basename(known) == os.path.basename(file)
            and os.path.realpath(known) == real
        ):
            return module
    folder = os.path.dirname(path)
    put_on_path(folder)
    put_on_path(root)
    stem = os.path.basename(path)
    stem = stem[:-3] if not package and stem.endswith(".py") else stem
    # A file inside a package is imported as a part of it, so that `from . import x` works.
    parents: List[str] = []
    above = folder
    while above != root and is_below(above, root) and os.path.isfile(os.path.join(above, "__init__.py")):
        parents.insert(0, os.path.basename(above))
        above = os.path.dirname(above)
    if parents and all(part.isidentifier() for part in (*parents, stem)):
        put_on_path(above)
        top = importlib.import_module(parents[0])
        known = file_of(top)
        if known and os.path.realpath(known) == os.path.realpath(
            os.path.join(above, parents[0], "__init__.py")
        ):
            return importlib.import_module(".".join((*parents, stem)))
    base = "".join(letter if letter.isalnum() else "_" for letter in stem)
    name, number = base, 1
    while name in sys.modules or (number == 1 and is_standard(name)):
        number += 1
        name = f"{base}__{number}"
    spec = importlib.util.spec_from_file_location(
        name, file, submodule_search_locations=[path] if package else None
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python file: its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return sys.modules.get(name, module)


def is_standard(name: str) -> bool:
    """Whether the standard library has a module of that name."""
    known = getattr(sys, "stdlib_module_names", None)
    if known is None:  # Python 3.9.
        place = os.path.join(STANDARD_LIBRARY, name)
        return name in sys.builtin_module_names or os.path.exists(f"{place}.py") or os.path.isdir(place)
    return name in known


def takes_agent(value: Any) -> bool:
    """Whether it is a `register(agent)` and not a tool that happens to be called register."""
    code = getattr(value, "__code__", None)
    if code is None or code.co_argcount < 1:
        return False
    defaults = len(value.__defaults__ or ())
    name = code.co_varnames[0]
    said = value.__annotations__.get(name)
    text = said if isinstance(said, str) else getattr(said, "__name__", None) or repr(said)
    return code.co_argcount - defaults <= 1 and (name == "agent" or said is None or "Agent" in text)


def collect(module: Module, attribute: Optional[str], names: Optional[Sequence[str]]) -> None:
    """Finds the tools of a module: names asked for, else `register`, `@tool`, `__all__`, type hints."""
    found: List[Tool] = []
    space = vars(module.object)

    def add(
        function: str, target: Any, options: Optional[Options] = None, bare: bool = False, name: str = ""
    ) -> None:
        said = options if options is not None else options_of(target)
        found.append(Tool(module, target, function, said, name, bare))

    register = getattr(module.object, attribute) if attribute else space.get("register")
    if attribute or takes_agent(register):
        agent = Agent()
        register(agent)
        module.exposes = "register"
        for target, options, context in agent._found:
            name = getattr(target, "__name__", None) or getattr(
                getattr(target, "func", None), "__name__", None
            )
            name = name or type(target).__name__
            place = name if space.get(name) is target else f"{attribute or 'register'}:{options.name or name}"
            add(place, target, options, context, name)
    taken = {id(tool.target) for tool in found}
    own = module.object.__name__
    inside = own + "." if hasattr(module.object, "__path__") else own  # A package shows what its files hold.
    for name, target in list(space.items()):
        if isinstance(getattr(target, "__llm_do_tool__", None), Options) and id(target) not in taken:
            home = getattr(target, "__module__", None) or own
            if home == own or home.startswith(inside):
                taken.add(id(target))
                add(name, target)
                if module.exposes == "nothing":
                    module.exposes = "decorated"
    if not found and isinstance(space.get("__all__"), (list, tuple)):
        module.exposes = "__all__"
        for name in space["__all__"]:
            target = getattr(module.object, name)
            if is_function(target):
                add(name, target)
    elif not found:
        for name, target in list(space.items()):
            if (
                not name.startswith("_")
                and name != "main"
                and is_function(target)
                and id(target) not in taken
            ):
                if target.__module__ == own and getattr(target, "__annotations__", None):
                    module.exposes = "plain"
                    taken.add(id(target))
                    add(name, target)
    if names is not None:
        module.exposes = "names"
        by_name = {tool.name: tool for tool in reversed(found)}
        by_name.update((tool.function, tool) for tool in found if tool.function not in by_name)
        missing: List[str] = []
        found = []
        for name in names:
            if name in by_name:
                found.append(by_name[name])
            elif is_function(space.get(name)):
                add(name, space[name])
            else:
                missing.append(
                    f"`{name}`{near(name, [*by_name, *filter(lambda n: is_function(space[n]), space)])}"
                )
        if missing:
            module.missing = f"{module.path} has no function {', '.join(missing)}"
    by_tool: Dict[str, Tool] = {}
    for tool in found:
        first = by_tool.setdefault(tool.name, tool)
        if first is tool:
            module.tools[tool.function] = tool
        elif first.target is not tool.target:
            module.duplicates.append((first, tool))


def is_function(target: Any) -> bool:
    """A function, or what a decorator made of one; no class and no object that can be called."""
    if isinstance(target, type) or not callable(target):
        return False
    return hasattr(target, "__code__") or hasattr(target, "__wrapped__") or hasattr(target, "__func__")


def local_files(root: str, first: str) -> List[str]:
    """The files of the modules that are imported and lie below root, `first` first.

    Modules that were loaded before in this process are among them, since nobody knows who would have imported
    them. That is more than needed, and never less.
    """
    files = [first]
    real_root = os.path.realpath(root)
    for module in list(sys.modules.values()):
        file = file_of(module)
        if file and file not in files and not is_installed(file):
            if is_below(file, root) or is_below(os.path.realpath(file), real_root):
                files.append(file)
    return files


def is_installed(file: str) -> bool:
    return "/site-packages/" in file or "/dist-packages/" in file


STANDARD_LIBRARY = os.path.dirname(os.path.realpath(os.__file__))


class Packages:
    """The versions of what modules import from outside the project, read off the names of `.dist-info`
    folders.

    `importlib.metadata` would need longer to import than all this takes.
    """

    def __init__(self) -> None:
        #: Modules that Python itself had imported before any user code.
        self.before = {name.partition(".")[0] for name in sys.modules}
        self.folders: Dict[str, Dict[str, str]] = {}
        self.versions: Dict[str, str] = {}

    def imported(self, root: str) -> Dict[str, str]:
        real_root = os.path.realpath(root)
        result = {}
        for name, module in list(sys.modules.items()):
            if "." in name or name in self.before or name == "llm_do":
                continue
            file = file_of(module)
            if file is None:
                continue
            if not is_installed(file):
                real = os.path.realpath(file)
                if is_below(real, STANDARD_LIBRARY) or is_below(file, root) or is_below(real, real_root):
                    continue
            if name not in self.versions:
                self.versions[name] = self.version(name, file)
            result[name] = self.versions[name]
        return result

    def version(self, name: str, file: str) -> str:
        """The version of a distribution, or where there is none the time of the file."""
        folder = os.path.dirname(
            os.path.dirname(file) if os.path.basename(file).startswith("__init__.") else file
        )
        for place in (folder, *(entry for entry in sys.path if is_installed(entry + "/"))):
            if place not in self.folders:
                self.folders[place] = self.read(place)
            version = self.folders[place].get(name.lower().replace("_", "-"))
            if version:
                return version
        try:
            return f"file {os.stat(file).st_mtime_ns}"
        except OSError:
            return "unknown"

    @staticmethod
    def read(folder: str) -> Dict[str, str]:
        """Versions by the names of distributions and of the modules they bring, lower case with hyphens."""
        names: Dict[str, str] = {}
        modules: Dict[str, str] = {}
        try:
            entries = os.listdir(folder)
        except OSError:
            return names
        for entry in entries:
            if not entry.endswith(".dist-info"):
                continue
            name, _, version = entry[: -len(".dist-info")].partition("-")
            names[name.lower().replace("_", "-").replace(".", "-")] = version
            try:
                with open(
                    os.path.join(folder, entry, "RECORD"), encoding="utf-8", errors="replace"
                ) as record:
                    tops = {line.partition(",")[0].partition("/")[0].partition(".")[0] for line in record}
            except OSError:
                continue
            for top in tops:
                modules.setdefault(top.lower().replace("_", "-"), version)
        return {**modules, **names}


# ---- Docstrings --------------------------------------------------------------------------------------------


GOOGLE_SECTIONS = (
    "args",
    "arguments",
    "parameters",
    "params",
    "keyword args",
    "keyword arguments",
    "other parameters",
)


def parse_docstring(text: Optional[str]) -> Tuple[str, Dict[str, str]]:
    """What a docstring says without its parameters, and of each: Google, NumPy and reST styles."""
    import inspect

    lines = inspect.cleandoc(text or "").splitlines()
    params: Dict[str, str] = {}
    for take in (take_rest, take_numpy, take_google):
        lines = take(lines, params)
    kept: List[str] = []
    for line in lines:
        if line.strip() or (kept and kept[-1]):
            kept.append(line.rstrip())
    return "\n".join(kept).strip(), {name: said for name, said in params.items() if said}


def indent_of(line: str) -> int:
    return len(line) - len(line.lstrip())


def joined(lines: Iterable[str]) -> str:
    return " ".join(line.strip() for line in lines if line.strip())


def take_rest(lines: List[str], params: Dict[str, str]) -> List[str]:
    """`:param int name: what it is`, and `@param name: …`."""
    import re

    field = re.compile(
        r"\s*[:@](param|parameter|arg|argument|key|keyword|type)\s+(?:[^:]*?\s)?\*{0,2}(\w+)\s*:\s*(.*)"
    )
    kept: List[str] = []
    index = 0
    while index < len(lines):
        match = field.match(lines[index])
        if match is None:
            kept.append(lines[index])
            index += 1
            continue
        said = [match[3]]
        base = indent_of(lines[index])
        index += 1
        while index < len(lines) and lines[index].strip() and indent_of(lines[index]) > base:
            said.append(lines[index])
            index += 1
        if match[1] != "type":
            params[match[2]] = joined(said)
    return kept


def take_numpy(lines: List[str], params: Dict[str, str]) -> List[str]:
    """A title underlined with hyphens, entries `name : type`, and their text indented below."""

    def is_title(at: int) -> bool:
        return at + 1 < len(lines) and bool(lines[at].strip()) and set(lines[at + 1].strip()) == {"-"}

    kept: List[str] = []
    index = 0
    while index < len(lines):
        if not (is_title(index) and lines[index].strip().lower() in ("parameters", "other parameters")):
            kept.append(lines[index])
            index += 1
            continue
        index += 2
        names: List[str] = []
        said: List[str] = []
        while index < len(lines) and not is_title(index):
            line = lines[index]
            if line.strip() and indent_of(line) == 0:
                params.update((name, joined(said)) for name in names)
                names = [name.strip().lstrip("*") for name in line.partition(":")[0].split(",")]
                said = []
            else:
                said.append(line)
            index += 1
        params.update((name, joined(said)) for name in names)
    return kept


def take_google(lines: List[str], params: Dict[str, str]) -> List[str]:
    """A title `Args:`, and indented below it entries `name (type): text`."""
    import re

    entry = re.compile(r"\*{0,2}(\w+)\s*(?:\(.*?\)\s*)?:(?:\s+(.*)|$)")
    kept: List[str] = []
    index = 0
    while index < len(lines):
        line = lines[index]
        title = line.strip().lower()
        following = next((later for later in lines[index + 1 :] if later.strip()), "")
        inside = indent_of(following)
        is_section = title.endswith(":") and title[:-1].strip() in GOOGLE_SECTIONS
        if not is_section or inside <= indent_of(line) or not entry.match(following.strip()):
            kept.append(line)
            index += 1
            continue
        base = indent_of(line)
        index += 1
        name = None
        while index < len(lines) and (not lines[index].strip() or indent_of(lines[index]) > base):
            line = lines[index]
            match = entry.match(line.strip()) if indent_of(line) <= inside else None
            if match is not None:
                name = match[1]
                params[name] = (match[2] or "").strip()
            elif name is not None:
                params[name] = joined((params[name], line))
            index += 1
        if kept and kept[-1].strip():
            kept.append("")
    return kept


# ---- Types: their schemas, and how arguments become them ---------------------------------------------------


class Unsupported(Exception):
    """A type that no JSON value can stand for."""


class Reading:
    """One reading of arguments: what was wrong with them, all of it."""

    __slots__ = ("sandbox", "problems", "exact")

    def __init__(self, sandbox: Sandbox, exact: bool = False) -> None:
        self.sandbox = sandbox
        self.problems: List[str] = []
        #: Whether unknown fields count as problems. A union tries its members so first.
        self.exact = exact

    def fail(self, where: str, problem: str) -> None:
        if len(self.problems) < 20:
            self.problems.append(f"{where} {problem}")


class Form:
    """What a type means: its schema, and how a JSON value becomes an object of it."""

    __slots__ = ("schema", "read", "plain", "paths", "optional")

    def __init__(
        self,
        schema: Frame,
        read: Callable[[Any, Reading, str], Any],
        plain: bool = False,
        paths: bool = False,
    ) -> None:
        self.schema = schema
        self.read = read
        #: Whether every value that fits the schema is passed as it is.
        self.plain = plain
        #: Whether it holds file paths, which are translated.
        self.paths = paths
        #: In a TypedDict: what `Required` or `NotRequired` says.
        self.optional: Optional[bool] = None

    def with_schema(self, more: Frame) -> Form:
        if not more:
            return self
        form = Form({**self.schema, **more}, self.read, self.plain, self.paths)
        form.optional = self.optional
        return form


def scalar_in(text: str) -> Any:
    """The number or boolean that a text is, or the text."""
    try:
        value, end = _scan(text, 0)
    except (ValueError, StopIteration):
        return text
    return value if end == len(text) and is_scalar(value) else text


def kind_of(value: Any) -> str:
    """The name of a JSON value's type."""
    if value is None:
        return "null"
    names = {
        bool: "a boolean",
        int: "an integer",
        float: "a number",
        str: "a text",
        list: "a list",
        dict: "an object",
    }
    return names.get(type(value), type(value).__name__)


def read_any(value: Any, _reading: Reading, _where: str) -> Any:
    return value


def read_exact(*kinds: type) -> Callable[[Any, Reading, str], Any]:
    def read(value: Any, reading: Reading, where: str) -> Any:
        if type(value) not in kinds:
            expected = {
                str: "a text",
                bool: "a boolean",
                type(None): "null",
                list: "a list",
                dict: "an object",
            }[kinds[0]]
            reading.fail(where, f"must be {expected}, not {kind_of(value)}")
        return value

    return read


def read_int(value: Any, reading: Reading, where: str) -> Any:
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():  # JSON Schema calls 2.0 an integer.
        return int(value)
    reading.fail(where, f"must be an integer, not {kind_of(value)}")


def read_float(value: Any, reading: Reading, where: str) -> Any:
    if type(value) is float:
        return value
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            pass
    reading.fail(where, f"must be a number, not {kind_of(value)}")


def read_text_as(make: Callable[[str], Any], what: str) -> Callable[[Any, Reading, str], Any]:
    """Reads a text with a function that raises ValueError where it doesn't fit."""

    def read(value: Any, reading: Reading, where: str) -> Any:
        if type(value) is str:
            try:
                return make(value)
            except (ValueError, ArithmeticError):
                reading.fail(where, f"must be {what}, not {value[:80]!r}")
                return None
        reading.fail(where, f"must be {what}, not {kind_of(value)}")

    return read


def read_path(make: Callable[[str], Any]) -> Callable[[Any, Reading, str], Any]:
    def read(value: Any, reading: Reading, where: str) -> Any:
        if type(value) is not str:
            reading.fail(where, f"must be a path, not {kind_of(value)}")
            return None
        if not reading.sandbox.mounts:
            return make(value)
        try:
            return make(reading.sandbox.locate(value))
        except ValueError as error:
            reading.fail(where, f"is no path that can be used: {error}")

    return read


def iso_text(text: str) -> str:
    """ISO 8601 as Python 3.9 reads it: no `Z`, a fraction of six digits, an offset with a colon."""
    import re

    text = text.strip()
    if text[-1:] in ("Z", "z"):
        text = text[:-1] + "+00:00"
    text = re.sub(r"(:\d\d)[.,](\d{1,9})", lambda match: f"{match[1]}.{match[2][:6]:0<6}", text)
    return re.sub(
        r"(:\d\d(?:\.\d{6})?[+-]\d\d)(\d\d)?$", lambda match: f"{match[1]}:{match[2] or '00'}", text
    )


def read_duration(text: str) -> Any:
    """ISO 8601 durations without months and years, and `H:MM:SS`."""
    import re
    from datetime import timedelta

    number = r"(\d+(?:\.\d+)?)"
    pattern = rf"([+-]?)P(?:{number}W)?(?:{number}D)?(?:T(?:{number}H)?(?:{number}M)?(?:{number}S)?)?"
    match = re.fullmatch(pattern, text.strip())
    if match is None or text.strip()[-1:] in ("P", "T"):
        clock = re.fullmatch(r"([+-]?)(\d+):([0-5]\d):([0-5]\d(?:\.\d+)?)", text.strip())
        if clock is None:
            raise ValueError(text)
        parts: Tuple[Any, ...] = (None, None, *clock.groups()[1:])
        sign = clock[1]
    else:
        parts, sign = match.groups()[1:], match[1]
    weeks, days, hours, minutes, seconds = (float(part or 0) for part in parts)
    value = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    return -value if sign == "-" else value


def read_decimal(value: Any, reading: Reading, where: str) -> Any:
    from decimal import Decimal, InvalidOperation

    if type(value) in (int, float, str):
        try:
            number = Decimal(str(value))
            if number.is_finite():
                return number
        except InvalidOperation:
            pass
    reading.fail(where, f"must be a decimal number, not {value!r}"[:200])


def read_bytes(text: str) -> bytes:
    import base64

    return base64.b64decode(text, validate=True)


class Types:
    """Describes the types of one function. Forms of classes are shared, by name, in `defs`."""

    def __init__(self, output: bool = False) -> None:
        #: Whether the schema says what a result is like, and not what an argument may be.
        self.output = output
        self.defs: Dict[str, Frame] = {}
        self.named: Dict[Any, Tuple[str, Form]] = {}

    def form(self, said: Any, space: Dict[str, Any]) -> Form:
        """The form of an annotation; names in strings are looked up in `space`."""
        import typing

        if isinstance(said, str):
            return self.form(evaluate(said, space), space)
        if isinstance(said, typing.ForwardRef):
            module = (
                sys.modules.get(said.__forward_module__ or "")
                if isinstance(said.__forward_module__, str)
                else None
            )
            return self.form(evaluate(said.__forward_arg__, vars(module) if module else space), space)
        simple = self.simple(said)
        if simple is not None:
            return simple
        origin, args = typing.get_origin(said), typing.get_args(said)
        if origin is not None:
            return self.generic(said, origin, args, space)
        if hasattr(said, "__supertype__"):  # NewType
            return self.form(said.__supertype__, space)
        if isinstance(said, typing.TypeVar):
            if said.__constraints__:
                return self.union(said.__constraints__, space)
            return self.form(said.__bound__, space) if said.__bound__ is not None else self.any()
        if type(said).__name__ == "TypeAliasType":
            return self.named_form(said, said.__name__, lambda: self.form(said.__value__, space))
        bare = self.bare(said, space)
        if bare is not None:
            return bare
        if isinstance(said, type):
            return self.of_class(said)
        raise Unsupported(show(said))

    @staticmethod
    def any() -> Form:
        return Form({}, read_any, plain=True)

    def simple(self, said: Any) -> Optional[Form]:
        import typing

        if said is None or said is type(None):
            return Form({"type": "null"}, read_exact(type(None)), plain=True)
        if said is typing.Any or said is object or str(said).endswith(".Any"):
            return self.any()
        if said is str or str(said).endswith(".LiteralString"):
            return Form({"type": "string"}, read_exact(str), plain=True)
        if said is int:
            return Form({"type": "integer"}, read_int, plain=True)
        if said is float:
            return Form({"type": "number"}, read_float)
        if said is bool:
            return Form({"type": "boolean"}, read_exact(bool), plain=True)
        return None

    def bare(self, said: Any, space: Dict[str, Any]) -> Optional[Form]:
        """Containers without arguments."""
        import collections
        import collections.abc as abc

        if said in (tuple, list, set, frozenset, dict, collections.deque) or said in (
            abc.Sequence, abc.MutableSequence, abc.Iterable, abc.Collection, abc.Set, abc.MutableSet,
            abc.Mapping, abc.MutableMapping, collections.OrderedDict, collections.defaultdict, collections.Counter,
        ):  # fmt: skip
            return self.generic(said, said, (), space)
        return None

    def generic(self, said: Any, origin: Any, args: Tuple[Any, ...], space: Dict[str, Any]) -> Form:
        import collections
        import collections.abc as abc
        import typing

        special = str(origin).rpartition(".")[2]
        if origin is typing.Union or special == "UnionType'>" or type(said).__name__ == "UnionType":
            return self.union(args, space)
        if special == "Literal":
            return self.literal(args)
        if special == "Annotated" or hasattr(said, "__metadata__"):
            return self.annotated(said, args[0], said.__metadata__, space)
        if special in ("Required", "NotRequired", "ReadOnly", "Final", "ClassVar", "InitVar"):
            form = self.form(args[0], space)
            if special in ("Required", "NotRequired"):
                form = form.with_schema({"": None})
                del form.schema[""]
                form.optional = special == "NotRequired"
            return form
        if origin in (tuple,):
            return self.tuple(args, space)
        lists = {list: list, collections.deque: collections.deque}
        lists.update(
            (kind, list) for kind in (abc.Sequence, abc.MutableSequence, abc.Iterable, abc.Collection)
        )
        sets = {set: set, frozenset: frozenset, abc.Set: set, abc.MutableSet: set}
        if origin in lists or origin in sets:
            return self.list(
                args[0] if args else None, {**lists, **sets}[origin], origin in sets, bool(args), space
            )
        dicts = {
            dict: dict,
            abc.Mapping: dict,
            abc.MutableMapping: dict,
            collections.OrderedDict: collections.OrderedDict,
        }
        if origin in dicts:
            return self.dict(args, dicts[origin], space)
        if origin is collections.defaultdict:
            return self.dict(args, lambda pairs: collections.defaultdict(None, pairs), space)
        if origin is collections.Counter:
            return self.dict((args[0] if args else str, int), collections.Counter, space)
        if isinstance(origin, type) and is_pydantic(origin):
            return self.pydantic(said)
        if type(origin).__name__ == "TypeAliasType":
            filled = dict(zip(origin.__type_params__, args))
            return self.form(substitute(origin.__value__, filled), space)
        if isinstance(origin, type) and (is_dataclass(origin) or is_typed_dict(origin)):
            return self.of_class(origin, dict(zip(getattr(origin, "__parameters__", ()), args)))
        raise Unsupported(show(said))

    def list(self, item: Any, make: Any, unique: bool, has_item: bool, space: Dict[str, Any]) -> Form:
        inner = self.form(item, space) if has_item else self.any()
        schema: Frame = {"type": "array"}
        if inner.schema:
            schema["items"] = inner.schema
        if unique:
            schema["uniqueItems"] = True

        def read(value: Any, reading: Reading, where: str) -> Any:
            if type(value) is not list:
                reading.fail(where, f"must be a list, not {kind_of(value)}")
                return value
            if inner.plain and make is list and not reading.exact:
                return value
            items = [inner.read(one, reading, f"{where}[{index}]") for index, one in enumerate(value)]
            try:
                return items if make is list else make(items)
            except TypeError:
                reading.fail(where, "must hold values that can be members of a set")

        return Form(schema, read, plain=inner.plain and make is list, paths=inner.paths)

    def tuple(self, args: Tuple[Any, ...], space: Dict[str, Any]) -> Form:
        if not args or (len(args) == 2 and args[1] is ...):
            return self.list(args[0] if args else None, tuple, False, bool(args), space)
        forms = [] if args == ((),) else [self.form(one, space) for one in args]
        schema = {
            "type": "array",
            "prefixItems": [form.schema for form in forms],
            "minItems": len(forms),
            "maxItems": len(forms),
        }

        def read(value: Any, reading: Reading, where: str) -> Any:
            if type(value) is not list or len(value) != len(forms):
                reading.fail(where, f"must be a list of {len(forms)} values")
                return value
            return tuple(
                form.read(one, reading, f"{where}[{at}]") for at, (form, one) in enumerate(zip(forms, value))
            )

        return Form(schema, read, paths=any(form.paths for form in forms))

    def dict(self, args: Tuple[Any, ...], make: Any, space: Dict[str, Any]) -> Form:
        key, inner = (
            (self.form(args[0], space), self.form(args[1], space)) if args else (self.any(), self.any())
        )
        schema: Frame = {"type": "object"}
        if inner.schema:
            schema["additionalProperties"] = inner.schema
        if "enum" in key.schema or "const" in key.schema or "$ref" in key.schema:
            schema["propertyNames"] = key.schema
        elif "pattern" in key.schema and inner.schema:
            del schema["additionalProperties"]
            schema["patternProperties"] = {key.schema["pattern"]: inner.schema}
        text_keys = key.schema.get("type", "string") == "string"

        def read(value: Any, reading: Reading, where: str) -> Any:
            if type(value) is not dict:
                reading.fail(where, f"must be an object, not {kind_of(value)}")
                return value
            if key.plain and text_keys and inner.plain and make is dict and not reading.exact:
                return value
            pairs = []
            for name, one in value.items():
                if text_keys:
                    as_key = name
                else:  # Keys of JSON are texts: a number or a boolean is written in one.
                    as_key = scalar_in(name)
                known = key.read(as_key, reading, f"the key {name[:80]!r} of {where}")
                pairs.append((known, inner.read(one, reading, f"{where}[{name[:80]!r}]")))
            try:
                return make(pairs)
            except TypeError:
                reading.fail(where, "must have keys that can be keys of a dict")

        return Form(
            schema, read, plain=key.plain and text_keys and inner.plain and make is dict, paths=inner.paths
        )

    def union(self, members: Iterable[Any], space: Dict[str, Any]) -> Form:
        forms: List[Form] = []
        for member in members:
            form = self.form(member, space)
            if all(form.schema != other.schema for other in forms):
                forms.append(form)
        if len(forms) == 1:
            return forms[0]
        if any(not form.schema for form in forms):
            schema: Frame = {}
        else:
            choices: List[Frame] = []
            for form in forms:  # A union in a union is one union.
                flat = form.schema["anyOf"] if set(form.schema) == {"anyOf"} else [form.schema]
                choices.extend(one for one in flat if one not in choices)
            schema = {"anyOf": choices}

        def read(value: Any, reading: Reading, where: str) -> Any:
            nearest: List[str] = []
            for exact in (True, False):
                for form in forms:
                    attempt = Reading(reading.sandbox, exact)
                    result = form.read(value, attempt, where)
                    if not attempt.problems:
                        return result
                    # Of the members that failed, the one that came farthest says what is wrong.
                    if not exact and max(map(len, attempt.problems)) > max(map(len, nearest), default=0):
                        nearest = attempt.problems
                if reading.exact:
                    break
            for problem in nearest or [f"{where} fits none of the types that it may have"]:
                reading.fail("", problem.strip())

        return Form(
            schema, read, plain=all(form.plain for form in forms), paths=any(form.paths for form in forms)
        )

    def literal(self, values: Iterable[Any]) -> Form:
        import enum

        choices: List[Tuple[Json, Any]] = []
        for value in values:
            written = value.value if isinstance(value, enum.Enum) else value
            if written is not None and not isinstance(written, (str, int)):
                raise Unsupported(f"Literal[{show(value)}]")
            choices.append((written, value))
        return self.choice(choices, "one of")

    def choice(self, choices: List[Tuple[Json, Any]], _what: str) -> Form:
        """A fixed set of values: what is written, and what it means."""
        written = [value for value, _ in choices]
        schema: Frame = {"const": written[0]} if len(written) == 1 else {"enum": written}
        kinds = {type(value) for value in written}
        names = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
        if len(kinds) == 1:
            schema["type"] = names[kinds.pop()]

        def read(value: Any, reading: Reading, where: str) -> Any:
            for known, meant in choices:
                if known == value and (type(known) is bool) == (type(value) is bool):
                    return meant
            shown = ", ".join(map(repr, written[:20])) + (", …" if len(written) > 20 else "")
            reading.fail(
                where, f"must be {'one of ' if len(written) > 1 else ''}{shown}, not {value!r}"[:400]
            )

        return Form(schema, read, plain=all(value is meant for value, meant in choices))

    def annotated(self, said: Any, inner: Any, metadata: Sequence[Any], space: Dict[str, Any]) -> Form:
        extras = [about(one) for one in metadata]
        if any(extra is None for extra in extras):  # Validators and the like, which only Pydantic knows.
            return self.pydantic(said)
        form = self.form(inner, space)
        for extra in extras:
            form = constrain(form, extra or {})
        return form

    def of_class(self, cls: type, filled: Optional[Dict[Any, Any]] = None) -> Form:
        import datetime
        import decimal
        import enum
        import uuid
        from pathlib import Path, PosixPath, PurePath, PurePosixPath

        if issubclass(cls, enum.Enum):
            members = [(one.value if is_scalar(one.value) else one.name, one) for one in cls]
            if not members:
                raise Unsupported(f"{show(cls)}, an Enum without members")
            return self.named_form(cls, cls.__name__, lambda: self.enum(cls, members))
        texts: Dict[type, Tuple[Frame, Callable[[str], Any], str]] = {
            datetime.datetime: (
                {"format": "date-time"},
                lambda text: datetime.datetime.fromisoformat(iso_text(text)),
                "a date and time like 2024-05-01T12:00:00Z",
            ),
            datetime.date: ({"format": "date"}, datetime.date.fromisoformat, "a date like 2024-05-01"),
            datetime.time: (
                {"format": "time"},
                lambda text: datetime.time.fromisoformat(iso_text(text)),
                "a time like 12:30:00",
            ),
            datetime.timedelta: ({"format": "duration"}, read_duration, "a duration like P1DT2H"),
            uuid.UUID: ({"format": "uuid"}, uuid.UUID, "a UUID"),
        }
        if cls in texts:
            more, make, what = texts[cls]
            return Form({"type": "string", **more}, read_text_as(make, what))
        if cls in (bytes, bytearray):
            if self.output:  # It goes as an attachment, or as a reference to one.
                return self.any()
            make = read_bytes if cls is bytes else lambda text: bytearray(read_bytes(text))
            return Form(
                {"type": "string", "contentEncoding": "base64"}, read_text_as(make, "bytes in base64")
            )
        if cls is decimal.Decimal:
            if self.output:
                return Form({"type": "string"}, read_decimal)
            return Form({"anyOf": [{"type": "number"}, {"type": "string"}]}, read_decimal)
        if cls in (Path, PosixPath, PurePath, PurePosixPath, os.PathLike):
            make_path: Any = Path if cls is os.PathLike else cls
            return Form({"type": "string", "format": "path"}, read_path(make_path), paths=True)
        if issubclass(cls, File) or any(parent.__module__.startswith("PIL.") for parent in cls.__mro__):
            if self.output:
                return self.any()
            raise Unsupported(f"{show(cls)}; take a pathlib.Path")
        if is_pydantic(cls):
            return self.pydantic(cls)
        if is_typed_dict(cls):
            return self.named_form(
                (cls, str(filled)), cls.__name__, lambda: self.typed_dict(cls, filled or {})
            )
        if is_dataclass(cls):
            return self.named_form(
                (cls, str(filled)), cls.__name__, lambda: self.dataclass(cls, filled or {})
            )
        if issubclass(cls, tuple) and hasattr(cls, "_fields"):
            return self.named_form(cls, cls.__name__, lambda: self.named_tuple(cls))
        if "pydantic" in sys.modules:
            return self.pydantic(cls)
        raise Unsupported(show(cls))

    def named_form(self, key: Any, name: str, make: Callable[[], Form]) -> Form:
        """A form that others refer to by name, and that may refer to itself."""
        if key in self.named:
            return self.named[key][1]
        unique, number = name, 1
        while unique in self.defs:
            number += 1
            unique = f"{name}_{number}"
        self.defs[unique] = {}
        target: List[Form] = []
        form = Form(
            {"$ref": f"#/$defs/{unique}"}, lambda value, reading, where: target[0].read(value, reading, where)
        )
        self.named[key] = (unique, form)
        made = make()
        target.append(made)
        self.defs[unique] = made.schema
        # Before this point a form that refers to itself is taken for one that needs reading, which is right.
        form.plain, form.paths = made.plain, made.paths
        return form

    def enum(self, cls: Any, members: List[Tuple[Json, Any]]) -> Form:
        form = self.choice(members, "one of")
        return form.with_schema(doc_of(cls))

    def fields(
        self, cls: Any, fields: Iterable[Tuple[str, Any, bool, Any]], filled: Dict[Any, Any]
    ) -> Tuple[Frame, Dict[str, Tuple[Form, bool]]]:
        """The schema of an object and the forms of its fields: name, annotation, required, default."""
        docs = parse_docstring(cls.__doc__)[1]
        forms: Dict[str, Tuple[Form, bool]] = {}
        properties: Dict[str, Frame] = {}
        for name, said, required, default in fields:
            space = {}
            for parent in reversed(cls.__mro__ if isinstance(cls, type) else ()):
                if name in parent.__dict__.get("__annotations__", ()) or parent is cls:
                    space = dict(vars(sys.modules.get(parent.__module__, sys)))
            space.setdefault(cls.__name__, cls)
            if filled:
                said = evaluate(said, space) if isinstance(said, str) else said
                said = substitute(said, filled)
            try:
                form = self.form(said, space)
            except Unsupported as error:
                raise Unsupported(f"{error} (field `{name}` of {cls.__name__})") from None
            if form.optional is not None:
                required = not form.optional
            more: Frame = {}
            if name in docs and "description" not in form.schema:
                more["description"] = docs[name]
            if default is not UNSET and not self.output:
                more.update(default_of(default))
            form = form.with_schema(more)
            forms[name] = (form, required)
            properties[name] = form.schema
        schema: Frame = {"type": "object", "properties": properties}
        needed = [name for name, (_, required) in forms.items() if required]
        if needed:
            schema["required"] = needed
        return {**schema, **doc_of(cls)}, forms

    def reader(
        self, forms: Dict[str, Tuple[Form, bool]], make: Callable[..., Any], keep: bool
    ) -> Callable[..., Any]:
        def read(value: Any, reading: Reading, where: str) -> Any:
            if type(value) is not dict:
                reading.fail(where, f"must be an object, not {kind_of(value)}")
                return value
            before = len(reading.problems)
            result: Dict[str, Any] = {}
            for name, (form, required) in forms.items():
                if name in value:
                    result[name] = form.read(value[name], reading, f"{where}.{name}")
                elif required:
                    reading.fail(f"{where}.{name}", "is missing")
            unknown = [name for name in value if name not in forms]
            if unknown and reading.exact:
                reading.fail(where, f"has unknown fields: {', '.join(unknown)}"[:200])
            if keep:
                result.update((name, value[name]) for name in unknown)
            if len(reading.problems) > before:
                return value
            try:
                return make(**result)
            except (ValueError, TypeError, AssertionError) as error:  # From a __post_init__.
                reading.fail(where, f"was refused: {message_of(error)}")

        return read

    def typed_dict(self, cls: Any, filled: Dict[Any, Any]) -> Form:
        required = getattr(cls, "__required_keys__", None)
        fields = [
            (name, said, name in required if required is not None else cls.__total__, UNSET)
            for name, said in cls.__annotations__.items()
        ]
        schema, forms = self.fields(cls, fields, filled)
        plain = all(form.plain for form, _ in forms.values())
        return Form(
            schema, self.reader(forms, dict, True), plain, any(form.paths for form, _ in forms.values())
        )

    def dataclass(self, cls: Any, filled: Dict[Any, Any]) -> Form:
        import dataclasses

        found = []
        for field in dataclasses.fields(cls):
            if field.init or self.output:
                default = UNSET if field.default is dataclasses.MISSING else field.default
                optional = default is not UNSET or field.default_factory is not dataclasses.MISSING
                found.append((field.name, field.type, self.output or not optional, default))
        schema, forms = self.fields(cls, found, filled)
        return Form(
            schema, self.reader(forms, cls, False), False, any(form.paths for form, _ in forms.values())
        )

    def named_tuple(self, cls: Any) -> Form:
        """An object: names tell a model more than places do. A list is taken as well."""
        defaults = cls._field_defaults
        types = getattr(cls, "__annotations__", {})
        found = [
            (name, types.get(name, object), self.output or name not in defaults, defaults.get(name, UNSET))
            for name in cls._fields
        ]
        schema, forms = self.fields(cls, found, {})
        read_object = self.reader(forms, cls, False)

        def read(value: Any, reading: Reading, where: str) -> Any:
            if type(value) is list and len(value) <= len(cls._fields):
                value = dict(zip(cls._fields, value))
            return read_object(value, reading, where)

        return Form(schema, read, False, any(form.paths for form, _ in forms.values()))

    def pydantic(self, said: Any) -> Form:
        """What only Pydantic knows: its models, its types, its validators."""
        try:
            import pydantic
        except ImportError:
            raise Unsupported(f"{show(said)}, which needs Pydantic") from None
        if not hasattr(pydantic, "TypeAdapter"):
            raise Unsupported(f"{show(said)}: Pydantic {pydantic.VERSION} is too old, version 2 is needed")
        try:
            adapter = pydantic.TypeAdapter(said)
            schema = adapter.json_schema(
                mode="serialization" if self.output else "validation", ref_template="#/$defs/{model}"
            )
        except Exception as error:
            raise Unsupported(f"{show(said)} ({cut(message_of(error).splitlines()[0])})") from None
        schema = self.adopt(tidy_pydantic(schema), getattr(said, "__name__", None) or "Model")
        paths = '"format":"path"' in encode(schema) + encode(self.defs)

        def read(value: Any, reading: Reading, where: str) -> Any:
            try:
                # As JSON, since a strict model refuses a date that is a text, unless it knows it for JSON.
                made = adapter.validate_json(to_bytes(encode(value)))
            except pydantic.ValidationError as error:
                for one in error.errors(include_url=False):
                    place = "".join(
                        f"[{step}]" if isinstance(step, int) else f".{step}" for step in one["loc"]
                    )
                    reading.fail(where + place, f"is wrong: {one['msg']}")
                return value
            return localise(made, reading, where) if paths and reading.sandbox.mounts else made

        return Form(schema, read, paths=paths)

    def adopt(self, schema: Frame, name: str) -> Frame:
        """Moves the definitions of a schema from Pydantic among ours, under names that are free."""
        inner = schema.pop("$defs", {})
        names: Dict[str, str] = {}
        for old, definition in inner.items():
            new, number = old, 1
            while new in self.defs and self.defs[new] != definition:
                number += 1
                new = f"{old}_{number}"
            names[f"#/$defs/{old}"] = f"#/$defs/{new}"
        for old, definition in inner.items():
            self.defs[names[f"#/$defs/{old}"][len("#/$defs/") :]] = renamed(definition, names)
        schema = renamed(schema, names)
        if schema.get("type") == "object" and "properties" in schema:
            new, number = name, 1
            while new in self.defs and self.defs[new] != schema:
                number += 1
                new = f"{name}_{number}"
            self.defs[new] = schema
            return {"$ref": f"#/$defs/{new}"}
        return schema

    def finish(self, schema: Frame) -> Frame:
        """The schema with the definitions that it needs. One that is used once stands where it is used."""
        defs = self.defs

        def uses(part: Any, counts: Dict[str, int], seen: Set[str]) -> None:
            if isinstance(part, dict):
                ref = part.get("$ref")
                if isinstance(ref, str) and ref.startswith("#/$defs/"):
                    name = ref[len("#/$defs/") :]
                    counts[name] = counts.get(name, 0) + 1
                    if name not in seen and name in defs:
                        seen.add(name)
                        uses(defs[name], counts, seen)
                for value in part.values():
                    uses(value, counts, seen)
            elif isinstance(part, list):
                for value in part:
                    uses(value, counts, seen)

        counts: Dict[str, int] = {}
        uses(schema, counts, set())

        def recursive(name: str) -> bool:
            inner: Dict[str, int] = {}
            uses(defs[name], inner, set())
            return name in inner

        once = {
            name for name, number in counts.items() if number == 1 and name in defs and not recursive(name)
        }

        def inline(part: Any) -> Any:
            if isinstance(part, dict):
                ref = part.get("$ref")
                if isinstance(ref, str) and ref[len("#/$defs/") :] in once:
                    rest = {key: value for key, value in part.items() if key != "$ref"}
                    return inline({**defs[ref[len("#/$defs/") :]], **rest})
                return {key: inline(value) for key, value in part.items()}
            return [inline(value) for value in part] if isinstance(part, list) else part

        result = inline(schema)
        kept = {name: inline(defs[name]) for name in counts if name in defs and name not in once}
        if kept:
            result["$defs"] = kept
        return result


def evaluate(text: str, space: Dict[str, Any]) -> Any:
    """The type that a string names. `X | Y` is read as a union also where Python itself can't (3.9)."""
    import ast
    import typing

    class Unions(ast.NodeTransformer):
        def visit_BinOp(self, node: ast.BinOp) -> Any:
            self.generic_visit(node)
            if not isinstance(node.op, ast.BitOr):
                return node
            pair = ast.Tuple([node.left, node.right], ast.Load())
            union = ast.Attribute(ast.Name(" typing", ast.Load()), "Union", ast.Load())
            return ast.fix_missing_locations(ast.copy_location(ast.Subscript(union, pair, ast.Load()), node))

        def visit_Call(self, node: ast.Call) -> Any:
            return node  # Arguments of Field and the like are no types.

    try:
        tree = Unions().visit(ast.parse(text.strip(), mode="eval"))
        return eval(compile(tree, "<annotation>", "eval"), {**space, " typing": typing})
    except Exception as error:
        raise Unsupported(f"{text!r}, which cannot be resolved ({message_of(error)})") from None


def substitute(said: Any, filled: Dict[Any, Any]) -> Any:
    """A generic type with its type variables filled in."""
    if said in filled if getattr(said, "__hash__", None) else False:
        return filled[said]
    parameters = getattr(said, "__parameters__", ())
    if parameters and any(one in filled for one in parameters):
        return said[tuple(filled.get(one, one) for one in parameters)]
    return said


def is_dataclass(cls: Any) -> bool:
    return "__dataclass_fields__" in dir(cls)


def is_typed_dict(cls: Any) -> bool:
    return isinstance(cls, type) and issubclass(cls, dict) and hasattr(cls, "__total__")


def is_pydantic(cls: Any) -> bool:
    return (
        hasattr(cls, "__get_pydantic_core_schema__")
        or cls.__module__.partition(".")[0] == "pydantic"
        or ("__pydantic_validator__" in dir(cls))
    )


def is_scalar(value: object) -> bool:
    return type(value) in (str, int, float, bool, type(None))


def doc_of(cls: Any) -> Frame:
    """The docstring of a class, where somebody wrote one."""
    text = vars(cls).get("__doc__") if isinstance(cls, type) else None
    if not isinstance(text, str) or text.startswith(f"{cls.__name__}(") or text == "An enumeration.":
        return {}
    said = parse_docstring(text)[0]
    return {"description": said} if said else {}


def default_of(value: Any) -> Frame:
    """`{"default": …}`, or nothing where the value is not JSON."""
    try:
        return {"default": Plain(Sandbox(), "the default", None).convert(value)}
    except Exception:
        return {}


def about(metadata: Any) -> Optional[Frame]:
    """What one item of `Annotated` says, as `Field` would; None where only Pydantic understands it."""
    if isinstance(metadata, str):
        return {"description": metadata}
    if isinstance(getattr(metadata, "documentation", None), str):  # typing_extensions.Doc
        return {"description": metadata.documentation}
    place = type(metadata).__module__.partition(".")[0]
    if isinstance(metadata, Field) or place == "annotated_types":
        found = {}
        for key in (*CONSTRAINTS, "description", "examples"):
            value = getattr(metadata, key, None)
            if value is not None:
                found[key] = value
        return found
    if type(metadata).__name__ == "FieldInfo" and place == "pydantic":
        found = {
            key: getattr(metadata, key) for key in ("description", "examples") if getattr(metadata, key, None)
        }
        if getattr(metadata, "alias", None) or getattr(metadata, "discriminator", None):
            return None
        for one in metadata.metadata:
            inner = about(one)
            if inner is None:
                return None
            found.update(inner)
        return found
    if place == "pydantic":
        known = {key: value for key, value in getattr(metadata, "__dict__", {}).items() if value is not None}
        return (
            known
            if type(metadata).__name__.startswith("_") and known and set(known) <= set(CONSTRAINTS)
            else None
        )
    return None if hasattr(metadata, "__get_pydantic_core_schema__") else {}


def constrain(form: Form, said: Frame) -> Form:
    """A form with the constraints of a `Field`, under the keywords that its type has for them."""

    def apply(schema: Frame) -> Frame:
        if "anyOf" in schema:
            return {**schema, "anyOf": [apply(one) for one in schema["anyOf"]]}
        kind = schema.get("type")
        column = {"integer": 0, "number": 0, "string": 1, "array": 2}.get(kind)  # type: ignore[arg-type]
        more: Frame = {}
        for key, keywords in CONSTRAINTS.items():
            value = said.get(key)
            if value is None:
                continue
            keyword = keywords[column] if column is not None else None
            if keyword is not None:
                limit = getattr(value, "pattern", value)  # A compiled pattern.
                more[keyword] = limit if is_scalar(limit) else default_of(limit).get("default")
            elif kind == "object" and key in ("min_length", "max_length"):
                more["minProperties" if key == "min_length" else "maxProperties"] = value
        return {**schema, **more}

    schema = apply(form.schema)
    if said.get("description"):
        schema = {**schema, "description": said["description"]}
    if said.get("examples"):
        examples = default_of(list(said["examples"])).get("default")
        schema = {**schema, "examples": examples} if examples else schema
    result = Form(schema, form.read, form.plain, form.paths)
    result.optional = form.optional
    return result


#: Keywords whose value is an object of schemas, by names that are no keywords.
NAMED_SCHEMAS = ("properties", "patternProperties", "$defs", "dependentSchemas")


def tidy_pydantic(schema: Any) -> Any:
    """Pydantic's schema as the host would write it: without titles and without what says nothing."""
    if isinstance(schema, list):
        return [tidy_pydantic(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    result: Frame = {}
    for key, value in schema.items():
        if key in ("title", "discriminator"):
            continue
        if key in NAMED_SCHEMAS and isinstance(value, dict):
            result[key] = {name: tidy_pydantic(one) for name, one in value.items()}
        elif key in ("default", "const", "enum", "examples", "required"):
            result[key] = value
        elif (key == "additionalProperties" and value is True) or (key == "items" and value == {}):
            continue
        else:
            result[key] = tidy_pydantic(value)
    if (
        result.get("type") == "string"
        and "Decimal" not in result
        and result.get("pattern", "").startswith("^(?!^[-+.]*$)")
    ):
        del result["pattern"]  # How Pydantic says that a text is a decimal number.
    return result


def renamed(part: Any, names: Dict[str, str]) -> Any:
    if isinstance(part, dict):
        return {
            key: names.get(value, value)
            if key == "$ref" and isinstance(value, str)
            else renamed(value, names)
            for key, value in part.items()
        }
    return [renamed(one, names) for one in part] if isinstance(part, list) else part


def localise(value: Any, reading: Reading, where: str) -> Any:
    """Paths inside what Pydantic made, as real paths. Fields are set without validating them again."""
    from pathlib import PurePath

    if isinstance(value, PurePath):
        return read_path(type(value))(str(value), reading, where)
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(localise(one, reading, where) for one in value)
    if type(value) is dict:
        return {key: localise(one, reading, where) for key, one in value.items()}
    if is_pydantic(type(value)) and hasattr(value, "__dict__"):
        for name, one in list(value.__dict__.items()):
            value.__dict__[name] = localise(one, reading, f"{where}.{name}")
    return value


def schema_of_type(said: Any) -> Frame:
    """The schema of a class, by itself."""
    types = Types()
    try:
        return types.finish(types.form(said, {}).schema)
    except Unsupported as error:
        raise TypeError(
            f"there is no JSON Schema for {error}: it must be a model, a dataclass, a TypedDict or an Enum"
        ) from None


def partial_of(value: Any) -> Callable[[], Any]:
    return lambda: value


def doc_text(target: Any) -> Optional[str]:
    """The docstring of a function; of an object that can be called, that of its `__call__` or of its class."""
    if not is_function(target):
        target = getattr(target, "func", None) or target  # functools.partial
        if not is_function(target) and is_function(vars(type(target)).get("__call__")):
            target = vars(type(target))["__call__"] if type(target).__call__.__doc__ else type(target)
    text = getattr(target, "__doc__", None)
    return text if isinstance(text, str) else None


class Plan:
    """How the arguments of a tool are described and read."""

    def __init__(self, tool: Tool) -> None:
        import inspect

        self.tool = tool
        self.types = Types()
        #: Why the function can't be a tool.
        self.refused: Optional[str] = None
        self.forms: Dict[str, Tuple[Form, bool]] = {}
        #: What stands in for arguments that are not given, where the function's own default is a `Field`.
        self.fill: Dict[str, Callable[[], Any]] = {}
        self.natural: Dict[str, Any] = {}
        self.extra: Optional[Form] = None
        self.whole: Optional[Form] = None
        self.returns: Any = UNSET
        self.first: Optional[str] = None
        self.description, docs = parse_docstring(doc_text(tool.target))
        if tool.options.description:
            self.description = tool.options.description.strip()
        inner = inspect.unwrap(tool.target)
        inner = getattr(inner, "func", inner) if not hasattr(inner, "__code__") else inner
        space = getattr(getattr(inner, "__func__", inner), "__globals__", None) or vars(tool.module.object)
        closure = inspect.getclosurevars(inner).nonlocals if getattr(inner, "__closure__", None) else {}
        self.space = {**space, **closure}
        try:
            signature = inspect.signature(tool.target)
        except (ValueError, TypeError, NameError) as error:
            self.refused = f"its parameters are not known: {message_of(error)}"
            return
        code = code_of(tool.target)
        if code is not None and code.co_flags & 0x220:  # CO_GENERATOR, CO_ASYNC_GENERATOR
            self.refused = "it is a generator: return a list instead of yielding"
        self.returns = (
            UNSET if signature.return_annotation is signature.empty else signature.return_annotation
        )
        for name, parameter in signature.parameters.items():
            if name == tool.context:
                continue
            self.first = self.first or name
            problem = self.parameter(name, parameter, docs)
            if problem and self.refused is None:
                self.refused = problem
        if tool.options.schema is not None:
            self.companion(tool.options.schema, "@tool(schema=…)")
        else:
            name = getattr(tool.target, "__name__", tool.name)
            schema = vars(tool.module.object).get(f"{name}_schema") if tool.module.object else None
            if isinstance(schema, (dict, type)):
                self.companion(schema, f"{name}_schema")

    def parameter(self, name: str, parameter: Any, docs: Dict[str, str]) -> Optional[str]:
        """Describes a parameter, or says why it can't be one of a tool."""
        if parameter.kind is parameter.VAR_POSITIONAL:
            return f"it takes `*{name}`, and arguments of tools have names: take a list"
        if parameter.kind is parameter.POSITIONAL_ONLY:
            return f"parameter `{name}` is positional-only, and arguments of tools have names: remove the `/`"
        said = parameter.annotation
        bare = said is parameter.empty
        try:
            if parameter.kind is parameter.VAR_KEYWORD:
                self.keywords(said, bare, docs)
                return None
            form = self.types.any() if bare else self.types.form(said, self.space)
            if parameter.default is None and not bare and "null" not in encode(form.schema) and form.schema:
                form = self.types.union((said, None), self.space)  # `x: int = None`
        except Unsupported as error:
            return f"parameter `{name}` has a type that a tool cannot take: {error}"
        default = parameter.default
        required = default is parameter.empty
        if isinstance(default, Field) or type(default).__name__ == "FieldInfo":
            form = constrain(form, about(default) or {})
            factory = default.default_factory
            value = default.default
            required = factory is None and (
                value is UNSET or type(value).__name__ == "PydanticUndefinedType" or value is ...
            )
            if not required:
                self.fill[name] = factory if factory is not None else partial_of(value)
            default = parameter.empty if required or factory is not None else value
        more: Frame = {}
        if name in docs and "description" not in form.schema:
            more["description"] = docs[name]
        if not required and default is not parameter.empty:
            more.update(default_of(default))
            if "default" in more:
                self.natural[name] = more["default"]
        self.forms[name] = (form.with_schema(more), required)
        return None

    def keywords(self, said: Any, bare: bool, docs: Dict[str, str]) -> None:
        """`**options: int`, or `**options: Unpack[Options]`."""
        if isinstance(said, str):
            said = evaluate(said, self.space)
        if str(getattr(said, "__origin__", "")).endswith(".Unpack"):
            inner = said.__args__[0]
            required = inner.__required_keys__
            fields = [(name, type_, name in required, UNSET) for name, type_ in inner.__annotations__.items()]
            self.forms.update(self.types.fields(inner, fields, {})[1])
            return
        self.extra = self.types.any() if bare else self.types.form(said, self.space)

    def companion(self, given: Any, what: str) -> None:
        """A schema that somebody wrote beside the function: a JSON Schema, or a class."""
        if isinstance(given, dict):
            names = given.get("properties")
            if given.get("type", "object") != "object" or (names is not None and not isinstance(names, dict)):
                self.refused = f"{what} must describe an object, whose properties are the arguments"
                return
            unknown = [name for name in names or () if name not in self.forms]
            if unknown and self.extra is None:
                self.refused = f"{what} has a property `{unknown[0]}` that is no parameter of the function"
                return
            self.whole = Form(default_of(given).get("default") or {"type": "object"}, read_any)
            return
        try:
            form = self.types.form(given, self.space)
        except Unsupported as error:
            self.refused = f"{what} is a type that a tool cannot take: {error}"
            return
        self.whole = form

    def schema(self) -> Frame:
        """The schema of the arguments."""
        if self.whole is not None:
            schema = self.types.finish(self.whole.schema)
            composed = ("additionalProperties", "allOf", "anyOf", "oneOf", "$ref", "patternProperties")
            open_ended = self.extra is not None or any(key in schema for key in composed)
            return schema if open_ended else {**schema, "additionalProperties": False}
        schema = {
            "type": "object",
            "properties": {name: form.schema for name, (form, _) in self.forms.items()},
        }
        required = [name for name, (_, required) in self.forms.items() if required]
        if required:
            schema["required"] = required
        schema["additionalProperties"] = False if self.extra is None else self.extra.schema or True
        return self.types.finish(schema)

    def output(self) -> Optional[Frame]:
        """The schema of the result, where the function says one that the host can describe."""
        if self.returns is UNSET:
            return None
        types = Types(output=True)
        try:
            return types.finish(types.form(self.returns, self.space).schema) or None
        except Unsupported:
            return None

    @property
    def plain(self) -> bool:
        if isinstance(self.whole, Form) and self.whole.read is not read_any:
            return False
        forms = [form for form, _ in self.forms.values()]
        return (
            all(form.plain for form in forms) and not self.fill and (self.extra is None or self.extra.plain)
        )

    @property
    def paths(self) -> List[str]:
        found = [name for name, (form, _) in self.forms.items() if form.paths]
        if self.whole is not None and self.whole.paths:
            found = sorted({*found, *self.schema().get("properties", ())})
        return found

    def defaults(self) -> Dict[str, Any]:
        """The defaults of parameters, as JSON."""
        return dict(self.natural)

    def read(self, args: Dict[str, Any], sandbox: Sandbox) -> Dict[str, Any]:
        """The arguments as the function wants them. `ArgumentsError` says all that is wrong."""
        reading = Reading(sandbox)
        if self.refused:
            raise ArgumentsError(f"{self.tool.name} cannot be called as a tool: {self.refused}")
        if self.whole is not None and self.whole.read is not read_any:
            return self.read_whole(args, reading)
        result: Dict[str, Any] = {}
        for name, value in args.items():
            known = self.forms.get(name)
            reader = known[0] if known else self.extra
            if reader is None:
                reading.fail(f"`{name}`", f"is no parameter{near(name, self.forms)}")
            else:
                result[name] = reader.read(value, reading, f"`{name}`")
        for name, (form, required) in self.forms.items():
            if name not in args:
                if name in self.fill:
                    result[name] = self.fill[name]()
                elif required:
                    reading.fail(f"`{name}`", "is missing")
                elif form.paths and sandbox.mounts and self.natural.get(name) is not None:
                    # A default is a path of the sandbox as well, where the call can see it.
                    attempt = Reading(sandbox)
                    value = form.read(self.natural[name], attempt, f"`{name}`")
                    if not attempt.problems:
                        result[name] = value
        self.check(reading)
        return result

    def read_whole(self, args: Dict[str, Any], reading: Reading) -> Dict[str, Any]:
        made = self.whole.read(args, reading, "the input")  # type: ignore[union-attr]
        self.check(reading)
        if len(self.forms) == 1 and self.first not in (made if isinstance(made, dict) else vars(made)):
            return {self.first: made}  # type: ignore[dict-item]  # The function takes the model itself.
        return dict(made) if isinstance(made, dict) else dict(vars(made))

    def entry(self, value: Any) -> Dict[str, Any]:
        """The arguments of `main(input, ctx)`: the input goes to the first parameter."""
        if self.first is None:
            return {}
        return self.read({self.first: value}, current.get().sandbox)  # type: ignore[union-attr]

    def check(self, reading: Reading) -> None:
        if reading.problems:
            raise ArgumentsError(cut("\n".join(problem.strip() for problem in reading.problems)))


def place_of(tool: Tool) -> Tuple[Optional[str], Optional[int]]:
    """File and line of a function."""
    target = tool.target
    while hasattr(target, "__wrapped__"):
        target = target.__wrapped__
    code = code_of(target)
    return (code.co_filename, code.co_firstlineno) if code is not None else (tool.module.path, None)


def describe_tool(tool: Tool) -> Frame:
    """A tool as llm-do sees it."""
    plan = tool.plan
    file, line = place_of(tool)
    options = tool.options
    return {
        "name": tool.name,
        "function": tool.function,
        "description": plan.description,
        "input": plan.schema(),
        "output": plan.output(),
        "async": tool.is_async,
        "context": tool.context is not None,
        "plain": plan.plain and plan.refused is None,
        "risk": options.risk,
        "approval": "callable" if callable(options.approval) else options.approval,
        "parallel": options.parallel,
        "paths": plan.paths,
        "file": file,
        "line": line,
        "refused": plan.refused,
    }


# ---- Results -----------------------------------------------------------------------------------------------


class ResultError(Exception):
    """A value that cannot be sent, with what to return instead."""


class Plain:
    """Turns what a tool returns into JSON. Bytes and images go into `blobs`, where those are allowed."""

    def __init__(self, sandbox: Sandbox, what: str, blobs: Optional[List[Frame]]) -> None:
        self.sandbox = sandbox
        self.what = what
        self.blobs = blobs
        self.size = 0
        self.path: List[object] = []
        self.above: Set[int] = set()

    def fail(self, problem: str) -> NoReturn:
        place = "".join(f"[{step!r}]" for step in self.path[:20])
        raise ResultError(f"{self.what}{place} {problem}")

    def count(self, size: int) -> None:
        self.size += size
        if self.size > MAX_RESULT:
            raise ResultError(too_large(f"more than {MAX_RESULT >> 20} MiB", self.what))

    def convert(self, value: Any) -> Json:
        kind = type(value)
        if kind is str:
            self.count(len(value))
            return value
        if value is None or kind is bool or kind is int:
            return value
        if kind is float:
            if value - value != 0.0:
                self.fail(f"is {value}, which JSON does not have: return None or a text instead")
            return value
        if kind is dict:
            return self.dict(value, value.items())
        if kind is list or kind is tuple:
            return self.list(value, value)
        return self.other(value)

    def enter(self, value: object) -> int:
        mark = id(value)
        if mark in self.above:
            self.fail("contains itself: return data without cycles")
        if len(self.above) >= MAX_DEPTH:
            self.path = self.path[:3]
            self.fail(f"is nested more than {MAX_DEPTH} levels deep: return flatter data")
        self.above.add(mark)
        return mark

    def list(self, value: object, items: Iterable[Any]) -> Json:
        mark = self.enter(value)
        if hasattr(items, "__len__"):
            self.count(2 * len(items))  # type: ignore[arg-type]  # Before anything is copied.
        result = []
        self.path.append(0)
        for index, item in enumerate(items):
            self.path[-1] = index
            result.append(self.convert(item))
        self.path.pop()
        self.above.discard(mark)
        return result

    def dict(self, value: object, items: Iterable[Tuple[Any, Any]]) -> Json:
        mark = self.enter(value)
        result: Dict[str, Json] = {}
        self.path.append("")
        for key, item in items:
            name = key if type(key) is str else self.key(key)
            self.path[-1] = name
            if name in result:
                self.fail("is there twice: two keys of a dict have the same text")
            self.count(len(name) + 2)
            result[name] = self.convert(item)
        self.path.pop()
        self.above.discard(mark)
        return result

    def key(self, key: Any) -> str:
        import enum

        if isinstance(key, enum.Enum):
            key = key.value
        if key is None or isinstance(key, bool):
            return {None: "null", True: "true", False: "false"}[key]
        if isinstance(key, str):
            return str.__str__(key)
        if isinstance(key, int):
            return int.__repr__(key)
        self.path.pop()
        self.fail(
            f"has a key of type {type(key).__name__}: keys of JSON are texts, so return them as str(key)"
        )

    def other(self, value: Any) -> Json:
        import datetime
        import decimal
        import enum
        import uuid

        kind = type(value)
        if isinstance(value, enum.Enum):
            return self.convert(value.value)
        family = {parent.__module__.partition(".")[0] for parent in kind.__mro__}
        if "numpy" in family and hasattr(value, "tolist"):
            return self.convert(value.tolist())
        if isinstance(value, str):
            return self.convert(str.__str__(value))
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            return self.convert(float(value))
        if isinstance(value, (bytes, bytearray, memoryview)):
            return self.blob(bytes(value), None, None)
        if isinstance(value, File):
            return self.blob(value.read(self.sandbox), value.media_type, value.name or file_name(value.data))
        if hasattr(kind, "__dataclass_fields__") and not hasattr(kind, "__pydantic_serializer__"):
            import dataclasses

            names = [field.name for field in dataclasses.fields(value)]
            return self.dict(value, [(name, getattr(value, name)) for name in names if hasattr(value, name)])
        if hasattr(kind, "__pydantic_serializer__"):
            return self.convert(pydantic_dump(value))
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return self.dict(value, zip(value._fields, value))
        if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
            if value != value:
                self.fail("is not a time: return None instead")
            return value.isoformat()
        if isinstance(value, datetime.timedelta):
            return write_duration(value)
        if isinstance(value, (decimal.Decimal, uuid.UUID)):
            text = str(value)
            if text.lstrip("-s").startswith(("NaN", "Infinity")):
                self.fail(f"is {text}: return None or a text instead")
            return text
        if isinstance(value, os.PathLike):
            return self.convert(self.sandbox.virtual(os.fsdecode(os.fspath(value))))
        if is_pillow(value):
            data, media_type = pillow_bytes(value)
            return self.blob(data, media_type, None)
        for module, name, advice in (
            ("pandas", "DataFrame", '.to_dict("records"), or write a file and return its path'),
            ("pandas", "Series", ".to_dict() or .tolist()"),
            ("pandas", "Index", ".tolist()"),
            ("polars", "DataFrame", ".to_dicts(), or write a file and return its path"),
            ("polars", "LazyFrame", ".collect().to_dicts()"),
            ("polars", "Series", ".to_list()"),
            ("pyarrow", "Table", ".to_pylist()"),
        ):
            if module in family and any(parent.__name__ == name for parent in kind.__mro__):
                self.fail(f"is a {module} {name}: return {advice}")
        from collections.abc import Iterator, Mapping, Sequence, Set, ValuesView

        if isinstance(value, Set):
            return self.list(value, in_order(value))
        if isinstance(value, Mapping):
            return self.dict(value, value.items())
        if isinstance(value, (list, dict, deque, Sequence, ValuesView)):
            return self.list(value, value)
        if hasattr(value, "__await__"):
            if hasattr(value, "close"):
                value.close()
            self.fail("is a coroutine that was not awaited: make the tool async and return `await …`")
        if isinstance(value, Iterator) or hasattr(value, "__anext__"):
            self.fail(f"is a {kind.__name__}: return a list, for example list(…)")
        if callable(value):
            self.fail(f"is {'a class' if isinstance(value, type) else 'a function'}: return data")
        self.fail(
            f"is of type {show(kind)}, which is not JSON: return text, numbers, lists, dicts, a dataclass or a "
            "Pydantic model"
        )

    def blob(self, data: bytes, media_type: Optional[str], name: Optional[str]) -> Json:
        if self.blobs is None:
            self.fail("is binary: write a file and pass its path")
        if len(data) > MAX_RESULT:
            raise ResultError(too_large(f"more than {MAX_RESULT >> 20} MiB", self.what))
        self.count(len(data) * 4 // 3)
        import base64

        media_type = media_type or media_type_of(data, name)
        self.blobs.append({"name": name, "media_type": media_type, "data": base64.b64encode(data).decode()})
        if not self.path:
            return f"[{media_type}, {len(data)} bytes]"
        return {"$blob": len(self.blobs) - 1}


def too_large(size: str, what: str = "the result") -> str:
    limit = MAX_RESULT >> 20
    return f"{what} is {size} and may be {limit} MiB: return less of it, or write a file and return its path"


def in_order(values: Iterable[Any]) -> List[Any]:
    """A set in an order that is the same each time."""
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=lambda value: (type(value).__name__, repr(value)))


def pydantic_dump(value: Any) -> Any:
    try:
        if hasattr(value, "model_dump"):
            return value.model_dump(mode="json", by_alias=True)
        from pydantic import TypeAdapter

        return TypeAdapter(type(value)).dump_python(value, mode="json", by_alias=True)
    except (ValueError, TypeError) as error:
        raise ResultError(
            f"the result is a {type(value).__name__} that Pydantic cannot write as JSON: {error}"
        ) from error


def is_pillow(value: object) -> bool:
    return any(
        parent.__module__.startswith("PIL.") and parent.__name__ == "Image" for parent in type(value).__mro__
    )


def pillow_bytes(image: Any) -> Tuple[bytes, str]:
    """A Pillow image in its own format where models can read that, else as PNG."""
    from io import BytesIO

    kind = image.format if image.format in ("PNG", "JPEG", "GIF", "WEBP") else "PNG"
    out = BytesIO()
    image.save(out, format=kind)
    return out.getvalue(), f"image/{kind.lower()}"


def file_name(data: Any) -> Optional[str]:
    return os.path.basename(os.fsdecode(os.fspath(data))) if isinstance(data, (str, os.PathLike)) else None


def media_type_of(data: bytes, name: Optional[str]) -> str:
    """By the first bytes, else by the name."""
    for start, media_type in (
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF8", "image/gif"),
        (b"%PDF-", "application/pdf"),
    ):
        if data.startswith(start):
            return media_type
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if name:
        import mimetypes

        guess = mimetypes.MimeTypes().guess_type(name)[0]  # Not the tables of this machine.
        if guess:
            return guess
    return "application/octet-stream"


def write_duration(value: Any) -> str:
    """ISO 8601: `P1DT2H`, `-PT0.5S`."""
    micros = (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
    sign, micros = ("-", -micros) if micros < 0 else ("", micros)
    seconds, micros = divmod(micros, 1_000_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    second = f"{seconds}.{micros:06}".rstrip("0") if micros else f"{seconds}"
    time = (
        (f"{hours}H" if hours else "")
        + (f"{minutes}M" if minutes else "")
        + (f"{second}S" if second != "0" else "")
    )
    text = (f"{days}D" if days else "") + (f"T{time}" if time else "")
    return f"{sign}P{text or 'T0S'}"


# ---- Errors ------------------------------------------------------------------------------------------------


class ArgumentsError(Exception):
    """Arguments that do not fit, with all reasons."""


def message_of(error: BaseException) -> str:
    """What an exception says, even if its `__str__` raises."""
    try:
        text = str(error)
        if not isinstance(text, str):
            raise TypeError
    except BaseException as inner:
        text = f"a {type(error).__name__} whose __str__ raises {type(inner).__name__}"
    return cut(text)


def cut(text: str) -> str:
    if len(text) <= MAX_MESSAGE:
        return text
    notice = " […] "
    return text[: MAX_MESSAGE - 1000 - len(notice)] + notice + text[-1000:]


def source_line(file: Optional[str], line: Optional[int]) -> str:
    """A line of source for a frame, read again, since `linecache` costs an import."""
    try:
        with open(file or os.devnull, encoding="utf-8", errors="replace") as source:
            for number, text in enumerate(source, 1):
                if number == line:
                    return text.strip()[:400]
    except (OSError, ValueError):
        pass
    return ""


def frames_of(error: BaseException, module: Optional[Module]) -> List[Frame]:
    """The frames of the user's own code, and the first one in an installed package that it led to."""
    root = module.root if module else "/"
    real_root = os.path.realpath(root)
    path = module.path if module else ""
    found: List[Tuple[str, int, str]] = []
    left = False
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        file = code.co_filename
        if file != HOST_FILE and not file.startswith("<"):
            own = file == path or (
                not is_installed(file)
                and (is_below(file, root) or is_below(os.path.realpath(file), real_root))
            )
            if own or (is_installed(file) and found and not left):
                found.append((file, trace.tb_lineno, getattr(code, "co_qualname", code.co_name)))
                left = not own
        trace = trace.tb_next
    if len(found) > MAX_FRAMES:  # Endless recursion: where it began and where it ended.
        found = found[: MAX_FRAMES // 2] + found[-MAX_FRAMES // 2 :]
    return [
        {"file": file, "line": line, "function": function, "text": source_line(file, line)}
        for file, line, function in found
    ]


def chain_of(error: BaseException) -> List[BaseException]:
    """An exception and what led to it."""
    chain: List[BaseException] = []
    next_one: Optional[BaseException] = error
    while next_one is not None and next_one not in chain and len(chain) < 10:
        chain.append(next_one)
        next_one = next_one.__cause__ or (None if next_one.__suppress_context__ else next_one.__context__)
    return chain


def describe_error(error: BaseException, module: Optional[Module], importing: bool = False) -> Frame:
    """The fields of an `error` frame."""
    try:
        return _describe_error(error, module, importing)
    except Exception as inner:  # An exception class can break anything that is asked of it.
        message = f"a {type(error).__name__} that cannot be described: {type(inner).__name__}"
        return {
            "kind": "import" if importing else "exception",
            "type": type(error).__name__,
            "message": message,
            "frames": [],
        }


def _describe_error(error: BaseException, module: Optional[Module], importing: bool) -> Frame:
    inner = getattr(error, "exceptions", None)
    if (
        type(error).__name__ in ("ExceptionGroup", "BaseExceptionGroup")
        and isinstance(inner, tuple)
        and len(inner) == 1
    ):
        error = inner[0]
        inner = None
    name = type(error).__name__
    result: Frame = {
        "kind": "import" if importing else "exception",
        "type": name,
        "message": message_of(error),
        "frames": frames_of(error, module),
    }
    if isinstance(inner, tuple):
        parts = [
            f"{type(one).__name__}: {message_of(one)}" for one in inner if isinstance(one, BaseException)
        ]
        result["message"] = cut(result["message"] + "".join(f"\n- {part}" for part in parts))
    elif isinstance(error.__cause__, Exception):
        cause = error.__cause__
        result["message"] = cut(
            f"{result['message']} (because of {type(cause).__name__}: {message_of(cause)})"
        )
    if isinstance(error, CallInterrupted):
        result["kind"] = "cancelled"
    elif isinstance(error, SystemExit):
        result["kind"] = "exit"
        result["message"] = (
            f"the code called sys.exit({'' if error.code is None else show(error.code)}): a tool returns or raises"
        )
    elif name == "ModelRetry":
        result["kind"] = "retry"
        result["message"] = cut(str(getattr(error, "message", None) or message_of(error)))
    elif isinstance(error, ArgumentsError):
        result["kind"] = "arguments"
        result["frames"] = []
    elif isinstance(error, ResultError):
        result["kind"] = "result"
        result["frames"] = []
    elif isinstance(error, CallError):
        result["kind"] = "refused"
        result["cause"] = error.kind
    elif isinstance(error, ToolError):
        result["frames"] = []
    elif isinstance(error, SyntaxError):
        describe_syntax_error(error, result)
    elif isinstance(error, ModuleNotFoundError) and error.name and not is_local(error.name, module):
        result["kind"] = "missing"
        top = error.name.partition(".")[0]
        result["missing"] = error.name if top in sys.modules else top
    else:
        import errno

        refusals = (errno.EPERM, errno.EACCES, errno.EROFS)
        for one in chain_of(error):
            # What is hidden is not there: who is told must know the path to say so.
            if isinstance(one, OSError) and one.errno in (*refusals, errno.ENOENT):
                if one.errno != errno.ENOENT:
                    result["kind"] = "denied"
                result["errno"] = errno.errorcode.get(one.errno, str(one.errno))
                file = one.filename2 or one.filename
                result["path"] = os.fsdecode(file) if isinstance(file, (str, bytes, os.PathLike)) else None
                break
    return result


def describe_syntax_error(error: SyntaxError, result: Frame) -> None:
    """Where the error is, which the exception knows and the traceback doesn't."""
    result["message"] = cut(str(error.msg))
    result["file"] = error.filename
    result["line"] = error.lineno
    result["column"] = error.offset
    text = error.text
    if isinstance(text, str):
        result["text"] = text.rstrip("\n")[:400]
    if error.filename and error.lineno:
        shown = (text or source_line(error.filename, error.lineno)).strip()[:400]
        result["frames"].append(
            {"file": error.filename, "line": error.lineno, "function": "<module>", "text": shown}
        )


def is_local(name: str, module: Optional[Module]) -> bool:
    """Whether a module that is missing looks like one of the project."""
    if module is None:
        return False
    top = name.partition(".")[0]
    folders = {module.root, os.path.dirname(module.path)}
    return any(os.path.exists(os.path.join(folder, top + end)) for folder in folders for end in ("", ".py"))


# ---- The context of a call ---------------------------------------------------------------------------------


class Mount:
    """A folder of the sandbox: `at` is what tools and workers call it, `path` is where it is."""

    __slots__ = ("at", "path", "mode")

    def __init__(self, at: str, path: str, mode: str) -> None:
        self.at = at
        self.path = path
        self.mode = mode

    def __repr__(self) -> str:
        return f"Mount({self.at!r}, {self.mode!r})"


class Sandbox:
    """Which files the call may touch, and how their virtual paths and the real ones belong together."""

    def __init__(self, mounts: Iterable[Frame] = ()) -> None:
        found = [Mount(one["at"], one["path"], one.get("mode", "ro")) for one in mounts]
        #: The innermost come first.
        self.mounts = sorted(found, key=lambda mount: -len(mount.at.rstrip("/"))) if len(found) > 1 else found

    def path(self, path: Any) -> Any:
        """The real path of a virtual one, as a `pathlib.Path`. `ValueError` where no mount holds it."""
        from pathlib import Path

        return Path(self.locate(os.fspath(path)))

    def locate(self, path: str) -> str:
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
        raise ValueError(f"{virtual} is in none of the mounts that this call has ({places})")

    def virtual(self, path: Any) -> str:
        """The virtual path of a real one; what lies in no mount stays as it is."""
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
    """How the run decides what needs approval: `interactive`, `approve_all`, `auto_deny` or `defer`."""

    __slots__ = ("mode",)

    def __init__(self, mode: str) -> None:
        self.mode = mode


class Waiter:
    """One question to llm-do, until it is answered."""

    __slots__ = ("id", "reply", "parked", "future", "loop")

    def __init__(self, id: int, loop: Any = None) -> None:
        self.id = id
        self.reply: Optional[Frame] = None
        self.loop = loop
        self.future: Any = loop.create_future() if loop else None
        self.parked = allocate_lock()
        self.parked.acquire()

    def answer(self, reply: Frame) -> None:
        if self.reply is not None:
            return
        self.reply = reply
        if self.loop is None:
            self.wake()
        else:
            self.loop.call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        if not self.future.done():
            self.future.set_result(None)

    def wake(self) -> None:
        try:
            self.parked.release()
        except RuntimeError:
            pass  # It is awake.


ENDED: Any = {"ended": True}


def value_of(reply: Frame) -> Any:
    """What a callback answered, or the exception that it means."""
    if reply is ENDED:
        raise RuntimeError("the call has ended")
    error = reply.get("error")
    if error is not None:
        raise CallError(str(error.get("kind")), str(error.get("message")))
    return reply.get("value")


class ToolContext:
    """What a tool knows of its call, and its way back into the run.

    In an async tool `call`, `call_tool`, `call_all` and `step` are awaited. The context may be used from
    several threads. When the call has ended, they raise `RuntimeError`.
    """

    def __init__(self, host: Host, call: Call) -> None:
        self._host = host
        self._call = call

    @property
    def run_id(self) -> str:
        return self._call.ctx.get("run") or ""

    @property
    def worker(self) -> str:
        """The worker that called."""
        return self._call.ctx.get("worker") or ""

    @property
    def idempotency_key(self) -> str:
        """The same whenever this very call is made again, after a crash for example."""
        return self._call.ctx.get("key") or ""

    @property
    def approvals(self) -> Approvals:
        return Approvals(self._call.ctx.get("mode") or "")

    @property
    def sandbox(self) -> Sandbox:
        return self._call.sandbox

    @property
    def cancelled(self) -> bool:
        """Whether the call was cancelled, so that a long loop can stop in order."""
        held = interrupts.hold()
        try:
            if not self._call.cancelled:
                self._host.drain()
            return self._call.cancelled
        finally:
            interrupts.release(held)

    def log(self, *values: object, level: str = "info") -> None:
        """Notes something in the journal."""
        text = " ".join(str(value) for value in values)
        held = interrupts.hold()
        try:
            self._host.logs.send(self._call, "log", level, text)
        finally:
            interrupts.release(held)

    def call(self, name: str, input: Any = None, /, **arguments: Any) -> Any:
        """Calls a worker or a tool by name and gives its result. `CallError` where it is refused or fails."""
        return self._ask("call", name, self._input(name, input, arguments))

    def call_tool(self, name: str, input: Any = None, /, **arguments: Any) -> Any:
        """Like `call`, for tools only."""
        return self._ask("call_tool", name, self._input(name, input, arguments))

    def call_all(self, calls: Iterable[Any], return_exceptions: bool = False) -> Any:
        """Makes several calls, `(name, input)`, at once. Results are in the order of the calls.

        All of them are waited for. The first failure is raised, or with `return_exceptions` stands in its
        place.
        """
        inputs = self._inputs(calls)
        host = self._host
        held = interrupts.hold()
        try:
            waiters = [host.ask(self._call, "call", {"name": name, "input": value}) for name, value in inputs]
            replies = [host.wait(self._call, waiter, held) for waiter in waiters]
        finally:
            interrupts.release(held)
        return in_turn(replies, return_exceptions)

    def step(self, name: str, function: Callable[[], Any]) -> Any:
        """Runs an effect of the tool's own once: on resume its recorded value is given instead."""
        host = self._host
        held = interrupts.hold()
        try:
            waiter = host.ask(self._call, "step", {"name": str(name)})
            reply = host.wait(self._call, waiter, held)
        finally:
            interrupts.release(held)
        if not reply.get("go"):
            return value_of(reply)
        outcome: Frame
        failure = None
        try:
            outcome = {"value": self._plain(function(), f"the value of step {name!r}")}
        except BaseException as error:
            failure = error
            outcome = {"error": describe_error(error, self._call.module)}
        held = interrupts.hold()
        try:
            waiter = host.ask(self._call, "step_end", outcome, waiter.id)
            reply = host.wait(self._call, waiter, held)
        finally:
            interrupts.release(held)
        if failure is not None:
            raise failure
        return value_of(reply)

    def _ask(self, op: str, name: str, value: Any) -> Any:
        held = interrupts.hold()
        try:
            waiter = self._host.ask(self._call, op, {"name": name, "input": value})
            reply = self._host.wait(self._call, waiter, held)
        finally:
            interrupts.release(held)
        return value_of(reply)

    def _plain(self, value: Any, what: str) -> Json:
        return Plain(self._call.sandbox, what, None).convert(value)

    def _input(self, name: object, input: Any, arguments: Dict[str, Any]) -> Json:
        if not isinstance(name, str):
            raise TypeError(f"the name of a worker or tool is a text, and not {show(name)}")
        value = self._plain(input, f"the input of {name}")
        if not arguments:
            return value
        more = self._plain(arguments, f"the input of {name}")
        if value is None:
            return more
        if not isinstance(value, dict):
            raise TypeError(f"the input of {name} is given twice, as a value and by keywords")
        return {**value, **more}

    def _inputs(self, calls: Iterable[Any]) -> List[Tuple[str, Json]]:
        result = []
        for one in calls:
            name, value = (one, None) if isinstance(one, str) else one
            result.append((name, self._input(name, value, {})))
        return result


class AsyncToolContext(ToolContext):
    """The context of an async tool."""

    async def call(self, name: str, input: Any = None, /, **arguments: Any) -> Any:
        return value_of(
            await self._reply("call", {"name": name, "input": self._input(name, input, arguments)})
        )

    async def call_tool(self, name: str, input: Any = None, /, **arguments: Any) -> Any:
        return value_of(
            await self._reply("call_tool", {"name": name, "input": self._input(name, input, arguments)})
        )

    async def call_all(self, calls: Iterable[Any], return_exceptions: bool = False) -> Any:
        import asyncio

        waiting = [self._reply("call", {"name": name, "input": value}) for name, value in self._inputs(calls)]
        return in_turn(await asyncio.gather(*waiting), return_exceptions)

    async def step(self, name: str, function: Callable[[], Any]) -> Any:
        reply, cb = await self._question("step", {"name": str(name)}, None)
        if not reply.get("go"):
            return value_of(reply)
        outcome: Frame
        failure = None
        try:
            value = function()
            if hasattr(value, "__await__"):
                value = await value
            outcome = {"value": self._plain(value, f"the value of step {name!r}")}
        except BaseException as error:
            failure = error
            outcome = {"error": describe_error(error, self._call.module)}
        reply, _ = await self._question("step_end", outcome, cb)
        if failure is not None:
            raise failure
        return value_of(reply)

    async def _reply(self, op: str, fields: Frame) -> Frame:
        return (await self._question(op, fields, None))[0]

    async def _question(self, op: str, fields: Frame, cb: Optional[int]) -> Tuple[Frame, int]:
        import asyncio

        waiter = self._host.ask(self._call, op, fields, cb, asyncio.get_running_loop())
        try:
            await waiter.future
        finally:
            self._call.waiters.pop(waiter.id, None)
            self._host.waiters.pop(waiter.id, None)
        return waiter.reply or ENDED, waiter.id


def in_turn(replies: Iterable[Frame], return_exceptions: bool) -> List[Any]:
    results: List[Any] = []
    for reply in replies:
        try:
            results.append(value_of(reply))
        except CallError as error:
            if not return_exceptions:
                raise
            results.append(error)
    return results


# ---- The loop ----------------------------------------------------------------------------------------------


class Host:
    """Serves frames, one after another; async calls at once."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.logs = Logs(channel)
        self.packages = Packages()
        self.modules: Dict[str, Module] = {}
        self.calls: Dict[Optional[int], Call] = {}
        self.waiters: Dict[int, Waiter] = {}
        #: Frames that wait for the main thread.
        self.backlog: deque[Frame] = deque()
        self.next_cb = count(1).__next__
        #: A cancellation came for a call that had ended, and its signal may still be under way.
        self.stale = False
        self.loop: Any = None
        self.looping = False
        self.tasks: Set[Any] = set()
        interrupts.is_stale = self.is_stale

    # -- reading

    def run(self) -> NoReturn:
        """Serves frames until llm-do says `exit` or closes the socket."""
        backlog, channel = self.backlog, self.channel
        while True:
            if not backlog:
                channel.reading.acquire()
                try:
                    if not backlog:  # A thread that waited for an answer may have read frames for us.
                        for frame in channel.receive():
                            self.route(frame)
                finally:
                    channel.reading.release()
            self.serve_backlog()

    def route(self, frame: Frame) -> None:
        """Handles what anybody who reads may handle, and leaves the rest to the main thread."""
        kind = frame["t"]
        if kind == "reply":
            waiter = self.waiters.get(frame["cb"])
            if waiter is not None:
                waiter.answer(frame)
        elif kind == "cancel":
            call = self.calls.get(frame["id"])
            if call is None:
                waiting = [one for one in self.backlog if one["t"] == "call" and one["id"] == frame["id"]]
                for one in waiting:  # It came together with its call.
                    one["cancelled"] = True
                self.stale = self.stale or not waiting
                return
            call.cancelled = True
            if call.task is not None:
                call.task.get_loop().call_soon_threadsafe(call.task.cancel)
        elif kind == "approval":
            self.approve(
                frame
            )  # At once: the call that it is about may be one that a running tool waits for.
        else:
            self.backlog.append(frame)
            if self.looping:
                self.loop.call_soon_threadsafe(self.serve_backlog)

    def drain(self) -> None:
        """Handles what has come already, without waiting."""
        channel = self.channel
        if not channel.reading.acquire(False):
            return  # Somebody reads, and handles it.
        try:
            while channel.readable(0):
                for frame in channel.receive():
                    self.route(frame)
        finally:
            channel.reading.release()

    def is_stale(self) -> bool:
        """Whether a signal was meant for an earlier call, as far as the cancellations tell."""
        self.drain()
        stale, self.stale = self.stale, False
        return stale and not (interrupts.call is not None and interrupts.call.cancelled)

    # -- callbacks

    def ask(self, call: Call, op: str, fields: Frame, cb: Optional[int] = None, loop: Any = None) -> Waiter:
        """Sends a question on behalf of a call. To be called with interrupts held."""
        if _getpid() != HOST_PID:
            raise RuntimeError("a forked process has no way back into the run")
        waiter = Waiter(self.next_cb() if cb is None else cb, loop)
        self.waiters[waiter.id] = call.waiters[waiter.id] = waiter
        frame = {"t": "callback", "id": call.id, "cb": waiter.id, "op": op, **fields}
        if op == "step_end":
            frame = {"t": "step_end", "id": call.id, "cb": waiter.id, **fields}
        try:
            if call.ended:  # Asked after the waiter is known: whoever ends a call answers all that are.
                raise RuntimeError("the call has ended")
            body = to_bytes(encode(frame))
            if len(body) > MAX_RESULT:
                raise ValueError(too_large(f"{len(body):,} bytes", "the input of a call"))
            self.channel.send_bytes(body)
        except BaseException:
            self.waiters.pop(waiter.id, None)
            call.waiters.pop(waiter.id, None)
            raise
        return waiter

    def wait(self, call: Call, waiter: Waiter, held: bool) -> Frame:
        """Waits for an answer. One of the threads that wait reads for all; the others sleep until it wakes
        them.

        `held` is what `Interrupts.hold` said: while this sleeps, and only then, an interrupt may raise.
        """
        reading = self.channel.reading
        try:
            while waiter.reply is None:
                if reading.acquire(False):
                    try:
                        while waiter.reply is None:
                            if self.sleep(lambda: self.channel.readable(NAP_MS), held):
                                for frame in self.channel.receive():
                                    self.route(frame)
                    finally:
                        reading.release()
                else:
                    self.sleep(lambda: waiter.parked.acquire(True, NAP_MS / 1000), held)
        finally:
            self.waiters.pop(waiter.id, None)
            call.waiters.pop(waiter.id, None)
            for other in list(self.waiters.values()):  # Who reads next?
                if other.reply is None and other.loop is None:
                    other.wake()
                    break
        return waiter.reply

    @staticmethod
    def sleep(wait: Callable[[], bool], held: bool) -> bool:
        interrupts.release(held)
        try:
            return wait()
        finally:
            interrupts.hold()

    # -- calls

    def serve(self, frame: Frame) -> None:
        kind = frame["t"]
        if kind == "call":
            self.call(frame)
        elif kind == "load":
            self.channel.send({"t": "loaded", "modules": [self.load(one) for one in frame["modules"]]})
        elif kind == "schema":
            self.schema(frame)
        elif kind == "exit":
            self.exit()

    def exit(self) -> NoReturn:
        import atexit

        try:
            atexit._run_exitfuncs()
        except BaseException:
            pass
        _exit(0)  # Not sys.exit: that would wait for the threads of tools.

    def module(self, given: Frame) -> Module:
        """Imports a module if it was not, and finds its tools."""
        key = given["key"]
        known = self.modules.get(key)
        if known is not None:
            return known
        root = given.get("root") or "/"
        path = given.get("path")
        if path:
            module = Module(key, root, path, None)
            module.object = import_path(path, root)
        else:
            import importlib

            put_on_path(root)
            module = Module(key, root, given["module"], None)
            module.object = importlib.import_module(given["module"])
            module.path = file_of(module.object) or given["module"]
        collect(module, given.get("attribute"), given.get("names"))
        self.modules[key] = module
        return module

    def prepare(self, call: Call) -> None:
        """Puts back what an earlier call may have replaced."""
        sys.stdout = self.stdout
        sys.stderr = self.stderr
        sys.stdin = self.stdin

    def call(self, frame: Frame) -> None:
        call = Call(frame["id"], None, frame.get("ctx"))
        self.calls[call.id] = call
        token = current.set(call)
        self.prepare(call)
        try:
            self.start(call, frame)
        except BaseException as error:
            self.finish(call, {"t": "error", "id": call.id, **describe_error(error, call.module)})
        finally:
            current.reset(token)

    def start(self, call: Call, frame: Frame) -> None:
        """Runs a sync call to its end, or starts an async one."""
        if frame.get("cancelled"):
            raise CallInterrupted("the call was cancelled before it began")
        given = frame["module"]
        module = self.modules.get(given["key"])
        if module is None:
            call.module = Module(given["key"], given.get("root") or "/", given.get("path") or "", None)
            done, value = interrupts.run(call, self.module, (given,), {})
            if not done:
                self.finish(call, {"t": "error", "id": call.id, **describe_error(value, call.module, True)})
                return
            module = value
        call.module = module
        function = frame["function"]
        tool = module.tools.get(function) or module.find(function)
        args: Tuple[Any, ...] = ()
        kwargs: Dict[str, Any] = frame["args"]
        if function == "main" and len(kwargs) == 1 and "input" in kwargs:
            kwargs = tool.plan.entry(kwargs["input"])
        elif not frame.get("plain") or float in map(type, kwargs.values()):
            done, value = interrupts.run(call, self.read, (tool, kwargs, call), {})
            if not done:
                raise value
            kwargs = value
        if tool.context is not None:
            ctx = (AsyncToolContext if tool.is_async else ToolContext)(self, call)
            if tool.context_first:
                args = (ctx,)
            else:
                kwargs[tool.context] = ctx
        if tool.is_async:
            self.start_async(call, tool.target, args, kwargs)
            return
        done, value = interrupts.run(call, tool.target, args, kwargs)
        if done:
            self.finish_with(call, value)
        else:  # Described as user code is run: an exception's `__str__` may never end.
            done, error = interrupts.run(call, describe_error, (value, module), {})
            self.finish(
                call, {"t": "error", "id": call.id, **(error if done else describe_error(error, module))}
            )

    @staticmethod
    def read(tool: Tool, args: Dict[str, Any], call: Call) -> Dict[str, Any]:
        return tool.plan.read(args, call.sandbox)

    def finish_with(self, call: Call, value: Any) -> None:
        """Answers with a value, if it can be sent."""
        kind = type(value)
        blobs: List[Frame] = []
        if not (
            value is None or kind is bool or kind is int or (kind is str and len(value) < MAX_RESULT // 4)
        ):
            plain = Plain(call.sandbox, "the result", blobs)
            done, value = interrupts.run(call, plain.convert, (value,), {})
            if not done:
                if not isinstance(value, (ResultError, CallInterrupted)):
                    message = (
                        f"the result cannot be written as JSON: {type(value).__name__}: {message_of(value)}"
                    )
                    value = ResultError(message).with_traceback(value.__traceback__)
                self.finish(call, {"t": "error", "id": call.id, **describe_error(value, call.module)})
                return
        result = {"t": "result", "id": call.id, "value": value}
        if blobs:
            result["blobs"] = blobs
        self.finish(call, result)

    def finish(self, call: Call, frame: Frame) -> None:
        """Ends a call with its one answer."""
        self.logs.flush(call)
        call.ended = True
        self.calls.pop(call.id, None)
        try:
            body = to_bytes(encode(frame))
            if len(body) > MAX_RESULT + 1024:
                raise ResultError(too_large(f"{len(body):,} bytes"))
        except (ResultError, ValueError, RecursionError) as error:
            problem = (
                error if isinstance(error, ResultError) else ResultError(f"the result is not JSON: {error}")
            )
            body = to_bytes(encode({"t": "error", "id": call.id, **describe_error(problem, call.module)}))
        # Before the answer is sent: a thread that still waits may be the one that reads the next frame, and then
        # must find that it has nothing to wait for.
        for waiter in list(call.waiters.values()):
            waiter.answer(ENDED)
        self.channel.send_bytes(body)

    # -- async calls

    def start_async(self, call: Call, target: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        import asyncio

        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        call.task = self.loop.create_task(self.run_async(call, target, args, kwargs))
        self.tasks.add(call.task)
        if not self.looping:
            self.run_loop()

    async def run_async(self, call: Call, target: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        import asyncio

        try:
            try:
                value = target(*args, **kwargs)
                if hasattr(value, "__await__"):
                    value = await value
                if _getpid() != HOST_PID:
                    _exit(0)  # A forked child that came back from the tool.
            except asyncio.CancelledError as error:
                if not call.cancelled:
                    raise
                raise CallInterrupted("the call was cancelled").with_traceback(error.__traceback__) from None
        except BaseException as error:
            self.finish(call, {"t": "error", "id": call.id, **describe_error(error, call.module)})
        else:
            self.finish_with(call, value)
        finally:
            self.tasks.discard(call.task)
            if not self.tasks:
                self.loop.stop()

    def run_loop(self) -> None:
        """Runs the event loop until no async call is left. It is kept, with what tools put on it."""
        loop = self.loop
        loop.add_reader(self.channel.fd, self.on_readable)
        loop.call_soon(self.serve_backlog)  # What came together with the call that starts the loop.
        self.looping = True
        try:
            while self.tasks:
                try:
                    loop.run_forever()
                except BaseException as error:  # From a task or a callback that a tool left behind.
                    self.logs.send(
                        self.logs.nobody, "log", "error", f"in the event loop: {type(error).__name__}"
                    )
                    if loop.is_closed():
                        _exit(1)
        finally:
            self.looping = False
            loop.remove_reader(self.channel.fd)

    def on_readable(self) -> None:
        if self.channel.reading.acquire(False):
            try:
                for frame in self.channel.receive():
                    self.route(frame)
            finally:
                self.channel.reading.release()
        self.serve_backlog()

    def serve_backlog(self) -> None:
        while self.backlog:
            self.serve(self.backlog.popleft())

    # -- discovery

    def load(self, given: Frame) -> Frame:
        """Imports a module and describes its tools."""
        call = Call(None)
        call.captured = []
        call.module = Module(given["key"], given.get("root") or "/", given.get("path") or "", None)
        token = current.set(call)
        self.prepare(call)
        report: Frame = {"key": given["key"], "functions": [], "exposes": "nothing", "error": None}
        try:
            done, value = interrupts.run(call, self.describe, (given, report), {})
            if not done:
                report["error"] = describe_error(value, call.module, True)
            path = given.get("path") or ""
            files = local_files(
                call.module.root, os.path.join(path, "__init__.py") if os.path.isdir(path) else path
            )
            module = self.modules.get(given["key"])
            if module is not None:
                files = local_files(module.root, file_of(module.object) or module.path)
            report["files"] = [file for file in files if os.path.isfile(file)]
            report["packages"] = self.packages.imported(call.module.root)
        finally:
            self.logs.flush(call)
            current.reset(token)
        call.ended = True
        report["logs"] = "".join(call.captured)
        return report

    def describe(self, given: Frame, report: Frame) -> None:
        module = self.module(given)
        report["exposes"] = module.exposes
        report["functions"] = [describe_tool(tool) for tool in module.tools.values()]
        if module.missing is not None:
            report["error"] = {
                "kind": "import",
                "type": "MissingName",
                "message": module.missing,
                "frames": [],
            }
        elif module.duplicates:
            first, second = module.duplicates[0]
            frames = [
                {"file": file, "line": line, "function": one.function, "text": source_line(file, line)}
                for one in (first, second)
                for file, line in (place_of(one),)
            ]
            lines = " and ".join(f"line {frame['line']} ({frame['function']})" for frame in frames)
            report["error"] = {
                "kind": "import",
                "type": "DuplicateTool",
                "message": f"{module.path} has two tools named `{first.name}`, at {lines}: give one of them another name",
                "frames": frames,
            }

    def schema(self, frame: Frame) -> None:
        """The JSON Schema of a class, for `schema_in_ref` and `schema_out_ref`."""
        call = Call(None)
        call.module = Module(frame["key"], frame.get("root") or "/", frame.get("path") or "", None)
        token = current.set(call)
        self.prepare(call)
        try:
            done, value = interrupts.run(call, self.schema_of, (frame,), {})
        finally:
            self.logs.flush(call)
            current.reset(token)
        if done:
            self.channel.send({"t": "schema", "schema": value})
        else:
            self.channel.send({"t": "error", **describe_error(value, call.module, True)})

    def schema_of(self, frame: Frame) -> Json:
        names = frame["class"].split(".")
        # Its own key: the module may expose no tools, and need not.
        value = self.module(
            {**frame, "key": f"schema {frame['key']}", "names": None, "attribute": None}
        ).object
        for name in names:
            inner = getattr(value, name, None)
            if inner is None:
                known = [one for one, what in vars(value).items() if isinstance(what, type)]
                raise AttributeError(
                    f"{frame.get('path') or frame.get('module')} has no class `{name}`{near(name, known)}"
                )
            value = inner
        return schema_of_type(value)

    def approve(self, frame: Frame) -> None:
        """Asks the function that `@tool(approval=…)` named."""
        call = Call(frame["id"])
        given = frame["module"]
        call.module = self.modules.get(given["key"]) or Module(
            given["key"], given.get("root") or "/", given.get("path") or "", None
        )
        token = current.set(call)
        try:
            if get_ident() == interrupts.main and interrupts.call is None:
                done, value = interrupts.run(call, self.verdict, (frame,), {})
            else:
                try:
                    done, value = True, self.verdict(frame)
                except BaseException as error:
                    done, value = False, error
            self.logs.flush(call)
        finally:
            current.reset(token)
        if done:
            self.channel.send({"t": "result", "id": call.id, "value": value})
        else:
            self.channel.send({"t": "error", "id": call.id, **describe_error(value, call.module)})

    def verdict(self, frame: Frame) -> str:
        tool = self.module(frame["module"]).find(frame["function"])
        approval = tool.options.approval
        value = approval
        if callable(approval):
            import inspect

            parameters = inspect.signature(approval).parameters
            named = [one for one in parameters.values() if one.kind is not one.VAR_KEYWORD]
            args = {**tool.plan.defaults(), **frame["args"]}
            if len(parameters) == 1 and len(named) == 1 and named[0].name in ("args", "arguments", "input"):
                value = approval(args)
            elif len(named) < len(parameters):
                value = approval(**args)
            else:
                value = approval(**{name: args[name] for name in parameters if name in args})
        if value not in RULES:
            raise ResultError(
                f"the approval of {tool.name} is one of {', '.join(RULES)}, and not {show(value)}"
            )
        return str(value)

    # -- the process

    def install(self) -> None:
        """Puts the streams and the module `llm_do` where tools find them, and the host where they don't."""
        self.stdin = Input()
        self.stdout = Output(self.logs, "stdout", 1)
        self.stderr = Output(self.logs, "stderr", 2)
        sys.__stdin__ = sys.stdin = self.stdin  # type: ignore[assignment, misc]
        sys.__stdout__ = sys.stdout = self.stdout  # type: ignore[assignment, misc]
        sys.__stderr__ = sys.stderr = self.stderr  # type: ignore[assignment, misc]
        sys.dont_write_bytecode = True
        sys.argv = ["llm-do"]
        make = type(sys)
        self.main = sys.modules["__main__"]  # Kept: a module that nobody holds is emptied.
        sys.modules["__main__"] = make("__main__")
        public = make("llm_do", "What tools import from llm-do.")
        for name, value in (
            ("tool", tool),
            ("ToolContext", ToolContext),
            ("AsyncToolContext", AsyncToolContext),
            ("ModelRetry", ModelRetry),
            ("AskAgain", ModelRetry),
            ("ToolError", ToolError),
            ("CallError", CallError),
            ("Image", Image),
            ("File", File),
            ("Field", Field),
        ):
            setattr(public, name, value)
            value.__module__ = "llm_do"
        public.__all__ = [name for name in vars(public) if not name.startswith("_")]  # type: ignore[attr-defined]
        sys.modules["llm_do"] = public
        os.register_at_fork(after_in_child=self.forked)

    def forked(self) -> None:
        """In a child: no protocol, and what is printed goes to the pipes."""
        os.close(self.channel.fd)
        interrupts.call = None
        self.stdout.forked()
        self.stderr.forked()


def main(argument: str) -> None:
    fd = int(argument)
    # Out of the reach of code that closes or writes to low numbers, whatever the limit of open files is.
    limit = os.sysconf("SC_OPEN_MAX")
    try:
        high = os.dup2(fd, (min(limit, 4096) if limit > 0 else 4096) - 7, inheritable=False)
    except OSError:
        high = os.dup(fd)
    os.close(fd)
    channel = Channel(high)
    host = Host(channel)
    host.install()
    import faulthandler

    faulthandler.enable(2, all_threads=False)  # A crash says on standard error in which line it was.
    _set_signal(_signal.SIGINT, interrupts.on_signal)
    version = "{}.{}.{}".format(*sys.version_info)
    channel.send(
        {
            "t": "ready",
            "version": version,
            "executable": sys.executable,
            "prefix": sys.prefix,
            "pid": HOST_PID,
        }
    )
    try:
        host.run()
    except BaseException:  # A fault of this file. Leaving in order would wait for the threads of tools.
        import traceback

        os.write(2, traceback.format_exc().encode("utf-8", "replace"))
        _exit(70)


if __name__ == "__main__":
    main(sys.argv[1])
