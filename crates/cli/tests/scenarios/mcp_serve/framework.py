"""An agent of pydantic-ai whose tools are workers of llm-do. A function takes the place of its model: it calls the first tool
and returns the result.

framework.py BINARY FOLDER
"""

import asyncio
import json
import sys

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel


def model(messages, info):
    returned = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    if returned:
        return ModelResponse(parts=[TextPart(json.dumps(returned[-1].content))])
    heard["tools"] = {tool.name: tool.parameters_json_schema for tool in info.function_tools}
    return ModelResponse(parts=[ToolCallPart("sorter", {"mail": "My invoice is wrong."})])


heard = {}


async def main(command, folder):
    server = MCPToolset(StdioTransport(command=command, args=["mcp", "serve", "."], cwd=folder))
    async with Agent(FunctionModel(model), toolsets=[server]) as agent:
        heard["answer"] = json.loads((await agent.run("Sort this mail.")).output)
    print(json.dumps(heard))


asyncio.run(main(*sys.argv[1:]))
