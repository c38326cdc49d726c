"""Calls, their results, their errors, and many at once."""

import asyncio
import inspect
import unittest
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Dict, List

from harness import ClientTest

from llm_do import (
    Event,
    Failed,
    InvalidInput,
    InvalidOutput,
    LimitReached,
    LlmDoError,
    NotLoaded,
    Refused,
    Stream,
    Suspended,
    aload,
)


class Calls(ClientTest):
    def test_ways_to_call(self) -> None:
        program = self.load()
        self.assertEqual(program.greeter(name="Ada"), "Hello, Ada!")
        self.assertEqual(program.greeter({"name": "Ada"}), "Hello, Ada!")
        self.assertEqual(program["a/b"]("Ada"), "Hello, Ada!")
        self.assertEqual(program["class"]("x"), "Hello, x!")
        self.assertEqual(program["close"]("x"), "Hello, x!")
        self.assertEqual(program.worker()(name="x"), "Hello, x!")
        self.assertIn('"returns": "r"', program["odd-name"](returns="r", **{"self": "s"}))
        result = program.greeter.result(name="Ada")
        self.assertEqual((result.usage.input_tokens, result.usage.output_tokens, result.cost), (12, 4, None))
        self.assertEqual(program.run(result.run)["output"], result.output)
        self.assertEqual(program.runs(limit=1)[0]["run"], result.run)
        self.assertIn("greeter", dir(program))
        self.assertEqual(program.extractor(text="x")["lines"], [{"item": "pear", "n": 2}])
        self.assertEqual(len(program.big("x")), 5_000_000)

    def test_names_that_are_not_there(self) -> None:
        program = self.load()
        self.assertFalse(hasattr(program, "nobody"))
        with self.assertRaisesRegex(AttributeError, "no worker 'nobody'"):
            _ = program.nobody
        with self.assertRaisesRegex(NotLoaded, "greeter"):
            _ = program["nobody"]

    def test_errors_mirror_ends(self) -> None:
        program = self.load()
        for worker, error, kind in (
            ("fails", Failed, "model"),
            ("limited", LimitReached, "limit"),
            ("wrong", InvalidOutput, "invalid_output"),
        ):
            with self.assertRaises(error) as caught:
                program[worker]("x")
            self.assertIsInstance(caught.exception, LlmDoError)
            self.assertEqual(caught.exception.kind, kind, worker)
            self.assertIn(str(caught.exception.run), str(caught.exception))
        with self.assertRaises(InvalidInput):
            program.greeter(nam="x")
        with self.assertRaises(InvalidInput):
            program.greeter(name=float("nan"))
        with self.assertRaises(InvalidInput):
            program.greeter(name=object())
        with self.assertRaisesRegex(InvalidInput, "16 MiB"):
            program.greeter(name="x" * (16 << 20))
        with self.assertRaises(TypeError):
            program.greeter({"name": "x"}, name="y")
        with self.assertRaises(Refused):
            program.worker("greeter", approval="approve_all")(name="x")
        with self.assertRaises(Suspended) as suspended:
            program.worker("writer", approval="defer")("x")
        self.assertEqual(suspended.exception.questions[0]["function"], "write_file")

    def test_text_that_is_no_unicode(self) -> None:
        self.assertEqual(self.load()["a/b"]("a\ud800b\u2028\0"), "Hello, a?b\u2028\0!")

    def test_two_hundred_threads_and_tasks(self) -> None:
        program = self.load()
        with ThreadPoolExecutor(200) as threads:
            outputs = list(threads.map(lambda n: program["a/b"](str(n)), range(200)))
        self.assertEqual(outputs, [f"Hello, {n}!" for n in range(200)])

        async def tasks() -> List[str]:
            return list(await asyncio.gather(*(program["a/b"].acall(str(n)) for n in range(200))))

        self.assertEqual(asyncio.run(tasks()), outputs)

    def test_map_keeps_the_order_and_stops_at_a_failure(self) -> None:
        program = self.load()
        rows = ({"name": str(n)} for n in range(40))
        outputs = list(program.greeter.map(rows, concurrency=7))
        self.assertEqual(outputs, [f"Hello, {n}!" for n in range(40)])
        mixed = list(program.greeter.map([{"name": "a"}, {"nam": "b"}], return_exceptions=True))
        self.assertEqual(mixed[0], "Hello, a!")
        self.assertIsInstance(mixed[1], InvalidInput)
        with self.assertRaises(InvalidInput):
            list(program.greeter.map([{"nam": "b"}, {"name": "a"}]))

        async def later() -> List[str]:
            return [output async for output in program["a/b"].amap(["x", "y"])]

        self.assertEqual(asyncio.run(later()), ["Hello, x!", "Hello, y!"])

    def test_async_program(self) -> None:
        async def main() -> str:
            async with aload(self.project, cwd=self.project, env=self.env) as program:
                return str(await program["a/b"].acall("Ada"))

        self.assertEqual(asyncio.run(main()), "Hello, Ada!")

    def test_plain_function_for_frameworks(self) -> None:
        program = self.load()
        tool = program.greeter.as_tool()
        self.assertEqual((tool.__name__, str(inspect.signature(tool))), ("greeter", "(name: str) -> Any"))
        self.assertIn("Greets somebody.", str(tool.__doc__))
        self.assertEqual(tool(name="Ada"), tool("Ada"))
        later = program.greeter.as_tool(asynchronous=True)
        self.assertTrue(inspect.iscoroutinefunction(later))
        self.assertEqual(asyncio.run(later(name="Ada")), tool("Ada"))
        odd = program["odd-name"].as_tool()
        self.assertEqual(odd.__name__, "odd-name")


