"""Types that outputs are read as: Pydantic models, dataclasses, and what these are made of."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import typing
import uuid
from typing import Any, Dict, List, Literal, Mapping, Optional, Tuple, Union, get_args, get_origin

from .errors import NotLoaded

_FORMATS: Dict[Any, str] = {
    datetime.datetime: "date-time",
    datetime.date: "date",
    datetime.time: "time",
    uuid.UUID: "uuid",
}
_PLAIN: Dict[Any, str] = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
_UNIONS: Tuple[Any, ...] = (Union, getattr(__import__("types"), "UnionType", Union))
#: Deeper types are not compared.
_DEEPEST = 40


def shown(type_: Any) -> str:
    """The type for people."""
    return getattr(type_, "__name__", None) or str(type_)


def decode(type_: Any, value: Any) -> Any:
    """Reads a JSON value as that type. Raises `ValueError`, or what a validator of the type raises."""
    if type_ is Any or type_ is object:
        return value
    if hasattr(type_, "model_validate"):
        return type_.model_validate(value)
    if hasattr(type_, "__pydantic_validator__"):  # One of Pydantic's dataclasses.
        return type_(**value)
    if isinstance(type_, type) and dataclasses.is_dataclass(type_):
        return _dataclass(type_, value)
    origin, arguments = get_origin(type_), get_args(type_)
    if str(origin) in ("typing.Annotated", "<class 'typing.Annotated'>") or hasattr(type_, "__metadata__"):
        return decode(type_.__origin__, value)
    if origin in _UNIONS:
        return _first_fit(arguments, value)
    if origin is Literal:
        if not any(value == one and type(value) is type(one) for one in arguments):
            raise ValueError(f"{value!r} is none of {', '.join(map(repr, arguments))}")
        return value
    if isinstance(type_, type) and issubclass(type_, enum.Enum):
        return type_(value)
    container = origin or type_
    if container in (list, set, frozenset, tuple):
        return _many(container, arguments, value)
    if container is dict:
        of = arguments[1] if len(arguments) == 2 else Any
        return {name: decode(of, item) for name, item in _is(value, dict).items()}
    if typing_dict(type_):
        hints = typing.get_type_hints(type_)
        return {name: decode(hints.get(name, Any), item) for name, item in _is(value, dict).items()}
    return _scalar(type_, value)


def typing_dict(type_: Any) -> bool:
    """Whether it is a `TypedDict`."""
    return isinstance(type_, type) and issubclass(type_, dict) and hasattr(type_, "__required_keys__")


def _dataclass(type_: Any, value: Any) -> Any:
    hints = typing.get_type_hints(type_)
    given: Dict[str, Any] = {}
    for field in dataclasses.fields(type_):
        if field.init and field.name in _is(value, dict):
            try:
                given[field.name] = decode(hints[field.name], value[field.name])
            except ValueError as error:
                raise ValueError(f"{field.name}: {error}") from error
    return type_(**given)


def _first_fit(alternatives: Tuple[Any, ...], value: Any) -> Any:
    reasons = []
    for one in alternatives:
        try:
            return decode(one, value)
        except (ValueError, TypeError) as error:
            reasons.append(str(error))
    raise ValueError("; ".join(reasons))


def _many(container: Any, arguments: Tuple[Any, ...], value: Any) -> Any:
    items = _is(value, list)
    if container is tuple and arguments and arguments[-1] is not Ellipsis:
        if len(items) != len(arguments):
            raise ValueError(f"{len(items)} values, not {len(arguments)}")
        return tuple(decode(of, item) for of, item in zip(arguments, items))
    of = arguments[0] if arguments else Any
    return container(decode(of, item) for item in items)


def _scalar(type_: Any, value: Any) -> Any:
    if type_ is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if type_ in (str, bool, int):
        if type(value) is not type_:
            raise ValueError(f"{type(value).__name__}, not {type_.__name__}")
        return value
    if type_ is None or type_ is type(None):
        if value is not None:
            raise ValueError(f"{type(value).__name__}, not null")
        return None
    if type_ is datetime.datetime and isinstance(value, str):
        return datetime.datetime.fromisoformat(value.replace("Z", "+00:00"))
    if type_ in (datetime.date, datetime.time) and isinstance(value, str):
        return type_.fromisoformat(value)
    if type_ is uuid.UUID and isinstance(value, str):
        return uuid.UUID(value)
    if type_ is decimal.Decimal and isinstance(value, (str, int, float)):
        return decimal.Decimal(str(value))
    raise ValueError(f"{type(value).__name__}, not {shown(type_)}")


def _is(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{type(value).__name__}, not {'an object' if kind is dict else 'a list'}")
    return value


def compare(worker: str, type_: Any, schema: Optional[Mapping[str, Any]]) -> None:
    """Compares a type with what the worker returns. Raises `NotLoaded` if an output need not fit the type."""
    if type_ is Any or (schema is None and type_ is str):
        return
    if schema is None:
        raise NotLoaded(f"{worker} returns text, and not {shown(type_)}: add `returns` to the worker")
    wanted = json_schema(type_)
    differences: List[str] = []
    _compare(wanted, schema, wanted, schema, "", differences, 0)
    if differences:
        raise NotLoaded(f"{worker} does not return {shown(type_)}: {'; '.join(differences[:5])}")


def json_schema(type_: Any) -> Dict[str, Any]:
    """The JSON Schema of a type, as far as it is compared."""
    if hasattr(type_, "model_json_schema"):
        return dict(type_.model_json_schema())
    if dataclasses.is_dataclass(type_):
        hints = typing.get_type_hints(type_)
        fields = [field for field in dataclasses.fields(type_) if field.init]
        missing = dataclasses.MISSING
        needed = [f.name for f in fields if f.default is missing and f.default_factory is missing]
        return {
            "type": "object",
            "properties": {field.name: json_schema(hints[field.name]) for field in fields},
            "required": needed,
        }
    if typing_dict(type_):
        hints = typing.get_type_hints(type_)
        properties = {name: json_schema(of) for name, of in hints.items()}
        return {"type": "object", "properties": properties, "required": sorted(type_.__required_keys__)}
    origin, arguments = get_origin(type_), get_args(type_)
    if hasattr(type_, "__metadata__"):
        return json_schema(type_.__origin__)
    if origin in _UNIONS:
        return {"anyOf": [json_schema(one) for one in arguments]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if isinstance(type_, type) and issubclass(type_, enum.Enum):
        return {"enum": [one.value for one in type_]}
    container = origin or type_
    if container in (list, set, frozenset, tuple):
        fixed = container is tuple and arguments and arguments[-1] is not Ellipsis
        return {"type": "array", **({"items": json_schema(arguments[0])} if arguments and not fixed else {})}
    if container is dict:
        return {"type": "object"}
    if type_ in _FORMATS:
        return {"type": "string", "format": _FORMATS[type_]}
    return {"type": _PLAIN[type_]} if type_ in _PLAIN else {}


def _compare(
    wanted: Any, given: Any, wanted_root: Any, given_root: Any, at: str, out: List[str], depth: int
) -> None:
    """Collects what the worker may give and the type does not take."""
    wanted, given = _resolved(wanted, wanted_root), _resolved(given, given_root)
    if depth > _DEEPEST or not isinstance(wanted, Mapping) or not isinstance(given, Mapping):
        return
    place = f"`{at}`" if at else "the output"
    alternatives = given.get("anyOf") or given.get("oneOf")
    if isinstance(alternatives, list):
        for one in alternatives:
            _compare(wanted, one, wanted_root, given_root, at, out, depth + 1)
        return
    choices = wanted.get("anyOf") or wanted.get("oneOf")
    if isinstance(choices, list):
        tries: List[List[str]] = []
        for one in choices:
            tries.append([])
            _compare(one, given, wanted_root, given_root, at, tries[-1], depth + 1)
        if all(tries):
            out.extend(sorted(tries, key=len)[0])
        return
    takes, gives = _kinds(wanted), _kinds(given)
    if takes is not None:
        surplus = (gives or {"anything"}) - takes
        if "number" in takes:
            surplus = surplus - {"integer"}
        if surplus:
            out.append(f"{place} may be {_list(surplus)}, and not only {_list(takes)}")
            return
    values, possible = _values(wanted), _values(given)
    if values is not None:
        if possible is None:
            out.append(f"{place} may be other values than {_list(map(repr, values))}")
        elif any(value not in values for value in possible):
            out.append(f"{place} may be {_list(repr(value) for value in possible if value not in values)}")
    form = wanted.get("format")
    if form in _FORMATS.values() and given.get("format") != form and possible is None:
        out.append(f"{place} need not be in the format {form}")
    properties, known = given.get("properties") or {}, wanted.get("properties") or {}
    for name in wanted.get("required") or []:
        if name not in properties:
            out.append(f"{place} has no `{name}`")
        elif name not in (given.get("required") or []):
            out.append(f"{place} may lack `{name}`")
    if wanted.get("additionalProperties") is False:
        out.extend(f"{place} may have `{name}`" for name in properties if name not in known)
    for name, of in properties.items():
        if name in known:
            inner = f"{at}.{name}" if at else name
            _compare(known[name], of, wanted_root, given_root, inner, out, depth + 1)
    if "items" in wanted and "array" in (gives or ()):
        _compare(
            wanted["items"], given.get("items") or {}, wanted_root, given_root, f"{at}[]", out, depth + 1
        )


def _resolved(schema: Any, root: Any) -> Any:
    for _ in range(_DEEPEST):
        reference = schema.get("$ref") if isinstance(schema, Mapping) else None
        if not isinstance(reference, str) or not reference.startswith("#/"):
            break
        target = root
        for part in reference[2:].split("/"):
            target = target.get(part.replace("~1", "/").replace("~0", "~"), {})
        schema = target
    return schema


def _kinds(schema: Mapping[str, Any]) -> Optional[set[str]]:
    kind = schema.get("type")
    if isinstance(kind, list):
        return set(kind)
    if isinstance(kind, str):
        return {kind}
    values = _values(schema)
    if values is None:
        return None
    return {_PLAIN.get(type(value), "object") for value in values}


def _values(schema: Mapping[str, Any]) -> Optional[List[Any]]:
    values = schema.get("enum")
    if isinstance(values, list):
        return values
    return [schema["const"]] if "const" in schema else None


def _list(words: Any) -> str:
    return ", ".join(sorted(map(str, words)))
