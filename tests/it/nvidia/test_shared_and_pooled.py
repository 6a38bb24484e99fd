"""Every way to take device memory beside cuMemAlloc, by a client that knows nothing of the hook, held to
a limit on simulated cards. The cards themselves say what was lost."""

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

HERE = pathlib.Path(__file__).resolve().parent
MIB = 1 << 20


def client(sim, code, limit="64Mi", **env):
    out = sim.python("from cu import *\nc = Cuda()\n" + textwrap.dedent(code),
                     env=sim.hook_env(limit, PYTHONPATH=HERE, **env))
    assert out.returncode == 0, out.stderr
    return out.stdout.split()


class Peer:
    """A client that takes lines of Python on its standard input and answers each with one line."""

    LOOP = textwrap.dedent("""
        import sys
        from cu import *
        import socket, os
        c = Cuda()
        print("ready", flush=True)
        for line in sys.stdin:
            try:
                line = line.strip()
                try:
                    print(eval(line), flush=True)
                except SyntaxError:
                    exec(line)
                    print("done", flush=True)
            except Error as e:
                print("error", e.code, flush=True)
    """)

    def __init__(self, sim, limit="64Mi", pass_fds=(), **env):
        self.process = subprocess.Popen(
            [sys.executable, "-c", self.LOOP], env=sim.hook_env(limit, PYTHONPATH=HERE, **env), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=pass_fds)
        assert self.process.stdout.readline().strip() == "ready"

    def __call__(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=30) == 0


@pytest.fixture
def peers(sim):
    made = []

    def make(**kw):
        made.append(Peer(sim, **kw))
        return made[-1]

    yield make
    for p in made:
        p.kill()


# ---- pools ----

def test_pool_memory_is_held_to_the_byte(sim):
    assert client(sim, """
        a = [c.alloc_async(8 * MIB) for _ in range(8)]
        print(c.free_mib(), refused(c.alloc_async, 1), refused(c.alloc, 1))
        for p in a: c.free_async(p)
        c.sync()
        print(c.free_mib())
        print(c.alloc(64 * MIB) != 0)
    """) == ["0.0", "True", "True", "64.0", "True"]


def test_kept_pool_memory_counts_and_is_trimmed_before_a_refusal(sim):
    assert client(sim, """
        pool = c.default_pool()
        c.keep(pool)
        p = c.alloc_async(48 * MIB)
        c.free_async(p)
        c.sync()
        print(c.reserved(pool) // MIB, c.free_mib())
        q = c.alloc(32 * MIB)
        print(c.reserved(pool) // MIB, c.free_mib(), refused(c.alloc, 33 * MIB))
        r = c.alloc_async(32 * MIB)
        print(c.free_mib())
        c.free(r)
        print(c.free_mib() in (0.0, 32.0))
        c.code("cuMemPoolTrimTo", pool, C.c_size_t(0))
        print(c.free_mib())
    """) == ["48", "16.0", "0", "32.0", "True", "0.0", "True", "32.0"]


def test_an_idle_neighbour_does_not_keep_what_its_pool_gave_back(peers):
    a, b = peers(), peers()
    assert a("p = c.alloc_async(60 * MIB)") == "done"
    assert b("refused(c.alloc, 8 * MIB)") == "True"
    a("c.free_async(p)")
    a("c.sync()")
    assert b("refused(c.alloc, 8 * MIB)") == "False"


def test_explicit_pools_and_their_end(sim):
    assert client(sim, """
        pool = c.pool()
        p = c.alloc_from(pool, 32 * MIB)
        print(c.free_mib(), refused(c.alloc_from, pool, 64 * MIB))
        c.call("cuMemPoolDestroy", pool)
        print(c.free_mib())
        c.free_async(p)
        c.sync()
        print(c.free_mib())
        host = c.pool(location=HOST)
        q = c.alloc_from(host, 128 * MIB)
        print(c.free_mib())
    """) == ["32.0", "True", "32.0", "64.0", "64.0"]


