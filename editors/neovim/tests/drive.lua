-- Run by tests/run inside Neovim.
local project = vim.env.LLM_DO_PROJECT_OF_TEST
local cmd = vim.split(vim.env.LLM_DO_SERVER_OF_TEST, "\n")
local clients = vim.lsp.get_clients or vim.lsp.get_active_clients
local passed, failed = 0, 0

local function test(name, work)
  local ok, problem = pcall(work)
  if ok then
    passed = passed + 1
  else
    failed = failed + 1
  end
  io.write((ok and "ok    " or "FAIL  ") .. name .. (ok and "" or "\n      " .. tostring(problem)) .. "\n")
end
local function same(got, wanted)
  assert(vim.deep_equal(got, wanted), "got " .. vim.inspect(got) .. ", not " .. vim.inspect(wanted))
end
--- The names of the syntax items at the first place of a text, from outside to inside.
local function syntax_at(text)
  -- Changed lines are read when the screen is drawn.
  vim.cmd("redraw")
  local line, column = unpack(vim.fn.searchpos("\\V" .. text, "nw"))
  assert(line > 0, "the buffer lacks " .. text)
  return vim.tbl_map(function(id)
    return vim.fn.synIDattr(id, "name")
  end, vim.fn.synstack(line, column))
end
local function has(list, name)
  assert(vim.tbl_contains(list, name), name .. " is not in " .. vim.inspect(list))
end
local function lacks(list, name)
  assert(not vim.tbl_contains(list, name), name .. " is in " .. vim.inspect(list))
end

--- The language and the last capture of each text that tree-sitter highlights.
local function captured(tree, source, found)
  found = found or {}
  local query = (vim.treesitter.query.get or vim.treesitter.get_query)(tree:lang(), "highlights")
  for _, one in pairs(query and tree:trees() or {}) do
    for id, node in query:iter_captures(one:root(), source, 0, -1) do
      found[vim.treesitter.get_node_text(node, source)] = tree:lang() .. " " .. query.captures[id]
    end
  end
  for _, child in pairs(tree:children()) do
    captured(child, source, found)
  end
  return found
end

--- Whether Markdown highlights a heading with this text. Each version of its queries has other names and nodes.
local function is_heading(captures, text)
  for node, label in pairs(captures) do
    if vim.trim(node:gsub("^#+", "")) == text and (label:match("^markdown .*title") or label:match("^markdown .*heading")) then
      return true
    end
  end
  return false
end

vim.cmd("filetype plugin on | syntax on")
local llm_do = require("llm-do")
llm_do.setup({ cmd = cmd, trusted = false })
vim.cmd("edit " .. project .. "/main.worker")
local buffer = vim.api.nvim_get_current_buf()

test("a worker file has its type", function()
  same(vim.bo.filetype, "worker")
end)
test("front matter, Markdown and Jinja are told apart", function()
  has(syntax_at("description"), "workerFrontMatter")
  lacks(syntax_at("{{ text"), "workerOutput")
  has(syntax_at("Head"), "markdownH1")
  has(syntax_at("name |"), "workerVariable")
  has(syntax_at("upper"), "workerFilter")
  has(syntax_at("note"), "workerComment")
  has(syntax_at("if name"), "workerKeyword")
  same(syntax_at("sure"), {})
end)
test("the server finds a wrong value, and forgets it when it is gone", function()
  assert(vim.wait(60000, function()
    return #vim.diagnostic.get(buffer) > 0
  end, 50), "no finding came")
  local finding = vim.tbl_filter(function(one)
    return one.message:find("locked", 1, true) ~= nil
  end, vim.diagnostic.get(buffer))[1]
  assert(finding, vim.inspect(vim.diagnostic.get(buffer)))
  same({ finding.lnum, finding.col }, { 2, 8 })
  vim.api.nvim_buf_set_lines(buffer, 2, 3, false, {})
  assert(vim.wait(60000, function()
    return vim.tbl_isempty(vim.tbl_filter(function(one)
      return one.message:find("locked", 1, true) ~= nil
    end, vim.diagnostic.get(buffer)))
  end, 50), "the finding stayed")
end)
test("without its grammars, tree-sitter does not take the colours of the syntax", function()
  same(llm_do.highlight(buffer), false)
  has(syntax_at("Head"), "markdownH1")
end)
test("tree-sitter highlights a worker file, with YAML and Markdown inside", function()
  vim.opt.runtimepath:append(vim.env.LLM_DO_GRAMMARS_OF_TEST)
  same(llm_do.highlight(buffer), true)
  same(vim.bo.syntax, "")
  local parser = vim.treesitter.get_parser(buffer, "worker")
  parser:parse(true)
  local captures = captured(parser, buffer)
  same(captures["description"], "yaml property")
  assert(is_heading(captures, "Head"), vim.inspect(captures))
  same(captures["name"], "worker variable")
  same(captures["upper"], "worker function")
  same(captures["endif"], "worker keyword")
  same(captures["{# note #}"], "worker comment")
  local markdown = parser:children().markdown
  -- The text between Jinja is one document.
  same(vim.tbl_count(markdown:trees()), 1)
end)
test("the next worker file is highlighted by tree-sitter from the start", function()
  vim.cmd("edit " .. project .. "/workers/deep.worker")
  local deep = vim.api.nvim_get_current_buf()
  assert(vim.wait(10000, function()
    return vim.treesitter.highlighter.active[deep] ~= nil
  end, 20), "tree-sitter did not start")
end)
test("the prompt of a worker in YAML has Jinja and Markdown", function()
  vim.cmd("edit " .. project .. "/workers/short.yaml")
  local short = vim.api.nvim_get_current_buf()
  assert(vim.wait(10000, function()
    return vim.treesitter.highlighter.active[short] ~= nil
  end, 20), "tree-sitter did not start")
  local parser = vim.treesitter.get_parser(short, "yaml")
  parser:parse(true)
  local captures = captured(parser, short)
  same(captures["description"], "yaml property")
  same(captures["title"], "worker variable")
  same(captures["lower"], "worker function")
  assert(is_heading(captures, "Tail"), vim.inspect(captures))
  same(captures["{{ no }}"], nil)
  same(captures["no"], nil)
  vim.cmd("buffer " .. buffer)
end)
test("files of a program are known, others are not", function()
  for path, known in pairs({ ["/a/main.worker"] = true, ["/a/llm-do.yaml"] = true, ["/a/b.cases.yaml"] = true, ["/a/workers/b/c.yml"] = true, ["/a/b.yaml"] = false, ["/a/worker"] = false }) do
    same({ path, llm_do.is_known(path) }, { path, known })
  end
  same(llm_do.root(project .. "/workers/deep/a.worker"), project)
end)
test("files of one program share a server", function()
  vim.cmd("edit! " .. project .. "/main.cases.yaml")
  same(#clients(), 1)
  assert(vim.lsp.buf_is_attached(0, clients()[1].id))
end)

io.write(string.format("%d passed, %d failed\n", passed, failed))
vim.lsp.stop_client(clients(), true)
vim.cmd(failed == 0 and "qall!" or "cquit")
