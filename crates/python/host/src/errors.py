# Errors: exceptions as frames.


class ArgumentsError(Exception):
    """Invalid arguments, with all problems."""


def message_of(error: BaseException) -> str:
    """The message of an exception, even if its `__str__` raises."""
    try:
        text = str(error)
        if not isinstance(text, str):
            raise TypeError
    except BaseException as inner:
        text = f"a {type(error).__name__} whose __str__ raises {type(inner).__name__}"
    return shorten(text)


def shorten(text: str) -> str:
    if len(text) <= MAX_MESSAGE:
        return text
    notice = " […] "
    return text[: MAX_MESSAGE - 1000 - len(notice)] + notice + text[-1000:]


def source_line(file: Optional[str], line: Optional[int]) -> str:
    """The source line of a frame. `linecache` would cost an import."""
    known = TEXTS.get(file or "", "").splitlines()
    if line is not None and 0 < line <= len(known):
        return known[line - 1].strip()[:400]
    try:
        with open(file or os.devnull, encoding="utf-8", errors="replace") as source:
            for number, text in enumerate(source, 1):
                if number == line:
                    return text.strip()[:400]
    except (OSError, ValueError):
        pass
    return ""


def frames_of(error: BaseException, module: Optional[Module]) -> List[Frame]:
    """The frames of the user's own code, and the first frame of an installed package after them."""
    root = module.root if module else "/"
    real_root = os.path.realpath(root)
    path = module.path if module else ""
    found: List[Tuple[str, int, str]] = []
    left = False
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        file = code.co_filename
        if file != HOST_FILE and not file.startswith("<"):
            own = file == path or (
                not is_installed(file)
                and (is_below(file, root) or is_below(os.path.realpath(file), real_root))
            )
            if own or (is_installed(file) and found and not left):
                found.append((file, trace.tb_lineno, getattr(code, "co_qualname", code.co_name)))
                left = not own
        trace = trace.tb_next
    if len(found) > MAX_FRAMES:  # For example endless recursion: keep the first and the last frames.
        found = found[: MAX_FRAMES // 2] + found[-MAX_FRAMES // 2 :]
    return [
        {"file": file, "line": line, "function": function, "text": source_line(file, line)}
        for file, line, function in found
    ]


def chain_of(error: BaseException) -> List[BaseException]:
    """An exception and its causes."""
    chain: List[BaseException] = []
    next_one: Optional[BaseException] = error
    while next_one is not None and next_one not in chain and len(chain) < 10:
        chain.append(next_one)
        next_one = next_one.__cause__ or (None if next_one.__suppress_context__ else next_one.__context__)
    return chain


def describe_error(error: BaseException, module: Optional[Module], importing: bool = False) -> Frame:
    """The fields of an `error` frame."""
    try:
        return _describe_error(error, module, importing)
    except Exception as inner:  # The methods of an exception class may raise.
        message = f"a {type(error).__name__} that cannot be described: {type(inner).__name__}"
        return {
            "kind": "import" if importing else "exception",
            "type": type(error).__name__,
            "message": message,
            "frames": [],
        }


def _describe_error(error: BaseException, module: Optional[Module], importing: bool) -> Frame:
    inner = getattr(error, "exceptions", None)
    if (
        type(error).__name__ in ("ExceptionGroup", "BaseExceptionGroup")
        and isinstance(inner, tuple)
        and len(inner) == 1
    ):
        error = inner[0]
        inner = None
    name = type(error).__name__
    result: Frame = {
        "kind": "import" if importing else "exception",
        "type": name,
        "message": message_of(error),
        "frames": frames_of(error, module),
    }
    if isinstance(inner, tuple):
        parts = [
            f"{type(one).__name__}: {message_of(one)}" for one in inner if isinstance(one, BaseException)
        ]
        result["message"] = shorten(result["message"] + "".join(f"\n- {part}" for part in parts))
    elif isinstance(error.__cause__, Exception):
        cause = error.__cause__
        result["message"] = shorten(
            f"{result['message']} (because of {type(cause).__name__}: {message_of(cause)})"
        )
    if isinstance(error, CallInterrupted):
        result["kind"] = "cancelled"
    elif isinstance(error, SystemExit):
        result["kind"] = "exit"
        result["message"] = (
            f"the code called sys.exit({'' if error.code is None else show(error.code)}): return a value or raise an exception instead"
        )
    elif name == "ModelRetry":
        result["kind"] = "retry"
        result["message"] = shorten(str(getattr(error, "message", None) or message_of(error)))
    elif isinstance(error, ArgumentsError):
        result["kind"] = "arguments"
        result["frames"] = []
    elif isinstance(error, ResultError):
        result["kind"] = "result"
        result["frames"] = []
    elif isinstance(error, CallError):
        result["kind"] = "refused"
        result["cause"] = error.kind
    elif isinstance(error, ToolError):
        result["frames"] = []
    elif isinstance(error, SyntaxError):
        describe_syntax_error(error, result)
    elif isinstance(error, ModuleNotFoundError) and error.name and not is_local(error.name, module):
        result["kind"] = "missing"
        top = error.name.partition(".")[0]
        result["missing"] = error.name if top in sys.modules else top
    else:
        import errno

        refusals = (errno.EPERM, errno.EACCES, errno.EROFS)
        for one in chain_of(error):
            # A hidden file does not exist for the process. The path lets llm-do explain that.
            if isinstance(one, OSError) and one.errno in (*refusals, errno.ENOENT):
                if one.errno != errno.ENOENT:
                    result["kind"] = "denied"
                result["errno"] = errno.errorcode.get(one.errno, str(one.errno))
                file = one.filename2 or one.filename
                result["path"] = os.fsdecode(file) if isinstance(file, (str, bytes, os.PathLike)) else None
                break
    return result


def describe_syntax_error(error: SyntaxError, result: Frame) -> None:
    """Adds the place of a syntax error, which the traceback does not have."""
    result["message"] = shorten(str(error.msg))
    result["file"] = error.filename
    result["line"] = error.lineno
    result["column"] = error.offset
    text = error.text
    if isinstance(text, str):
        result["text"] = text.rstrip("\n")[:400]
    if error.filename and error.lineno:
        shown = (text or source_line(error.filename, error.lineno)).strip()[:400]
        result["frames"].append(
            {"file": error.filename, "line": error.lineno, "function": "<module>", "text": shown}
        )


def is_local(name: str, module: Optional[Module]) -> bool:
    """Whether a missing module seems to belong to the project."""
    if module is None:
        return False
    top = name.partition(".")[0]
    folders = {module.root, os.path.dirname(module.path)}
    return any(os.path.exists(os.path.join(folder, top + end)) for folder in folders for end in ("", ".py"))


def report_bug() -> NoReturn:
    """Ends the process because of a bug in this file. A normal exit would wait for the threads of tools."""
    import traceback

    os.write(2, traceback.format_exc().encode("utf-8", "replace"))
    _exit(70)
