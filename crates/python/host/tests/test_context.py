"""The context of a call: callbacks, steps, several at once, files of the sandbox."""

import os
import signal
import unittest
from typing import Any

from harness import HostTest

HEAD = "import asyncio, threading, time\nfrom pathlib import Path\nfrom llm_do import CallError, ToolContext, AsyncToolContext\n"


class Callbacks(HostTest):
    def test_facts(self) -> None:
        module = self.module(
            HEAD + "def f(ctx: ToolContext):\n"
            "    return [ctx.run_id, ctx.worker, ctx.idempotency_key, ctx.approvals.mode, ctx.cancelled, str(ctx.sandbox.mounts)]\n"
        )
        ctx = {
            "run": "r",
            "worker": "w",
            "key": "k",
            "mode": "interactive",
            "mounts": [{"at": "/a", "path": "/b", "mode": "ro"}],
        }
        self.assertEqual(
            self.host.value(module, "f", ctx=ctx),
            ["r", "w", "k", "interactive", False, "[Mount('/a', 'ro')]"],
        )
        self.assertEqual(self.host.value(module, "f"), ["", "", "", "", False, "[]"])

    def test_state(self) -> None:
        module = self.module(
            HEAD
            + """
def f(ctx: ToolContext):
    ctx.state.set("a", {"n": (1, 2)})
    return [ctx.state.get("a"), ctx.state.get("b", 7)]
async def g(ctx: ToolContext):
    await ctx.state.set("a", 3)
    return [await ctx.state.get("a"), await ctx.state.get("b", 7)]
def bad(ctx: ToolContext):
    ctx.state.set("a", object())
"""
        )
        values: dict = {}

        def answer(frame: dict) -> dict:
            if frame["op"] == "state_set":
                values[frame["name"]] = frame["value"]
            return {"value": values.get(frame["name"])}

        self.host.answer = answer
        self.assertEqual(self.host.value(module, "f"), [{"n": [1, 2]}, 7])
        self.assertEqual(self.host.value(module, "g"), [3, 7])
        self.error(self.host.call(module, "bad"), "result")

    def test_forms_of_the_input(self) -> None:
        module = self.module(
            HEAD
            + """
import dataclasses
@dataclasses.dataclass
class P:
    x: int
def f(ctx: ToolContext):
    return [ctx.call("w"), ctx.call("w", "text"), ctx.call("w", {"a": 1}, b=2), ctx.call("w", name="n", input=3), ctx.call_tool("t", P(1))]
def twice(ctx: ToolContext):
    ctx.call("w", "text", a=1)
def unnamed(ctx: ToolContext):
    ctx.call(3)
def binary(ctx: ToolContext):
    ctx.call("w", b"x")
"""
        )
        self.assertEqual(
            self.host.value(module, "f"),
            [None, "text", {"a": 1, "b": 2}, {"name": "n", "input": 3}, {"x": 1}],
        )
        self.assertEqual([frame["op"] for frame in self.host.callbacks], ["call"] * 4 + ["call_tool"])
        self.assertEqual(len({frame["cb"] for frame in self.host.callbacks}), 5)
        self.assertEqual(self.error(self.host.call(module, "twice"), "exception")["type"], "TypeError")
        self.assertEqual(self.error(self.host.call(module, "unnamed"), "exception")["type"], "TypeError")
        self.assertIn("binary", self.error(self.host.call(module, "binary"), "result")["message"])

    def test_an_idle_question_is_answered_while_the_code_waits(self) -> None:
        module = self.module(
            HEAD + "def f(ctx: ToolContext):\n"
            "    both = ctx.map([1, 2], 'a', limit=2)\n"
            "    return both + [ctx.call('b')]\n"
        )
        self.host.answer = lambda frame: None
        self.host.start_call(module, "f")
        first, second = (self.host.next("callback") for _ in range(2))
        self.host.send(t="idle", id=1, number=4)
        self.assertEqual(self.host.next("idle", "callback")["number"], 4)
        self.host.send(t="reply", id=1, cb=first["cb"], value=1)
        self.host.send(t="idle", id=1, number=5)
        self.assertEqual(self.host.next("idle", "callback")["number"], 5)
        # The answers lead to another call, which comes first.
        self.host.send(t="reply", id=1, cb=second["cb"], value=2)
        self.host.send(t="idle", id=1, number=6)
        third = self.host.next("idle", "callback")
        self.assertEqual(third.get("name"), "b")
        self.assertEqual(self.host.next("idle", "callback")["number"], 6)
        self.host.send(t="reply", id=1, cb=third["cb"], value=3)
        self.assertEqual(self.host.next("result", "error")["value"], [1, 2, 3])

    def test_call_all_sends_everything_first(self) -> None:
        module = self.module(
            HEAD
            + """
def f(ctx: ToolContext, **options):
    return [str(one) for one in ctx.call_all([("a", {"n": n}) for n in range(5)], **options)]
async def g(ctx: AsyncToolContext, **options):
    return [str(one) for one in await ctx.call_all([("a", {"n": n}) for n in range(5)], **options)]
"""
        )
        for name in ("f", "g"):
            for options in ({}, {"return_exceptions": True}):
                id = self.host.start_call(module, name, **options)
                frames = [self.host.receive() for _ in range(5)]
                for frame in reversed(frames):  # Answers come in another order.
                    reply = {"value": frame["input"]["n"]}
                    if frame["input"]["n"] == 2:
                        reply = {"error": {"kind": "tool", "message": "bad"}}
                    self.host.send(t="reply", id=id, cb=frame["cb"], **reply)
                answer = self.host.finish_call(id)
                if options:
                    self.assertEqual(answer["value"], ["0", "1", "bad", "3", "4"])
                else:
                    self.assertEqual(self.error(answer, "refused")["cause"], "tool")

    def test_map_calls_for_each_item_up_to_a_limit(self) -> None:
        module = self.module(
            HEAD
            + """
def f(ctx: ToolContext, limit):
    return ctx.map([{"n": n} for n in range(3)], "a", limit)
async def g(ctx: AsyncToolContext, limit):
    return await ctx.map(({"n": n} for n in range(3)), "a", limit)
"""
        )
        for name in ("f", "g"):
            id = self.host.start_call(module, name, limit=3)
            for frame in [self.host.receive() for _ in range(3)]:
                self.host.send(t="reply", id=id, cb=frame["cb"], value=frame["input"]["n"])
            self.assertEqual(self.host.finish_call(id)["value"], [0, 1, 2])
            # With more items no call is made.
            error = self.error(self.host.call(module, name, limit=2), "exception")
            self.assertEqual(error["type"], "ValueError")
            self.assertIn("more than 2 items for 'a'", error["message"])
            self.assertEqual(
                self.error(self.host.call(module, name, limit=True), "exception")["type"], "TypeError"
            )

    def test_module_without_a_file(self) -> None:
        text = "def main(input, ctx):\n    return ctx.call('a', n=input)\n\ndef bad(ctx):\n    raise KeyError('x')\n"
        module = {"key": "p", "path": "/nothing/program.py", "root": "/nothing", "text": text}
        id = self.host.start_call(module, "main", input=3)
        frame = self.host.receive()
        self.assertEqual((frame["name"], frame["input"]), ("a", {"n": 3}))
        self.host.send(t="reply", id=id, cb=frame["cb"], value="x")
        self.assertEqual(self.host.finish_call(id)["value"], "x")

    def test_parse_runs_nothing(self) -> None:
        def parse(text: str) -> Any:
            self.host.send(t="parse", text=text)
            return self.host.receive()

        parsed = parse("import os\nos._exit(1)\nx = 'ä' + f(1)\n")
        self.assertEqual(parsed["t"], "parsed")
        kinds = [node[0] for node in parsed["nodes"]]
        self.assertEqual(kinds[:2], ["Module", "Import"])
        call = next(node for node in parsed["nodes"] if node[0] == "Call" and node[1] == 3)
        self.assertEqual(call[2], 11)  # In characters.
        self.assertEqual(parse("def f(:\n")["problem"]["line"], 1)
        self.assertIn("deep", parse("x = " + "[" * 150 + "]" * 150)["problem"]["message"])
        self.assertIn("problem", parse("x = '\0'"))

    def test_steps(self) -> None:
        module = self.module(
            HEAD
            + """
def f(ctx: ToolContext):
    return ctx.step("one", lambda: print("ran") or {"a": (1, 2)})
async def g(ctx: AsyncToolContext):
    async def work():
        return {"a": (1, 2)}
    return [await ctx.step("one", work), await ctx.step("two", lambda: 2)]
def fails(ctx: ToolContext):
    try:
        ctx.step("one", lambda: 1 / 0)
    except ZeroDivisionError:
        return "caught"
def binary(ctx: ToolContext):
    ctx.step("one", lambda: b"x")
"""
        )

        def run_it(frame):
            return {"go": True} if frame["t"] == "callback" else {"value": frame.get("value")}

        self.host.answer = run_it
        self.assertEqual(self.host.value(module, "f"), {"a": [1, 2]})
        self.assertEqual(self.host.text(), "ran\n")
        asked, ended = self.host.callbacks
        self.assertEqual(
            (asked["op"], asked["name"], ended["t"], ended["cb"]), ("step", "one", "step_end", asked["cb"])
        )
        self.assertEqual(self.host.value(module, "g"), [{"a": [1, 2]}, 2])
        self.host.callbacks.clear()
        self.assertEqual(self.host.value(module, "fails"), "caught")
        self.assertEqual(self.host.callbacks[1]["error"]["type"], "ZeroDivisionError")
        self.assertIn("binary", self.error(self.host.call(module, "binary"), "result")["message"])
        self.host.answer = lambda frame: {"value": "recorded"}
        self.assertEqual(self.host.value(module, "f"), "recorded")
        self.host.answer = lambda frame: {"error": {"kind": "tool", "message": "it failed then"}}
        self.assertEqual(self.error(self.host.call(module, "f"), "refused")["message"], "it failed then")

    def test_step_whose_record_differs(self) -> None:
        module = self.module(HEAD + "def f(ctx: ToolContext):\n    return ctx.step('s', lambda: 'secret')\n")
        self.host.answer = lambda frame: {"go": True} if frame["t"] == "callback" else {"value": "[redacted]"}
        self.assertEqual(self.host.value(module, "f"), "[redacted]")

    def test_threads_of_a_call(self) -> None:
        module = self.module(
            HEAD
            + """
from concurrent.futures import ThreadPoolExecutor
def f(ctx: ToolContext, n: int):
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda k: [print("in", k), ctx.call("w", {"k": k})["k"]][1], range(n)))
"""
        )
        waiting = []

        def answer(frame):  # In batches and backwards, from another thread than asked.
            waiting.append(frame)
            if len(waiting) == 4:
                for one in reversed(waiting):
                    self.host.send(t="reply", id=one["id"], cb=one["cb"], value=one["input"])
                waiting.clear()

        self.host.answer = answer
        for _ in range(5):
            self.assertEqual(self.host.value(module, "f", n=64), list(range(64)))
        self.assertEqual(sorted(set(self.host.text().split())), sorted({"in", *map(str, range(64))}))

    def test_five_deep(self) -> None:
        """A tool calls a worker whose tool runs in another host, and so on."""
        module = self.module(
            HEAD
            + "def f(ctx: ToolContext, n: int):\n    return 1 + (ctx.call('deeper', {'n': n - 1}) if n else 0)\n"
        )
        hosts = [self.start() for _ in range(6)]

        def answer_at(level):
            def answer(frame):
                return {"value": hosts[level + 1].value(module, "f", **frame["input"])}

            return answer

        for level, host in enumerate(hosts[:-1]):
            host.answer = answer_at(level)
        self.assertEqual(hosts[0].value(module, "f", n=5), 6)

    def test_approval_is_answered_while_a_call_waits(self) -> None:
        module = self.module(
            HEAD
            + """
from llm_do import tool
@tool(approval=lambda amount, limit=0: "ask" if amount > limit else "preApproved")
def pay(amount: int, limit: int = 10): pass
@tool(approval=lambda args: "blocked" if args["amount"] > 10 else "ask")
def burn(amount: int): pass
@tool(approval=lambda **args: True)
def wrong(amount: int): pass
@tool(approval=lambda amount: amount["x"])
def raising(amount: int): pass
@tool
def f(ctx: ToolContext): return ctx.call("w")
"""
        )
        id = self.host.start_call(module, "f")
        waiting = self.host.receive()
        for function, args, verdict in (
            ("pay", {"amount": 11}, "ask"),
            ("pay", {"amount": 3}, "preApproved"),
            ("pay", {"amount": 11, "limit": 20}, "preApproved"),
            ("burn", {"amount": 11}, "blocked"),
        ):
            self.host.send(t="approval", id=900, module=module, function=function, args=args)
            self.assertEqual(self.host.next("result"), {"t": "result", "id": 900, "value": verdict})
        self.host.send(t="approval", id=901, module=module, function="wrong", args={"amount": 1})
        self.error(self.host.next("error"), "result")
        self.host.send(t="approval", id=902, module=module, function="raising", args={"amount": 1})
        self.assertEqual(self.error(self.host.next("error"), "exception")["id"], 902)
        self.host.send(t="reply", id=id, cb=waiting["cb"], value=None)
        self.host.finish_call(id)

    def test_approval_sees_the_run_beside_the_arguments(self) -> None:
        module = self.module(
            """
from llm_do import tool
def known(args, input, caller, origins):
    good = args["to"] in input["input"] and caller == "main" and origins["to"] == "trusted"
    return "preApproved" if good else "ask"
@tool(approval=known)
def pay(to: str): pass
@tool(approval=lambda input: "ask" if input == 1 else "blocked")
def named(input: int, other: int = 2): pass
@tool(approval=lambda input, other: "preApproved" if input == 1 and other == 2 else "blocked")
def own(input: int, other: int = 2): pass
@tool(approval=lambda to, **more: "preApproved" if more == {"n": 1} else "blocked")
def rest(to: str, n: int = 1): pass
"""
        )
        about = {"input": {"input": "pay DE1"}, "caller": "main", "origins": {"to": "trusted"}}
        for function, args, verdict in (
            ("pay", {"to": "DE1"}, "preApproved"),
            ("pay", {"to": "DE2"}, "ask"),
            # A lone parameter takes all arguments.
            ("named", {"input": 1}, "blocked"),
            # The tool's own argument comes before the run's input.
            ("own", {"input": 1}, "preApproved"),
            ("rest", {"to": "x"}, "preApproved"),
        ):
            self.host.send(t="approval", id=1, module=module, function=function, args=args, **about)
            self.assertEqual(self.host.next("result")["value"], verdict, function)

    def test_approval_without_a_call(self) -> None:
        module = self.module(
            "from llm_do import tool\n@tool(approval=lambda n: 'ask')\ndef f(n: int): pass\n"
        )
        self.host.send(t="approval", id=1, module=module, function="f", args={"n": 1})
        self.assertEqual(self.host.next("result")["value"], "ask")


