# Modules: importing them and finding their tools.


class Module:
    """An imported module and its tools."""

    __slots__ = ("key", "root", "path", "object", "tools", "exposes", "hidden", "duplicates", "missing")

    def __init__(self, key: str, root: str, path: str, object: Any) -> None:
        self.key = key
        self.root = root
        self.path = path
        self.object = object
        #: By the name of the function that a call uses.
        self.tools: Dict[str, Tool] = {}
        self.exposes = "nothing"
        #: Functions with a docstring that would be tools if none was marked.
        self.hidden: List[Any] = []
        #: Pairs of tools with one name.
        self.duplicates: List[Tuple[Tool, Tool]] = []
        #: A message about functions that were listed by name and do not exist.
        self.missing: Optional[str] = None

    def find(self, function: str) -> Tool:
        """The tool of that name, or another function of that name, like the `main` of an entry."""
        found = self.tools.get(function)
        if found is None:
            value = self.object
            for part in function.split("."):
                value = getattr(value, part, None)
            if value is None or not callable(value) or isinstance(value, type):
                names = list(self.tools) or [name for name in vars(self.object) if not name.startswith("_")]
                raise AttributeError(
                    f"{self.path} has no function `{function}`{did_you_mean(function, names)}"
                )
            found = self.tools[function] = Tool(self, value, function, options_of(value))
        return found


class Tool:
    """A function that llm-do may call."""

    __slots__ = (
        "module",
        "target",
        "function",
        "options",
        "name",
        "is_async",
        "context",
        "context_first",
        "_plan",
    )

    def __init__(
        self,
        module: Module,
        target: Any,
        function: str,
        options: Options,
        name: str = "",
        bare_context: bool = False,
    ) -> None:
        self.module = module
        self.target = target
        self.function = function
        self.options = options
        self.name = options.name or name or function.rpartition(":")[2].rpartition(".")[2]
        self.is_async = is_async(target)
        self.context, self.context_first = context_parameter(target, bare_context or function == "main")
        self._plan: Optional[Plan] = None

    @property
    def plan(self) -> Plan:
        """How arguments are read. Made on first use, because it imports `inspect` and `typing`."""
        if self._plan is None:
            self._plan = Plan(self)
        return self._plan


CONTEXT_NAMES = ("ToolContext", "AsyncToolContext", "RunContext")
BARE_NAMES = ("ctx", "_ctx", "context", "run_context", "_")


def is_context(annotation: Any) -> bool:
    """Whether an annotation means the context: the class, also generic or optional, or its name."""
    if isinstance(annotation, str):
        text = annotation.replace('"', "").replace("'", "")
        text = text.replace("Optional[", "").replace("None", "").strip(" |]")
        return text.partition("[")[0].rpartition(".")[2] in CONTEXT_NAMES
    if getattr(annotation, "__forward_arg__", None):
        return is_context(annotation.__forward_arg__)
    origin = getattr(annotation, "__origin__", annotation)
    if getattr(origin, "__name__", None) in CONTEXT_NAMES:
        return True
    inner = getattr(annotation, "__args__", ())
    return isinstance(inner, tuple) and type(None) in inner and any(is_context(one) for one in inner)


def context_parameter(target: Any, bare: bool) -> Tuple[Optional[str], bool]:
    """The parameter that takes the context, and whether it is the first.

    With `bare`, a parameter without an annotation is recognised by its name. This does not use `inspect`,
    which is slow to import, because every tool needs it.
    """
    partial = False
    while not hasattr(target, "__code__"):
        inner = getattr(target, "__wrapped__", None) or getattr(target, "func", None)
        if inner is None:
            break
        partial = partial or hasattr(target, "func")
        target = inner
    while hasattr(target, "__wrapped__"):
        target = target.__wrapped__
    code = code_of(target)
    if code is None:
        return None, False
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    bound = 1 if names and not hasattr(target, "__code__") or hasattr(target, "__self__") else 0
    try:
        annotations = (
            getattr(target, "__annotations__", None)
            or getattr(target.__call__, "__annotations__", None)
            or {}
        )
    except Exception:
        annotations = {}
    for index, name in enumerate(names[bound:]):
        annotation = annotations.get(name)
        if is_context(annotation) if annotation is not None else bare and name in BARE_NAMES:
            return name, index == 0 and bound + index < code.co_argcount and not partial
    return None, False


def put_on_path(folder: str) -> None:
    """Adds a folder to the path, before installed packages and after the standard library.

    So a file `queue.py` or `types.py` in a project can't break packages that need the standard module.
    """
    path = sys.path
    if folder in path:
        return
    place = len(path)
    for index, entry in enumerate(path):
        if entry.endswith(("site-packages", "dist-packages")):
            place = index
            break
    path.insert(place, folder)


def file_of(module: Any) -> Optional[str]:
    try:
        file = module.__file__
    except Exception:
        return None
    return file if isinstance(file, str) else None


