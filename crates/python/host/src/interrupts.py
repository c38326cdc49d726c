# Interrupts: when SIGINT may raise in user code.


class CallInterrupted(BaseException):
    """Raised in a running tool when its call is cancelled or times out."""


class Interrupts:
    """Decides when SIGINT may raise: while the main thread runs user code of a sync call and the gate is open.

    The gate is closed around code that must not be interrupted (`hold`, `release`). A signal that arrives
    meanwhile raises when the gate opens again. Each call is interrupted at most once.
    """

    def __init__(self) -> None:
        self.call: Optional[Call] = None
        self.open = False
        self.pending = False
        self.main = get_ident()
        #: Whether the signal was for a call that has ended. The host sets it.
        self.is_stale: Callable[[], bool] = lambda: False

    def on_signal(self, _number: int, _frame: object) -> None:
        if self.call is None:
            return
        if not self.open:
            self.pending = True
            return
        self.open = False
        if self.is_stale():
            self.open = True
            return
        raise CallInterrupted("the call was interrupted")

    def hold(self) -> bool:
        """Closes the gate and returns whether it was open. It is always closed for other threads."""
        if not self.open or get_ident() != self.main:
            return False
        self.open = False
        return True

    def release(self, was_open: bool) -> None:
        """Opens the gate again, and raises if a signal arrived meanwhile."""
        if was_open:
            self.open = True
            if self.pending:  # Checked after opening, so that no signal is lost.
                self.open = self.pending = False
                if not self.is_stale():
                    raise CallInterrupted("the call was interrupted")
                self.open = True

    def run(
        self, call: Call, function: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any]
    ) -> Outcome:
        """Runs user code with the gate open. Returns an exception instead of raising it."""
        outer = self.call
        self.call = call
        self.pending = False
        _set_signal(_signal.SIGINT, self.on_signal)  # User code may have changed both.
        _signal_mask(_signal.SIG_UNBLOCK, (_signal.SIGINT,))
        try:
            try:
                self.release(True)
                outcome: Outcome = (True, function(*args, **kwargs))
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
