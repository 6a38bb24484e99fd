"""Random steps on a real API server and kube-scheduler, with two replicas of the daemon: no card is over-granted at any
time, and after each pause the books of both are the sum of what live pods were given."""

import contextlib
import os
import random
import signal
import uuid

from kit import agent, cards, objects, procs
from kit.api import Refused

STEPS = int(os.environ.get("GS_STEPS", "1000"))
MEM, SHARES = 8192, 4
# A restart of the API server may be longer: then whoever led stops, and is started again.
LEASE = {"leaseDuration": "6s", "renewDeadline": "5s", "retryPeriod": "500ms"}
SILENT = 10  # steps of which somebody does not hear
GUARDED = "guarded"


class Fire:
    """`priorities`: names of classes, low and high. Each step() is one thing that happens in a cluster, each blow() one
    that breaks something."""

    def __init__(self, api, cluster, release, nodes, namespace, priorities, seed):
        self.api, self.cluster, self.release, self.nodes = api, cluster, release, nodes
        self.namespace, self.path, self.priorities = namespace, objects.PODS.format(namespace), priorities
        self.random, self.n, self.blows = random.Random(seed), 0, 0
        self.deaf, self.evicted, self.allowed = [], set(), 0
        self.done = dict.fromkeys(("evicted", "kept by a budget", "preempted", "told 410"), 0)
        agent.set_budget(api, namespace, GUARDED, self.allowed)

    def pods(self):
        return self.api.get(self.path)["items"]

    def one(self, check=lambda pod: True):
        found = [p for p in self.pods() if check(p)]
        return self.random.choice(found) if found else None

    # -- steps --

    def create(self):
        self.n += 1
        mem = self.random.choice([500, 1000, 3000, 5000, 8192])
        limits = {"nvidia.com/gpu": self.random.choice([1, 1, 1, 2]), "nvidia.com/gpumem": mem}
        low, high = self.priorities
        self.api.post(self.path, objects.pod(
            f"f{self.n}", limits, scheduler=self.release.scheduler_name,
            labels={"app": self.random.choice([GUARDED, "free", "free"])},
            priorityClassName=self.random.choice([low, low, low, high])))

    def delete(self):
        if pod := self.one():
            self.api.delete(objects.path_of(pod))

    def finish(self):
        if pod := self.one(cards.is_live):
            agent.set_phase(self.api, pod, self.random.choice(["Succeeded", "Failed", "Running"]))

    def evict(self):
        """As `kubectl drain` does. Its card is taken until it has ended."""
        pod = self.one(lambda p: cards.is_live(p) and not objects.is_going(p))
        if not pod:
            return
        agent.set_phase(self.api, pod, "Running", conditions=[{"type": "Ready", "status": "True"}])  # else no budget counts
        name = pod["metadata"]["name"]
        try:
            self.api.post(f"{self.path}/{name}/eviction", {
                "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": self.namespace}})
            said = 201
        except Refused as e:
            said = e.status
        guarded = pod["metadata"]["labels"]["app"] == GUARDED
        # 404, 409: the daemon asked it to go, or wrote to it, at the same time
        assert said in ((429,) if guarded and self.allowed == 0 else (201, 429) if guarded else (201,)) + (404, 409)
        if said == 201:
            self.evicted.add(pod["metadata"]["uid"])
            self.done["evicted"] += 1
        self.done["kept by a budget"] += said == 429

    def budget(self):
        self.allowed = self.random.choice([0, 0, 1, 3])
        agent.set_budget(self.api, self.namespace, GUARDED, self.allowed, create=False)

    def reap(self):
        """As kubelets end those who were asked to go, by us or by the daemon."""
        going = [p for p in self.pods() if objects.is_going(p)]
        self.api.delete_all(list(map(objects.path_of, going)))
        self.done["preempted"] += sum(p["metadata"]["uid"] not in self.evicted for p in going)

    def promise(self):
        """A filter that no bind follows, or a bind that must fail: the pod does not exist."""
        name, uid = f"ghost{self.n}", str(uuid.UUID(int=self.random.getrandbits(128)))
        body = objects.pod(name, {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000})
        body["metadata"].update(uid=uid, namespace="default")
        asked = self.random.choice([r for r in self.release.replicas if r.daemon.is_running() and r not in self.deaf])
        found = asked.call("filter", {"Pod": body, "NodeNames": self.nodes})
        if found["NodeNames"] and self.random.random() < 0.5:
            answer = asked.call("bind", {"PodName": name, "PodNamespace": "default", "PodUID": uid,
                                         "Node": found["NodeNames"][0]})
            assert answer["Error"]

    def look(self):
        cards.check(self.pods(), MEM, SHARES)

    def step(self):
        verb = self.random.choices(
            [self.create, self.delete, self.finish, self.evict, self.budget, self.reap, self.promise, self.look],
            [50, 18, 12, 8, 3, 4, 5, 3])[0]
        verb()

    def steps(self):
        for _ in range(SILENT):
            self.step()

    # -- blows --

    @contextlib.contextmanager
    def silence(self, replica):
        """Its daemon cannot reach the API server."""
        ports, replica.wire.endpoints = replica.wire.endpoints, []
        self.deaf = [replica]
        replica.wire.cut()
        yield
        self.deaf = []
        replica.wire.endpoints = ports

    def follower(self):
        leader = self.release.leader()
        return next(r for r in self.release.replicas if r is not leader)

    def broken_connections(self):
        for replica in self.release.replicas:
            replica.wire.cut()

    def killed_daemon(self):
        self.random.choice(self.release.replicas).restart_daemon(signal.SIGKILL)

    def gap(self):
        with self.silence(self.random.choice(self.release.replicas)):
            self.steps()

    def gap_that_nobody_can_fill(self):
        """The API server starts anew and has forgotten what happened meanwhile: it says 410, and all is listed again."""
        replica = self.random.choice(self.release.replicas)
        told = told_410(replica)
        with self.silence(replica):
            self.steps()
            self.create()  # one at least
            self.cluster.compact()
            self.cluster.kill_apiserver()
            self.cluster.start_apiserver()
        procs.until(lambda: told_410(replica) > told, 60, "410")
        self.done["told 410"] += 1

    def killed_leader(self):
        self.release.leader().kill()
        self.steps()

    def ended_leader(self):
        self.release.leader().stop()
        self.steps()

    def killed_leader_of_one_who_knows_less(self):
        """Who takes over has not heard of what was given last."""
        follower = self.follower()
        with self.silence(follower):
            self.steps()
            self.release.leader().kill()
        self.steps()

    def blow(self):
        kinds = [self.killed_leader_of_one_who_knows_less, self.gap_that_nobody_can_fill, self.ended_leader, self.gap,
                 self.killed_daemon, self.broken_connections, self.killed_leader]
        kind = kinds[self.blows % len(kinds)]
        self.blows += 1
        kind()
        self.tend()

    # -- pauses --

    def tend(self):
        for replica in self.release.replicas:
            replica.tend()

    def settle(self):
        """Books and annotations agree: no reservation is left, and nothing is on its way."""
        def agree():
            self.tend()
            self.reap()
            pods = self.pods()
            cards.check(pods, MEM, SHARES)
            return all(cards.in_books(r.metrics()) == cards.granted(pods) for r in self.release.replicas)
        procs.until(agree, 100, "books = sum of live grants")

    def end(self):
        """All leave; then every card can be had whole."""
        self.api.delete_all([objects.path_of(p) for p in self.pods()])
        whole = {"nvidia.com/gpu": 2, "nvidia.com/gpumem": MEM}
        self.api.create_all(self.path, [objects.pod(f"last{i}", whole, scheduler=self.release.scheduler_name)
                                        for i in range(len(self.nodes))])
        self.api.wait_list(self.path, lambda pods: pods and all(map(objects.is_bound, pods.values())), 100,
                           "whole cards can be had")
        self.settle()


def told_410(replica) -> int:
    return replica.daemon.log.read_text(errors="replace").count(" ended: 410 ")


def test_books_under_fire(install_chart, make_nodes, api, cluster, namespace, priority):
    release = install_chart(values={"scheduler": {"extender": {"extraArgs": ["--reservation-lease=5s"]}}}, replicas=2,
                            lease=LEASE)
    for replica in release.replicas:
        replica.wired()
    release.start()
    nodes = make_nodes(3, cards=2, vendor="nvidia", mem=MEM, count=SHARES,
                       annotations={"gpuslice.io/identity": "prestart"})
    seed = int(os.environ.get("GS_SEED", random.randrange(1 << 30)))
    print(f"GS_SEED={seed}")
    fire = Fire(api, cluster, release, nodes, namespace, (priority(10), priority(1000)), seed)
    for i in range(1, STEPS + 1):
        fire.step()
        if i % 40 == 20:
            fire.blow()
        if i % 100 == 0:
            fire.settle()
    fire.end()
    print(fire.done)
    assert all(fire.done.values()), fire.done
