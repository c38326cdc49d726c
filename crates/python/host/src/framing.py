# Framing: JSON frames on the socket to llm-do.


def _no_default(value: object) -> NoReturn:
    raise TypeError(f"{type(value).__name__} is not JSON")


class _Scanning:
    """The default options, as attributes that the scanner of `_json` reads."""

    strict = False
    object_hook = object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


def _make_json() -> Tuple[Callable[[object], str], Callable[[str, int], Tuple[Json, int]]]:
    """Makes a writer of compact JSON without NaN, and a reader.

    They use the C functions of the `json` module without importing it. The import would be most of the start
    time, and a tool that patches the module does not affect them.
    """
    try:
        from _json import encode_basestring, make_encoder, make_scanner
    except ImportError:  # A Python without the C functions.
        import json

        encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return encoder.encode, json.JSONDecoder(strict=False).raw_decode
    chunks = make_encoder(None, _no_default, encode_basestring, None, ":", ",", False, False, False)
    join = "".join
    return (lambda value: join(chunks(value, 0))), make_scanner(_Scanning)  # type: ignore[arg-type]


encode, _scan = _make_json()


def decode(text: str) -> Json:
    """Reads JSON that has no white space around it."""
    return _scan(text, 0)[0]


def to_bytes(text: str) -> bytes:
    """Text as UTF-8. A lone surrogate becomes U+FFFD, a pair of surrogates becomes its character."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


class Channel:
    """The socket to llm-do. Every thread may send. One thread receives."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._writing = allocate_lock()
        self._out: deque[bytes] = deque()
        self._in = bytearray()

    def send(self, message: Frame) -> None:
        """Sends one frame. The caller must hold interrupts."""
        self.send_bytes(to_bytes(encode(message)))

    def send_bytes(self, body: bytes) -> None:
        """Sends an encoded frame.

        The frame is queued, and the thread that holds the lock writes the queue. No thread waits for the lock,
        so a finaliser that prints while its thread is writing can't cause a deadlock.
        """
        if _getpid() != HOST_PID:  # A fork by C code, which runs no handlers of Python.
            return
        out = self._out
        out.append(len(body).to_bytes(4, "big") + body)
        while out:
            if not self._writing.acquire(False):
                return  # The holder checks the queue again after it releases the lock.
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
            _exit(0)  # llm-do has ended, or a tool has closed the descriptor.

    def receive(self) -> List[Frame]:
        """Reads once and returns the frames. Ends the process if llm-do has closed the socket."""
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
                _write(2, b"The Python host received a frame that is too large, and stops.\n")
                _exit(1)
            if len(pending) < end:
                break
            frames.append(decode(pending[4:end].decode("utf-8", "replace")))
            del pending[:end]
        return frames
