# Annotations: resolving them, and the metadata that they carry.


def evaluate(text: str, namespace: Dict[str, Any]) -> Any:
    """The type that a string names. `X | Y` is a union on Python 3.9 too."""
    import ast
    import typing

    class Unions(ast.NodeTransformer):
        def visit_BinOp(self, node: ast.BinOp) -> Any:
            self.generic_visit(node)
            if not isinstance(node.op, ast.BitOr):
                return node
            pair = ast.Tuple([node.left, node.right], ast.Load())
            union = ast.Attribute(ast.Name(" typing", ast.Load()), "Union", ast.Load())
            return ast.fix_missing_locations(ast.copy_location(ast.Subscript(union, pair, ast.Load()), node))

        def visit_Call(self, node: ast.Call) -> Any:
            return node  # The arguments of a call, for example of Field, are not types.

    try:
        tree = Unions().visit(ast.parse(text.strip(), mode="eval"))
        return eval(compile(tree, "<annotation>", "eval"), {**namespace, " typing": typing})
    except Exception as error:
        raise Unsupported(f"{text!r}, which cannot be resolved ({message_of(error)})") from None


def substitute(annotation: Any, filled: Dict[Any, Any]) -> Any:
    """A generic type with values for its type variables."""
    if annotation in filled if getattr(annotation, "__hash__", None) else False:
        return filled[annotation]
    parameters = getattr(annotation, "__parameters__", ())
    if parameters and any(one in filled for one in parameters):
        return annotation[tuple(filled.get(one, one) for one in parameters)]
    return annotation


def is_dataclass(cls: Any) -> bool:
    return "__dataclass_fields__" in dir(cls)


def is_typed_dict(cls: Any) -> bool:
    return isinstance(cls, type) and issubclass(cls, dict) and hasattr(cls, "__total__")


def is_pydantic(cls: Any) -> bool:
    return (
        hasattr(cls, "__get_pydantic_core_schema__")
        or cls.__module__.partition(".")[0] == "pydantic"
        or ("__pydantic_validator__" in dir(cls))
    )


def is_scalar(value: object) -> bool:
    return type(value) in (str, int, float, bool, type(None))


def doc_of(cls: Any) -> Frame:
    """The docstring of a class, unless Python generated it."""
    text = vars(cls).get("__doc__") if isinstance(cls, type) else None
    if not isinstance(text, str) or text.startswith(f"{cls.__name__}(") or text == "An enumeration.":
        return {}
    description = parse_docstring(text)[0]
    return {"description": description} if description else {}


def default_of(value: Any) -> Frame:
    """`{"default": …}`, or `{}` if the value has no JSON form."""
    try:
        return {"default": JsonWriter(Sandbox(), "the default", None).convert(value)}
    except Exception:
        return {}


def options_in(metadata: Any) -> Optional[Frame]:
    """The options in one item of `Annotated`, by the keywords of `Field`. None if only Pydantic knows it."""
    if isinstance(metadata, str):
        return {"description": metadata}
    if isinstance(getattr(metadata, "documentation", None), str):  # typing_extensions.Doc
        return {"description": metadata.documentation}
    place = type(metadata).__module__.partition(".")[0]
    if isinstance(metadata, FieldOptions) or place == "annotated_types":
        found = {}
        for key in (*CONSTRAINTS, *OWN_KEYWORDS, "description", "examples"):
            value = getattr(metadata, key, None)
            if value is not None:
                found[key] = value
        return found
    if type(metadata).__name__ == "FieldInfo" and place == "pydantic":
        found = {
            key: getattr(metadata, key) for key in ("description", "examples") if getattr(metadata, key, None)
        }
        if getattr(metadata, "alias", None) or getattr(metadata, "discriminator", None):
            return None
        extra = getattr(metadata, "json_schema_extra", None)
        if isinstance(extra, dict):
            found.update({key: extra[key] for key in OWN_KEYWORDS if key in extra})
        for one in metadata.metadata:
            inner = options_in(one)
            if inner is None:
                return None
            found.update(inner)
        return found
    if place == "pydantic":
        known = {key: value for key, value in getattr(metadata, "__dict__", {}).items() if value is not None}
        return (
            known
            if type(metadata).__name__.startswith("_") and known and set(known) <= set(CONSTRAINTS)
            else None
        )
    return None if hasattr(metadata, "__get_pydantic_core_schema__") else {}


