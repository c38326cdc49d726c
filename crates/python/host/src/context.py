# The context of a call in a run: how its calls and steps get to llm-do, and how code waits for the answers.


class Waiter:
    """One question to llm-do, until it is answered."""

    __slots__ = ("id", "reply", "future", "loop", "wake")

    def __init__(self, id: int, wake: Callable[[], None], loop: Any = None) -> None:
        self.id = id
        self.reply: Optional[Frame] = None
        self.loop = loop
        self.future: Any = loop.create_future() if loop else None
        #: Wakes the thread that waits for the answer.
        self.wake = wake

    def answer(self, reply: Frame) -> None:
        if self.reply is not None:
            return
        self.reply = reply
        if self.loop is None:
            self.wake()
        else:
            call_soon(self.loop, self._settle)

    def _settle(self) -> None:
        if not self.future.done():
            self.future.set_result(None)


class Parked:
    """Lets a thread sleep until another wakes it. A wake before the sleep counts."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._lock.acquire()

    def sleep(self) -> None:
        self._lock.acquire()

    def was_woken(self) -> bool:
        """Whether a wake has arrived since the last sleep. It then counts no more."""
        return self._lock.acquire(False)

    def wake(self) -> None:
        try:
            self._lock.release()
        except RuntimeError:
            pass  # It is awake.


def call_soon(loop: Any, function: Callable[[], object]) -> None:
    """Calls a function in the thread of an event loop, unless a tool has closed the loop."""
    try:
        loop.call_soon_threadsafe(function)
    except RuntimeError:
        pass


def is_in_event_loop() -> bool:
    """Whether this thread runs an event loop at the moment."""
    events = sys.modules.get("asyncio.events")
    return events is not None and events._get_running_loop() is not None


if TYPE_CHECKING:
    #: Operation, fields, ID of the callback that it continues.
    Question = Tuple[str, Frame, Optional[int]]

ENDED: Any = {"ended": True}


def value_of(reply: Frame) -> Any:
    """The value that a reply holds. Raises the exception that it describes."""
    if reply is ENDED:
        raise RuntimeError("the call has ended")
    error = reply.get("error")
    if error is not None:
        raise CallError(str(error.get("kind")), str(error.get("message")))
    return reply.get("value")


def value_or_error(reply: Frame) -> Any:
    try:
        return value_of(reply)
    except CallError as error:
        return error


class RunContext(CallContext):
    """The context that llm-do makes. What differs between sync and async tools is in the subclasses."""

    def __init__(self, host: Host, call: Call) -> None:
        self._host = host
        self._call = call
        self._run_id = call.ctx.get("run") or ""
        self._worker = call.ctx.get("worker") or ""
        self._key = call.ctx.get("key") or ""
        mode: Any = call.ctx.get("mode") or ""
        self._approvals = Approvals(mode)
        self._sandbox = call.sandbox

    def _is_cancelled(self) -> bool:
        return self._call.cancelled

    def _log(self, text: str, level: str) -> None:
        held = interrupts.hold()
        try:
            self._host.logs.send(self._call, "log", level, text)
        finally:
            interrupts.release(held)

    def _plain(self, value: Any, what: str) -> Json:
        return JsonWriter(self._call.sandbox, what, None).convert(value)

    def _question(self, name: object, input: Any, arguments: Dict[str, Any]) -> Frame:
        """The name and the input of a call, as JSON."""
        if not isinstance(name, str):
            raise TypeError(f"the name of a worker or tool must be a text, not {show(name)}")
        value = self._plain(input, f"the input of {name}")
        if arguments:
            more = self._plain(arguments, f"the input of {name}")
            if value is not None and not isinstance(value, dict):
                raise TypeError(f"the input of {name} is given twice: as a value and by keywords")
            value = {**(value or {}), **more}
        return {"name": name, "input": value}

    def _questions(self, calls: Iterable[Any]) -> List[Frame]:
        questions = []
        for one in calls:
            name, value = (one, None) if isinstance(one, str) else one
            questions.append(self._question(name, value, {}))
        return questions

    def _failed_step(self, error: BaseException) -> Frame:
        return {"error": describe_error(error, self._call.module)}


class SyncRunContext(RunContext, ToolContext):
    def _make(self, op: str, name: str, input: Any, arguments: Dict[str, Any]) -> Any:
        return value_of(self._ask([(op, self._question(name, input, arguments), None)])[0])

    def _get_state(self, name: str) -> Any:
        return value_of(self._ask([("state_get", {"name": str(name)}, None)])[0])

    def _set_state(self, name: str, value: Any) -> Any:
        fields = {"name": str(name), "value": self._plain(value, f"the state {name!r}")}
        return value_of(self._ask([("state_set", fields, None)])[0])

    def _make_all(self, calls: Iterable[Any], return_exceptions: bool) -> Any:
        replies = self._ask([("call", question, None) for question in self._questions(calls)])
        return raise_first([value_or_error(reply) for reply in replies], return_exceptions)

    def _run_step(self, name: str, function: Callable[[], Any]) -> Any:
        reply = self._ask([("step", {"name": str(name)}, None)])[0]
        if not reply.get("go"):
            return value_of(reply)
        outcome: Frame
        failure = None
        try:
            outcome = {"value": self._plain(function(), f"the value of step {name!r}")}
        except BaseException as error:
            failure = error
            outcome = self._failed_step(error)
        reply = self._ask([("step_end", outcome, reply["cb"])])[0]
        if failure is not None:
            raise failure
        return value_of(reply)

    def _ask(self, questions: List[Question]) -> List[Frame]:
        held = interrupts.hold()
        try:
            return self._host.ask(self._call, questions)
        finally:
            interrupts.release(held)


class AsyncRunContext(RunContext, AsyncToolContext, ToolContext):  # type: ignore[misc]  # Also for `isinstance`.
    async def _make(self, op: str, name: str, input: Any, arguments: Dict[str, Any]) -> Any:
        return value_of(await self._ask(op, self._question(name, input, arguments)))

    async def _get_state(self, name: str) -> Any:
        return value_of(await self._ask("state_get", {"name": str(name)}))

    async def _set_state(self, name: str, value: Any) -> Any:
        fields = {"name": str(name), "value": self._plain(value, f"the state {name!r}")}
        return value_of(await self._ask("state_set", fields))

    async def _make_all(self, calls: Iterable[Any], return_exceptions: bool) -> List[Any]:
        import asyncio

        waiting = [self._ask("call", question) for question in self._questions(calls)]
        replies = await asyncio.gather(*waiting)
        return raise_first([value_or_error(reply) for reply in replies], return_exceptions)

    async def _run_step(self, name: str, function: Callable[[], Any]) -> Any:
        reply = await self._ask("step", {"name": str(name)})
        if not reply.get("go"):
            return value_of(reply)
        outcome: Frame
        failure = None
        try:
            value = await settled(function())
            outcome = {"value": self._plain(value, f"the value of step {name!r}")}
        except BaseException as error:
            failure = error
            outcome = self._failed_step(error)
        reply = await self._ask("step_end", outcome, reply["cb"])
        if failure is not None:
            raise failure
        return value_of(reply)

    async def _ask(self, op: str, fields: Frame, cb: Optional[int] = None) -> Frame:
        import asyncio

        (waiter,) = self._host.send_questions(
            self._call, [(op, fields, cb)], lambda: None, asyncio.get_running_loop()
        )
        try:
            await waiter.future
        finally:
            self._call.waiters.pop(waiter.id, None)
            self._host.waiters.pop(waiter.id, None)
        return waiter.reply or ENDED
