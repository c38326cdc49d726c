# Registration: the `agent` that a module's `register(agent)` gets.


NO_OPTIONS = Options("tool", {})


def options_of(function: Any) -> Options:
    """The options that `@tool` gave a function, if it is marked."""
    options = getattr(function, "__llm_do_tool__", None)
    return options if isinstance(options, Options) else NO_OPTIONS


class Agent:
    """The argument of a module's `register(agent)`."""

    #: Options of other frameworks, which llm-do configures elsewhere.
    _ELSEWHERE = (
        "retries",
        "strict",
        "docstring_format",
        "require_parameter_descriptions",
        "timeout",
        "metadata",
    )

    def __init__(self) -> None:
        self._found: List[Tuple[Any, Options, bool]] = []

    def tool(self, function: Any = None, /, **options: Any) -> Any:
        """Registers a function whose first parameter may be the context."""
        return self._register("agent.tool", function, options, True)

    def tool_plain(self, function: Any = None, /, **options: Any) -> Any:
        """Registers a function without a context."""
        return self._register("agent.tool_plain", function, options, False)

    def add_tool(self, function: Any, /, **options: Any) -> Any:
        """Registers a function that may already be marked with `@tool`."""
        return self._register("agent.add_tool", function, options, True)

    def _register(self, what: str, function: Any, options: Dict[str, Any], context: bool) -> Any:
        if options.pop("requires_approval", False):
            options.setdefault("approval", "ask")
        if options.pop("sequential", False):
            options.setdefault("parallel", False)
        for key in self._ELSEWHERE:
            if key in options:
                del options[key]
                print(f"{what}: `{key}` has no effect in llm-do", file=sys.stderr)
        checked = Options(what, options)

        def add(function: Any) -> Any:
            if isinstance(function, type) or not callable(function):
                raise TypeError(f"{what} takes functions, not {show(function)}")
            given = checked if options else options_of(function)
            self._found.append((function, given, context))
            return function

        return add if function is None else add(function)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"the agent of llm-do has no `{name}`: use tool, tool_plain or add_tool")
