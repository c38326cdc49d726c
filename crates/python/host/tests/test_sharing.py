"""Calls that share a process: above code that waits, beside each other in threads, in the event loop."""

import unittest

from harness import Frame, HostTest

HEAD = "import asyncio, threading, time\nfrom llm_do import ToolContext, AsyncToolContext\n"


class Sharing(HostTest):
    def thread(self, module: Frame, function: str, **args: object) -> int:
        """Starts a call that may run beside others."""
        self.host.next_id += 1
        self.host.send(
            t="call",
            id=self.host.next_id,
            module=module,
            function=function,
            args=args,
            plain=False,
            ctx=None,
            thread=True,
        )
        return self.host.next_id

    def reply(self, frame: Frame, value: object = None) -> None:
        self.host.send(t="reply", id=frame["id"], cb=frame["cb"], value=value)

    def answers(self, *ids: int) -> "list[object]":
        """The values of these calls, which end in any order."""
        found = {}
        for _ in ids:
            frame = self.host.next("result", "error")
            self.assertEqual(frame["t"], "result", frame)
            found[frame["id"]] = frame["value"]
        return [found[id] for id in ids]


class Above(Sharing):
    """Calls that are served while the code below them waits for a call."""

    def test_calls_are_served_above_code_that_waits(self) -> None:
        module = self.module(
            HEAD
            + """
state = []
def outer(ctx: ToolContext, n: int):
    state.append(n)
    ctx.call("w")
    state.append(-n)
    return threading.current_thread() is threading.main_thread()
def seen():
    return [list(state), threading.current_thread() is threading.main_thread()]
"""
        )
        ids, waiting = [], []
        for n in (1, 2, 3):
            ids.append(self.host.start_call(module, "outer", n=n))
            waiting.append(self.host.receive())
            self.assertEqual(self.host.value(module, "seen"), [list(range(1, n + 1)), True])
        # An answer for code that waits below other code reaches it when that has ended.
        for frame in waiting:
            self.reply(frame)
        self.assertEqual(self.answers(*ids), [True, True, True])
        self.assertEqual(self.host.value(module, "seen"), [[1, 2, 3, -3, -2, -1], True])

    def test_sixty_deep_with_room_on_the_stack(self) -> None:
        module = self.module(
            HEAD
            + """
import sys
def down(k: int):
    return 0 if k == 0 else 1 + down(k - 1)
def f(ctx: ToolContext, n: int):
    return down(500) + (ctx.call("f", n=n - 1) if n else 0)
def limit():
    return sys.getrecursionlimit()
"""
        )
        before = self.host.value(module, "limit")
        ids, waiting = [], []
        for n in range(60, -1, -1):
            ids.append(self.host.start_call(module, "f", n=n))
            if n:
                waiting.append(self.host.receive())
        for n in range(61):
            frame = self.host.next("result")
            self.assertEqual(frame["value"], 500 * (n + 1))
            if waiting:
                self.reply(waiting.pop(), frame["value"])
        self.assertEqual(self.host.value(module, "limit"), before)

    def test_async_above_sync_and_sync_above_async(self) -> None:
        module = self.module(
            HEAD
            + """
async def late(ctx: AsyncToolContext):
    await asyncio.sleep(0.01)
    value = await ctx.call("w")
    await asyncio.sleep(0.01)
    return value
def runs(ctx: ToolContext):
    async def inner():
        await asyncio.sleep(0.001)
        return 5
    return [asyncio.run(inner()), ctx.call("w")]
"""
        )
        first = self.host.start_call(module, "late")
        one = self.host.receive()
        second = self.host.start_call(module, "runs")
        two = self.host.receive()
        third = self.host.start_call(module, "late")
        three = self.host.receive()
        # Async calls continue while the sync one waits.
        self.reply(one, 1)
        self.assertEqual(self.host.finish_call(first)["value"], 1)
        self.reply(three, 3)
        self.assertEqual(self.host.finish_call(third)["value"], 3)
        self.reply(two, 2)
        self.assertEqual(self.host.finish_call(second)["value"], [5, 2])

    def test_cancelled_code_ends_when_the_code_above_it_has_ended(self) -> None:
        module = self.module(
            HEAD
            + """
go = threading.Event()
def outer(ctx: ToolContext):
    ctx.call("w")
def inner(ctx: ToolContext):
    return ctx.call("w")
"""
        )
        outer = self.host.start_call(module, "outer")
        self.host.receive()
        inner = self.host.start_call(module, "inner")
        asked = self.host.receive()
        self.host.cancel(outer)
        self.reply(asked, "whole")
        self.assertEqual(self.host.finish_call(inner)["value"], "whole")
        self.error(self.host.finish_call(outer), "cancelled")

    def test_streams_of_code_below_stay_redirected(self) -> None:
        module = self.module(
            HEAD
            + """
import contextlib, io
def outer(ctx: ToolContext):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        ctx.call("w")
        print("outer")
    return out.getvalue()
def inner():
    print("inner")
"""
        )
        id = self.host.start_call(module, "outer")
        asked = self.host.receive()
        self.host.value(module, "inner")
        self.reply(asked)
        self.assertEqual(self.host.finish_call(id)["value"], "outer\n")
        self.assertEqual(self.host.text(), "inner\n")

    def test_context_of_another_call_is_refused(self) -> None:
        module = self.module(
            HEAD
            + """
kept = []
def outer(ctx: ToolContext):
    kept.append(ctx)
    ctx.call("w")
def inner(ctx: ToolContext):
    return kept[0].call("w")
"""
        )
        id = self.host.start_call(module, "outer")
        asked = self.host.receive()
        self.assertIn("its own call", self.error(self.host.call(module, "inner"), "exception")["message"])
        self.reply(asked)
        self.host.finish_call(id)

    def test_own_threads_and_an_own_loop_make_calls(self) -> None:
        """The main thread is blocked: what these calls lead to runs in threads."""
        module = self.module(
            HEAD
            + """
from concurrent.futures import ThreadPoolExecutor
def threads(ctx: ToolContext):
    with ThreadPoolExecutor(2) as pool:
        return sorted(pool.map(lambda name: ctx.call(name), ["plain", "coroutine"]))
def loop(ctx: ToolContext):
    async def inner():
        return [ctx.call("plain"), ctx.call("coroutine")]
    return asyncio.run(inner())
def plain():
    return "plain"
async def coroutine():
    await asyncio.sleep(0.01)
    return "coroutine"
"""
        )
        self.host.answer = lambda frame: None
        for function in ("threads", "loop"):
            id = self.host.start_call(module, function)
            self.host.callbacks.clear()
            for number in range(2):
                while len(self.host.callbacks) <= number:  # The second may come before the first has ended.
                    self.host.callbacks.append(self.host.next("callback"))
                asked = self.host.callbacks[number]
                value = self.host.value(module, asked["name"])
                self.reply(asked, value)
            self.assertEqual(sorted(self.host.finish_call(id)["value"]), ["coroutine", "plain"])


