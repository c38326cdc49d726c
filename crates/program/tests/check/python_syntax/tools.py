LIMIT = 3


def greet(name: str) -> str
    return name
