def _connect():
    pass
