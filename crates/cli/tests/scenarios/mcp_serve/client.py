"""A client made with the protocol's Python SDK: lists the tools of a server, calls one, and approves what it asks."""

import asyncio
import json
import sys

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client


async def main(command, folder):
    heard = {"asked": [], "progress": 0}

    async def answer(context, params):
        heard["asked"].append(params.message)
        return types.ElicitResult(action="accept", content={"decision": "approve"})

    async def progress(done, total, message):
        heard["progress"] += 1

    server = StdioServerParameters(command=command, args=["mcp", "serve", "."], cwd=folder)
    async with stdio_client(server) as streams:
        async with ClientSession(*streams, elicitation_callback=answer) as session:
            await session.initialize()
            heard["tools"] = [tool.name for tool in (await session.list_tools()).tools]
            result = await session.call_tool("main", {"topic": "bees"}, progress_callback=progress)
            heard["text"] = result.content[0].text
    print(json.dumps(heard))


asyncio.run(main(*sys.argv[1:]))
