"""What Python tools import from llm-do, and the client with which Python programs call workers.

    from llm_do import load

    with load("my-project") as program:
        print(program.summarizer(text="A long text."))

A tool is an ordinary function. Type hints and the docstring make its schema:

    from llm_do import tool

    @tool(risk="read")
    def word_count(text: str) -> int:
        \"\"\"Counts the words of a text.\"\"\"
        return len(text.split())

In a run, llm-do provides this module, and this package is not needed. Install the package for your editor and
your type checker, and for unit tests of your tools. A test makes a `ToolContext` itself:

    ctx = ToolContext(calls={"summarizer": lambda input: "short"})
    assert my_tool(ctx, "long text") == "short"
"""

# Do not edit the file `python/llm_do/__init__.py`: `crates/python/host/join.py --write` makes it from the
# sections in `crates/python/host/src`.

from __future__ import annotations

import os

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
        Optional,
        Sequence,
        Tuple,
        TypeVar,
        Union,
        overload,
    )

    from .client import Answer as Answer
    from .client import Chat as Chat
    from .client import Disconnected as Disconnected
    from .client import Event as Event
    from .client import Events as Events
    from .client import Failed as Failed
    from .client import InvalidInput as InvalidInput
    from .client import InvalidOutput as InvalidOutput
    from .client import LimitReached as LimitReached
    from .client import LlmDoError as LlmDoError
    from .client import NotLoaded as NotLoaded
    from .client import Program as Program
    from .client import Question as Question
    from .client import Refused as Refused
    from .client import Reply as Reply
    from .client import Result as Result
    from .client import Stream as Stream
    from .client import StubsOutOfDate as StubsOutOfDate
    from .client import Suspended as Suspended
    from .client import Usage as Usage
    from .client import Worker as Worker
    from .client import aload as aload
    from .client import load as load


def __getattr__(name: str) -> object:
    """The client is imported when it is used: tools don't need it."""
    if not name.startswith("_") and name != "client":
        from importlib import import_module

        client = import_module(".client", __name__)
        if name in client.__all__:
            return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
