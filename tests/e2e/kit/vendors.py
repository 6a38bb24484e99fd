"""Simulated nodes of every vendor, as the vendors' own device plugins announce them.

Source: the public formats of HAMi v2.10 (register annotations as JSON or text, capacity alone, private JSON)."""

import json

NVIDIA_TYPE = "NVIDIA-A100-SXM4-40GB"


def json_devices(node: str, n: int, **each) -> str:
    prefix, more = each.pop("prefix"), each.pop("more", lambda i: {})
    devices = []
    for i in range(n):
        device = {"id": f"{prefix}-{node}-{i}", "index": i, "health": True, **each, **more(i)}
        devices.append({k: v for k, v in device.items() if v not in (0, "", False)})
    return json.dumps(devices, separators=(",", ":"))


def text_devices(node: str, n: int, prefix: str, count: int, mem: int, cores: int, kind: str) -> str:
    return "".join(f"{prefix}-{node}-{i},{count},{mem},{cores},{kind},0,true,{i},hami-core:" for i in range(n))


def nvidia(node, cards, mem=40960, cores=100, count=10, kind=NVIDIA_TYPE, mode="hami-core"):
    half = max(1, cards // 2)
    text = json_devices(node, cards, prefix="GPU", count=count, devmem=mem, devcore=cores, type=kind, mode=mode,
                        more=lambda i: {"numa": i // half})
    return {"hami.io/node-nvidia-register": text, "hami.io/node-handshake": "Reported_2026-01-01 00:00:00"}, {
        "nvidia.com/gpu": cards * count}


def amd(node, cards, mem=65536, cores=104, count=10, kind="AMD Instinct MI210"):
    text = json_devices(node, cards, prefix="gpu", count=count, devmem=mem, devcore=cores, type=kind,
                        more=lambda i: {"devicevendor": "amd",
                                        "custominfo": {"pciBDF": f"0000:{i + 1:02x}:00.0", "cuPerWGP": 1}})
    return {"hami.io/node-amd-register": text}, {"amd.com/gpu": cards * count}


def ascend(node, cards, word="Ascend910B3", mem=65536, cores=20, count=4, soft=True):
    text = json_devices(node, cards, prefix="npu", count=count, devmem=mem, devcore=cores, type=word,
                        more=lambda i: {"custominfo": {"NetworkID": 0}})
    return {f"hami.io/node-register-{word}": text,
            f"hami.io/node-handshake-{word}": "Reported_2026-01-01 00:00:00",
            "hami-vnpu-core": str(soft).lower()}, {f"huawei.com/{word}": cards * count}


def hygon(node, cards, mem=32768, cores=100, count=4):
    return {"hami.io/node-dcu-register": text_devices(node, cards, "DCU", count, mem, cores, "DCU-Z100"),
            "hami.io/node-handshake-dcu": "Reported_2026-01-01 00:00:00"}, {"hygon.com/dcunum": cards * count}


def iluvatar(node, cards, word="BI-V150", mem=32768, cores=100, count=4):
    return {f"hami.io/node-{word}-register": text_devices(node, cards, "ILU", count, mem, cores, word),
            f"hami.io/node-handshake-{word}": "Reported_2026-01-01 00:00:00"}, {
        f"iluvatar.ai/{word}-vgpu": cards * count}


def kunlun_xpu(node, cards, mem=98304, cores=100, count=4):
    text = json_devices(node, cards, prefix="XPU", count=count, devmem=mem, devcore=cores, type="XPU")
    return {"hami.io/node-register-xpu": text, "hami.io/node-handshake-xpu": "Reported_2026-01-01 00:00:00"}, {
        "kunlunxin.com/vxpu": cards * count}


def vastai(node, cards, count=1):
    text = json_devices(node, cards, prefix="VA", count=count, devmem=32768, devcore=100, type="Vastai")
    return {"hami.io/node-va-register": text, "hami.io/node-handshake-va": "Reported_2026-01-01 00:00:00"}, {
        "vastaitech.com/va": cards * count}


def biren(node, cards, count=1):
    text = json_devices(node, cards, prefix="BR", count=count, devmem=32768, devcore=100, type="Biren")
    return {"hami.io/node-biren-register": text, "hami.io/node-handshake-biren": "Reported_2026-01-01 00:00:00"}, {
        "birentech.com/gpu": cards * count}


def enflame_drs(node, cards):
    text = json.dumps({"devices": [{"index": str(i), "minor": str(i), "capacity": 6} for i in range(cards)],
                       "profiles": {"1g.6gb": "0", "3g.20gb": "1", "6g.40gb": "2"}})
    return {"enflame.com/gcu-drs-capacity": text}, {"enflame.com/drs-gcu": cards * 6}


def metax_sgpu(node, cards, mem=65536):
    text = json.dumps([{"uuid": f"MX-{node}-{i}", "bdf": f"0000:{i + 1:02x}:00.0", "model": "C500",
                        "totalDevCount": 16, "totalCompute": 100, "totalVRam": mem, "availableDevCount": 16,
                        "availableCompute": 100, "availableVRam": mem, "numa": 0, "healthy": True,
                        "qosPolicy": "best-effort", "linkZone": 1} for i in range(cards)])
    return {"metax-tech.com/node-gpu-devices": text}, {"metax-tech.com/sgpu": cards * 16}


def cambricon(node, cards, mem=23308):
    return {}, {"cambricon.com/vmlu": cards * 100, "cambricon.com/mlu.smlu.vmemory": cards * (mem // 256),
                "cambricon.com/mlu.smlu.vcore": cards * 100}


def mthreads(node, cards, mem=49152):
    return {}, {"mthreads.com/vgpu": cards * 100, "mthreads.com/sgpu-memory": cards * (mem // 512),
                "mthreads.com/sgpu-core": cards * 16}


def whole(resource):
    return lambda node, cards: ({}, {resource: cards})


def neuron(node, cards):
    return {}, {"aws.amazon.com/neuron": cards, "aws.amazon.com/neuroncore": cards * 2}


VENDORS = {
    "nvidia": nvidia, "amd": amd, "ascend": ascend, "hygon": hygon, "iluvatar": iluvatar, "xpu": kunlun_xpu,
    "vastai": vastai, "biren": biren, "enflame": enflame_drs, "metax-sgpu": metax_sgpu, "cambricon": cambricon,
    "mthreads": mthreads, "gcu": whole("enflame.com/gcu"), "metax": whole("metax-tech.com/gpu"),
    "kunlun": whole("kunlunxin.com/xpu"), "neuron": neuron, "none": lambda node, cards: ({}, {}),
}


def device_ids(node: str, cards: int, vendor: str = "nvidia") -> list[str]:
    """UUIDs that VENDORS gives the cards of a node where it announces them itself."""
    prefix = {"nvidia": "GPU", "amd": "gpu", "ascend": "npu", "hygon": "DCU", "iluvatar": "ILU", "xpu": "XPU",
              "vastai": "VA", "biren": "BR", "metax-sgpu": "MX"}[vendor]
    return [f"{prefix}-{node}-{i}" for i in range(cards)]
