"""The official Python client of OpenAI's interfaces, with workers for models."""

import json
import sys
import threading

import openai
from pydantic import BaseModel

address, token, what = sys.argv[1:4]
client = openai.OpenAI(base_url=f"http://{address}/v1", api_key=token, max_retries=0)
heard = {}


class Sorted(BaseModel):
    urgent: bool


def chat():
    heard["models"] = [model.id for model in client.models.list().data]
    heard["model"] = client.models.retrieve("desk/reader").id
    said = client.chat.completions.create(model="desk/reader", messages=[{"role": "user", "content": "Read it."}])
    heard["text"] = said.choices[0].message.content
    heard["finish"] = said.choices[0].finish_reason
    heard["usage"] = said.usage.total_tokens
    pieces = []
    last = None
    for chunk in client.chat.completions.create(
        model="desk/reader",
        messages=[{"role": "user", "content": "Read it."}],
        stream=True,
        stream_options={"include_usage": True},
    ):
        if chunk.choices and chunk.choices[0].delta.content:
            pieces.append(chunk.choices[0].delta.content)
        last = chunk
    heard["streamed"] = "".join(pieces)
    heard["pieces"] = len(pieces)
    heard["streamed_usage"] = last.usage.total_tokens
    parsed = client.chat.completions.parse(
        model="desk/sorter", messages=[{"role": "user", "content": "Help!"}], response_format=Sorted
    )
    heard["parsed"] = parsed.choices[0].message.parsed.urgent
    asked = client.chat.completions.create(model="desk/writer", messages=[{"role": "user", "content": "Write."}])
    heard["asked"] = asked.choices[0].message.content


def responses():
    said = client.responses.create(model="desk/reader", input="Read it.")
    heard["text"] = said.output_text
    heard["kinds"] = [item.type for item in said.output]
    heard["call"] = next(item for item in said.output if item.type == "mcp_call").output
    heard["usage"] = said.usage.total_tokens
    again = client.responses.retrieve(said.id)
    heard["same"] = again.output == said.output
    parsed = client.responses.parse(model="desk/sorter", input="Help!", text_format=Sorted)
    heard["parsed"] = parsed.output_parsed.urgent
    with client.responses.stream(model="desk/reader", input="Read it.") as stream:
        numbers = [event.sequence_number for event in stream]
        heard["numbers"] = numbers == list(range(len(numbers)))
        heard["streamed"] = stream.get_final_response().output_text


def approve():
    asked = client.responses.create(model="desk/writer", input="Write.")
    request = next(item for item in asked.output if item.type == "mcp_approval_request")
    heard["name"] = request.name
    heard["arguments"] = json.loads(request.arguments)
    answer = {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": True}
    done = client.responses.create(model="desk/writer", previous_response_id=asked.id, input=[answer])
    heard["text"] = done.output_text
    heard["called"] = [(item.name, item.status) for item in done.output if item.type == "mcp_call"]
    try:
        client.responses.create(model="desk/writer", previous_response_id=asked.id, input=[answer])
    except openai.ConflictError as error:
        heard["late"] = error.code
    asked = client.responses.create(model="desk/writer", input="Write.")
    request = next(item for item in asked.output if item.type == "mcp_approval_request")
    refuse = {
        "type": "mcp_approval_response",
        "approval_request_id": request.id,
        "approve": False,
        "reason": "not today",
    }
    heard["refused"] = client.responses.create(model="desk/writer", input=[refuse]).output_text


def two():
    def requests(response):
        return [item.id for item in response.output if item.type == "mcp_approval_request"]

    asked = client.responses.create(model="desk/two", input="Write.")
    heard["asked"] = len(requests(asked))
    outcomes = []

    def answer():
        answers = [
            {"type": "mcp_approval_response", "approval_request_id": request, "approve": True}
            for request in requests(asked)
        ]
        try:
            outcomes.append(client.responses.create(model="desk/two", input=answers))
        except openai.ConflictError as error:
            outcomes.append(error.code)

    threads = [threading.Thread(target=answer) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    heard["conflicts"] = outcomes.count("already_decided")
    [second] = [outcome for outcome in outcomes if not isinstance(outcome, str)]
    [request] = requests(second)
    answers = [{"type": "mcp_approval_response", "approval_request_id": request, "approve": True}] * 2
    try:
        client.responses.create(model="desk/two", input=answers)
    except openai.BadRequestError as error:
        heard["twice"] = error.body["message"]
    heard["text"] = client.responses.create(model="desk/two", input=answers[:1]).output_text


def talk():
    first = client.responses.create(model="desk/talker", input="Hello.")
    second = client.responses.create(model="desk/talker", previous_response_id=first.id, input="More.")
    heard["texts"] = [first.output_text, second.output_text]
    heard["first_again"] = client.responses.retrieve(first.id).output_text
    heard["second_again"] = client.responses.retrieve(second.id).output_text
    try:
        client.responses.create(model="desk/talker", previous_response_id=first.id, input="Branch.")
    except openai.ConflictError as error:
        heard["branch"] = str(error)
    pieces = []
    for event in client.responses.create(
        model="desk/talker", previous_response_id=second.id, input="Again.", stream=True
    ):
        if event.type == "response.output_text.delta":
            pieces.append(event.delta)
        if event.type == "response.completed":
            heard["third"] = event.response.output_text
            third = event.response.id
    heard["streamed"] = "".join(pieces)
    heard["cancelled"] = client.responses.cancel(third).status


def files():
    pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{pixel}"}}
    note = {"type": "file", "file": {"filename": "note.txt", "file_data": "data:text/plain;base64,c2VjcmV0IG5vdGU="}}

    def look(content):
        try:
            said = client.chat.completions.create(model="desk/looker", messages=[{"role": "user", "content": content}])
            return said.choices[0].message.content
        except openai.APIStatusError as error:
            return f"{error.status_code}: {error.body['message']}"

    ask = {"type": "text", "text": "Look."}
    heard["seen"] = look([ask, image, note])
    heard["fake"] = look([ask, {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}])
    heard["remote"] = look([ask, {"type": "image_url", "image_url": {"url": "http://127.0.0.1:9/a.png"}}])
    large = "data:text/plain;base64," + "YWFh" * 20_000
    heard["large"] = look([ask, {"type": "file", "file": {"filename": "large.txt", "file_data": large}}])
    said = client.responses.create(
        model="desk/looker",
        input=[
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "Look."},
                    {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{pixel}"},
                    {"type": "input_file", "filename": "note.txt", "file_data": "c2VjcmV0IG5vdGU="},
                ],
            }
        ],
    )
    heard["responses"] = said.output_text


def background():
    begun = client.responses.create(model="desk/slow", input="Think.", background=True)
    heard["begun"] = begun.status
    heard["polled"] = client.responses.retrieve(begun.id).status
    heard["cancelled"] = client.responses.cancel(begun.id).status


globals()[what]()
print(json.dumps(heard))
