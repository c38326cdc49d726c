// Framing: JSON frames on the socket to llm-do.

const fd = Number(process.argv[2]);
const nap = new Int32Array(new SharedArrayBuffer(4));

/** Sends one frame, and returns after the kernel has taken all of it. */
function send(message) {
  const body = Buffer.from(stringify(message));
  const frame = Buffer.allocUnsafe(4 + body.length);
  frame.writeUInt32BE(body.length);
  body.copy(frame, 4);
  for (let at = 0; at < frame.length; ) {
    try {
      at += write(fd, frame, at, frame.length - at);
    } catch (error) {
      if (error.code !== "EAGAIN") exit(0); // llm-do has ended, or a tool has closed the descriptor.
      Atomics.wait(nap, 0, 0, 1);
    }
  }
}

/** Calls `serve` with each frame that arrives. Ends the process when llm-do closes the socket. */
function receive(serve) {
  let pending = Buffer.alloc(0);
  const socket = new net.Socket({ fd, readable: true, writable: false });
  socket.on("data", (data) => {
    pending = pending.length ? Buffer.concat([pending, data]) : data;
    while (pending.length >= 4) {
      const end = 4 + pending.readUInt32BE(0);
      if (end > MAX_FRAME + 4) exit(1);
      if (pending.length < end) break;
      const text = pending.toString("utf8", 4, end);
      pending = pending.subarray(end);
      serve(parse(text));
    }
  });
  socket.on("end", () => exit(0));
  socket.on("error", () => exit(0));
}
