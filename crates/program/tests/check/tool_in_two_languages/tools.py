def greet(name: str) -> str:
    return name
