"""Tables with polars, from the project's own environment."""

from pathlib import Path
from typing import Literal

import polars as pl

from llm_do import ModelRetry


def columns(table: Path) -> dict[str, str]:
    """The columns of a table and their types.

    Args:
        table: A CSV file, such as /data/rides.csv.
    """
    return {name: str(kind) for name, kind in pl.read_csv(table).schema.items()}


def summarise(
    table: Path, value: str, by: str, how: Literal["sum", "mean", "max"] = "sum"
) -> list[dict[str, object]]:
    """Summarises a column for each value of another one, largest first.

    Args:
        table: A CSV file.
        value: The column with the numbers.
        by: The column to group by.
        how: What to make of the numbers of a group.
    """
    frame = pl.read_csv(table)
    for name in (value, by):
        if name not in frame.columns:
            raise ModelRetry(f"There is no column {name!r}. There are: {', '.join(frame.columns)}.")
    summary = getattr(pl.col(value), how)()
    return frame.group_by(by).agg(summary).sort([value, by], descending=[True, False]).to_dicts()
