"""Random steps on a real API server and kube-scheduler: no card is over-granted at any time, and after each pause the
books are the sum of what live pods were given."""

import os
import random
import signal
import uuid

from kit import agent, cards, objects, procs

STEPS = int(os.environ.get("GS_STEPS", "1000"))
MEM, SHARES = 8192, 4


class Fire:
    def __init__(self, api, release, nodes, namespace, seed):
        self.api, self.release, self.nodes = api, release, nodes
        self.path, self.random, self.n = objects.PODS.format(namespace), random.Random(seed), 0

    def pods(self):
        return self.api.get(self.path)["items"]

    def create(self):
        self.n += 1
        mem = self.random.choice([500, 1000, 3000, 5000, 8192])
        limits = {"nvidia.com/gpu": self.random.choice([1, 1, 1, 2]), "nvidia.com/gpumem": mem}
        self.api.post(self.path, objects.pod(f"f{self.n}", limits))

    def one(self, check=lambda pod: True):
        found = [p for p in self.pods() if check(p)]
        return self.random.choice(found) if found else None

    def delete(self):
        if pod := self.one():
            self.api.delete(objects.path_of(pod))

    def finish(self):
        if pod := self.one(cards.is_live):
            agent.set_phase(self.api, pod, self.random.choice(["Succeeded", "Failed", "Running"]))

    def promise(self):
        """A filter that no bind follows, or a bind that must fail: the pod does not exist."""
        name, uid = f"ghost{self.n}", str(uuid.UUID(int=self.random.getrandbits(128)))
        body = objects.pod(name, {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000})
        body["metadata"].update(uid=uid, namespace="default")
        found = self.release.call("filter", {"Pod": body, "NodeNames": self.nodes})
        if found["NodeNames"] and self.random.random() < 0.5:
            answer = self.release.call("bind", {"PodName": name, "PodNamespace": "default", "PodUID": uid,
                                        "Node": found["NodeNames"][0]})
            assert answer["Error"]

    def look(self):
        cards.check(self.pods(), MEM, SHARES)

    def step(self):
        verb = self.random.choices([self.create, self.delete, self.finish, self.promise, self.look],
                                   [50, 28, 14, 5, 3])[0]
        verb()

    def settle(self):
        """Books and annotations agree: no reservation is left, and nothing is on its way."""
        def agree():
            pods = self.pods()
            cards.check(pods, MEM, SHARES)
            return cards.in_books(self.release.metrics()) == cards.granted(pods)
        procs.until(agree, 75, "books = sum of live grants")


def test_books_under_fire(scheduler_daemon, make_nodes, api, cluster, namespace):
    release = scheduler_daemon(values={"scheduler": {"extender": {"extraArgs": ["--reservation-lease=5s"]}}})
    nodes = make_nodes(3, cards=2, vendor="nvidia", mem=MEM, count=SHARES,
                       annotations={"gpuslice.io/identity": "prestart"})
    seed = int(os.environ.get("GS_SEED", random.randrange(1 << 30)))
    print(f"GS_SEED={seed}")
    fire = Fire(api, release, nodes, namespace, seed)
    for i in range(1, STEPS + 1):
        fire.step()
        if i % 250 == 100:
            release.restart_daemon(signal.SIGKILL)
        if i == STEPS // 2:
            cluster.kill_apiserver()
            cluster.start_apiserver()
        if i % 100 == 0:
            fire.settle()
