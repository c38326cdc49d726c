"""A client of the protocol's own Python library: `acp_client.py AGENT FOLDER` starts the agent in the folder of the scenario.

The library checks every message that the agent sends with its own models.
"""

import asyncio
import os
import sys

import acp
from acp.schema import (
    AgentMessageChunk,
    AllowedOutcome,
    DeniedOutcome,
    RequestPermissionResponse,
    ToolCallProgress,
    UserMessageChunk,
)


class Editor(acp.Client):
    """Answers each request for permission by what `decide` returns: the ID of an option, or None."""

    def __init__(self):
        self.updates = []
        self.asked = []
        self.decide = None

    async def request_permission(self, session_id, tool_call, options, **kwargs):
        self.asked.append(tool_call)
        option = await self.decide()
        if option is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=option))

    async def session_update(self, session_id, update, **kwargs):
        self.updates.append(update)

    def words(self):
        chunks = (update for update in self.updates if isinstance(update, AgentMessageChunk))
        return "".join(chunk.content.text for chunk in chunks)


def started(editor, agent, folder):
    return acp.spawn_agent_process(editor, agent, "acp", cwd=folder, env=dict(os.environ))


async def opened(connection):
    await connection.initialize(protocol_version=acp.PROTOCOL_VERSION)


async def main(agent, folder):
    file = os.path.join(folder, "a.txt")
    editor = Editor()
    async with started(editor, agent, folder) as (connection, process):
        await opened(connection)
        session = (await connection.new_session(cwd=folder, mcp_servers=[])).session_id

        # Cancelled while a helper's call waits for approval.
        async def cancel():
            await connection.cancel(session_id=session)

        editor.decide = cancel
        stopped = await connection.prompt(session_id=session, prompt=[acp.text_block("go")])
        assert stopped.stop_reason == "cancelled", stopped
        assert open(file).read() == "old\n"

        # Killed while the same call waits again.
        waits = asyncio.Event()

        async def wait():
            waits.set()
            await asyncio.Event().wait()

        editor.decide = wait
        turn = asyncio.create_task(connection.prompt(session_id=session, prompt=[acp.text_block("go")]))
        await asyncio.wait_for(waits.wait(), 20)
        process.kill()
        await process.wait()
        turn.cancel()

    editor = Editor()
    async with started(editor, agent, folder) as (connection, process):
        await opened(connection)
        await connection.load_session(session_id=session, cwd=folder, mcp_servers=[])
        said = [update.content.text for update in editor.updates if isinstance(update, UserMessageChunk)]
        assert said == ["go", "go"], said

        async def allow():
            return "allow"

        editor.decide = allow
        done = await connection.prompt(session_id=session, prompt=[acp.text_block("and?")])
        assert done.stop_reason == "end_turn", done
        assert [call.title for call in editor.asked] == ["main → writer wants to call write_file (risk: write)"]
        assert open(file).read() == "new\n"
        ends = [update for update in editor.updates if isinstance(update, ToolCallProgress)]
        assert any(end.status == "completed" for end in ends), ends
    print("ok")


asyncio.run(main(sys.argv[1], sys.argv[2]))
