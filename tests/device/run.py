#!/usr/bin/env python3
"""Checks that need a real card, in one run of at most eight minutes; prints one table.

usage: tests/device/run.py [--stage DIR] [--build DIR] [--driver DIR] [--minutes N]

Needs a built tree (`./dev build`) and gcc. Held: what can take memory is refused beyond the limit, look-ups give
the wrapper of what the driver gave, the hook's cost, a real PyTorch where one is installed. Compared: what the
simulator assumes about sizes, overheads and attributes. Ends with 0 when everything held, 1 when something did
not, 77 where there is no card. `--driver DIR` takes another driver's folder (the simulator's, to try this script).
"""

import argparse
import ctypes
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "abi")]
MIB = 1 << 20


class Skipped(Exception):
    """A part that cannot run here; the text says why."""


class Table:
    """Rows as they are found; a verdict is held, FAILED, same, differs or skipped."""

    def __init__(self):
        self.rows = []

    def add(self, part, what, expected, found, verdict):
        self.rows.append((part, what, str(expected), str(found), verdict))
        print(f"{part:<10} {what:<66} {expected!s:>22} {found!s:>22}  {verdict}", flush=True)

    def check(self, part, what, expected, found, good):
        self.add(part, what, expected, found, "held" if good else "FAILED")

    def failed(self):
        return sum(row[4] == "FAILED" for row in self.rows)


class Card:
    """The driver under test and where our own things lie."""

    def __init__(self, args, folder):
        self.folder = folder
        self.stage = args.stage
        self.build = args.build
        self.driver = args.driver
        self.hook = args.stage / "lib" / "gpuslice" / "libvgpu.so"
        self.count = 0

    def env(self, limit=None, driver=None):
        """Environment of a program on the card, under a limit in bytes if one is given (a slice of its own)."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("GPUSLICE_", "HAMI_", "CUDA_DEVICE_MEM"))}
        env.pop("LD_PRELOAD", None)
        if driver or self.driver:
            env["LD_LIBRARY_PATH"] = str(driver or self.driver)
            env["GPUSLICE_SIM_DIR"] = str(self.folder / "cards")
        if limit is not None:
            self.count += 1
            env["LD_PRELOAD"] = str(self.hook)
            env["CUDA_DEVICE_MEMORY_LIMIT"] = limit if isinstance(limit, str) else str(limit)
            env["CUDA_DEVICE_MEMORY_SHARED_CACHE"] = str(self.folder / f"slice{self.count}.cache")
        return env

    def run(self, *command, env=None, timeout=60):
        return subprocess.run([str(c) for c in command], env=env or self.env(), text=True, timeout=timeout,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)

    def probe(self, driver=None):
        done = self.run(sys.executable, ROOT / "tests" / "device" / "probe.py", env=self.env(driver=driver))
        if done.returncode:
            raise Skipped(f"the probe ended with {done.returncode}: {done.stderr.strip().splitlines()[-1:]}")
        return json.loads(done.stdout)


def find_card(driver):
    """None, or why there is no card to test."""
    try:
        cuda = ctypes.CDLL(str(driver / "libcuda.so.1") if driver else "libcuda.so.1")
    except OSError:
        return "no libcuda.so.1"
    if rc := cuda.cuInit(0):
        return f"cuInit says {rc}"
    count = ctypes.c_int()
    cuda.cuDeviceGetCount(ctypes.byref(count))
    return None if count.value else "the driver shows no card"


def refusal(table, card, real):
    """Issue row 3. The limit leaves 64 MiB beyond what a context costs on this card."""
    import test_take

    take = test_take.build(card.folder)
    room = 64 * MIB + real["context"]
    for symbol, kind in test_take.attempts(take).items():
        done = card.run(take, symbol, env=card.env(room if kind == "memory" else 1 * MIB))
        calls, _ = test_take.outcome(done)
        if done.returncode == 3 or (calls and calls[-1][1] in ("801", "absent")):
            table.add("refusal", symbol, "out of memory", "not supported here", "skipped")
            continue
        last = calls[-1] if calls else ("nothing", f"exit {done.returncode}")
        if kind == "context" and real["context"] <= MIB:
            table.add("refusal", symbol, "out of memory", "context costs nothing", "skipped")
            continue
        table.check("refusal", symbol, "out of memory", f"{last[1]} at {last[0]}"[:40], last[1] == "2")


def lookups(table, card):
    """Issue row 4, on this card's own driver."""
    import inputs
    import test_lookup

    program = card.folder / "lookup"
    subprocess.run(["gcc", "-O1", "-o", program, ROOT / "tests" / "abi" / "lookup.c"], check=True)
    names, versions = test_lookup.typedefs()
    questions = [f"{form} {name} {version} {flags}" for form in ("proc1", "proc2") for name in names
                 for version in versions for flags in (0, 1, 2)]
    questions += [f"sym {inputs.LIBRARIES[row.library]} {row.symbol}" for row in inputs.rows()]
    folder = card.folder / "driver"
    folder.mkdir()
    for name in inputs.LIBRARIES.values():
        (folder / name).symlink_to(library_path(name, card.driver))
    bare = test_lookup.ask(program, folder, questions)
    held = test_lookup.ask(program, folder, questions, card.hook)
    table_of = test_lookup.Names(folder, card.hook)
    wrong = [text for text in (test_lookup.compare(*t, table_of) for t in zip(questions, bare, held)) if text]
    for text in wrong[:10]:
        print("          ", text)
    table.check("look-up", f"{len(questions)} questions, wrappers of what the driver gave", 0, len(wrong), not wrong)


