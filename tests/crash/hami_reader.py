"""Independent reader of HAMi's shared region, version 1.2, while the crash matrix runs.

Offsets come from the layout as HAMi-core's own headers compile (LP64, little endian), not from ours.
Protocol on stdin: `expect B0 B1`: with everything at rest device 0 must show B0 bytes in use, device 1
B1; the answer is `ok`. Between questions the file is read over and over and each slot must be sane.
"""

import mmap
import os
import select
import struct
import sys

REGION_BYTES = 2008952
SLOTS_AT, SLOT_BYTES, SLOTS = 1856, 1960, 1024
UUID_AT, LIMIT_AT, SM_LIMIT_AT = 64, 1600, 1728
N_SLOTS_AT = 2008896
MEMORY_AT, MEMORY_BYTES = 8, 64
STATUS_AT, SEQLOCK_AT = 1928, 1936
LIMIT = 1 << 30


def slots(region):
    """Yield (pid, status, [(context, module, data, offset, total), ...]) of the slots a monitor reads."""
    (count,) = struct.unpack_from("<i", region, N_SLOTS_AT)
    assert 0 <= count <= SLOTS, f"slot count {count}"
    for index in range(count):
        at = SLOTS_AT + index * SLOT_BYTES
        (pid, _host_pid) = struct.unpack_from("<ii", region, at)
        (status,) = struct.unpack_from("<i", region, at + STATUS_AT)
        (seqlock,) = struct.unpack_from("<Q", region, at + SEQLOCK_AT)
        assert status in (0, 1, 2), f"slot {index}: status {status}"
        assert seqlock % 2 == 0, f"slot {index}: a monitor would wait for ever"
        memory = [
            struct.unpack_from("<5Q", region, at + MEMORY_AT + dev * MEMORY_BYTES) for dev in (0, 1)
        ]
        yield index, pid, status, memory


def check_head(region, uuids):
    magic, major, minor = struct.unpack_from("<iII", region, 0)
    assert (magic, major, minor) == (19920718, 1, 2), (magic, major, minor)
    (count,) = struct.unpack_from("<Q", region, 56)
    assert count == len(uuids), f"{count} devices"
    for index, uuid in enumerate(uuids):
        raw = region[UUID_AT + 96 * index : UUID_AT + 96 * (index + 1)]
        assert raw.rstrip(b"\0").decode() == uuid, raw
        assert struct.unpack_from("<Q", region, LIMIT_AT + 8 * index) == (LIMIT,)
        assert struct.unpack_from("<Q", region, SM_LIMIT_AT + 8 * index) == (100,)


def check_moving(region):
    for index, _pid, status, memory in slots(region):
        for context, module, data, offset, total in memory:
            for value in (context, module, data, offset, total):
                # one process cannot hold more than the slice; shares may be counted twice for a moment
                assert value <= 2 * LIMIT, f"slot {index} status {status}: {value} bytes"


def check_at_rest(region, expected):
    sums = [0, 0]
    for index, pid, status, memory in slots(region):
        if status == 0:
            continue
        assert pid > 0, f"slot {index}: running without a pid"
        for dev, (context, module, data, offset, total) in enumerate(memory):
            assert context + module + data + offset == total, f"slot {index} device {dev}: {memory}"
            sums[dev] += total
    assert sums == expected, f"monitor sees {sums}, card holds {expected}"


def main():
    path, uuids = sys.argv[1], sys.argv[2:]
    passes = 0
    with open(path, "rb") as file:
        region = mmap.mmap(file.fileno(), REGION_BYTES, prot=mmap.PROT_READ)
    pending = b""
    while True:
        check_head(region, uuids)
        check_moving(region)
        passes += 1
        if not select.select([0], [], [], 0.02)[0]:
            continue
        chunk = os.read(0, 4096)
        if not chunk:
            break
        pending += chunk
        while b"\n" in pending:
            line, pending = pending.split(b"\n", 1)
            check_at_rest(region, [int(word) for word in line.split()[1:]])
            os.write(1, b"ok\n")
    print(f"HAMi region: {passes} passes, all sane", file=sys.stderr)


main()
