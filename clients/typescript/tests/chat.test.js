// Conversations, and files that are attached.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Failed, InvalidInput, LlmDoError } from "llm-do";
import { Events } from "../dist/stream.js";
import { desk, until } from "./harness.js";

test("text that no delta brought is that of the record", async () => {
  let hear = (_) => {};
  const start = (hears) => {
    hear = (event, more) => hears({ event, path: "0", ...more });
    return { result: Promise.resolve("done"), cancel: () => {} };
  };
  const stream = new Events(start, String);
  const answered = (step, ...texts) => {
    const message = { parts: texts.map((text) => ({ part: "text", text })) };
    hear("record", { record: { path: "0", step, kind: "model_answered", message } });
  };
  hear("delta", { turn: 0, delta: "text", text: "Hel" });
  answered("model.0.0", "Hello", " you.");
  answered("summary.1.0", "They said hello.");
  hear("delta", { turn: 1, delta: "text", text: "Lost" });
  hear("discard", { turn: 1 });
  answered("model.1.1", " And you.");
  const pieces = [];
  for await (const piece of stream.text()) pieces.push(piece);
  assert.deepEqual(pieces, ["Hel", "lo you.", "Lost", " And you."]);
});

test("messages are answered one after the other, and the end has a result", async (t) => {
  const { open } = desk(t);
  const p = await open();
  const chat = p.talker.chat();
  await assert.rejects(chat.reply(), /has not begun/);
  const first = await chat.send("Hello");
  assert.equal(first.text, "I heard: Hello");
  assert.deepEqual(await chat.reply(), first);
  const second = await chat.send("How are you?");
  assert.deepEqual([second.text, second.number], ["I heard: How are you?", first.number + 1]);
  assert.equal((await p.run(chat.run)).state, "waiting");
  const result = await chat.end();
  assert.deepEqual([result.output, result.run], ["I heard: How are you?", chat.run]);
  await assert.rejects(chat.send("Still there?"), /the chat is over/);
  assert.equal((await p.run(chat.run)).state, "done");
});

test("closing ends a conversation that waits, and cancels one that is at work", async (t) => {
  const { open } = desk(t);
  const p = await open();
  const chat = p.talker.chat();
  await chat.send("Hello");
  await chat.close();
  assert.equal((await p.run(chat.run)).state, "done");
  const other = p.slow.chat();
  const waiting = assert.rejects(other.send("Think."), LlmDoError);
  await until(() => other.run);
  await other.close();
  await waiting;
  assert.equal((await p.run(other.run)).state, "cancelled");
});

test("a stream gives the pieces, and leaving it stops the answer", async (t) => {
  const { open } = desk(t);
  const chat = (await open()).talker.chat();
  const said = async (stream) => {
    let text = "";
    for await (const piece of stream.text()) text += piece;
    return text;
  };
  assert.equal(await said(chat.stream("Hello")), "I heard: Hello");
  const stream = chat.stream("More");
  assert.equal(await said(stream), "I heard: More");
  assert.equal((await stream.result()).text, "I heard: More");
  for await (const event of chat.stream("slowly, please")) {
    if (event.kind === "text") break;
  }
  const stopped = await chat.reply();
  assert.ok(stopped.cutOff && stopped.text.length < "one two three four five six".length, stopped.text);
  assert.equal((await chat.send("And now?")).text, "I heard: And now?");
});

test("approvals go to the operator, and without one they are denied", async (t) => {
  const { open, read } = desk(t);
  await (await open()).talker.chat().send("Please write it down");
  assert.throws(() => read("out/note.txt"));
  const asked = [];
  const p = await open({
    operator: (question) => {
      asked.push(question.function);
      return question.approve();
    },
  });
  await p.talker.chat().send("Please write it down");
  assert.deepEqual([asked, read("out/note.txt")], [["write_file"], "noted"]);
});

test("a turn that fails is an error, and the conversation continues", async (t) => {
  const { open } = desk(t);
  const chat = (await open()).talker.chat();
  await chat.send("Hello");
  await assert.rejects(chat.send("fail"), (error) => error instanceof Failed && /no such thing/.test(error.message));
  assert.equal((await chat.send("Again")).text, "I heard: Again");
  await chat.send("A mistake");
  assert.equal((await chat.undo()).text, "I heard: Again");
  await chat.chooseModel("script:other.yaml");
  assert.equal((await chat.send("Who is there?")).text, "another model");
  await assert.rejects(chat.act({ answer: "approve" }), LlmDoError);
  assert.equal((await chat.send("Still you?")).text, "another model");
});

test("files are attached by their paths", async (t) => {
  const { open, write, project } = desk(t);
  const path = write("letter.txt", "The bees are well.");
  const p = await open();
  assert.match(await p.looker.call("Look", { attachments: [path] }), /It says: Look/);
  await assert.rejects(p.looker.call("Look", { attachments: [`${path}/none.txt`] }), /none\.txt/);
  const chat = p.talker.chat();
  await chat.send("Look at this", { attachments: [path] });
  await chat.send("And at this", { attachments: [path] });
  await chat.attach(path);
  await chat.send("And this");
  const journal = readFileSync(join(project, ".llm-do/runs", chat.run, "journal.jsonl"), "utf8");
  assert.ok(journal.split("\n").filter((line) => line.includes("letter.txt")).length >= 3);
  await assert.rejects(chat.attach(`${path}.none.txt`), (error) => error instanceof InvalidInput && /none\.txt/.test(error.message));
  await assert.rejects(chat.attach(write("odd.bin", "\0".repeat(10))), Failed);
  await assert.rejects(chat.chooseModel("script:none.yaml"), Failed);
  assert.equal((await chat.send("Well?")).text, "I heard: Well?");
});

test("conversations are held side by side", async (t) => {
  const { open } = desk(t);
  const p = await open();
  const talk = async (number) => {
    const chat = p.talker.chat();
    const said = [];
    for (const turn of [0, 1, 2]) said.push((await chat.send(`${number}.${turn}`)).text);
    assert.equal((await chat.end()).output, said.at(-1));
    return said;
  };
  const talked = await Promise.all(Array.from({ length: 20 }, (_, number) => talk(number)));
  talked.forEach((said, number) => assert.deepEqual(said, [0, 1, 2].map((turn) => `I heard: ${number}.${turn}`)));
});
