"""What a file of src/ may include, and whom it may name. The tables are the rules:
data goes one way between rooms, modules of one room do not go round in circles, engines name no vendor."""

import pathlib
import re
import sys

# room -> rooms it may include (itself always). First match of the longest prefix wins.
MAY = {
    "core": [],
    "base": ["core"],
    "contract": ["core"],
    "model": ["core", "contract", "base"],
    "hook": ["core", "contract"],
    "net": ["core", "base"],
    "kube": ["core", "base", "net"],
    "cluster": ["core", "base", "contract", "model", "net", "kube"],
    "node": ["core", "base", "contract", "model", "net", "kube", "cluster"],
    "control": ["core", "base", "contract", "model", "net", "kube", "cluster"],
    "monitor": ["core", "base", "contract", "model", "net", "kube"],
    "vendors/*/abi": [],
    "vendors/*/policy": ["core", "base", "contract", "model"],
    "vendors/*/node": ["core", "base", "contract", "model", "node", "vendors/*/abi", "vendors/*/policy"],
    "vendors/*/hook": ["core", "contract", "hook", "vendors/*/abi"],
    "vendors/*/sim": ["core", "vendors/*/abi"],
    "vendors": ["core", "base", "contract", "model", "node", "vendors/*/node", "vendors/*/policy"],
    "apps": ["core", "base", "contract", "model", "net", "kube", "cluster", "node", "control", "monitor", "vendors"],
}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
COMMENT = re.compile(r"/\*.*?\*/", re.S)

# Folders whose modules did include each other before the rule was made, and which modules: what is not
# listed may not begin to. The hook's and the simulator's halves are state machines of one life each
# (engine and limiter, context and stream), the ledger's header is written for the quota's; none of them
# goes to be rearranged for a rule alone.
OLD_CIRCLES = {
    "apps/gpuslice": "book debt home log slice",
    "contract": "ledger quota",
    "hook": "attach bucket engine gate limiter limiter_look limits lookup mirror rebind resize share slot "
            "suspend trace",
    "vendors/nvidia/abi": "cuda_types cuda_work_types",
    "vendors/nvidia/hook": "capture copy cubin graph launch meter pool pool_map pool_ptr ptx vmm",
    "vendors/nvidia/sim": "apictx capture context context_life event_share graph_memory graph_object holders "
                          "hostcall image image_ptx import low managed memory process stream stream_object",
}


def room_of(path: str):
    """(room pattern, vendor) of a path below src/."""
    parts = path.split("/")
    if parts[0] == "vendors" and len(parts) > 3:
        return f"vendors/*/{parts[2]}", parts[1]
    return parts[0], None


def includes(file: pathlib.Path):
    """(line number, included file) of a file's own includes."""
    for number, line in enumerate(file.read_text().splitlines(), 1):
        hit = INCLUDE.match(line)
        if hit:
            yield number, hit.group(1)


def check_includes(src: pathlib.Path, rel: str):
    room, vendor = room_of(rel)
    if room not in MAY:
        yield f"{rel}: room '{room}' is not in the table"
        return
    for number, target in includes(src / rel):
        if "/" not in target:
            if not (src / rel).parent.joinpath(target).exists() and not target.endswith(".inc.h"):
                yield f'{rel}:{number}: include "{target}" from src/, as in "room/{target}"'
            continue
        troom, tvendor = room_of(target)
        crosses = vendor and tvendor and vendor != tvendor
        if crosses or (troom != room and troom not in MAY[room]):
            yield f"{rel}:{number}: {room} may not include {target}"


def check_names(src: pathlib.Path, rel: str):
    """An engine that names a vendor in its code has to be changed for the next one, too."""
    vendors = [path.name for path in src.glob("vendors/*") if path.is_dir()]
    if not vendors or rel.split("/")[0] in ("vendors", "apps"):
        return
    word = re.compile(rf"(?<![a-z])({'|'.join(vendors)})(?![a-z0-9])", re.I)
    code = COMMENT.sub(lambda text: "\n" * text.group().count("\n"), (src / rel).read_text())
    for number, line in enumerate(code.splitlines(), 1):
        hit = word.search(line)
        if hit:
            yield f"{rel}:{number}: an engine names the vendor {hit.group().lower()}"


def module_of(src: pathlib.Path, rel: str) -> str:
    """x.c and x.h are a module; x_internal.h is part of it, and so is a source that has no header of its own
    and includes that one."""
    path = pathlib.PurePosixPath(rel)
    if path.suffix == ".c" and not (src / rel).with_suffix(".h").exists():
        for _, target in includes(src / rel):
            if target.endswith("_internal.h") and pathlib.PurePosixPath(target).parent == path.parent:
                path = pathlib.PurePosixPath(target)
    return str(path.with_suffix("")).removesuffix("_internal")


def circles(edges):
    """Sets of modules each of which leads to all others of its set (Tarjan's components of two and more)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return sorted(found)


def check_circles(src: pathlib.Path, files, old):
    edges = {}
    for rel in files:
        module = module_of(src, rel)
        for _, target in includes(src / rel):
            other = module_of(src, target)
            if other != module and other.rpartition("/")[0] == module.rpartition("/")[0]:
                edges.setdefault(module, set()).add(other)
    known = {f"{folder}/{name}" for folder, names in old.items() for name in names.split()}
    gone = set(known)
    for circle in circles(edges):
        gone -= set(circle)
        new = [module for module in circle if module not in known]
        if new:
            yield f"{', '.join(new)}: includes go round in a circle: {' '.join(circle)}"
    for module in sorted(gone):
        yield f"{module}: is in no circle any more: take it off the list of tools/check_rooms.py"


def check(src: pathlib.Path, old):
    files = [file.relative_to(src).as_posix()
             for file in sorted(src.rglob("*.[chS]")) + sorted(src.rglob("*.def"))]
    for rel in files:
        yield from check_includes(src, rel)
        yield from check_names(src, rel)
    yield from check_circles(src, [rel for rel in files if rel.endswith((".c", ".h"))], old)


if __name__ == "__main__":
    messages = list(check(pathlib.Path(__file__).resolve().parent.parent / "src", OLD_CIRCLES))
    print(*messages, sep="\n", end="\n" if messages else "")
    sys.exit(1 if messages else 0)
