def greet(name: str) -> str:
    """Greets."""
    return "Hello " + name


def add(*args: int) -> int:
    return sum(args)
