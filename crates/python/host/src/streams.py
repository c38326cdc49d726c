# Streams: calls, and what their code prints.


class Call:
    """One call from llm-do: its output, and its questions that have no answer yet."""

    __slots__ = (
        "id",
        "module",
        "ctx",
        "sandbox",
        "ended",
        "cancelled",
        "interrupted",
        "waiters",
        "logged",
        "lines",
        "captured",
        "task",
        "idle_asked",
    )

    def __init__(
        self, id: Optional[int], module: Optional[Module] = None, ctx: Optional[Frame] = None
    ) -> None:
        self.id = id
        self.module = module
        self.ctx: Frame = ctx or {}
        mounts = self.ctx.get("mounts") or ()
        self.sandbox = Sandbox([Mount(one["at"], one["path"], one.get("mode", "ro")) for one in mounts])
        self.ended = False
        self.cancelled = False
        #: Whether its code or its task was interrupted because of that.
        self.interrupted = False
        self.waiters: Dict[int, Waiter] = {}
        self.logged = 0
        #: Output without a line end yet, by stream and thread.
        self.lines: Dict[Tuple[str, int], str] = {}
        #: Collects the output while modules are loaded, instead of frames.
        self.captured: Optional[List[str]] = None
        self.task: Any = None
        #: The number of llm-do's question whether its code waits, while it has no answer.
        self.idle_asked: Optional[int] = None

    def has_open_questions(self) -> bool:
        return any(waiter.reply is None for waiter in list(self.waiters.values()))


#: The call of the running code: in the main thread, in tasks, in threads of calls, and in threads that got the
#: context.
current: ContextVar[Optional[Call]] = ContextVar("llm_do_call", default=None)


class Logs:
    """Sends the output of tools as frames that name the call."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.lock = RLock()  # Reentrant: a finaliser may print while its thread prints.
        self.no_call = Call(None)
        #: The calls that run in threads of their own.
        self.beside: Set[Call] = set()

    def owner(self) -> Call:
        """The call of the running code. Output of a thread without context is the sync call's, if only one runs."""
        return current.get() or (None if self.beside else interrupts.call) or self.no_call

    def write(self, stream: str, text: str) -> None:
        held = interrupts.hold()
        try:
            call = self.owner()
            # `print` writes a line in pieces. The lines of several threads must not mix.
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
        """Sends one log frame, unless the call has reached its limit. The caller must hold interrupts."""
        left = MAX_LOG - call.logged
        if left < 0:
            return
        call.logged += len(text) + 1
        if len(text) > left:
            self._emit(call, stream, level, text[:left])
            text = f"[output of this call after {MAX_LOG >> 10} KiB was dropped]"
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
        """Sends lines without a line end, when their call ends."""
        if call.lines:
            with self.lock:
                lines, call.lines = call.lines, {}
                for (stream, _), rest in lines.items():
                    self.send(call, stream, "info", rest)


class Output(TextIOBase):
    """`sys.stdout` and `sys.stderr` of tools. `close` has no effect."""

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
        """A forked child has no socket: its output goes to the pipe that it shares with its parent."""
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
    """`sys.stdout.buffer`. Bytes are written as text."""

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
    """`sys.stdin` of tools. Reading from it raises."""

    encoding = "utf-8"
    errors = "strict"

    def _none(self, *_args: object) -> NoReturn:
        raise EOFError("a tool has no standard input: take the value as a parameter, or get it with ctx.call")

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
