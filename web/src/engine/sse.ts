/** Server-Sent Events out of a stream of bytes (WHATWG HTML, section 9.2). */

export interface ServerEvent {
  event: string;
  data: string;
}

/** Reads events as they become complete, as many at once as arrived together. */
export async function* serverEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent[]> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      rest += decoder.decode(value, { stream: !done });
      const { events, left } = take(rest);
      rest = left;
      if (events.length > 0) yield events;
      if (done) return;
    }
  } finally {
    // Ends the request also where the caller stops in the middle. The stream may have failed already.
    await reader.cancel().catch(() => undefined);
  }
}

/** The complete events at the beginning of a text, and the incomplete rest. */
export function take(text: string): { events: ServerEvent[]; left: string } {
  const events: ServerEvent[] = [];
  let event: string | undefined;
  let data: string[] | undefined;
  let begin = 0;
  let at = 0;
  for (;;) {
    let end = at;
    while (end < text.length && text.charCodeAt(end) !== 10 && text.charCodeAt(end) !== 13) end++;
    // The last character may be the first half of a line break.
    if (end === text.length || (text[end] === "\r" && end + 1 === text.length)) break;
    const line = text.slice(at, end);
    at = text[end] === "\r" && text[end + 1] === "\n" ? end + 2 : end + 1;
    if (line === "") {
      if (data !== undefined) events.push({ event: event ?? "message", data: data.join("\n") });
      [event, data, begin] = [undefined, undefined, at];
      continue;
    }
    const colon = line.indexOf(":");
    const field = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "event") event = value;
    else if (field === "data") (data ??= []).push(value);
  }
  return { events, left: text.slice(begin) };
}
