from llm_do import tool


@tool
def greet(name: str) -> str:
    """Greets somebody by name."""
    return f"Hello {title(name)}"


def title(name: str) -> str:
    """The title of somebody."""
    return f"Dr. {name}"


def short(name: str) -> str:
    return name[:3]
