# The start of the process.


def enter_view(mounts: Iterable[Tuple[str, str]]) -> None:
    """Makes a working directory that shows the mounts as the worker names them: `open("input/a.txt")`.

    It is a folder of links. A file written beside them would be lost with the process, so the folder is read-only
    where the temporary folder is private to the process and needs no removal (tier A).
    """
    temporary = os.environ.get("TMPDIR") or "/tmp"
    folder = os.path.join(temporary, ".llm-do-view")
    try:
        os.mkdir(folder)
        for at, path in mounts:
            link = os.path.join(folder, at.strip("/"))
            if "/" not in at.strip("/"):
                os.symlink(path, link)
        if temporary in ("/tmp", "/dev/shm"):
            os.chmod(folder, 0o555)
        os.chdir(folder)
    except OSError as error:
        os.write(2, f"the working directory can't show the mounts: {error}\n".encode())


def main(argument: str, view: str = "") -> None:
    if not sys.flags.isolated:
        del sys.path[0]  # The folder of this file.
    fd = int(argument)
    if view:
        enter_view(decode(view))
    # A high number, so that code which closes or writes to low numbers does not affect it.
    limit = os.sysconf("SC_OPEN_MAX")
    try:
        high = os.dup2(fd, (min(limit, 4096) if limit > 0 else 4096) - 7, inheritable=False)
    except OSError:
        high = os.dup(fd)
    os.close(fd)
    channel = Channel(high)
    host = Host(channel)
    host.install()
    import faulthandler

    faulthandler.enable(2, all_threads=False)  # A crash prints its line to standard error.
    _set_signal(_signal.SIGINT, interrupts.on_signal)
    version = "{}.{}.{}".format(*sys.version_info)
    channel.send(
        {
            "t": "ready",
            "version": version,
            "executable": sys.executable,
            "prefix": sys.prefix,
            "pid": HOST_PID,
        }
    )
    try:
        host.run()
    except BaseException:
        report_bug()


if __name__ == "__main__":
    main(*sys.argv[1:])
