"""The transcript of the other loops in `llm`: a chain of prompts over OpenAI's chat completions, streamed, as is its default."""

import asyncio

from llm.default_plugins.openai_models import AsyncChat

from loop import MODEL, SYSTEM, USER, measure, options, read_file


async def main():
    asked = options()
    model = AsyncChat(MODEL, key="none", api_base=f"{asked.url}/v1", supports_tools=True)

    async def converse():
        return await model.chain(USER, system=SYSTEM, tools=[read_file]).text()

    await measure("llm", asked, converse)


asyncio.run(main())
