import sqlite3
from contextlib import closing
from typing import Literal

from llm_do import tool


def database() -> sqlite3.Connection:
    db = sqlite3.connect("data/shop.db")
    db.execute("CREATE TABLE IF NOT EXISTS cases (number INTEGER PRIMARY KEY, ordered TEXT, topic TEXT)")
    db.execute("CREATE TABLE IF NOT EXISTS refunds (ordered TEXT, amount REAL)")
    return db


@tool
def open_case(order: str, topic: Literal["question", "complaint", "praise"]) -> int:
    """Opens a case, and returns its number.

    Args:
        order: The number of the order, such as "4711".
        topic: What the mail is about.
    """
    with closing(database()) as db, db:
        return db.execute("INSERT INTO cases (ordered, topic) VALUES (?, ?)", (order, topic)).lastrowid


@tool(risk="destructive")
def refund(order: str, amount: float) -> str:
    """Pays money back for an order.

    Args:
        order: The number of the order.
        amount: The amount in euros.
    """
    with closing(database()) as db, db:
        db.execute("INSERT INTO refunds VALUES (?, ?)", (order, amount))
    return f"{amount:.2f} euros paid back for order {order}"