class Streams(ClientTest):
    def test_deltas_and_records_then_the_result(self) -> None:
        program = self.load()
        stream = program["a/b"].stream("Ada")
        events = list(stream)
        text = "".join(event.text for event in events if event.kind == "text")
        self.assertEqual((text, stream.result().output), ("Hello, Ada!", "Hello, Ada!"))
        numbers = [event.record["seq"] for event in events if event.record is not None]
        self.assertEqual(numbers, list(range(len(numbers))))
        self.assertEqual("".join(program["a/b"].stream("Bo").text()), "Hello, Bo!")

        async def later() -> List[Event]:
            async with program["a/b"].stream("Ada") as stream:
                found = [event async for event in stream]
                self.assertEqual((await stream.aresult()).output, "Hello, Ada!")
                return found

        self.assertEqual([event.kind for event in asyncio.run(later())], [event.kind for event in events])

    def test_typed_output_grows_and_an_invalid_one_does_not_count(self) -> None:
        stream = self.load().drafter.stream(text="x")
        drafts = list(stream.partials())
        output: Any = stream.result().output
        self.assertEqual(drafts[-1], output)
        # A slow machine may show nothing of the answer that does not count.
        self.assertLessEqual(drafts.count(None), 1)
        first = drafts.index(None) if None in drafts else -1
        self.assertTrue(first == -1 or _grows(drafts[first - 1], {"number": "wrong"}), drafts)
        for before, after in zip(drafts[first + 1 :], [*drafts[first + 2 :], output]):
            self.assertTrue(_grows(before, after), f"{before} became {after}")
        # A date is shown once it is complete.
        self.assertLessEqual({draft.get("due", "") for draft in drafts if draft}, {"", "2026-11-25"})

        async def later() -> List[Any]:
            async with self.load().drafter.stream(text="x") as stream:
                return [draft async for draft in stream.apartials()]

        self.assertEqual(asyncio.run(later())[-1], output)
        self.assertEqual(list(self.load().greeter.stream(name="Ada").partials()), [])

    def test_slow_reader_gets_the_newest_value_and_hears_that_one_is_discarded(self) -> None:
        stream = self.load().drafter.stream(text="x")
        output = stream.result().output
        self.assertEqual(list(stream.partials()), [output])

        class Request:
            future: Future[Any] = Future()

            def wait(self) -> Any:
                return None

            def cancel(self) -> None: ...

        heard: Stream[Any] = Stream(lambda _: Request(), lambda view: view)
        states = heard.partials()

        def grow(turn: int, *growth: Dict[str, Any]) -> None:
            heard.hear({"event": "partial", "path": "0", "turn": turn, "growth": list(growth)})

        grow(0, {"at": [], "set": {"a": ["x"]}})
        grow(0, {"at": ["a", 0], "append": "y"}, {"at": ["a", 1], "set": 2})
        first = next(states)
        self.assertEqual(first, {"a": ["xy", 2]})
        heard.hear({"event": "discard_partial", "path": "0", "turn": 0})
        grow(1, {"at": [], "set": {"b": 1}})
        self.assertEqual([next(states), next(states)], [None, {"b": 1}])
        heard.hear({"event": "discard", "path": "0", "turn": 1})
        self.assertIsNone(next(states))
        # Growth of a value that was not heard from its beginning, and another call's.
        grow(2, {"at": ["c"], "append": "x"})
        heard.hear({"event": "partial", "path": "0/0.0", "turn": 0, "growth": [{"at": [], "set": 1}]})
        grow(3, {"at": [], "set": None})
        Request.future.set_result(None)
        self.assertEqual((list(states), first), ([None], {"a": ["xy", 2]}))

    def test_failure_comes_after_the_events(self) -> None:
        seen = []
        with self.assertRaises(Failed):
            for event in self.load().fails.stream("x"):
                seen.append(event)
        self.assertTrue(seen)

    def test_closed_stream_cancels_its_run(self) -> None:
        program = self.load()
        with program.slow.stream("x") as stream:
            for _ in stream:
                break
        self.until(lambda: program.runs(limit=1)[0]["state"] == "cancelled")


def _grows(before: Any, after: Any) -> bool:
    """Whether a value can have become another one by growth alone."""
    if isinstance(before, str):
        return isinstance(after, str) and after.startswith(before)
    if isinstance(before, list):
        return len(before) <= len(after) and all(map(_grows, before, after))
    if isinstance(before, dict):
        return all(name in after and _grows(item, after[name]) for name, item in before.items())
    return bool(before == after)


if __name__ == "__main__":
    unittest.main()
