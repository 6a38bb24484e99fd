#!/usr/bin/env python3
"""Write weak pass-through bodies for the effective rows of api.def, so that the hook library links
while bodies are being written. usage: gen_weak_bodies.py api.def > weak_bodies.c"""
import re
import sys

seen = set()
print('#include "vendors/nvidia/hook/bodies.h"')
for line in open(sys.argv[1], encoding="utf-8"):
    m = re.match(r"(?:CUDA|NVML)_HOOK\((\w+), (\w+), (\w+), (\w+), (\(.*\)), (\([^()]*\))\)$", line.strip())
    if not m or m[2] in ("LAUNCH", "SYNC_VOID") or m[3] in seen:
        continue
    seen.add(m[3])
    params = m[5][1:-1]
    print(f"__attribute__((weak)) {m[4]} gs_nv_{m[3]}({m[4]} (*real)({params}), {params})")
    print("{")
    print(f"    return real{m[6]};")
    print("}")
