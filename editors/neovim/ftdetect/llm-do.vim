" Worker files have a type of their own. Manifests and cases stay YAML, and the language server knows them by their names.
autocmd BufRead,BufNewFile *.worker setfiletype worker
