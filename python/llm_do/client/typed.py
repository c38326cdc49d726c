"""What the types of `llm-do stubs --python` are made of. Only type checkers read it: at run time every worker is a `Worker`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

I = TypeVar("I")  # noqa: E741
O = TypeVar("O")  # noqa: E741

if TYPE_CHECKING:
    from typing import (
        AsyncIterable,
        AsyncIterator,
        Callable,
        Iterable,
        Iterator,
        Mapping,
        Optional,
        Type,
        Union,
    )

    from .chat import Chat
    from .worker import Worker

    R = TypeVar("R")

    class WorkerOf(Generic[I, O]):
        """A worker with this input and output. Its class in a stub adds the calls, whose arguments have names."""

        name: str
        description: Optional[str]
        input_schema: Mapping[str, Any]
        output_schema: Optional[Mapping[str, Any]]

        def using(self, *, returns: Type[R], **options: Any) -> Worker[R]: ...
        def map(
            self,
            rows: Iterable[Union[str, I]],
            *,
            concurrency: int = 16,
            return_exceptions: bool = False,
        ) -> Iterator[O]: ...
        def amap(
            self,
            rows: Union[Iterable[Union[str, I]], AsyncIterable[Union[str, I]]],
            *,
            concurrency: int = 16,
            return_exceptions: bool = False,
        ) -> AsyncIterator[O]: ...
        def chat(self, input: Union[str, I] = ..., /) -> Chat[O]: ...
        def as_tool(self, *, asynchronous: bool = False) -> Callable[..., Any]: ...
