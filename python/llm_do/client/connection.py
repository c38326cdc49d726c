"""The process of llm-do, and the requests to it: JSON-RPC 2.0 over its stdin and stdout (`docs/reference/stdio.md`)."""

from __future__ import annotations

import atexit
import json
import logging
import os
import queue
import shutil
import subprocess
import sysconfig
import threading
import weakref
from collections import deque
from concurrent.futures import Future, InvalidStateError
from typing import IO, Any, Callable, Deque, Dict, List, Mapping, Optional, Sequence

from .errors import Disconnected, InvalidInput, LlmDoError, NotLoaded, of_response

PROTOCOL = 1
#: Longest request, in bytes.
LONGEST_LINE = 16 << 20
#: How long the process may take to end its runs, in seconds, before it is killed.
ENDS_WITHIN = 15.0
_LOG = logging.getLogger("llm_do")
_NAME = "llm-do.exe" if os.name == "nt" else "llm-do"

Hear = Callable[[str, Dict[str, Any]], None]


def find_binary(given: Optional[str] = None) -> str:
    """The program: as given, as `LLM_DO_BIN` says, beside this module, or on the `PATH`."""
    named = given or os.environ.get("LLM_DO_BIN")
    if named:
        found = shutil.which(named)
        if found is None:
            what = "binary" if given else "LLM_DO_BIN"
            raise NotLoaded(f"{what}: there is no program {named!r}")
        return found
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    beside = [os.path.join(package, "bin", _NAME), os.path.join(sysconfig.get_path("scripts"), _NAME)]
    for path in beside:
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    found = shutil.which(_NAME)
    if found is None:
        raise NotLoaded("llm-do is not installed: put it on the PATH, or name the program in LLM_DO_BIN")
    return found


class Waited:
    """Something that is under way and will have a result."""

    def __init__(self) -> None:
        self.future: Future[Any] = Future()

    def cancel(self) -> None:
        """Has it end early."""
        raise NotImplementedError

    def wait(self) -> Any:
        """The result. An interrupt cancels it."""
        try:
            return self.future.result()
        except BaseException as error:
            if not isinstance(error, LlmDoError):
                self.cancel()
            raise

    def settle(self, result: Any, error: Optional[BaseException]) -> None:
        """Sets the result, unless somebody has given up waiting for it."""
        try:
            if error is not None:
                self.future.set_exception(error)
            else:
                self.future.set_result(result)
        except InvalidStateError:
            pass


class Request(Waited):
    """A request that is under way."""

    def __init__(self, connection: Connection, id: int, hear: Optional[Hear]) -> None:
        super().__init__()
        self.connection = connection
        self.id = id
        self.hear = hear

    def cancel(self) -> None:
        """Takes the request back; a run that it has started is cancelled."""
        self.connection.notify("cancel", {"request": self.id})


