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
#: How long, in seconds, the pipes of a process that has ended are still read, and how long a process that has closed one of
#: them may take to end. Another process may hold the other end for ever.
LAST_WORDS = 1.0
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
        except (OSError, ValueError) as error:
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
        #: Those that have been started.
        self.threads: List[threading.Thread] = []
        try:
            readers = [self._start(self._read, "reader"), self._start(self._read_log, "log")]
            self._start(self._write, "writer")
            self._start(lambda: self._watch(readers), "watcher")
        except BaseException as error:
            self._abandon()
            if isinstance(error, RuntimeError):  # There are too many threads, or the interpreter shuts down.
                raise NotLoaded(f"cannot start a thread for {arguments[0]}: {error}") from error
            raise
        _OPEN.add(self)

    def _start(self, target: Callable[[], None], name: str) -> threading.Thread:
        thread = threading.Thread(target=target, name=f"llm-do {name}", daemon=True)
        thread.start()
        self.threads.append(thread)
        return thread

    def _abandon(self) -> None:
        """Ends a process that has not all of its threads."""
        self.process.kill()
        self.process.wait()
        self._fail("the program was not loaded")
        self.outgoing.put(None)
        if not self.threads:
            for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
                if stream is not None:
                    stream.close()

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
                thread.join(2 * LAST_WORDS)
        for stream in (self.process.stdout, self.process.stderr):
            # One that another process holds is still read: closing it would wait for that.
            if stream is not None and not any(thread.is_alive() for thread in self.threads):
                stream.close()
        _OPEN.discard(self)

    # -- threads. A thread of its own writes, so that an interrupt never leaves half a line. However one of them ends, the
    # process ends then, and the watcher settles all that waits.

    def _write(self) -> None:
        stdin = _stream(self.process.stdin)
        try:
            while True:
                line = self.outgoing.get()
                if line is None:
                    return
                stdin.write(line)
                if self.outgoing.empty():
                    stdin.flush()
        except (OSError, ValueError):
            self._end()  # It reads no more requests.
        except BaseException as error:
            self._give_up(f"the writer of requests has failed: {error!r}")
        finally:
            try:
                stdin.close()
            except OSError:
                pass

    def _read(self) -> None:
        try:
            for line in _stream(self.process.stdout):
                try:
                    message = json.loads(line)
                    if not isinstance(message, dict):
                        raise ValueError("no object")
                    self._take(message)
                except Exception:
                    self._give_up(f"llm-do has written what is no message: {line[:200]!r}")
                    return
            self._end()  # It answers no more requests.
        except BaseException as error:
            self._give_up(f"the reader of answers has failed: {error!r}")

    def _end(self) -> None:
        """Kills the process unless it ends by itself."""
        try:
            # Closed by `close`, it may still end its runs.
            self.process.wait(ENDS_WITHIN if self.closed else LAST_WORDS)
        except subprocess.TimeoutExpired:
            self._give_up("llm-do has closed its pipes")

    def _give_up(self, why: str) -> None:
        self._fail(why)
        self.process.kill()

    def _watch(self, readers: Sequence[threading.Thread]) -> None:
        why = "the process can't be waited for"
        try:
            self.process.wait()
            for reader in readers:
                reader.join(LAST_WORDS)
            why = f"llm-do has ended ({self._status()})"
            if self.closed:
                why = "the program was closed"
            elif self.said:
                why += ": " + "\n".join(self.said.copy())
        finally:
            self._fail(why)
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
                except BaseException as error:  # The fault of a listener is no fault of the others.
                    request.settle(None, error)
            return
        refused = message.get("error")
        if message.get("id", -1) is None and isinstance(refused, dict):
            # Which request it was is not known, and so no call could be sure of its answer.
            self._give_up(f"llm-do has not understood a request: {of_response(refused).message}")
            return
        # Read first: what can't be read leaves the request waiting for the end of the process.
        failure = None if refused is None else of_response(refused)
        with self.lock:
            request = self.pending.pop(message.get("id", -1), None)
        if request is not None:
            request.settle(message.get("result"), failure)

    def _fail(self, why: str) -> None:
        with self.lock:
            if self.dead is None:
                self.dead = why
            left, self.pending = list(self.pending.values()), {}
        for request in left:
            request.settle(None, Disconnected(self.dead))

    def _read_log(self) -> None:
        try:
            for line in _stream(self.process.stderr):
                text = line.decode("utf-8", "replace").rstrip()
                self.said.append(text)
                if self.loaded:
                    _LOG.warning("%s", text)
        except BaseException as error:  # The process would wait for ever to write more.
            self._give_up(f"the reader of the log has failed: {error!r}")


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