def test_a_pool_pointer_passes_to_its_importer(sim, peers):
    a, b, witness = peers(), peers(), peers()
    r, w = a.process, b.process
    assert a("pool = c.pool(handle_types=FD)") == "done"
    assert a("p = c.alloc_from(pool, 32 * MIB)") == "done"
    assert a("fd = C.c_int()") == "done"
    assert a("c.call('cuMemPoolExportToShareableHandle', C.byref(fd), pool, FD, C.c_uint64(0))") == "None"
    assert a("data = Bytes64()") == "done"
    assert a("c.call('cuMemPoolExportPointer', C.byref(data), C.c_uint64(p))") == "None"
    data = a("bytes(data.b).hex()")
    pass_fd(a, b, "fd.value", r.pid, w.pid)
    assert b("pool = C.c_void_p()") == "done"
    assert b("c.call('cuMemPoolImportFromShareableHandle', C.byref(pool), C.c_void_p(got), FD, C.c_uint64(0))") == "None"
    assert b(f"data = Bytes64.from_buffer_copy(bytes.fromhex('{data}'))") == "done"
    assert b("q = C.c_uint64()") == "done"
    assert b("c.call('cuMemPoolImportPointer', C.byref(q), pool, C.byref(data))") == "None"
    assert witness("c.free_mib()") == "32.0"
    a.kill()
    assert witness("refused(c.alloc, 33 * MIB)") == "True"
    assert witness("c.free_mib()") == "32.0"
    assert b("c.free_async(q.value)") == "None"
    b("c.sync()")
    assert witness("c.free_mib()") == "64.0"


# ---- physical handles ----

def test_expandable_segments(sim):
    """What PyTorch's expandable segments do: a large address range, mapped piece by piece."""
    assert client(sim, """
        step = 2 * MIB
        va = c.reserve_va(1 << 40)
        h = []
        for i in range(32):
            h.append(c.create(step))
            c.map(va + i * step, step, h[-1])
        print(c.free_mib(), refused(c.create, step))
        for x in h[:16]: c.release(x)
        print(c.free_mib())
        c.unmap(va, 16 * step)
        print(c.free_mib())
        c.unmap(va + 16 * step, 16 * step)
        print(c.free_mib())
        for x in h[16:]: c.release(x)
        print(c.free_mib())
        print(c.create(step, location=HOST) != 0, c.free_mib())
    """) == ["0.0", "True", "0.0", "32.0", "32.0", "64.0", "True", "64.0"]


def pass_fd(a, b, expression, pid_a, pid_b):
    """Duplicate a descriptor of one peer into the other through a socket."""
    path = f"\\0gpuslice-test-{pid_a}-{pid_b}"
    assert b(f"s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.bind('{path}')") == "done"
    assert a(f"s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.connect('{path}')") == "done"
    a(f"socket.send_fds(s, [b'x'], [{expression}])")
    assert b("got = socket.recv_fds(s, 1, 1)[1][0]") == "done"


def test_an_exported_handle_passes_to_its_importer(peers):
    a, b, witness = peers(), peers(), peers()
    assert a("h = c.create(32 * MIB, handle_types=FD)") == "done"
    assert a("fd = C.c_int()") == "done"
    assert a("c.call('cuMemExportToShareableHandle', C.byref(fd), C.c_uint64(h), FD, C.c_uint64(0))") == "None"
    pass_fd(a, b, "fd.value", a.process.pid, b.process.pid)
    assert b("g = C.c_uint64()") == "done"
    assert b("c.call('cuMemImportFromShareableHandle', C.byref(g), C.c_void_p(got), FD)") == "None"
    assert b("os.close(got)") == "None"
    assert witness("c.free_mib()") == "32.0"
    a.kill()
    assert witness("refused(c.alloc, 33 * MIB)") == "True"
    assert witness("c.free_mib()") == "32.0"
    assert b("c.release(g.value)") == "None"
    assert witness("c.free_mib()") == "64.0"


