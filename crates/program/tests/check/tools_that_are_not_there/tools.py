def greet(name: str) -> str:
    """Greets."""
    return "Hello " + name


def wave() -> str:
    return "o/"
