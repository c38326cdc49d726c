# The start of the process.


def main(argument: str) -> None:
    fd = int(argument)
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
    except BaseException:  # A bug in this file. A normal exit would wait for the threads of tools.
        import traceback

        os.write(2, traceback.format_exc().encode("utf-8", "replace"))
        _exit(70)


if __name__ == "__main__":
    main(sys.argv[1])
