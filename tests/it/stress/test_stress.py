"""Many processes and threads at the limit of several cards at once: the card itself never lost more than the
limit, and when all is given back both books read zero while everybody is still alive."""

import json
import os
import subprocess

import pytest

from conftest import MIB, build_dir, stage_dir

CLIENT = build_dir() / "tests/it/stress/stress_client"
PROCESSES, THREADS, CARDS = 8, 4, 4
SECONDS = 10 if os.environ.get("GS_QUICK") else 60


def group(sim, name):
    found = [g for g in sim.status()["groups"] if g["name"] == name]
    assert len(found) == 1, found
    return {c["index"]: c for c in found[0]["cards"]}


# zero-cost: calls as fast as they can be; else streams and frees take their modelled time
@pytest.mark.parametrize("mode,limit", [("zero-cost", 300 * MIB), (None, 96 * MIB)])
def test_all_ends_with_zero(make_sim, mode, limit):
    sim = make_sim(cards=CARDS, memory="8Gi", **({"mode": mode} if mode else {}))
    env = sim.env(GPUSLICE_SIM_GROUP="held")
    run = [stage_dir() / "bin" / "gpuslice", "run", "--device", "all", "--memory", limit, "--name", "stress", "--",
           "sh", "-c", 'for i in $(seq "$4"); do "$1" "$2" "$3" "$i" <&3 & done; wait', "sh",
           CLIENT, SECONDS // 2, THREADS, PROCESSES]
    read_end, write_end = os.pipe()
    # the clients end when the pipe does; by descriptor 3, as a shell gives its background jobs /dev/null
    holder = subprocess.Popen(["sh", "-c", 'exec "$@" 3<&0', "sh", *map(str, run)], env=env, stdin=read_end,
                              stdout=subprocess.PIPE, text=True)
    os.close(read_end)
    try:
        for _ in range(PROCESSES):
            assert holder.stdout.readline() == "done\n"
        top = json.loads(sim.run(stage_dir() / "bin" / "gpuslice", "top", "--once", "--json", env=env).stdout)
        card = group(sim, "held")
    finally:
        os.close(write_end)
        assert holder.wait(timeout=60) == 0
    assert len(card) == CARDS
    for index in range(CARDS):
        assert card[index]["used_bytes"] == 0
        assert limit // 2 < card[index]["peak_bytes"] <= limit  # it was pushed, and held
    (mine,) = [s for s in top["slices"] if s["name"] == "stress"]
    assert len(mine["processes"]) >= PROCESSES
    for device in mine["devices"]:
        assert device["used_bytes"] == 0, device
