"""Docstrings, without a process."""

import importlib.util
import textwrap
import unittest

from harness import HOST

spec = importlib.util.spec_from_file_location("llm_do_host", HOST)
host = importlib.util.module_from_spec(spec)
spec.loader.exec_module(host)


def parse(text):
    return host.parse_docstring(textwrap.dedent(text))


class Docstrings(unittest.TestCase):
    def test_none_and_plain(self) -> None:
        self.assertEqual(host.parse_docstring(None), ("", {}))
        self.assertEqual(parse("One line."), ("One line.", {}))
        self.assertEqual(parse("One.\n\n    Two.\n"), ("One.\n\nTwo.", {}))

    def test_google(self) -> None:
        said, params = parse(
            """Finds things.

            More about it.

            Args:
                query (str): What to look for:
                    over two lines.
                limit (int, optional): How many. Defaults to 10.
                flag: bare
                **options: the rest

            Returns:
                A list.

            Raises:
                ValueError: if not
            """
        )
        self.assertEqual(
            said,
            "Finds things.\n\nMore about it.\n\nReturns:\n    A list.\n\nRaises:\n    ValueError: if not",
        )
        self.assertEqual(
            params,
            {
                "query": "What to look for: over two lines.",
                "limit": "How many. Defaults to 10.",
                "flag": "bare",
                "options": "the rest",
            },
        )

    def test_google_with_blank_lines_and_nested_types(self) -> None:
        said, params = parse(
            """Does.

            Args:
                a (Dict[str, List[int]]): first

                b (Callable[[int], str]): second
                    with more: and a colon
            """
        )
        self.assertEqual((said, params), ("Does.", {"a": "first", "b": "second with more: and a colon"}))

    def test_google_text_on_the_next_line(self) -> None:
        self.assertEqual(parse("X.\n\nArgs:\n    a:\n        below\n")[1], {"a": "below"})

    def test_a_line_that_only_looks_like_a_section(self) -> None:
        said, params = parse("Takes these args:\n\nArgs: none at all\n")
        self.assertEqual((said, params), ("Takes these args:\n\nArgs: none at all", {}))

    def test_numpy(self) -> None:
        said, params = parse(
            """Finds things.

            Parameters
            ----------
            query : str
                What to look for
                over two lines.
            limit, offset : int, optional
                How many.
            bare
                Without a type.

            Returns
            -------
            list
                Things.
            """
        )
        self.assertEqual(said, "Finds things.\n\nReturns\n-------\nlist\n    Things.")
        self.assertEqual(
            params,
            {
                "query": "What to look for over two lines.",
                "limit": "How many.",
                "offset": "How many.",
                "bare": "Without a type.",
            },
        )

    def test_rest(self) -> None:
        said, params = parse(
            """Finds things.

            :param query: what to
                look for
            :type query: str
            :param int limit: how many
            :param Dict[str, int] table: a table
            :returns: things
            """
        )
        self.assertEqual(said, "Finds things.\n\n:returns: things")
        self.assertEqual(params, {"query": "what to look for", "limit": "how many", "table": "a table"})

    def test_epytext(self) -> None:
        self.assertEqual(parse("X.\n\n@param a: first\n")[1], {"a": "first"})

    def test_nothing_breaks_it(self) -> None:
        for text in (
            "Args:",
            "Args:\n",
            "Args:\n    ",
            "Parameters\n---",
            "----\n----",
            ":param",
            ":param :",
            "Args:\n  :",
            "\n\n",
        ):
            parse(text)


if __name__ == "__main__":
    unittest.main()