class Async(HostTest):
    def test_several_at_once(self) -> None:
        module = self.module(
            HEAD
            + """
running = []
async def f(ctx: AsyncToolContext, n: int):
    print("start", n)
    running.append(n)
    while len(running) < 3:
        await asyncio.sleep(0.001)
    value = await ctx.call("w", {"n": n})
    print("end", n)
    return value
"""
        )
        self.host.answer = lambda frame: {"value": frame["input"]["n"] * 10}
        ids = [self.host.start_call(module, "f", n=n) for n in range(3)]
        answers = {}
        for _ in ids:
            frame = self.host.next("result", "error")
            answers[frame["id"]] = frame.get("value")
        self.assertEqual(answers, dict(zip(ids, (0, 10, 20))))
        for n, id in enumerate(ids):
            said = [frame["text"] for frame in self.host.logs if frame["id"] == id]
            self.assertEqual(said, [f"start {n}", f"end {n}"])

    def test_back_to_sync_and_again(self) -> None:
        module = self.module(
            HEAD
            + "async def f(n: int):\n    await asyncio.sleep(0)\n    return n\ndef g(n: int):\n    return asyncio.run(f(n))\n"
        )
        for n in range(5):
            self.assertEqual(self.host.value(module, "f", n=n), n)
            self.assertEqual(self.host.value(module, "g", n=n), n)

    def test_the_loop_is_the_same_each_time(self) -> None:
        module = self.module(
            HEAD
            + "loops = set()\nasync def f():\n    loops.add(asyncio.get_running_loop())\n    return len(loops)\n"
        )
        self.assertEqual([self.host.value(module, "f") for _ in range(3)], [1, 1, 1])

    def test_asyncio_is_imported_for_async_tools_only(self) -> None:
        module = self.module(
            "import sys\ndef f():\n    return [m for m in ('asyncio', 'inspect', 'typing', 'threading', 're') if m in sys.modules]\n"
        )
        before = self.host.value(module, "f", plain=True)
        bare = self.start().value(
            self.module("import sys\ndef f():\n    return sorted(sys.modules)\n", "b.py"), "f", plain=True
        )
        self.assertNotIn("asyncio", before + bare)
        self.assertNotIn("inspect", before)

    def test_cancel(self) -> None:
        module = self.module(
            HEAD
            + """
async def f():
    try:
        print("started")
        await asyncio.sleep(3600)
    finally:
        print("cleaned up")
async def g(ctx: AsyncToolContext):
    await ctx.call("w")
async def own():
    raise asyncio.CancelledError
"""
        )
        for name in ("f", "g"):
            self.host.answer = lambda frame: None
            id = self.host.start_call(module, name)
            frame = self.host.receive()
            self.assertIn(frame["t"], ("log", "callback"))
            self.host.send(t="cancel", id=id)
            self.error(self.host.finish_call(id), "cancelled")
        self.assertIn("cleaned up\n", self.host.text())
        self.error(self.host.call(module, "own"), "exception")

    def test_call_and_cancel_at_once(self) -> None:
        module = self.module(
            HEAD
            + """
async def f(): await asyncio.sleep(3600)
def g(): time.sleep(3600)
def h(): return 1
"""
        )
        self.host.value(module, "h")
        for name in ("f", "g"):
            os.kill(self.host.process.pid, signal.SIGSTOP)
            id = self.host.start_call(module, name)
            self.host.send(t="cancel", id=id)
            os.kill(self.host.process.pid, signal.SIGCONT)
            self.error(self.host.finish_call(id), "cancelled")
        self.assertEqual(self.host.value(module, "h"), 1)

    def test_flag_of_an_async_call(self) -> None:
        module = self.module(
            HEAD
            + """
async def f(ctx: AsyncToolContext):
    print("started")
    while not ctx.cancelled:
        pass
    return "seen"
async def g(): return 1
"""
        )
        id = self.host.start_call(module, "f")
        self.host.next("log")
        second = self.host.start_call(module, "g")  # Read by the look at the flag, and served all the same.
        self.host.send(t="cancel", id=id)
        answers = [self.host.next("result", "error") for _ in range(2)]
        self.assertEqual({answer["id"] for answer in answers}, {id, second})

    def test_cancel_hits_one_of_several(self) -> None:
        module = self.module(HEAD + "async def f(ctx: AsyncToolContext):\n    return await ctx.call('w')\n")
        one, two = self.host.start_call(module, "f"), self.host.start_call(module, "f")
        frames = {frame["id"]: frame for frame in (self.host.receive(), self.host.receive())}
        self.host.send(t="cancel", id=one)
        self.error(self.host.finish_call(one), "cancelled")
        self.host.send(t="reply", id=two, cb=frames[two]["cb"], value="fine")
        self.assertEqual(self.host.finish_call(two)["value"], "fine")

    def test_errors_and_exits(self) -> None:
        module = self.module(
            HEAD
            + """
import sys
async def f(): sys.exit(1)
async def g():
    asyncio.get_running_loop().call_soon(sys.exit)
    await asyncio.sleep(0.01)
    return "survived"
async def h():
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0.01)
    return "went on"
async def left_behind():
    asyncio.create_task(asyncio.sleep(3600))
    asyncio.get_running_loop().call_later(0, lambda: 1 / 0)
async def ended(ctx: AsyncToolContext):
    async def late():
        await asyncio.sleep(0.05)
        try:
            await ctx.call("w")
        except RuntimeError as error:
            said.append(str(error))
    asyncio.create_task(late())
said = []
async def heard():
    while not said:
        await asyncio.sleep(0.01)
    return said
"""
        )
        self.error(self.host.call(module, "f"), "exit")
        self.assertEqual(self.host.value(module, "g"), "survived")
        self.assertEqual(self.host.value(module, "h"), "went on")
        self.host.value(module, "left_behind")
        self.host.value(module, "ended")
        self.assertEqual(self.host.value(module, "heard"), ["the call has ended"])
        self.assertEqual(self.host.callbacks, [])

    def test_threads_of_an_async_call_print_for_it(self) -> None:
        if not hasattr(__import__("asyncio"), "to_thread"):
            self.skipTest("since 3.9")
        module = self.module(HEAD + "async def f(n: int):\n    await asyncio.to_thread(print, 'n is', n)\n")
        ids = [self.host.start_call(module, "f", n=n) for n in range(4)]
        for _ in ids:
            self.host.next("result")
        self.assertEqual(
            {(frame["id"], frame["text"]) for frame in self.host.logs},
            {(id, f"n is {n}") for n, id in enumerate(ids)},
        )

    def test_load_while_async_calls_run(self) -> None:
        module = self.module(HEAD + "async def f(ctx: AsyncToolContext):\n    return await ctx.call('w')\n")
        id = self.host.start_call(module, "f")
        frame = self.host.receive()
        report = self.report("def g(x: int): pass\n", "other.py")
        self.assertEqual([f["name"] for f in report["functions"]], ["g"])
        self.host.send(t="reply", id=id, cb=frame["cb"], value=1)
        self.assertEqual(self.host.finish_call(id)["value"], 1)


