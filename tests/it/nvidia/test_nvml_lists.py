"""Two slices share a card. What each sees of it through NVML: its own processes, by the numbers it knows
them by, with the bytes that are charged to them."""

import pathlib
import subprocess
import sys
import textwrap

import pytest

HERE = pathlib.Path(__file__).resolve().parent
MIB = 1 << 20
INSUFFICIENT_SIZE, INVALID_ARGUMENT, NOT_FOUND = 7, 2, 6

HOLDER = textwrap.dedent("""
    import sys
    from cu import *
    c = Cuda()
    p = c.alloc(int(sys.argv[1]))
    print("ready", flush=True)
    sys.stdin.read()
""")

WATCHER = textwrap.dedent("""
    import json, sys
    from cu import *
    n = C.CDLL("libnvidia-ml.so.1")
    assert n.nvmlInit_v2() == 0
    h = C.c_void_p()
    assert n.nvmlDeviceGetHandleByIndex_v2(0, C.byref(h)) == 0

    class V1(C.Structure):
        _fields_ = [("pid", C.c_uint), ("used", C.c_uint64)]

    class V3(C.Structure):
        _fields_ = V1._fields_ + [("gi", C.c_uint), ("ci", C.c_uint)]

    class Memory(C.Structure):
        _fields_ = [("total", C.c_uint64), ("free", C.c_uint64), ("used", C.c_uint64)]

    class Memory2(C.Structure):
        _fields_ = [("version", C.c_uint), ("total", C.c_uint64), ("reserved", C.c_uint64),
                    ("free", C.c_uint64), ("used", C.c_uint64)]

    def processes(name, record, room):
        count = C.c_uint(room)
        infos = (record * room)()
        code = getattr(n, name)(h, C.byref(count), infos if room else None)
        return [code, count.value, [[i.pid, i.used] for i in infos[:count.value]] if code == 0 else []]

    out = {}
    out["v3"] = processes("nvmlDeviceGetComputeRunningProcesses_v3", V3, 32)
    out["v2"] = processes("nvmlDeviceGetComputeRunningProcesses_v2", V3, 32)
    out["v1"] = processes("nvmlDeviceGetComputeRunningProcesses", V1, 32)
    out["asked"] = processes("nvmlDeviceGetComputeRunningProcesses_v3", V3, 0)
    out["short"] = processes("nvmlDeviceGetComputeRunningProcesses_v3", V3, 1)
    out["graphics"] = processes("nvmlDeviceGetGraphicsRunningProcesses_v3", V3, 32)
    out["null"] = n.nvmlDeviceGetComputeRunningProcesses_v3(h, C.byref(C.c_uint(4)), None)
    m, m2 = Memory(), Memory2()
    out["memory"] = [n.nvmlDeviceGetMemoryInfo(h, C.byref(m)), m.total, m.free, m.used]
    m2.version = C.sizeof(m2) | 2 << 24
    out["memory2"] = [n.nvmlDeviceGetMemoryInfo_v2(h, C.byref(m2)), m2.total, m2.free, m2.used, m2.reserved]
    print(json.dumps(out))
""")


class Slice:
    def __init__(self, sim, name, limit):
        self.env = sim.hook_env(limit, ledger=name, PYTHONPATH=HERE)
        self.sim = sim
        self.holders = []

    def hold(self, n):
        p = subprocess.Popen([sys.executable, "-c", HOLDER, str(n)], env=self.env, text=True,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert p.stdout.readline().strip() == "ready"
        self.holders.append(p)
        return p.pid

    def watch(self):
        import json

        out = self.sim.python(WATCHER, env=self.env)
        assert out.returncode == 0, out.stderr
        return json.loads(out.stdout)

    def end(self):
        for p in self.holders:
            p.kill()
            p.wait()


@pytest.fixture
def slices(sim):
    made = [Slice(sim, "one", "256Mi"), Slice(sim, "two", "1Gi")]
    yield made
    for s in made:
        s.end()


def test_each_slice_sees_its_own(slices):
    one, two = slices
    a, b = one.hold(32 * MIB), one.hold(64 * MIB)
    c = two.hold(128 * MIB)
    seen = one.watch()
    expected = sorted([[a, 32 * MIB], [b, 64 * MIB]])
    for version in "v1", "v2", "v3":
        code, count, infos = seen[version]
        assert (code, count, sorted(infos)) == (0, 2, expected), version
    assert seen["asked"][:2] == [INSUFFICIENT_SIZE, 2]
    assert seen["short"][:2] == [INSUFFICIENT_SIZE, 2]
    assert seen["null"] == INVALID_ARGUMENT
    assert seen["graphics"] == [0, 0, []]
    assert seen["memory"] == [0, 256 * MIB, 160 * MIB, 96 * MIB]
    assert seen["memory2"] == [0, 256 * MIB, 160 * MIB, 96 * MIB, 0]
    seen = two.watch()
    assert seen["v3"] == [0, 1, [[c, 128 * MIB]]]
    assert seen["memory"] == [0, 1024 * MIB, 896 * MIB, 128 * MIB]


def test_a_killed_process_is_not_listed(slices):
    one, _ = slices
    one.hold(32 * MIB)
    b = one.hold(64 * MIB)
    one.holders[0].kill()
    one.holders[0].wait()
    seen = one.watch()
    assert seen["v3"] == [0, 1, [[b, 64 * MIB]]]
    assert seen["memory"] == [0, 256 * MIB, 192 * MIB, 64 * MIB]


def test_an_empty_slice_has_an_empty_list(slices):
    one, two = slices
    two.hold(64 * MIB)
    seen = one.watch()
    assert seen["v3"] == [0, 0, []]
    assert seen["asked"] == [0, 0, []]
    assert seen["memory"] == [0, 256 * MIB, 256 * MIB, 0]
