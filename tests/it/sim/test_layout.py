"""How simulated cards sit, are linked and split, and what becomes of NVML with its driver: through NVIDIA's own Python client."""

import pytest

from conftest import stage_dir

pytest.importorskip("pynvml")

PRELUDE = """
import subprocess, sys
import pynvml as n
sim = lambda *a: subprocess.run(["gpuslice-sim", *map(str, a)], check=True)
def code(f, *a):
    try:
        return f(*a)
    except n.NVMLError as e:
        return e.value
n.nvmlInit()
hs = [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())]
"""


def lines(sim, code):
    done = sim.python(PRELUDE + code)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_cards_are_made_without_links_and_far_apart(make_sim):
    assert lines(make_sim(cards=2), """
print(n.nvmlDeviceGetTopologyCommonAncestor(*hs) == n.NVML_TOPOLOGY_NODE, int(n.nvmlDeviceOnSameBoard(*hs)))
print(code(n.nvmlDeviceGetNvLinkState, hs[0], 0) == n.NVML_ERROR_NOT_SUPPORTED)
print(code(n.nvmlDeviceGetNvLinkRemotePciInfo, hs[0], 0) == n.NVML_ERROR_NOT_SUPPORTED)
""") == ["True 0", "True", "True"]


def test_links_lead_to_the_other_card_and_to_the_switch(make_sim):
    assert lines(make_sim(cards=3), """
sim("near", 0, 1, "board"); sim("near", 0, 2, "system")
sim("link", 0, 1, 2); sim("link", 0, 2, 1, "--one-way"); sim("link", 0, "switch", 3)
bus = {n.nvmlDeviceGetPciInfo(h).busId: i for i, h in enumerate(hs)}
def links(h):
    out = []
    for i in range(18):
        if n.nvmlDeviceGetNvLinkState(h, i) == n.NVML_FEATURE_ENABLED:
            kind = n.nvmlDeviceGetNvLinkRemoteDeviceType(h, i)
            out.append("switch" if kind == n.NVML_NVLINK_DEVICE_TYPE_SWITCH else bus[n.nvmlDeviceGetNvLinkRemotePciInfo(h, i).busId])
    return out
print(links(hs[0])); print(links(hs[1])); print(code(links, hs[2]) == n.NVML_ERROR_NOT_SUPPORTED)
print(int(n.nvmlDeviceOnSameBoard(hs[0], hs[1])), int(n.nvmlDeviceOnSameBoard(hs[1], hs[2])))
print(n.nvmlDeviceGetTopologyCommonAncestor(hs[2], hs[0]) == n.NVML_TOPOLOGY_SYSTEM)
print(code(n.nvmlDeviceGetNvLinkState, hs[0], 18) == n.NVML_ERROR_INVALID_ARGUMENT)
""") == ["[1, 1, 2, 'switch', 'switch', 'switch']", "[0, 0]", "True", "1 0", "True", "True"]


def test_mig_devices_have_handles_of_their_own(make_sim):
    assert lines(make_sim(cards=1), """
h = hs[0]
print(code(n.nvmlDeviceGetMigMode, h) == n.NVML_ERROR_NOT_SUPPORTED)
sim("mig", 0, "off"); print(n.nvmlDeviceGetMigMode(h), n.nvmlDeviceGetMaxMigDeviceCount(h))
sim("mig", 0, "1g.5gb", "1g.5gb+me", "3g.20gb"); print(n.nvmlDeviceGetMigMode(h))
migs = [n.nvmlDeviceGetMigDeviceHandleByIndex(h, i) for i in range(3)]
print(code(n.nvmlDeviceGetMigDeviceHandleByIndex, h, 3) == n.NVML_ERROR_NOT_FOUND)
print([n.nvmlDeviceGetName(m).split(" MIG ")[1] for m in migs])
print([n.nvmlDeviceGetMemoryInfo(m).total >> 20 for m in migs])
a = n.nvmlDeviceGetAttributes(migs[2]); print(a.gpuInstanceSliceCount, a.computeInstanceSliceCount, a.memorySizeMB)
print([(n.nvmlDeviceGetGpuInstanceId(m), n.nvmlDeviceGetComputeInstanceId(m)) for m in migs])
uuids = [n.nvmlDeviceGetUUID(m) for m in migs]
print(len(set(uuids)), all(u.startswith("MIG-") and len(u) == 40 for u in uuids))
print([n.nvmlDeviceGetUUID(n.nvmlDeviceGetHandleByUUID(u)) for u in uuids] == uuids)
print([n.nvmlDeviceIsMigDeviceHandle(m).value for m in [h, *migs]])
print(n.nvmlDeviceGetIndex(n.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(migs[1])))
print(code(n.nvmlDeviceGetMinorNumber, migs[0]) == n.NVML_ERROR_NOT_SUPPORTED)
s = n.nvmlEventSetCreate(); n.nvmlDeviceRegisterEvents(h, n.nvmlEventTypeXidCriticalError, s)
sim("xid", 0, 63, 1); e = n.nvmlEventSetWait_v2(s, 5000); print(e.eventData, e.gpuInstanceId, e.computeInstanceId)
""") == ["True", "[0, 0] 7", "[1, 1]", "True", "['1g.5gb', '1g.5gb+me', '3g.20gb']", "[4864, 4864, 20224]", "3 3 20224",
          "[(1, 0), (2, 0), (3, 0)]", "3 True", "True", "[0, 1, 1, 1]", "0", "True", "63 2 0"]


