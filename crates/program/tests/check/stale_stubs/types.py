# llm-do-stubs: python 0123456789abcdef0123456789abcdef
