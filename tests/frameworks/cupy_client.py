"""Runs under the hook: a plain CuPy program that reports what it saw as one JSON line."""

import json
import sys

import cupy
import numpy

LIMIT = int(sys.argv[1])
if "async" in sys.argv:
    cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)
seen = {"version": cupy.__version__, "total": cupy.cuda.runtime.memGetInfo()[1]}


def refused(n):
    try:
        cupy.cuda.alloc(n)
    except cupy.cuda.memory.OutOfMemoryError as e:
        return str(e)
    except cupy.cuda.runtime.CUDARuntimeError as e:
        return str(e)
    return None


seen["beyond"] = refused(LIMIT + (1 << 20))
first = cupy.cuda.alloc(LIMIT * 6 // 10)
seen["second_with_first_alive"] = refused(LIMIT * 6 // 10)
del first
cupy.get_default_memory_pool().free_all_blocks()
cupy.cuda.Device().synchronize()
second = cupy.cuda.alloc(LIMIT * 6 // 10)
seen["second_after_free"] = second.mem.size
host = numpy.arange(1 << 16, dtype=numpy.int32)
device = cupy.ndarray(host.shape, host.dtype)
device.set(host)
seen["round_trip"] = bool((device.get() == host).all())
print(json.dumps(seen))
