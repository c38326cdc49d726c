# The scheduler: which thread serves which frame, and how threads wait for each other.

if TYPE_CHECKING:
    #: A frame for the main thread, and the call that it begins.
    Job = Tuple[Call, Frame]


def stack_depth() -> int:
    """The number of frames on the stack of this thread."""
    frame, depth = sys._getframe(), 0
    while frame.f_back is not None:
        frame, depth = frame.f_back, depth + 1
    return depth


class Scheduler:
    """Decides which thread serves a frame.

    One thread reads them. The main thread serves them one after another, also while code that it runs waits for a
    call: then it runs the next call above that code on its stack. Async calls share an event loop there. Calls
    with the field `thread` run in threads of their own, and so do others while the main thread is blocked by code
    whose own threads wait for calls.
    """

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.logs = Logs(channel)
        self.modules: Dict[str, Module] = {}
        #: Held while a module is imported.
        self.importing = RLock()
        self.calls: Dict[int, Call] = {}
        self.waiters: Dict[int, Waiter] = {}
        #: Guards the next three.
        self.lock = allocate_lock()
        #: What waits for the main thread.
        self.backlog: deque[Job] = deque()
        #: Whether the main thread takes the next job as soon as there is one.
        self.is_free = False
        #: The call whose code the main thread runs while it is not free.
        self.occupant: Optional[Call] = None
        self.parked = Parked()
        self.next_cb = count(1).__next__
        self.loop: Any = None
        self.looping = False
        self.tasks: Set[Any] = set()

    # -- reading

    def run(self) -> None:
        """Serves frames until llm-do says `exit` or closes the socket."""
        start_new_thread(self.read_frames, ())
        self.serve_until(lambda: False)

    def read_frames(self) -> None:
        try:
            while True:
                for frame in self.channel.receive():
                    self.route(frame)
        except BaseException:
            report_bug()

    def route(self, frame: Frame) -> None:
        """Handles a frame that has arrived, or hands it to the thread that does."""
        kind = frame["t"]
        if kind == "reply":
            waiter = self.waiters.get(frame["cb"])
            if waiter is not None:
                waiter.answer(frame)
        elif kind == "cancel":
            call = self.calls.get(frame["id"])
            if call is not None:
                self.cancel(call)
        elif kind == "idle":
            call = self.calls.get(frame["id"])
            if call is not None:
                call.idle_asked = frame["number"]
                self.wake()
        else:
            call = Call(None)
            if kind in ("call", "approval"):
                call = self.calls[frame["id"]] = Call(frame["id"], None, frame.get("ctx"))
            if self.is_for_main(call, frame):
                self.wake()
            else:
                self.start_thread(call, frame)

    def is_for_main(self, call: Call, frame: Frame) -> bool:
        """Whether the main thread serves a frame. If so, it is in the backlog."""
        beside = frame.get("thread") or frame["t"] == "approval"
        with self.lock:
            if self.is_free:
                # A module is imported in the main thread where that is possible: some objects stay with the thread that
                # made them.
                main = not frame.get("thread") or frame["module"]["key"] not in self.modules
            else:
                # The code in the main thread may wait for this call: its own threads have made calls.
                main = not beside and not (self.occupant is not None and self.occupant.has_open_questions())
            if main:
                self.backlog.append((call, frame))
        return main

    def cancel(self, call: Call) -> None:
        call.cancelled = True
        if call.task is not None:
            self.cancel_task(call)
        else:
            interrupts.send(call)
            for waiter in list(call.waiters.values()):
                waiter.wake()

    @staticmethod
    def cancel_task(call: Call) -> None:
        if not call.interrupted:
            call.interrupted = True
            call_soon(call.task.get_loop(), call.task.cancel)

    def serve(self, call: Call, frame: Frame) -> None:
        """Serves a frame in this thread."""
        raise NotImplementedError

    def fail(self, call: Call, error: BaseException) -> None:
        """Ends a call with an error."""
        raise NotImplementedError

    # -- the main thread

    def serve_until(self, is_done: Callable[[], bool]) -> None:
        """Serves jobs in the main thread until something is done. The gate of interrupts must be closed."""
        outer = self.occupant
        while True:
            with self.lock:
                job = self.backlog.popleft() if self.backlog else None
                self.is_free = job is None and not is_done()
                self.occupant = outer if job is None else job[0]
                if job is None and not self.is_free:
                    return
            if job is not None:
                self.serve(*job)
            elif self.tasks:
                self.run_loop()
            else:
                self.parked.sleep()

    def wake(self) -> None:
        """Lets the main thread look for jobs and answers, if it waits in `serve_until`."""
        self.parked.wake()
        if self.looping:
            call_soon(self.loop, self.loop.stop)

    def run_loop(self) -> None:
        """Runs the event loop until the main thread is woken or no async call is left."""
        self.looping = True
        try:
            if not self.parked.was_woken():
                self.loop.run_forever()
        except BaseException as error:  # Raised by a task or a callback that a tool left behind.
            self.logs.send(self.logs.no_call, "log", "error", f"in the event loop: {type(error).__name__}")
            if self.loop.is_closed():
                _exit(1)
        finally:
            self.looping = False

    # -- threads

    def start_thread(self, call: Call, frame: Frame) -> None:
        """Serves a call beside others."""
        self.logs.beside.add(call)
        try:
            start_new_thread(self.run_thread, (call, frame))
        except RuntimeError as error:
            self.logs.beside.discard(call)
            self.fail(call, error)

    def run_thread(self, call: Call, frame: Frame) -> None:
        try:
            self.serve(call, frame)
        finally:
            self.logs.beside.discard(call)