class Files(HostTest):
    def mounts(self) -> dict:
        self.write("real/in/a.txt", "hello")
        self.write("real/out/keep", "")
        return {
            "mounts": [
                {"at": "/", "path": f"{self.root}/real", "mode": "ro"},
                {"at": "/output", "path": f"{self.root}/real/out", "mode": "rw"},
            ]
        }

    def test_arguments_and_results(self) -> None:
        module = self.module(
            HEAD
            + """
from typing import List, Optional
def read(path: Path) -> str:
    return path.read_text()
def places(a: Path, b: Optional[Path] = None, c: List[Path] = []) -> list:
    return [str(a), str(b), *map(str, c)]
def make(name: str, ctx: ToolContext) -> Path:
    path = ctx.sandbox.path("/output") / name
    path.write_text("x")
    return path
def given(path: Path, ctx: ToolContext) -> list:
    return [path, ctx.sandbox.virtual(path), Path("/etc/hosts"), ctx.call("w", {"path": path})]
"""
        )
        ctx = self.mounts()
        for path in ("/in/a.txt", "in/a.txt", "./in//a.txt", "/in/../in/a.txt"):
            self.assertEqual(self.host.value(module, "read", ctx=ctx, path=path), "hello")
        value = self.host.value(module, "places", ctx=ctx, a="/output/x", c=["/outputs", "/"])
        self.assertEqual(
            value, [f"{self.root}/real/out/x", "None", f"{self.root}/real/outputs", f"{self.root}/real"]
        )
        self.assertEqual(self.host.value(module, "make", ctx=ctx, name="n.txt"), "/output/n.txt")
        self.assertEqual(
            self.host.value(module, "given", ctx=ctx, path="/in/a.txt"),
            ["/in/a.txt", "/in/a.txt", "/etc/hosts", {"path": "/in/a.txt"}],
        )
        for path in ("/../x", "/in/../../x"):
            message = self.error(self.host.call(module, "read", ctx=ctx, path=path), "arguments")["message"]
            self.assertIn("leaves the sandbox", message)

    def test_default_paths(self) -> None:
        module = self.module(
            HEAD
            + "def f(a: Path = Path('/output/x'), b: Path = Path('/etc/x')) -> list:\n    return [str(a), str(b)]\n"
        )
        ctx = {"mounts": [{"at": "/output", "path": "/real", "mode": "ro"}]}
        self.assertEqual(self.host.value(module, "f", ctx=ctx), ["/real/x", "/etc/x"])

    def test_what_is_not_mounted(self) -> None:
        module = self.module(
            HEAD
            + "def f(path: Path): pass\ndef g(ctx: ToolContext):\n    return str(ctx.sandbox.path('/no/x'))\n"
        )
        ctx = {"mounts": [{"at": "/input", "path": "/tmp", "mode": "ro"}]}
        self.assertIn(
            "/input",
            self.error(self.host.call(module, "f", ctx=ctx, path="/inputs/x"), "arguments")["message"],
        )
        self.assertIn("/input", self.error(self.host.call(module, "g", ctx=ctx), "exception")["message"])


