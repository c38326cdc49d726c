/** Who or what decided about a call, in words. The places in it are texts of files and so hostile. */

import { writeJson } from "../engine/json";
import type { Decider, Json } from "../engine/records";

const field = (value: Json | undefined, name: string): Json | undefined =>
  typeof value === "object" && value !== null && !Array.isArray(value) && Object.hasOwn(value, name)
    ? value[name]
    : undefined;

const text = (value: Json | undefined): string => (typeof value === "string" ? value : "");

/** The words for a decider of a verdict, or for the rule of a question. */
export function decider(by: Decider): string {
  if (typeof by === "string") {
    if (by === "start") return "the operator started the run with this call";
    if (by === "delegation") return "the delegation is judged in its place";
    return by;
  }
  const [kind, value] = Object.entries(by)[0] ?? ["", null];
  const inner = field(value, "rule");
  const reason = typeof inner === "object" && inner !== null && !Array.isArray(inner) ? decider(inner) : text(inner);
  switch (kind) {
    case "rule":
      return `the rule at ${text(field(value, "origin"))}${field(value, "of_caller") === true ? " of a caller" : ""}`;
    case "policy": {
      const risk = text(field(value, "risk"));
      return `the approval block at ${text(field(value, "origin"))}${risk === "" ? "" : ` for the risk ${risk}`}`;
    }
    case "untrusted":
      return `untrusted words could steer the call${reason === "" ? "" : `; without them ${reason} would allow it`}`;
    case "outside_mounts":
      return `the effect is outside the program's own mounts${reason === "" ? "" : `; inside ${reason} would allow it`}`;
    case "executed_file":
      return `it changes a file that other programs execute${reason === "" ? "" : `; else ${reason} would allow it`}`;
    case "changed":
      return `something changed after the approval: ${text(field(value, "what"))}`;
    case "mount":
      return `the approval of the mount ${text(field(value, "at"))}`;
    case "function":
      return `the approval function ${text(field(value, "function"))}`;
    case "toolset":
      return `the toolset: ${text(field(value, "why"))}`;
    case "default":
      return `the default for the risk ${text(value)}`;
    case "mode":
      return `the approval mode ${text(value)}`;
    case "operator": {
      const edited = field(value, "edited") === true ? ", with edited arguments" : "";
      return `${text(field(value, "by"))} through ${text(field(value, "via"))}${edited}`;
    }
    default:
      return writeJson(by);
  }
}
