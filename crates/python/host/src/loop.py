# The loop: serving frames and running calls.


class Host:
    """Serves frames one after another. Async calls run at the same time."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.logs = Logs(channel)
        self.modules: Dict[str, Module] = {}
        self.calls: Dict[Optional[int], Call] = {}
        self.waiters: Dict[int, Waiter] = {}
        #: Frames that wait for the main thread.
        self.backlog: deque[Frame] = deque()
        self.next_cb = count(1).__next__
        #: A cancellation arrived for a call that had ended. Its signal may still be pending.
        self.stale = False
        self.loop: Any = None
        self.looping = False
        self.tasks: Set[Any] = set()
        interrupts.is_stale = self.is_stale

    # -- reading

    def run(self) -> NoReturn:
        """Serves frames until llm-do says `exit` or closes the socket."""
        backlog, channel = self.backlog, self.channel
        while True:
            if not backlog:
                channel.reading.acquire()
                try:
                    if not backlog:  # A thread that waited for an answer may have read frames.
                        for frame in channel.receive():
                            self.route(frame)
                finally:
                    channel.reading.release()
            self.serve_backlog()

    def route(self, frame: Frame) -> None:
        """Handles a frame that any thread may handle, or queues it for the main thread."""
        kind = frame["t"]
        if kind == "reply":
            waiter = self.waiters.get(frame["cb"])
            if waiter is not None:
                waiter.answer(frame)
        elif kind == "cancel":
            call = self.calls.get(frame["id"])
            if call is None:
                waiting = [one for one in self.backlog if one["t"] == "call" and one["id"] == frame["id"]]
                for one in waiting:  # It arrived together with its call.
                    one["cancelled"] = True
                self.stale = self.stale or not waiting
                return
            call.cancelled = True
            if call.task is not None:
                call.task.get_loop().call_soon_threadsafe(call.task.cancel)
        elif kind == "approval":
            self.approve(frame)  # At once, because a running tool may wait for the call that it is about.
        else:
            self.backlog.append(frame)
            if self.looping:
                self.loop.call_soon_threadsafe(self.serve_backlog)

    def drain(self) -> None:
        """Handles the frames that have arrived, without waiting."""
        channel = self.channel
        if not channel.reading.acquire(False):
            return  # Another thread reads, and handles them.
        try:
            while channel.readable(0):
                for frame in channel.receive():
                    self.route(frame)
        finally:
            channel.reading.release()

    def is_stale(self) -> bool:
        """Whether a signal was for an earlier call, according to the cancellations."""
        self.drain()
        stale, self.stale = self.stale, False
        return stale and not (interrupts.call is not None and interrupts.call.cancelled)

    # -- callbacks

    def ask(self, call: Call, op: str, fields: Frame, cb: Optional[int] = None, loop: Any = None) -> Waiter:
        """Sends a question for a call. The caller must hold interrupts."""
        if _getpid() != HOST_PID:
            raise RuntimeError("a forked process cannot make calls in the run")
        waiter = Waiter(self.next_cb() if cb is None else cb, loop)
        self.waiters[waiter.id] = call.waiters[waiter.id] = waiter
        frame = {"t": "callback", "id": call.id, "cb": waiter.id, "op": op, **fields}
        if op == "step_end":
            frame = {"t": "step_end", "id": call.id, "cb": waiter.id, **fields}
        try:
            if call.ended:  # Checked after the waiter is registered, because the end of a call answers all registered waiters.
                raise RuntimeError("the call has ended")
            body = to_bytes(encode(frame))
            if len(body) > MAX_RESULT:
                raise ValueError(too_large(f"{len(body):,} bytes", "the input of a call"))
            self.channel.send_bytes(body)
        except BaseException:
            self.waiters.pop(waiter.id, None)
            call.waiters.pop(waiter.id, None)
            raise
        return waiter

    def wait(self, call: Call, waiter: Waiter, held: bool) -> Frame:
        """Waits for an answer. One waiting thread reads for all, and wakes the others.

        `held` is the result of `Interrupts.hold`. An interrupt may raise only while this sleeps.
        """
        reading = self.channel.reading
        try:
            while waiter.reply is None:
                if reading.acquire(False):
                    try:
                        while waiter.reply is None:
                            if self.sleep(lambda: self.channel.readable(POLL_MS), held):
                                for frame in self.channel.receive():
                                    self.route(frame)
                    finally:
                        reading.release()
                else:
                    self.sleep(lambda: waiter.parked.acquire(True, POLL_MS / 1000), held)
        finally:
            self.waiters.pop(waiter.id, None)
            call.waiters.pop(waiter.id, None)
            for other in list(self.waiters.values()):  # Another waiting thread reads now.
                if other.reply is None and other.loop is None:
                    other.wake()
                    break
        return waiter.reply

    @staticmethod
    def sleep(wait: Callable[[], bool], held: bool) -> bool:
        interrupts.release(held)
        try:
            return wait()
        finally:
            interrupts.hold()

    # -- calls

    def serve(self, frame: Frame) -> None:
        kind = frame["t"]
        if kind == "call":
            self.call(frame)
        elif kind == "load":
            self.channel.send({"t": "loaded", "modules": [self.load(one) for one in frame["modules"]]})
        elif kind == "schema":
            self.schema(frame)
        elif kind == "exit":
            self.exit()

    def exit(self) -> NoReturn:
        import atexit

        try:
            atexit._run_exitfuncs()
        except BaseException:
            pass
        _exit(0)  # `sys.exit` would wait for the threads of tools.

    def module(self, given: Frame) -> Module:
        """Imports a module on first use, and finds its tools."""
        key = given["key"]
        known = self.modules.get(key)
        if known is not None:
            return known
        root = given.get("root") or "/"
        path = given.get("path")
        if path:
            module = Module(key, root, path, None)
            module.object = import_path(path, root)
        else:
            import importlib

            put_on_path(root)
            module = Module(key, root, given["module"], None)
            module.object = importlib.import_module(given["module"])
            module.path = file_of(module.object) or given["module"]
        collect(module, given.get("attribute"), given.get("names"))
        self.modules[key] = module
        return module

    def prepare(self, call: Call) -> None:
        """Restores the streams that an earlier call may have replaced."""
        sys.stdout = self.stdout
        sys.stderr = self.stderr
        sys.stdin = self.stdin

    def call(self, frame: Frame) -> None:
        call = Call(frame["id"], None, frame.get("ctx"))
        self.calls[call.id] = call
        token = current.set(call)
        self.prepare(call)
        try:
            self.start(call, frame)
        except BaseException as error:
            self.finish(call, {"t": "error", "id": call.id, **describe_error(error, call.module)})
        finally:
            current.reset(token)

    def start(self, call: Call, frame: Frame) -> None:
        """Runs a sync call to its end, or starts an async one."""
        if frame.get("cancelled"):
            raise CallInterrupted("the call was cancelled before it began")
        given = frame["module"]
        module = self.modules.get(given["key"])
        if module is None:
            call.module = Module(given["key"], given.get("root") or "/", given.get("path") or "", None)
            done, value = interrupts.run(call, self.module, (given,), {})
            if not done:
                self.finish(call, {"t": "error", "id": call.id, **describe_error(value, call.module, True)})
                return
            module = value
        call.module = module
        function = frame["function"]
        tool = module.tools.get(function) or module.find(function)
        args: Tuple[Any, ...] = ()
        kwargs: Dict[str, Any] = frame["args"]
        if function == "main" and len(kwargs) == 1 and "input" in kwargs:
            kwargs = tool.plan.entry(kwargs["input"])
        elif not frame.get("plain") or float in map(type, kwargs.values()):
            done, value = interrupts.run(call, self.read, (tool, kwargs, call), {})
            if not done:
                raise value
            kwargs = value
        if tool.context is not None:
            ctx = (AsyncRunContext if tool.is_async else SyncRunContext)(self, call)
            if tool.context_first:
                args = (ctx,)
            else:
                kwargs[tool.context] = ctx
        if tool.is_async:
            self.start_async(call, tool.target, args, kwargs)
            return
        done, value = interrupts.run(call, tool.target, args, kwargs)
        if done:
            self.finish_with(call, value)
        else:  # Described like user code is run, because the `__str__` of an exception may never end.
            done, error = interrupts.run(call, describe_error, (value, module), {})
            self.finish(
                call, {"t": "error", "id": call.id, **(error if done else describe_error(error, module))}
            )

    @staticmethod
    def read(tool: Tool, args: Dict[str, Any], call: Call) -> Dict[str, Any]:
        return tool.plan.read(args, call.sandbox)

    def finish_with(self, call: Call, value: Any) -> None:
        """Answers with a value. What has no JSON form is answered as a text, with a note."""
        kind = type(value)
        blobs: List[Frame] = []
        notes: List[str] = []
        if not (
            value is None or kind is bool or kind is int or (kind is str and len(value) < MAX_RESULT // 4)
        ):
            plain = JsonWriter(call.sandbox, "the result", blobs, notes)
            done, value = interrupts.run(call, plain.convert, (value,), {})
            if not done and isinstance(value, TooLarge):
                notes.append(str(value))
                blobs, value = [], f"[{value}]"
            elif not done:
                if not isinstance(value, (ResultError, CallInterrupted)):
                    message = (
                        f"the result cannot be written as JSON: {type(value).__name__}: {message_of(value)}"
                    )
                    value = ResultError(message).with_traceback(value.__traceback__)
                self.finish(call, {"t": "error", "id": call.id, **describe_error(value, call.module)})
                return
        for note in notes:
            self.logs.send(call, "log", "warning", note)
        result = {"t": "result", "id": call.id, "value": value}
        if blobs:
            result["blobs"] = blobs
        self.finish(call, result)

    def finish(self, call: Call, frame: Frame) -> None:
        """Ends a call and sends its answer."""
        self.logs.flush(call)
        call.ended = True
        self.calls.pop(call.id, None)
        try:
            body = to_bytes(encode(frame))
            problem = too_large(f"{len(body):,} bytes") if len(body) > MAX_RESULT + 1024 else None
        except (ValueError, RecursionError) as error:
            problem = f"the result is not JSON: {error}"
        if problem is not None:  # The call had its effects: it must not look failed.
            self.logs.send(call, "log", "warning", problem)
            body = to_bytes(encode({"t": "result", "id": call.id, "value": f"[{problem}]"}))
        # Before the answer is sent: a thread that still waits may read the next frame, and must then see that the
        # call has ended.
        for waiter in list(call.waiters.values()):
            waiter.answer(ENDED)
        self.channel.send_bytes(body)

    # -- async calls

    def start_async(self, call: Call, target: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        import asyncio

        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        call.task = self.loop.create_task(self.run_async(call, target, args, kwargs))
        self.tasks.add(call.task)
        if not self.looping:
            self.run_loop()

    async def run_async(self, call: Call, target: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        import asyncio

        try:
            try:
                value = target(*args, **kwargs)
                if hasattr(value, "__await__"):
                    value = await value
                if _getpid() != HOST_PID:
                    _exit(0)  # A forked child that returned from the tool.
            except asyncio.CancelledError as error:
                if not call.cancelled:
                    raise
                raise CallInterrupted("the call was cancelled").with_traceback(error.__traceback__) from None
        except BaseException as error:
            self.finish(call, {"t": "error", "id": call.id, **describe_error(error, call.module)})
        else:
            self.finish_with(call, value)
        finally:
            self.tasks.discard(call.task)
            if not self.tasks:
                self.loop.stop()

    def run_loop(self) -> None:
        """Runs the event loop until no async call is left. Keeps the loop and its tasks for later calls."""
        loop = self.loop
        loop.add_reader(self.channel.fd, self.on_readable)
        loop.call_soon(self.serve_backlog)  # Frames that arrived together with the call that starts the loop.
        self.looping = True
        try:
            while self.tasks:
                try:
                    loop.run_forever()
                except BaseException as error:  # Raised by a task or a callback that a tool left behind.
                    self.logs.send(
                        self.logs.no_call, "log", "error", f"in the event loop: {type(error).__name__}"
                    )
                    if loop.is_closed():
                        _exit(1)
        finally:
            self.looping = False
            loop.remove_reader(self.channel.fd)

    def on_readable(self) -> None:
        if self.channel.reading.acquire(False):
            try:
                for frame in self.channel.receive():
                    self.route(frame)
            finally:
                self.channel.reading.release()
        self.serve_backlog()

    def serve_backlog(self) -> None:
        while self.backlog:
            self.serve(self.backlog.popleft())

    # -- discovery

    def load(self, given: Frame) -> Frame:
        """Imports a module and describes its tools."""
        call = Call(None)
        call.captured = []
        call.module = Module(given["key"], given.get("root") or "/", given.get("path") or "", None)
        token = current.set(call)
        self.prepare(call)
        report: Frame = {"key": given["key"], "functions": [], "exposes": "nothing", "error": None}
        try:
            done, value = interrupts.run(call, self.describe, (given, report), {})
            if not done:
                report["error"] = describe_error(value, call.module, True)
        finally:
            self.logs.flush(call)
            current.reset(token)
        call.ended = True
        report["logs"] = "".join(call.captured)
        return report

    def describe(self, given: Frame, report: Frame) -> None:
        module = self.module(given)
        report["exposes"] = module.exposes
        report["functions"] = [describe_tool(tool) for tool in module.tools.values()]
        if module.missing is not None:
            report["error"] = {
                "kind": "import",
                "type": "MissingName",
                "message": module.missing,
                "frames": [],
            }
        elif module.duplicates:
            first, second = module.duplicates[0]
            frames = [
                {"file": file, "line": line, "function": one.function, "text": source_line(file, line)}
                for one in (first, second)
                for file, line in (place_of(one),)
            ]
            lines = " and ".join(f"line {frame['line']} ({frame['function']})" for frame in frames)
            report["error"] = {
                "kind": "import",
                "type": "DuplicateTool",
                "message": f"{module.path} has two tools named `{first.name}`, at {lines}: give one of them another name",
                "frames": frames,
            }

    def schema(self, frame: Frame) -> None:
        """The JSON Schema of a class, for `schema_in_ref` and `schema_out_ref`."""
        call = Call(None)
        call.module = Module(frame["key"], frame.get("root") or "/", frame.get("path") or "", None)
        token = current.set(call)
        self.prepare(call)
        try:
            done, value = interrupts.run(call, self.schema_of, (frame,), {})
        finally:
            self.logs.flush(call)
            current.reset(token)
        if done:
            self.channel.send({"t": "schema", "schema": value})
        else:
            self.channel.send({"t": "error", **describe_error(value, call.module, True)})

    def schema_of(self, frame: Frame) -> Json:
        names = frame["class"].split(".")
        # A key of its own, because the module need not expose tools.
        value = self.module(
            {**frame, "key": f"schema {frame['key']}", "names": None, "attribute": None}
        ).object
        for name in names:
            inner = getattr(value, name, None)
            if inner is None:
                known = [one for one, what in vars(value).items() if isinstance(what, type)]
                raise AttributeError(
                    f"{frame.get('path') or frame.get('module')} has no class `{name}`{did_you_mean(name, known)}"
                )
            value = inner
        return schema_of_type(value)

    def approve(self, frame: Frame) -> None:
        """Calls the function of `@tool(approval=…)`."""
        call = Call(frame["id"])
        given = frame["module"]
        call.module = self.modules.get(given["key"]) or Module(
            given["key"], given.get("root") or "/", given.get("path") or "", None
        )
        token = current.set(call)
        try:
            if get_ident() == interrupts.main and interrupts.call is None:
                done, value = interrupts.run(call, self.verdict, (frame,), {})
            else:
                try:
                    done, value = True, self.verdict(frame)
                except BaseException as error:
                    done, value = False, error
            self.logs.flush(call)
        finally:
            current.reset(token)
        if done:
            self.channel.send({"t": "result", "id": call.id, "value": value})
        else:
            self.channel.send({"t": "error", "id": call.id, **describe_error(value, call.module)})

    def verdict(self, frame: Frame) -> str:
        tool = self.module(frame["module"]).find(frame["function"])
        approval = tool.options.approval
        value = approval
        if callable(approval):
            import inspect

            parameters = inspect.signature(approval).parameters
            named = [one.name for one in parameters.values() if one.kind is not one.VAR_KEYWORD]
            args = {**tool.plan.defaults(), **frame["args"]}
            about = {"args": args, "arguments": args}
            about.update({name: frame[name] for name in ("input", "caller", "origins") if name in frame})
            if len(parameters) == 1 and named in (["args"], ["arguments"], ["input"]):
                value = approval(args)
            else:
                # An argument of the tool comes before what else has its name.
                given = {name: value for name, value in {**about, **args}.items() if name in named}
                if len(named) < len(parameters):
                    given = {**args, **given}
                value = approval(**given)
        if value not in RULES:
            raise ResultError(
                f"the approval function of {tool.name} must return one of {', '.join(RULES)}, not {show(value)}"
            )
        return str(value)

    # -- the process

    def install(self) -> None:
        """Installs the streams and the module `llm_do`, and hides the host from tools."""
        self.stdin = Input()
        self.stdout = Output(self.logs, "stdout", 1)
        self.stderr = Output(self.logs, "stderr", 2)
        sys.__stdin__ = sys.stdin = self.stdin  # type: ignore[assignment, misc]
        sys.__stdout__ = sys.stdout = self.stdout  # type: ignore[assignment, misc]
        sys.__stderr__ = sys.stderr = self.stderr  # type: ignore[assignment, misc]
        sys.dont_write_bytecode = True
        import_sources()
        sys.argv = ["llm-do"]
        make = type(sys)
        self.main = sys.modules["__main__"]  # Python clears a module that has no reference.
        sys.modules["__main__"] = make("__main__")
        public = make("llm_do", "What Python tools import from llm-do.")
        for name in __all__:
            value = globals()[name]
            setattr(public, name, value)
            value.__module__ = "llm_do"
        public.__all__ = __all__  # type: ignore[attr-defined]
        sys.modules["llm_do"] = public
        os.register_at_fork(after_in_child=self.forked)

    def forked(self) -> None:
        """In a forked child: closes the socket, and sends output to the pipes."""
        os.close(self.channel.fd)
        interrupts.call = None
        self.stdout.forked()
        self.stderr.forked()
