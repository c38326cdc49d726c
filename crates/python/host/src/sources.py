# Sources: the code of programs and libraries is compiled from its source.

STANDARD_LIBRARY = os.path.dirname(os.path.realpath(os.__file__))


def is_installed(file: str) -> bool:
    return "/site-packages/" in file or "/dist-packages/" in file


_external: Any = sys.modules["_frozen_importlib_external"]


class SourceLoader(_external.SourceFileLoader):  # type: ignore[misc, name-defined]
    """Loads a module from its source, whatever bytecode lies beside it."""

    def get_code(self, fullname: str) -> Any:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class Anything:
    """Contains every name."""

    def __contains__(self, name: object) -> bool:
        return True


class SourceFinder(_external.FileFinder):  # type: ignore[misc, name-defined]
    """Finds modules also in a folder whose files are readable and that can't be listed, as in tier B."""

    def _fill_cache(self) -> None:
        try:
            os.listdir(self.path)
        except PermissionError:
            self._path_cache = self._relaxed_path_cache = Anything()
        else:
            super()._fill_cache()


def import_sources() -> None:
    """Makes imports ignore bytecode, except that of the standard library and of installed packages.

    A `__pycache__` beside a module, or a `.pyc` in the place of one, may hold other code than the source that
    somebody has reviewed and `llm-do.lock` has pinned.
    """
    import _imp  # type: ignore[import-not-found]

    installed = [STANDARD_LIBRARY, *(path for path in sys.path if is_installed(path + "/"))]
    loaders = (
        (_external.ExtensionFileLoader, _imp.extension_suffixes()),
        (SourceLoader, _external.SOURCE_SUFFIXES),
    )

    def finder(path: str) -> Any:
        if not os.path.isdir(path) or any(is_below(path, place) for place in installed):
            raise ImportError("not a folder of the program")
        return SourceFinder(path, *loaders)

    sys.path_hooks.insert(0, finder)
    for path in list(sys.path_importer_cache):
        if not any(is_below(path, place) for place in installed):
            del sys.path_importer_cache[path]
