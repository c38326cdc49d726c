"""A model server that keeps the bodies of the requests, and answers them by a script: OpenAI's chat completions, Anthropic's
messages, Gemini's contents. Nothing but Python's standard library."""

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WIRES = ("openai", "anthropic", "gemini")


def wire_of(path):
    """The wire and the interface of a request's path."""
    if path.endswith("/chat/completions"):
        return "openai"
    if path.endswith("/messages"):
        return "anthropic"
    if "GenerateContent" in path or "generateContent" in path:
        return "gemini"
    raise ValueError(f"unknown path: {path}")


def answered(wire, body):
    """How many answers the conversation of a request has had."""
    role = "model" if wire == "gemini" else "assistant"
    return sum(message["role"] == role for message in body["contents" if wire == "gemini" else "messages"])


def tools(wire, body):
    """The names of the tools that a request offers, each with the name of its first parameter."""
    if wire == "openai":
        offered = [(tool["function"]["name"], tool["function"]["parameters"]) for tool in body.get("tools", [])]
    elif wire == "anthropic":
        offered = [(tool["name"], tool["input_schema"]) for tool in body.get("tools", [])]
    else:
        declared = [one for tool in body.get("tools", []) for one in tool.get("functionDeclarations", [])]
        offered = [(one["name"], one.get("parameters") or one.get("parametersJsonSchema")) for one in declared]
    return {name: next(iter(schema["properties"])) for name, schema in offered}


def events(lines, named):
    return "".join((f"event: {line['type']}\n" if named else "") + f"data: {json.dumps(line)}\n\n" for line in lines).encode()


def openai(body, number, answer, text):
    call = answer and {"id": f"call_{number}", "type": "function", "function": {"name": answer[0], "arguments": json.dumps(answer[1])}}
    message = {"role": "assistant", "content": None if call else text, **({"tool_calls": [call]} if call else {})}
    finish, usage = "tool_calls" if call else "stop", {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    head = {"id": f"chatcmpl-{number}", "created": 1, "model": body["model"]}
    if not body.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return "application/json", json.dumps({**head, "object": "chat.completion", "choices": [choice], "usage": usage}).encode()
    if call:
        message["tool_calls"] = [{"index": 0, **call}]
    chunk = {**head, "object": "chat.completion.chunk"}
    chunks = [
        {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
        {**chunk, "choices": [], "usage": usage},
    ]
    return "text/event-stream", events(chunks, False) + b"data: [DONE]\n\n"


def anthropic(body, number, answer, text):
    block = {"type": "tool_use", "id": f"toolu_{number}", "name": answer[0], "input": answer[1]} if answer else {"type": "text", "text": text}
    stop, usage = "tool_use" if answer else "end_turn", {"input_tokens": 1, "output_tokens": 1}
    head = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": body["model"], "usage": usage}
    if not body.get("stream"):
        whole = {**head, "content": [block], "stop_reason": stop, "stop_sequence": None}
        return "application/json", json.dumps(whole).encode()
    delta = {"type": "input_json_delta", "partial_json": json.dumps(answer[1])} if answer else {"type": "text_delta", "text": text}
    empty = {**block, "input": {}} if answer else {"type": "text", "text": ""}
    lines = [
        {"type": "message_start", "message": {**head, "content": [], "stop_reason": None, "stop_sequence": None}},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]
    return "text/event-stream", events(lines, True)


def gemini(body, _, answer, text):
    part = {"functionCall": {"name": answer[0], "args": answer[1]}} if answer else {"text": text}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    whole = {"candidates": [candidate], "usageMetadata": usage}
    return ("text/event-stream", events([whole], False)) if body.get("stream") else ("application/json", json.dumps(whole).encode())


ANSWERS = {"openai": openai, "anthropic": anthropic, "gemini": gemini}


@contextlib.contextmanager
def recorder(script):
    """A server on a port of its own. `script` gives the next call of a conversation, a tool with its arguments, or nothing at its
    end, from its tools and the number of its answers. Gives the address, and a list that gets each wire and body as it comes."""
    recorded, lock = [], threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            raw = self.rfile.read(int(self.headers["content-length"]))
            wire, body = wire_of(self.path), json.loads(raw)
            with lock:
                recorded.append((wire, raw))
                number = len(recorded)
            # Gemini says it in the path.
            body.setdefault("stream", "stream" in self.path)
            answer = script(tools(wire, body), answered(wire, body))
            kind, content = ANSWERS[wire](body, number, answer, "All of it is read.")
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", recorded
    finally:
        server.shutdown()
        server.server_close()
