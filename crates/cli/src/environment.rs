//! The environment variables of llm-do, documented in one place.
//!
//! The ENVIRONMENT section of the man page and docs/reference/environment.md come from [`SECTIONS`]. A test in
//! `reference.rs` fails if the sources read a variable that is not listed here.

/// An environment variable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variable {
    /// The name of the variable. Several names, separated by commas, share one description.
    pub(crate) name: &'static str,
    /// The meaning and default of the variable: sentences, with Markdown code spans only.
    pub(crate) about: &'static str,
}

/// Variables for one purpose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section {
    /// The purpose of the variables.
    pub(crate) heading: &'static str,
    /// The variables.
    pub(crate) variables: &'static [Variable],
    /// Markdown below the table in the reference: links to the pages with more detail. May be empty.
    #[cfg_attr(not(test), expect(dead_code, reason = "only the reference page has links"))]
    pub(crate) see: &'static str,
}

pub(crate) const LLM_DO_PROJECT: Variable = Variable {
    name: "LLM_DO_PROJECT",
    about: "The project's directory, if the command line has neither a target nor `--project`.",
};
pub(crate) const LLM_DO_PATH: Variable = Variable {
    name: "LLM_DO_PATH",
    about: "Folders, separated by colons, in which `run` looks for a worker by name. Deprecated: use projects and libraries. Default: `~/.llm-do/workers`.",
};
pub(crate) const LLM_DO_LIBS: Variable = Variable {
    name: "LLM_DO_LIBS",
    about: "Folders of installed libraries, separated by colons. `--lib` folders are searched first. Default: `libs` in `LLM_DO_HOME`.",
};
pub(crate) const LLM_DO_DATABASE: Variable = Variable {
    name: "LLM_DO_DATABASE",
    about: "The database of a cluster, as a URL, for `llm-do cluster` and for runs that are named `pg:RUN`.",
};
pub(crate) const XDG_CACHE_HOME: Variable = Variable {
    name: "XDG_CACHE_HOME",
    about: "The folder whose `llm-do/programs` has the programs of runs on a node of a cluster. Default: `~/.cache`.",
};
pub(crate) const LLM_DO_MODEL: Variable = Variable {
    name: "LLM_DO_MODEL",
    about: "The model for workers for which neither `--model`, nor their file, nor a manifest names one.",
};
pub(crate) const PROVIDER_API_KEY: Variable = Variable {
    name: "PROVIDER_API_KEY",
    about: "The key of a provider, such as `ANTHROPIC_API_KEY` or `OPENAI_API_KEY`. A manifest's `providers` can name other variables as `api_key_env`.",
};
pub(crate) const PROVIDER_BASE_URL: Variable = Variable {
    name: "PROVIDER_BASE_URL",
    about: "Another address for a provider, such as `OPENAI_BASE_URL`. Default: the provider's own address.",
};
pub(crate) const OLLAMA_HOST: Variable = Variable {
    name: "OLLAMA_HOST",
    about: "The address of Ollama, if `OLLAMA_BASE_URL` is not set. Default: `127.0.0.1:11434`.",
};
pub(crate) const HF_TOKEN: Variable = Variable {
    name: "HF_TOKEN",
    about: "The token for `llm-do models pull hf:…`, for models that are private or whose conditions must be accepted.",
};
pub(crate) const HF_ENDPOINT: Variable = Variable {
    name: "HF_ENDPOINT",
    about: "The address of the hub for `llm-do models pull hf:…`: `https`, or a server on this machine. Default: `https://huggingface.co`.",
};
pub(crate) const VERTEX: Variable = Variable {
    name: "VERTEX_PROJECT_ID, VERTEX_LOCATION",
    about: "Project and location for Vertex AI. The project is required; the location is `global` by default.",
};
pub(crate) const AWS_REGION: Variable = Variable {
    name: "AWS_REGION, AWS_DEFAULT_REGION",
    about: "The region for Bedrock. The first one that is set counts. Default: `us-east-1`.",
};
pub(crate) const PROXIES: Variable = Variable {
    name: "HTTPS_PROXY, HTTP_PROXY, ALL_PROXY",
    about: "Proxies for requests to providers, downloads and trace collectors. They are never used for addresses of this machine.",
};
pub(crate) const NO_PROXY: Variable =
    Variable { name: "NO_PROXY", about: "Hosts for which no proxy is used, separated by commas." };
