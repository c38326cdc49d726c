# Schemas: types as JSON Schemas, with the functions that read their values.


class Types:
    """Describes the types of one function. The schemas of classes are shared in `defs`, by name."""

    def __init__(self, output: bool = False) -> None:
        #: Whether the types are those of results. Some types differ as arguments and as results.
        self.output = output
        self.defs: Dict[str, Frame] = {}
        self.named: Dict[Any, Tuple[str, Form]] = {}

    def form(self, annotation: Any, namespace: Dict[str, Any]) -> Form:
        """The form of an annotation. Names in strings are looked up in `namespace`."""
        import typing

        if isinstance(annotation, str):
            return self.form(evaluate(annotation, namespace), namespace)
        if isinstance(annotation, typing.ForwardRef):
            module = (
                sys.modules.get(annotation.__forward_module__ or "")
                if isinstance(annotation.__forward_module__, str)
                else None
            )
            return self.form(
                evaluate(annotation.__forward_arg__, vars(module) if module else namespace), namespace
            )
        simple = self.simple(annotation)
        if simple is not None:
            return simple
        origin, args = typing.get_origin(annotation), typing.get_args(annotation)
        if origin is not None:
            return self.generic(annotation, origin, args, namespace)
        if hasattr(annotation, "__supertype__"):  # NewType
            return self.form(annotation.__supertype__, namespace)
        if isinstance(annotation, typing.TypeVar):
            if annotation.__constraints__:
                return self.union(annotation.__constraints__, namespace)
            return (
                self.form(annotation.__bound__, namespace) if annotation.__bound__ is not None else self.any()
            )
        if type(annotation).__name__ == "TypeAliasType":
            return self.named_form(
                annotation, annotation.__name__, lambda: self.form(annotation.__value__, namespace)
            )
        bare = self.bare(annotation, namespace)
        if bare is not None:
            return bare
        if isinstance(annotation, type):
            return self.of_class(annotation)
        raise Unsupported(show(annotation))

    @staticmethod
    def any() -> Form:
        return Form({}, read_any, plain=True)

    def simple(self, annotation: Any) -> Optional[Form]:
        import typing

        if annotation is None or annotation is type(None):
            return Form({"type": "null"}, read_exact(type(None)), plain=True)
        if annotation is typing.Any or annotation is object or str(annotation).endswith(".Any"):
            return self.any()
        if annotation is str or str(annotation).endswith(".LiteralString"):
            return Form({"type": "string"}, read_exact(str), plain=True)
        if annotation is int:
            return Form({"type": "integer"}, read_int, plain=True)
        if annotation is float:
            return Form({"type": "number"}, read_float)
        if annotation is bool:
            return Form({"type": "boolean"}, read_exact(bool), plain=True)
        return None

    def bare(self, annotation: Any, namespace: Dict[str, Any]) -> Optional[Form]:
        """Containers without arguments."""
        import collections
        import collections.abc as abc

        if annotation in (tuple, list, set, frozenset, dict, collections.deque) or annotation in (
            abc.Sequence, abc.MutableSequence, abc.Iterable, abc.Collection, abc.Set, abc.MutableSet,
            abc.Mapping, abc.MutableMapping, collections.OrderedDict, collections.defaultdict, collections.Counter,
        ):  # fmt: skip
            return self.generic(annotation, annotation, (), namespace)
        return None

    def generic(self, annotation: Any, origin: Any, args: Tuple[Any, ...], namespace: Dict[str, Any]) -> Form:
        import collections
        import collections.abc as abc
        import typing

        special = str(origin).rpartition(".")[2]
        if origin is typing.Union or special == "UnionType'>" or type(annotation).__name__ == "UnionType":
            return self.union(args, namespace)
        if special == "Literal":
            return self.literal(args)
        if special == "Annotated" or hasattr(annotation, "__metadata__"):
            return self.annotated(annotation, args[0], annotation.__metadata__, namespace)
        if special in ("Required", "NotRequired", "ReadOnly", "Final", "ClassVar", "InitVar"):
            form = self.form(args[0], namespace)
            if special in ("Required", "NotRequired"):
                form = form.with_schema({"": None})
                del form.schema[""]
                form.optional = special == "NotRequired"
            return form
        if origin in (tuple,):
            return self.tuple(args, namespace)
        lists = {list: list, collections.deque: collections.deque}
        lists.update(
            (kind, list) for kind in (abc.Sequence, abc.MutableSequence, abc.Iterable, abc.Collection)
        )
        sets = {set: set, frozenset: frozenset, abc.Set: set, abc.MutableSet: set}
        if origin in lists or origin in sets:
            return self.list(
                args[0] if args else None, {**lists, **sets}[origin], origin in sets, bool(args), namespace
            )
        dicts = {
            dict: dict,
            abc.Mapping: dict,
            abc.MutableMapping: dict,
            collections.OrderedDict: collections.OrderedDict,
        }
        if origin in dicts:
            return self.dict(args, dicts[origin], namespace)
        if origin is collections.defaultdict:
            return self.dict(args, lambda pairs: collections.defaultdict(None, pairs), namespace)
        if origin is collections.Counter:
            return self.dict((args[0] if args else str, int), collections.Counter, namespace)
        if isinstance(origin, type) and is_pydantic(origin):
            return self.pydantic(annotation)
        if type(origin).__name__ == "TypeAliasType":
            filled = dict(zip(origin.__type_params__, args))
            return self.form(substitute(origin.__value__, filled), namespace)
        if isinstance(origin, type) and (is_dataclass(origin) or is_typed_dict(origin)):
            return self.of_class(origin, dict(zip(getattr(origin, "__parameters__", ()), args)))
        raise Unsupported(show(annotation))

    def list(self, item: Any, make: Any, unique: bool, has_item: bool, namespace: Dict[str, Any]) -> Form:
        inner = self.form(item, namespace) if has_item else self.any()
        schema: Frame = {"type": "array"}
        if inner.schema:
            schema["items"] = inner.schema
        if unique:
            schema["uniqueItems"] = True

        def read(value: Any, reading: Reading, where: str) -> Any:
            if type(value) is not list:
                reading.fail(where, f"must be a list, not {kind_of(value)}")
                return value
            if inner.plain and make is list and not reading.exact:
                return value
            items = [inner.read(one, reading, f"{where}[{index}]") for index, one in enumerate(value)]
            try:
                return items if make is list else make(items)
            except TypeError:
                reading.fail(where, "must hold values that can be members of a set")

        return Form(schema, read, plain=inner.plain and make is list, paths=inner.paths)

    def tuple(self, args: Tuple[Any, ...], namespace: Dict[str, Any]) -> Form:
        if not args or (len(args) == 2 and args[1] is ...):
            return self.list(args[0] if args else None, tuple, False, bool(args), namespace)
        forms = [] if args == ((),) else [self.form(one, namespace) for one in args]
        schema = {
            "type": "array",
            "prefixItems": [form.schema for form in forms],
            "minItems": len(forms),
            "maxItems": len(forms),
        }

        def read(value: Any, reading: Reading, where: str) -> Any:
            if type(value) is not list or len(value) != len(forms):
                reading.fail(where, f"must be a list of {len(forms)} values")
                return value
            return tuple(
                form.read(one, reading, f"{where}[{at}]") for at, (form, one) in enumerate(zip(forms, value))
            )

        return Form(schema, read, paths=any(form.paths for form in forms))

    def dict(self, args: Tuple[Any, ...], make: Any, namespace: Dict[str, Any]) -> Form:
        key, inner = (
            (self.form(args[0], namespace), self.form(args[1], namespace))
            if args
            else (self.any(), self.any())
        )
        schema: Frame = {"type": "object"}
        if inner.schema:
            schema["additionalProperties"] = inner.schema
        if "enum" in key.schema or "const" in key.schema or "$ref" in key.schema:
            schema["propertyNames"] = key.schema
        elif "pattern" in key.schema and inner.schema:
            del schema["additionalProperties"]
            schema["patternProperties"] = {key.schema["pattern"]: inner.schema}
        text_keys = key.schema.get("type", "string") == "string"

        def read(value: Any, reading: Reading, where: str) -> Any:
            if type(value) is not dict:
                reading.fail(where, f"must be an object, not {kind_of(value)}")
                return value
            if key.plain and text_keys and inner.plain and make is dict and not reading.exact:
                return value
            pairs = []
            for name, one in value.items():
                if text_keys:
                    as_key = name
                else:  # JSON writes a key that is a number or a boolean as a text.
                    as_key = scalar_in(name)
                known = key.read(as_key, reading, f"the key {name[:80]!r} of {where}")
                pairs.append((known, inner.read(one, reading, f"{where}[{name[:80]!r}]")))
            try:
                return make(pairs)
            except TypeError:
                reading.fail(where, "must have keys that can be keys of a dict")

        return Form(
            schema, read, plain=key.plain and text_keys and inner.plain and make is dict, paths=inner.paths
        )

    def union(self, members: Iterable[Any], namespace: Dict[str, Any]) -> Form:
        forms: List[Form] = []
        for member in members:
            form = self.form(member, namespace)
            if all(form.schema != other.schema for other in forms):
                forms.append(form)
        if len(forms) == 1:
            return forms[0]
        if any(not form.schema for form in forms):
            schema: Frame = {}
        else:
            choices: List[Frame] = []
            for form in forms:  # A union in a union becomes one union.
                flat = form.schema["anyOf"] if set(form.schema) == {"anyOf"} else [form.schema]
                choices.extend(one for one in flat if one not in choices)
            schema = {"anyOf": choices}

        def read(value: Any, reading: Reading, where: str) -> Any:
            nearest: List[str] = []
            for exact in (True, False):
                for form in forms:
                    attempt = Reading(reading.sandbox, exact)
                    result = form.read(value, attempt, where)
                    if not attempt.problems:
                        return result
                    # Report the problems of the member that got farthest.
                    if not exact and max(map(len, attempt.problems)) > max(map(len, nearest), default=0):
                        nearest = attempt.problems
                if reading.exact:
                    break
            for problem in nearest or [f"{where} fits none of its possible types"]:
                reading.fail("", problem.strip())

        return Form(
            schema, read, plain=all(form.plain for form in forms), paths=any(form.paths for form in forms)
        )

    def literal(self, values: Iterable[Any]) -> Form:
        import enum

        choices: List[Tuple[Json, Any]] = []
        for value in values:
            written = value.value if isinstance(value, enum.Enum) else value
            if written is not None and not isinstance(written, (str, int)):
                raise Unsupported(f"Literal[{show(value)}]")
            choices.append((written, value))
        return self.choice(choices, "one of")

    def choice(self, choices: List[Tuple[Json, Any]], _what: str) -> Form:
        """A fixed set of values: pairs of a JSON value and the Python value."""
        written = [value for value, _ in choices]
        schema: Frame = {"const": written[0]} if len(written) == 1 else {"enum": written}
        kinds = {type(value) for value in written}
        names = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
        if len(kinds) == 1:
            schema["type"] = names[kinds.pop()]

        def read(value: Any, reading: Reading, where: str) -> Any:
            for known, meant in choices:
                if known == value and (type(known) is bool) == (type(value) is bool):
                    return meant
            shown = ", ".join(map(repr, written[:20])) + (", …" if len(written) > 20 else "")
            reading.fail(
                where, f"must be {'one of ' if len(written) > 1 else ''}{shown}, not {value!r}"[:400]
            )

        return Form(schema, read, plain=all(value is meant for value, meant in choices))

    def annotated(
        self, annotation: Any, inner: Any, metadata: Sequence[Any], namespace: Dict[str, Any]
    ) -> Form:
        extras = [options_in(one) for one in metadata]
        if any(extra is None for extra in extras):  # For example validators, which only Pydantic knows.
            return self.pydantic(annotation)
        form = self.form(inner, namespace)
        for extra in extras:
            form = constrain(form, extra or {})
        return form

    def of_class(self, cls: type, filled: Optional[Dict[Any, Any]] = None) -> Form:
        import datetime
        import decimal
        import enum
        import uuid
        from pathlib import Path, PosixPath, PurePath, PurePosixPath

        if issubclass(cls, enum.Enum):
            members = [(one.value if is_scalar(one.value) else one.name, one) for one in cls]
            if not members:
                raise Unsupported(f"{show(cls)}, an Enum without members")
            return self.named_form(cls, cls.__name__, lambda: self.enum(cls, members))
        texts: Dict[type, Tuple[Frame, Callable[[str], Any], str]] = {
            datetime.datetime: (
                {"format": "date-time"},
                lambda text: datetime.datetime.fromisoformat(iso_text(text)),
                "a date and time like 2024-05-01T12:00:00Z",
            ),
            datetime.date: ({"format": "date"}, datetime.date.fromisoformat, "a date like 2024-05-01"),
            datetime.time: (
                {"format": "time"},
                lambda text: datetime.time.fromisoformat(iso_text(text)),
                "a time like 12:30:00",
            ),
            datetime.timedelta: ({"format": "duration"}, read_duration, "a duration like P1DT2H"),
            uuid.UUID: ({"format": "uuid"}, uuid.UUID, "a UUID"),
        }
        if cls in texts:
            more, make, what = texts[cls]
            return Form({"type": "string", **more}, read_text_as(make, what))
        if cls in (bytes, bytearray):
            if self.output:  # It is sent as an attachment, or as a reference to one.
                return self.any()
            make = read_bytes if cls is bytes else lambda text: bytearray(read_bytes(text))
            return Form(
                {"type": "string", "contentEncoding": "base64"}, read_text_as(make, "bytes in base64")
            )
        if cls is decimal.Decimal:
            if self.output:
                return Form({"type": "string"}, read_decimal)
            return Form({"anyOf": [{"type": "number"}, {"type": "string"}]}, read_decimal)
        if cls in (Path, PosixPath, PurePath, PurePosixPath, os.PathLike):
            make_path: Any = Path if cls is os.PathLike else cls
            return Form({"type": "string", "format": "path"}, read_path(make_path), paths=True)
        if issubclass(cls, File) or any(parent.__module__.startswith("PIL.") for parent in cls.__mro__):
            if self.output:
                return self.any()
            raise Unsupported(f"{show(cls)}; take a pathlib.Path")
        if is_pydantic(cls):
            return self.pydantic(cls)
        if is_typed_dict(cls):
            return self.named_form(
                (cls, str(filled)), cls.__name__, lambda: self.typed_dict(cls, filled or {})
            )
        if is_dataclass(cls):
            return self.named_form(
                (cls, str(filled)), cls.__name__, lambda: self.dataclass(cls, filled or {})
            )
        if issubclass(cls, tuple) and hasattr(cls, "_fields"):
            return self.named_form(cls, cls.__name__, lambda: self.named_tuple(cls))
        if "pydantic" in sys.modules:
            return self.pydantic(cls)
        raise Unsupported(show(cls))

    def named_form(self, key: Any, name: str, make: Callable[[], Form]) -> Form:
        """A form in `defs`, which other forms refer to by name. It may refer to itself."""
        if key in self.named:
            return self.named[key][1]
        unique, number = name, 1
        while unique in self.defs:
            number += 1
            unique = f"{name}_{number}"
        self.defs[unique] = {}
        target: List[Form] = []
        form = Form(
            {"$ref": f"#/$defs/{unique}"}, lambda value, reading, where: target[0].read(value, reading, where)
        )
        self.named[key] = (unique, form)
        made = make()
        target.append(made)
        self.defs[unique] = made.schema
        # Until here `plain` is False, so a form that refers to itself is read, which is correct.
        form.plain, form.paths = made.plain, made.paths
        return form

    def enum(self, cls: Any, members: List[Tuple[Json, Any]]) -> Form:
        form = self.choice(members, "one of")
        return form.with_schema(doc_of(cls))

    def fields(
        self, cls: Any, fields: Iterable[Tuple[str, Any, bool, Any]], filled: Dict[Any, Any]
    ) -> Tuple[Frame, Dict[str, Tuple[Form, bool]]]:
        """The schema of an object and the forms of its fields. A field is a name, annotation, required, default."""
        docs = parse_docstring(cls.__doc__)[1]
        forms: Dict[str, Tuple[Form, bool]] = {}
        properties: Dict[str, Frame] = {}
        for name, annotation, required, default in fields:
            namespace = {}
            for parent in reversed(cls.__mro__ if isinstance(cls, type) else ()):
                if name in parent.__dict__.get("__annotations__", ()) or parent is cls:
                    namespace = dict(vars(sys.modules.get(parent.__module__, sys)))
            namespace.setdefault(cls.__name__, cls)
            if filled:
                annotation = evaluate(annotation, namespace) if isinstance(annotation, str) else annotation
                annotation = substitute(annotation, filled)
            try:
                form = self.form(annotation, namespace)
            except Unsupported as error:
                raise Unsupported(f"{error} (field `{name}` of {cls.__name__})") from None
            if form.optional is not None:
                required = not form.optional
            more: Frame = {}
            if name in docs and "description" not in form.schema:
                more["description"] = docs[name]
            if default is not UNSET and not self.output:
                more.update(default_of(default))
            form = form.with_schema(more)
            forms[name] = (form, required)
            properties[name] = form.schema
        schema: Frame = {"type": "object", "properties": properties}
        needed = [name for name, (_, required) in forms.items() if required]
        if needed:
            schema["required"] = needed
        return {**schema, **doc_of(cls)}, forms

    def reader(
        self, forms: Dict[str, Tuple[Form, bool]], make: Callable[..., Any], keep: bool
    ) -> Callable[..., Any]:
        def read(value: Any, reading: Reading, where: str) -> Any:
            if type(value) is not dict:
                reading.fail(where, f"must be an object, not {kind_of(value)}")
                return value
            before = len(reading.problems)
            result: Dict[str, Any] = {}
            for name, (form, required) in forms.items():
                if name in value:
                    result[name] = form.read(value[name], reading, f"{where}.{name}")
                elif required:
                    reading.fail(f"{where}.{name}", "is missing")
            unknown = [name for name in value if name not in forms]
            if unknown and reading.exact:
                reading.fail(where, f"has unknown fields: {', '.join(unknown)}"[:200])
            if keep:
                result.update((name, value[name]) for name in unknown)
            if len(reading.problems) > before:
                return value
            try:
                return make(**result)
            except (ValueError, TypeError, AssertionError) as error:  # From `__post_init__`.
                reading.fail(where, f"is invalid: {message_of(error)}")

        return read

    def typed_dict(self, cls: Any, filled: Dict[Any, Any]) -> Form:
        required = getattr(cls, "__required_keys__", None)
        fields = [
            (name, annotation, name in required if required is not None else cls.__total__, UNSET)
            for name, annotation in cls.__annotations__.items()
        ]
        schema, forms = self.fields(cls, fields, filled)
        plain = all(form.plain for form, _ in forms.values())
        return Form(
            schema, self.reader(forms, dict, True), plain, any(form.paths for form, _ in forms.values())
        )

    def dataclass(self, cls: Any, filled: Dict[Any, Any]) -> Form:
        import dataclasses

        found = []
        for field in dataclasses.fields(cls):
            if field.init or self.output:
                default = UNSET if field.default is dataclasses.MISSING else field.default
                optional = default is not UNSET or field.default_factory is not dataclasses.MISSING
                found.append((field.name, field.type, self.output or not optional, default))
        schema, forms = self.fields(cls, found, filled)
        return Form(
            schema, self.reader(forms, cls, False), False, any(form.paths for form, _ in forms.values())
        )

    def named_tuple(self, cls: Any) -> Form:
        """A named tuple as an object, because names tell a model more than positions. A list is accepted too."""
        defaults = cls._field_defaults
        types = getattr(cls, "__annotations__", {})
        found = [
            (name, types.get(name, object), self.output or name not in defaults, defaults.get(name, UNSET))
            for name in cls._fields
        ]
        schema, forms = self.fields(cls, found, {})
        read_object = self.reader(forms, cls, False)

        def read(value: Any, reading: Reading, where: str) -> Any:
            if type(value) is list and len(value) <= len(cls._fields):
                value = dict(zip(cls._fields, value))
            return read_object(value, reading, where)

        return Form(schema, read, False, any(form.paths for form, _ in forms.values()))

    def pydantic(self, annotation: Any) -> Form:
        """Types that Pydantic handles: its models, its types, its validators."""
        try:
            import pydantic
        except ImportError:
            raise Unsupported(f"{show(annotation)}, which needs Pydantic") from None
        if not hasattr(pydantic, "TypeAdapter"):
            raise Unsupported(
                f"{show(annotation)}: Pydantic {pydantic.VERSION} is too old, version 2 is needed"
            )
        try:
            adapter = pydantic.TypeAdapter(annotation)
            schema = adapter.json_schema(
                mode="serialization" if self.output else "validation", ref_template="#/$defs/{model}"
            )
        except Exception as error:
            raise Unsupported(f"{show(annotation)} ({shorten(message_of(error).splitlines()[0])})") from None
        schema = self.adopt(simplify_pydantic(schema), getattr(annotation, "__name__", None) or "Model")
        paths = '"format":"path"' in encode(schema) + encode(self.defs)

        def read(value: Any, reading: Reading, where: str) -> Any:
            try:
                # As JSON: from JSON, a strict model accepts a date that is a text.
                made = adapter.validate_json(to_bytes(encode(value)))
            except pydantic.ValidationError as error:
                for one in error.errors(include_url=False):
                    place = "".join(
                        f"[{step}]" if isinstance(step, int) else f".{step}" for step in one["loc"]
                    )
                    reading.fail(where + place, f"is invalid: {one['msg']}")
                return value
            return to_real_paths(made, reading, where) if paths and reading.sandbox.mounts else made

        return Form(schema, read, paths=paths)

    def adopt(self, schema: Frame, name: str) -> Frame:
        """Moves the definitions of a Pydantic schema into `defs`, under free names."""
        inner = schema.pop("$defs", {})
        names: Dict[str, str] = {}
        for old, definition in inner.items():
            new, number = old, 1
            while new in self.defs and self.defs[new] != definition:
                number += 1
                new = f"{old}_{number}"
            names[f"#/$defs/{old}"] = f"#/$defs/{new}"
        for old, definition in inner.items():
            self.defs[names[f"#/$defs/{old}"][len("#/$defs/") :]] = renamed(definition, names)
        schema = renamed(schema, names)
        if schema.get("type") == "object" and "properties" in schema:
            new, number = name, 1
            while new in self.defs and self.defs[new] != schema:
                number += 1
                new = f"{name}_{number}"
            self.defs[new] = schema
            return {"$ref": f"#/$defs/{new}"}
        return schema

    def finish(self, schema: Frame) -> Frame:
        """The schema with the definitions that it needs. A definition that is used once is put inline."""
        defs = self.defs

        def uses(part: Any, counts: Dict[str, int], seen: Set[str]) -> None:
            if isinstance(part, dict):
                ref = part.get("$ref")
                if isinstance(ref, str) and ref.startswith("#/$defs/"):
                    name = ref[len("#/$defs/") :]
                    counts[name] = counts.get(name, 0) + 1
                    if name not in seen and name in defs:
                        seen.add(name)
                        uses(defs[name], counts, seen)
                for value in part.values():
                    uses(value, counts, seen)
            elif isinstance(part, list):
                for value in part:
                    uses(value, counts, seen)

        counts: Dict[str, int] = {}
        uses(schema, counts, set())

        def recursive(name: str) -> bool:
            inner: Dict[str, int] = {}
            uses(defs[name], inner, set())
            return name in inner

        once = {
            name for name, number in counts.items() if number == 1 and name in defs and not recursive(name)
        }

        def inline(part: Any) -> Any:
            if isinstance(part, dict):
                ref = part.get("$ref")
                if isinstance(ref, str) and ref[len("#/$defs/") :] in once:
                    rest = {key: value for key, value in part.items() if key != "$ref"}
                    return inline({**defs[ref[len("#/$defs/") :]], **rest})
                return {key: inline(value) for key, value in part.items()}
            return [inline(value) for value in part] if isinstance(part, list) else part

        result = inline(schema)
        kept = {name: inline(defs[name]) for name in counts if name in defs and name not in once}
        if kept:
            result["$defs"] = kept
        return result