def import_path(path: str, root: str) -> Any:
    """Imports a file or a package folder under its own name, or under another if that is taken."""
    import importlib
    import importlib.util

    package = os.path.isdir(path)
    file = os.path.join(path, "__init__.py") if package else path
    if not os.path.isfile(file):
        raise FileNotFoundError(f"there is no Python module at {path}")
    real = os.path.realpath(file)
    for module in list(sys.modules.values()):
        known = file_of(module)
        if (
            known is not None
            and os.path.basename(known) == os.path.basename(file)
            and os.path.realpath(known) == real
        ):
            return module
    folder = os.path.dirname(path)
    put_on_path(folder)
    put_on_path(root)
    stem = os.path.basename(path)
    stem = stem[:-3] if not package and stem.endswith(".py") else stem
    # A file in a package is imported as a part of the package, so that `from . import x` works.
    parents: List[str] = []
    above = folder
    while above != root and is_below(above, root) and os.path.isfile(os.path.join(above, "__init__.py")):
        parents.insert(0, os.path.basename(above))
        above = os.path.dirname(above)
    if parents and all(part.isidentifier() for part in (*parents, stem)):
        put_on_path(above)
        top = importlib.import_module(parents[0])
        known = file_of(top)
        if known and os.path.realpath(known) == os.path.realpath(
            os.path.join(above, parents[0], "__init__.py")
        ):
            return importlib.import_module(".".join((*parents, stem)))
    base = "".join(letter if letter.isalnum() else "_" for letter in stem)
    name, number = base, 1
    while name in sys.modules or (number == 1 and is_standard(name)):
        number += 1
        name = f"{base}__{number}"
    if not file.endswith(".py"):
        raise ImportError(f"{file} is not a Python file: its name must end in .py")
    spec: Any = importlib.util.spec_from_file_location(
        name, file, loader=SourceLoader(name, file), submodule_search_locations=[path] if package else None
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return sys.modules.get(name, module)


def is_standard(name: str) -> bool:
    """Whether the standard library has a module of that name."""
    known = getattr(sys, "stdlib_module_names", None)
    if known is None:  # Python 3.9.
        place = os.path.join(STANDARD_LIBRARY, name)
        return name in sys.builtin_module_names or os.path.exists(f"{place}.py") or os.path.isdir(place)
    return name in known


def takes_agent(value: Any) -> bool:
    """Whether it is a `register(agent)`, and not a tool with the name register."""
    code = getattr(value, "__code__", None)
    if code is None or code.co_argcount < 1:
        return False
    defaults = len(value.__defaults__ or ())
    name = code.co_varnames[0]
    annotation = value.__annotations__.get(name)
    text = (
        annotation
        if isinstance(annotation, str)
        else getattr(annotation, "__name__", None) or repr(annotation)
    )
    return code.co_argcount - defaults <= 1 and (name == "agent" or annotation is None or "Agent" in text)


def collect(module: Module, attribute: Optional[str], names: Optional[Sequence[str]]) -> None:
    """Finds the tools of a module: listed names, or else by `register`, `@tool`, `__all__`, type hints."""
    found: List[Tool] = []
    space = vars(module.object)

    def add(
        function: str, target: Any, options: Optional[Options] = None, bare: bool = False, name: str = ""
    ) -> None:
        marked = options if options is not None else options_of(target)
        found.append(Tool(module, target, function, marked, name, bare))

    register = getattr(module.object, attribute) if attribute else space.get("register")
    if attribute or takes_agent(register):
        agent = Agent()
        register(agent)
        module.exposes = "register"
        for target, options, context in agent._found:
            name = getattr(target, "__name__", None) or getattr(
                getattr(target, "func", None), "__name__", None
            )
            name = name or type(target).__name__
            place = name if space.get(name) is target else f"{attribute or 'register'}:{options.name or name}"
            add(place, target, options, context, name)
    taken = {id(tool.target) for tool in found}
    own = module.object.__name__
    inside = (
        own + "." if hasattr(module.object, "__path__") else own
    )  # A package exposes the tools of its files.
    for name, target in list(space.items()):
        if isinstance(getattr(target, "__llm_do_tool__", None), Options) and id(target) not in taken:
            home = getattr(target, "__module__", None) or own
            if home == own or home.startswith(inside):
                taken.add(id(target))
                add(name, target)
                if module.exposes == "nothing":
                    module.exposes = "decorated"
    if not found and isinstance(space.get("__all__"), (list, tuple)):
        module.exposes = "__all__"
        for name in space["__all__"]:
            target = getattr(module.object, name)
            if is_function(target):
                add(name, target)
    elif not found:
        for name, target in plain_functions(space, own, list(taken)):
            module.exposes = "plain"
            add(name, target)
    elif module.exposes == "decorated" and names is None:
        plain = [target for _, target in plain_functions(space, own, list(taken))]
        module.hidden = [target for target in plain if getattr(target, "__doc__", None)]
    if names is not None:
        module.exposes = "names"
        by_name = {tool.name: tool for tool in reversed(found)}
        by_name.update((tool.function, tool) for tool in found if tool.function not in by_name)
        missing: List[str] = []
        found = []
        for name in names:
            if name in by_name:
                found.append(by_name[name])
            elif is_function(space.get(name)):
                add(name, space[name])
            else:
                missing.append(
                    f"`{name}`{did_you_mean(name, [*by_name, *filter(lambda n: is_function(space[n]), space)])}"
                )
        if missing:
            module.missing = f"{module.path} has no function {', '.join(missing)}"
    by_tool: Dict[str, Tool] = {}
    for tool in found:
        first = by_tool.setdefault(tool.name, tool)
        if first is tool:
            module.tools[tool.function] = tool
        elif first.target is not tool.target:
            module.duplicates.append((first, tool))


def plain_functions(space: Dict[str, Any], own: str, known: Sequence[int]) -> List[Tuple[str, Any]]:
    """The public functions with type hints that a module defines and that are not known, each once."""
    found: List[Tuple[str, Any]] = []
    seen = set(known)
    for name, target in list(space.items()):
        if name.startswith("_") or name == "main" or not is_function(target) or id(target) in seen:
            continue
        if target.__module__ == own and getattr(target, "__annotations__", None):
            seen.add(id(target))
            found.append((name, target))
    return found


def is_function(target: Any) -> bool:
    """A function or a decorated function, but not a class or another callable object."""
    if isinstance(target, type) or not callable(target):
        return False
    return hasattr(target, "__code__") or hasattr(target, "__wrapped__") or hasattr(target, "__func__")
