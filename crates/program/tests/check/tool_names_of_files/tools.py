def delete_file(path: str) -> str:
    return path


def shell(command: str) -> str:
    return command
