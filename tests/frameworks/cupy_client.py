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


def arrays():
    """The box comes back from a 3D array as it went in; a texture over it gives back its own description."""
    tex, rt = cupy.cuda.texture, cupy.cuda.runtime
    box = numpy.random.default_rng(1).random((3, 5, 7), dtype=numpy.float32)
    format = tex.ChannelFormatDescriptor(32, 0, 0, 0, rt.cudaChannelFormatKindFloat)
    array = tex.CUDAarray(format, 7, 5, 3)
    array.copy_from(box)
    back, on_device = numpy.zeros_like(box), cupy.ndarray(box.shape, box.dtype)
    array.copy_to(back)
    array.copy_to(on_device)
    plane = tex.CUDAarray(tex.ChannelFormatDescriptor(8, 8, 8, 8, rt.cudaChannelFormatKindUnsigned), 6, 4)
    image, image_back = numpy.arange(4 * 24, dtype=numpy.uint8).reshape(4, 24), numpy.zeros((4, 24), numpy.uint8)
    plane.copy_from(image)
    plane.copy_to(image_back)
    how = tex.TextureDescriptor((rt.cudaAddressModeBorder,) * 3, rt.cudaFilterModeLinear, rt.cudaReadModeNormalizedFloat,
                                normalizedCoords=1, borderColors=(0.25, 0.5, 0.75, 1.0), maxAnisotropy=4)
    texture = tex.TextureObject(tex.ResourceDescriptor(rt.cudaResourceTypeArray, cuArr=array), how)
    surface = tex.SurfaceObject(tex.ResourceDescriptor(rt.cudaResourceTypeArray, cuArr=array))
    seen["array_host"] = bool((back == box).all())
    seen["array_device"] = bool((on_device.get() == box).all())
    seen["array_image"] = bool((image_back == image).all())
    seen["channel"] = array.desc.get_channel_format()
    seen["texture"] = texture.TexDesc.get_texture_desc()
    seen["objects"] = texture.ptr != 0 and surface.ptr != 0


arrays()
print(json.dumps(seen))
