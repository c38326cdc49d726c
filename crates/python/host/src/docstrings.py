# Docstrings: descriptions of tools and of their parameters.


GOOGLE_SECTIONS = (
    "args",
    "arguments",
    "parameters",
    "params",
    "keyword args",
    "keyword arguments",
    "other parameters",
)


def parse_docstring(text: Optional[str]) -> Tuple[str, Dict[str, str]]:
    """Splits a docstring into its text and the descriptions of parameters: Google, NumPy or reST style."""
    import inspect

    lines = inspect.cleandoc(text or "").splitlines()
    params: Dict[str, str] = {}
    for take in (take_rest, take_numpy, take_google):
        lines = take(lines, params)
    kept: List[str] = []
    for line in lines:
        if line.strip() or (kept and kept[-1]):
            kept.append(line.rstrip())
    return "\n".join(kept).strip(), {name: description for name, description in params.items() if description}


def indent_of(line: str) -> int:
    return len(line) - len(line.lstrip())


def join_lines(lines: Iterable[str]) -> str:
    return " ".join(line.strip() for line in lines if line.strip())


def take_rest(lines: List[str], params: Dict[str, str]) -> List[str]:
    """`:param int name: what it is`, and `@param name: …`."""
    import re

    field = re.compile(
        r"\s*[:@](param|parameter|arg|argument|key|keyword|type)\s+(?:[^:]*?\s)?\*{0,2}(\w+)\s*:\s*(.*)"
    )
    kept: List[str] = []
    index = 0
    while index < len(lines):
        match = field.match(lines[index])
        if match is None:
            kept.append(lines[index])
            index += 1
            continue
        description = [match[3]]
        base = indent_of(lines[index])
        index += 1
        while index < len(lines) and lines[index].strip() and indent_of(lines[index]) > base:
            description.append(lines[index])
            index += 1
        if match[1] != "type":
            params[match[2]] = join_lines(description)
    return kept


def take_numpy(lines: List[str], params: Dict[str, str]) -> List[str]:
    """A title underlined with hyphens, entries `name : type`, and their text indented below."""

    def is_title(at: int) -> bool:
        return at + 1 < len(lines) and bool(lines[at].strip()) and set(lines[at + 1].strip()) == {"-"}

    kept: List[str] = []
    index = 0
    while index < len(lines):
        if not (is_title(index) and lines[index].strip().lower() in ("parameters", "other parameters")):
            kept.append(lines[index])
            index += 1
            continue
        index += 2
        names: List[str] = []
        description: List[str] = []
        while index < len(lines) and not is_title(index):
            line = lines[index]
            if line.strip() and indent_of(line) == 0:
                params.update((name, join_lines(description)) for name in names)
                names = [name.strip().lstrip("*") for name in line.partition(":")[0].split(",")]
                description = []
            else:
                description.append(line)
            index += 1
        params.update((name, join_lines(description)) for name in names)
    return kept


def take_google(lines: List[str], params: Dict[str, str]) -> List[str]:
    """A title `Args:`, and indented below it entries `name (type): text`."""
    import re

    entry = re.compile(r"\*{0,2}(\w+)\s*(?:\(.*?\)\s*)?:(?:\s+(.*)|$)")
    kept: List[str] = []
    index = 0
    while index < len(lines):
        line = lines[index]
        title = line.strip().lower()
        following = next((later for later in lines[index + 1 :] if later.strip()), "")
        inside = indent_of(following)
        is_section = title.endswith(":") and title[:-1].strip() in GOOGLE_SECTIONS
        if not is_section or inside <= indent_of(line) or not entry.match(following.strip()):
            kept.append(line)
            index += 1
            continue
        base = indent_of(line)
        index += 1
        name = None
        while index < len(lines) and (not lines[index].strip() or indent_of(lines[index]) > base):
            line = lines[index]
            match = entry.match(line.strip()) if indent_of(line) <= inside else None
            if match is not None:
                name = match[1]
                params[name] = (match[2] or "").strip()
            elif name is not None:
                params[name] = join_lines((params[name], line))
            index += 1
        if kept and kept[-1].strip():
            kept.append("")
    return kept
