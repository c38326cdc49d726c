// Made by scripts/api-types.js from the server's /openapi.json.

export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description A run to start. */
        StartRun: {
            /**
             * @description The program. It may be left out where the server has only one.
             * @default null
             */
            program: string | null;
            /**
             * @description One of the program's exported workers. Default: its entry, or the first that it exports.
             * @default null
             */
            worker: string | null;
            /**
             * @description A plain message, in place of `input`.
             * @default null
             */
            message: string | null;
            /**
             * @description The whole input, which fits the worker's parameters.
             * @default null
             */
            input: unknown;
            /**
             * @description Whether the worker holds a conversation. Its first message is the input.
             * @default false
             */
            chat: boolean;
            /**
             * @description What a call that needs an approval does: it can only be stricter than on the server's command line.
             * @default null
             */
            approval: unknown | null;
            /**
             * @description Rules of calls that must be asked about.
             * @default []
             */
            ask: string[];
            /**
             * @description Rules of calls that are refused.
             * @default []
             */
            deny: string[];
            /**
             * @description Limits of the run beside the server's, as `--budget` takes them: `0.50usd`, `200000tokens`, `10m`.
             * @default []
             */
            budget: string[];
            /**
             * @description Files for the worker's model: paths in the worker's view, or `upload:ID`.
             * @default []
             */
            attachments: string[];
        };
        /** @description A position in a definition file, whose text may be unsaved. */
        CursorIn: {
            /** @description The path of the file from the program's folder. */
            path: string;
            /** @description The position in it. */
            position: components["schemas"]["TextPosition"];
            /**
             * @description Texts in the place of definition files, by path.
             * @default {}
             */
            files: {
                [key: string]: string;
            };
        };
        /** @description A position in a text, as in the Language Server Protocol. */
        TextPosition: {
            /**
             * Format: uint32
             * @description The line, from 0.
             */
            line: number;
            /**
             * Format: uint32
             * @description The column, from 0, in code units of UTF-16.
             */
            character: number;
        };
        /** @description What a token allows. */
        Session: {
            /** @description The token's name. */
            name: string;
            /** @description What it may do. */
            scopes: unknown[];
            read: unknown;
            /** @description The programs that it may use. Absent: all. */
            programs?: string[] | null;
            /** @description The models that an answer to a chat may choose. */
            models: unknown[];
            /** @description Version of llm-do. */
            version: string;
        };
        /** @description A program of the service. */
        Program: {
            /** @description Its name. */
            program: string;
            /** @description What it does: the description of its manifest, else of its default worker. */
            description?: string | null;
            /** @description Whether the token may change its definitions. */
            edit: boolean;
            /** @description What `check` finds. Absent if it can't be checked. */
            findings?: unknown | null;
        };
        /** @description A worker that clients may start. */
        Worker: {
            /** @description The program's name. */
            program: string;
            /** @description The worker's ID. */
            worker: string;
            /** @description Whether it is the one that runs start with if they name none. */
            default: boolean;
            /** @description What it does. */
            description?: string | null;
            /** @description JSON Schema of its input. */
            input: unknown;
            /** @description JSON Schema of its output; absent for text. */
            output?: unknown;
            /** @description Whether it holds a conversation by itself (`mode: chat`). */
            chat: boolean;
            /** @description The model that answers, if one is named or found. */
            model?: unknown | null;
            /** @description Whether its runs can change anything outside of their conversations. */
            changes: boolean;
            /** @description Whether its runs can reach the network beside their models. */
            network: boolean;
        };
        /** @description A run. */
        Run: {
            /** @description Its ID. */
            run: string;
            /** @description The program's name. */
            program: string;
            /** @description The worker that it started with. */
            worker: string;
            /** @description Whether it is a chat. */
            chat: boolean;
            /** @description The name of the token that started it. */
            client: string;
            /** @description Whether it was started outside of the server, in a terminal for example: it can be looked at only. */
            outside?: boolean;
            /** @description Its state. */
            state: components["schemas"]["State"];
            /** @description Why it is in this state, if it can't be continued or was cut off. */
            reason?: string | null;
            /** @description The beginning of the message or input that it was started with, at most 120 characters. */
            title?: string | null;
            /**
             * Format: uint64
             * @description When it began, in milliseconds since 1970.
             */
            started_ms: number;
            /**
             * Format: uint64
             * @description From its first to its last record, in milliseconds, once it is over.
             */
            took_ms?: number | null;
            /** @description Its output, if it is done. */
            output?: unknown;
            /** @description Why it has no output, once it is over. */
            failure?: unknown | null;
            /** @description Its tokens and their cost, once it is over. In lists also so far, while it is at work. */
            usage?: unknown | null;
            /** @description The questions that it waits for. */
            questions?: unknown[];
        };
        /**
         * @description The state of a run.
         *
         *     `queued`: It waits for a place among the runs at once.
         *     `running`: It is at work.
         *     `waiting`: It waits for answers to its questions, or for the next message of its chat. Other calls of it may be at work.
         *     `done`: It has an output.
         *     `failed`: It failed.
         *     `limit`: A limit ended it.
         *     `refused`: Its first call was refused.
         *     `cancelled`: It was cancelled.
         *     `cut_off`: It was cut off: `reason` says why, unless the server ended. The next start of the server continues it.
         *     `changed`: It can't be continued, because its program has changed since it began.
         * @enum {string}
         */
        State: "queued" | "running" | "waiting" | "done" | "failed" | "limit" | "refused" | "cancelled" | "cut_off" | "changed";
        /** @description A list in pages. */
        Runs: {
            /** @description Newest first. */
            runs: components["schemas"]["Run"][];
            /** @description The value of `before` for the next page. Absent on the last page. */
            next?: string | null;
        };
        /** @description A folder of a run's files. */
        Folder: {
            /** @description Its path in the view of the run's worker. */
            path: string;
            /** @description What is in it, by name. */
            entries: components["schemas"]["FolderEntry"][];
            /** @description Whether there is more than could be looked at. */
            cut?: boolean;
        };
        /** @description A file or folder of a run. */
        FolderEntry: {
            /** @description Its name. */
            name: string;
            kind: unknown;
            /**
             * Format: uint64
             * @description The size of a file.
             */
            bytes?: number | null;
            /** @description Whether others may have written it. */
            untrusted?: boolean;
        };
        /** @description A definition file. */
        DefinitionFile: {
            /** @description Its path from the program's folder. */
            path: string;
            /** @description The SHA-256 hash of its bytes. */
            sha256: string;
            /**
             * Format: uint64
             * @description Its size.
             */
            bytes: number;
        };
        /** @description A text that may stand at a position. */
        CompletionCandidate: {
            /** @description The name of the candidate. */
            label: string;
            /** @description The text to insert. */
            insert: string;
            /** @description The part of the text that it replaces. */
            replace: components["schemas"]["TextRange"];
            /** @description The kind of the candidate. */
            kind: components["schemas"]["CompletionKind"];
            /** @description A description in Markdown. It may be empty. */
            about: string;
        };
        /** @description A part of a text. */
        TextRange: {
            /** @description The position of the first character. */
            start: components["schemas"]["TextPosition"];
            /** @description The position after the last character. */
            end: components["schemas"]["TextPosition"];
        };
        /**
         * @description The kind of a candidate.
         *
         *     `key`: A key.
         *     `choice`: A value of a fixed set.
         *     `worker`: A worker.
         *     `tool`: A tool, or a pattern of tools.
         *     `toolset`: A toolset.
         *     `library`: A library.
         *     `model`: A model or a provider.
         *     `variable`: A variable of a template.
         *     `function`: A filter, test or function of a template.
         *     `file`: A file.
         *     `type`: A type of a parameter.
         * @enum {string}
         */
        CompletionKind: "key" | "choice" | "worker" | "tool" | "toolset" | "library" | "model" | "variable" | "function" | "file" | "type";
        /** @description An explanation. */
        Explanation: {
            /** @description The explanation in Markdown. */
            markdown: string;
            /** @description The part of the text that it explains. */
            range: components["schemas"]["TextRange"];
        };
        /** @description A place that defines something. */
        DefinitionPlace: {
            /** @description The path of the file, from the program's folder; absolute in a library elsewhere. */
            path: string;
            /** @description The name that is defined, or the start of the file. */
            range: components["schemas"]["TextRange"];
        };
        /** @description A trigger. */
        Trigger: {
            /** @description The trigger's name. */
            name: string;
            /** @description `cron`, `webhook` or `folder`. */
            kind: string;
            /** @description The program's name. */
            program: string;
            /** @description The worker that its runs start with. */
            worker: string;
            /** @description The name of the client that its runs are of. */
            client: string;
            /** @description The treatment of an event while an earlier run is under way: `skip`, `queue` or `replace`. */
            concurrency: string;
            /**
             * Format: uint
             * @description The number of runs under way, those that wait included.
             */
            under_way: number;
            /**
             * Format: uint64
             * @description The next slot, in milliseconds since 1970.
             */
            next_ms?: number | null;
            /** @description The newest of its runs. */
            last?: unknown | null;
            /** @description Why the last event since the start of the server started no run. Absent if it did. */
            problem?: string | null;
        };
        /** @description A command `llm-do test`. */
        TestSummary: {
            /** @description Its ID. */
            test: string;
            /**
             * Format: uint64
             * @description When it began, in milliseconds since 1970.
             */
            began_ms: number;
            state: unknown;
            /** @description What ended it before all cases had run. */
            cut?: string | null;
            /**
             * Format: uint64
             * @description How many cases it has, each with each model.
             */
            cases: number;
            /**
             * Format: uint64
             * @description How many of them have passed.
             */
            passed: number;
            /**
             * Format: uint64
             * @description How many of them have failed.
             */
            failed: number;
            /**
             * Format: uint64
             * @description Cases that are worse than in the baseline; absent without a baseline.
             */
            worse?: number | null;
            /** @description The file of the baseline, as typed. */
            baseline?: string | null;
            /**
             * Format: double
             * @description What its models cost, in US dollars, once it has ended.
             */
            cost_usd?: number | null;
        };
        /** @description A command `llm-do test` with its cases. */
        TestView: {
            /** @description The command. */
            test: components["schemas"]["TestSummary"];
            /** @description Its cases, in the order in which they run. */
            cases: components["schemas"]["TestCase"][];
            /** @description Cases of the baseline that the command did not have. */
            gone?: components["schemas"]["TestCompared"][];
        };
        /** @description A case with its results so far. */
        TestCase: {
            /** @description The file of cases, relative to the program's root. */
            file: string;
            /** @description The worker. */
            worker: string;
            /** @description The case. */
            case: string;
            /** @description The model, if several were asked. */
            model?: string | null;
            /** @description Whether the answers came from recordings. */
            recorded: boolean;
            /** @description The folder of its recordings, relative to the program's root, if it has some. */
            recordings?: string | null;
            /**
             * Format: uint64
             * @description How many repeats passed.
             */
            passed: number;
            /**
             * Format: uint64
             * @description How many repeats have ended.
             */
            of: number;
            /**
             * Format: uint64
             * @description How many repeats there are to be.
             */
            repeats: number;
            /**
             * Format: double
             * @description The lower end of the interval of 95 % of the share that passes.
             */
            low: number;
            /**
             * Format: double
             * @description Its upper end.
             */
            high: number;
            /** @description The repeats that have ended. */
            runs: components["schemas"]["TestRun"][];
            /** @description The comparison with the baseline. */
            compared?: components["schemas"]["TestCompared"] | null;
        };
        /** @description A repeat of a case. */
        TestRun: {
            /** @description Whether everything held. */
            pass: boolean;
            /** @description What did not hold. */
            failures: string[];
            /** @description The output with each part that does not match replaced by what the case expects, if the output does not match. */
            expected?: unknown;
            /** @description The output that does not match. */
            output?: unknown;
            /** @description Where a request is not the recorded one. */
            place?: string | null;
            /** @description What differs there, each as a unified diff. */
            diffs: string[];
            usage: unknown;
            /**
             * Format: uint64
             * @description How long it took, if models were asked.
             */
            took_ms?: number | null;
        };
        /** @description How a case compares with the baseline. */
        TestCompared: {
            /** @description The file of cases. */
            file: string;
            /** @description The case. */
            case: string;
            change: unknown;
            /**
             * Format: uint64
             * @description How many repeats passed before.
             */
            passed_before?: number | null;
            /**
             * Format: uint64
             * @description How many repeats there were before.
             */
            of_before?: number | null;
            /**
             * Format: double
             * @description How likely chance alone would make so large a difference.
             */
            p?: number | null;
        };
        /** @description A map. */
        Map: {
            /** @description The ID of its last command. */
            map: string;
            /**
             * Format: uint64
             * @description When that began, in milliseconds since 1970.
             */
            began_ms: number;
            /** @description Whether it is at work. */
            running: boolean;
            /** @description The worker. */
            worker: string;
            /** @description The input, relative to the project if it is in it. */
            inputs: string;
            /** @description The output, relative to the project if it is in it. */
            outputs: string;
            /**
             * Format: uint64
             * @description Rows of the input.
             */
            rows: number;
            /**
             * Format: uint64
             * @description Rows with an output.
             */
            done: number;
            /**
             * Format: uint64
             * @description Rows that failed.
             */
            failed: number;
            /**
             * Format: uint64
             * @description Rows that run.
             */
            at_work: number;
            usage: unknown;
            /**
             * Format: uint64
             * @description How long the last command has worked, in milliseconds.
             */
            worked_ms: number;
            /** @description The provider that takes no requests for now. */
            waiting?: string | null;
        };
        /** @description Rows of a map. */
        Rows: {
            /** @description The rows, in the order of the input. */
            rows: components["schemas"]["Row"][];
            /**
             * Format: uint64
             * @description The value of `after` for the next page, if there are more rows.
             */
            next?: number | null;
        };
        /** @description A row. */
        Row: {
            /**
             * Format: uint64
             * @description Its number in the input, from 1.
             */
            row: number;
            /** @description Its run. */
            run: string;
            /** @description Its state. */
            state: components["schemas"]["RowState"];
            /** @description The kind of its failure. */
            kind?: string | null;
            /** @description The beginning of its output, or of the message of its failure. */
            text?: string | null;
            /** @description The beginning of its input, if it failed. */
            input?: string | null;
            usage: unknown;
        };
        /**
         * @description In which state a row is.
         *
         *     `done`: It has an output.
         *     `failed`: It has failed.
         *     `running`: It runs.
         *     `missing`: It has not ended, and does not run.
         * @enum {string}
         */
        RowState: "done" | "failed" | "running" | "missing";
        /** @description The first request of a worker. */
        RenderedPrompt: {
            /** @description The model. */
            model: string;
            /** @description The rendered instructions. */
            system: string;
            /** @description The first message. */
            message: string;
            /** @description The names of the tools that are offered. */
            tools: string[];
        };
        /**
         * @description The parts of a run's view that its newest record has changed, each as it is now. Whoever applies the changes of all
         *     records in order has the view, without knowing the records' meaning.
         */
        RunChanges: {
            /** @description The status with which the run ended, or `null` if it has been resumed; absent if that has not changed. */
            end?: unknown | null;
            /** @description Calls by their places. */
            calls?: {
                [key: string]: components["schemas"]["CallChange"];
            };
            /** @description Parts of conversations. */
            items?: unknown[];
            /** @description Tokens and costs of workers. */
            costs?: unknown[];
        };
        /** @description The state of a call. */
        CallChange: {
            /** @description The state of the call. */
            state: components["schemas"]["CallStanding"];
            /**
             * Format: uint64
             * @description When it began, in milliseconds since 1970.
             */
            started_ms: number;
            /**
             * Format: uint64
             * @description When it ended, or the run did.
             */
            ended_ms?: number | null;
            /**
             * Format: uint
             * @description Open questions of the call and those below it.
             */
            waiting?: number;
            /**
             * Format: uint64
             * @description When the newest request to its model was sent.
             */
            requested_ms?: number | null;
            /**
             * Format: uint32
             * @description Further attempts at requests.
             */
            retries?: number;
            /** @description The attempt that the call waits for, after a request has failed. */
            retry?: components["schemas"]["RetryChange"] | null;
            /** @description Tokens and costs of the call and all below it. */
            spent?: components["schemas"]["SpentChange"] | null;
        };
        /**
         * @description The state of a call for people.
         *
         *     `running`: The call works, or waits for its calls.
         *     `waiting`: The call waits for an answer to its own question.
         *     `done`: The call has an output.
         *     `failed`: The call failed, or ran out of time.
         *     `refused`: The call was refused.
         *     `suspended`: The call waits for an answer, and so does the run.
         *     `cancelled`: The run ended during it.
         * @enum {string}
         */
        CallStanding: "running" | "waiting" | "done" | "failed" | "refused" | "suspended" | "cancelled";
        /** @description The next attempt at a request that has failed. */
        RetryChange: {
            /**
             * Format: uint32
             * @description The number of the attempt, from 1.
             */
            attempt: number;
            /**
             * Format: uint32
             * @description The greatest number of further attempts.
             */
            of: number;
            /**
             * Format: uint64
             * @description When it begins, in milliseconds since 1970, once that is known.
             */
            at_ms?: number | null;
            /** @description Why the last attempt failed. */
            why: string;
        };
        /** @description Tokens and costs. */
        SpentChange: {
            /**
             * Format: uint64
             * @description Answers of models.
             */
            requests: number;
            /**
             * Format: uint64
             * @description Tokens sent.
             */
            input: number;
            /**
             * Format: uint64
             * @description Tokens sent that were read from a cache.
             */
            cached: number;
            /**
             * Format: uint64
             * @description Tokens produced.
             */
            output: number;
            /**
             * Format: double
             * @description The costs that are known, in US dollars.
             */
            cost: number;
            /**
             * Format: uint64
             * @description Answers whose cost is not known.
             */
            unpriced: number;
            /**
             * Format: uint64
             * @description Answers whose tokens are not known.
             */
            uncounted: number;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