def constrain(form: Form, given: Frame) -> Form:
    """A form with the constraints of a `Field`, as the keywords that JSON Schema has for its type."""

    def apply(schema: Frame) -> Frame:
        if "anyOf" in schema:
            return {**schema, "anyOf": [apply(one) for one in schema["anyOf"]]}
        kind = schema.get("type")
        column = {"integer": 0, "number": 0, "string": 1, "array": 2}.get(kind)  # type: ignore[arg-type]
        more: Frame = {}
        for key, keywords in CONSTRAINTS.items():
            value = given.get(key)
            if value is None:
                continue
            keyword = keywords[column] if column is not None else None
            if keyword is not None:
                limit = getattr(value, "pattern", value)  # `pattern` may be a compiled pattern.
                more[keyword] = limit if is_scalar(limit) else default_of(limit).get("default")
            elif kind == "object" and key in ("min_length", "max_length"):
                more["minProperties" if key == "min_length" else "maxProperties"] = value
        if given.get("clean") is not None and kind != "null":
            more["clean"] = given["clean"]
        return {**schema, **more}

    schema = apply(form.schema)
    if given.get("description"):
        schema = {**schema, "description": given["description"]}
    if given.get("examples"):
        examples = default_of(list(given["examples"])).get("default")
        schema = {**schema, "examples": examples} if examples else schema
    if given.get("untrusted") is not None:
        schema = {**schema, "untrusted": given["untrusted"]}
    result = Form(schema, form.read, form.plain, form.paths)
    result.optional = form.optional
    return result


#: Keywords whose value is an object of schemas by name.
NAMED_SCHEMAS = ("properties", "patternProperties", "$defs", "dependentSchemas")


def simplify_pydantic(schema: Any) -> Any:
    """Pydantic's schema in the style of the host: without titles and redundant keywords."""
    if isinstance(schema, list):
        return [simplify_pydantic(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    result: Frame = {}
    for key, value in schema.items():
        if key in ("title", "discriminator"):
            continue
        if key in NAMED_SCHEMAS and isinstance(value, dict):
            result[key] = {name: simplify_pydantic(one) for name, one in value.items()}
        elif key in ("default", "const", "enum", "examples", "required"):
            result[key] = value
        elif (key == "additionalProperties" and value is True) or (key == "items" and value == {}):
            continue
        else:
            result[key] = simplify_pydantic(value)
    if (
        result.get("type") == "string"
        and "Decimal" not in result
        and result.get("pattern", "").startswith("^(?!^[-+.]*$)")
    ):
        del result["pattern"]  # Pydantic's pattern for a decimal number.
    return result


def renamed(part: Any, names: Dict[str, str]) -> Any:
    if isinstance(part, dict):
        return {
            key: names.get(value, value)
            if key == "$ref" and isinstance(value, str)
            else renamed(value, names)
            for key, value in part.items()
        }
    return [renamed(one, names) for one in part] if isinstance(part, list) else part


def to_real_paths(value: Any, reading: Reading, where: str) -> Any:
    """Replaces virtual paths in a value from Pydantic by real ones. Does not validate the fields again."""
    from pathlib import PurePath

    if isinstance(value, PurePath):
        return read_path(type(value))(str(value), reading, where)
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(to_real_paths(one, reading, where) for one in value)
    if type(value) is dict:
        return {key: to_real_paths(one, reading, where) for key, one in value.items()}
    if is_pydantic(type(value)) and hasattr(value, "__dict__"):
        for name, one in list(value.__dict__.items()):
            value.__dict__[name] = to_real_paths(one, reading, f"{where}.{name}")
    return value


def schema_of_type(cls: Any) -> Frame:
    """The schema of one class."""
    types = Types()
    try:
        return types.finish(types.form(cls, {}).schema)
    except Unsupported as error:
        raise TypeError(
            f"there is no JSON Schema for {error}: use a Pydantic model, a dataclass, a TypedDict or an Enum"
        ) from None
