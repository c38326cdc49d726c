/**
 * Calls workers of llm-do from Node: `const p = await load("my-project")`.
 *
 * The guide is `docs/guides/typescript-client.md`. There are no runtime dependencies.
 */

export { Chat, type MessageOptions, type Reply } from "./chat.js";
export {
  Disconnected,
  Failed,
  InvalidInput,
  InvalidOutput,
  LimitReached,
  LlmDoError,
  NotLoaded,
  Refused,
  StubsOutOfDate,
  Suspended,
} from "./errors.js";
export { load, type LoadOptions, type Program, type Workers } from "./program.js";
export { type Answer, type Operator, Question } from "./question.js";
export type { DeepPartial } from "./partial.js";
export type { Event, Growth, Json, Result, Run, Usage } from "./result.js";
export { Events, Stream } from "./stream.js";
export {
  type ApprovalContext,
  CallError,
  type NamedTool,
  Retry,
  type Sandbox,
  tool,
  type ToolContext,
  type ToolOptions,
} from "./tools.js";
export { type Tool, type CallOptions, type MapOptions, Worker, type WorkerOptions } from "./worker.js";
