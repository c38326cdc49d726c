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
