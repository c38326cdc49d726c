"""A problem that the person at the terminal can solve."""


class Refused(Exception):
    """What is wrong, and what to do."""

    def __init__(self, message, hint):
        super().__init__(message)
        self.hint = hint
