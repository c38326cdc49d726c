# Interrupts: when SIGINT may raise in user code.


class CallInterrupted(BaseException):
    """Raised in a running tool when its call is cancelled or times out."""


class Interrupts:
    """Decides when SIGINT may raise: while the main thread runs user code of a cancelled call and the gate is open.

    The gate is closed around code that must not be interrupted (`hold`, `release`). A call that was cancelled
    meanwhile raises when the gate opens again. Each call is interrupted at most once. Code in other threads is
    never interrupted.
    """

    def __init__(self) -> None:
        #: The call whose code the main thread runs. Calls that wait there for their own calls are below it.
        self.call: Optional[Call] = None
        self.open = False
        self.main = get_ident()

    def send(self, call: Call) -> None:
        """Interrupts a cancelled call, if the main thread runs its code."""
        if self.call is call and not call.interrupted:
            _kill_thread(self.main, _signal.SIGINT)

    def on_signal(self, _number: int, _frame: object) -> None:
        if self.open:
            self.check()

    def check(self) -> None:
        """Raises if the call was cancelled, once."""
        call = self.call
        if call is not None and call.cancelled and not call.interrupted:
            call.interrupted = True
            self.open = False
            raise CallInterrupted("the call was cancelled")

    def hold(self) -> bool:
        """Closes the gate and returns whether it was open. It is always closed for other threads."""
        if not self.open or get_ident() != self.main:
            return False
        self.open = False
        return True

    def release(self, was_open: bool) -> None:
        """Opens the gate again, and raises if the call was cancelled meanwhile."""
        if was_open:
            self.open = True
            self.check()  # After opening, so that no signal is lost.

    def run(
        self, call: Call, function: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any]
    ) -> Outcome:
        """Runs user code, in the main thread with the gate open. Returns an exception instead of raising it."""
        outcome: Outcome
        if get_ident() != self.main:
            try:
                outcome = (True, function(*args, **kwargs))
            except BaseException as error:
                outcome = (False, error)
        else:
            outer = self.call
            self.call = call
            _set_signal(_signal.SIGINT, self.on_signal)  # User code may have changed both.
            _signal_mask(_signal.SIG_UNBLOCK, (_signal.SIGINT,))
            try:
                try:
                    self.release(True)
                    outcome = (True, function(*args, **kwargs))
                except BaseException as error:
                    outcome = (False, error)
                self.open = False
            except CallInterrupted as error:  # Between the end of the function and the closing of the gate.
                outcome = (False, error)
            self.open = False
            self.call = outer
        if _getpid() != HOST_PID:
            _exit(0)  # A forked child that returned from the tool. Its parent answers.
        return outcome


if TYPE_CHECKING:
    Outcome = Tuple[bool, Any]

interrupts = Interrupts()
