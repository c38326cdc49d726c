// The process in which llm-do runs tools in TypeScript and JavaScript.
//
// llm-do starts this file as `node host.cjs 3`. The argument is the number of a stream socket, over which the two exchange
// frames: a length of four bytes and a JSON object. The file needs only Node's own modules, of version 22.18 or newer.
//
// One event loop runs everything. Frames are written at once and in order, so that nothing that a function logs is lost when
// it blocks the loop or ends the process.
"use strict";

const { AsyncLocalStorage } = require("node:async_hooks");
const fs = require("node:fs");
const { createRequire, registerHooks, stripTypeScriptTypes } = require("node:module");
const net = require("node:net");
const path = require("node:path");
const { fileURLToPath, pathToFileURL } = require("node:url");

// User code runs in this process and may replace anything. The functions that a call needs are bound before it does.
const write = fs.writeSync;
const exit = process.reallyExit.bind(process);
const stringify = JSON.stringify;
const parse = JSON.parse;

/** Largest frame to the host. A greater length means that the stream is broken. */
const MAX_FRAME = 64 << 20;
/** Largest result. No model reads more, and the journal would hold it. */
const MAX_RESULT = 16 << 20;
/** Most characters that one call may print. */
const MAX_LOG = 256 << 10;
const MAX_MESSAGE = 4000;
const MAX_DEPTH = 100;
const MAX_FRAMES = 20;

Error.stackTraceLimit = 50;
