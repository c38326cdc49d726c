"""Plain functions: their types and docstrings are what a model sees of them."""

from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from enum import Enum

CENT = Decimal("0.01")


class Interval(Enum):
    YEARLY = 1
    QUARTERLY = 4
    MONTHLY = 12


def compound(principal: Decimal, rate: Decimal, years: int, interval: Interval = Interval.YEARLY) -> Decimal:
    """What a sum grows to with compound interest.

    Args:
        principal: The sum at the beginning.
        rate: Yearly rate in percent, such as 3.5.
        years: How many whole years it stays.
        interval: How often interest is added, as times a year.
    """
    if years < 0:
        raise ValueError("years can't be negative")
    times = interval.value
    factor = (1 + rate / 100 / times) ** (years * times)
    return (principal * factor).quantize(CENT, ROUND_HALF_UP)


def split_bill(total: Decimal, people: list[str]) -> dict[str, Decimal]:
    """Splits a bill so that the shares add up to the cent.

    Args:
        total: What is to be paid.
        people: Who pays.
    """
    if not people:
        raise ValueError("somebody has to pay")
    share = (total / len(people)).quantize(CENT)
    shares = {person: share for person in people}
    shares[people[0]] += total - sum(shares.values())
    return shares


def days_between(start: date, end: date) -> int:
    """Days from one date to another."""
    return (end - start).days