def test_a_handle_exported_twice(peers):
    """Each export is a new descriptor; the second importer carries the charge as the first would."""
    a, b, witness = peers(), peers(), peers()
    assert a("h = c.create(32 * MIB, handle_types=FD)") == "done"
    assert a("fd, again = C.c_int(), C.c_int()") == "done"
    export = "c.call('cuMemExportToShareableHandle', C.byref({}), C.c_uint64(h), FD, C.c_uint64(0))"
    assert a(export.format("fd")) == "None"
    assert a(export.format("again")) == "None"
    pass_fd(a, b, "again.value", a.process.pid, b.process.pid)
    assert b("g = C.c_uint64()") == "done"
    assert b("c.call('cuMemImportFromShareableHandle', C.byref(g), C.c_void_p(got), FD)") == "None"
    assert b("va = c.reserve_va(32 * MIB)") == "done"
    assert b("c.map(va, 32 * MIB, g.value)") == "None"
    assert witness("c.free_mib()") == "32.0"
    a.kill()
    assert witness("refused(c.alloc, 33 * MIB)") == "True"
    assert witness("c.free_mib()") == "32.0"
    assert b("c.release(g.value)") == "None"
    assert witness("c.free_mib()") == "32.0"
    assert b("c.unmap(va, 32 * MIB)") == "None"
    assert witness("c.free_mib()") == "64.0"


EXPORT = "c.call('cuMemExportToShareableHandle', C.byref(fd), C.c_uint64(h), FD, C.c_uint64(0))"


def slice_on_card(sim):
    return next(g for g in sim.status()["groups"] if g["name"] == "slice.cache")["cards"][0]


def test_an_open_descriptor_keeps_its_memory(sim):
    """The card gets nothing back while one is open, released or not; its own peak of the slice is the witness."""
    assert client(sim, f"""
        import os
        h, fd = c.create(48 * MIB, handle_types=FD), C.c_int()
        {EXPORT}
        c.release(h)
        print(c.free_mib(), refused(c.create, 32 * MIB), refused(c.alloc, 32 * MIB))
        os.close(fd.value)
        print(c.free_mib())
        h = c.create(48 * MIB, handle_types=FD)
        {EXPORT}
        os.close(fd.value)
        c.release(h)
        h = c.create(64 * MIB, handle_types=FD)
        {EXPORT}
        c.release(h)
        os.close(fd.value)
        print(c.alloc(64 * MIB) != 0) # no question in between: looked at before the refusal
    """) == ["16.0", "True", "True", "64.0", "True"]
    assert slice_on_card(sim)["peak_bytes"] == 64 * MIB


def test_a_descriptor_of_a_mapped_handle(sim):
    assert client(sim, f"""
        import os
        h, fd, va = c.create(48 * MIB, handle_types=FD), C.c_int(), c.reserve_va(48 * MIB)
        {EXPORT}
        c.map(va, 48 * MIB, h)
        c.release(h)
        c.unmap(va, 48 * MIB)
        print(refused(c.create, 32 * MIB))
        os.close(fd.value)
        print(c.create(64 * MIB) != 0)
    """) == ["True", "True"]
    assert slice_on_card(sim)["peak_bytes"] == 64 * MIB


def test_a_descriptor_passed_on_and_closed(sim, peers):
    a, b, witness = peers(), peers(), peers()
    assert a("h = c.create(48 * MIB, handle_types=FD)") == "done"
    assert a("fd = C.c_int()") == "done"
    assert a(EXPORT) == "None"
    pass_fd(a, b, "fd.value", a.process.pid, b.process.pid)
    assert b("g = C.c_uint64()") == "done"
    assert b("c.call('cuMemImportFromShareableHandle', C.byref(g), C.c_void_p(got), FD)") == "None"
    assert b("os.close(got)") == "None"
    assert a("c.release(h)") == "None"
    assert b("c.release(g.value)") == "None"
    assert witness("c.free_mib()") == "16.0"  # a's descriptor
    assert witness("refused(c.alloc, 32 * MIB)") == "True"
    assert a("os.close(fd.value)") == "None"
    assert a("c.free_mib()") == "64.0"
    assert witness("c.alloc(64 * MIB) != 0") == "True"
    assert slice_on_card(sim)["peak_bytes"] == 64 * MIB


# ---- CUDA IPC ----

