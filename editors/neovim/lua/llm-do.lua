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

local clients = {}

local function attach(options, buffer)
  local path = vim.api.nvim_buf_get_name(buffer)
  if path == "" or not M.is_known(path) then
    return
  end
  local root = M.root(path)
  -- A client may have ended.
  if clients[root] and not vim.lsp.get_client_by_id(clients[root]) then
    clients[root] = nil
  end
  clients[root] = clients[root]
    or vim.lsp.start_client({
      name = "llm-do",
      cmd = options.cmd or { "llm-do", "lsp" },
      root_dir = root,
      init_options = { trusted = options.trusted == true },
      capabilities = options.capabilities or vim.lsp.protocol.make_client_capabilities(),
      on_attach = options.on_attach,
    })
  if clients[root] then
    vim.lsp.buf_attach_client(buffer, clients[root])
  end
end

--- Options: `cmd` (default `llm-do lsp`), `trusted` (the server may inspect Python tools; default false), `capabilities`, `on_attach`.
function M.setup(options)
  options = options or {}
  vim.api.nvim_create_autocmd({ "BufReadPost", "BufNewFile" }, {
    group = vim.api.nvim_create_augroup("llm-do", { clear = true }),
    callback = function(event)
      attach(options, event.buf)
    end,
  })
  -- Files that are open already.
  for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
    if vim.api.nvim_buf_is_loaded(buffer) then
      attach(options, buffer)
    end
  end
end

return M
