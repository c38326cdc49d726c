"""What Python tools import from llm-do.

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
