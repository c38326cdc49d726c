# Coercion: from JSON values to Python objects.


class _Unset:
    def __repr__(self) -> str:
        return "..."


UNSET = _Unset()

#: The keywords of `Field`, with those of JSON Schema for numbers, for strings and for arrays.
CONSTRAINTS = {
    "ge": ("minimum", None, None),
    "gt": ("exclusiveMinimum", None, None),
    "le": ("maximum", None, None),
    "lt": ("exclusiveMaximum", None, None),
    "multiple_of": ("multipleOf", None, None),
    "min_length": (None, "minLength", "minItems"),
    "max_length": (None, "maxLength", "maxItems"),
    "pattern": (None, "pattern", None),
}

#: The keywords of `Field` that JSON Schema does not have (`docs/reference/worker-files.md`).
OWN_KEYWORDS = ("clean", "untrusted")


class Unsupported(Exception):
    """A type that has no JSON form."""


class Reading:
    """One reading of arguments, which collects all problems."""

    __slots__ = ("sandbox", "problems", "exact")

    def __init__(self, sandbox: Sandbox, exact: bool = False) -> None:
        self.sandbox = sandbox
        self.problems: List[str] = []
        #: Whether unknown fields are problems. A union tries its members like this first.
        self.exact = exact

    def fail(self, where: str, problem: str) -> None:
        if len(self.problems) < 20:
            self.problems.append(f"{where} {problem}")


class Form:
    """The JSON form of a type: its schema, and the function that reads its values."""

    __slots__ = ("schema", "read", "plain", "paths", "optional")

    def __init__(
        self,
        schema: Frame,
        read: Callable[[Any, Reading, str], Any],
        plain: bool = False,
        paths: bool = False,
    ) -> None:
        self.schema = schema
        self.read = read
        #: Whether values that fit the schema need no conversion.
        self.plain = plain
        #: Whether it contains file paths, which must be translated.
        self.paths = paths
        #: In a TypedDict: whether the field is `NotRequired`. None without either marker.
        self.optional: Optional[bool] = None

    def with_schema(self, more: Frame) -> Form:
        if not more:
            return self
        form = Form({**self.schema, **more}, self.read, self.plain, self.paths)
        form.optional = self.optional
        return form


def scalar_in(text: str) -> Any:
    """The number or boolean that a text holds, or else the text itself."""
    try:
        value, end = _scan(text, 0)
    except (ValueError, StopIteration):
        return text
    return value if end == len(text) and is_scalar(value) else text


def kind_of(value: Any) -> str:
    """The name of a JSON value's type."""
    if value is None:
        return "null"
    names = {
        bool: "a boolean",
        int: "an integer",
        float: "a number",
        str: "a text",
        list: "a list",
        dict: "an object",
    }
    return names.get(type(value), type(value).__name__)


def read_any(value: Any, _reading: Reading, _where: str) -> Any:
    return value


def read_exact(*kinds: type) -> Callable[[Any, Reading, str], Any]:
    def read(value: Any, reading: Reading, where: str) -> Any:
        if type(value) not in kinds:
            expected = {
                str: "a text",
                bool: "a boolean",
                type(None): "null",
                list: "a list",
                dict: "an object",
            }[kinds[0]]
            reading.fail(where, f"must be {expected}, not {kind_of(value)}")
        return value

    return read


def read_int(value: Any, reading: Reading, where: str) -> Any:
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():  # JSON Schema calls 2.0 an integer.
        return int(value)
    reading.fail(where, f"must be an integer, not {kind_of(value)}")


def read_float(value: Any, reading: Reading, where: str) -> Any:
    if type(value) is float:
        return value
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            pass
    reading.fail(where, f"must be a number, not {kind_of(value)}")


def read_text_as(make: Callable[[str], Any], what: str) -> Callable[[Any, Reading, str], Any]:
    """Reads a text with a function that raises ValueError for an invalid text."""

    def read(value: Any, reading: Reading, where: str) -> Any:
        if type(value) is str:
            try:
                return make(value)
            except (ValueError, ArithmeticError):
                reading.fail(where, f"must be {what}, not {value[:80]!r}")
                return None
        reading.fail(where, f"must be {what}, not {kind_of(value)}")

    return read


def read_path(make: Callable[[str], Any]) -> Callable[[Any, Reading, str], Any]:
    def read(value: Any, reading: Reading, where: str) -> Any:
        if type(value) is not str:
            reading.fail(where, f"must be a path, not {kind_of(value)}")
            return None
        if not reading.sandbox.mounts:
            return make(value)
        try:
            return make(reading.sandbox.locate(value))
        except ValueError as error:
            reading.fail(where, f"is not a usable path: {error}")

    return read


def iso_text(text: str) -> str:
    """ISO 8601 as Python 3.9 reads it: no `Z`, a fraction of six digits, an offset with a colon."""
    import re

    text = text.strip()
    if text[-1:] in ("Z", "z"):
        text = text[:-1] + "+00:00"
    text = re.sub(r"(:\d\d)[.,](\d{1,9})", lambda match: f"{match[1]}.{match[2][:6]:0<6}", text)
    return re.sub(
        r"(:\d\d(?:\.\d{6})?[+-]\d\d)(\d\d)?$", lambda match: f"{match[1]}:{match[2] or '00'}", text
    )


def read_duration(text: str) -> Any:
    """ISO 8601 durations without months and years, and `H:MM:SS`."""
    import re
    from datetime import timedelta

    number = r"(\d+(?:\.\d+)?)"
    pattern = rf"([+-]?)P(?:{number}W)?(?:{number}D)?(?:T(?:{number}H)?(?:{number}M)?(?:{number}S)?)?"
    match = re.fullmatch(pattern, text.strip())
    if match is None or text.strip()[-1:] in ("P", "T"):
        clock = re.fullmatch(r"([+-]?)(\d+):([0-5]\d):([0-5]\d(?:\.\d+)?)", text.strip())
        if clock is None:
            raise ValueError(text)
        parts: Tuple[Any, ...] = (None, None, *clock.groups()[1:])
        sign = clock[1]
    else:
        parts, sign = match.groups()[1:], match[1]
    weeks, days, hours, minutes, seconds = (float(part or 0) for part in parts)
    value = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    return -value if sign == "-" else value


def read_decimal(value: Any, reading: Reading, where: str) -> Any:
    from decimal import Decimal, InvalidOperation

    if type(value) in (int, float, str):
        try:
            number = Decimal(str(value))
            if number.is_finite():
                return number
        except InvalidOperation:
            pass
    reading.fail(where, f"must be a decimal number, not {value!r}"[:200])


def read_bytes(text: str) -> bytes:
    import base64

    return base64.b64decode(text, validate=True)
