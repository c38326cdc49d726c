"""Names of the suites' functions as tools."""

#: Names of llm-do's own tools, which no other function may have.
RESERVED = {"delete_file", "list_files", "read_file", "search_files"}


def tool_name(function):
    return f"suite_{function}" if function in RESERVED else function
