-- Starts the language server of llm-do: require("llm-do").setup()
local M = {}

-- Files that mark the folder of a program.
local marks = { "project.yaml", "llm-do.yaml", "main.worker" }

--- Returns whether the language server knows the file.
function M.is_known(path)
  local name = vim.fn.fnamemodify(path, ":t")
  return path:match("%.worker$") ~= nil
    or vim.tbl_contains({ "project.yaml", "llm-do.yaml", "lib.yaml" }, name)
    or name:match("%.cases%.ya?ml$") ~= nil
    or name:match("%.cases%.jsonl$") ~= nil
    or path:match("/workers/.*%.ya?ml$") ~= nil
end

--- Returns the folder of the program around a file, or else the file's own folder.
function M.root(path)
  local folder = vim.fn.fnamemodify(path, ":p:h")
  local at = folder
  while true do
    for _, mark in ipairs(marks) do
      if vim.fn.filereadable(at .. "/" .. mark) == 1 then
        return at
      end
    end
    local up = vim.fn.fnamemodify(at, ":h")
    if up == at then
      return folder
    end
    at = up
  end
end

-- The client of each root, before Neovim 0.9.
local clients = {}

local function attach(options, buffer)
  local path = vim.api.nvim_buf_get_name(buffer)
  if path == "" or not M.is_known(path) then
    return
  end
  local root = M.root(path)
  local config = {
    name = "llm-do",
    cmd = options.cmd or { "llm-do", "lsp" },
    root_dir = root,
    init_options = { trusted = options.trusted == true },
    capabilities = options.capabilities or vim.lsp.protocol.make_client_capabilities(),
    on_attach = options.on_attach,
  }
  if vim.fn.has("nvim-0.9") == 1 then
    -- Starts one client for each root.
    vim.lsp.start(config, { bufnr = buffer })
    return
  end
  -- A client may have ended.
  if clients[root] and not vim.lsp.get_client_by_id(clients[root]) then
    clients[root] = nil
  end
  clients[root] = clients[root] or vim.lsp.start_client(config)
  if clients[root] then
    vim.lsp.buf_attach_client(buffer, clients[root])
  end
end

local function has_parser(language)
  return (pcall(vim.treesitter.language.inspect or vim.treesitter.inspect_language, language))
end

--- Versions before 0.9 name the parts of an injection in their own way.
local function convert(language)
  local files = vim.treesitter.query.get_query_files(language, "injections")
  local query = table.concat(vim.tbl_map(function(file)
    return table.concat(vim.fn.readfile(file), "\n")
  end, files), "\n")
  query = query:gsub("injection%.combined%)", "combined true)"):gsub("injection%.", "")
  vim.treesitter.query.set_query(language, "injections", query)
end

--- Highlights a worker file with tree-sitter instead of the Vim syntax. Returns false for other files, and without the grammars of all
--- languages in it: front matter or instructions would lose their colours.
function M.highlight(buffer)
  local language = ({ worker = "worker", yaml = "yaml" })[vim.bo[buffer].filetype]
  if not language or not M.is_known(vim.api.nvim_buf_get_name(buffer)) then
    return false
  end
  for _, needed in ipairs({ "worker", "yaml", "markdown" }) do
    if not has_parser(needed) then
      return false
    end
  end
  if vim.fn.has("nvim-0.9") == 0 then
    convert("worker")
    convert("yaml")
  end
  if vim.treesitter.start then
    vim.treesitter.start(buffer, language)
  else
    vim.treesitter.highlighter.new(vim.treesitter.get_parser(buffer, language))
  end
  return true
end

--- Options: `cmd` (default `llm-do lsp`), `trusted` (the server may inspect Python tools; default false), `tree_sitter` (highlight with
--- tree-sitter if its grammars are there; default true), `capabilities`, `on_attach`.
function M.setup(options)
  options = options or {}
  local function highlight(buffer)
    if options.tree_sitter == false then
      return
    end
    -- The Vim syntax comes with the same event, and would come afterwards.
    vim.schedule(function()
      if vim.api.nvim_buf_is_valid(buffer) then
        M.highlight(buffer)
      end
    end)
  end
  vim.api.nvim_create_autocmd({ "BufReadPost", "BufNewFile" }, {
    group = vim.api.nvim_create_augroup("llm-do", { clear = true }),
    callback = function(event)
      attach(options, event.buf)
    end,
  })
  vim.api.nvim_create_autocmd("FileType", {
    group = "llm-do",
    pattern = { "worker", "yaml" },
    callback = function(event)
      highlight(event.buf)
    end,
  })
  -- Files that are open already.
  for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
    if vim.api.nvim_buf_is_loaded(buffer) then
      attach(options, buffer)
      highlight(buffer)
    end
  end
end

return M
