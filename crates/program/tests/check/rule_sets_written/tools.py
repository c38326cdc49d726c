def send_money(amount: float, recipient: str, subject: str) -> str:
    return "sent"
