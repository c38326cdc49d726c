# Results: from Python objects to JSON values.


class ResultError(Exception):
    """A value that has no JSON form. The message says what to return instead."""


class Unfinished(ResultError):
    """A value that stands for work that was not done, such as a coroutine that was not awaited."""


class TooLarge(ResultError):
    """A value that is larger than the limit."""


def fits(value: int) -> bool:
    """Whether an integer has 64 bits at most. Most readers of JSON change others without a word."""
    return -(1 << 63) <= value < 1 << 64


class JsonWriter:
    """Converts a value to JSON. Bytes and images go into `blobs`, if those are allowed.

    With `notes`, a part without a JSON form does not fail the whole: its text takes its place, and a note says so. The
    call that returned it had its effects, so it must not look failed.
    """

    def __init__(
        self, sandbox: Sandbox, what: str, blobs: Optional[List[Frame]], notes: Optional[List[str]] = None
    ) -> None:
        self.sandbox = sandbox
        self.what = what
        self.blobs = blobs
        self.notes = notes
        self.size = 0
        self.path: List[object] = []
        self.above: Set[int] = set()

    def fail(self, problem: str, unfinished: bool = False) -> NoReturn:
        steps = self.path if len(self.path) <= 20 else self.path[:3]
        place = "".join(f"[{step!r}]" for step in steps)
        raise (Unfinished if unfinished else ResultError)(f"{self.what}{place} {problem}")

    def count(self, size: int) -> None:
        self.size += size
        if self.size > MAX_RESULT:
            raise TooLarge(too_large(f"more than {MAX_RESULT >> 20} MiB", self.what))

    def convert(self, value: Any) -> Json:
        """The value as JSON, or its text where it has no JSON form."""
        if self.notes is None:
            return self.strict(value)
        depth, above = len(self.path), set(self.above)
        try:
            return self.strict(value)
        except (Unfinished, TooLarge):
            raise
        except ResultError as problem:
            message, text = str(problem), text_of(value)
        except Exception as problem:  # Methods of the value raise, or its file cannot be read.
            message = (
                f"{self.what} cannot be written as JSON: {type(problem).__name__}: {message_of(problem)}"
            )
            text = f"[{message}]"
        del self.path[depth:]
        self.above = above
        self.note(message)
        self.count(len(text))
        return text

    def note(self, message: str) -> None:
        if self.notes is not None and len(self.notes) < MAX_NOTES:
            self.notes.append(f"{message} (a text takes its place)")

    def strict(self, value: Any) -> Json:
        kind = type(value)
        if kind is str:
            self.count(len(value))
            return value
        if value is None or kind is bool:
            return value
        if kind is int:
            return self.integer(value)
        if kind is float:
            if value - value != 0.0:
                self.fail(f"is {value}, which JSON cannot hold: return None or a text instead")
            return value
        if kind is dict:
            return self.dict(value, value.items())
        if kind is list or kind is tuple:
            return self.list(value, value)
        return self.other(value)

    def integer(self, value: int) -> Json:
        if not fits(value):
            self.fail("is an integer of more than 64 bits: return str(…) instead")
        return value

    def enter(self, value: object) -> int:
        mark = id(value)
        if mark in self.above:
            self.fail("contains itself: return data without cycles")
        if len(self.above) >= MAX_DEPTH:
            self.fail(f"is nested more than {MAX_DEPTH} levels deep: return flatter data")
        self.above.add(mark)
        return mark

    def list(self, value: object, items: Iterable[Any]) -> Json:
        mark = self.enter(value)
        if hasattr(items, "__len__"):
            self.count(2 * len(items))  # type: ignore[arg-type]  # Before the items are copied.
        result = []
        self.path.append(0)
        for index, item in enumerate(items):
            self.path[-1] = index
            result.append(self.convert(item))
        self.path.pop()
        self.above.discard(mark)
        return result

    def dict(self, value: object, items: Iterable[Tuple[Any, Any]]) -> Json:
        mark = self.enter(value)
        result: Dict[str, Json] = {}
        self.path.append("")
        for key, item in items:
            name = key if type(key) is str else self.key(key)
            self.path[-1] = name
            if name in result:
                self.fail("exists twice: two keys of a dict have the same text")
            self.count(len(name) + 2)
            result[name] = self.convert(item)
        self.path.pop()
        self.above.discard(mark)
        return result

    def key(self, key: Any) -> str:
        import enum

        if isinstance(key, enum.Enum):
            key = key.value
        if key is None or isinstance(key, bool):
            return {None: "null", True: "true", False: "false"}[key]
        if isinstance(key, str):
            return str.__str__(key)
        if isinstance(key, int):
            return int.__repr__(key)
        self.path.pop()
        problem = f"has a key of type {type(key).__name__}: JSON keys are texts, so return str(key)"
        if self.notes is None:
            self.fail(problem)
        self.path.append("")
        self.note(f"{self.what} {problem}")
        return text_of(key)

    def other(self, value: Any) -> Json:
        import datetime
        import decimal
        import enum
        import uuid

        kind = type(value)
        if isinstance(value, enum.Enum):
            return self.convert(value.value)
        family = {parent.__module__.partition(".")[0] for parent in kind.__mro__}
        if "numpy" in family and hasattr(value, "tolist"):
            return self.convert(value.tolist())
        if isinstance(value, str):
            return self.convert(str.__str__(value))
        if isinstance(value, int):
            return self.integer(int(value))
        if isinstance(value, float):
            return self.convert(float(value))
        if isinstance(value, (bytes, bytearray, memoryview)):
            return self.blob(bytes(value), None, None)
        if isinstance(value, File):
            return self.blob(
                file_bytes(value, self.sandbox), value.media_type, value.name or file_name(value.data)
            )
        if hasattr(kind, "__dataclass_fields__") and not hasattr(kind, "__pydantic_serializer__"):
            import dataclasses

            names = [field.name for field in dataclasses.fields(value)]
            return self.dict(value, [(name, getattr(value, name)) for name in names if hasattr(value, name)])
        if hasattr(kind, "__pydantic_serializer__"):
            return self.convert(pydantic_dump(value))
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return self.dict(value, zip(value._fields, value))
        if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
            if value != value:
                self.fail("is not a time: return None instead")
            return value.isoformat()
        if isinstance(value, datetime.timedelta):
            return write_duration(value)
        if isinstance(value, (decimal.Decimal, uuid.UUID)):
            text = str(value)
            if text.lstrip("-s").startswith(("NaN", "Infinity")):
                self.fail(f"is {text}: return None or a text instead")
            return text
        if isinstance(value, os.PathLike):
            return self.convert(self.sandbox.virtual(os.fsdecode(os.fspath(value))))
        if is_pillow(value):
            data, media_type = pillow_bytes(value)
            return self.blob(data, media_type, None)
        for module, name, advice in (
            ("pandas", "DataFrame", '.to_dict("records"), or write a file and return its path'),
            ("pandas", "Series", ".to_dict() or .tolist()"),
            ("pandas", "Index", ".tolist()"),
            ("polars", "DataFrame", ".to_dicts(), or write a file and return its path"),
            ("polars", "LazyFrame", ".collect().to_dicts()"),
            ("polars", "Series", ".to_list()"),
            ("pyarrow", "Table", ".to_pylist()"),
        ):
            if module in family and any(parent.__name__ == name for parent in kind.__mro__):
                self.fail(f"is a {module} {name}: return {advice}")
        from collections.abc import Iterator, Mapping, Sequence, Set, ValuesView

        if isinstance(value, Set):
            return self.list(value, sorted_set(value))
        if isinstance(value, Mapping):
            return self.dict(value, value.items())
        if isinstance(value, (list, dict, deque, Sequence, ValuesView)):
            return self.list(value, value)
        if hasattr(value, "__await__"):
            if hasattr(value, "close"):
                value.close()
            self.fail("is a coroutine that was not awaited: make the tool async and return `await …`", True)
        if isinstance(value, Iterator) or hasattr(value, "__anext__"):
            self.fail(f"is a {kind.__name__}: return a list, for example list(…)", True)
        if callable(value):
            self.fail(f"is {'a class' if isinstance(value, type) else 'a function'}: return data")
        self.fail(
            f"is of type {show(kind)}, which has no JSON form: return text, numbers, lists, dicts, a dataclass or a "
            "Pydantic model"
        )

    def blob(self, data: bytes, media_type: Optional[str], name: Optional[str]) -> Json:
        if self.blobs is None:
            self.fail("is binary: write a file and pass its path")
        if len(data) > MAX_RESULT:
            raise TooLarge(too_large(f"more than {MAX_RESULT >> 20} MiB", self.what))
        self.count(len(data) * 4 // 3)
        import base64

        media_type = media_type or media_type_of(data, name)
        self.blobs.append({"name": name, "media_type": media_type, "data": base64.b64encode(data).decode()})
        if not self.path:
            return f"[{media_type}, {len(data)} bytes]"
        return {"$blob": len(self.blobs) - 1}


def text_of(value: object) -> str:
    """The text of a value that has no JSON form."""
    try:
        text = str(value)
        return shorten(text) if isinstance(text, str) else show(value)
    except Exception:
        return show(value)


def too_large(size: str, what: str = "the result") -> str:
    limit = MAX_RESULT >> 20
    return (
        f"{what} is {size}; the limit is {limit} MiB: return less of it, or write a file and return its path"
    )


def sorted_set(values: Iterable[Any]) -> List[Any]:
    """The members of a set, always in the same order."""
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=lambda value: (type(value).__name__, repr(value)))