class Connection:
    """A process of llm-do. Threads and tasks share it."""

    def __init__(
        self,
        arguments: Sequence[str],
        env: Optional[Mapping[str, str]] = None,
        cwd: Optional[str] = None,
    ) -> None:
        try:
            self.process = subprocess.Popen(
                list(arguments),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=None if env is None else dict(env),
                cwd=cwd,
                # Ctrl-C is for this program, which then cancels its calls.
                start_new_session=True,
            )
        except OSError as error:
            raise NotLoaded(f"cannot start {arguments[0]}: {error}") from error
        self.owner = os.getpid()
        self.pending: Dict[int, Request] = {}
        self.lock = threading.Lock()
        self.next_id = 0
        self.closed = False
        #: Why there is no process any more.
        self.dead: Optional[str] = None
        self.said: Deque[str] = deque(maxlen=40)
        self.loaded = False
        self.outgoing: queue.SimpleQueue[Optional[bytes]] = queue.SimpleQueue()
        threads = (self._read, "reader"), (self._write, "writer"), (self._read_log, "log")
        self.threads = [
            threading.Thread(target=target, name=f"llm-do {name}", daemon=True) for target, name in threads
        ]
        for thread in self.threads:
            thread.start()
        _OPEN.add(self)

    def request(self, method: str, params: Dict[str, Any], hear: Optional[Hear] = None) -> Request:
        """Sends a request. `hear` gets its notifications, in the thread that reads them."""
        if self.owner != os.getpid():
            raise Disconnected("the program was loaded in another process: load it in this one")
        with self.lock:
            request = Request(self, self.next_id, hear)
            self.next_id += 1
            dead = self.dead
            if dead is None:
                self.pending[request.id] = request
        if dead is not None:
            raise Disconnected(dead)
        try:
            self._send({"jsonrpc": "2.0", "id": request.id, "method": method, "params": params})
        except BaseException:
            with self.lock:
                self.pending.pop(request.id, None)
            raise
        return request

    def notify(self, method: str, params: Dict[str, Any]) -> None:
        """Sends a notification. Without a process it has no effect."""
        if self.dead is None and self.owner == os.getpid():
            self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def _send(self, message: Dict[str, Any]) -> None:
        text = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        # Lone surrogates, which JSON texts of Python can hold, have no UTF-8.
        line = text.encode("utf-8", "replace")
        if len(line) > LONGEST_LINE:
            raise InvalidInput("the input is longer than 16 MiB", kind="invalid_input")
        self.outgoing.put(line + b"\n")

    def close(self) -> None:
        """Ends the process: its runs are cancelled, and those that wait are suspended."""
        if self.owner != os.getpid():
            return
        with self.lock:
            was_closed, self.closed = self.closed, True
        if not was_closed:
            self.outgoing.put(None)
        try:
            self.process.wait(ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for thread in self.threads:
            if thread is not threading.current_thread():
                thread.join(1.0)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        _OPEN.discard(self)

    # -- threads. A thread of its own writes, so that an interrupt never leaves half a line.

    def _write(self) -> None:
        stdin = _stream(self.process.stdin)
        try:
            while True:
                line = self.outgoing.get()
                if line is None:
                    break
                stdin.write(line)
                if self.outgoing.empty():
                    stdin.flush()
        except (OSError, ValueError):
            pass  # The process has ended, which the reader reports.
        finally:
            try:
                stdin.close()
            except OSError:
                pass

    def _read(self) -> None:
        stdout = _stream(self.process.stdout)
        for line in stdout:
            try:
                message = json.loads(line)
                if not isinstance(message, dict):
                    raise ValueError("no object")
            except ValueError:
                self._fail(f"llm-do has written what is no message: {line[:200]!r}")
                self.process.kill()
                break
            self._take(message)
        self.process.wait()
        # Its last words come over another pipe.
        self.threads[2].join(1.0)
        said = "\n".join(self.said)
        ended = "the program was closed" if self.closed else f"llm-do has ended ({self._status()})"
        self._fail(f"{ended}: {said}" if said and not self.closed else ended)
        self.outgoing.put(None)

    def _status(self) -> str:
        code = self.process.returncode
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def _take(self, message: Dict[str, Any]) -> None:
        params = message.get("params")
        if "method" in message and isinstance(params, dict):
            with self.lock:
                request = self.pending.get(params.get("request", -1))
            if request is not None and request.hear is not None:
                try:
                    request.hear(str(message["method"]), params)
                except Exception as error:  # The fault of whoever listens is no fault of the others.
                    request.settle(None, error)
            return
        refused = message.get("error")
        if message.get("id", -1) is None and isinstance(refused, dict):
            # Which request it was is not known, and so no call could be sure of its answer.
            self._fail(f"llm-do has not understood a request: {of_response(refused).message}")
            self.process.kill()
            return
        with self.lock:
            request = self.pending.pop(message.get("id", -1), None)
        if request is None:
            return
        request.settle(message.get("result"), None if refused is None else of_response(refused))

    def _fail(self, why: str) -> None:
        with self.lock:
            if self.dead is None:
                self.dead = why
            left, self.pending = list(self.pending.values()), {}
        for request in left:
            request.settle(None, Disconnected(self.dead))

    def _read_log(self) -> None:
        for line in _stream(self.process.stderr):
            text = line.decode("utf-8", "replace").rstrip()
            self.said.append(text)
            if self.loaded:
                _LOG.warning("%s", text)


def _stream(stream: Optional[IO[bytes]]) -> IO[bytes]:
    if stream is None:
        raise RuntimeError("the process was started without pipes")
    return stream


_OPEN: weakref.WeakSet[Connection] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    connections: List[Connection] = list(_OPEN)
    for connection in connections:
        if connection.owner == os.getpid() and not connection.closed:
            connection.closed = True
            connection.outgoing.put(None)
    for connection in connections:
        connection.close()
