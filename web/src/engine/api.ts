// Made by scripts/api-types.js from the server's /openapi.json.

export interface paths {
    "/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The web app */
        get: operations["app"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/assets/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A file of the web app */
        get: operations["appFile"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/health": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Whether the server works */
        get: operations["health"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/openapi.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** This description */
        get: operations["openapi"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Counts for Prometheus
         * @description The token needs the scope `read`.
         */
        get: operations["metrics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/session": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * What the token allows
         * @description Any token will do.
         */
        get: operations["getSession"];
        put?: never;
        /**
         * Begin a session of a page of the server
         * @description Any token will do.
         */
        post: operations["signIn"];
        /**
         * End the session of the cookie
         * @description Any token will do.
         */
        delete: operations["signOut"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/programs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The programs that the token may use
         * @description Any token will do.
         */
        get: operations["listPrograms"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/workers": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The workers that can be started, with the schemas of their inputs and outputs
         * @description Any token will do.
         */
        get: operations["listWorkers"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The runs that the token may see, newest first
         * @description The token needs the scope `read`.
         */
        get: operations["listRuns"];
        put?: never;
        /**
         * Start a run
         * @description The token needs the scope `start`.
         */
        post: operations["startRun"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{run}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * One run, with its output once it has one
         * @description The token needs the scope `read`.
         */
        get: operations["getRun"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{run}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The events of a run, as Server-Sent Events
         * @description The token needs the scope `read`.
         */
        get: operations["followRun"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{run}/answers": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Answer a question of a run
         * @description The token needs the scope `answer`.
         */
        post: operations["answer"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{run}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * End a run
         * @description The token needs the scope `start`.
         */
        post: operations["cancelRun"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/questions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The questions that wait, over all runs that the token may see
         * @description The token needs the scope `read`.
         */
        get: operations["listQuestions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Which runs change their states, and how many questions wait, as Server-Sent Events
         * @description The token needs the scope `read`.
         */
        get: operations["follow"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{run}/messages": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Say something in a chat
         * @description The token needs the scope `start`.
         */
        post: operations["sendMessage"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{run}/stop": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Stop the answer under way of a chat
         * @description The token needs the scope `start`.
         */
        post: operations["stopAnswer"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/costs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The costs of runs by worker, model, day and client, and the dearest runs
         * @description The token needs the scope `read`.
         */
        get: operations["sumCosts"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/uploads": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Upload a file for a run
         * @description The token needs the scope `start`.
         */
        post: operations["upload"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{run}/files": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * A folder in the view of a run's worker
         * @description The token needs the scope `read`.
         */
        get: operations["listFiles"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{run}/files/content": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * A file in the view of a run's worker
         * @description The token needs the scope `read`.
         */
        get: operations["getFile"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{run}/export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * A run as a page that needs no other file
         * @description The token needs the scope `read`.
         */
        get: operations["exportRun"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/programs/{program}/files": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The definition files of a program, for tokens with `edit` or `read`
         * @description Any token will do.
         */
        get: operations["listDefinitions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/programs/{program}/files/content": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The text of a definition file, for tokens with `edit` or `read`
         * @description Any token will do.
         */
        get: operations["getDefinition"];
        /**
         * Save a definition file. Later runs get the program as it is then
         * @description The token needs the scope `edit`.
         */
        put: operations["saveDefinition"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/programs/{program}/check": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * What `llm-do check` finds, also over texts that are not saved; for tokens with `edit` or `read`
         * @description Any token will do.
         */
        post: operations["checkProgram"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/models": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The workers, as models.
         * @description Requests and answers, errors included, have the format of OpenAI's Models. Any token will do.
         */
        get: operations["openai_models"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/models/{model}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * A worker, as a model.
         * @description Requests and answers, errors included, have the format of OpenAI's Models. Any token will do.
         */
        get: operations["openai_model"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/chat/completions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * An answer of a worker.
         * @description Requests and answers, errors included, have the format of OpenAI's Chat Completions. The token needs the scope `start`.
         */
        post: operations["openai_complete"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/responses": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * An answer of a worker, with its calls and questions.
         * @description Requests and answers, errors included, have the format of OpenAI's Responses. The token needs the scope `start`.
         */
        post: operations["openai_respond"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/responses/{response}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * An answer that was asked for before.
         * @description Requests and answers, errors included, have the format of OpenAI's Responses. The token needs the scope `read`.
         */
        get: operations["openai_response"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/responses/{response}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Ends an answer that is made in the background.
         * @description Requests and answers, errors included, have the format of OpenAI's Responses. The token needs the scope `start`.
         */
        post: operations["openai_cancel"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/ag-ui/{program}/{worker}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Runs a worker, as an agent.
         * @description Requests and answers, errors included, have the format of AG-UI. The token needs the scope `start`.
         */
        post: operations["ag_ui_run"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/mcp": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The messages of the server, as a stream.
         * @description Requests and answers, errors included, have the format of the Model Context Protocol. The token needs the scope `start`.
         */
        get: operations["mcp_listen"];
        put?: never;
        /**
         * A message of the client.
         * @description Requests and answers, errors included, have the format of the Model Context Protocol. The token needs the scope `start`.
         */
        post: operations["mcp_send"];
        /**
         * Ends a session.
         * @description Requests and answers, errors included, have the format of the Model Context Protocol. The token needs the scope `start`.
         */
        delete: operations["mcp_end"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/mcp/{program}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The messages of the server, as a stream.
         * @description Requests and answers, errors included, have the format of the Model Context Protocol. The token needs the scope `start`.
         */
        get: operations["mcp_program_listen"];
        put?: never;
        /**
         * A message of the client.
         * @description Requests and answers, errors included, have the format of the Model Context Protocol. The token needs the scope `start`.
         */
        post: operations["mcp_program_send"];
        /**
         * Ends a session.
         * @description Requests and answers, errors included, have the format of the Model Context Protocol. The token needs the scope `start`.
         */
        delete: operations["mcp_program_end"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
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
            approval: components["schemas"]["Mode"] | null;
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
        /**
         * @description The effect of `ask` (`docs/reference/approvals.md`).
         *
         *     `interactive`: The operator is asked.
         *     `approve_all`: The call runs.
         *     `auto_deny`: The call is refused.
         *     `defer`: The run is suspended until an operator decides.
         * @enum {string}
         */
        Mode: "interactive" | "approve_all" | "auto_deny" | "defer";
        /** @description An answer to a question. */
        GiveAnswer: {
            /** @description The call. */
            call: components["schemas"]["CallPath"];
            /** @description The step within the call. */
            step: string;
            /** @description The question's digest, as it was shown. */
            digest: string;
        } & (components["schemas"]["GiveAnswerApprove"] | components["schemas"]["GiveAnswerAllow"] | components["schemas"]["GiveAnswerDeny"] | components["schemas"]["GiveAnswerEdit"] | components["schemas"]["GiveAnswerAttach"] | components["schemas"]["GiveAnswerDetach"] | components["schemas"]["GiveAnswerGive"] | components["schemas"]["GiveAnswerDecline"] | components["schemas"]["GiveAnswerStop"] | components["schemas"]["GiveAnswerEnd"] | components["schemas"]["GiveAnswerKeep"] | components["schemas"]["GiveAnswerModel"] | components["schemas"]["GiveAnswerRule"] | components["schemas"]["GiveAnswerForget"] | components["schemas"]["GiveAnswerRun"] | components["schemas"]["GiveAnswerUndo"] | components["schemas"]["GiveAnswerCompact"] | components["schemas"]["GiveAnswerUndoCompaction"] | components["schemas"]["GiveAnswerAgain"] | components["schemas"]["GiveAnswerDone"] | components["schemas"]["GiveAnswerAbort"]);
        /**
         * @description A place in the call tree, for example `0/3.1/0.0`: the root call, its turn 3's call 1, that one's turn 0's call 0.
         *
         *     Keys come from the position in the tree and never from completion order, so that parallel calls can be resumed,
         *     replayed, or run on another machine (`docs/architecture.md`).
         */
        CallPath: string;
        /** @description A file that the operator gives with a message, with its content. */
        Attachment: {
            /** @description File name shown to the model. */
            name: string;
            /** @description Media type, for example `image/png` or `application/pdf`. */
            media_type: string;
            /** @description The bytes; Base64 (standard alphabet, padded) in JSON. */
            data: string;
            /** @description Where the file lies, if it is one of this machine: the place that names it, and the one that its links lead to. */
            places?: components["schemas"]["Place"][];
            /** @description Whether others wrote it whatever the program says, such as the text of a page. */
            foreign?: boolean;
        };
        /**
         * @description A real place as the host names it: an absolute, normalised path with `/` between its parts, or what a toolset serves
         *     (`Place::served`). The core never opens places; it only compares them.
         */
        Place: string;
        /** @description `provider:model`, for example `anthropic:claude-haiku-4-5`, `script:demo.yaml`, `local:smollm2-135m-instruct`. */
        ModelName: string;
        /**
         * @description The effect of a rule. Ordered by strictness.
         *
         *     `preApproved`: Run without asking.
         *     `ask`: Ask the operator.
         *     `blocked`: Refuse without asking.
         * @enum {string}
         */
        Rule: "preApproved" | "ask" | "blocked";
        /** @description The identity of a question: the call it belongs to, and the step within the call. */
        QuestionId: {
            /** @description The call. */
            call: components["schemas"]["CallPath"];
            /** @description The step within the call. */
            step: string;
        };
        /** @description A message to a chat. */
        SendMessage: {
            /** @description The user's words. */
            text: string;
            /**
             * @description Whether the answer under way gets them with its next request. Otherwise they wait for its end.
             * @default false
             */
            now: boolean;
        };
        /** @description A text to save. */
        SaveDefinition: {
            /** @description Its path from the program's folder. */
            path: string;
            /** @description Its text. */
            text: string;
            /** @description The hash of what it replaces; `null` for a file that is not there yet. */
            sha256?: string | null;
        };
        /** @description Texts to check that are not saved. */
        CheckTexts: {
            /**
             * @description Texts by path from the program's folder.
             * @default {}
             */
            files: {
                [key: string]: string;
            };
        };
        /** @description Why a request was not carried out. Nothing has changed. */
        Problem: {
            /**
             * Format: uint16
             * @description The HTTP status.
             */
            status: number;
            /** @description The kind of error, for programs. */
            code: components["schemas"]["Code"];
            /** @description What is wrong and what to do, for people. */
            detail: string;
            /** @description Who has answered a question before. */
            by?: string | null;
            /** @description The quota that the request exceeds. */
            quota?: string | null;
            /** @description What is wrong with the files of a program, as `llm-do check --output json` shows it. */
            diagnostics?: unknown;
        };
        /**
         * @description The kinds of errors.
         *
         *     `bad_request`: The body, a header or the query of the request is wrong.
         *     `unauthorized`: There is no token, or no such token.
         *     `forbidden`: The token, or the server, does not allow this.
         *     `not_found`: There is no such thing, or the token must not know of it.
         *     `method_not_allowed`: The request has another method than its path takes.
         *     `bad_input`: The input does not fit the worker's parameters.
         *     `already_decided`: The question has an answer.
         *     `question_changed`: The question is not the one that the answer's digest names.
         *     `question_expired`: The question has expired: it counts as denied.
         *     `conflict`: The run, or the server, is not in a state for this.
         *     `key_reused`: The idempotency key was used for another request.
         *     `too_large`: The body is too large.
         *     `too_slow`: The body did not arrive in time.
         *     `too_many_runs`: Too many runs wait to begin, or the client has too many runs.
         *     `too_many_streams`: The client, or all together, follow too many streams.
         *     `too_many_uploads`: Too many files are uploaded.
         *     `too_many_bodies`: Too many bodies of requests are on their way.
         *     `too_many_sessions`: Too many sessions of the Model Context Protocol are open.
         *     `too_much_memory`: The server uses too much memory to begin something new.
         *     `program`: The program can't be run as it is.
         *     `program_broken`: The program does not load since its definitions were changed.
         *     `file_changed`: The file is not as the request says.
         *     `storage`: The server can't write its files: the disk is full, for example.
         *     `internal`: The server failed.
         *     `shutting_down`: The server shuts down.
         * @enum {string}
         */
        Code: "bad_request" | "unauthorized" | "forbidden" | "not_found" | "method_not_allowed" | "bad_input" | "already_decided" | "question_changed" | "question_expired" | "conflict" | "key_reused" | "too_large" | "too_slow" | "too_many_runs" | "too_many_streams" | "too_many_uploads" | "too_many_bodies" | "too_many_sessions" | "too_much_memory" | "program" | "program_broken" | "file_changed" | "storage" | "internal" | "shutting_down";
        /** @description Whether the server works. */
        Health: {
            /** @description `ok`, or `ending` while the server shuts down. */
            status: string;
            /** @description Version of llm-do. */
            version: string;
        };
        /** @description What a token allows. */
        Session: {
            /** @description The token's name. */
            name: string;
            /** @description What it may do. */
            scopes: components["schemas"]["Scope"][];
            /** @description Which runs it may read. */
            read: components["schemas"]["Reads"];
            /** @description The programs that it may use. Absent: all. */
            programs?: string[] | null;
            /** @description The models that an answer to a chat may choose. */
            models: components["schemas"]["ModelName"][];
            /** @description Version of llm-do. */
            version: string;
        };
        /**
         * @description What a token allows.
         *
         *     `start`: Start runs, talk with its own chats, and cancel its own runs.
         *     `read`: Read runs: its own, or all of its programs with `read: all`.
         *     `answer`: Answer the questions of the runs that it may read.
         *     `edit`: Read and change the definitions of its programs. Definitions are authority: they say what runs may do.
         * @enum {string}
         */
        Scope: "start" | "read" | "answer" | "edit";
        /**
         * @description Which runs a token with the scope `read` reads.
         *
         *     `own`: Those that it has started.
         *     `all`: Those of every client.
         * @enum {string}
         */
        Reads: "own" | "all";
        /** @description A session of a page that has begun. */
        SignedIn: {
            /** @description The page's secret, for the header `Llm-Do-Session` of its requests. The cookie is useless without it. */
            secret: string;
            /**
             * Format: uint64
             * @description The session ends after so many seconds without a request.
             */
            idle_s: number;
        };
        /** @description The programs of the service. */
        Programs: {
            /** @description By name. */
            programs: components["schemas"]["Program"][];
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
            findings?: components["schemas"]["Findings"] | null;
        };
        /** @description How much is wrong with a program. */
        Findings: {
            /**
             * Format: uint
             * @description What keeps it from running.
             */
            errors: number;
            /**
             * Format: uint
             * @description What may be a mistake.
             */
            warnings: number;
        };
        /** @description The workers that clients may start. */
        Workers: {
            /** @description By program; the default first. */
            workers: components["schemas"]["Worker"][];
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
            model?: components["schemas"]["ModelName"] | null;
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
            failure?: components["schemas"]["Failure"] | null;
            /** @description Its tokens and their cost, once it is over. In lists also so far, while it is at work. */
            usage?: components["schemas"]["Usage"] | null;
            /** @description The questions that it waits for. */
            questions?: components["schemas"]["Question"][];
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
        /** @description A call that failed, as a value for its caller. */
        Failure: {
            /** @description What kind. */
            kind: components["schemas"]["FailureKind"];
            /** @description What happened and what to try, for a model and for people. */
            message: string;
            /** @description The partial answer: the last invalid output, or the text before a limit. */
            partial?: unknown;
        };
        /**
         * @description The kind of a failure, which decides the exit code of a run whose entry failed with it.
         *
         *     `definition`: No such function, or a definition that can't be used.
         *     `invalid_input`: The input breaks its schema.
         *     `authority`: The caller's authority doesn't reach that far.
         *     `blocked`: A rule blocks it.
         *     `denied`: The operator, or the mode in the operator's place, refused.
         *     `tool`: The tool's own error.
         *     `timeout`: It did not end in time.
         *     `limit`: A limit was reached.
         *     `model`: The model can't be reached, or can't be reached any more.
         *     `refusal`: The model declined.
         *     `stopped`: The user stopped the answer that it was part of.
         *     `invalid_output`: No valid output after all attempts.
         *     `postcondition`: No output that meets the worker's `ensures` after all attempts.
         * @enum {string}
         */
        FailureKind: "definition" | "invalid_input" | "authority" | "blocked" | "denied" | "tool" | "timeout" | "limit" | "model" | "refusal" | "stopped" | "invalid_output" | "postcondition";
        /** @description Tokens of one request, or of many summed. Unknown is not zero (`docs/reference/loop.md`). */
        Usage: {
            /**
             * Format: uint64
             * @description Tokens sent, cached ones included.
             */
            input_tokens?: number | null;
            /**
             * Format: uint64
             * @description Of these, read from the provider's cache.
             */
            cached_tokens?: number | null;
            /**
             * Format: uint64
             * @description Of these, written to the provider's cache.
             */
            cache_write_tokens?: number | null;
            /**
             * Format: uint64
             * @description Tokens produced, reasoning included.
             */
            output_tokens?: number | null;
            /**
             * Format: uint64
             * @description Uses of tools that the provider ran (`Part::ServerUse`), which it charges apart from tokens.
             */
            server_uses?: number | null;
            /**
             * Format: double
             * @description What they cost.
             */
            cost_usd?: number | null;
        };
        /** @description A question that waits for an answer. */
        Question: {
            /** @description What an answer must name, so that it is an answer to what its giver saw. */
            digest: string;
            /** @description The call. */
            call: components["schemas"]["CallPath"];
            /** @description The step within the call. */
            step: string;
        } & (components["schemas"]["QuestionApproval"] | components["schemas"]["QuestionInput"] | components["schemas"]["QuestionSettlement"]);
        /**
         * @description The risk of a call, which decides when no rule applies.
         *
         *     `read`: Reads and changes nothing.
         *     `write`: Changes files inside the sandbox.
         *     `network`: Talks to other machines.
         *     `exec`: Runs a process or foreign code.
         *     `destructive`: Removes data irrecoverably.
         *     `delegate`: Calls a worker.
         * @enum {string}
         */
        Risk: "read" | "write" | "network" | "exec" | "destructive" | "delegate";
        /** @description The preview for the operator in addition to the arguments. */
        Preview: components["schemas"]["PreviewChange"];
        /** @description The origin of a decision about a call. It is data; `Display` makes the sentence for people. */
        DecidedBy: components["schemas"]["DecidedByRule"] | components["schemas"]["DecidedByPolicy"] | components["schemas"]["DecidedByOutsideMounts"] | components["schemas"]["DecidedByExecutedFile"] | components["schemas"]["DecidedByChanged"] | components["schemas"]["DecidedByUntrusted"] | components["schemas"]["DecidedByMount"] | components["schemas"]["DecidedByFunction"] | components["schemas"]["DecidedByToolset"] | components["schemas"]["DecidedByDefault"] | components["schemas"]["DecidedByMode"] | components["schemas"]["DecidedByOperator"] | ("start" | "delegation");
        /** @description How words that others wrote could steer a call. */
        Steering: {
            /** @description Where such words came from: contents that the caller, or a caller of its own, has read. Oldest first. */
            read: components["schemas"]["Untrusted"][];
            /**
             * Format: uint
             * @description Further such contents.
             */
            more?: number;
            /** @description The arguments that hold such words. */
            held?: components["schemas"]["Held"][];
        };
        /** @description A content that is not trusted. */
        Untrusted: {
            /** @description The call that brought it. */
            call: components["schemas"]["CallPath"];
            /** @description Its function. */
            function: string;
            /** @description `typed` or `untrusted`. */
            origin: components["schemas"]["Origin"];
            /** @description A piece of it. */
            excerpt: string;
        };
        /**
         * @description The origin of a value. Ordered by suspicion: the origin of what is made of several values is the greatest of theirs.
         *
         *     `trusted`: The operator wrote it, or the program's own text, files and tools.
         *     `typed`: An untrusted value that came through a type without room for instructions, such as a number or an enumeration.
         *     `untrusted`: Somebody else wrote it: a page, a mail, a server.
         * @enum {string}
         */
        Origin: "trusted" | "typed" | "untrusted";
        /** @description An argument with words of such a content. */
        Held: {
            /** @description JSON pointer to the argument. */
            argument: string;
            /** @description The call that brought the words. */
            call: components["schemas"]["CallPath"];
            /** @description Its function. */
            function: string;
            /** @description The words, with some around them. */
            excerpt: string;
        };
        /** @description A call that needs the operator's approval. */
        Approval: {
            /** @description The workers from the root down to the caller. */
            chain: string[];
            /** @description The function's name. */
            function: string;
            /** @description Its risk. */
            risk: components["schemas"]["Risk"];
            /** @description The arguments. */
            input: unknown;
            /** @description The effect of the arguments, if the tool can preview it. */
            preview?: components["schemas"]["Preview"] | null;
            /** @description The rule that asks. */
            rule: components["schemas"]["DecidedBy"];
            /** @description The words of others that could steer the call, if there are any. */
            steering?: components["schemas"]["Steering"] | null;
            /** @description The rules that `Answer::Allow` may make, the narrowest first, as the command line takes them. Each lets this call run. */
            rules?: string[];
            /**
             * Format: uint64
             * @description When the question expires, in milliseconds since 1970: from then on the call is denied.
             */
            expires_ms?: number | null;
        };
        /** @description The place in a conversation at which it waits for the user's next message. */
        Turn: {
            /**
             * Format: uint32
             * @description The number of the message, which no other message of this conversation gets: an undone one keeps its number.
             */
            number: number;
            /** @description Whether the last answer was cut off: by the user, or at `max_tokens`. */
            cut_off?: boolean;
            /** @description Why there is no answer to the last message, or no compaction, if it failed. */
            failure?: components["schemas"]["Failure"] | null;
            /** @description How much of the model's context the next request takes. Journals of earlier versions have no such count. */
            context?: components["schemas"]["ContextUse"] | null;
        };
        /** @description How much of a model's context a conversation takes. */
        ContextUse: {
            /**
             * Format: uint64
             * @description Tokens of the next request: the provider's count of the last one, and an estimate of what came since.
             */
            tokens: number;
            /**
             * Format: uint64
             * @description The most that it may have (`max_context_tokens`), if that is known.
             */
            limit?: number | null;
        };
        /** @description Text or a form that a call wants from the user. */
        Input: {
            /** @description The workers from the root down to the one that asks. */
            chain: string[];
            /** @description The question to the user. */
            prompt: string;
            /** @description JSON Schema of the answer; absent for free text. */
            schema?: unknown;
            /** @description The changes to files that one of the answers makes. */
            changes?: components["schemas"]["Preview"][];
            /** @description Set if a conversation waits for the user's next message. `prompt` is what the worker has said last. */
            conversation?: components["schemas"]["Turn"] | null;
            /**
             * Format: uint64
             * @description When the question expires, in milliseconds since 1970: from then on the input is declined.
             */
            expires_ms?: number | null;
        };
        /** @description A tool that had started and not ended when the run was interrupted. */
        Settlement: {
            /** @description The workers from the root down to the caller. */
            chain: string[];
            /** @description The function's name. */
            function: string;
            /** @description Its risk. */
            risk: components["schemas"]["Risk"];
            /** @description The arguments. */
            input: unknown;
        };
        /** @description A list in pages. */
        Runs: {
            /** @description Newest first. */
            runs: components["schemas"]["Run"][];
            /** @description The value of `before` for the next page. Absent on the last page. */
            next?: string | null;
        };
        /** @description The questions that wait. */
        Questions: {
            /** @description By run. */
            questions: components["schemas"]["QuestionOfRun"][];
        };
        /** @description A question with the run that asks it. */
        QuestionOfRun: {
            /** @description The run's ID. */
            run: string;
            /** @description The program's name. */
            program: string;
            /** @description The name of the token that started the run. The calls of the run are made with its authority, whoever approves them. */
            client: string;
            /** @description What an answer must name, so that it is an answer to what its giver saw. */
            digest: string;
            /** @description The call. */
            call: components["schemas"]["CallPath"];
            /** @description The step within the call. */
            step: string;
        } & (components["schemas"]["QuestionOfRunApproval"] | components["schemas"]["QuestionOfRunInput"] | components["schemas"]["QuestionOfRunSettlement"]);
        /** @description What became of a message. */
        MessageSent: {
            /** @description Whether the conversation has it. If not, the conversation gets it as soon as its answer is complete. */
            delivered: boolean;
        };
        /** @description The costs of runs, each by what the name of its field says. */
        CostsOfRuns: {
            /** @description The sum. */
            total: components["schemas"]["CostLine"];
            /** @description By the worker that sent the requests, as `PROGRAM/WORKER`, dearest first. */
            workers: components["schemas"]["CostLine"][];
            /** @description By model, dearest first. */
            models: components["schemas"]["CostLine"][];
            /** @description By the day on which the run began, in UTC, `YYYY-MM-DD`, newest first. */
            days: components["schemas"]["CostLine"][];
            /** @description By the client that started the run, dearest first. */
            clients: components["schemas"]["CostLine"][];
            /** @description The dearest runs, with what they have used so far. */
            dearest: components["schemas"]["Run"][];
            /** @description Whether more runs are to be read: the next request has them too. */
            more: boolean;
        };
        /** @description Requests and their costs. */
        CostLine: {
            /** @description What the line is about. */
            name: string;
            /**
             * Format: uint64
             * @description How many runs have a part in it.
             */
            runs: number;
            /**
             * Format: uint64
             * @description How many requests to models were answered.
             */
            requests: number;
            /**
             * Format: uint64
             * @description How many of these have an unknown cost, which the sum lacks.
             */
            unpriced: number;
            /** @description Tokens, and the known costs. */
            usage: components["schemas"]["Usage"];
        };
        /** @description A file that was uploaded. */
        Uploaded: {
            /** @description Its ID. Inputs name it `upload:ID`. */
            upload: string;
            /** @description Its name. */
            name: string;
            /**
             * Format: uint64
             * @description Its size.
             */
            bytes: number;
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
            /** @description What it is. */
            kind: components["schemas"]["FileKind"];
            /**
             * Format: uint64
             * @description The size of a file.
             */
            bytes?: number | null;
            /** @description Whether others may have written it. */
            untrusted?: boolean;
        };
        /**
         * @description What an entry of a folder is.
         *
         *     `file`: A file.
         *     `folder`: A folder.
         * @enum {string}
         */
        FileKind: "file" | "folder";
        /** @description The definition files of a program. */
        DefinitionFiles: {
            /** @description By path. */
            files: components["schemas"]["DefinitionFile"][];
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
        /** @description The text of a definition file. */
        DefinitionText: {
            /** @description Its path from the program's folder. */
            path: string;
            /** @description Its text. */
            text: string;
            /** @description The SHA-256 hash of its bytes. */
            sha256: string;
        };
        /** @description What became of a text that was saved. */
        Saved: {
            /** @description The hash of the file now. */
            sha256: string;
            /** @description What `llm-do check --output json` finds in the program now. */
            diagnostics: unknown[];
        };
        /** @description What is wrong with a program. */
        Diagnostics: {
            /** @description As `llm-do check --output json` shows it. */
            diagnostics: unknown[];
        };
        /** @description One event. */
        Event: components["schemas"]["EventRecord"] | components["schemas"]["EventDelta"] | components["schemas"]["EventDiscard"];
        /** @description One line of a journal. */
        Record: {
            /**
             * Format: uint64
             * @description Number in the run, from 0, without gaps.
             */
            seq: number;
            /**
             * Format: uint64
             * @description Milliseconds since 1970.
             */
            at_ms: number;
            /** @description The call it belongs to. */
            path: components["schemas"]["CallPath"];
            /** @description The step within the call; with `path` it is the record's key. Intent and outcome share it. */
            step: string;
        } & (components["schemas"]["RecordRunStarted"] | components["schemas"]["RecordRunResumed"] | components["schemas"]["RecordDefinition"] | components["schemas"]["RecordCallStarted"] | components["schemas"]["RecordLinksFollowed"] | components["schemas"]["RecordRechecked"] | components["schemas"]["RecordRuleStated"] | components["schemas"]["RecordVerdict"] | components["schemas"]["RecordAsked"] | components["schemas"]["RecordAnswered"] | components["schemas"]["RecordForeseen"] | components["schemas"]["RecordToolStarted"] | components["schemas"]["RecordToolAsked"] | components["schemas"]["RecordToolEnded"] | components["schemas"]["RecordCallEnded"] | components["schemas"]["RecordConversationStarted"] | components["schemas"]["RecordLeased"] | components["schemas"]["RecordAttached"] | components["schemas"]["RecordNotAttached"] | components["schemas"]["RecordModelChosen"] | components["schemas"]["RecordModelNotChosen"] | components["schemas"]["RecordMessageAdded"] | components["schemas"]["RecordReserved"] | components["schemas"]["RecordNotReserved"] | components["schemas"]["RecordModelRequested"] | components["schemas"]["RecordModelAnswered"] | components["schemas"]["RecordModelFailed"] | components["schemas"]["RecordSlept"] | components["schemas"]["RecordRandom"] | components["schemas"]["RecordTimedOut"] | components["schemas"]["RecordCancelled"] | components["schemas"]["RecordLimit"] | components["schemas"]["RecordNote"] | components["schemas"]["RecordRunEnded"] | components["schemas"]["RecordWorked"] | components["schemas"]["RecordCompacted"] | components["schemas"]["RecordUndone"] | components["schemas"]["RecordRestored"] | components["schemas"]["RecordToolsListed"] | components["schemas"]["RecordTextInserted"] | components["schemas"]["RecordQueued"]);
        /** @description A definition that a run used. */
        UsedDefinition: {
            /** @description Worker ID. */
            worker: string;
            /** @description File it came from. */
            file: string;
            /** @description SHA-256 of the text, hexadecimal. */
            sha256: string;
            /** @description The text. */
            text: string;
            /** @description SHA-256 of its code, hexadecimal: see `WorkerDefinition::code_sha256`. */
            code_sha256?: string | null;
        };
        /** @description A runtime for the code of tools. */
        Runtime: {
            /** @description `python`. */
            name: string;
            /** @description Its version. */
            version: string;
            /** @description The interpreter. */
            path: string;
            /** @description How the kernel confines it: `namespaces`, `landlock` or `unconfined`. */
            confinement: string;
        };
        /**
         * @description The person or program that started a run, and the channel. The calls of the run are made with this one's authority, whoever
         *     approves them.
         */
        Requester: {
            /** @description Who: `operator`, or a name that the host knows, for example that of a token. */
            by: string;
            /** @description The channel: `command line`, `library`, `http`, `stdio`, `mcp`, `acp`. */
            via: string;
        };
        /**
         * @description Where a function comes from. Source and name are the function's identity; the name that a model sees is only a
         *     label.
         */
        FunctionSource: components["schemas"]["FunctionSourceToolset"] | components["schemas"]["FunctionSourceLibrary"] | ("program" | "generated");
        /** @description On whose behalf a call is made. */
        Principal: components["schemas"]["PrincipalWorker"] | components["schemas"]["PrincipalTool"] | "operator";
        /** @description The origins of a value: the parts of it that are not trusted. Everything else is trusted. */
        Origins: components["schemas"]["Mark"][];
        /** @description One part of a value that is not trusted. */
        Mark: {
            /** @description JSON pointer (RFC 6901) to the part, in which `*` stands for each element of a list. Empty for the whole value. */
            at: string;
            /** @description The lines of the text there, from 1. Empty for all of it. */
            lines?: number[];
            /** @description Its origin: `typed` or `untrusted`. */
            origin: components["schemas"]["Origin"];
        };
        /** @description A question to the operator. */
        Question2: components["schemas"]["Question2Approval"] | components["schemas"]["Question2Input"] | components["schemas"]["Question2Settlement"];
        /** @description An answer, with the person or program that gave it and the channel. */
        Given: {
            /** @description Who gave it: `operator`, or a name that the host knows. */
            by: string;
            /** @description The channel: `terminal`, `command line`, `operator protocol`, `memory`. */
            via: string;
            /** @description Who started the run that asked. The driver adds this and the following fields when it records the answer. */
            requester?: components["schemas"]["Requester"] | null;
            /** @description The digest of the question as it was shown (`Waiting::digest`); absent if it was not shown. */
            digest?: string | null;
            /**
             * Format: uint64
             * @description When the question would have expired, in milliseconds since 1970.
             */
            expires_ms?: number | null;
        } & (components["schemas"]["GivenApprove"] | components["schemas"]["GivenAllow"] | components["schemas"]["GivenDeny"] | components["schemas"]["GivenEdit"] | components["schemas"]["GivenAttach"] | components["schemas"]["GivenDetach"] | components["schemas"]["GivenGive"] | components["schemas"]["GivenDecline"] | components["schemas"]["GivenStop"] | components["schemas"]["GivenEnd"] | components["schemas"]["GivenKeep"] | components["schemas"]["GivenModel"] | components["schemas"]["GivenRule"] | components["schemas"]["GivenForget"] | components["schemas"]["GivenRun"] | components["schemas"]["GivenUndo"] | components["schemas"]["GivenCompact"] | components["schemas"]["GivenUndoCompaction"] | components["schemas"]["GivenAgain"] | components["schemas"]["GivenDone"] | components["schemas"]["GivenAbort"]);
        /** @description The expected effects of a call that succeeds. */
        Foreseen: {
            /** @description The paths that it changes. */
            changes: components["schemas"]["FileChange"][];
            /** @description Its result. */
            result: string;
        };
        /** @description The state of a path before and after a call. */
        FileChange: {
            /** @description Virtual path. */
            path: string;
            /** @description Before. */
            before: components["schemas"]["FileState"];
            /** @description After. */
            after: components["schemas"]["FileState"];
        };
        /** @description The state of a path, in enough detail to distinguish before and after. */
        FileState: components["schemas"]["FileStateFile"] | ("absent" | "folder");
        /** @description A question of a tool to the user, in the middle of a call. Its words are those of others: of a server, for example. */
        ToolQuestion: {
            /** @description The question, which says who asks. */
            prompt: string;
            /** @description JSON Schema of the answer; absent for free text. */
            schema?: unknown;
        };
        /** @description How a tool or call ended, as recorded. */
        Ending: components["schemas"]["EndingOutput"] | components["schemas"]["EndingFailure"] | "suspended";
        /** @description A file given to a model as content. */
        Blob: {
            /** @description File name shown to the model. */
            name: string;
            /** @description Media type, for example `image/png` or `application/pdf`. */
            media_type: string;
            /** @description The bytes; Base64 (standard alphabet, padded) in JSON. */
            data: string;
        };
        /** @description A function as a model sees it. */
        ToolSpec: {
            /** @description Fits `[A-Za-z0-9_-]{1,64}` (`docs/reference/loop.md`). */
            name: string;
            /** @description What it does. */
            description: string;
            /** @description JSON Schema of its input, an object schema. */
            input: unknown;
        };
        /** @description A tool that a model is not shown, as recorded. */
        WithheldTool: {
            /** @description Its name. */
            name: string;
            /** @description Why it is not shown. */
            why: string;
        };
        /** @description One tool that a provider runs, with its options. */
        ServerTool: components["schemas"]["ServerToolWebSearch"] | components["schemas"]["ServerToolWebFetch"] | components["schemas"]["ServerToolCodeExecution"];
        /** @description Limits of a tool that reads the web. */
        WebLimits: {
            /**
             * Format: uint32
             * @description Most uses in one request.
             */
            max_uses?: number | null;
            /** @description If not empty, only these domains and those below them. */
            allowed_domains?: string[];
            /** @description Never these domains and those below them. Providers accept only one of both lists. */
            blocked_domains?: string[];
        };
        /** @description The conditions of one call, and the input that they refer to. */
        Ensures: {
            /** @description The worker's input. */
            input: unknown;
            /** @description All must hold. */
            all: components["schemas"]["Ensure"][];
        };
        /** @description One condition, and the message to the model when it is not met. */
        Ensure: {
            /** @description A message to the model in addition to the judge's own. */
            reason?: string | null;
        } & (components["schemas"]["EnsureThat"] | components["schemas"]["EnsureTool"]);
        /** @description The capabilities of a model that the engine must know. */
        Capabilities: {
            /** @description Takes an output schema with a request and keeps to it, tools present or not. */
            native_schema: boolean;
            /** @description Takes tools at all. */
            tools: boolean;
            /** @description The files that it reads. */
            sees?: components["schemas"]["Sees"];
        };
        /** @description Files that a model reads as content. */
        Sees: {
            /** @description Images. */
            images?: boolean;
            /** @description PDF documents. */
            pdf?: boolean;
        };
        /** @description One message of a conversation. Immutable and shared: a conversation of N turns holds each once. */
        Message: {
            /** @description Its number in the conversation. */
            id: components["schemas"]["MessageId"];
            /** @description The message it follows; undo and forks make this differ from `id - 1`. */
            parent?: components["schemas"]["MessageId"] | null;
            /** @description Who speaks. */
            role: components["schemas"]["Role"];
            /** @description What is said, in order. */
            parts: components["schemas"]["Part"][];
        };
        /**
         * Format: uint32
         * @description Number of a message within its conversation, from 0.
         */
        MessageId: number;
        /**
         * @description The author of a message. The system text is not a message; a request carries it separately.
         *
         *     `user`: The caller of the worker, or the harness on its behalf (repair turns).
         *     `assistant`: The model.
         *     `tool`: Results of tool calls.
         * @enum {string}
         */
        Role: "user" | "assistant" | "tool";
        /** @description A piece of a message. */
        Part: components["schemas"]["PartText"] | components["schemas"]["PartAttachment"] | components["schemas"]["PartBlob"] | components["schemas"]["PartCall"] | components["schemas"]["PartResult"] | components["schemas"]["PartReasoning"] | components["schemas"]["PartOpaque"] | components["schemas"]["PartServerUse"] | components["schemas"]["PartCited"];
        /** @description Arguments as a model wrote them. */
        Arguments: components["schemas"]["ArgumentsJson"] | components["schemas"]["ArgumentsInvalid"];
        /** @description The model's request to call a function. */
        ToolCall: {
            /** @description The provider's id of the call; results refer to it. */
            id: string;
            /** @description The name as the model wrote it; it need not exist. */
            name: string;
            /** @description The arguments as the model wrote them. */
            arguments: components["schemas"]["Arguments"];
        };
        /** @description The answer to a tool call. */
        ToolResult: {
            /** @description `ToolCall::id` of the call it answers. */
            call_id: string;
            /** @description Name of the tool as called. */
            name: string;
            /** @description The text for the model. */
            content: string;
            /** @description Whether it is an error (a refusal, invalid input, a failure). */
            is_error?: boolean;
        };
        /** @description A page that a provider names as the origin of what a model says. */
        Source: {
            /** @description Its address. */
            url: string;
            /** @description Its title. */
            title?: string | null;
        };
        /** @description One use of a tool that the provider ran while it answered. */
        ServerUse: {
            /** @description The tool: `web_search`, or the provider's name for a step of it. */
            tool: string;
            /** @description What the model gave it: `{"query": …}`, `{"url": …}`, `{"code": …}`. */
            input: unknown;
            /** @description The pages that it found or read, as far as the provider names them. */
            sources?: components["schemas"]["Source"][];
            /** @description The provider's word for the reason why it failed, if it failed. */
            error?: string | null;
        };
        /** @description The reservation for one request to a model, or for the calls of one turn, as recorded. */
        Reserved: {
            /**
             * Format: uint32
             * @description Model turns that begin.
             */
            turns?: number;
            /**
             * Format: uint32
             * @description Tool calls that are about to be made.
             */
            calls?: number;
            /**
             * Format: uint64
             * @description Tokens sent, as estimated from what is sent.
             */
            input_tokens?: number | null;
            /**
             * Format: uint64
             * @description Maximum tokens of the answer.
             */
            output_tokens?: number | null;
            /**
             * Format: double
             * @description Maximum cost of both, where the price is known.
             */
            cost_usd?: number | null;
        };
        /**
         * @description Why an answer ended.
         *
         *     `stop`: The model finished.
         *     `tool_calls`: It wants tools called.
         *     `length`: `max_tokens` or the context window cut it off.
         *     `refusal`: The model or its provider declined to answer.
         *     `paused`: The provider has paused a long turn with tools of its own. The next request continues it.
         *     `stopped`: The user stopped it. The message holds what had arrived.
         *     `other`: Anything else.
         * @enum {string}
         */
        FinishReason: "stop" | "tool_calls" | "length" | "refusal" | "paused" | "stopped" | "other";
        /** @description A request that failed. */
        ModelError: {
            /** @description What kind of failure. */
            kind: components["schemas"]["ModelErrorKind"];
            /** @description For people: what happened, and what to do. Never holds a key. */
            message: string;
            /**
             * Format: uint64
             * @description The wait that the server asked for, in milliseconds.
             */
            retry_after_ms?: number | null;
        };
        /**
         * @description The kind of a failed request, which decides whether it is retried.
         *
         *     `rate_limited`: 429.
         *     `server`: 5xx, 529.
         *     `timeout`: No answer, or none in time.
         *     `network`: Connection refused or broken, stream cut or garbled.
         *     `auth`: 401, 403, or no key in the environment.
         *     `not_found`: No such provider, model or file.
         *     `bad_request`: The provider says that the request is wrong.
         *     `context_exceeded`: The conversation is longer than the model's window.
         *     `unsupported`: The model doesn't support a part of the request (an image, a setting).
         *     `repetition`: The answer says the same again and again.
         * @enum {string}
         */
        ModelErrorKind: "rate_limited" | "server" | "timeout" | "network" | "auth" | "not_found" | "bad_request" | "context_exceeded" | "unsupported" | "repetition";
        /**
         * @description How a run ended.
         *
         *     `done`: With an output.
         *     `failed`: The entry failed.
         *     `limit`: A limit of the root ended it.
         *     `refused`: The entry itself was refused.
         *     `suspended`: It waits for approvals.
         *     `interrupted`: The operator interrupted it.
         * @enum {string}
         */
        RunStatus: "done" | "failed" | "limit" | "refused" | "suspended" | "interrupted";
        /** @description A result that a short line replaces. */
        OldResult: {
            /** @description The message that holds it. */
            message: components["schemas"]["MessageId"];
            /** @description The call that it answers. */
            call_id: string;
            /**
             * Format: uint
             * @description The model can read it again at `/results/N`; absent if the worker has no tool for that.
             */
            number?: number | null;
        };
        /** @description A summary, which follows the first message in place of older turns. */
        Summary: {
            /** @description The message that stands in their place. */
            id: components["schemas"]["MessageId"];
            /** @description The last message that it replaces. The first is the one after the first message of the conversation. */
            to: components["schemas"]["MessageId"];
            /** @description The user's messages among these that are still sent word for word, oldest first. */
            user?: components["schemas"]["MessageId"][];
            /** @description What the model has written about the others. */
            text: string;
        };
        /** @description One compaction of a conversation, as recorded. */
        Compaction: {
            /**
             * Format: uint64
             * @description Tokens of the next request without it, as estimated.
             */
            before: number;
            /**
             * Format: uint64
             * @description Tokens of the next request with it, as estimated.
             */
            after: number;
            /** @description The results that are left out, oldest first. */
            results?: components["schemas"]["OldResult"][];
            /** @description The summary of older turns. */
            summary?: components["schemas"]["Summary"] | null;
            /** @description Why older turns could not be summarised. */
            failure?: string | null;
            /** @description The most suspicious origin of what the conversation had received; left out if all of it is trusted. */
            origin?: components["schemas"]["Origin"];
        };
        /** @description A file that undone calls have changed. */
        UndoneFile: {
            /** @description Virtual path, as the first of the calls named it. */
            path: string;
            /** @description Its real place: calls with different mounts give places the same path. */
            place: components["schemas"]["Place"];
            /** @description Whether it can be, or was, restored. */
            state: components["schemas"]["Restoration"];
            /** @description The change that restoring makes. */
            preview?: components["schemas"]["Preview"] | null;
        };
        /** @description Whether a file can be, or was, restored. */
        Restoration: components["schemas"]["RestorationFailed"] | ("restorable" | "restored" | "changed" | "not_kept");
        /**
         * @description What something outside the program says about the tools of a worker. It is recorded, so that a resume and a replay make
         *     the same tools.
         */
        Listing: {
            /** @description The tools, in the kind's own format. */
            tools: unknown;
            /** @description What the operator should know about them: a server that does not answer, a tool that has changed. */
            notices?: string[];
        };
        /** @description Words that wait for a conversation. */
        Queued: {
            /** @description The words. */
            text: string;
            /** @description Who says them, as in `Given::by`. */
            by: string;
            /** @description Through which channel, as in `Given::via`. */
            via: string;
            /** @description Whether they are for the answer under way. */
            now?: boolean;
        };
        /** @description Something that a client hears about a service. */
        Notice: components["schemas"]["Changed"] | components["schemas"]["QuestionCount"];
        /** @description A run whose state has changed. */
        Changed: {
            /** @description Its ID. */
            run: string;
            /** @description The program's name. */
            program: string;
            /** @description The worker that it started with. */
            worker: string;
            /** @description Its state now. */
            state: components["schemas"]["State"];
            /** @description Whether it is a chat. */
            chat: boolean;
        };
        /** @description The number of questions that wait. */
        QuestionCount: {
            /**
             * Format: uint
             * @description Over all runs that the token may see.
             */
            count: number;
        };
        /** @description To an approval: make the call; `remember`: also the same call later in this session. */
        GiveAnswerApprove: {
            /** @constant */
            answer: "approve";
            /**
             * @description Whether to remember.
             * @default false
             */
            remember: boolean;
        };
        /** @description To an approval: make the call, and later in this session also the calls to which this rule applies. */
        GiveAnswerAllow: {
            /** @constant */
            answer: "allow";
            /** @description One of the `Approval::rules`. */
            calls: string;
        };
        /** @description To an approval: refuse the call; the model receives the reason. */
        GiveAnswerDeny: {
            /** @constant */
            answer: "deny";
            /** @description Why, in the operator's words. */
            reason?: string | null;
            /**
             * @description Whether to remember.
             * @default false
             */
            remember: boolean;
        };
        /** @description To an approval: make the call with these arguments. They pass every step again except the question. */
        GiveAnswerEdit: {
            /** @constant */
            answer: "edit";
            /** @description The new arguments. */
            input: unknown;
        };
        /** @description To a conversation: this file joins the user's next message. */
        GiveAnswerAttach: {
            /** @constant */
            answer: "attach";
            /** @description Its path, as the conversation's caller knows it; with a content, its name for people. */
            file: string;
            /** @description Its content, if it comes with the answer and is not read. */
            content?: components["schemas"]["Attachment"] | null;
        };
        /** @description To a conversation: what joined the next message with that number does not join it any more. */
        GiveAnswerDetach: {
            /** @constant */
            answer: "detach";
            /**
             * Format: uint32
             * @description The number of the `Answer::Attach` or `Answer::Keep`.
             */
            message: number;
        };
        /** @description To an input: the user's text, or the form in the shape of its schema. */
        GiveAnswerGive: {
            /** @constant */
            answer: "give";
            /** @description The text as a string, or the form. */
            value: unknown;
        };
        /** @description To an input: the user declines. */
        GiveAnswerDecline: {
            /** @constant */
            answer: "decline";
            /** @description Why, in the operator's words. */
            reason?: string | null;
        };
        /**
         * @description To an approval or an input: the user stopped the answer that the call is part of. It decides nothing about the call,
         *     which is not made.
         */
        GiveAnswerStop: {
            /** @constant */
            answer: "stop";
        };
        /** @description To a conversation: it is over. A worker that has a caller gives its result. */
        GiveAnswerEnd: {
            /** @constant */
            answer: "end";
        };
        /** @description To a conversation: the result of a call that the user has made joins the next message. */
        GiveAnswerKeep: {
            /** @constant */
            answer: "keep";
            /**
             * Format: uint32
             * @description The number of the `Answer::Run`.
             */
            message: number;
        };
        /** @description To a conversation: another model answers from the next message on. */
        GiveAnswerModel: {
            /** @constant */
            answer: "model";
            /** @description Which. */
            model: components["schemas"]["ModelName"];
        };
        /** @description To a conversation: this rule holds from here on, for the calls of the conversation and those below it. */
        GiveAnswerRule: {
            /** @constant */
            answer: "rule";
            /** @description What it says. */
            rule: components["schemas"]["Rule"];
            /** @description The calls that it applies to, as the command line takes them. */
            calls: string;
        };
        /**
         * @description To a conversation: what the user said to an earlier question holds no more: a remembered approval or denial, or an
         *     `Answer::Rule` of this conversation.
         */
        GiveAnswerForget: {
            /** @constant */
            answer: "forget";
            /** @description The question. */
            of: components["schemas"]["QuestionId"];
        };
        /**
         * @description To a conversation: the user calls a worker of the program. The result is shown to the user, and the model does not
         *     see it.
         */
        GiveAnswerRun: {
            /** @constant */
            answer: "run";
            /** @description Its name. */
            worker: string;
            /** @description Its input, by parameter. */
            input: unknown;
        };
        /**
         * @description To a conversation: go back to before the user's message of that number. It and all that follows are no longer part
         *     of what the model is sent. The first message is number 0.
         */
        GiveAnswerUndo: {
            /** @constant */
            answer: "undo";
            /**
             * Format: uint32
             * @description The number of the message.
             */
            message: number;
        };
        /** @description To a conversation: compact it. Older turns are summarised. */
        GiveAnswerCompact: {
            /** @constant */
            answer: "compact";
            /** @description What the summary must keep, in the user's words. */
            keep?: string | null;
        };
        /** @description To a conversation: take the last compaction back. The model is sent again what it replaced. */
        GiveAnswerUndoCompaction: {
            /** @constant */
            answer: "undo_compaction";
        };
        /** @description To a settlement: run the tool again. */
        GiveAnswerAgain: {
            /** @constant */
            answer: "again";
        };
        /** @description To a settlement: the tool counts as done, with this result. */
        GiveAnswerDone: {
            /** @constant */
            answer: "done";
            /** @description The result. */
            result: unknown;
        };
        /** @description To a settlement: end the run. */
        GiveAnswerAbort: {
            /** @constant */
            answer: "abort";
        };
        /** @description May this call be made? */
        QuestionApproval: components["schemas"]["Approval"];
        /** @description A worker, or a server behind a tool, wants text or a form from the user. */
        QuestionInput: components["schemas"]["Input"];
        /** @description A tool was interrupted, and only the operator can know whether its effect took place. */
        QuestionSettlement: components["schemas"]["Settlement"];
        /** @description A file before and after; shown as a diff. */
        PreviewChange: {
            /** @constant */
            preview: "change";
            /** @description Virtual path. */
            path: string;
            /** @description Content now; absent for a new file. */
            before: string | null;
            /** @description Content after; absent if it is removed. */
            after: string | null;
        };
        /** @description A rule that is written somewhere. */
        DecidedByRule: {
            rule: components["schemas"]["DecidedByRuleRule"];
        };
        /** @description An `approval` block, by the risk of the call or by its default. */
        DecidedByPolicy: {
            policy: components["schemas"]["DecidedByPolicyPolicy"];
        };
        /**
         * @description A file of the program pre-approves the call, and its effect is outside the mounts that the program declares: the
         *     operator decides.
         */
        DecidedByOutsideMounts: {
            outside_mounts: components["schemas"]["DecidedByOutsideMountsOutsideMounts"];
        };
        /**
         * @description A file of the program pre-approves the call, and it changes a file that other programs execute: the operator
         *     decides.
         */
        DecidedByExecutedFile: {
            executed_file: components["schemas"]["DecidedByExecutedFileExecutedFile"];
        };
        /** @description The operator has approved the call, but something changed before it could run: the operator decides again. */
        DecidedByChanged: {
            changed: components["schemas"]["DecidedByChangedChanged"];
        };
        /** @description A file of the program pre-approves the call, and words that others wrote could steer it: the operator decides. */
        DecidedByUntrusted: {
            untrusted: components["schemas"]["DecidedByUntrustedUntrusted"];
        };
        /** @description The approval of a mount that the call touches. */
        DecidedByMount: {
            mount: components["schemas"]["DecidedByMountMount"];
        };
        /** @description The approval function of the tool. */
        DecidedByFunction: {
            function: components["schemas"]["DecidedByFunctionFunction"];
        };
        /** @description The toolset, by these arguments. */
        DecidedByToolset: {
            toolset: components["schemas"]["DecidedByToolsetToolset"];
        };
        /** @description No rule matches the call: its risk decides. */
        DecidedByDefault: {
            default: components["schemas"]["Risk"];
        };
        /** @description The mode in the operator's place. */
        DecidedByMode: {
            mode: components["schemas"]["Mode"];
        };
        /** @description The operator, who was asked. */
        DecidedByOperator: {
            operator: components["schemas"]["DecidedByOperatorOperator"];
        };
        /** @description May this call be made? */
        QuestionOfRunApproval: components["schemas"]["Approval"];
        /** @description A worker, or a server behind a tool, wants text or a form from the user. */
        QuestionOfRunInput: components["schemas"]["Input"];
        /** @description A tool was interrupted, and only the operator can know whether its effect took place. */
        QuestionOfRunSettlement: components["schemas"]["Settlement"];
        /** @description Something has been recorded. */
        EventRecord: {
            /** @constant */
            event: "record";
            /** @description The record, as in the journal but with long values in place. */
            record: components["schemas"]["Record"];
        };
        /** @description Part of an answer in progress. */
        EventDelta: {
            /** @constant */
            event: "delta";
            /** @description The call whose worker is answering. */
            path: components["schemas"]["CallPath"];
            /**
             * Format: uint32
             * @description Turn of its conversation.
             */
            turn: number;
        } & (components["schemas"]["EventDeltaText"] | components["schemas"]["EventDeltaReasoning"] | components["schemas"]["EventDeltaCall"]);
        /** @description Discards the deltas of this turn: the request failed and may be repeated. */
        EventDiscard: {
            /** @constant */
            event: "discard";
            /** @description The call. */
            path: components["schemas"]["CallPath"];
            /**
             * Format: uint32
             * @description The turn.
             */
            turn: number;
        };
        /** @description First record of a run. */
        RecordRunStarted: {
            /** @constant */
            kind: "run_started";
            /**
             * Format: uint32
             * @description `FORMAT`.
             */
            format: number;
            /** @description ID of the run. */
            run: string;
            /** @description Version of llm-do. */
            version: string;
            /** @description What was run: the target as given, made absolute relative to nothing (as typed). */
            target: string;
            /** @description Entry worker. */
            entry: string;
            /** @description Whether the entry holds a conversation with the operator. */
            chat?: boolean;
            /** @description Approval mode in effect. */
            approval: components["schemas"]["Mode"];
            /** @description `run.date` of templates, `YYYY-MM-DD`, in UTC. */
            date: string;
            /** @description Every worker of the closure. */
            definitions: components["schemas"]["UsedDefinition"][];
            /** @description The runtimes for the code of its tools. */
            runtimes?: components["schemas"]["Runtime"][];
            /** @description How the host started the run, in the host's own format: the data that it needs to resume the run. */
            invocation?: unknown;
            /** @description Who started the run, and through which channel. Journals of earlier versions do not say so. */
            requester?: components["schemas"]["Requester"] | null;
        };
        /** @description The run continues after a suspension or an interruption. The steps recorded before are not repeated. */
        RecordRunResumed: {
            /** @constant */
            kind: "run_resumed";
            /** @description Version of llm-do. */
            version: string;
            /**
             * Format: uint64
             * @description The idle time, in milliseconds. It does not count towards any deadline.
             */
            idle_ms: number;
        };
        /** @description A definition that was loaded later, for a callee that only a wildcard allows. */
        RecordDefinition: components["schemas"]["UsedDefinition"];
        /** @description A call has begun. */
        RecordCallStarted: {
            /** @constant */
            kind: "call_started";
            /** @description Its function. */
            function: string;
            /** @description Where the function comes from. */
            source: components["schemas"]["FunctionSource"];
            /** @description On whose behalf. */
            principal: components["schemas"]["Principal"];
            /** @description The arguments as given; shared with the caller's record of them. */
            input: unknown;
            /** @description The origins of the arguments; left out if all of them are trusted. */
            origins?: components["schemas"]["Origins"];
        };
        /** @description The real places of a call's paths after links are followed. Rules match these places. */
        RecordLinksFollowed: {
            /** @constant */
            kind: "links_followed";
            /** @description The real place of each path that the call touches, in order. */
            places: components["schemas"]["Place"][];
            /** @description Whether a link leads to a place other than its path. */
            elsewhere?: boolean;
            /** @description The positions of the places that hold what was written from untrusted words. */
            untrusted?: number[];
            /** @description Whether the process of the call can read such a place, or an untrusted mount. */
            reads_untrusted?: boolean;
        };
        /** @description An approval was compared with the state of the files after the answer came. */
        RecordRechecked: {
            /** @constant */
            kind: "rechecked";
            /** @description What is not as it was when the operator was asked, so that the operator is asked again; absent if all is. */
            changed?: string | null;
        };
        /** @description The answer of a tool's approval code to a call (`@tool(approval=…)`): one source of the verdict. */
        RecordRuleStated: {
            /** @constant */
            kind: "rule_stated";
            /** @description Its answer; `ask` if it failed. */
            rule: components["schemas"]["Rule"];
            /** @description Why it failed. */
            reason?: string | null;
        };
        /** @description The gate's verdict on a call. */
        RecordVerdict: {
            /** @constant */
            kind: "verdict";
            /** @description The decision: `preApproved` runs, `blocked` is refused. */
            rule: components["schemas"]["Rule"];
            /** @description The rule, mode or operator that decided. */
            by: components["schemas"]["DecidedBy"];
            /** @description Reason given to the caller when refused. */
            reason?: string | null;
        };
        /** @description The operator is asked. */
        RecordAsked: components["schemas"]["Question2"];
        /** @description A question has its answer. */
        RecordAnswered: components["schemas"]["Given"];
        /**
         * @description The predicted changes of a leaf that changes files, recorded before it runs. A resume uses them to check
         *     whether the leaf took effect.
         */
        RecordForeseen: {
            /** @constant */
            kind: "foreseen";
            /** @description The changes; absent if they can't be predicted. */
            foreseen?: components["schemas"]["Foreseen"] | null;
        };
        /** @description A leaf is about to run: written before its first effect. */
        RecordToolStarted: {
            /** @constant */
            kind: "tool_started";
            /** @description Name. */
            function: string;
            /** @description Risk: decides how a resume treats it. */
            risk: components["schemas"]["Risk"];
            /** @description The same for each attempt. */
            idempotency_key: string;
        };
        /** @description A leaf wants to know something from the user before it continues. It continues in its next step. */
        RecordToolAsked: {
            /** @constant */
            kind: "tool_asked";
            /** @description What it asks. */
            questions: components["schemas"]["ToolQuestion"][];
            /** @description What it needs to continue, apart from the answers. */
            state: unknown;
            /** @description The output that its code printed. */
            log?: string | null;
            /** @description The origins of the questions; left out if all of them are trusted. */
            origins?: components["schemas"]["Origins"];
        };
        /** @description A leaf has ended. */
        RecordToolEnded: {
            /** @constant */
            kind: "tool_ended";
            /** @description How. */
            ending: components["schemas"]["Ending"];
            /** @description Images and files that it returned beside its value. */
            blobs?: components["schemas"]["Blob"][];
            /** @description The output that its code printed. */
            log?: string | null;
            /** @description The origins of the value; left out if all of it is trusted. */
            origins?: components["schemas"]["Origins"];
        };
        /** @description A composite call has ended, or a call was refused before it ran. */
        RecordCallEnded: {
            /** @constant */
            kind: "call_ended";
            /** @description How. */
            ending: components["schemas"]["Ending"];
            /**
             * @description Tokens of the call and all below it.
             * @default {}
             */
            usage: components["schemas"]["Usage"];
            /** @description Images and files that it returned beside its value. */
            blobs?: components["schemas"]["Blob"][];
            /** @description The origins of the value; left out if all of it is trusted. */
            origins?: components["schemas"]["Origins"];
            /**
             * @description What the operator wrote in the conversations of the call and below it. Its caller's rules may test for these
             *     words (`from: input`).
             */
            said?: unknown[];
        };
        /**
         * @description A worker's conversation has begun. With the later records of its path it holds everything that the model was
         *     sent.
         */
        RecordConversationStarted: {
            /** @constant */
            kind: "conversation_started";
            /** @description Worker ID. */
            worker: string;
            /** @description The model. */
            model: components["schemas"]["ModelName"];
            /** @description The rendered instructions. */
            system: string;
            /** @description The tools offered, fixed from here on. */
            tools: components["schemas"]["ToolSpec"][];
            /** @description The tools that the worker has and that no arguments could make pass the gate. */
            withheld?: components["schemas"]["WithheldTool"][];
            /**
             * @description The tools that the provider runs itself, with their options, as the gate allowed them. What such a
             *     conversation answers may hold words of others.
             */
            server_tools?: components["schemas"]["ServerTool"][];
            /** @description Schema the answer must satisfy. */
            output?: unknown;
            /**
             * @description Whether `output` is asked for through the final-result tool.
             * @default false
             */
            final_tool: boolean;
            /** @description Whether the conversation is held with the user: what the user says follows an answer. */
            with_user?: boolean;
            /**
             * @description Whether the user speaks first. `message` is then empty, or holds what the conversation was begun with, and the
             *     model is not asked before the user has said something.
             */
            listens?: boolean;
            /** @description Conditions on the answer beyond its schema. */
            ensures?: components["schemas"]["Ensures"] | null;
            /**
             * @description Whether long results can be read on.
             * @default false
             */
            can_read_on: boolean;
            /**
             * Format: uint64
             * @description Most tokens of one request, if that is known: it is compacted before it would have more.
             */
            max_context_tokens?: number | null;
            /** @description The model's capabilities. */
            can: components["schemas"]["Capabilities"];
            /** @description The first message. */
            message: components["schemas"]["Message"];
            /** @description The origin of the instructions and the first message; left out if they are trusted. */
            origin?: components["schemas"]["Origin"];
        };
        /** @description A conversation in the middle of a run has the line to the user, or there is none. */
        RecordLeased: {
            /** @constant */
            kind: "leased";
            /** @description Whether the user, or a program in the user's place, can be asked now or later. */
            attended: boolean;
        };
        /** @description A file that the user attaches was read: it joins the next message. */
        RecordAttached: {
            /** @constant */
            kind: "attached";
            /** @description The file, as the model gets it. */
            part: components["schemas"]["Part"];
            /**
             * Format: uint64
             * @description Its size.
             */
            bytes: number;
            /** @description The origin of its content. */
            origin?: components["schemas"]["Origin"];
        };
        /** @description A file that the user wanted to attach does not join the next message. */
        RecordNotAttached: {
            /** @constant */
            kind: "not_attached";
            /** @description Why. */
            reason: string;
        };
        /** @description Another model answers from here on, because the user has chosen it. */
        RecordModelChosen: {
            /** @constant */
            kind: "model_chosen";
            /** @description Which. */
            model: components["schemas"]["ModelName"];
            /**
             * Format: uint64
             * @description Most tokens of one request to it, if that is known.
             */
            max_context_tokens?: number | null;
        };
        /** @description The model that the user has chosen can't answer. The previous one answers from here on. */
        RecordModelNotChosen: {
            /** @constant */
            kind: "model_not_chosen";
            /** @description Why. */
            reason: string;
        };
        /** @description A message of the harness that follows from nothing else recorded (a repair turn). */
        RecordMessageAdded: {
            /** @constant */
            kind: "message_added";
            /** @description The message. */
            message: components["schemas"]["Message"];
        };
        /** @description The budget for a request or for the calls of a turn was reserved in the ledger. */
        RecordReserved: components["schemas"]["Reserved"];
        /** @description The ledger has too little left for a request or for the calls of a turn: a limit was reached. */
        RecordNotReserved: {
            /** @constant */
            kind: "not_reserved";
            /** @description Which limit, and the usage when it was reached. */
            what: string;
        };
        /** @description A request is about to be sent: for the next turn of a conversation, or for a summary (`summary.N.A`). */
        RecordModelRequested: {
            /** @constant */
            kind: "model_requested";
            /**
             * Format: uint32
             * @description Turn, from 0. Of a summary, the number of its compaction.
             */
            turn: number;
            /**
             * Format: uint32
             * @description Attempt at this turn, from 0.
             */
            attempt: number;
            /** @description Last message sent; the others follow from it. */
            head: components["schemas"]["MessageId"];
            /** @description Chained hash of everything sent, which detects divergence at no cost per turn. */
            digest: string;
            /**
             * Format: uint32
             * @description Most tokens the answer may have, where known.
             */
            max_tokens?: number | null;
        };
        /** @description A request was answered. */
        RecordModelAnswered: {
            /** @constant */
            kind: "model_answered";
            /** @description The answer as a message. */
            message: components["schemas"]["Message"];
            /** @description Why it ended. */
            finish: components["schemas"]["FinishReason"];
            /**
             * @description Its usage.
             * @default {}
             */
            usage: components["schemas"]["Usage"];
            /** @description The provider's word for why it ended, if llm-do does not know it. */
            unknown_finish?: string | null;
            /** @description The tools that it calls and that were not offered, in order. The model hears that there are none such. */
            unoffered?: string[];
        };
        /** @description A request failed. */
        RecordModelFailed: {
            /** @constant */
            kind: "model_failed";
            /** @description How. */
            error: components["schemas"]["ModelError"];
        };
        /** @description The run waited (before a retry). */
        RecordSlept: {
            /** @constant */
            kind: "slept";
            /**
             * Format: uint64
             * @description How long, in milliseconds.
             */
            ms: number;
        };
        /** @description A random number was drawn. */
        RecordRandom: {
            /** @constant */
            kind: "random";
            /**
             * Format: uint64
             * @description The number.
             */
            value: number;
        };
        /** @description A step's deadline expired before its end. */
        RecordTimedOut: {
            /** @constant */
            kind: "timed_out";
            /**
             * Format: uint64
             * @description The deadline, in milliseconds.
             */
            after_ms: number;
        };
        /** @description A step was interrupted because the run was cancelled. */
        RecordCancelled: {
            /** @constant */
            kind: "cancelled";
        };
        /** @description A limit was reached. */
        RecordLimit: {
            /** @constant */
            kind: "limit";
            /** @description Which limit, and the usage when it was reached. */
            what: string;
        };
        /** @description A note: the printed output of a tool, or a notice. */
        RecordNote: {
            /** @constant */
            kind: "note";
            /** @description The text. */
            text: string;
        };
        /** @description Last record of a run. */
        RecordRunEnded: {
            /** @constant */
            kind: "run_ended";
            /** @description How. */
            status: components["schemas"]["RunStatus"];
            /** @description The output, or the failure. */
            ending: components["schemas"]["Ending"];
            /**
             * @description Tokens of the whole run.
             * @default {}
             */
            usage: components["schemas"]["Usage"];
        };
        /**
         * @description Code that makes calls has reached its next call or its end within its time limit, or the functions of a worker
         *     that is code were made in time. A resume doesn't measure that time again.
         */
        RecordWorked: {
            /** @constant */
            kind: "worked";
        };
        /**
         * @description A conversation was compacted, or could not be. From here on the model is sent what this record says in place of what
         *     it names.
         */
        RecordCompacted: components["schemas"]["Compaction"];
        /** @description The user has taken a message back. This is what the turns since then have done. */
        RecordUndone: {
            /** @constant */
            kind: "undone";
            /** @description The files that file tools have changed, if they are not as they were before. */
            files: components["schemas"]["UndoneFile"][];
            /** @description The functions that may have done something else, which can't be restored. */
            others?: string[];
        };
        /** @description The files of undone turns were restored, as the user wanted. */
        RecordRestored: {
            /** @constant */
            kind: "restored";
            /** @description The files that could be restored before, and what became of each. */
            files: components["schemas"]["UndoneFile"][];
        };
        /** @description Something outside the program said which tools a worker's toolset has. */
        RecordToolsListed: {
            /** @constant */
            kind: "tools_listed";
            /** @description The kind of toolset. */
            toolset: string;
            /** @description The tools, and what the operator should know about them. */
            listing: components["schemas"]["Listing"];
        };
        /**
         * @description A toolset returned a text that a worker's instructions insert, or the reason why there is none. Both are in the words
         *     of others.
         */
        RecordTextInserted: {
            /** @constant */
            kind: "text_inserted";
            /** @description The kind of toolset. */
            toolset: string;
            /** @description The name of the text for that kind. */
            name: string;
            /** @description The arguments that the template gives. */
            arguments?: {
                [key: string]: string;
            };
            /** @description The text, or why there is none. */
            ending: components["schemas"]["Ending"];
        };
        /**
         * @description The user has said something to a conversation that does not wait for it. It is delivered later, as an answer with the
         *     same words: `now.T` with the next request of the answer under way, else `message.N`.
         */
        RecordQueued: components["schemas"]["Queued"];
        /** @description A toolset that is part of llm-do, or registered by the embedding program. */
        FunctionSourceToolset: {
            toolset: string;
        };
        /** @description A worker or tool of this library. */
        FunctionSourceLibrary: {
            library: string;
        };
        /** @description A worker, by ID. */
        PrincipalWorker: {
            worker: string;
        };
        /** @description A tool, on behalf of a worker. */
        PrincipalTool: {
            tool: components["schemas"]["PrincipalToolTool"];
        };
        /** @description May this call be made? */
        Question2Approval: components["schemas"]["Approval"];
        /** @description A worker, or a server behind a tool, wants text or a form from the user. */
        Question2Input: components["schemas"]["Input"];
        /** @description A tool was interrupted, and only the operator can know whether its effect took place. */
        Question2Settlement: components["schemas"]["Settlement"];
        /** @description To an approval: make the call; `remember`: also the same call later in this session. */
        GivenApprove: {
            /** @constant */
            answer: "approve";
            /**
             * @description Whether to remember.
             * @default false
             */
            remember: boolean;
        };
        /** @description To an approval: make the call, and later in this session also the calls to which this rule applies. */
        GivenAllow: {
            /** @constant */
            answer: "allow";
            /** @description One of the `Approval::rules`. */
            calls: string;
        };
        /** @description To an approval: refuse the call; the model receives the reason. */
        GivenDeny: {
            /** @constant */
            answer: "deny";
            /** @description Why, in the operator's words. */
            reason?: string | null;
            /**
             * @description Whether to remember.
             * @default false
             */
            remember: boolean;
        };
        /** @description To an approval: make the call with these arguments. They pass every step again except the question. */
        GivenEdit: {
            /** @constant */
            answer: "edit";
            /** @description The new arguments. */
            input: unknown;
        };
        /** @description To a conversation: this file joins the user's next message. */
        GivenAttach: {
            /** @constant */
            answer: "attach";
            /** @description Its path, as the conversation's caller knows it; with a content, its name for people. */
            file: string;
            /** @description Its content, if it comes with the answer and is not read. */
            content?: components["schemas"]["Attachment"] | null;
        };
        /** @description To a conversation: what joined the next message with that number does not join it any more. */
        GivenDetach: {
            /** @constant */
            answer: "detach";
            /**
             * Format: uint32
             * @description The number of the `Answer::Attach` or `Answer::Keep`.
             */
            message: number;
        };
        /** @description To an input: the user's text, or the form in the shape of its schema. */
        GivenGive: {
            /** @constant */
            answer: "give";
            /** @description The text as a string, or the form. */
            value: unknown;
        };
        /** @description To an input: the user declines. */
        GivenDecline: {
            /** @constant */
            answer: "decline";
            /** @description Why, in the operator's words. */
            reason?: string | null;
        };
        /**
         * @description To an approval or an input: the user stopped the answer that the call is part of. It decides nothing about the call,
         *     which is not made.
         */
        GivenStop: {
            /** @constant */
            answer: "stop";
        };
        /** @description To a conversation: it is over. A worker that has a caller gives its result. */
        GivenEnd: {
            /** @constant */
            answer: "end";
        };
        /** @description To a conversation: the result of a call that the user has made joins the next message. */
        GivenKeep: {
            /** @constant */
            answer: "keep";
            /**
             * Format: uint32
             * @description The number of the `Answer::Run`.
             */
            message: number;
        };
        /** @description To a conversation: another model answers from the next message on. */
        GivenModel: {
            /** @constant */
            answer: "model";
            /** @description Which. */
            model: components["schemas"]["ModelName"];
        };
        /** @description To a conversation: this rule holds from here on, for the calls of the conversation and those below it. */
        GivenRule: {
            /** @constant */
            answer: "rule";
            /** @description What it says. */
            rule: components["schemas"]["Rule"];
            /** @description The calls that it applies to, as the command line takes them. */
            calls: string;
        };
        /**
         * @description To a conversation: what the user said to an earlier question holds no more: a remembered approval or denial, or an
         *     `Answer::Rule` of this conversation.
         */
        GivenForget: {
            /** @constant */
            answer: "forget";
            /** @description The question. */
            of: components["schemas"]["QuestionId"];
        };
        /**
         * @description To a conversation: the user calls a worker of the program. The result is shown to the user, and the model does not
         *     see it.
         */
        GivenRun: {
            /** @constant */
            answer: "run";
            /** @description Its name. */
            worker: string;
            /** @description Its input, by parameter. */
            input: unknown;
        };
        /**
         * @description To a conversation: go back to before the user's message of that number. It and all that follows are no longer part
         *     of what the model is sent. The first message is number 0.
         */
        GivenUndo: {
            /** @constant */
            answer: "undo";
            /**
             * Format: uint32
             * @description The number of the message.
             */
            message: number;
        };
        /** @description To a conversation: compact it. Older turns are summarised. */
        GivenCompact: {
            /** @constant */
            answer: "compact";
            /** @description What the summary must keep, in the user's words. */
            keep?: string | null;
        };
        /** @description To a conversation: take the last compaction back. The model is sent again what it replaced. */
        GivenUndoCompaction: {
            /** @constant */
            answer: "undo_compaction";
        };
        /** @description To a settlement: run the tool again. */
        GivenAgain: {
            /** @constant */
            answer: "again";
        };
        /** @description To a settlement: the tool counts as done, with this result. */
        GivenDone: {
            /** @constant */
            answer: "done";
            /** @description The result. */
            result: unknown;
        };
        /** @description To a settlement: end the run. */
        GivenAbort: {
            /** @constant */
            answer: "abort";
        };
        /** @description A file with this content: SHA-256 in hexadecimal. */
        FileStateFile: {
            file: string;
        };
        /** @description With this value. */
        EndingOutput: {
            output: unknown;
        };
        /** @description With a failure that the caller receives. */
        EndingFailure: {
            failure: components["schemas"]["Failure"];
        };
        /** @description Searches the web. */
        ServerToolWebSearch: components["schemas"]["WebLimits"];
        /** @description Reads web pages whose addresses it has seen. */
        ServerToolWebFetch: components["schemas"]["WebLimits"];
        /** @description Runs code in a sandbox of the provider. */
        ServerToolCodeExecution: {
            /** @constant */
            tool_type: "code_execution";
        };
        /** @description An expression over `input` and `output`, in the language of templates. */
        EnsureThat: {
            that: string;
        };
        /** @description A tool of the worker, called with the output. A worker that it may call also counts as a tool. */
        EnsureTool: {
            tool: string;
        };
        /** @description Text. */
        PartText: {
            /** @constant */
            part: "text";
            /** @description The text. */
            text: string;
        };
        /** @description A text file that the caller attached. Models receive `Part::sent`. */
        PartAttachment: {
            /** @constant */
            part: "attachment";
            /** @description Its file name. */
            name: string;
            /** @description Its content. */
            text: string;
        };
        /** @description An image, a PDF or another file, for models that read them. */
        PartBlob: components["schemas"]["Blob"];
        /** @description The model asks for a function to be called (assistant messages only). */
        PartCall: components["schemas"]["ToolCall"];
        /** @description The answer to one such call (tool messages only). */
        PartResult: components["schemas"]["ToolResult"];
        /** @description The model's visible thinking; never sent back as text. */
        PartReasoning: {
            /** @constant */
            part: "reasoning";
            /** @description The text of it. */
            text: string;
        };
        /** @description A provider's own data (signed thinking, for example) that must be sent back as it came. */
        PartOpaque: {
            /** @constant */
            part: "opaque";
            /** @description The provider that owns the data; it is not sent to others. */
            provider: string;
            /** @description The data. */
            value: unknown;
        };
        /**
         * @description The provider ran a tool of its own here (assistant messages only). A record of it for people; what goes back to
         *     the provider is the `Part::Opaque` beside it.
         */
        PartServerUse: components["schemas"]["ServerUse"];
        /** @description The pages that the provider names for the text before it (assistant messages only). Never sent back. */
        PartCited: {
            /** @constant */
            part: "cited";
            /** @description Each page once. */
            sources: components["schemas"]["Source"][];
        };
        /** @description Well-formed JSON. */
        ArgumentsJson: {
            json: unknown;
        };
        /**
         * @description Not JSON (cut off, or broken), or JSON that can't be kept as it is (`json::read`). Kept to be quoted back to the
         *     model.
         */
        ArgumentsInvalid: {
            invalid: components["schemas"]["ArgumentsInvalidInvalid"];
        };
        /** @description It can't be reached or written. */
        RestorationFailed: {
            failed: components["schemas"]["RestorationFailedFailed"];
        };
        DecidedByRuleRule: {
            /** @description Where: `--deny write_file`, `main.worker:12`. */
            origin: string;
            /** @description Whether it is a rule of a caller further up, which can only block. */
            of_caller?: boolean;
        };
        DecidedByPolicyPolicy: {
            /** @description Where the block is written. */
            origin: string;
            /** @description The risk that it names; absent for its default. */
            risk?: components["schemas"]["Risk"] | null;
        };
        DecidedByOutsideMountsOutsideMounts: {
            /** @description What pre-approves it. */
            rule: components["schemas"]["DecidedBy"];
        };
        DecidedByExecutedFileExecutedFile: {
            /** @description What pre-approves it. */
            rule: components["schemas"]["DecidedBy"];
        };
        DecidedByChangedChanged: {
            /** @description What changed. */
            what: string;
            /** @description What asked in the first place. */
            rule: components["schemas"]["DecidedBy"];
        };
        DecidedByUntrustedUntrusted: {
            /** @description What pre-approves it. */
            rule: components["schemas"]["DecidedBy"];
        };
        DecidedByMountMount: {
            /** @description Where it is mounted. */
            at: string;
        };
        DecidedByFunctionFunction: {
            /** @description The tool. */
            function: string;
        };
        DecidedByToolsetToolset: {
            /** @description Its reason. */
            why: string;
        };
        DecidedByOperatorOperator: {
            /** @description The person or program that answered. */
            by: string;
            /** @description The channel. */
            via: string;
            /** @description Whether the arguments were edited. */
            edited?: boolean;
        };
        /** @description More text of the answer. */
        EventDeltaText: {
            /** @constant */
            delta: "text";
            /** @description The new piece. */
            text: string;
        };
        /** @description More of the model's visible thinking. */
        EventDeltaReasoning: {
            /** @constant */
            delta: "reasoning";
            /** @description The new piece. */
            text: string;
        };
        /** @description A tool call has begun to appear. */
        EventDeltaCall: {
            /** @constant */
            delta: "call";
            /** @description Name of the tool. */
            name: string;
        };
        PrincipalToolTool: {
            /** @description The tool. */
            tool: string;
            /** @description The worker that called it. */
            worker: string;
        };
        ArgumentsInvalidInvalid: {
            /** @description What was received. */
            text: string;
            /** @description The parse error. */
            reason: string;
        };
        RestorationFailedFailed: {
            /** @description Why. */
            reason: string;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    app: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/html": string;
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token, the host or the origin is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    appFile: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The file's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The file. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": string;
                    "text/plain": string;
                };
            };
            /** @description The file that the client has. */
            304: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token, the host or the origin is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no such file. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    health: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It does. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Health"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token, the host or the origin is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description It shuts down. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    openapi: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description An OpenAPI 3.1 document. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": string;
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token, the host or the origin is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    metrics: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description In the format OpenMetrics. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/openmetrics-text": string;
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no token, or no such token. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token, the host or the origin is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    getSession: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The token's name and scopes. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Session"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no token, or no such token. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token, the host or the origin is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    signIn: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The session has begun, and its cookie is set. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SignedIn"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no token, or no such token. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token, the host or the origin is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    signOut: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The session has ended, and its cookie is gone. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no token, or no such token. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token, the host or the origin is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    listPrograms: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The programs. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Programs"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no token, or no such token. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token, the host or the origin is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    listWorkers: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The workers. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Workers"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no token, or no such token. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token, the host or the origin is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    listRuns: {
        parameters: {
            query?: {
                /** @description Only runs that began before the run with this ID. */
                before?: string;
                /** @description The most that are listed. Default: 50. */
                limit?: number;
                /** @description Only runs of this program. */
                program?: string;
                /** @description Only runs that started with this worker. */
                worker?: string;
                /** @description Only runs in these states, separated by commas. */
                state?: string;
                /** @description Only chats, or only others. */
                chat?: boolean;
                /** @description Only runs whose ID, worker, input, output or failure has this text in any case. A page with it may be short and still have a next one. */
                q?: string;
                /** @description Whether questions show the effects of their calls, such as diffs. Default: true. */
                previews?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Runs, without their outputs, and with the beginnings of their failures. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Runs"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no token, or no such token. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token, the host or the origin is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    startRun: {
        parameters: {
            query?: {
                /** @description Answer when the run is over or asks something, or after so many seconds. */
                wait?: number;
            };
            header?: {
                /** @description A repeated request with the same key finds the run that the first one has started. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["StartRun"];
            };
        };
        responses: {
            /** @description The run that an earlier request with this key has started. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Run"];
                };
            };
            /** @description The run. `Location` is its address. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Run"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no token, or no such token. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token, the host or the origin is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no such program or worker. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body did not arrive in time. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The key was used for another request. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The input does not fit the worker. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many runs are under way. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The program can't be run as it is. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server shuts down. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server can't write the run: the disk is full, for example. */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    getRun: {
        parameters: {
            query?: {
                /** @description Answer when the run is over or asks something, or after so many seconds. */
                wait?: number;
            };
            header?: never;
            path: {
                /** @description The ID of a run. */
                run: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The run. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Run"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no token, or no such token. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token, the host or the origin is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no such run that the token may see. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    followRun: {
        parameters: {
            query?: never;
            header?: {
                /** @description Only events after the record with this number. */
                "Last-Event-ID"?: number;
            };
            path: {
                /** @description The ID of a run. */
                run: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Events until the run ends. `data` is an `Event`; `id` is the number of the record, and absent for deltas, which a slow reader may miss. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no token, or no such token. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token, the host or the origin is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no such run that the token may see. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many streams are followed. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    answer: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The ID of a run. */
                run: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["GiveAnswer"];
            };
        };
        responses: {
            /** @description The run has the answer. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no token, or no such token. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token, the host or the origin is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no such run that the token may see. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body did not arrive in time. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The question has an answer, or is not the one that the digest names. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many runs are under way to continue this one. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    cancelRun: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The ID of a run. */
                run: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The run ends. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no token, or no such token. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token, the host or the origin is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no such run that the token may see. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The run is not under way. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    listQuestions: {
        parameters: {
            query?: {
                /** @description Whether questions show the effects of their calls, such as diffs. Default: true. */
                previews?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The questions. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Questions"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no token, or no such token. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token, the host or the origin is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    follow: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Events `run` and `questions`, from now on; first the number of questions. `data` is a `Notice`. A reader that is too slow is disconnected. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no token, or no such token. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token, the host or the origin is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many streams are followed. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    sendMessage: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The ID of a run. */
                run: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SendMessage"];
            };
        };
        responses: {
            /** @description The conversation gets it. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MessageSent"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no token, or no such token. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token, the host or the origin is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no such run that the token may see. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body did not arrive in time. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The run is no chat, or too many messages wait. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    stopAnswer: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The ID of a run. */
                run: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer ends, and the chat waits for the next message. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no token, or no such token. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token, the host or the origin is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no such run that the token may see. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The run is no chat, or no answer is under way. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    sumCosts: {
        parameters: {
            query?: {
                /** @description Only runs of this program. */
                program?: string;
                /** @description Only runs that began at this time or later, in milliseconds since 1970. */
                since_ms?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The costs. A journal is read once: `more` says that this answer lacks some that are still to be read. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CostsOfRuns"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no token, or no such token. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token, the host or the origin is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    upload: {
        parameters: {
            query: {
                /** @description The file's name. */
                name: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/octet-stream": string;
            };
        };
        responses: {
            /** @description The upload. It is kept for a day, or until the run that uses it ends. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Uploaded"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no token, or no such token. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token, the host or the origin is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body did not arrive in time. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many files are uploaded. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server can't write the file: the disk is full, for example. */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    listFiles: {
        parameters: {
            query?: {
                /** @description A path in the view of the run's worker. Default: `/`. */
                path?: string;
            };
            header?: never;
            path: {
                /** @description The ID of a run. */
                run: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description What is in the folder. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Folder"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no token, or no such token. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token, the host or the origin is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no such run that the token may see. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    getFile: {
        parameters: {
            query: {
                /** @description A path in the view of the run's worker. */
                path: string;
            };
            header?: never;
            path: {
                /** @description The ID of a run. */
                run: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The bytes of the file, as an attachment. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": string;
                    "text/plain": string;
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no token, or no such token. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token, the host or the origin is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no such run that the token may see. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The mount shows no file of this size. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    exportRun: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The ID of a run. */
                run: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The page, as an attachment. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/html": string;
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no token, or no such token. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token, the host or the origin is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no such run that the token may see. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    listDefinitions: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The name of a program. */
                program: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The files. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DefinitionFiles"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no token, or no such token. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token, the host or the origin is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no such program that the token may use. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    getDefinition: {
        parameters: {
            query: {
                /** @description The file's path from the program's folder. */
                path: string;
            };
            header?: never;
            path: {
                /** @description The name of a program. */
                program: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The text. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DefinitionText"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no token, or no such token. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token, the host or the origin is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no such program that the token may use. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The file is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    saveDefinition: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The name of a program. */
                program: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SaveDefinition"];
            };
        };
        responses: {
            /** @description It is saved. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Saved"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no token, or no such token. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token, the host or the origin is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no such program that the token may use. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body did not arrive in time. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The file is not at the hash that the request names. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    checkProgram: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The name of a program. */
                program: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CheckTexts"];
            };
        };
        responses: {
            /** @description The findings. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Diagnostics"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no token, or no such token. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token, the host or the origin is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no such program that the token may use. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body did not arrive in time. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The program can't be checked. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    openai_models: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description As OpenAI's Models describes it. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    openai_model: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description May have several parts, with their slashes. */
                model: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description As OpenAI's Models describes it. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    openai_complete: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": Record<string, never>;
            };
        };
        responses: {
            /** @description As OpenAI's Chat Completions describes it. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    openai_respond: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": Record<string, never>;
            };
        };
        responses: {
            /** @description As OpenAI's Responses describes it. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    openai_response: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description One part. */
                response: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description As OpenAI's Responses describes it. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    openai_cancel: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description One part. */
                response: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": Record<string, never>;
            };
        };
        responses: {
            /** @description As OpenAI's Responses describes it. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    ag_ui_run: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description One part. */
                program: string;
                /** @description May have several parts, with their slashes. */
                worker: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": Record<string, never>;
            };
        };
        responses: {
            /** @description As AG-UI describes it. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    mcp_listen: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description As the Model Context Protocol describes it. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    mcp_send: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": Record<string, never>;
            };
        };
        responses: {
            /** @description As the Model Context Protocol describes it. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    mcp_end: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description As the Model Context Protocol describes it. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    mcp_program_listen: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description One part. */
                program: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description As the Model Context Protocol describes it. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    mcp_program_send: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description One part. */
                program: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": Record<string, never>;
            };
        };
        responses: {
            /** @description As the Model Context Protocol describes it. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    mcp_program_end: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description One part. */
                program: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description As the Model Context Protocol describes it. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
}
