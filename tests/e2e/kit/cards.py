"""What cards have been given away, by the pods' annotations alone and by the daemon's metrics."""

import collections
import re

from kit.objects import note

GRANT = "hami.io/vgpu-devices-allocated"
LINE = re.compile(r'^(\w+)\{(.*)\} (\S+)$')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def is_live(pod: dict) -> bool:
    return bool(pod["spec"].get("nodeName")) and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")


def granted(pods) -> dict[str, collections.Counter]:
    """{"mem": MiB by card, "slots": shares by card} of live, bound pods without init containers."""
    used = {"mem": collections.Counter(), "slots": collections.Counter()}
    for pod in pods:
        if is_live(pod):
            for device in re.split("[:;]", note(pod, GRANT, "")):
                if device:
                    uuid, _, mem, _ = device.split(",")
                    used["mem"][uuid] += int(mem)
                    used["slots"][uuid] += 1
    return used


def check(pods, mem: int, slots: int) -> None:
    """No card is over-granted."""
    pods = list(pods)
    used = granted(pods)
    for what, most in (("mem", mem), ("slots", slots)):
        for card, amount in used[what].items():
            assert amount <= most, (what, card, amount, [
                (p["metadata"]["name"], p["spec"]["nodeName"], p["metadata"]["annotations"])
                for p in pods if card + "," in note(p, GRANT, "")])


def in_books(text: str, prefix: str = "GPU-") -> dict[str, collections.Counter]:
    """As granted(), from a page of metrics."""
    used = {"mem": collections.Counter(), "slots": collections.Counter()}
    for line in text.splitlines():
        match = LINE.match(line)
        what = match and {"hami_gpu_memory_allocated_bytes": "mem", "hami_gpu_shared_count": "slots"}.get(match[1])
        if what:
            uuid = dict(LABEL.findall(match[2]))["device_uuid"]
            if uuid.startswith(prefix) and float(match[3]):
                used[what][uuid] = int(float(match[3]) / (2**20 if what == "mem" else 1))
    return used
