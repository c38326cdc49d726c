"""The work of `bench/pays` in pydantic-ai, as its documentation has it: an agent, and an agent that is a tool of another."""

import asyncio

from pydantic_ai import Agent, UsageLimits
from pays import ALL, CALLER, SYSTEM, URL, USER, WIRE, WORK, read_file


def model():
    if WIRE == "openai":
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        return OpenAIChatModel("gpt-4o", provider=OpenAIProvider(base_url=f"{URL}/v1", api_key="none"))
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    return AnthropicModel("claude-sonnet-4-5", provider=AnthropicProvider(base_url=URL, api_key="none"))


async def main():
    unlimited = UsageLimits(request_limit=None)
    agent = Agent(model(), instructions=SYSTEM, tools=[read_file])
    if WORK == "conversation":
        await agent.run(USER, usage_limits=unlimited)
        return

    async def reader(part: str) -> str:
        """Reads a part."""
        return (await agent.run(part, usage_limits=unlimited)).output

    await Agent(model(), instructions=CALLER, tools=[reader]).run(ALL, usage_limits=unlimited)


asyncio.run(main())