class Streams(HostTest):
    def test_lines(self) -> None:
        module = self.module(
            """
            import sys, logging
            def f():
                print("a", "b")
                print("no end", end="")
                print("err", file=sys.stderr)
                print(" and on")
                sys.stdout.write("x\\ny\\nrest")
                sys.stdout.buffer.write(b"bytes \\xff\\n")
                sys.__stdout__.write("still\\n")
                logging.warning("logged")
                return [sys.stdout.isatty(), sys.stdout.fileno(), sys.stdout.encoding, sys.stdout.writable()]
            """
        )
        self.assertEqual(self.host.value(module, "f"), [False, 1, "utf-8", True])
        self.assertEqual(self.host.text(), "a b\nno end and on\nx\ny\nrestbytes \\xff\nstill\n")
        self.assertEqual(self.host.text("stderr"), "err\nWARNING:root:logged\n")
        self.assertEqual({frame["id"] for frame in self.host.logs}, {1})

    def test_rest_without_an_end_is_sent_before_the_result(self) -> None:
        module = self.module("def f():\n    print('x', end='')\n    raise ValueError\n")
        self.host.call(module, "f")
        self.assertEqual([frame["text"] for frame in self.host.logs], ["x"])

    def test_log(self) -> None:
        module = self.module(
            "from llm_do import ToolContext\ndef f(ctx: ToolContext):\n    ctx.log('a', 1, level='warning')\n"
        )
        self.host.value(module, "f")
        (frame,) = self.host.logs
        self.assertEqual(
            [frame[key] for key in ("id", "stream", "level", "text")], [1, "log", "warning", "a 1"]
        )

    def test_bound(self) -> None:
        module = self.module(
            "def f():\n    for _ in range(20_000):\n        print('x' * 99)\ndef g():\n    print('y')\n"
        )
        self.host.value(module, "f")
        self.assertLess(sum(len(frame["text"]) for frame in self.host.logs), (256 << 10) + 200)
        self.assertIn("was dropped", self.host.logs[-1]["text"])
        self.assertEqual(sum("was dropped" in frame["text"] for frame in self.host.logs), 1)
        self.host.value(module, "g")
        self.assertEqual(self.host.logs[-1]["text"], "y")

    def test_one_endless_line(self) -> None:
        module = self.module("def f():\n    for _ in range(2_000):\n        print('x' * 1000, end='')\n")
        self.host.value(module, "f")
        self.assertLess(sum(len(frame["text"]) for frame in self.host.logs), (256 << 10) + 200)

    def test_redirected_inside_a_call(self) -> None:
        module = self.module(
            "import contextlib, io\ndef f():\n    with contextlib.redirect_stdout(io.StringIO()) as out:\n        print('x')\n    return out.getvalue()\n"
        )
        self.assertEqual(self.host.value(module, "f"), "x\n")

    def test_finaliser_that_prints(self) -> None:
        module = self.module(
            """
            import gc
            class Loud:
                def __init__(self): self.me = self
                def __del__(self): print("gone")
            def f():
                gc.set_threshold(1)
                for n in range(500):
                    Loud()
                    print("line", [n])
                gc.set_threshold(700)
                gc.collect()
            """
        )
        self.host.value(module, "f")
        self.assertEqual(self.host.text().count("line"), 500)
        self.assertEqual(self.host.text().count("gone"), 500)

    def test_threads_print_whole_lines(self) -> None:
        module = self.module(
            """
            import threading
            def f():
                def work(n):
                    for _ in range(200):
                        print(str(n) * 20)
                threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
                for t in threads: t.start()
                for t in threads: t.join()
            """
        )
        self.host.value(module, "f")
        total = "".join(frame["text"] for frame in self.host.logs)
        self.assertEqual({n: total.count(n) for n in "0123"}, dict.fromkeys("0123", 4000))
        self.assertEqual({frame["id"] for frame in self.host.logs}, {1})


