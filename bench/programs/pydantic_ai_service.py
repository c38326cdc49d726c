"""A small service around pydantic-ai: runs are started, followed and waited for, as with `llm-do serve`, in memory alone."""

import asyncio
import json
import socket
import sys
import uuid

import uvicorn
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

URL = sys.argv[1]
provider = OpenAIProvider(base_url=f"{URL}/v1", api_key="none")
agent = Agent(OpenAIChatModel("bench", provider=provider), instructions="Answer in a word.")
app = FastAPI()
runs = {}


class Run:
    def __init__(self, message):
        self.id, self.events, self.changed = uuid.uuid4().hex, [], asyncio.Condition()
        self.add({"event": "started", "message": message})
        self.task = asyncio.create_task(self.carry_out(message))

    def add(self, event):
        self.events.append(json.dumps(event))

    async def carry_out(self, message):
        output = (await agent.run(message)).output
        self.add({"event": "ended", "output": output})
        async with self.changed:
            self.changed.notify_all()
        return output

    async def follow(self):
        sent = 0
        while True:
            while sent < len(self.events):
                yield f"data: {self.events[sent]}\n\n"
                sent += 1
            if self.task.done():
                return
            async with self.changed:
                await self.changed.wait_for(lambda: sent < len(self.events) or self.task.done())


@app.post("/runs")
async def start(body: dict, wait: int | None = None):
    run = Run(body["message"])
    runs[run.id] = run
    output = await asyncio.wait_for(run.task, wait) if wait else None
    return {"run": run.id, "output": output}


@app.get("/runs/{run}/events")
async def events(run: str):
    return StreamingResponse(runs[run].follow(), media_type="text/event-stream")


def main():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    # From here on clients wait for the server instead of being refused.
    listener.listen(4096)
    print("127.0.0.1:%d" % listener.getsockname()[1], flush=True)
    config = uvicorn.Config(app, log_level="warning", backlog=4096)
    uvicorn.Server(config).run(sockets=[listener])


main()
