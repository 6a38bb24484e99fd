"""The part of HAMi's node monitor that steers a slice, written from its region's layout (v1.2, LP64, little endian) and
not from our headers: utilization_switch and recent_kernel, plain stores."""

import mmap
import os
import struct

REGION_BYTES = 2008952
MAGIC = 19920718
SWITCH_AT, RECENT_AT, PRIORITY_AT, LAST_KERNEL_AT = 2008900, 2008904, 2008908, 2008912


class Monitor:
    def __init__(self, path):
        fd = os.open(path, os.O_RDWR)
        self.region = mmap.mmap(fd, REGION_BYTES)
        os.close(fd)
        assert struct.unpack_from("<i", self.region, 0)[0] == MAGIC

    def _get(self, at):
        return struct.unpack_from("<i", self.region, at)[0]

    def _set(self, at, value):
        struct.pack_into("<i", self.region, at, value)

    recent_kernel = property(lambda self: self._get(RECENT_AT), lambda self, v: self._set(RECENT_AT, v))
    utilization_switch = property(lambda self: self._get(SWITCH_AT), lambda self, v: self._set(SWITCH_AT, v))
    priority = property(lambda self: self._get(PRIORITY_AT))
    last_kernel_time = property(lambda self: struct.unpack_from("<Q", self.region, LAST_KERNEL_AT)[0])

    def tick(self, block=False):
        """What the monitor does every five seconds with one container."""
        if self.recent_kernel > 0:
            self.recent_kernel -= 1
        if block:
            self.recent_kernel = -1
        elif self.recent_kernel < 0:
            self.recent_kernel = 0
