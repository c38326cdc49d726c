import json
from pathlib import Path
from typing import Optional, TypedDict

from llm_do import ModelRetry, tool

SHELF = Path("data/books.json")


class Book(TypedDict):
    title: str
    author: str
    lent_to: Optional[str]


def shelf() -> list[Book]:
    return json.loads(SHELF.read_text())


@tool(risk="read")
def find_books(words: str = "") -> list[Book]:
    """Finds books by words of title or author. Without words, all books.

    Args:
        words: Words that title or author contain.
    """
    found = words.lower().split()
    return [book for book in shelf() if all(word in f"{book['title']} {book['author']}".lower() for word in found)]


@tool
def add_book(title: str, author: str) -> int:
    """Adds a book, and returns the number of books."""
    books = [*shelf(), Book(title=title, author=author, lent_to=None)]
    SHELF.write_text(json.dumps(books, indent=1) + "\n")
    return len(books)


@tool(approval="ask")
def lend(title: str, person: str) -> str:
    """Notes that a book is lent to a person."""
    books = shelf()
    for book in books:
        if book["title"] == title:
            book["lent_to"] = person
            SHELF.write_text(json.dumps(books, indent=1) + "\n")
            return f"{title} is lent to {person}"
    raise ModelRetry(f"Give one of {', '.join(book['title'] for book in books)}.")
