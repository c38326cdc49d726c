"""A client made with the protocol's Python SDK: calls workers as tools, and approves what one asks."""

import asyncio
import json
import sys

import httpx2
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client

address, token, mode = sys.argv[1:4]


async def main():
    heard = {"asked": [], "progress": 0}

    async def approve(context, params):
        heard["asked"].append(params.message)
        return types.ElicitResult(action="accept", content={"decision": "approve"})

    async def progress(done, total, message):
        heard["progress"] += 1

    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(f"http://{address}/mcp", http_client=http)
        async with Client(transport, mode=mode, elicitation_callback=approve) as client:
            heard["tools"] = [tool.name for tool in (await client.list_tools()).tools]
            read = await client.call_tool("reader", {"input": "Read it."}, progress_callback=progress)
            heard["read"] = read.content[0].text
            sorted_mail = await client.call_tool("sorter", {"input": "Help!"})
            heard["sorted"] = sorted_mail.structured_content
            written = await client.call_tool("two", {"input": "Write."})
            heard["written"] = [written.is_error, written.content[0].text]
            failed = await client.call_tool("failing", {"input": "Hello"})
            heard["failed"] = [failed.is_error, failed.content[0].text]
    print(json.dumps(heard))


asyncio.run(main())
