"""Calls workers of llm-do from Python: `from llm_do import load`.

Only the standard library is used. The guide is `docs/guides/python-client.md`.
"""

from .chat import Chat, Reply
from .errors import (
    Disconnected,
    Failed,
    InvalidInput,
    InvalidOutput,
    LimitReached,
    LlmDoError,
    NotLoaded,
    Refused,
    StubsOutOfDate,
    Suspended,
)
from .program import Program, aload, load
from .question import Answer, Question
from .result import Event, Result, Usage
from .stream import Events, Stream
from .worker import Worker

__all__ = [
    "Answer",
    "Chat",
    "Disconnected",
    "Event",
    "Events",
    "Failed",
    "InvalidInput",
    "InvalidOutput",
    "LimitReached",
    "LlmDoError",
    "NotLoaded",
    "Program",
    "Question",
    "Refused",
    "Reply",
    "Result",
    "StubsOutOfDate",
    "Stream",
    "Suspended",
    "Usage",
    "Worker",
    "aload",
    "load",
]
