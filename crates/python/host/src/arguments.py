# Arguments: how the arguments of one tool are described and read.


def partial_of(value: Any) -> Callable[[], Any]:
    return lambda: value


def doc_text(target: Any) -> Optional[str]:
    """The docstring of a function. For a callable object, that of its `__call__` or of its class."""
    if not is_function(target):
        target = getattr(target, "func", None) or target  # functools.partial
        if not is_function(target) and is_function(vars(type(target)).get("__call__")):
            target = vars(type(target))["__call__"] if type(target).__call__.__doc__ else type(target)
    text = getattr(target, "__doc__", None)
    return text if isinstance(text, str) else None


#: Keywords of a schema that may describe more properties than `properties` does.
COMPOSED = ("additionalProperties", "allOf", "anyOf", "oneOf", "$ref", "patternProperties")

#: Keywords of which a JSON Schema of an object has at least one.
OBJECT_KEYWORDS = (
    *COMPOSED,
    *("type", "properties", "required", "propertyNames", "minProperties", "maxProperties"),
    *("dependentRequired", "dependentSchemas", "if", "not", "unevaluatedProperties", "$schema", "$defs"),
    *("title", "description", "examples", "default"),
)


class Plan:
    """How the arguments of a tool are described and read."""

    def __init__(self, tool: Tool) -> None:
        import inspect

        self.tool = tool
        self.types = Types()
        #: Why the function can't be a tool.
        self.refused: Optional[str] = None
        self.forms: Dict[str, Tuple[Form, bool]] = {}
        #: Makes the values of missing arguments whose default is a `Field`.
        self.fill: Dict[str, Callable[[], Any]] = {}
        self.natural: Dict[str, Any] = {}
        self.extra: Optional[Form] = None
        self.whole: Optional[Form] = None
        #: The parameter that takes all arguments, as one object.
        self.into: Optional[str] = None
        self.returns: Any = UNSET
        self.first: Optional[str] = None
        self.description, docs = parse_docstring(doc_text(tool.target))
        if tool.options.description:
            self.description = tool.options.description.strip()
        inner = inspect.unwrap(tool.target)
        inner = getattr(inner, "func", inner) if not hasattr(inner, "__code__") else inner
        namespace = getattr(getattr(inner, "__func__", inner), "__globals__", None) or vars(
            tool.module.object
        )
        closure = inspect.getclosurevars(inner).nonlocals if getattr(inner, "__closure__", None) else {}
        self.namespace = {**namespace, **closure}
        try:
            signature = inspect.signature(tool.target)
        except (ValueError, TypeError, NameError) as error:
            self.refused = f"its parameters cannot be read: {message_of(error)}"
            return
        code = code_of(tool.target)
        if code is not None and code.co_flags & 0x220:  # CO_GENERATOR, CO_ASYNC_GENERATOR
            self.refused = "it is a generator: return a list instead of yielding"
        self.returns = (
            UNSET if signature.return_annotation is signature.empty else signature.return_annotation
        )
        for name, parameter in signature.parameters.items():
            if name == tool.context:
                continue
            self.first = self.first or name
            problem = self.parameter(name, parameter, docs)
            if problem and self.refused is None:
                self.refused = problem
        if tool.options.schema is not None:
            self.companion(tool.options.schema, "@tool(schema=…)")
        else:
            name = getattr(tool.target, "__name__", tool.name)
            schema = vars(tool.module.object).get(f"{name}_schema") if tool.module.object else None
            if isinstance(schema, (dict, type)):
                self.companion(schema, f"{name}_schema")

    def parameter(self, name: str, parameter: Any, docs: Dict[str, str]) -> Optional[str]:
        """Describes a parameter. Returns the problem if a tool can't have it."""
        if parameter.kind is parameter.VAR_POSITIONAL:
            return f"it takes `*{name}`, but arguments of tools have names: take a list"
        if parameter.kind is parameter.POSITIONAL_ONLY:
            return f"parameter `{name}` is positional-only, but arguments of tools have names: remove the `/`"
        annotation = parameter.annotation
        bare = annotation is parameter.empty
        try:
            if parameter.kind is parameter.VAR_KEYWORD:
                self.keywords(annotation, bare, docs)
                return None
            form = self.types.any() if bare else self.types.form(annotation, self.namespace)
            if parameter.default is None and not bare and "null" not in encode(form.schema) and form.schema:
                form = self.types.union((annotation, None), self.namespace)  # `x: int = None`
        except Unsupported as error:
            return f"parameter `{name}` has a type that a tool cannot take: {error}"
        default = parameter.default
        required = default is parameter.empty
        if isinstance(default, FieldOptions) or type(default).__name__ == "FieldInfo":
            form = constrain(form, options_in(default) or {})
            factory = default.default_factory
            value = default.default
            required = factory is None and (value is ... or type(value).__name__ == "PydanticUndefinedType")
            if not required:
                self.fill[name] = factory if factory is not None else partial_of(value)
            default = parameter.empty if required or factory is not None else value
        more: Frame = {}
        if name in docs and "description" not in form.schema:
            more["description"] = docs[name]
        if not required and default is not parameter.empty:
            more.update(default_of(default))
            if "default" in more:
                self.natural[name] = more["default"]
        self.forms[name] = (form.with_schema(more), required)
        return None

    def keywords(self, annotation: Any, bare: bool, docs: Dict[str, str]) -> None:
        """`**options: int`, or `**options: Unpack[Options]`."""
        if isinstance(annotation, str):
            annotation = evaluate(annotation, self.namespace)
        if str(getattr(annotation, "__origin__", "")).endswith(".Unpack"):
            inner = annotation.__args__[0]
            required = inner.__required_keys__
            fields = [(name, type_, name in required, UNSET) for name, type_ in inner.__annotations__.items()]
            self.forms.update(self.types.fields(inner, fields, {})[1])
            return
        self.extra = self.types.any() if bare else self.types.form(annotation, self.namespace)

    def companion(self, given: Any, what: str) -> None:
        """Uses an explicit schema of the arguments: a JSON Schema, or a class."""
        if isinstance(given, dict):
            names = given.get("properties")
            if given.get("type", "object") != "object" or (names is not None and not isinstance(names, dict)):
                self.refused = f"{what} must describe an object, whose properties are the arguments"
                return
            if given and not any(key in OBJECT_KEYWORDS for key in given):
                self.refused = (
                    f"{what} is no JSON Schema of an object: write the arguments under `properties`, "
                    f'such as {{"type": "object", "properties": {{"{next(iter(given))}": …}}}}'
                )
                return
            self.into = self.taker(names or {})
            if self.into is None and self.extra is None:
                unknown = [name for name in names or () if name not in self.forms]
                if unknown:
                    self.refused = (
                        f"{what} has a property `{unknown[0]}`, but the function has no such parameter"
                    )
                    return
                missing = [
                    name for name, (_, needed) in self.forms.items() if needed and name not in (names or ())
                ]
                if missing and names is not None and not any(key in given for key in COMPOSED):
                    self.refused = (
                        f"{what} has no property `{missing[0]}`, but the function needs that parameter"
                    )
                    return
            self.whole = Form(default_of(given).get("default") or {"type": "object"}, read_any)
            return
        try:
            form = self.types.form(given, self.namespace)
        except Unsupported as error:
            self.refused = f"{what} is a type that a tool cannot take: {error}"
            return
        self.whole = form

    def taker(self, names: Dict[str, Any]) -> Optional[str]:
        """The only parameter, if it takes an object and no property has its name: `def greet(args: dict)`."""
        if len(self.forms) != 1 or self.extra is not None:
            return None
        name, (form, _) = next(iter(self.forms.items()))
        takes_object = not form.schema or form.schema.get("type") == "object" or "$ref" in form.schema
        return name if takes_object and name not in names else None

    def schema(self) -> Frame:
        """The schema of the arguments."""
        if self.whole is not None:
            schema = self.types.finish(self.whole.schema)
            if schema.get("type") is None and not any(key in schema for key in COMPOSED):
                schema = {"type": "object", **schema}
            open_ended = self.extra is not None or any(key in schema for key in COMPOSED)
            return schema if open_ended else {**schema, "additionalProperties": False}
        schema = {
            "type": "object",
            "properties": {name: form.schema for name, (form, _) in self.forms.items()},
        }
        required = [name for name, (_, required) in self.forms.items() if required]
        if required:
            schema["required"] = required
        schema["additionalProperties"] = False if self.extra is None else self.extra.schema or True
        return self.types.finish(schema)

    def output(self) -> Optional[Frame]:
        """The schema of the result, if the return type has one."""
        if self.returns is UNSET:
            return None
        types = Types(output=True)
        try:
            return types.finish(types.form(self.returns, self.namespace).schema) or None
        except Unsupported:
            return None

    @property
    def plain(self) -> bool:
        if self.into is not None or (isinstance(self.whole, Form) and self.whole.read is not read_any):
            return False
        forms = [form for form, _ in self.forms.values()]
        return (
            all(form.plain for form in forms) and not self.fill and (self.extra is None or self.extra.plain)
        )

    @property
    def paths(self) -> List[str]:
        found = [name for name, (form, _) in self.forms.items() if form.paths]
        if self.whole is not None and self.whole.paths:
            found = sorted({*found, *self.schema().get("properties", ())})
        return found

    def defaults(self) -> Dict[str, Any]:
        """The defaults of parameters, as JSON."""
        return dict(self.natural)

    def read(self, args: Dict[str, Any], sandbox: Sandbox) -> Dict[str, Any]:
        """Converts the arguments. Raises `ArgumentsError` with all problems."""
        reading = Reading(sandbox)
        if self.refused:
            raise ArgumentsError(f"{self.tool.name} cannot be called as a tool: {self.refused}")
        if self.whole is not None and self.whole.read is not read_any:
            return self.read_whole(args, reading)
        if self.into is not None:
            made = self.forms[self.into][0].read(args, reading, "the input")
            self.check(reading)
            return {self.into: made}
        result: Dict[str, Any] = {}
        for name, value in args.items():
            known = self.forms.get(name)
            reader = known[0] if known else self.extra
            if reader is None:
                reading.fail(f"`{name}`", f"is not a parameter{did_you_mean(name, self.forms)}")
            else:
                result[name] = reader.read(value, reading, f"`{name}`")
        for name, (form, required) in self.forms.items():
            if name not in args:
                if name in self.fill:
                    result[name] = self.fill[name]()
                elif required:
                    reading.fail(f"`{name}`", "is missing")
                elif form.paths and sandbox.mounts and self.natural.get(name) is not None:
                    # A default is a path in the sandbox too, if the call can see it.
                    attempt = Reading(sandbox)
                    value = form.read(self.natural[name], attempt, f"`{name}`")
                    if not attempt.problems:
                        result[name] = value
        self.check(reading)
        return result

    def read_whole(self, args: Dict[str, Any], reading: Reading) -> Dict[str, Any]:
        made = self.whole.read(args, reading, "the input")  # type: ignore[union-attr]
        self.check(reading)
        if len(self.forms) == 1 and self.first not in (made if isinstance(made, dict) else vars(made)):
            return {self.first: made}  # type: ignore[dict-item]  # The function takes the model as one argument.
        return dict(made) if isinstance(made, dict) else dict(vars(made))

    def entry(self, value: Any) -> Dict[str, Any]:
        """The arguments of `main(input, ctx)`: the first parameter gets the input."""
        if self.first is None:
            return {}
        return self.read({self.first: value}, current.get().sandbox)  # type: ignore[union-attr]

    def check(self, reading: Reading) -> None:
        if reading.problems:
            raise ArgumentsError(shorten("\n".join(problem.strip() for problem in reading.problems)))


