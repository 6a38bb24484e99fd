"""Arrays, copies and textures of the thin CUDA runtime, called as a C program would.

Expected values: CUDA Runtime API 12.9 and 13.5, driver_types.h (layouts; cudaResourceDesc grew in 13.0) and the rules of
cudaMemcpy3D and cudaMalloc3DArray.
"""

import json

import pytest

PROGRAM = """
import ctypes as c, json, sys
major = int(sys.argv[1])
rt = c.CDLL(f"libcudart.so.{major}")
class Channel(c.Structure): _fields_ = [(n, c.c_int) for n in "xyzwf"]
class Extent(c.Structure): _fields_ = [(n, c.c_size_t) for n in ("width", "height", "depth")]
class Pitched(c.Structure): _fields_ = [("ptr", c.c_void_p)] + [(n, c.c_size_t) for n in ("pitch", "xsize", "ysize")]
class Copy(c.Structure):
    _fields_ = [("srcArray", c.c_void_p), ("srcPos", Extent), ("srcPtr", Pitched), ("dstArray", c.c_void_p), ("dstPos", Extent),
                ("dstPtr", Pitched), ("extent", Extent), ("kind", c.c_int)]
class Linear(c.Structure): _fields_ = [("devPtr", c.c_void_p), ("desc", Channel), ("sizeInBytes", c.c_size_t)]
class Union(c.Union): _fields_ = [("linear", Linear), ("room", c.c_char * (128 if major >= 13 else 56))]
class Resource(c.Structure):
    _fields_ = [("resType", c.c_int), ("res", Union)] + ([("flags", c.c_uint)] if major >= 13 else [])
class Texture(c.Structure):
    _fields_ = [("addressMode", c.c_int * 3), ("filterMode", c.c_int), ("readMode", c.c_int), ("sRGB", c.c_int),
                ("borderColor", c.c_float * 4), ("normalizedCoords", c.c_int), ("maxAnisotropy", c.c_uint),
                ("mipmapFilterMode", c.c_int), ("bias", c.c_float), ("low", c.c_float), ("high", c.c_float),
                ("disableTrilinearOptimization", c.c_int), ("seamlessCubemap", c.c_int)]
said = {}
array = c.c_void_p()
def malloc(x, y, z, w, f, *size):
    return rt.cudaMalloc3DArray(c.byref(array), c.byref(Channel(x, y, z, w, f)), Extent(*size), 0)
said["refused"] = [malloc(8, 8, 8, 0, 1, 4, 4, 0), malloc(8, 16, 0, 0, 1, 4, 4, 0), malloc(24, 0, 0, 0, 1, 4, 4, 0),
                   malloc(8, 0, 8, 0, 1, 4, 4, 0), malloc(0, 0, 0, 0, 1, 4, 4, 0), malloc(32, 0, 0, 0, 3, 4, 4, 0)]
formats = [(8, 0, 0, 0, 0), (16, 16, 0, 0, 1), (32, 32, 32, 32, 2), (16, 0, 0, 0, 2), (8, 8, 8, 8, 7), (16, 16, 0, 0, 9),
           (8, 8, 8, 8, 17), (16, 16, 16, 0, 28), (8, 8, 8, 8, 30)]
told = Channel()
for f in formats:
    assert malloc(*f, 8, 8, 0) == 0, f
    assert rt.cudaGetChannelDesc(c.byref(told), array) == 0
    assert (told.x, told.y, told.z, told.w, told.f) == f, f
    assert rt.cudaFreeArray(array) == 0

assert malloc(16, 16, 0, 0, 1, 6, 5, 4) == 0  # elements of 4 bytes
box = bytes(range(2 * 3 * 2 * 4))  # 2 x 3 x 2 elements
source, back = c.create_string_buffer(box, len(box)), c.create_string_buffer(len(box))
def copy(to_array, memory, width=2):
    p = Pitched(c.addressof(memory), 8, 2, 3)
    at = Extent(3, 1, 2)
    size = Extent(width, 3, 2)
    q = Copy(extent=size, kind=1, dstArray=array, dstPos=at, srcPtr=p) if to_array else \\
        Copy(extent=size, kind=2, srcArray=array, srcPos=at, dstPtr=p)
    return q
both = copy(True, source); both.srcArray = array
said["copy"] = [rt.cudaMemcpy3D(c.byref(copy(True, source))), rt.cudaMemcpy3DAsync(c.byref(copy(False, back)), None),
                rt.cudaDeviceSynchronize()]
said["bad_copy"] = [rt.cudaMemcpy3D(c.byref(both)), rt.cudaMemcpy3D(c.byref(copy(True, source, 1 << 63))),
                    rt.cudaMemcpy3D(c.byref(copy(True, source, 4))), rt.cudaMemcpy3D(None)]
said["box"] = back.raw == box
row = c.create_string_buffer(8)
said["row"] = [rt.cudaMemcpy2DFromArray(row, c.c_size_t(8), array, c.c_size_t(12), c.c_size_t(1), c.c_size_t(8), c.c_size_t(1), 2),
               row.raw == bytes(8)]  # slice 0 was never written
p, obj = c.c_void_p(), c.c_ulonglong()
assert rt.cudaMalloc(c.byref(p), c.c_size_t(4096)) == 0
r = Resource(resType=2); r.res.linear = Linear(p.value, Channel(16, 16, 0, 0, 0), 4096)
t = Texture(addressMode=(1, 2, 3), filterMode=1, readMode=0, sRGB=1, borderColor=(1, 2, 3, 4), normalizedCoords=1, maxAnisotropy=7,
            mipmapFilterMode=1, bias=0.5, low=1, high=2, disableTrilinearOptimization=1, seamlessCubemap=1)
said["texture"] = rt.cudaCreateTextureObject(c.byref(obj), c.byref(r), c.byref(t), None)
r2, t2 = Resource(), Texture()
said["told"] = [rt.cudaGetTextureObjectResourceDesc(c.byref(r2), obj), rt.cudaGetTextureObjectTextureDesc(c.byref(t2), obj)]
said["same"] = [bytes(t2) == bytes(t), r2.resType, r2.res.linear.devPtr == p.value, r2.res.linear.sizeInBytes,
                [r2.res.linear.desc.x, r2.res.linear.desc.y, r2.res.linear.desc.z, r2.res.linear.desc.w, r2.res.linear.desc.f]]
said["end"] = [rt.cudaDestroyTextureObject(obj), rt.cudaDestroyTextureObject(obj), rt.cudaFreeArray(array), rt.cudaFreeArray(None)]
print(json.dumps(said))
"""


@pytest.mark.parametrize("major", ["12", "13"])
def test_arrays_and_textures(sim, tmp_path, major):
    program = tmp_path / "arrays.py"
    program.write_text(PROGRAM)
    done = sim.run("python3", program, major)
    assert done.returncode == 0, done.stderr
    invalid = 1  # cudaErrorInvalidValue
    said = json.loads(done.stdout)
    assert said["refused"] == [invalid] * 6
    assert said["copy"] == [0, 0, 0] and said["bad_copy"] == [invalid] * 4 and said["box"]
    assert said["row"] == [0, True]
    assert said["texture"] == 0 and said["told"] == [0, 0]
    assert said["same"] == [True, 2, True, 4096, [16, 16, 0, 0, 0]]
    assert said["end"] == [0, invalid, 0, 0]