pub(crate) const CERTIFICATES: Variable = Variable {
    name: "SSL_CERT_FILE, SSL_CERT_DIR",
    about: "A file or a folder with root certificates, on Linux. Default: the machine's certificates.",
};
pub(crate) const OTEL_EXPORTER_OTLP_HEADERS: Variable = Variable {
    name: "OTEL_EXPORTER_OTLP_HEADERS",
    about: "Headers for the collector of `llm-do runs export --otel`, as `name=value,name=value`.",
};
pub(crate) const LLM_DO_PYTHON: Variable = Variable {
    name: "LLM_DO_PYTHON",
    about: "The Python interpreter for tools: a path, or a name on the `PATH`. Default: the project's `.venv`, then `python3`.",
};
pub(crate) const LLM_DO_NODE: Variable = Variable {
    name: "LLM_DO_NODE",
    about: "The Node for tools in TypeScript, 22.18 or newer: a path, or a name on the `PATH`. Default: the first `node` on the `PATH` that is no file of the project.",
};
pub(crate) const PATH: Variable = Variable {
    name: "PATH",
    about: "Folders in which llm-do looks for `python3`, `node`, `uv`, `git` and `secret-tool`.",
};
pub(crate) const PYTHON_MANAGERS: Variable = Variable {
    name: "PYENV_VERSION, ASDF_PYTHON_VERSION, MISE_PYTHON_VERSION",
    about: "The Python version that pyenv, asdf or mise selects. If it changes, llm-do inspects the interpreter again.",
};
pub(crate) const PYTHON_FOLDERS: Variable = Variable {
    name: "PYENV_ROOT, ASDF_DATA_DIR, MISE_DATA_DIR, UV_PYTHON_INSTALL_DIR, XDG_DATA_HOME",
    about: "Folders in which version managers keep installations of Python. A project's `.venv` may lead to one without a grant. Defaults: those of the managers.",
};
pub(crate) const UV: Variable = Variable {
    name: "UV_INDEX, UV_DEFAULT_INDEX, UV_INDEX_URL, UV_EXTRA_INDEX_URL, UV_HTTP_TIMEOUT, UV_NATIVE_TLS, UV_SYSTEM_CERTS",
    about: "The settings that `uv` gets, with the variables for proxies and certificates, when it fetches packages.",
};
pub(crate) const INSTALLERS: Variable = Variable {
    name: "npm_config_registry, npm_config_userconfig, npm_config_globalconfig, PIP_INDEX_URL, PIP_EXTRA_INDEX_URL, PIP_CONFIG_FILE",
    about: "The settings that `npm` and `pip` get when they install the package of an MCP server.",
};
pub(crate) const LLM_DO_HOME: Variable = Variable {
    name: "LLM_DO_HOME",
    about: "The folder for libraries, models, grants, `config.yaml` and the runs of lone worker files. A `~` at its beginning is your home. Default: `~/.llm-do`.",
};
pub(crate) const LLM_DO_MCP_TOKEN: Variable = Variable {
    name: "LLM_DO_MCP_TOKEN",
    about: "The token that clients of `llm-do mcp serve --http` must send, unless `--token-file` names one. Default: a new one at each start.",
};
pub(crate) const KEYRING: Variable = Variable {
    name: "DBUS_SESSION_BUS_ADDRESS",
    about: "The bus of the desktop session, through which the keyring is reached. Without it, tokens for MCP servers are in files.",
};
pub(crate) const LLM_DO_SERVE_TOKEN: Variable = Variable {
    name: "LLM_DO_SERVE_TOKEN",
    about: "The operator's token of `llm-do serve`, unless `--token-file` names one. Default: a new one at each start.",
};
pub(crate) const HOME: Variable =
    Variable { name: "HOME", about: "The home directory, which contains `.llm-do` by default." };
pub(crate) const TMPDIR: Variable =
    Variable { name: "TMPDIR", about: "The folder for temporary files. Default: `/tmp`." };
