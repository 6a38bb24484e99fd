"""The CUDA driver API and NVML by ctypes, as far as the clients of these tests need it.

Names are the exported symbols themselves, so that each test says which row it goes through."""

import ctypes as C

MIB = 1 << 20
OOM = 2
DEVICE, HOST = 1, 2  # CUmemLocationType
FD = 1  # CUmemAllocationHandleType, POSIX file descriptor


class Location(C.Structure):
    _fields_ = [("type", C.c_int), ("id", C.c_int)]


class AllocationProp(C.Structure):
    _fields_ = [("type", C.c_int), ("handle_types", C.c_int), ("location", Location),
                ("win32", C.c_void_p), ("flags", C.c_ubyte * 8)]


class PoolProps(C.Structure):
    _fields_ = [("type", C.c_int), ("handle_types", C.c_int), ("location", Location),
                ("win32", C.c_void_p), ("max_size", C.c_size_t), ("rest", C.c_ubyte * 56)]


class AllocNode(C.Structure):
    _fields_ = [("props", PoolProps), ("access", C.c_void_p), ("n_access", C.c_size_t),
                ("bytes", C.c_size_t), ("dptr", C.c_uint64)]


class Bytes64(C.Structure):
    _fields_ = [("b", C.c_ubyte * 64)]


class AccessDesc(C.Structure):
    _fields_ = [("location", Location), ("flags", C.c_int)]


class Error(Exception):
    def __init__(self, name, code):
        super().__init__(f"{name}: {code}")
        self.code = code


class Cuda:
    """Calls raise Error on any answer but success; `.raw.<symbol>` gives the function itself."""

    def __init__(self, device=0):
        self.raw = C.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        self.ctx = C.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", C.byref(self.ctx), device)
        self.call("cuCtxSetCurrent", self.ctx)

    def code(self, name, *args):
        return getattr(self.raw, name)(*args)

    def call(self, name, *args):
        code = self.code(name, *args)
        if code != 0:
            raise Error(name, code)

    def free_mib(self):
        free, total = C.c_size_t(), C.c_size_t()
        self.call("cuMemGetInfo_v2", C.byref(free), C.byref(total))
        return free.value / MIB

    def alloc(self, n):
        p = C.c_uint64()
        self.call("cuMemAlloc_v2", C.byref(p), C.c_size_t(n))
        return p.value

    def free(self, p):
        self.call("cuMemFree_v2", C.c_uint64(p))

    def alloc_async(self, n, stream=None):
        p = C.c_uint64()
        self.call("cuMemAllocAsync", C.byref(p), C.c_size_t(n), stream)
        return p.value

    def free_async(self, p, stream=None):
        self.call("cuMemFreeAsync", C.c_uint64(p), stream)

    def sync(self):
        self.call("cuCtxSynchronize")

    def pool(self, handle_types=0, location=DEVICE):
        props = PoolProps(type=1, handle_types=handle_types, location=Location(location, 0))
        pool = C.c_void_p()
        self.call("cuMemPoolCreate", C.byref(pool), C.byref(props))
        return pool

    def default_pool(self):
        pool = C.c_void_p()
        self.call("cuDeviceGetDefaultMemPool", C.byref(pool), 0)
        return pool

    def alloc_from(self, pool, n):
        p = C.c_uint64()
        self.call("cuMemAllocFromPoolAsync", C.byref(p), C.c_size_t(n), pool, None)
        return p.value

    def reserved(self, pool):
        v = C.c_uint64()
        self.call("cuMemPoolGetAttribute", pool, 5, C.byref(v))
        return v.value

    def keep(self, pool):
        """Never give unused memory back by itself."""
        self.call("cuMemPoolSetAttribute", pool, 4, C.byref(C.c_uint64(2**64 - 1)))

    def create(self, n, handle_types=0, location=DEVICE):
        prop = AllocationProp(type=1, handle_types=handle_types, location=Location(location, 0))
        h = C.c_uint64()
        self.call("cuMemCreate", C.byref(h), C.c_size_t(n), C.byref(prop), C.c_uint64(0))
        return h.value

    def release(self, h):
        self.call("cuMemRelease", C.c_uint64(h))

    def reserve_va(self, n):
        p = C.c_uint64()
        self.call("cuMemAddressReserve", C.byref(p), C.c_size_t(n), C.c_size_t(0), C.c_uint64(0), C.c_uint64(0))
        return p.value

    def map(self, p, n, h):
        self.call("cuMemMap", C.c_uint64(p), C.c_size_t(n), C.c_size_t(0), C.c_uint64(h), C.c_uint64(0))

    def unmap(self, p, n):
        self.call("cuMemUnmap", C.c_uint64(p), C.c_size_t(n))


def refused(fn, *args):
    """The out-of-memory answer and nothing else."""
    try:
        fn(*args)
    except Error as e:
        return e.code == OOM
    return False
