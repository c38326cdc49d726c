/**
 * Fails to compile where the page reads a field that the server does not describe, or sends one that it does not take. The
 * types of `api.ts` come from the server's own description.
 */

import type { components } from "./api";
import type {
  Candidate,
  CandidateKind,
  CursorIn,
  DefinitionFile,
  DefinitionPlace,
  Explanation,
  FileEntry,
  Folder,
  MapOfRows,
  MapRow,
  Page,
  Program,
  Prompt,
  RowPage,
  RowState,
  Run,
  RunState,
  Session,
  StartRequest,
  TestCase,
  TestCompared,
  TestResults,
  TestRun,
  TestSummary,
  TextPosition,
  TextRange,
  Trigger,
  Worker,
} from "./engine";
import type { CallChange, CallState, Retry, RunChanges, Spent } from "./records";

type Schemas = components["schemas"];
/** Fields of the page that the server lacks. */
type Missing<Mine, Theirs> = Exclude<keyof Mine, keyof Theirs>;
type None<Fields extends never> = Fields;

export type Fits = [
  None<Missing<Session, Schemas["Session"]>>,
  None<Missing<Program, Schemas["Program"]>>,
  None<Missing<Worker, Schemas["Worker"]>>,
  None<Missing<Run, Schemas["Run"]>>,
  None<Missing<Page, Schemas["Runs"]>>,
  None<Missing<StartRequest, Schemas["StartRun"]>>,
  None<Missing<Folder, Schemas["Folder"]>>,
  None<Missing<FileEntry, Schemas["FolderEntry"]>>,
  None<Missing<DefinitionFile, Schemas["DefinitionFile"]>>,
  None<Missing<TestSummary, Schemas["TestSummary"]>>,
  None<Missing<TestResults, Schemas["TestView"]>>,
  None<Missing<TestCase, Schemas["TestCase"]>>,
  None<Missing<TestRun, Schemas["TestRun"]>>,
  None<Missing<TestCompared, Schemas["TestCompared"]>>,
  None<Missing<MapOfRows, Schemas["Map"]>>,
  None<Missing<MapRow, Schemas["Row"]>>,
  None<Missing<RowPage, Schemas["Rows"]>>,
  None<Missing<Prompt, Schemas["RenderedPrompt"]>>,
  None<Missing<CursorIn, Schemas["CursorIn"]>>,
  None<Missing<TextPosition, Schemas["TextPosition"]>>,
  None<Missing<TextRange, Schemas["TextRange"]>>,
  None<Missing<Candidate, Schemas["CompletionCandidate"]>>,
  None<Missing<Explanation, Schemas["Explanation"]>>,
  None<Missing<DefinitionPlace, Schemas["DefinitionPlace"]>>,
  None<Missing<RunChanges, Schemas["RunChanges"]>>,
  None<Missing<CallChange, Schemas["CallChange"]>>,
  None<Missing<Spent, Schemas["SpentChange"]>>,
  None<Missing<Retry, Schemas["RetryChange"]>>,
  None<Missing<Trigger, Schemas["Trigger"]>>,
  // States and kinds, in both directions.
  None<Exclude<CandidateKind, Schemas["CompletionKind"]>>,
  None<Exclude<Schemas["CompletionKind"], CandidateKind>>,
  None<Exclude<CallState, Schemas["CallStanding"]>>,
  None<Exclude<Schemas["CallStanding"], CallState>>,
  None<Exclude<RowState, Schemas["RowState"]>>,
  None<Exclude<Schemas["RowState"], RowState>>,
  None<Exclude<RunState, Schemas["State"]>>,
  None<Exclude<Schemas["State"], RunState>>,
];
