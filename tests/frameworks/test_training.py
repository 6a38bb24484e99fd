"""A PyTorch training loop under a share of a card's time: it finishes, and the card says that it had its share."""

import json
import sys

from test_frameworks import HERE, ROOT, need

sys.path.insert(0, str(ROOT / "bench"))

import limiter_judge as judge  # noqa: E402
import pytest  # noqa: E402
from limiter_cards import STAGE, Cards  # noqa: E402

KERNEL_NS = 1_000_000


def train(options, steps):
    """torch 1.12.1 over its own CUDA runtime 10.2 and cuBLAS: (what it said, its share in the settled middle)."""
    torch, py = need("torch1.12"), need("python3.9")
    lib, sim = py / "usr" / "lib", STAGE / "lib" / "gpuslice" / "sim" / "nvidia"
    with Cards() as cards:
        watch = cards.watch()
        before = [STAGE / "bin" / "gpuslice", "run", "--name", "train", *options, "--"] if options else []
        p = cards.start([*before, py / "usr" / "bin" / "python3.9", HERE / "torch_train.py", "0", steps], "train",
                        PYTHONHOME=py / "usr", PYTHONPATH=torch, GPUSLICE_SIM_KERNEL_NS=KERNEL_NS,
                        LD_LIBRARY_PATH=f"{sim}:{lib / 'x86_64-linux-gnu'}:{py / 'lib' / 'x86_64-linux-gnu'}")
        out, err = p.communicate(timeout=300)
        assert p.returncode == 0, err[-3000:]
        curve = watch.curve("train")
    # loading and clearing come first; training is the last stretch of work
    last = next(t for t, used in curve if used >= curve[-1][1] - 1e-9)
    seconds = json.loads(out.splitlines()[-1])["seconds"]
    length = min(5.0, seconds * 0.6)
    found = judge.windows(curve, last - length - 0.2, length)
    return json.loads(out.splitlines()[-1]), found[0][1]


def test_training_has_its_share():
    whole, rate = train(None, 100)
    part, share = train(["--cores", "30"], 100)
    for seen in (whole, part):
        assert seen["steps"] == 100 and seen["shape"] == [32, 10] and seen["input_unchanged"]
    assert share == pytest.approx(min(0.30, rate), abs=0.03)