class Entry(HostTest):
    def test_main(self) -> None:
        for number, (signature, body) in enumerate((
            ("input, ctx", "[input, ctx.worker]"),
            ("input: dict, ctx: 'ToolContext'", "[input, ctx.worker]"),
            ("data, context", "[data, context.worker]"),
            ("ctx, input", "[input, ctx.worker]"),
            ("input", "[input, 'w']"),
        )):  # fmt: skip
            module = self.module(f"def main({signature}):\n    return {body}\n", f"m{number}.py")
            self.assertEqual(
                self.host.value(module, "main", ctx={"worker": "w"}, input={"a": 1}),
                [{"a": 1}, "w"],
                signature,
            )
        module = self.module(
            "import datetime\nasync def main(input: datetime.date):\n    return input.year\n", "typed.py"
        )
        self.assertEqual(self.host.value(module, "main", input="2024-01-02"), 2024)
        module = self.module("def main():\n    return 1\n", "none.py")
        self.assertEqual(self.host.value(module, "main", input=None), 1)

    def test_main_is_described_when_it_is_named(self) -> None:
        report = self.report("def main(input: dict, ctx) -> str:\n    return ''\n", names=["main"])
        (function,) = report["functions"]
        self.assertEqual((function["context"], list(function["input"]["properties"])), (True, ["input"]))


if __name__ == "__main__":
    unittest.main()
