"""Reads a run with the protocol's own Python types, which check each event."""

import json
import sys

import httpx
from ag_ui.core import Event, RunAgentInput, UserMessage
from pydantic import TypeAdapter

address, token, worker = sys.argv[1:4]
given = RunAgentInput(
    thread_id="thread",
    run_id="run",
    state={},
    messages=[UserMessage(id="1", content="Go.")],
    tools=[],
    context=[],
    forwarded_props={},
)
response = httpx.post(
    f"http://{address}/v1/ag-ui/desk/{worker}",
    headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    content=given.model_dump_json(by_alias=True),
    timeout=60,
)
response.raise_for_status()
adapter = TypeAdapter(Event)
events = [
    adapter.validate_json(line.removeprefix("data: "))
    for line in response.text.splitlines()
    if line.startswith("data: ")
]
last = events[-1]
print(
    json.dumps(
        {
            "type": response.headers["content-type"],
            "kinds": [event.type.value for event in events],
            "extra": sorted({name for event in events for name in event.model_extra or {}}),
            "outcome": last.outcome.type if last.outcome else None,
            "text": "".join(getattr(event, "delta", "") for event in events if event.type == "TEXT_MESSAGE_CONTENT"),
        }
    )
)
