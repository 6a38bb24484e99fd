"""Both ends of the kubelet's APIs: grpcio with Python's own protobuf plays the kubelet."""

import concurrent.futures
import importlib.util
import queue

import grpc
import pytest
from grpc_peers import ROOT, channel


class Kubelet:
    """Registers plugins as the real one does: it dials back while Register is still being answered."""

    def __init__(self, apis, folder):
        self.dp, self.pr = apis.deviceplugin_v1beta1, apis.podresources_v1
        self.stub = apis.deviceplugin_v1beta1_grpc.DevicePluginStub
        self.folder = folder
        self.registered, self.lists = queue.Queue(), queue.Queue()
        self.channels = []
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
        apis.deviceplugin_registration_v1beta1_grpc.add_RegistrationServicer_to_server(self, self.server)
        apis.podresources_v1_grpc.add_PodResourcesListerServicer_to_server(self, self.server)
        self.path = folder / "kubelet.sock"
        self.server.add_insecure_port(f"unix:{self.path}")
        self.server.start()

    def Register(self, request, context):
        if request.version != "v1beta1":
            context.abort(grpc.StatusCode.UNKNOWN, f"requested API version {request.version} is not supported")
        c = grpc.insecure_channel(f"unix:{self.folder / request.endpoint}", [("grpc.use_local_subchannel_pool", 1)])
        self.channels.append(c)
        self.plugin = self.stub(c)
        self.options = self.plugin.GetDevicePluginOptions(self.dp.Empty(), timeout=10)
        stream = self.plugin.ListAndWatch(self.dp.Empty())
        self.lists.put(next(stream))
        concurrent.futures.ThreadPoolExecutor(1).submit(self._watch, stream)
        self.registered.put(request)
        return self.dp.Empty()

    def _watch(self, stream):
        try:
            for message in stream:
                self.lists.put(message)
        except grpc.RpcError as error:
            self.lists.put(error)

    def pod(self, name):
        held = lambda *ids: self.pr.ContainerDevices(resource_name="x.com/gpu", device_ids=ids,
                                                     topology=self.pr.TopologyInfo(nodes=[self.pr.NUMANode(ID=0)]))
        return self.pr.PodResources(name=name, namespace="ns", cpu_ids=[1, 2], containers=[
            self.pr.ContainerResources(name="c", devices=[held("a"), held("b")], cpu_ids=[3]),
            self.pr.ContainerResources(name="d")])

    def List(self, request, context):
        return self.pr.ListPodResourcesResponse(pod_resources=[self.pod("p"), self.pod("q")])

    def Get(self, request, context):
        if request.pod_namespace != "ns":
            context.abort(grpc.StatusCode.UNKNOWN, f"pod {request.pod_name} in namespace {request.pod_namespace} not found")
        return self.pr.GetPodResourcesResponse(pod_resources=self.pod(request.pod_name))

    def GetAllocatableResources(self, request, context):
        return self.pr.AllocatableResourcesResponse(cpu_ids=[0, 1, 2], devices=[
            self.pr.ContainerDevices(resource_name="x.com/gpu", device_ids=[f"id{i}" for i in range(3)])])

    def close(self):
        for c in self.channels:
            c.close()
        self.server.stop(None).wait()


@pytest.fixture
def kubelet(apis, folder):
    running = []

    def start():
        running.append(Kubelet(apis, folder))
        return running[-1]

    yield start
    for k in running:
        k.close()


@pytest.fixture
def plugin(serve, folder):
    t = serve()
    t.say("devices 4 1", "published")
    t.say(f"client {folder / 'kubelet.sock'} 0", "client")
    return t


def register(plugin, number):
    plugin.say("register a.sock x.com/gpu")
    return plugin.done(number)


def test_registered_and_used(kubelet, plugin):
    k = kubelet()
    assert register(plugin, 0)["rc"] == 0
    request = k.registered.get(timeout=30)
    assert (request.version, request.endpoint, request.resource_name) == ("v1beta1", "a.sock", "x.com/gpu")
    assert request.options.pre_start_required and request.options.get_preferred_allocation_available
    assert k.options == request.options
    assert [d.health for d in k.lists.get(timeout=30).devices] == ["Unhealthy"] + ["Healthy"] * 3
    plugin.say("devices 5 0", "published")
    assert len(k.lists.get(timeout=30).devices) == 5

    dp = k.dp
    answer = k.plugin.GetPreferredAllocation(dp.PreferredAllocationRequest(container_requests=[
        dp.ContainerPreferredAllocationRequest(available_deviceIDs=["a", "b", "c"], must_include_deviceIDs=["c"], allocation_size=2)]))
    assert list(answer.container_responses[0].deviceIDs) == ["b", "c"]
    answer = k.plugin.Allocate(dp.AllocateRequest(container_requests=[
        dp.ContainerAllocateRequest(devices_ids=["a", "b"]), dp.ContainerAllocateRequest(devices_ids=["c"])]))
    one, two = answer.container_responses
    assert dict(one.envs) == {"A": "1", "EMPTY": ""} and dict(one.annotations) == {"k": "v"}
    assert one.mounts == [dp.Mount(container_path="/c", host_path="/h", read_only=True)]
    assert one.devices == [dp.DeviceSpec(container_path="/dev/x", host_path="/dev/null", permissions="rw")]
    assert [d.name for d in one.cdi_devices] == ["a", "b"] and [d.name for d in two.cdi_devices] == ["c"]
    assert plugin.out.take("allocate 0") == "allocate 0 a b" and plugin.out.take("allocate 1") == "allocate 1 c"
    assert k.plugin.PreStartContainer(dp.PreStartContainerRequest(devices_ids=["b", "a"])) == dp.PreStartContainerResponse()
    assert plugin.out.take("prestart") == "prestart b a"


