from llm_do import tool

@tool(risk="network")
def send(to: str, text: str) -> None:
    """Sends a mail."""
