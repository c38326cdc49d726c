"""Pydantic models as outputs, and workers as tools of agent frameworks with scripted models."""

import datetime
import unittest
from typing import List, Literal

import pydantic
from harness import ClientTest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import StructuredTool
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from llm_do import InvalidOutput, NotLoaded
from llm_do.client.partial import reader


class Line(pydantic.BaseModel):
    item: str
    n: int


class Invoice(pydantic.BaseModel):
    number: str
    total: float
    due: datetime.date
    lines: List[Line]


class Draft(pydantic.BaseModel):
    number: str = pydantic.Field(min_length=3)
    total: float
    due: datetime.date
    lines: List[Line]
    paid: bool = False


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    number: Literal["A-1", "A-2"]
    total: float


class Positive(pydantic.BaseModel):
    number: str
    total: pydantic.PositiveFloat

    @pydantic.field_validator("number")
    @classmethod
    def known(cls, value: str) -> str:
        if value != "A-2":
            raise ValueError("no such invoice")
        return value


@pydantic.dataclasses.dataclass
class Plain:
    number: str
    due: datetime.date


class Pydantic(ClientTest):
    def test_models(self) -> None:
        program = self.load(returns={"extractor": Invoice})
        invoice = program.extractor(text="x")
        self.assertEqual(
            invoice, Invoice(number="A-1", total=3, due="2026-11-25", lines=[{"item": "pear", "n": 2}])
        )  # type: ignore[arg-type, list-item]
        plain = program.extractor(text="x", returns=Plain)
        self.assertEqual(plain, Plain("A-1", datetime.date(2026, 11, 25)))

    def test_partial_models(self) -> None:
        stream = self.load().drafter.stream(text="x", returns=Draft)
        drafts = list(stream.partials())
        whole = stream.result().output
        shown = [draft for draft in drafts if draft is not None]
        # Conditions hold for the whole value, and a default is no part of the answer.
        self.assertTrue(all((draft.number or "")[:1] in ("", "A", "w") for draft in shown))
        self.assertTrue(all(draft.paid is None for draft in shown))
        last = shown[-1]
        self.assertEqual(
            (last.number, last.due, last.lines[1].item), (whole.number, whole.due, whole.lines[1].item)
        )
        self.assertFalse(whole.paid)
        read = reader(Draft)
        begun = read({"number": "A", "lines": [{"item": "pear"}]})
        self.assertEqual(
            (begun.number, begun.total, begun.lines[0].item, begun.lines[0].n), ("A", None, "pear", None)
        )

    def test_model_that_forbids_what_the_worker_gives(self) -> None:
        with self.assertRaises(NotLoaded) as caught:
            self.load(returns={"extractor": Strict})
        for difference in ("`number` may be other values", "may have `due`", "may have `lines`"):
            self.assertIn(difference, str(caught.exception))

    def test_validator_that_refuses_an_output(self) -> None:
        program = self.load()
        with self.assertRaisesRegex(InvalidOutput, "no such invoice") as caught:
            program.extractor(text="x", returns=Positive)
        self.assertEqual(caught.exception.partial["number"], "A-1")
        self.assertIsNotNone(caught.exception.run)


class Frameworks(ClientTest):
    def test_pydantic_ai_calls_a_worker(self) -> None:
        program = self.load()
        seen = []

        def model(messages: List[ModelMessage], info: AgentInfo) -> ModelResponse:
            for part in messages[-1].parts:
                if isinstance(part, ToolReturnPart):
                    return ModelResponse(parts=[TextPart(f"They said: {part.content}")])
            [tool] = info.function_tools
            seen.append(tool)
            return ModelResponse(parts=[ToolCallPart(tool.name, {"name": "Ada"})])

        for tool in (program.greeter.as_tool(), program.greeter.as_tool(asynchronous=True)):
            agent = Agent(FunctionModel(model), tools=[tool])
            self.assertEqual(agent.run_sync("Greet Ada.").output, "They said: Hello, Ada!")
        self.assertEqual(seen[0].description, "Greets somebody.")
        self.assertEqual(seen[0].parameters_json_schema["properties"]["name"]["type"], "string")
        self.assertEqual(seen[0].parameters_json_schema["required"], ["name"])

    def test_langchain_calls_a_worker(self) -> None:
        program = self.load()
        tool = StructuredTool.from_function(
            program.greeter.as_tool(), coroutine=program.greeter.as_tool(asynchronous=True)
        )
        self.assertEqual((tool.name, tool.args["name"]["type"]), ("greeter", "string"))
        call = {"name": "greeter", "args": {"name": "Ada"}, "id": "1", "type": "tool_call"}
        model = GenericFakeChatModel(messages=iter([AIMessage("", tool_calls=[call])]))
        answer = model.invoke("Greet Ada.")
        result = tool.invoke(answer.tool_calls[0])
        self.assertIsInstance(result, ToolMessage)
        self.assertEqual(result.content, "Hello, Ada!")


if __name__ == "__main__":
    unittest.main()
