"""The work of `bench/pays` in LangGraph, as its documentation has it: its agent, and one that is a tool of another."""

import warnings

from langgraph.prebuilt import create_react_agent
from pays import ALL, CALLER, SYSTEM, URL, USER, WIRE, WORK, read_file

# The agent is to move to another package of the same authors, of which this says nothing.
warnings.simplefilter("ignore")


def model():
    if WIRE == "openai":
        from langchain_openai import ChatOpenAI

        return ChatOpenAI(model="gpt-4o", base_url=f"{URL}/v1", api_key="none")
    from langchain_anthropic import ChatAnthropic

    return ChatAnthropic(model="claude-sonnet-4-5", base_url=URL, api_key="none")


def ask(agent, text):
    done = agent.invoke({"messages": [{"role": "user", "content": text}]}, {"recursion_limit": 1000})
    return done["messages"][-1].text


def main():
    agent = create_react_agent(model(), [read_file], prompt=SYSTEM)
    if WORK == "conversation":
        ask(agent, USER)
        return

    def reader(part: str) -> str:
        """Reads a part."""
        return str(ask(agent, part))

    ask(create_react_agent(model(), [reader], prompt=CALLER), ALL)


main()
