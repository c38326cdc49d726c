def greet(name: str) -> str:
    """Greets."""
    return "Hello " + name