def test_a_session_does_not_outlive_its_driver(make_sim):
    assert lines(make_sim(cards=1), """
s = n.nvmlEventSetCreate(); n.nvmlDeviceRegisterEvents(hs[0], n.nvmlEventTypeXidCriticalError, s)
sim("driver", "stop")
print(code(n.nvmlDeviceGetName, hs[0]) == n.NVML_ERROR_DRIVER_NOT_LOADED, code(n.nvmlInit) == n.NVML_ERROR_DRIVER_NOT_LOADED)
sim("driver", "start")
print(code(n.nvmlDeviceGetName, hs[0]) == n.NVML_ERROR_UNKNOWN, code(n.nvmlEventSetWait_v2, s, 1000) == n.NVML_ERROR_UNKNOWN)
n.nvmlShutdown(); n.nvmlInit(); print(n.nvmlDeviceGetName(n.nvmlDeviceGetHandleByIndex(0))[:6])
sim("lose", 0); print(code(n.nvmlDeviceGetHandleByIndex, 0) == n.NVML_ERROR_GPU_IS_LOST)
sim("return", 0); print(n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByIndex(0)))
f = lambda: n.nvmlDeviceGetFieldValues(n.nvmlDeviceGetHandleByIndex(0), [n.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])[0].value.uiVal
print(f()); sim("recovery", 0, "reset"); print(f() == n.NVML_GPU_RECOVERY_ACTION_GPU_RESET)
""") == ["True True", "True True", "NVIDIA", "True", "0", "0", "True"]


@pytest.mark.parametrize("words", [
    ("near", "0", "0", "node"), ("near", "0", "1", "far"), ("link", "0", "1"), ("link", "0", "1", "19"),
    ("link", "0", "switch", "2", "--both"), ("mig", "0"), ("mig", "0", "8g.5gb"), ("mig", "0", "1g.5"), ("mig", "0", "1g.5gbx"),
    ("recovery", "0", "pray"), ("driver", "pause"), ("return", "2"), ("xid", "0", "79", "0"), ("driver",)])
def test_bad_words_are_told(make_sim, words):
    sim = make_sim(cards=2)
    done = sim.run(stage_dir() / "bin" / "gpuslice-sim", *words)
    assert done.returncode == 2 and f"usage: gpuslice-sim {words[0]}" in done.stderr


def test_more_than_a_card_has_is_refused(make_sim):
    sim = make_sim(cards=3)
    tool = stage_dir() / "bin" / "gpuslice-sim"
    assert sim.run(tool, "link", "0", "1", "12").returncode == 0
    for words in (("mig", "0", "4g.20gb", "4g.20gb"), ("link", "0", "2", "7"), ("link", "2", "1", "7"), ("link", "0", "switch", "7")):
        done = sim.run(tool, *words)
        assert done.returncode == 1 and "No space" in done.stderr, words
    assert sim.run(tool, "link", "0", "1", "18").returncode == 0  # in place of the 12


def test_who_loads_nvml_while_the_driver_is_stopped_gets_no_session(make_sim):
    sim = make_sim(cards=1)
    assert sim.run(stage_dir() / "bin" / "gpuslice-sim", "driver", "stop").returncode == 0
    done = sim.python("import pynvml as n\ntry:\n    n.nvmlInit()\nexcept n.NVMLError as e:\n    print(e.value == n.NVML_ERROR_DRIVER_NOT_LOADED)")
    assert done.stdout == "True\n", done.stderr
