"""What a card does that the simulator assumes: prints one JSON object. Runs on the driver that the
environment's library path finds, real or simulated; knows nothing of us. Sizes in bytes."""

import ctypes as c
import json

MIB = 1 << 20
cuda = c.CDLL("libcuda.so.1")
facts = {}


def call(name, *args):
    """Driver call; raises on anything but success."""
    rc = getattr(cuda, name)(*args)
    if rc:
        raise OSError(f"{name}: {rc}")


def used():
    free, total = c.c_size_t(), c.c_size_t()
    call("cuMemGetInfo_v2", c.byref(free), c.byref(total))
    return total.value - free.value


def alloc(size):
    pointer = c.c_uint64()
    call("cuMemAlloc_v2", c.byref(pointer), c.c_size_t(size))
    return pointer


def lost(action):
    """(bytes that the card loses to an action, its result)."""
    before = used()
    result = action()
    return used() - before, result


def fact(name):
    """Decorator: keep what the function returns, or the error, under a name."""

    def keep(function):
        try:
            facts[name] = function()
        except (OSError, AttributeError) as error:
            facts[name] = f"error: {error}"
        return function

    return keep


class Location(c.Structure):
    _fields_ = [("type", c.c_int), ("id", c.c_int)]


class PoolProps(c.Structure):
    _fields_ = [("alloc", c.c_int), ("handles", c.c_int), ("location", Location), ("security", c.c_void_p),
                ("max", c.c_size_t), ("usage", c.c_ushort), ("reserved", c.c_ubyte * 54)]


class AllocProp(c.Structure):
    _fields_ = [("type", c.c_int), ("handles", c.c_int), ("location", Location), ("win32", c.c_void_p),
                ("flags", c.c_ubyte * 8)]


class AllocNode(c.Structure):
    _fields_ = [("props", PoolProps), ("access", c.c_void_p), ("count", c.c_size_t), ("bytes", c.c_size_t),
                ("pointer", c.c_uint64)]


class Array(c.Structure):
    _fields_ = [("width", c.c_size_t), ("height", c.c_size_t), ("format", c.c_int), ("channels", c.c_uint)]


call("cuInit", 0)
version = c.c_int()
call("cuDriverGetVersion", c.byref(version))
device, context = c.c_int(), c.c_void_p()
call("cuDeviceGet", c.byref(device), 0)
name = c.create_string_buffer(96)
call("cuDeviceGetName", name, 96, device)
attributes = {}
for number in range(1, 163):
    value = c.c_int()
    if cuda.cuDeviceGetAttribute(c.byref(value), number, device) == 0:
        attributes[number] = value.value
call("cuDevicePrimaryCtxRetain", c.byref(context), device)
call("cuCtxSetCurrent", context)
stream = c.c_void_p()
call("cuStreamCreate", c.byref(stream), 1)


@fact("granularity: minimum, recommended")
def granularity():
    prop, out = AllocProp(1, 0, Location(1, 0)), []
    for option in (0, 1):
        size = c.c_size_t()
        call("cuMemGetAllocationGranularity", c.byref(size), c.byref(prop), option)
        out.append(size.value)
    return out


for size in (1, 512, MIB, MIB + 1, 2 * MIB, 2 * MIB + 1, 3 * MIB, 32 * MIB + 1):

    @fact(f"cuMemAlloc of {size} costs")
    def linear(size=size):
        bytes_lost, pointer = lost(lambda: alloc(size))
        call("cuMemFree_v2", pointer)
        return bytes_lost


@fact("eight of 1 MiB cost, one by one")
def small():
    out, pointers = [], []
    for _ in range(8):
        bytes_lost, pointer = lost(lambda: alloc(MIB))
        out.append(bytes_lost)
        pointers.append(pointer)
    back, _ = lost(lambda: [call("cuMemFree_v2", p) for p in pointers])
    return out + [back]


@fact("pitch of a row of 1000 bytes")
def pitch():
    pointer, width = c.c_uint64(), c.c_size_t()
    call("cuMemAllocPitch_v2", c.byref(pointer), c.byref(width), c.c_size_t(1000), c.c_size_t(4), 4)
    call("cuMemFree_v2", pointer)
    return width.value


@fact("managed 32 MiB, untouched, costs")
def managed():
    pointer = c.c_uint64()
    bytes_lost, _ = lost(lambda: call("cuMemAllocManaged", c.byref(pointer), c.c_size_t(32 * MIB), 1))
    call("cuMemFree_v2", pointer)
    return bytes_lost


