"""Clients of OpenAI's interfaces as they come: each with its defaults, and with workers for models."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from pydantic import BaseModel, field_validator

address, token, what = sys.argv[1:4]
base = f"http://{address}/v1"
heard = {}


class Sorted(BaseModel):
    """Says whether a mail is urgent."""

    urgent: bool


class Misfit(BaseModel):
    urgent: str


def langchain():
    from langchain_openai import ChatOpenAI

    def model(name, **settings):
        return ChatOpenAI(model=name, base_url=base, api_key=token, max_retries=0, **settings)

    heard["text"] = model("desk/reader").invoke("Read it.").content
    heard["streamed"] = "".join(chunk.content for chunk in model("desk/reader").stream("Read it."))
    for method in ["json_schema", "function_calling"]:
        typed = model("desk/sorter").with_structured_output(Sorted, method=method)
        heard[method] = typed.invoke("Help!").urgent
    heard["responses"] = (
        model("desk/sorter", use_responses_api=True).with_structured_output(Sorted).invoke("Help!").urgent
    )
    tuned = model("desk/echo", temperature=0.1, max_tokens=500, include_response_headers=True)
    heard["ignored"] = tuned.invoke("Hello").response_metadata["headers"]["llm-do-ignored"]
    try:
        model("desk/sorter").with_structured_output(Misfit, method="function_calling").invoke("Help!")
    except Exception as error:
        heard["misfit"] = error.body["param"], error.body["message"]


def litellm():
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm

    def complete(name, said, **settings):
        messages = [{"role": "user", "content": said}]
        return litellm.completion(
            model=f"openai/{name}", api_base=base, api_key=token, messages=messages, num_retries=0, **settings
        )

    heard["text"] = complete("desk/reader", "Read it.").choices[0].message.content
    chunks = complete("desk/reader", "Read it.", stream=True)
    heard["streamed"] = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    typed = complete("desk/sorter", "Help!", response_format=Sorted, temperature=0.2, max_tokens=100)
    heard["typed"] = json.loads(typed.choices[0].message.content)
    tool = {"type": "function", "function": {"name": "Sorted", "parameters": Sorted.model_json_schema()}}
    forced = complete("desk/sorter", "Help!", tools=[tool], tool_choice="required")
    heard["forced"] = json.loads(forced.choices[0].message.tool_calls[0].function.arguments)
    response = litellm.responses(model="openai/desk/reader", input="Read it.", api_base=base, api_key=token)
    heard["responses"] = response.output_text


def llm():
    """The command of the package `llm`."""
    models = [
        {
            "model_id": name,
            "model_name": f"desk/{name}",
            "api_base": base,
            "api_key_name": "llm-do",
            "supports_schema": True,
        }
        for name in ["reader", "sorter"]
    ]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "extra-openai-models.yaml").write_text(json.dumps(models))

        def run(*arguments):
            command = [Path(sys.executable).with_name("llm"), "prompt", "--key", token, *arguments]
            environment = {**os.environ, "LLM_USER_PATH": folder}
            done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            return done.stdout.strip() or done.stderr

        heard["streamed"] = run("-m", "reader", "Read it.")
        heard["text"] = run("-m", "reader", "--no-stream", "Read it.")
        heard["typed"] = json.loads(run("-m", "sorter", "--schema", "urgent bool", "Help!"))
        heard["tuned"] = run("-m", "reader", "-o", "temperature", "0.3", "-o", "max_tokens", "100", "Read it.")


def instructor():
    import instructor
    import openai

    class Picky(Sorted):
        attempts: int = 0

        @field_validator("urgent")
        @classmethod
        def once_more(cls, urgent):
            heard["attempts"] = heard.get("attempts", 0) + 1
            if heard["attempts"] == 1:
                raise ValueError("look again")
            return urgent

    client = instructor.from_openai(openai.OpenAI(base_url=base, api_key=token, max_retries=0))
    messages = [{"role": "user", "content": "Help!"}]
    typed = client.chat.completions.create(model="desk/sorter", response_model=Sorted, messages=messages)
    heard["typed"] = typed.urgent
    partial = client.chat.completions.create_partial(model="desk/sorter", response_model=Sorted, messages=messages)
    heard["streamed"] = [part.urgent for part in partial][-1]
    again = client.chat.completions.create(model="desk/sorter", response_model=Picky, messages=messages, max_retries=2)
    heard["again"] = again.urgent


def pydantic_ai():
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=base, api_key=token)
    heard["text"] = Agent(OpenAIChatModel("desk/reader", provider=provider)).run_sync("Read it.").output
    for kind, model in [("chat", OpenAIChatModel), ("responses", OpenAIResponsesModel)]:
        agent = Agent(model("desk/sorter", provider=provider), output_type=Sorted)
        first = agent.run_sync("Help!")
        second = agent.run_sync("And now?", message_history=first.all_messages())

        async def streamed():
            async with agent.run_stream("Help!") as stream:
                return await stream.get_output()

        heard[kind] = [first.output.urgent, second.output.urgent, asyncio.run(streamed()).urgent]


def agents():
    from agents import Agent, HostedMCPTool, OpenAIResponsesModel, Runner, set_tracing_disabled
    from openai import AsyncOpenAI

    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=base, api_key=token, max_retries=0)
    asked = []

    def approve(request):
        asked.append(request.data.name)
        return {"approve": True}

    def agent(worker, **more):
        model = OpenAIResponsesModel(f"desk/{worker}", client)
        return Agent(name=worker, instructions="Be brief.", model=model, **more)

    tool = HostedMCPTool(tool_config={"type": "mcp", "server_label": "llm-do"}, on_approval_request=approve)

    async def run():
        two = agent("two", tools=[tool])
        written = await Runner.run(two, "Write.")
        heard["written"], heard["asked"] = written.final_output, list(asked)
        followed = written.to_input_list() + [{"role": "user", "content": "Write again."}]
        heard["again"] = (await Runner.run(two, followed)).final_output
        heard["typed"] = (await Runner.run(agent("sorter", output_type=Sorted), "Help!")).final_output.urgent
        running = Runner.run_streamed(agent("writer", tools=[tool]), "Write.")
        async for _ in running.stream_events():
            pass
        heard["streamed"] = running.final_output

    asyncio.run(run())


globals()[what]()
print(json.dumps(heard))
