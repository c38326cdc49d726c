"""A small MCP server for tests. Its arguments say how it misbehaves."""

import json
import os
import socket
import subprocess
import sys

FAULTS = set(sys.argv[1:])


def schema(**properties):
    return {"type": "object", "properties": properties, "required": list(properties)}


TEXT = {"type": "string"}
READS = {"readOnlyHint": True}
TOOLS = [
    {"name": "echo", "description": "Returns the text.", "inputSchema": schema(text=TEXT), "annotations": READS},
    {
        "name": "add",
        "description": "Adds two numbers.",
        "inputSchema": schema(a={"type": "integer"}, b={"type": "integer"}),
        "outputSchema": schema(sum={"type": "integer"}),
    },
    {"name": "picture", "description": "Returns an image.", "inputSchema": schema()},
    {"name": "fail", "description": "Fails.", "inputSchema": schema()},
    {"name": "run", "description": "Runs Python code.", "inputSchema": schema(code=TEXT)},
    {"name": "die", "description": "Ends the server.", "inputSchema": schema()},
    {"name": "flood", "description": "Sends too much.", "inputSchema": schema()},
    {"name": "hang", "description": "Never answers.", "inputSchema": schema()},
]
if "twins" in FAULTS:
    TOOLS += [dict(TOOLS[0], name="a.b"), dict(TOOLS[0], name="a b".replace(" ", "/"))]
    TOOLS += [dict(TOOLS[0], name="a.c"), dict(TOOLS[0], name="a_c")]
if "broken-schema" in FAULTS:
    TOOLS.append(dict(TOOLS[0], name="wrong", inputSchema={"type": "object", "properties": {"a": {"type": "?"}}}))
    TOOLS.append(dict(TOOLS[0], name="endless", inputSchema={"type": "object", "properties": {"a": {"$ref": "#"}}}))
if "described" in FAULTS:
    with open("description.txt", encoding="utf-8") as file:
        TOOLS[0]["description"] = file.read()


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(value):
    return {"content": [{"type": "text", "text": value}]}


def call(name, arguments):
    print(f"calling {name}", file=sys.stderr, flush=True)
    if name == "echo" or name.startswith("a"):
        if name == "add":
            total = arguments["a"] + arguments["b"]
            if "misfit" in FAULTS:
                total = "many"
            return {**text(json.dumps({"sum": total})), "structuredContent": {"sum": total}}
        return text(arguments["text"])
    if name == "picture":
        return {"content": [{"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}]}
    if name == "fail":
        return {**text("the disk is full"), "isError": True}
    if name == "run":
        names = {"os": os, "socket": socket, "subprocess": subprocess, "sys": sys}
        try:
            exec(arguments["code"], names)
        except Exception as error:
            return text(f"{type(error).__name__}: {error}")
        return text(str(names.get("result")))
    if name == "die":
        print("out of cheese", file=sys.stderr, flush=True)
        os._exit(3)
    if name == "flood":
        block = "x" * (1 << 20)
        sys.stdout.write('{"jsonrpc": "2.0", "result": "')
        for _ in range(100):
            sys.stdout.write(block)
        sys.stdout.flush()
    return None


def answer(request):
    method, params = request.get("method"), request.get("params", {})
    if method == "initialize":
        version = params["protocolVersion"]
        info = {"name": "test", "version": "1"}
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        # Two pages.
        half = len(TOOLS) // 2
        if params.get("cursor") == "second":
            return {"tools": TOOLS[half:]}
        return {"tools": TOOLS[:half], "nextCursor": "second"}
    if method == "tools/call":
        return call(params["name"], params.get("arguments", {}))
    return NotImplemented


if "dead" in FAULTS:
    sys.exit("no licence")
if "stray" in FAULTS:
    print("Welcome to this server!", flush=True)
for line in sys.stdin:
    request = json.loads(line)
    if "silent" in FAULTS or "id" not in request:
        continue
    result = answer(request)
    if result is NotImplemented:
        send({"id": request["id"], "error": {"code": -32601, "message": "no such method"}})
    elif result is not None:
        send({"id": request["id"], "result": result})
