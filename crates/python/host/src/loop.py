# The loop: running calls and answering questions.

# What the package `llm_do` has beside the names of tools: the client, which starts programs from outside of a run.
CLIENT_NAMES = (
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
)


def outside_of_runs(name: str) -> type:
    """The client in a run. A file with tools may import it, for a script that it also is, and can't use it."""
    if name not in CLIENT_NAMES:
        raise AttributeError(f"module 'llm_do' has no attribute {name!r}")

    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError(
            f"llm_do.{name} is for programs outside of a run: a tool calls workers with ctx.call"
        )

    # An exception, so that it may stand behind `except`.
    return type(name, (Exception,), {"__init__": refuse})


class Host(Scheduler):
    """Serves the frames that the scheduler hands to a thread."""

    def serve(self, call: Call, frame: Frame) -> None:
        kind = frame["t"]
        try:
            if kind == "call" and get_ident() == interrupts.main:
                self.call_in_main(call, frame)
            elif kind == "call":
                self.call(call, frame)
            elif kind == "approval":
                self.approve(call, frame)
            elif kind == "load":
                self.channel.send({"t": "loaded", "modules": [self.load(one) for one in frame["modules"]]})
            elif kind == "schema":
                self.schema(frame)
            elif kind == "parse":
                self.channel.send({"t": "parsed", **syntax_of(frame["text"])})
            elif kind == "exit":
                self.exit()
        except BaseException:
            report_bug()  # It must not reach the code that waits below.

    def call_in_main(self, call: Call, frame: Frame) -> None:
        """Serves a call in the main thread, perhaps above code that waits there for a call of its own."""
        if interrupts.call is None:
            self.prepare()
            self.call(call, frame)
            return
        streams = sys.stdout, sys.stderr, sys.stdin
        limit = sys.getrecursionlimit()
        raised = limit + stack_depth()  # The code above gets as much of the stack as the code below.
        sys.setrecursionlimit(raised)
        self.prepare()
        try:
            self.call(call, frame)
        finally:
            sys.stdout, sys.stderr, sys.stdin = streams
            if sys.getrecursionlimit() == raised:
                sys.setrecursionlimit(limit)

    # -- callbacks

    def ask(self, call: Call, questions: List[Question]) -> List[Frame]:
        """Asks questions for a call, and waits for all answers. The caller must hold interrupts."""
        in_main = get_ident() == interrupts.main
        if in_main and interrupts.call not in (call, None):  # There is none in a forked child.
            raise RuntimeError("a function can only use the context of its own call")
        pump = in_main and not is_in_event_loop()
        parked = self.parked if pump else Parked()
        if pump:
            self.is_free = True  # Before the questions are sent: what they lead to is to be served here.
        try:
            waiters = self.send_questions(call, questions, self.wake if pump else parked.wake)
        except BaseException:
            if pump:
                self.is_free = False
            raise

        def is_done() -> bool:
            done = call.cancelled or all(waiter.reply is not None for waiter in waiters)
            if call.idle_asked is not None and not done:
                number, call.idle_asked = call.idle_asked, None
                self.channel.send({"t": "idle", "id": call.id, "number": number})
            return done

        try:
            if pump:
                # A task that began meanwhile may be what another thread of this call waits for.
                self.serve_until(lambda: is_done() and not (self.tasks and len(call.waiters) > len(waiters)))
            else:
                while not is_done():
                    parked.sleep()
        finally:
            self.forget(call, waiters)
            if not pump:
                self.wake()  # The main thread may wait for the end of this question.
        replies = [waiter.reply for waiter in waiters if waiter.reply is not None]
        if len(replies) < len(waiters):
            call.interrupted = True
            raise CallInterrupted("the call was cancelled")
        return replies

    def send_questions(
        self, call: Call, questions: List[Question], wake: Callable[[], None], loop: Any = None
    ) -> List[Waiter]:
        """Sends questions, all or none."""
        if _getpid() != HOST_PID:
            raise RuntimeError("a forked process cannot make calls in the run")
        if call.cancelled:
            call.interrupted = True
            raise CallInterrupted("the call was cancelled")
        waiters, bodies = [], []
        for op, fields, cb in questions:
            waiter = Waiter(self.next_cb() if cb is None else cb, wake, loop)
            kind = {"t": "step_end"} if op == "step_end" else {"t": "callback", "op": op}
            body = to_bytes(encode({**kind, "id": call.id, "cb": waiter.id, **fields}))
            if len(body) > MAX_RESULT:
                raise ValueError(too_large(f"{len(body):,} bytes", "the input of a call"))
            waiters.append(waiter)
            bodies.append(body)
        for waiter in waiters:
            self.waiters[waiter.id] = call.waiters[waiter.id] = waiter
        # Checked after the waiters are registered: the end of a call answers all registered ones.
        if call.ended:
            self.forget(call, waiters)
            raise RuntimeError("the call has ended")
        for body in bodies:
            self.channel.send_bytes(body)
        return waiters

    def forget(self, call: Call, waiters: List[Waiter]) -> None:
        for waiter in waiters:
            self.waiters.pop(waiter.id, None)
            call.waiters.pop(waiter.id, None)

    # -- calls

    def exit(self) -> NoReturn:
        import atexit

        try:
            atexit._run_exitfuncs()
        except BaseException:
            pass
        _exit(0)  # `sys.exit` would wait for the threads of tools.

    def module(self, given: Frame) -> Module:
        """Imports a module on first use, and finds its tools."""
        known = self.modules.get(given["key"])
        if known is not None:
            return known
        with self.importing:
            return self.modules.get(given["key"]) or self.import_module(given)

    def import_module(self, given: Frame) -> Module:
        key = given["key"]
        root = given.get("root") or "/"
        path = given.get("path")
        text = given.get("text")
        if path and text is not None:
            module = Module(key, root, path, None)
            module.object = import_text(path, text)
        elif path:
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

    def prepare(self) -> None:
        """Restores the streams that an earlier call may have replaced."""
        sys.stdout = self.stdout
        sys.stderr = self.stderr
        sys.stdin = self.stdin

    def call(self, call: Call, frame: Frame) -> None:
        """Serves a call in this thread."""
        token = current.set(call)
        try:
            self.start(call, frame)
        except BaseException as error:
            self.fail(call, error)
        finally:
            current.reset(token)

    def start(self, call: Call, frame: Frame) -> None:
        """Runs a sync call to its end, or starts an async one."""
        if call.cancelled:
            raise CallInterrupted("the call was cancelled before it began")
        given = frame["module"]
        module = self.modules.get(given["key"])
        if module is None:
            call.module = Module(given["key"], given.get("root") or "/", given.get("path") or "", None)
            done, value = interrupts.run(call, self.module, (given,), {})
            if not done:
                self.fail(call, value, True)
                return
            module = value
        call.module = module
        if frame.get("thread") and get_ident() == interrupts.main:  # It is here only for the import.
            self.start_thread(call, frame)
            return
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
            value is None
            or kind is bool
            or (kind is int and fits(value))
            or (kind is str and len(value) < MAX_RESULT // 4)
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
                self.fail(call, value)
                return
        for note in notes:
            self.logs.send(call, "log", "warning", note)
        result = {"t": "result", "id": call.id, "value": value}
        if blobs:
            result["blobs"] = blobs
        self.finish(call, result)

    def fail(self, call: Call, error: BaseException, importing: bool = False) -> None:
        """Ends a call with an error."""
        self.finish(call, {"t": "error", "id": call.id, **describe_error(error, call.module, importing)})

    def finish(self, call: Call, frame: Frame) -> None:
        """Ends a call and sends its answer."""
        self.logs.flush(call)
        call.ended = True
        if call.id is not None:
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

        if get_ident() != interrupts.main:
            loop = asyncio.new_event_loop()
            try:
                loop.run_until_complete(self.run_async(call, target, args, kwargs))
            finally:
                loop.close()
            return
        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        task = self.loop.create_task(self.run_async(call, target, args, kwargs))
        self.tasks.add(task)
        task.add_done_callback(self.end_task)

    def end_task(self, task: Any) -> None:
        self.tasks.discard(task)
        if not self.tasks:
            self.loop.stop()

    async def run_async(self, call: Call, target: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        import asyncio

        call.task = asyncio.current_task()
        try:
            try:
                if call.cancelled:
                    raise asyncio.CancelledError
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
            self.fail(call, error)
        else:
            self.finish_with(call, value)

    # -- discovery

    def load(self, given: Frame) -> Frame:
        """Imports a module and describes its tools."""
        call = Call(None)
        call.captured = []
        call.module = Module(given["key"], given.get("root") or "/", given.get("path") or "", None)
        token = current.set(call)
        self.prepare()
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
        report["hidden"] = [
            {"name": target.__name__, "file": code.co_filename, "line": code.co_firstlineno}
            for target in module.hidden
            for code in (code_of(target),)
            if code is not None
        ]
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
        self.prepare()
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

    def approve(self, call: Call, frame: Frame) -> None:
        """Calls the function of `@tool(approval=…)`."""
        given = frame["module"]
        call.module = self.modules.get(given["key"]) or Module(
            given["key"], given.get("root") or "/", given.get("path") or "", None
        )
        token = current.set(call)
        try:
            done, value = interrupts.run(call, self.verdict, (frame,), {})
        finally:
            current.reset(token)
        if done:
            self.finish(call, {"t": "result", "id": call.id, "value": value})
        else:
            self.fail(call, value)

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
        public.__getattr__ = outside_of_runs  # type: ignore[method-assign]
        sys.modules["llm_do"] = public
        os.register_at_fork(after_in_child=self.forked)

    def forked(self) -> None:
        """In a forked child: closes the socket, and sends output to the pipes."""
        os.close(self.channel.fd)
        interrupts.call = None
        self.stdout.forked()
        self.stderr.forked()