def test_refused_by_a_handler(kubelet, plugin):
    k = kubelet()
    register(plugin, 0)
    dp = k.dp
    with pytest.raises(grpc.RpcError) as error:
        k.plugin.GetPreferredAllocation(dp.PreferredAllocationRequest(container_requests=[
            dp.ContainerPreferredAllocationRequest(available_deviceIDs=["a"], allocation_size=2)]))
    assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT and error.value.details() == "only 1 are available"


@pytest.mark.parametrize("message", [b"\x0a", b"\xff" * 20, b"\x0a\x04\x0a\x02\xff\x41", b"\x0a\x04\x0a\x02a\0", b"\x0a\0" * 100_001],
                         ids=["cut", "tag", "utf8", "nul", "many"])
def test_broken_requests(plugin, path, message):
    with channel(path) as c:
        for method in ("Allocate", "GetPreferredAllocation", "PreStartContainer"):
            call = c.unary_unary(f"/v1beta1.DevicePlugin/{method}", request_serializer=None, response_deserializer=None)
            with pytest.raises(grpc.RpcError) as error:
                call(message)
            assert error.value.code() in (grpc.StatusCode.DATA_LOSS, grpc.StatusCode.RESOURCE_EXHAUSTED)
    assert plugin.stats()["active"] == 0


def test_a_refused_registration(plugin, peer, folder):
    def refuse(message, context):
        context.abort(grpc.StatusCode.UNKNOWN, "no such version")

    peer({"/v1beta1.Registration/Register": refuse}, at=folder / "kubelet.sock")
    done = register(plugin, 0)
    assert done["status"] == 2 and done["error"] == "UNKNOWN: no such version"


def test_the_kubelet_starts_anew(kubelet, plugin, path):
    """It removes the plugins' sockets: the plugin finds out, serves again and registers again."""
    for i in range(3):
        k = kubelet()
        assert register(plugin, i)["rc"] == 0
        assert len(k.lists.get(timeout=30).devices) == 4
        plugin.out.take("listed 1")
        k.close()
        plugin.out.take("listed 0")
        path.unlink()
        assert plugin.say("check", "check") == "-2"
        assert plugin.say("relisten", "relisten").startswith("0")


def test_the_plugin_goes(kubelet, plugin):
    k = kubelet()
    register(plugin, 0)
    k.lists.get(timeout=30)
    plugin.kill()
    ended = k.lists.get(timeout=30)
    assert isinstance(ended, grpc.RpcError) and ended.code() == grpc.StatusCode.UNAVAILABLE


def test_pod_resources(kubelet, plugin):
    kubelet()
    plugin.say("pods")
    assert plugin.done(0)["rc"] == 0
    lines = [plugin.out.take("pod ") for _ in range(4)]
    assert lines == ["pod ns/p c x.com/gpu=a x.com/gpu=b", "pod ns/p d", "pod ns/q c x.com/gpu=a x.com/gpu=b", "pod ns/q d"]
    plugin.say("pod ns r")
    assert plugin.done(1)["rc"] == 0
    assert plugin.out.take("pod ") == "pod ns/r c x.com/gpu=a x.com/gpu=b"
    plugin.say("pod other r")
    assert plugin.done(2)["error"] == "UNKNOWN: pod r in namespace other not found"
    plugin.say("allocatable")
    assert plugin.done(3)["rc"] == 0
    assert plugin.out.take("allocatable") == "allocatable x.com/gpu=id0,id1,id2"


def test_vectors_are_those_of_python():
    """The unit test's expected bytes are what Python's protobuf writes now."""
    folder = ROOT / "tests" / "unit" / "node"
    spec = importlib.util.spec_from_file_location("make_vectors", folder / "make_vectors.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.text() == (folder / "kubelet_vectors.inc.h").read_text()
