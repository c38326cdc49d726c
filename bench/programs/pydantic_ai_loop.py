"""The transcript of the other loops in pydantic-ai: one agent, OpenAI's chat completions, not streamed, as is its default."""

import asyncio

from pydantic_ai import Agent, UsageLimits
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from loop import MODEL, SYSTEM, USER, measure, options, read_file


async def main():
    asked = options()
    provider = OpenAIProvider(base_url=f"{asked.url}/v1", api_key="none")
    agent = Agent(OpenAIChatModel(MODEL, provider=provider), instructions=SYSTEM, tools=[read_file])
    unlimited = UsageLimits(request_limit=None)

    async def converse():
        return (await agent.run(USER, usage_limits=unlimited)).output

    await measure("pydantic_ai", asked, converse)


asyncio.run(main())