@fact("managed 32 MiB, filled by the card, costs")
def managed_filled():
    pointer = c.c_uint64()

    def take():
        call("cuMemAllocManaged", c.byref(pointer), c.c_size_t(32 * MIB), 1)
        call("cuMemAdvise", pointer, c.c_size_t(32 * MIB), 3, 0)  # prefers card 0
        call("cuMemsetD8_v2", pointer, 1, c.c_size_t(32 * MIB))
        call("cuCtxSynchronize")

    bytes_lost, _ = lost(take)
    call("cuMemFree_v2", pointer)
    return bytes_lost


@fact("managed beyond the card costs; and device memory evicts it")
def managed_beyond():
    pointer, free, total = c.c_uint64(), c.c_size_t(), c.c_size_t()
    call("cuMemGetInfo_v2", c.byref(free), c.byref(total))
    bytes_lost, _ = lost(
        lambda: call("cuMemAllocManaged", c.byref(pointer), c.c_size_t(total.value + 64 * MIB), 1))
    call("cuMemsetD8_v2", pointer, 1, c.c_size_t(256 * MIB))
    call("cuCtxSynchronize")
    rest = alloc(free.value - 64 * MIB)  # evicts what the fill brought
    call("cuMemFree_v2", rest)
    call("cuMemFree_v2", pointer)
    return bytes_lost


@fact("array of 16 MiB costs")
def array():
    handle, want = c.c_void_p(), Array(1024, 1024, 0x20, 4)
    bytes_lost, _ = lost(lambda: call("cuArrayCreate_v2", c.byref(handle), c.byref(want)))
    call("cuArrayDestroy", handle)
    return bytes_lost


@fact("pool after 1 byte, then 33 MiB: reserved, used; release threshold")
def pool():
    handle, props, out = c.c_void_p(), PoolProps(alloc=1, location=Location(1, 0)), []
    call("cuMemPoolCreate", c.byref(handle), c.byref(props))
    for size in (1, 33 * MIB):
        pointer = c.c_uint64()
        call("cuMemAllocFromPoolAsync", c.byref(pointer), c.c_size_t(size), handle, stream)
        call("cuStreamSynchronize", stream)
        for attribute in (5, 7):
            value = c.c_uint64()
            call("cuMemPoolGetAttribute", handle, attribute, c.byref(value))
            out.append(value.value)
    value = c.c_uint64()
    call("cuMemPoolGetAttribute", handle, 4, c.byref(value))
    call("cuMemPoolDestroy", handle)
    return out + [value.value]


@fact("64 streams cost")
def streams():
    made = [c.c_void_p() for _ in range(64)]
    bytes_lost, _ = lost(lambda: [call("cuStreamCreate", c.byref(s), 1) for s in made])
    for one in made:
        call("cuStreamDestroy_v2", one)
    return bytes_lost


@fact("graph with a node of 48 MiB costs at instantiation, launch, destruction, trim")
def graph():
    handle, node, executable, out = c.c_void_p(), c.c_void_p(), c.c_void_p(), []
    params = AllocNode(props=PoolProps(alloc=1, location=Location(1, 0)), bytes=48 * MIB)
    call("cuGraphCreate", c.byref(handle), 0)
    call("cuGraphAddMemAllocNode", c.byref(node), handle, None, c.c_size_t(0), c.byref(params))
    out.append(lost(lambda: call("cuGraphInstantiateWithFlags", c.byref(executable), handle, c.c_ulonglong(1)))[0])

    def launch():
        call("cuGraphLaunch", executable, stream)
        call("cuStreamSynchronize", stream)

    out.append(lost(launch)[0])
    out.append(lost(lambda: call("cuMemFree_v2", c.c_uint64(params.pointer)))[0])
    out.append(lost(lambda: (call("cuGraphExecDestroy", executable), call("cuGraphDestroy", handle)))[0])
    out.append(lost(lambda: call("cuDeviceGraphMemTrim", device))[0])
    return out


@fact("module with a variable of 32 MiB costs at load, unload")
def module():
    text = (b".version 7.0\n.target sm_70\n.address_size 64\n.visible .global .align 16 .b8 big[33554432];\n"
            b".visible .entry touch()\n{\n\tret;\n}\n")
    handle, pointer, size = c.c_void_p(), c.c_uint64(), c.c_size_t()

    def load():
        call("cuModuleLoadData", c.byref(handle), text)
        call("cuModuleGetGlobal_v2", c.byref(pointer), c.byref(size), handle, b"big")

    return [lost(load)[0], lost(lambda: call("cuModuleUnload", handle))[0]]


@fact("heap limit of 64 MiB costs")
def heap():
    return lost(lambda: call("cuCtxSetLimit", 2, c.c_size_t(64 * MIB)))[0]


total = c.c_size_t()
call("cuDeviceTotalMem_v2", c.byref(total), device)
print(json.dumps({"name": name.value.decode(), "driver": version.value, "total": total.value, "used": used(),
                  "attributes": attributes, "facts": facts}))
