// Calls: what llm-do has begun, what they print, and what they ask.

const running = new AsyncLocalStorage();
const calls = new Map();
const waiting = new Map();
let callbacks = 0;

/** A call that llm-do has begun. */
class Call {
  constructor(id, module, ctx) {
    this.id = id;
    this.module = module;
    this.ctx = ctx ?? {};
    this.controller = new AbortController();
    this.printed = 0;
    this.line = "";
    this.ended = false;
  }

  /** Prints text. Only whole lines are sent, until the call ends. */
  print(text) {
    if (this.printed >= MAX_LOG) return;
    this.printed += text.length;
    this.line += text.slice(0, Math.max(0, MAX_LOG - this.printed + text.length));
    const end = this.line.lastIndexOf("\n") + 1;
    if (end === 0 && this.printed < MAX_LOG) return;
    this.log(this.line.slice(0, end || undefined));
    this.line = end ? this.line.slice(end) : "";
  }

  log(text) {
    if (text) send({ t: "log", ...(this.id === null ? {} : { id: this.id }), text });
  }

  /** Asks llm-do, and returns its answer. */
  ask(op, fields) {
    if (this.ended) return Promise.reject(new Error("a function can only use the context of its own call"));
    const cb = ++callbacks;
    return new Promise((resolve, reject) => {
      waiting.set(cb, { call: this, resolve, reject });
      send({ t: "callback", id: this.id, cb, op, ...fields });
    });
  }

  /** Ends the call with a message. Only the first end counts. */
  end(message) {
    if (this.ended) return;
    this.ended = true;
    this.log(this.line);
    this.line = "";
    for (const [cb, one] of waiting) if (one.call === this) waiting.delete(cb);
    calls.delete(this.id);
    send({ id: this.id, ...message });
  }
}

/** The call outside of all calls: what modules print while they are imported. */
const noCall = new Call(null, undefined, undefined);

/** The failure of a call that code has made. */
class CallError extends Error {
  constructor(kind, message) {
    super(message);
    this.name = "CallError";
    this.kind = kind;
  }
}

/** An error whose message is the whole of it, in a kind that llm-do knows. */
class Told extends Error {
  constructor(kind, message) {
    super(message);
    this.told = kind;
  }
}

/** An error that a tool's author writes for the model: its message alone is the result. */
class Retry extends Error {
  constructor(message) {
    super(message);
    this.name = "Retry";
  }
}
