"""Data goes one way: report every #include that a room may not make. The table is the rule."""

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
    "node": ["core", "base", "contract", "model", "net", "kube"],
    "control": ["core", "base", "contract", "model", "net", "kube"],
    "monitor": ["core", "base", "contract", "net", "kube"],
    "vendors/*/abi": [],
    "vendors/*/policy": ["core", "base", "contract", "model"],
    "vendors/*/node": ["core", "base", "contract", "model", "node", "vendors/*/abi"],
    "vendors/*/hook": ["core", "contract", "hook", "vendors/*/abi"],
    "vendors/*/sim": ["core", "vendors/*/abi"],
    "vendors": ["core", "base", "contract", "model", "node", "vendors/*/node", "vendors/*/policy"],
    "apps": ["core", "base", "contract", "model", "net", "kube", "node", "control", "monitor", "vendors"],
}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def room_of(path: str):
    """(room pattern, vendor) of a path below src/."""
    parts = path.split("/")
    if parts[0] == "vendors" and len(parts) > 3:
        return f"vendors/*/{parts[2]}", parts[1]
    return parts[0], None


def main() -> int:
    src = pathlib.Path(__file__).resolve().parent.parent / "src"
    bad = 0
    for file in sorted(src.rglob("*.[chS]")) + sorted(src.rglob("*.def")):
        rel = file.relative_to(src).as_posix()
        room, vendor = room_of(rel)
        if room not in MAY:
            print(f"{rel}: room '{room}' is not in the table")
            bad += 1
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            hit = INCLUDE.match(line)
            if not hit:
                continue
            target = hit.group(1)
            if "/" not in target:
                if not (src / rel).parent.joinpath(target).exists() and not target.endswith(".inc.h"):
                    print(f"{rel}:{number}: include \"{target}\" from src/, as in \"room/{target}\"")
                    bad += 1
                continue
            troom, tvendor = room_of(target)
            crosses = vendor and tvendor and vendor != tvendor
            if crosses or (troom != room and troom not in MAY[room]):
                print(f"{rel}:{number}: {room} may not include {target}")
                bad += 1
    return 1 if bad else 0


sys.exit(main())
