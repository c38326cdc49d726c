"""Conversations, and files that are attached."""

import asyncio
import os
import unittest
from typing import List

from harness import ClientTest

from llm_do import Answer, Failed, InvalidInput, LlmDoError, Question, Reply
from llm_do.client.connection import Waited
from llm_do.client.stream import Events


class Chats(ClientTest):
    def test_messages_are_answered_one_after_the_other_and_the_end_has_a_result(self) -> None:
        program = self.load()
        with program.talker.chat() as chat:
            with self.assertRaisesRegex(LlmDoError, "has not begun"):
                chat.reply()
            first = chat.send("Hello")
            self.assertIsInstance(first, Reply)
            self.assertEqual(first.text, "I heard: Hello")
            self.assertEqual(chat.reply(), first)
            second = chat.send("How are you?")
            self.assertEqual((second.text, second.number), ("I heard: How are you?", first.number + 1))
            run = program.run(str(chat.run))
            self.assertEqual((run["state"], run["chat"]), ("waiting", True))
            result = chat.end()
            self.assertEqual((result.output, result.run), ("I heard: How are you?", chat.run))
            with self.assertRaisesRegex(Failed, "the chat is over"):
                chat.send("Still there?")
        self.assertEqual(program.run(str(chat.run))["state"], "done")

    def test_block_ends_the_conversation(self) -> None:
        program = self.load()
        with program.talker.chat("Hello") as chat:
            self.assertEqual(chat.reply().text, "I heard: Hello")
        self.until(lambda: program.run(str(chat.run))["state"] == "done")
        with program.slow.chat() as other:
            stream = other.stream("Think.")
            self.until(lambda: other.run)
        self.until(lambda: program.run(str(other.run))["state"] == "cancelled")
        with self.assertRaises(LlmDoError):
            stream.result()

    def test_stream_gives_the_pieces_and_leaving_it_stops_the_answer(self) -> None:
        chat = self.load().talker.chat()
        self.assertEqual("".join(chat.stream("Hello").text()), "I heard: Hello")
        stream = chat.stream("More")
        self.assertEqual("".join(stream.text()), "I heard: More")
        self.assertEqual(stream.result().text, "I heard: More")
        for event in chat.stream("slowly, please"):
            if event.kind == "text":
                break
        stopped = chat.reply()
        self.assertTrue(stopped.cut_off)
        self.assertLess(len(stopped.text), len("one two three four five six"))
        self.assertEqual(chat.send("And now?").text, "I heard: And now?")

    def test_text_that_no_delta_brought_is_that_of_the_record(self) -> None:
        ended = Waited()
        ended.settle("done", None)
        stream = Events(lambda _: ended, str)

        def hear(event: str, **more: object) -> None:
            stream.hear({"event": event, "path": "0", **more})

        def answered(step: str, *texts: str) -> None:
            message = {"parts": [{"part": "text", "text": text} for text in texts]}
            hear("record", record={"path": "0", "step": step, "kind": "model_answered", "message": message})

        hear("delta", turn=0, delta="text", text="Hel")
        answered("model.0.0", "Hello", " you.")
        answered("summary.1.0", "They said hello.")
        hear("delta", turn=1, delta="text", text="Lost")
        hear("discard", turn=1)
        answered("model.1.1", " And you.")
        self.assertEqual(list(stream.text()), ["Hel", "lo you.", "Lost", " And you."])

    def test_approvals_go_to_the_operator_and_without_one_they_are_denied(self) -> None:
        asked: List[str] = []

        def approve(question: Question) -> Answer:
            asked.append(question.function)
            return question.approve()

        self.load().talker.chat().send("Please write it down")
        with self.assertRaises(FileNotFoundError):
            self.read("out/note.txt")
        chat = self.load(operator=approve).talker.chat()
        chat.send("Please write it down")
        self.assertEqual((asked, self.read("out/note.txt")), (["write_file"], "noted"))

    def test_turn_that_fails_is_an_error_and_the_conversation_continues(self) -> None:
        chat = self.load().talker.chat("Hello")
        with self.assertRaisesRegex(Failed, "no such thing"):
            chat.send("fail")
        self.assertEqual(chat.send("Again").text, "I heard: Again")

    def test_messages_are_taken_back_and_another_model_answers(self) -> None:
        chat = self.load().talker.chat("Hello")
        chat.reply()
        chat.send("A mistake")
        self.assertEqual(chat.undo().text, "I heard: Hello")
        self.assertEqual(chat.send("Instead").text, "I heard: Instead")
        chat.choose_model("script:other.yaml")
        self.assertEqual(chat.send("Who is there?").text, "another model")
        with self.assertRaises(LlmDoError):
            chat.act(answer="approve")
        # What was no answer to the turn has changed nothing.
        self.assertEqual(chat.send("Still you?").text, "another model")

    def test_files_are_attached_by_their_paths(self) -> None:
        path = self.write("letter.txt", "The bees are well.")
        program = self.load()
        self.assertIn("It says: Look", program.looker.using(attachments=[path])("Look"))
        with self.assertRaisesRegex(LlmDoError, "none.txt"):
            program.looker.using(attachments=[path + "/none.txt"])("Look")
        chat = program.talker.chat()
        chat.send("Look at this", attachments=[path])
        chat.send("And at this", attachments=[path])
        chat.attach(path)
        chat.send("And this")
        names = 0
        journal = os.path.join(self.project, ".llm-do", "runs", str(chat.run), "journal.jsonl")
        with open(journal, encoding="utf-8") as file:
            names = sum("letter.txt" in line for line in file)
        self.assertGreaterEqual(names, 3)
        with self.assertRaisesRegex(InvalidInput, "none.txt"):
            chat.attach(path + ".none.txt")
        with self.assertRaisesRegex(Failed, "can't read|text"):
            chat.attach(self.write("odd.bin", "\0" * 10))
        with self.assertRaises(Failed):
            chat.choose_model("script:none.yaml")
        self.assertEqual(chat.send("Well?").text, "I heard: Well?")

    def test_tasks_hold_conversations_side_by_side(self) -> None:
        async def one(number: int) -> List[str]:
            async with self.program.talker.chat() as chat:
                said = [(await chat.asend(f"{number}.{turn}")).text for turn in range(3)]
                result = await chat.aend()
            self.assertEqual(result.output, said[-1])
            return said

        async def main() -> None:
            self.program = self.load()
            talked = await asyncio.gather(*(one(number) for number in range(20)))
            for number, said in enumerate(talked):
                self.assertEqual(said, [f"I heard: {number}.{turn}" for turn in range(3)])
            chat = self.program.talker.chat("Hello")
            with self.assertRaisesRegex(Failed, "nothing older to compact"):
                await chat.aact(answer="compact")
            waiting = asyncio.ensure_future(chat.asend("slowly, please"))
            await asyncio.sleep(0.5)
            waiting.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await waiting
            self.assertTrue((await asyncio.get_running_loop().run_in_executor(None, chat.reply)).cut_off)

        asyncio.run(main())


if __name__ == "__main__":
    unittest.main()