pub(crate) const VISUAL: Variable = Variable {
    name: "VISUAL",
    about: "The editor for the arguments of a call that waits for an approval, and for a message of a chat. It may contain options, such as `code --wait`.",
};
pub(crate) const EDITOR: Variable = Variable {
    name: "EDITOR",
    about: "The editor, if `VISUAL` is not set. Without either, arguments are edited on a line of the terminal.",
};
pub(crate) const LLM_DO_KEYS: Variable = Variable {
    name: "LLM_DO_KEYS",
    about: "If `vi`, a chat is typed with the keys of vi. Default: those of Emacs, as in most shells.",
};
pub(crate) const LLM_DO_HISTORY: Variable = Variable {
    name: "LLM_DO_HISTORY",
    about: "If `0`, a chat does not keep what you type for later chats. Default: the last 1000 messages and commands are kept in `chat-history.jsonl`, in `.llm-do/` of the project or in `LLM_DO_HOME`; texts that hold the value of a known secret are not.",
};
pub(crate) const ACCESSIBLE: Variable = Variable {
    name: "ACCESSIBLE",
    about: "If set and not `0`, a chat consists of labelled lines, as with `--plain`.",
};
pub(crate) const NO_COLOR: Variable =
    Variable { name: "NO_COLOR", about: "If not empty, `--color auto` uses no colours." };
pub(crate) const TERM: Variable = Variable {
    name: "TERM",
    about: "If `dumb`, `--color auto` uses no colours, and a chat consists of labelled lines.",
};
pub(crate) const CLICOLOR: Variable = Variable {
    name: "CLICOLOR, CLICOLOR_FORCE",
    about: "Colours of `--help` and of errors in the command line: `CLICOLOR=0` turns them off, `CLICOLOR_FORCE=1` turns them on without a terminal.",
};
pub(crate) const COLUMNS: Variable =
    Variable { name: "COLUMNS", about: "The width of `--help`, if the output is not a terminal." };
pub(crate) const LOCALE: Variable = Variable {
    name: "LANG, LANGUAGE, LC_*, TZ",
    about: "Locale and time zone. They are passed to confined processes, which get no other variable of llm-do's environment.",
};
pub(crate) const LLM_DO_EDITOR: Variable = Variable {
    name: "LLM_DO_EDITOR",
    about: "Set by llm-do for the shell that starts the editor. It contains the value of `VISUAL` or `EDITOR`. llm-do does not read it.",
};

/// All variables, in the order of the documentation.
pub(crate) const SECTIONS: &[Section] = &[
    Section {
        heading: "Programs and libraries",
        variables: &[LLM_DO_PROJECT, LLM_DO_PATH, LLM_DO_LIBS],
        see: "[Target and message](resolution.md#target-and-message), [Flat registry](resolution.md#flat-registry) and \
              [Libraries](resolution.md#libraries) describe the search.",
    },
    Section {
        heading: "Models",
        variables: &[
            LLM_DO_MODEL,
            PROVIDER_API_KEY,
            PROVIDER_BASE_URL,
            OLLAMA_HOST,
            VERTEX,
            AWS_REGION,
            HF_TOKEN,
            HF_ENDPOINT,
        ],
        see: "[Models](../guides/models.md#providers) lists the variables of each provider, and \
              [local models](../guides/local-models.md#models-of-the-hub) describes the hub.",
    },
    Section {
        heading: "Clusters",
        variables: &[LLM_DO_DATABASE, XDG_CACHE_HOME],
        see: "[More than one machine](../guides/cluster.md) describes clusters.",
    },
    Section {
        heading: "Network",
        variables: &[PROXIES, NO_PROXY, CERTIFICATES, OTEL_EXPORTER_OTLP_HEADERS],
        see: "The names of the proxy variables may also be in lowercase.",
    },
    Section {
        heading: "Python and other programs",
        variables: &[LLM_DO_PYTHON, LLM_DO_NODE, PATH, PYTHON_MANAGERS, PYTHON_FOLDERS, UV, INSTALLERS],
        see: "[Interpreters and packages](../guides/python-tools.md#interpreters-and-packages) has the order of the search.",
    },
    Section {
        heading: "Folders",
        variables: &[LLM_DO_HOME, LLM_DO_MCP_TOKEN, LLM_DO_SERVE_TOKEN, KEYRING, HOME, TMPDIR],
        see: "",
    },
    Section {
        heading: "Terminal",
        variables: &[
            VISUAL,
            EDITOR,
            LLM_DO_KEYS,
            LLM_DO_HISTORY,
            ACCESSIBLE,
            NO_COLOR,
            TERM,
            CLICOLOR,
            COLUMNS,
        ],
        see: "`--color` takes precedence over the variables for colours.",
    },
    Section {
        heading: "Processes",
        variables: &[LOCALE, LLM_DO_EDITOR],
        see: "[Environment](sandbox.md#environment) lists all variables of a confined process.",
    },
];
