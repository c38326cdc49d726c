import { describe, expect, test } from "vitest";
import { Through, type Sent } from "../../src/engine/through";

function page(): { through: Through; sent: Sent[] } {
  const sent: Sent[] = [];
  return { through: new Through((message) => sent.push(message)), sent };
}
const piece = (id: number, text: string): Parameters<Through["take"]>[0] => ({ type: "piece", id, base64: btoa(text) });

describe("requests that an editor sends", () => {
  test("answers arrive in pieces and for the right request", async () => {
    const { through, sent } = page();
    const [one, two] = [through.fetch("/v1/a"), through.fetch("/v1/b", { method: "POST", body: "{}", headers: { "Content-Type": "application/json" } })];
    expect(sent).toEqual([
      { type: "request", id: 1, call: { method: "GET", path: "/v1/a", headers: {} } },
      { type: "request", id: 2, call: { method: "POST", path: "/v1/b", headers: { "content-type": "application/json" }, body: "{}" } },
    ]);
    through.take({ type: "response", id: 2, status: 204, headers: {} });
    through.take({ type: "end", id: 2 });
    through.take({ type: "response", id: 1, status: 200, headers: { "content-type": "text/plain" } });
    for (const text of ["he", "llo"]) through.take(piece(1, text));
    through.take({ type: "end", id: 1 });
    expect((await two).status).toBe(204);
    expect(await (await one).text()).toBe("hello");
  });
  test("a request that is left is ended in the editor, and late pieces do nothing", async () => {
    const { through, sent } = page();
    const left = new AbortController();
    const response = through.fetch("/v1/events", { signal: left.signal });
    through.take({ type: "response", id: 1, status: 200, headers: {} });
    through.take(piece(1, "data"));
    const text = (await response).text();
    left.abort();
    await expect(text).rejects.toThrow();
    expect(sent.at(-1)).toEqual({ type: "abort", id: 1 });
    through.take(piece(1, "more"));
    through.take({ type: "end", id: 1 });
  });
  test("a lost server is a failure of the network, before and in an answer", async () => {
    const { through } = page();
    const [before, within] = [through.fetch("/v1/a"), through.fetch("/v1/b")];
    through.take({ type: "failed", id: 1 });
    await expect(before).rejects.toBeInstanceOf(TypeError);
    through.take({ type: "response", id: 2, status: 200, headers: {} });
    const text = (await within).text();
    through.take({ type: "failed", id: 2 });
    await expect(text).rejects.toBeInstanceOf(TypeError);
  });
  test("a file can't be sent, which is said", async () => {
    const { through, sent } = page();
    await expect(through.fetch("/v1/uploads", { method: "POST", body: new Blob(["x"]) })).rejects.toThrow("can't be sent");
    expect(sent).toEqual([]);
  });
});
