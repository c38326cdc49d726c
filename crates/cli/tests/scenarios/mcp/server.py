"""A small MCP server for tests. Its arguments say how it misbehaves."""

import json
import os
import socket
import subprocess
import sys
import time

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
if "timed" in FAULTS:
    NUMBER, ANY = {"type": "number"}, {"type": "object"}
    TOOLS += [
        {"name": "steps", "description": "Reports progress.", "inputSchema": schema(count=NUMBER, pause=NUMBER)},
        {"name": "late", "description": "Answers late.", "inputSchema": schema(pause=NUMBER)},
        {"name": "change", "description": "Changes the list of tools.", "inputSchema": schema()},
        {"name": "raw", "description": "Answers with this message.", "inputSchema": schema(message=ANY)},
        {"name": "line", "description": "Writes this line.", "inputSchema": schema(line=TEXT)},
        {"name": "babble", "description": "Writes what is no answer.", "inputSchema": schema()},
        {"name": "question", "description": "Asks the client.", "inputSchema": schema(method=TEXT)},
        {"name": "once", "description": "Hangs once.", "inputSchema": schema(), "annotations": READS},
        {"name": "effect", "description": "Has an effect, and hangs once.", "inputSchema": schema()},
    ]
if "twins" in FAULTS:
    TOOLS += [dict(TOOLS[0], name="a.b"), dict(TOOLS[0], name="a b".replace(" ", "/"))]
    TOOLS += [dict(TOOLS[0], name="a.c"), dict(TOOLS[0], name="a_c")]
if "broken-schema" in FAULTS:
    TOOLS.append(dict(TOOLS[0], name="wrong", inputSchema={"type": "object", "properties": {"a": {"type": "?"}}}))
    TOOLS.append(dict(TOOLS[0], name="endless", inputSchema={"type": "object", "properties": {"a": {"$ref": "#"}}}))
if "odd-list" in FAULTS:
    TOOLS += [{"name": "bare"}, None, {"inputSchema": schema()}, dict(TOOLS[0], name="marked", annotations="none")]
if "described" in FAULTS:
    with open("description.txt", encoding="utf-8") as file:
        TOOLS[0]["description"] = file.read()


# The requests of clients that listen to changes.
LISTENS = []

# What it offers beside tools, read anew for each request: `resources` and `prompts`, each a list of what is listed with
# what is returned.
SERVED = "served.json"


def served(kind):
    with open(SERVED, encoding="utf-8") as file:
        return json.load(file).get(kind, [])


def capabilities(**more):
    if os.path.exists(SERVED):
        with open(SERVED, encoding="utf-8") as file:
            more.update({kind: {} for kind in json.load(file)})
    return {"tools": {}, **more}


def page(kind, params, fields):
    """Lists one at a time."""
    at = int(params.get("cursor") or 0)
    every = served(kind)
    listed = [{field: one[field] for field in fields if field in one} for one in every[at : at + 1]]
    return {kind: listed, **({"nextCursor": str(at + 1)} if at + 1 < len(every) else {})}


def returned(kind, field, params):
    print(f"returning {params[field]}", file=sys.stderr, flush=True)
    for one in served(kind):
        if one[field] == params[field] and "error" not in one:
            if "large" in one:
                return {"contents": [{"uri": params[field], "text": "x" * one["large"]}]}
            if "messages" in one:
                filled = json.dumps(one["messages"]).replace("ARGUMENTS", " ".join(params.get("arguments", {}).values()))
                return {"messages": json.loads(filled)}
            return {"contents": one.get("contents", [])}
        if one[field] == params[field]:
            raise Refused(-32002, one["error"])
    raise Refused(-32002, f"no {params[field]}")


class Refused(Exception):
    """An error of the protocol as the answer to a request."""


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(value):
    return {"content": [{"type": "text", "text": value}]}


def hear(line):
    """Keeps what the client says where a test can read it."""
    with open("out/heard.jsonl", "a", encoding="utf-8") as file:
        file.write(line.rstrip("\n") + "\n")


def change():
    TOOLS[0]["description"] = "Returns the text, and now something else."
    del TOOLS[2]
    TOOLS.append(dict(TOOLS[0], name="extra"))
    meta = {"io.modelcontextprotocol/subscriptionId": LISTENS[0]} if LISTENS else None
    params = {"params": {"_meta": meta}} if meta else {}
    send({"method": "notifications/tools/list_changed", **params})


