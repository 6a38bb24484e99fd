"""Runs under the hook: a plain PyTorch program that reports what it saw as one JSON line."""

import json
import sys

import torch

LIMIT = int(sys.argv[1])
OOM = getattr(torch.cuda, "OutOfMemoryError", RuntimeError)
seen = {"version": torch.__version__, "available": torch.cuda.is_available()}
free, total = torch.cuda.mem_get_info() if hasattr(torch.cuda, "mem_get_info") else (None, None)
seen["total"] = total
seen["properties_total"] = torch.cuda.get_device_properties(0).total_memory


def grab(n):
    return torch.empty(n, dtype=torch.uint8, device="cuda")


def refused(n):
    try:
        grab(n)
    except OOM as e:
        return str(e).splitlines()[0]
    return None


seen["beyond"] = refused(LIMIT + (1 << 20))
first = grab(LIMIT * 6 // 10)
seen["free_after_first"] = torch.cuda.mem_get_info()[0]
seen["second_with_first_alive"] = refused(LIMIT * 6 // 10)
del first
torch.cuda.empty_cache()
second = grab(LIMIT * 6 // 10)
seen["second_after_free"] = second.numel()
copy = torch.arange(1 << 16, dtype=torch.int32)
seen["round_trip"] = bool((copy.cuda().cpu() == copy).all())
del second
torch.cuda.empty_cache()
a = torch.ones(64, 64, device="cuda")
try:
    seen["matmul"] = list((a @ a).shape)
    torch.cuda.synchronize()
except RuntimeError as e:
    seen["matmul"] = str(e).splitlines()[0]
print(json.dumps(seen))
