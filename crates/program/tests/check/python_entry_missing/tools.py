def mian(input: dict) -> str:
    return ""