def library_path(name, folder):
    if folder:
        return folder / name
    with open("/proc/self/maps", encoding="utf-8") as maps:
        ctypes.CDLL(name)
        maps.seek(0)
        for line in maps:
            path = pathlib.Path(line.split()[-1])
            if path.name.startswith(name.removesuffix(".1")):
                return path
    raise Skipped(f"{name} is not loaded")


def cost(table, card):
    """Issue row 10, as far as a real driver's own noise lets it be seen: medians of interleaved runs."""
    client = card.build / "bench" / "hook_client"
    if not client.exists():
        raise Skipped(f"{client} is not built")

    def added(op, live, iterations, limit, rounds=5):
        pairs = []
        for _ in range(rounds):
            both = []
            for env in (card.env(), card.env(limit)):
                done = card.run(client, op, live, iterations, env=env)
                if done.returncode:
                    raise Skipped(done.stderr.strip()[-60:])
                both.append(float(done.stdout.split()[0]))
            pairs.append(both)
        return statistics.median(b - a for a, b in pairs), statistics.median(a for a, _ in pairs)

    for what, op, live, iterations, limit, bound in (
        ("alloc+free adds ns, 0 live", "alloc", 0, 3000, "64Gi", 400),
        ("alloc+free adds ns, 1,000 live", "alloc", 1000, 3000, "64Gi", 400),
        ("launch without a limit adds ns", "launch", 0, 100000, "none", 2),
    ):
        extra, bare = added(op, live, iterations, limit)
        noise = max(bound, bare * 0.02)  # a real driver's own run-to-run spread
        table.check("cost", f"{what} (bare {bare:.0f})", f"<= {noise:.0f}", f"{extra:.0f}", extra <= noise)
    done = card.run(client, "meminfo", 0, 100000, env=card.env("64Gi"))
    found = float(done.stdout.split()[0])
    table.check("cost", "cuMemGetInfo under the hook, ns", "<= 50", f"{found:.0f}", found <= 50)


def pytorch(table, card, real):
    """Issue row 5's line for a real PyTorch, on a real card."""
    limit = 2048 * MIB + real["context"]
    done = card.run(sys.executable, ROOT / "tests" / "frameworks" / "torch_client.py", limit,
                    env=card.env(limit), timeout=180)
    if "No module named 'torch'" in done.stderr:
        raise Skipped("no PyTorch in this Python")
    if done.returncode:
        table.check("pytorch", "client", "exit 0", f"exit {done.returncode}", False)
        print(done.stderr)
        return
    seen = json.loads(done.stdout.splitlines()[-1])
    table.check("pytorch", f"{seen['version']}: mem_get_info total", limit, seen["total"], seen["total"] == limit)
    table.check("pytorch", "beyond the limit", "out of memory", (seen["beyond"] or "granted")[:22], bool(seen["beyond"]))
    table.check("pytorch", "freeing makes room", "granted", seen["second_after_free"], bool(seen["second_after_free"]))


