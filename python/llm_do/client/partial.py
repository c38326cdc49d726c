"""The value so far of an output that is being made."""

from __future__ import annotations

import typing
from importlib import import_module
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union, get_args, get_origin

from .returns import _UNIONS


class Partial:
    """A value that grows."""

    def __init__(self) -> None:
        self.value: Any = None
        #: Whether any of it is there. The value itself may be `None`.
        self.begun = False
        #: Changes with each growth.
        self.version = 0
        #: The number of values that were discarded.
        self.discarded = 0
        self._turn: Optional[int] = None

    def grow(self, turn: Optional[int], growth: Sequence[Mapping[str, Any]]) -> None:
        """Takes growth. That of another turn begins another value."""
        if turn != self._turn:
            self.discard()
            self._turn = turn
        for one in growth:
            self._apply(one.get("at") or [], one)
        self.version += 1

    def discard(self) -> None:
        """Drops the value."""
        self.value, self._turn = None, None
        if self.begun:
            self.begun = False
            self.version += 1
            self.discarded += 1

    def _apply(self, at: Sequence[Union[str, int]], one: Mapping[str, Any]) -> None:
        if not at:
            if "set" in one:
                self.value, self.begun = one["set"], True
            elif isinstance(self.value, str):
                self.value += str(one.get("append", ""))
            return
        place = self.value
        try:
            for key in at[:-1]:
                place = place[key]
            last = at[-1]
            if "append" in one:
                place[last] += one["append"]
            elif isinstance(place, list):
                if last == len(place):
                    place.append(one["set"])
            else:
                place[last] = one["set"]
        except (KeyError, IndexError, TypeError):
            pass  # Growth of a value that was not heard from its beginning.


def reader(type_: Any) -> Callable[[Any], Any]:
    """What reads a value so far: as a partial form of a Pydantic model, and else as it is."""
    if type_ is None or not _has_model(type_, 0):
        return lambda value: value
    pydantic: Any = import_module("pydantic")

    adapter: Any = pydantic.TypeAdapter(_partial(type_, {}))
    return lambda value: adapter.validate_python(value)


def _has_model(type_: Any, depth: int) -> bool:
    if hasattr(type_, "model_fields") and hasattr(type_, "model_validate"):
        return True
    return depth < 10 and any(_has_model(one, depth + 1) for one in get_args(type_))


def _partial(type_: Any, made: Dict[Any, Any]) -> Any:
    """The partial form of a type: each field of its models may be absent, and has no default but `None`."""
    if hasattr(type_, "model_fields") and hasattr(type_, "model_validate"):
        return _partial_model(type_, made)
    if hasattr(type_, "__metadata__"):
        # Conditions hold for the whole value.
        return _partial(type_.__origin__, made)
    origin, arguments = get_origin(type_), get_args(type_)
    # The types are made here, which a type checker does not follow.
    lists: Any = List
    dicts: Any = Dict
    if origin in _UNIONS:
        return Union[tuple(_partial(one, made) for one in arguments)]
    if origin in (list, set, frozenset):
        return lists[_partial(arguments[0], made)] if arguments else list
    if origin is tuple or type_ is tuple:
        return list  # It may be shorter.
    if origin is dict and len(arguments) == 2:
        return dicts[arguments[0], _partial(arguments[1], made)]
    if isinstance(type_, type) and (issubclass(type_, dict) or hasattr(type_, "__dataclass_fields__")):
        return Any  # It may lack members.
    return type_


def _partial_model(model: Any, made: Dict[Any, Any]) -> Any:
    pydantic: Any = import_module("pydantic")

    known = made.get(model)
    if known is not None:
        return known
    name = f"Partial{model.__name__}"
    # A model that contains itself is found by its name.
    made[model] = typing.ForwardRef(name)
    if getattr(model, "__pydantic_root_model__", False):
        made[model] = _partial(model.model_fields["root"].annotation, made)
        return made[model]
    fields: Dict[str, Any] = {}
    for field, info in model.model_fields.items():
        alias = info.validation_alias or info.alias
        given = {"validation_alias": alias} if alias is not None else {}
        fields[field] = (Optional[_partial(info.annotation, made)], pydantic.Field(default=None, **given))
    config = pydantic.ConfigDict(populate_by_name=True, extra="ignore", protected_namespaces=())
    partial: Any = pydantic.create_model(name, __config__=config, **fields)
    made[model] = partial
    known_names = {one.__name__: one for one in made.values() if isinstance(one, type)}
    partial.model_rebuild(_types_namespace=known_names)
    return partial
