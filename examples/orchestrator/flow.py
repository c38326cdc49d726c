"""A program in Python: loops, fan-out and retries are code, what needs judgement is a worker."""

from typing import Any, TypedDict

from llm_do import CallError, ToolContext


class Answer(TypedDict):
    answer: str
    views: list[str]
    attempts: int


def main(input: Any, ctx: ToolContext) -> Answer:
    """Plans, asks several experts at once, and has the answer written until a critic is content."""
    question = input if isinstance(input, str) else input["question"]
    plan = ctx.call("planner", question=question)

    # All at once. One that fails is left out, as long as another has an answer.
    calls = [("expert", {"question": question, "view": view}) for view in plan["views"]]
    opinions = ctx.call_all(calls, return_exceptions=True)
    known = {
        view: opinion["opinion"]
        for view, opinion in zip(plan["views"], opinions)
        if not isinstance(opinion, CallError)
    }
    if not known:
        raise RuntimeError("no expert has an answer")
    ctx.log(f"{len(known)} of {len(opinions)} experts have answered")

    remark = ""
    for attempt in range(1, 4):
        draft = ctx.call("writer", question=question, opinions=known, remark=remark)
        verdict = ctx.call("critic", question=question, answer=draft["answer"])
        if verdict["good"]:
            break
        remark = verdict["remark"]

    # An effect of its own, done once, also when the run is resumed.
    number = ctx.step("number the answer", lambda: len(draft["answer"].split()))
    ctx.log(f"an answer of {number} words at attempt {attempt}")
    return {"answer": draft["answer"], "views": list(known), "attempts": attempt}
