class Own:
    a: str