def call_timed(name, arguments, request):
    if name == "steps":
        token = request["params"]["_meta"]["progressToken"]
        for step in range(int(arguments["count"])):
            time.sleep(arguments["pause"])
            send({"method": "notifications/progress", "params": {"progressToken": token, "progress": step + 1}})
        return text("all steps")
    if name == "late":
        time.sleep(arguments["pause"])
        return text("late")
    if name == "change":
        change()
        return text("changed")
    if name == "raw":
        send({"id": request["id"], **arguments["message"]})
        return None
    if name == "line":
        sys.stdout.write(arguments["line"].replace("ID", json.dumps(request["id"])) + "\n")
        sys.stdout.flush()
        return None
    if name == "babble":
        sys.stdout.buffer.write(b'\xff\xfe\x00 no text\n[1, 2]\n"text"\nnull\n{}\n{"jsonrpc": "2.0"}\n[[[[[\n')
        sys.stdout.buffer.write(b"[" * 100_000 + b"]" * 100_000 + b"\n")
        sys.stdout.flush()
        for stray in (
            {"id": 99_999, "result": text("to a request that was not made")},
            {"id": "none", "error": {"code": 1, "message": "of nothing"}},
            {"id": None, "error": {"code": -32700, "message": "of nothing"}},
            {"method": "notifications/unknown", "params": {"a": 1}},
            {"method": "notifications/progress", "params": {"progressToken": 99_999, "progress": 1}},
            {"method": "notifications/cancelled", "params": {"requestId": 99_999}},
            {"method": "notifications/message", "params": {"level": "info", "data": "logged"}},
        ):
            send(stray)
        answer = text("after all")
        send({"id": request["id"], "result": answer})
        return answer
    if name == "question":
        params = {"messages": [], "maxTokens": 1} if "sampling" in arguments["method"] else {}
        send({"id": "q", "method": arguments["method"], "params": params})
        answer = json.loads(sys.stdin.readline())
        return text(json.dumps({"result": answer.get("result"), "code": answer.get("error", {}).get("code")}))
    if name in ("once", "effect"):
        first = not os.path.exists(f"out/{name}")
        with open(f"out/{name}", "a", encoding="utf-8") as file:
            file.write("x")
        return None if first else text("the second time")
    return NotImplemented


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
    if method == "server/discover" and "newest" in FAULTS:
        cached = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        return {"supportedVersions": ["2026-07-28"], "capabilities": capabilities(tools={"listChanged": True}), **cached}
    if method == "server/discover" and "knows-all" in FAULTS:
        return {}
    if method == "server/discover" and "discovers-older" in FAULTS:
        return {"supportedVersions": ["2025-06-18"], "capabilities": capabilities()}
    if method == "subscriptions/listen" and "newest" in FAULTS:
        LISTENS.append(request["id"])
        meta = {"io.modelcontextprotocol/subscriptionId": request["id"]}
        params = {"_meta": meta, "notifications": params["notifications"]}
        send({"method": "notifications/subscriptions/acknowledged", "params": params})
        return None
    if method == "initialize":
        version = params["protocolVersion"]
        info = {"name": "test", "version": "1"}
        return {"protocolVersion": version, "capabilities": capabilities(), "serverInfo": info}
    if method == "tools/list":
        # Two pages.
        half = len(TOOLS) // 2
        if "endless-list" in FAULTS:
            return {"tools": TOOLS[:1], "nextCursor": params.get("cursor", "") + "x"}
        if "same-page" in FAULTS:
            return {"tools": TOOLS, "nextCursor": "same"}
        if "no-list" in FAULTS:
            raise Refused(-32603, "the list is lost")
        if "huge-list" in FAULTS:
            return {"tools": [dict(TOOLS[0], description="x" * (100 << 20))]}
        if "deep-list" in FAULTS:
            deep = "[" * 10_000 + "]" * 10_000
            tool = '{"name": "deep", "inputSchema": {"type": "object", "default": ' + deep + "}}"
            sys.stdout.write(f'{{"jsonrpc": "2.0", "id": {request["id"]}, "result": {{"tools": [{tool}]}}}}\n')
            sys.stdout.flush()
            return None
        if params.get("cursor") == "second":
            return {"tools": TOOLS[half:]}
        return {"tools": TOOLS[:half], "nextCursor": "second"}
    if method == "resources/list":
        return page("resources", params, ["uri", "name", "size"])
    if method == "resources/read":
        return returned("resources", "uri", params)
    if method == "prompts/list":
        return page("prompts", params, ["name", "arguments"])
    if method == "prompts/get":
        return returned("prompts", "name", params)
    if method == "tools/call":
        name, arguments = params["name"], params.get("arguments", {})
        if "timed" in FAULTS and (result := call_timed(name, arguments, request)) is not NotImplemented:
            return result
        return call(name, arguments)
    return NotImplemented


if "dead" in FAULTS:
    sys.exit("no licence")
if "uncaught" in FAULTS:
    # As Node ends.
    sys.exit("throw error;\n^\n\nError: no module\n    at load\n\nNode.js v20")
if "noisy" in FAULTS:
    sys.stderr.write("x" * (100 << 20) + "\nthe last words\n")
    sys.stderr.flush()
if "flooding" in FAULTS:
    for _ in range(100):
        sys.stdout.write("x" * (1 << 20))
if "stray" in FAULTS:
    print("Welcome to this server!", flush=True)
if "hangs-later" in FAULTS and os.path.exists("out/hangs"):
    FAULTS.add("silent")
for line in sys.stdin:
    if "timed" in FAULTS:
        hear(line)
    request = json.loads(line)
    if "silent" in FAULTS or "id" not in request:
        continue
    try:
        result = answer(request)
    except Refused as error:
        code, message = error.args
        send({"id": request["id"], "error": {"code": code, "message": message}})
        continue
    if result is NotImplemented:
        send({"id": request["id"], "error": {"code": -32601, "message": "no such method"}})
    elif result is not None:
        if "restless" in FAULTS and request["method"] == "tools/list":
            send({"method": "notifications/tools/list_changed"})
        if "newest" in FAULTS:
            result = {"resultType": "complete", **result}
        send({"id": request["id"], "result": result})
if "timed" in FAULTS:
    hear('"closed"')