def place_of(tool: Tool) -> Tuple[Optional[str], Optional[int]]:
    """File and line of a function."""
    target = tool.target
    while hasattr(target, "__wrapped__"):
        target = target.__wrapped__
    code = code_of(target)
    return (code.co_filename, code.co_firstlineno) if code is not None else (tool.module.path, None)


def takes_origins(tool: Tool) -> bool:
    """Whether the approval function looks at where the words of the arguments come from."""
    approval = tool.options.approval
    if not callable(approval):
        return False
    import inspect

    parameters = inspect.signature(approval).parameters
    return "origins" in parameters and "origins" not in tool.plan.schema().get("properties", {})


def describe_tool(tool: Tool) -> Frame:
    """The description of a tool for llm-do."""
    plan = tool.plan
    file, line = place_of(tool)
    options = tool.options
    return {
        "name": tool.name,
        "function": tool.function,
        "description": plan.description,
        "input": plan.schema(),
        "output": plan.output(),
        "async": tool.is_async,
        "context": tool.context is not None,
        "plain": plan.plain and plan.refused is None,
        "risk": options.risk,
        "approval": "callable" if callable(options.approval) else options.approval,
        "approval_origins": takes_origins(tool),
        "parallel": options.parallel,
        "untrusted": options.untrusted,
        "paths": plan.paths,
        "file": file,
        "line": line,
        "refused": plan.refused,
    }