IPC_OPEN = "c.call('cuIpcOpenMemHandle_v2', C.byref(q), Bytes64.from_buffer_copy(bytes.fromhex('%s')), 1)"


def share(a, b, n):
    assert a(f"p = c.alloc({n})") == "done"
    assert a("h = Bytes64()") == "done"
    assert a("c.call('cuIpcGetMemHandle', C.byref(h), C.c_uint64(p))") == "None"
    assert b("q = C.c_uint64()") == "done"
    assert b(IPC_OPEN % a("bytes(h.b).hex()")) == "None"


def test_ipc_memory_counts_once_and_survives_its_exporter(peers):
    a, b, witness = peers(), peers(), peers()
    share(a, b, 32 * MIB)
    assert witness("c.free_mib()") == "32.0"
    a.kill()
    assert witness("refused(c.alloc, 33 * MIB)") == "True"
    assert witness("c.free_mib()") == "32.0"
    assert b("c.call('cuIpcCloseMemHandle', q)") == "None"
    assert witness("c.free_mib()") == "64.0"


def test_ipc_memory_freed_by_its_exporter_last(peers):
    a, b = peers(), peers()
    share(a, b, 32 * MIB)
    assert b("c.call('cuIpcCloseMemHandle', q)") == "None"
    assert b("c.free_mib()") == "32.0"
    assert a("c.free(p)") == "None"
    assert b("c.free_mib()") == "64.0"


def test_two_small_allocations_of_one_block_are_shared_by_either_handle(peers):
    a, b, witness = peers(), peers(), peers()
    share(a, b, 1000)
    assert b("first = C.c_uint64(q.value)") == "done"
    share(a, b, 2000)  # another handle, the same 2 MiB block
    assert b("c.call('cuIpcCloseMemHandle', first)") == "None"
    assert witness("c.free_mib()") == "62.0"
    a.kill()
    assert witness("refused(c.alloc, 63 * MIB)") == "True"
    assert witness("c.free_mib()") == "62.0"


# ---- graphs ----

def test_graph_memory(sim):
    assert client(sim, """
        g = C.c_void_p()
        c.call("cuGraphCreate", C.byref(g), 0)
        def node(n):
            p = AllocNode(props=PoolProps(type=1, location=Location(DEVICE, 0)), bytes=n)
            x = C.c_void_p()
            c.call("cuGraphAddMemAllocNode", C.byref(x), g, None, C.c_size_t(0), C.byref(p))
            return p.dptr
        print(refused(node, 512 * MIB))
        a, b = node(16 * MIB), node(16 * MIB)
        e = C.c_void_p()
        c.call("cuGraphInstantiateWithFlags", C.byref(e), g, C.c_uint64(0))
        print(c.free_mib())
        p = c.alloc(48 * MIB)
        print(refused(c.call, "cuGraphLaunch", e, None), c.free_mib())
        c.free(p)
        c.call("cuGraphLaunch", e, None)
        c.sync()
        print(c.free_mib(), refused(c.alloc, 33 * MIB))
        c.free_async(a)
        c.free_async(b)
        c.sync()
        print(c.alloc(64 * MIB) != 0)
    """) == ["True", "64.0", "True", "16.0", "32.0", "True", "True"]


def test_a_captured_allocation_is_graph_memory(sim):
    assert client(sim, """
        s = C.c_void_p()
        c.call("cuStreamCreate", C.byref(s), 1)
        c.call("cuStreamBeginCapture_v2", s, 2)
        print(refused(c.alloc_async, 512 * MIB, s))
        p = c.alloc_async(32 * MIB, s)
        c.free_async(p, s)
        g, e = C.c_void_p(), C.c_void_p()
        c.call("cuStreamEndCapture", s, C.byref(g))
        print(c.free_mib())
        c.call("cuGraphInstantiateWithFlags", C.byref(e), g, C.c_uint64(0))
        c.call("cuGraphLaunch", e, s)
        c.call("cuStreamSynchronize", s)
        print(c.free_mib())
        c.call("cuGraphExecDestroy", e)
        c.call("cuDeviceGraphMemTrim", 0)
        print(c.free_mib())
    """) == ["True", "64.0", "32.0", "64.0"]
