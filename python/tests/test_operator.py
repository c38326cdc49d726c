"""Approvals, answered by a callback."""

import asyncio
import unittest
from typing import List, Optional

from harness import ClientTest

from llm_do import Answer, Question


class Operators(ClientTest):
    def test_approve_deny_and_edit(self) -> None:
        asked: List[Question] = []

        def approve(question: Question) -> Answer:
            asked.append(question)
            return question.approve()

        program = self.load(operator=approve)
        program.writer("go")
        self.assertEqual(self.read("out/note.txt"), "noted")
        [question] = asked
        self.assertEqual(
            (question.kind, question.function, question.risk), ("approval", "write_file", "write")
        )
        self.assertEqual(question.input["content"], "noted")
        self.assertEqual(
            (question.chain, question.preview and question.preview["after"]), (["writer"], "noted")
        )
        denied = program.worker("writer", operator=lambda question: question.deny("not before Monday"))
        self.assertIn("not before Monday", denied("go"))
        edits = program.worker(
            "writer", operator=lambda question: question.edit({**question.input, "content": "edited"})
        )
        edits("go")
        self.assertEqual(self.read("out/note.txt"), "edited")

    def test_async_operator_runs_in_the_loop_of_the_call(self) -> None:
        async def main() -> None:
            loops = []

            async def approve(question: Question) -> Optional[Answer]:
                loops.append(asyncio.get_running_loop())
                await asyncio.sleep(0)
                return question.approve()

            program = self.load(operator=approve)
            await program.writer.acall("go")
            self.assertEqual(loops, [asyncio.get_running_loop()])

        asyncio.run(main())
        self.assertEqual(self.read("out/note.txt"), "noted")

    def test_operator_that_fails_ends_the_call_with_its_error(self) -> None:
        def broken(question: Question) -> Answer:
            raise ZeroDivisionError("no judgement")

        program = self.load(operator=broken)
        with self.assertRaisesRegex(ZeroDivisionError, "no judgement"):
            program.writer("go")
        self.until(lambda: program.runs(limit=1)[0]["state"] == "cancelled")
        with self.assertRaisesRegex(TypeError, "an operator returns an answer"):
            program.worker("writer", operator=lambda question: True)("go")  # type: ignore[arg-type, return-value]

    def test_without_an_operator_or_an_answer_nothing_is_written(self) -> None:
        self.assertIn("no tool", self.load().writer("go"))
        self.load(operator=lambda question: None).writer("go")
        with self.assertRaises(FileNotFoundError):
            self.read("out/note.txt")
        self.load(allow="write_file").writer("go")
        self.assertEqual(self.read("out/note.txt"), "noted")


if __name__ == "__main__":
    unittest.main()
