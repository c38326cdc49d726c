"""Sends mail. Here a mail becomes a file in outbox/."""

from pathlib import Path

from llm_do import tool


@tool(risk="destructive")
def send_mail(to: str, subject: str, body: str) -> str:
    """Sends a mail.

    Args:
        to: The address.
        subject: The subject.
        body: The text.
    """
    outbox = Path("outbox")
    number = len(list(outbox.glob("*.txt"))) + 1
    (outbox / f"{number}.txt").write_text(f"To: {to}\nSubject: {subject}\n\n{body}\n")
    return f"sent to {to}"
