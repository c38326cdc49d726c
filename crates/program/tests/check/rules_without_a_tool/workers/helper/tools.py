def only_below(name: str) -> str:
    return name
