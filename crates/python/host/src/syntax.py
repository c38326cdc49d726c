# Syntax: the tree of a program that a model wrote. Nothing of the program is run.

#: Deepest nesting of a program.
MAX_SYNTAX_DEPTH = 100

#: The texts of modules that are in no file, by the file's name that their code has.
TEXTS: Dict[str, str] = {}


class TooDeep(Exception):
    """A program with deeper nesting than llm-do reads."""


def import_text(path: str, text: str) -> Any:
    """Executes the text of a module that is in no file, and returns the module."""
    name = os.path.basename(path).partition(".")[0]
    TEXTS[path] = text
    module = type(sys)(name)
    module.__file__ = path
    sys.modules[name] = module
    exec(compile(text, path, "exec", dont_inherit=True), module.__dict__)
    return module


def syntax_of(text: str) -> Frame:
    """The nodes of a program's tree as lists: kind, line, column, children by field, constants by field.

    A child is the number of its node, or -1 where there is none.
    """
    import ast

    text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = text.encode("utf-8", "replace").split(b"\n")
    nodes: List[Any] = []

    columns: Dict[int, List[int]] = {}

    def column(line: int, offset: int) -> int:
        text = lines[line - 1] if 0 < line <= len(lines) else b""
        if text.isascii():
            return min(offset, len(text)) + 1
        if line not in columns:
            # The number of characters before each byte. Bytes from 0x80 to 0xBF continue one.
            counted = [0]
            for byte in text:
                counted.append(counted[-1] + (byte & 0xC0 != 0x80))
            columns[line] = counted
        return columns[line][min(offset, len(text))] + 1

    def add(node: ast.AST, depth: int) -> int:
        if depth > MAX_SYNTAX_DEPTH:
            raise TooDeep(f"it is nested more than {MAX_SYNTAX_DEPTH} levels deep")
        line = getattr(node, "lineno", 0)
        number = len(nodes)
        children: Dict[str, List[int]] = {}
        constants: Dict[str, Json] = {}
        nodes.append(
            [type(node).__name__, line, column(line, getattr(node, "col_offset", 0)), children, constants]
        )
        for field, value in ast.iter_fields(node):
            if isinstance(value, ast.expr_context):
                continue
            if isinstance(value, ast.AST):
                children[field] = [add(value, depth + 1)]
            elif isinstance(value, list) and not any(isinstance(one, str) for one in value):
                children[field] = [add(one, depth + 1) if isinstance(one, ast.AST) else -1 for one in value]
            elif isinstance(value, list):
                constants[field] = [str(one) for one in value]
            else:
                constants[field] = constant(value)
        return number

    try:
        add(ast.parse(text, "program.py"), 0)
    except SyntaxError as error:
        place = {"line": error.lineno or 1, "column": error.offset or 1}
        return {"problem": {"message": f"syntax error: {error.msg}", **place}}
    except (TooDeep, ValueError, RecursionError, MemoryError) as error:
        return {
            "problem": {"message": message_of(error) or "it is nested too deeply", "line": 1, "column": 1}
        }
    return {"nodes": nodes}


def constant(value: Any) -> Json:
    """A constant of a program as JSON. Only its type matters where JSON can't hold it."""
    if value is None or isinstance(value, (bool, str)):
        return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
    if isinstance(value, int):
        return value if abs(value) < 1 << 53 else 0.5
    if isinstance(value, float):
        return value if value - value == 0.0 else 0.5
    return {"type": type(value).__name__}
