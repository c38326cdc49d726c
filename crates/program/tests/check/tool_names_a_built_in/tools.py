def greet(name: str) -> str:
    """Greets."""
    return "Hello " + name


def read_file(path: str) -> str:
    return path
