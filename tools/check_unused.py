"""usage: check_unused.py BUILD: functions and variables of src/ with external linkage that no other file uses.

They are dead, or should be static. Uses by tests count: a test may look at what its module keeps to itself
otherwise. BUILD has its tests built; objects of sources that are gone do not count."""

import collections
import json
import pathlib
import re
import subprocess
import sys

# Parts of a type's interface that its own room may be the only one to need.
FOR_CLEANUP = re.compile(r"gs_\w+_free_p")


def objects(build: pathlib.Path):
    """(object, source) of everything that is compiled now."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = build / entry["output"]
        if file.exists():
            yield file, (build / entry["file"]).resolve()


def symbols(files):
    """(object, symbol, is defined there) of external symbols."""
    text = subprocess.check_output(["nm", "-A", "-g", "--format=posix", *map(str, files)], text=True)
    for line in text.splitlines():
        file, _, rest = line.partition(": ")
        name, kind = rest.split()[:2]
        yield pathlib.Path(file), name, kind not in "Uwv"


def unused(build: pathlib.Path, src: pathlib.Path):
    source = dict(objects(build))
    defined, used = {}, collections.defaultdict(set)
    for file, name, is_defined in symbols(source):
        if not is_defined:
            used[name].add(source[file])
        elif name.startswith("gs_") and source[file].is_relative_to(src):
            defined.setdefault(name, source[file])
    for name, file in sorted(defined.items(), key=lambda item: (item[1], item[0])):
        if not used[name] - {file} and not FOR_CLEANUP.fullmatch(name):
            yield f"{file.relative_to(src.parent)}: {name} is used by no other file: it is dead, or static"


def main():
    messages = list(unused(pathlib.Path(sys.argv[1]), pathlib.Path(__file__).resolve().parent.parent / "src"))
    print(*messages, sep="\n", end="\n" if messages else "")
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main())