class Beside(Sharing):
    """Calls in threads."""

    def test_threads_meet_and_have_their_own_output_and_variables(self) -> None:
        module = self.module(
            HEAD
            + """
import contextvars
variable = contextvars.ContextVar("variable", default="unset")
barrier = threading.Barrier(3, timeout=20)
imported = threading.current_thread() is threading.main_thread()
def f(ctx: ToolContext, n: int):
    before = variable.get()
    variable.set(n)
    barrier.wait()
    print("in", n)
    return [imported, before, variable.get(), ctx.call("w", n=n)["n"]]
"""
        )
        ids = [self.thread(module, "f", n=1), self.thread(module, "f", n=2)]
        ids.append(self.host.start_call(module, "f", n=3))
        self.assertEqual(self.answers(*ids), [[True, "unset", n, n] for n in (1, 2, 3)])
        printed = {log["id"]: log["text"] for log in self.host.logs}
        self.assertEqual(printed, {id: f"in {n}" for id, n in zip(ids, (1, 2, 3))})

    def test_the_first_import_is_made_once(self) -> None:
        module = self.module(
            HEAD + "print('imported')\ntime.sleep(0.05)\ndef f(n: int):\n    return n\n", "once.py"
        )
        ids = [self.thread(module, "f", n=n) for n in range(8)]
        self.assertEqual(self.answers(*ids), list(range(8)))
        self.assertEqual(self.host.text(), "imported\n")

    def test_cancelled_thread_sees_the_flag_and_makes_no_calls(self) -> None:
        module = self.module(
            HEAD
            + """
def flag(ctx: ToolContext):
    print("started")
    while not ctx.cancelled:
        time.sleep(0.001)
    return "stopped in order"
def waits(ctx: ToolContext):
    ctx.call("w")
def late(ctx: ToolContext):
    print("started")
    while not ctx.cancelled:
        time.sleep(0.001)
    ctx.call("w")
"""
        )
        self.host.answer = lambda frame: None
        id = self.thread(module, "flag")
        self.host.next("log")
        self.host.cancel(id)
        self.assertEqual(self.host.finish_call(id)["value"], "stopped in order")
        for function, kind in (("waits", "callback"), ("late", "log")):
            id = self.thread(module, function)
            self.host.next(kind)
            self.host.cancel(id)
            self.error(self.host.finish_call(id), "cancelled")

    def test_cancelled_thread_does_not_hit_the_main_thread(self) -> None:
        module = self.module(
            HEAD
            + """
def slow():
    for _ in range(20):
        time.sleep(0.01)
    return "whole"
def flag(ctx: ToolContext):
    print("started")
    while not ctx.cancelled:
        time.sleep(0.001)
"""
        )
        beside = self.thread(module, "flag")
        self.host.next("log")
        id = self.host.start_call(module, "slow")
        self.host.cancel(beside)
        self.assertEqual(self.answers(beside, id), [None, "whole"])

    def test_approval_beside_a_busy_main_thread(self) -> None:
        module = self.module(
            HEAD
            + """
from llm_do import tool
limit, go = [1], threading.Event()
@tool(approval=lambda n: "ask" if n > limit[0] else "preApproved")
def pay(n: int): pass
@tool
def busy():
    limit[0] = 5
    print("started")
    return go.wait(20)
@tool
def end():
    go.set()
"""
        )
        id = self.host.start_call(module, "busy")
        self.host.next("log")
        self.host.send(t="approval", id=900, module=module, function="pay", args={"n": 3})
        self.assertEqual(self.host.next("result")["value"], "preApproved")
        other = self.thread(module, "end")
        self.assertEqual(self.answers(id, other), [True, None])


if __name__ == "__main__":
    unittest.main()