def pydantic_dump(value: Any) -> Any:
    try:
        if hasattr(value, "model_dump"):
            return value.model_dump(mode="json", by_alias=True)
        from pydantic import TypeAdapter

        return TypeAdapter(type(value)).dump_python(value, mode="json", by_alias=True)
    except (ValueError, TypeError) as error:
        raise ResultError(
            f"the result is a {type(value).__name__} that Pydantic cannot write as JSON: {error}"
        ) from error


def file_bytes(given: File, sandbox: Sandbox) -> bytes:
    """The bytes of a file, read now where they are given by a path."""
    data = given.data
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    path = os.fspath(data)
    if isinstance(data, str) and sandbox.mounts:
        try:
            path = sandbox.locate(path)
        except ValueError:
            pass  # A path of this machine.
    with open(path, "rb") as file:
        return file.read(MAX_RESULT + 1)


def file_name(data: Any) -> Optional[str]:
    return os.path.basename(os.fsdecode(os.fspath(data))) if isinstance(data, (str, os.PathLike)) else None


def media_type_of(data: bytes, name: Optional[str]) -> str:
    """The media type, by the first bytes or else by the name."""
    for start, media_type in (
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF8", "image/gif"),
        (b"%PDF-", "application/pdf"),
    ):
        if data.startswith(start):
            return media_type
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if name:
        import mimetypes

        guess = mimetypes.MimeTypes().guess_type(name)[0]  # Without the tables of this machine.
        if guess:
            return guess
    return "application/octet-stream"


def write_duration(value: Any) -> str:
    """ISO 8601: `P1DT2H`, `-PT0.5S`."""
    micros = (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
    sign, micros = ("-", -micros) if micros < 0 else ("", micros)
    seconds, micros = divmod(micros, 1_000_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    second = f"{seconds}.{micros:06}".rstrip("0") if micros else f"{seconds}"
    time = (
        (f"{hours}H" if hours else "")
        + (f"{minutes}M" if minutes else "")
        + (f"{second}S" if second != "0" else "")
    )
    text = (f"{days}D" if days else "") + (f"T{time}" if time else "")
    return f"{sign}P{text or 'T0S'}"
