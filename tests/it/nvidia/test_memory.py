"""The memory rows of the hook, on simulated cards: what a program is granted, refused and told.

The client is a C program linked plainly against libcuda.so.1. What the cards themselves have lost is asked
by a second client without the hook: the independent witness."""

import subprocess

import pytest

from conftest import MIB, build_dir

OOM = 2
INVALID_VALUE = 1
INVALID_CONTEXT = 201
CLIENT = "tests/it/nvidia/memory_client"


class Client:
    """One running client; `do` sends a line and returns the numbers of its answer."""

    def __init__(self, env):
        self.process = subprocess.Popen([build_dir() / CLIENT], env=env, text=True, bufsize=1,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def send(self, *words):
        self.process.stdin.write(" ".join(str(w) for w in words) + "\n")
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline()
        assert line, "the client died"
        return [int(w) for w in line.split()]

    def do(self, *words):
        self.send(*words)
        answer = self.answer()
        return answer[0] if len(answer) == 1 else answer

    def start(self, device=0):
        assert self.do("init") == 0
        assert self.do("ctx", 0, device) == 0
        return self

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=60) == 0


@pytest.fixture
def clients():
    """Factory: clients(env) -> a running client."""
    running = []

    def start(env):
        client = Client(env)
        running.append(client)
        return client

    yield start
    for client in running:
        if client.process.poll() is None:
            client.process.kill()
        client.process.wait()


@pytest.fixture
def world(make_sim, clients):
    """One card of 1 GiB: (held client under 64 MiB, function that tells what the card has lost)."""

    def build(limit="64m", memory="1Gi", **config):
        sim = make_sim(cards=1, memory=memory, **config)
        witness = clients(sim.env()).start()
        total = witness.do("info")[2]
        before = total - witness.do("info")[1]
        held = clients(sim.hook_env(limit))

        def lost():
            return total - witness.do("info")[1] - before

        return held, lost

    return build


def test_the_byte_that_reaches_the_limit_is_granted(world):
    held, lost = world()
    held.start()
    assert held.do("alloc", 1, 64 * MIB)[0] == 0
    assert lost() == 64 * MIB
    assert held.do("alloc", 2, 1)[0] == OOM
    assert held.do("free", 1) == 0
    assert lost() == 0
    assert held.do("alloc", 1, 64 * MIB + 1)[0] == OOM
    assert held.do("info") == [0, 64 * MIB, 64 * MIB]


