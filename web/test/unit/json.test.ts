import { expect, test } from "vitest";
import { asRecord, asRecorded } from "../../src/engine/records";
import { parseJson, writeJson } from "../../src/engine/json";
import { parsed, run } from "../../src/engine/shapes";
import { fieldOf, validate } from "../../src/schema/form";

test("integers keep all digits on the way in and out", () => {
  for (const text of [
    "9007199254740993",
    "-9223372036854775808",
    '{"a":[18446744073709551615,1],"9007199254740993":"9007199254740993","b":"\\\\\\"9007199254740993"}',
    '{"x":0.1234567890123456,"y":9007199254740991,"z":9007199254740993}',
    '{"__proto__":{"polluted":9007199254740993}}',
  ]) {
    expect(writeJson(parseJson(text))).toBe(text);
  }
  expect(parseJson("[9007199254740993, 5, 1e22]")).toEqual([9007199254740993n, 5, 1e22]);
  expect(writeJson({ n: 9007199254740993n }, 2)).toBe('{\n  "n": 9007199254740993\n}');
  expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
});

test("what is no JSON is refused, with long numbers too", () => {
  for (const bad of ["00000000000000000001", "9007199254740993 9007199254740993", '"9007199254740993', "-", "{9007199254740993:1}x"]) {
    expect(() => parseJson(bad), bad).toThrow(SyntaxError);
  }
});

test("values of a record keep their digits, and its counts are numbers", () => {
  const read = asRecord(
    parseJson('{"seq":0,"at_ms":1,"path":"0","step":"x","kind":"model_answered","input":{"id":9007199254740993},"usage":{"input_tokens":9007199254740993},"bytes":9007199254740993}'),
  ) as unknown as { input: { id: unknown }; usage: { input_tokens: unknown }; bytes: unknown };
  expect(read.input.id).toBe(9007199254740993n);
  expect([typeof read.usage.input_tokens, typeof read.bytes]).toEqual(["number", "number"]);
  const view = asRecorded(
    parseJson(
      '{"record":{"seq":0,"at_ms":1,"path":"0","step":"x","kind":"note"},"view":{"calls":{"0":{"state":"done","spent":{"input":9007199254740993}}},"costs":[{"worker":"w","model":"m","spent":{"input":9007199254740993}}]}}',
    ),
  )?.view;
  expect([typeof view?.calls?.["0"]?.spent?.input, typeof view?.costs?.[0]?.spent.input]).toEqual(["number", "number"]);
  const known = '"program":"p","worker":"w","chat":false,"client":"c","state":"done"';
  const shown = parsed(`{"run":"r",${known},"output":9007199254740993,"took_ms":9007199254740993}`, run);
  expect([shown.output, typeof shown.took_ms]).toEqual([9007199254740993n, "number"]);
});

test("a form takes integers of 64 bits", () => {
  const problems = (text: string, more: object = {}): string[] => [
    ...validate(fieldOf({ type: "integer", ...more }), parseJson(text) as never, true).values(),
  ];
  expect(problems("18446744073709551615")).toEqual([]);
  expect(problems("-9223372036854775808")).toEqual([]);
  expect(problems("18446744073709551616")).toEqual(["This number is too large."]);
  expect(problems("9007199254740993", { maximum: 10 })).toEqual(["At most 10."]);
  expect(problems("9007199254740993", { multipleOf: 2 })).toEqual(["A multiple of 2."]);
});
