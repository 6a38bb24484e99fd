"""Runs under the hook: a plain TensorFlow program that reports what it saw as one JSON line.

usage: tensorflow_client.py LIMIT memory|default|matmul
"""

import ctypes
import json
import sys

import numpy
import tensorflow as tf

LIMIT, MODE = int(sys.argv[1]), sys.argv[2]
GPUS = tf.config.list_physical_devices("GPU")
seen = {"version": tf.__version__, "gpus": [g.name for g in GPUS]}
# The runtime TensorFlow found: which file of that name is mapped.
with open("/proc/self/maps", encoding="utf-8") as f:
    seen["cudart"] = sorted({line.split()[-1] for line in f if "libcudart" in line})


def grab(n):
    with tf.device("/GPU:0"):
        return tf.raw_ops.Empty(shape=[n // 4], dtype=tf.float32, init=False)


def error_of(f, *args):
    try:
        f(*args)
    except tf.errors.OpError as e:
        return f"{type(e).__name__}: {e.message}"
    return None


def driver_free():
    driver, free, total = ctypes.CDLL("libcuda.so.1"), ctypes.c_size_t(), ctypes.c_size_t()
    context = ctypes.c_void_p()
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert driver.cuCtxPushCurrent_v2(context) == 0
    assert driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
    driver.cuCtxPopCurrent_v2(ctypes.byref(context))
    return [free.value, total.value]


def memory():
    # Its own cap is twice the slice's (and TF_FORCE_GPU_ALLOW_GROWTH is set): what refuses is the slice.
    tf.config.set_logical_device_configuration(
        GPUS[0], [tf.config.LogicalDeviceConfiguration(memory_limit=2 * LIMIT >> 20)])
    seen["beyond"] = error_of(grab, LIMIT + (1 << 20))
    first = grab(LIMIT * 6 // 10)
    seen["first"] = tf.config.experimental.get_memory_info("GPU:0")["current"]
    seen["driver_free"] = driver_free()
    seen["second_with_first_alive"] = error_of(grab, LIMIT * 6 // 10)
    del first
    second = grab(LIMIT * 6 // 10)
    seen["second_after_free"] = int(second.shape[0]) * 4
    host = numpy.arange(1 << 16, dtype=numpy.float32)
    with tf.device("/GPU:0"):
        device = tf.constant(host)
    seen["device"] = device.device
    seen["round_trip"] = bool((device.numpy() == host).all())


def default():
    from tensorflow.python.client import device_lib

    try:
        seen["memory_limit"] = [d.memory_limit for d in device_lib.list_local_devices() if d.device_type == "GPU"]
    except RuntimeError as e:
        seen["error"] = str(e)


def matmul():
    with tf.device("/GPU:0"):
        a = tf.constant(numpy.ones((64, 64), numpy.float32))
        seen["matmul"] = error_of(tf.matmul, a, a)


if GPUS:
    {"memory": memory, "default": default, "matmul": matmul}[MODE]()
print(json.dumps(seen))