@pytest.mark.parametrize("size,count", [(MIB, 64), (2 * MIB, 32), (MIB // 2, 128), (MIB + 1, 32), (3 * MIB, 16)])
def test_as_many_fit_as_the_card_would_give(world, size, count):
    held, lost = world()
    held.start()
    assert held.do("fill", 1, size) == [OOM, count]
    assert lost() == 64 * MIB
    assert held.do("info")[1] == 0
    assert held.do("unfill", 1, count) == 0
    assert lost() == 0
    assert held.do("fill", 1, size) == [OOM, count]


def test_small_pieces_fill_blocks_to_the_last(world):
    held, lost = world(limit="6m")
    held.start()
    assert held.do("fill", 1, 4096) == [OOM, 3 * 512]
    assert lost() == 6 * MIB
    assert held.do("free", 100) == 0
    assert held.do("alloc", 100, 4096)[0] == 0
    assert held.do("alloc", 5000, 4096)[0] == OOM
    assert lost() == 6 * MIB
    assert held.do("unfill", 1, 3 * 512) == 0
    assert lost() == 0


def test_any_granularity(world):
    held, lost = world(granularity="random")
    held.start()
    answer = held.do("fill", 1, 700001)
    assert answer[0] == OOM and answer[1] > 0
    assert lost() <= 64 * MIB
    assert held.do("info")[1] == 64 * MIB - lost()
    assert held.do("unfill", 1, answer[1]) == 0
    assert lost() == 0
    assert held.do("info")[1] == 64 * MIB


def test_every_way_is_refused_and_charged_alike(world):
    held, lost = world()
    held.start()
    for verb in ("managed",):
        assert held.do(verb, 1, 512 * MIB)[0] == OOM
    assert held.do("pitch", 1, 1 << 20, 512)[0] == OOM
    assert held.do("array", 1, 1 << 14, 1 << 15) == OOM
    assert held.do("mipmap", 1, 1 << 14, 1 << 15) == OOM
    assert held.do("heap", 512 * MIB) == OOM
    assert held.do("module", 1, 512 * MIB) == OOM
    assert lost() == 0
    assert held.do("info") == [0, 64 * MIB, 64 * MIB]

    assert held.do("managed", 1, 5 * MIB)[0] == 0
    # charged in full from the start, though the card gives nothing away before it is used
    assert held.do("info")[1] == 58 * MIB
    assert lost() == 0
    assert held.do("set", 1, 5 * MIB, 1) == 0
    assert lost() == 6 * MIB
    assert held.do("pitch", 2, 513, 8192) == [0, 1024]
    assert held.do("array", 3, 1 << 11, 1 << 11) == 0
    assert held.do("mipmap", 4, 1 << 10, 1 << 10) == 0
    assert held.do("module", 5, 3 * MIB) == 0
    assert held.do("info")[1] == 64 * MIB - lost()
    assert lost() > 0
    for verb, name in (("free", 1), ("free", 2), ("unarray", 3), ("unmipmap", 4), ("unmodule", 5)):
        assert held.do(verb, name) == 0
        assert held.do("info")[1] == 64 * MIB - lost()
    assert lost() == 0


def test_pointers_that_are_not_ours(world):
    held, lost = world()
    held.start()
    assert held.do("freeptr", 0) == 0
    assert held.do("freeptr", 0x123456) == INVALID_VALUE
    assert held.do("alloc", 1, MIB)[0] == 0
    assert held.do("free", 1) == 0
    assert held.do("free", 1) == INVALID_VALUE
    assert held.do("allocnull", MIB) == INVALID_VALUE
    assert held.do("alloc", 1, 0)[0] == INVALID_VALUE
    assert held.do("alloc", 1, (1 << 64) - 1)[0] == OOM
    assert held.do("nouse") == 0
    assert held.do("alloc", 1, MIB)[0] == INVALID_CONTEXT
    assert held.do("info")[0] == INVALID_CONTEXT
    assert lost() == 0


def test_a_context_takes_its_memory_with_it(world):
    held, lost = world()
    held.start()
    assert held.do("fill", 1, 300 * 1024)[0] == OOM
    assert held.do("destroy", 0) == 0
    assert lost() == 0
    assert held.do("ctx", 0, 0) == 0
    assert held.do("info") == [0, 64 * MIB, 64 * MIB]
    assert held.do("retain", 0, 0) == 0
    assert held.do("use", 0) == 0
    assert held.do("alloc", 1, 64 * MIB)[0] == 0
    assert held.do("reset", 0) == 0
    assert lost() == 0
    assert held.do("retain", 0, 0) == 0
    assert held.do("use", 0) == 0
    assert held.do("alloc", 1, 64 * MIB)[0] == 0
    assert held.do("release", 0) == 0
    assert lost() == 0


def test_a_context_is_charged(make_sim, clients):
    sim = make_sim(cards=1, memory="1Gi", overhead="20Mi")
    held = clients(sim.hook_env("64m")).start()
    assert held.do("info") == [0, 44 * MIB, 64 * MIB]
    assert held.do("alloc", 1, 44 * MIB)[0] == 0
    assert held.do("alloc", 2, 1)[0] == OOM
    assert held.do("ctx", 2, 0) == OOM
    assert held.do("free", 1) == 0
    assert held.do("ctx", 2, 0) == 0
    assert held.do("info") == [0, 24 * MIB, 64 * MIB]
    assert held.do("destroy", 2) == 0
    second = clients(sim.hook_env("64m")).start()  # knows the cost from the ledger
    assert second.do("info") == [0, 24 * MIB, 64 * MIB]
    second.close()
    assert held.do("use", 0) == 0
    assert held.do("info") == [0, 44 * MIB, 64 * MIB]


def test_a_primary_context_is_charged_while_it_is_held(make_sim, clients):
    sim = make_sim(cards=1, memory="1Gi", overhead="20Mi")
    held = clients(sim.hook_env("64m"))
    assert held.do("init") == 0
    for _ in range(3):
        assert held.do("retain", 0, 0) == 0
    assert held.do("use", 0) == 0
    assert held.do("info") == [0, 44 * MIB, 64 * MIB]
    assert held.do("release", 0) == 0
    assert held.do("release", 0) == 0
    assert held.do("info") == [0, 44 * MIB, 64 * MIB]
    assert held.do("release", 0) == 0
    assert held.do("ctx", 1, 0) == 0
    assert held.do("info") == [0, 44 * MIB, 64 * MIB]


def test_a_limit_below_the_cost_of_a_context(make_sim, clients):
    sim = make_sim(cards=1, memory="1Gi", overhead="100Mi")
    held = clients(sim.hook_env("64m"))
    witness = clients(sim.env()).start()
    free = witness.do("info")[1]
    assert held.do("init") == 0
    assert held.do("ctx", 0, 0) == OOM
    assert held.do("retain", 0, 0) == OOM
    assert witness.do("info")[1] == free


@pytest.mark.parametrize("visible,order", [(None, [0, 1, 2]), ("2,0,1", [2, 0, 1]), ("1", [1]), ("2,1", [2, 1])])
def test_each_card_has_its_limit_whatever_it_is_called(make_sim, clients, visible, order):
    sim = make_sim(cards=3, memory="1Gi")
    limits = [64, 128, 256]
    env = sim.hook_env(None, CUDA_VISIBLE_DEVICES=visible,
                       **{f"CUDA_DEVICE_MEMORY_LIMIT_{i}": f"{m}m" for i, m in enumerate(limits)})
    held = clients(env)
    assert held.do("init") == 0
    for ordinal, card in enumerate(order):
        limit = limits[card] * MIB
        assert held.do("total", ordinal) == [0, limit]
        assert held.do("ctx", ordinal, ordinal) == 0
        assert held.do("alloc", 10 + ordinal, limit)[0] == 0
        assert held.do("alloc", 20, 1)[0] == OOM
        assert held.do("info") == [0, 0, limit]
    for card in range(3):
        used = limits[card] * MIB if card in order else 0
        assert held.do("nvml", card) == [0, limits[card] * MIB, used, limits[card] * MIB - used]


def test_answers_agree(make_sim, clients):
    sim = make_sim(cards=1, memory="1Gi")
    held = clients(sim.hook_env("64m")).start()
    assert held.do("alloc", 1, 10 * MIB)[0] == 0
    assert held.do("info") == [0, 54 * MIB, 64 * MIB]
    assert held.do("total", 0) == [0, 64 * MIB]
    assert held.do("nvml", 0) == [0, 64 * MIB, 10 * MIB, 54 * MIB]
    second = clients(sim.hook_env("64m")).start()
    assert second.do("info") == [0, 54 * MIB, 64 * MIB]
    neighbour = clients(sim.env()).start()
    assert neighbour.do("alloc", 1, 1000 * MIB)[0] == 0
    assert held.do("info") == [0, 14 * MIB, 64 * MIB]


def test_a_limit_larger_than_the_card(make_sim, clients):
    sim = make_sim(cards=1, memory="1Gi")
    held = clients(sim.hook_env("8g")).start()
    assert held.do("info") == [0, 1024 * MIB, 1024 * MIB]
    assert held.do("total", 0) == [0, 1024 * MIB]


@pytest.mark.parametrize("limit", ["12zb", "-1", "1e999", "0x10", "08m"])
def test_an_unreadable_limit_closes_the_card(make_sim, clients, limit):
    sim = make_sim(cards=1, memory="1Gi")
    held = clients(sim.hook_env(limit))
    assert held.do("init") == 0
    assert held.do("ctx", 0, 0) == OOM
    assert sim.status()["cards"][0]["used_bytes"] == 0


def test_no_limit(make_sim, clients):
    sim = make_sim(cards=1, memory="1Gi")
    held = clients(sim.hook_env("0m")).start()
    assert held.do("info") == [0, 1024 * MIB, 1024 * MIB]
    assert held.do("alloc", 1, 1024 * MIB)[0] == 0


@pytest.mark.parametrize("granularity", ["2Mi", "random"])
def test_the_card_never_lost_more_than_the_limit(make_sim, clients, granularity):
    """Two processes of four threads near the limit: the card's own peak of the slice is the witness.

    Each first asks for more than 100 MiB in all and frees nothing, so each is refused however they are scheduled;
    both hold what they got when they go on."""
    sim = make_sim(cards=1, memory="1Gi", granularity=granularity)
    pair = [clients(sim.hook_env("64m")).start() for _ in range(2)]
    for i, client in enumerate(pair):
        client.send("churn", 4000, 100 + i)
    assert [client.answer() for client in pair] == [[0], [0]]
    full = next(g for g in sim.status()["groups"] if g["name"] == "slice.cache")["cards"][0]
    assert 56 * MIB < full["used_bytes"] <= 64 * MIB
    for client in pair:
        client.send("go")
    answers = [client.answer() for client in pair]
    assert all(wrong == 0 and refused > 0 for _, refused, wrong in answers)
    # of both: the first to ask may hold everything, and free none of it before the other has come to its end
    assert sum(granted for granted, _, _ in answers) > 0
    assert pair[0].do("info") == [0, 64 * MIB, 64 * MIB]
    slice_of_card = next(g for g in sim.status()["groups"] if g["name"] == "slice.cache")["cards"][0]
    assert slice_of_card["used_bytes"] == 0
    assert slice_of_card["peak_bytes"] <= 64 * MIB
    # near the limit holes are used: nothing but a tail smaller than what was asked for stays free
    assert slice_of_card["peak_bytes"] > 56 * MIB