def assumptions(table, card, real):
    """What the simulator assumes, against this card. A difference is news, not a failure."""
    sim_driver = card.stage / "lib" / "gpuslice" / "sim" / "nvidia"
    sim = card.probe(sim_driver)
    table.add("assumption", "context costs", 0, real["context"], "differs" if real["context"] else "same")
    for what, found in real["facts"].items():
        expected = sim["facts"].get(what)
        table.add("assumption", what, expected, found, "same" if expected == found else "differs")
    same = [n for n, v in real["attributes"].items() if sim["attributes"].get(n) == v]
    unknown = sorted(set(real["attributes"]) - set(sim["attributes"]), key=int)
    table.add("assumption", "attributes the simulator does not know", "[]", f"[{' '.join(unknown)}]"[:40],
              "same" if not unknown else "differs")
    table.add("assumption", "attributes with this card's value (models differ)", len(real["attributes"]), len(same), "same")


def context_cost(card):
    """What a context costs: the card's own used memory as NVML has it, before and while one exists."""
    code = (
        "import ctypes as c\n"
        "class M(c.Structure): _fields_=[(n,c.c_ulonglong) for n in ('t','f','u')]\n"
        "n=c.CDLL('libnvidia-ml.so.1'); d=c.c_void_p(); m=M(); n.nvmlInit_v2()\n"
        "n.nvmlDeviceGetHandleByIndex_v2(0,c.byref(d)); n.nvmlDeviceGetMemoryInfo(d,c.byref(m)); a=m.u\n"
        "k=c.CDLL('libcuda.so.1'); x=c.c_void_p(); k.cuInit(0); assert k.cuDevicePrimaryCtxRetain(c.byref(x),0)==0\n"
        "n.nvmlDeviceGetMemoryInfo(d,c.byref(m)); print(m.u-a)\n"
    )
    done = card.run(sys.executable, "-c", code)
    return int(done.stdout) if done.returncode == 0 else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--stage", type=pathlib.Path, default=ROOT / "build" / "stage")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--driver", type=pathlib.Path)
    parser.add_argument("--minutes", type=float, default=8)
    args = parser.parse_args()
    if why := find_card(args.driver):
        print(f"skipped: no NVIDIA card here ({why})")
        return 77
    end = time.monotonic() + args.minutes * 60
    folder = pathlib.Path(tempfile.mkdtemp(prefix="gpuslice-device-"))
    table, card = Table(), Card(args, folder)
    (folder / "cards").mkdir()
    try:
        real = card.probe()
        real["context"] = context_cost(card)
        print(f"{real['name']}, driver {real['driver']}, {real['total'] // MIB} MiB, a context costs "
              f"{real['context'] // MIB} MiB\n")
        print(f"{'part':<10} {'what':<66} {'expected':>22} {'found':>22}  verdict")
        for name, part in (("refusal", lambda: refusal(table, card, real)), ("look-up", lambda: lookups(table, card)),
                           ("cost", lambda: cost(table, card)), ("pytorch", lambda: pytorch(table, card, real)),
                           ("assumption", lambda: assumptions(table, card, real))):
            if time.monotonic() > end:
                table.add(name, "", "", "out of time", "FAILED")
                continue
            try:
                part()
            except BaseException as error:  # pytest's skip is no Exception; one part must not take the others along
                if isinstance(error, KeyboardInterrupt):
                    raise
                gone = isinstance(error, Skipped) or type(error).__name__ == "Skipped"
                table.add(name, str(error).splitlines()[0][:66] if str(error) else "", "", type(error).__name__,
                          "skipped" if gone else "FAILED")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"\n{len(table.rows)} rows, {table.failed()} failed")
    return 1 if table.failed() else 0


sys.exit(main())
