def other(input: dict) -> str:
    pass
