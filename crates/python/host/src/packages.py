# Packages: which files and package versions a module uses.


def local_files(root: str, first: str) -> List[str]:
    """The files of imported modules below root, with `first` first.

    They include modules that other tools of this process imported before, because a module that is loaded
    already shows no import. So the list may be too long, but never too short.
    """
    files = [first]
    real_root = os.path.realpath(root)
    for module in list(sys.modules.values()):
        file = file_of(module)
        if file and file not in files and not is_installed(file):
            if is_below(file, root) or is_below(os.path.realpath(file), real_root):
                files.append(file)
    return files


def is_installed(file: str) -> bool:
    return "/site-packages/" in file or "/dist-packages/" in file


STANDARD_LIBRARY = os.path.dirname(os.path.realpath(os.__file__))


class Packages:
    """The versions of the packages that modules import, from the names of their `.dist-info` folders.

    The import of `importlib.metadata` alone would take longer.
    """

    def __init__(self) -> None:
        #: Modules that were imported before any user code ran.
        self.before = {name.partition(".")[0] for name in sys.modules}
        self.folders: Dict[str, Dict[str, str]] = {}
        self.versions: Dict[str, str] = {}

    def imported(self, root: str) -> Dict[str, str]:
        real_root = os.path.realpath(root)
        result = {}
        for name, module in list(sys.modules.items()):
            if "." in name or name in self.before or name == "llm_do":
                continue
            file = file_of(module)
            if file is None:
                continue
            if not is_installed(file):
                real = os.path.realpath(file)
                if is_below(real, STANDARD_LIBRARY) or is_below(file, root) or is_below(real, real_root):
                    continue
            if name not in self.versions:
                self.versions[name] = self.version(name, file)
            result[name] = self.versions[name]
        return result

    def version(self, name: str, file: str) -> str:
        """The version of a distribution, or else the modification time of the file."""
        folder = os.path.dirname(
            os.path.dirname(file) if os.path.basename(file).startswith("__init__.") else file
        )
        for place in (folder, *(entry for entry in sys.path if is_installed(entry + "/"))):
            if place not in self.folders:
                self.folders[place] = self.read(place)
            version = self.folders[place].get(name.lower().replace("_", "-"))
            if version:
                return version
        try:
            return f"file {os.stat(file).st_mtime_ns}"
        except OSError:
            return "unknown"

    @staticmethod
    def read(folder: str) -> Dict[str, str]:
        """Versions by the names of distributions and of their modules, in lower case with hyphens."""
        names: Dict[str, str] = {}
        modules: Dict[str, str] = {}
        try:
            entries = os.listdir(folder)
        except OSError:
            return names
        for entry in entries:
            if not entry.endswith(".dist-info"):
                continue
            name, _, version = entry[: -len(".dist-info")].partition("-")
            names[name.lower().replace("_", "-").replace(".", "-")] = version
            try:
                with open(
                    os.path.join(folder, entry, "RECORD"), encoding="utf-8", errors="replace"
                ) as record:
                    tops = {line.partition(",")[0].partition("/")[0].partition(".")[0] for line in record}
            except OSError:
                continue
            for top in tops:
                modules.setdefault(top.lower().replace("_", "-"), version)
        return {**modules, **names}
