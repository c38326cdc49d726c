"""The process in which llm-do runs Python tools.

llm-do starts this file as `python -I -X utf8 host.pyc 3`, and for programs of models with `-s` instead of `-I`. The argument is the number of a stream socket, over
which the two exchange frames: a length of four bytes and a JSON object. The file needs only the standard
library, and runs on Python 3.9 to 3.13.

Its sections are joined from `crates/python/host/src` and `python/llm_do/__init__.py`, in the order of the file
`ORDER` there.

One thread reads the socket. The main thread runs the calls that take turns, and the event loop. Code that waits there for
a call of its own lets the main thread serve other calls meanwhile, above it on the stack. Calls that may run
beside others have threads of their own.

Three rules explain most of what looks unusual here:

- The start is fast. The top of the file imports only the modules that framing needs. Functions import
  `typing`, `inspect`, `asyncio` and other slow modules themselves.
- User code runs in this process, and may replace anything in a module. So this file binds the functions that
  a call needs to names of its own before any user code runs.
- An interrupt (SIGINT) raises only in user code, so a frame is always written completely.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` converts numbers to enums at each call.
import os
import sys
from _collections import deque  # type: ignore[import-not-found]  # `collections` imports much more.
from _thread import RLock, allocate_lock, get_ident, start_new_thread
from contextvars import ContextVar
from io import TextIOBase, UnsupportedOperation
from itertools import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import (
        Any,
        Awaitable,
        Callable,
        Dict,
        Iterable,
        List,
        Literal,
        Mapping,
        NoReturn,
        Optional,
        Sequence,
        Set,
        Tuple,
        TypeVar,
        Union,
        overload,
    )

    Json = Any
    Frame = Dict[str, Any]

_exit = os._exit
_getpid = os.getpid
_read = os.read
_write = os.write
_set_signal = _signal.signal
_signal_mask = _signal.pthread_sigmask
_kill_thread = _signal.pthread_kill

HOST_FILE = (lambda: 0).__code__.co_filename
HOST_PID = _getpid()

#: Largest frame to the host. A greater length means that the stream is broken.
MAX_FRAME = 64 << 20
#: Largest result. No model reads more, and the journal would hold it.
MAX_RESULT = 16 << 20
#: Most characters that one call may print.
MAX_LOG = 256 << 10
MAX_MESSAGE = 4_000
#: Most notes about one result.
MAX_NOTES = 5
#: Deepest nesting of a value. JSON readers stop at 128 levels, and the frame needs some of them.
MAX_DEPTH = 100
MAX_FRAMES = 20
