"""A worker as a plain function, for agent frameworks that read type hints."""

from __future__ import annotations

import inspect
import keyword
import re
from typing import Any, Callable, Dict, List, Literal, Mapping, Optional, Union, cast

_SIMPLE: Dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "null": None,
    "object": Dict[str, Any],
}


def function_of(
    name: str,
    description: Optional[str],
    schema: Mapping[str, Any],
    call: Callable[..., Any],
    asynchronous: bool,
) -> Callable[..., Any]:
    """A function with the parameters of that schema, which calls `call` with one dict."""
    properties: Dict[str, Any] = dict(schema.get("properties") or {})
    required = set(schema.get("required") or [])
    by_name = all(is_name(parameter) for parameter in properties)

    def arguments(bound: Mapping[str, Any]) -> Any:
        # What a framework fills in for a parameter that was left out is not sent.
        given = bound if by_name else bound["input"]
        return {key: value for key, value in given.items() if value is not None or key in required}

    async def later(*positional: Any, **named: Any) -> Any:
        return await call(arguments(signature.bind(*positional, **named).arguments))

    def at_once(*positional: Any, **named: Any) -> Any:
        return call(arguments(signature.bind(*positional, **named).arguments))

    parameters: List[inspect.Parameter] = []
    described: List[str] = []
    of_all = properties if by_name else {"input": {"type": "object"}}
    needed = required if by_name else {"input"}
    for parameter, of in sorted(of_all.items(), key=lambda item: item[0] not in needed):
        annotation = hint(of)
        default: Any = inspect.Parameter.empty
        if parameter not in needed:
            annotation, default = Optional[annotation], None
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters.append(inspect.Parameter(parameter, kind, default=default, annotation=annotation))
        text = of.get("description") if isinstance(of, dict) else None
        if text:
            described.append(f"    {parameter}: {' '.join(str(text).split())}")
    signature = inspect.Signature(parameters, return_annotation=Any)
    doc = description or f"Calls the worker {name}."
    if described:
        doc = "\n".join([doc, "", "Args:", *described])
    made: Any = later if asynchronous else at_once
    made.__name__ = made.__qualname__ = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "worker"
    made.__doc__ = doc
    made.__signature__ = signature
    made.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    made.__annotations__["return"] = Any
    made.json_schema = dict(schema)
    return cast(Callable[..., Any], made)


def is_name(text: str) -> bool:
    """Whether it can be the name of a parameter."""
    return text.isidentifier() and not keyword.iskeyword(text)


def hint(schema: Any) -> Any:
    """The type hint for a JSON Schema. What it can't say is `Any`."""
    if not isinstance(schema, dict) or "$ref" in schema:
        return Any
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(values, list) and values and all(isinstance(value, (str, int)) for value in values):
        return Literal[tuple(values)]
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list) and schema[key]:
            return Union[tuple(hint(one) for one in schema[key])]
    kind = schema.get("type")
    if isinstance(kind, list) and kind:
        return Union[tuple(hint({**schema, "type": one}) for one in kind)]
    if kind == "array":
        return List[hint(schema.get("items"))]  # type: ignore[misc]
    return _SIMPLE.get(kind, Any) if isinstance(kind, str) else Any
