"""usage: make_vectors.py > kubelet_vectors.inc.h: messages of the kubelet's APIs as Python's protobuf writes them.

The content of each is spelled out again in kubelet_pb_test.c, which compares. tests/it/grpc checks that the file is
what this prints. Maps have one entry: Python writes more in any order."""

import importlib
import pathlib
import sys
import tempfile

from grpc_tools import protoc

PROTO = pathlib.Path(__file__).resolve().parents[3] / "proto"


def modules(folder, *names):
    """Python's modules of proto/NAME.proto, made in `folder`."""
    files = [str(PROTO / f"{name}.proto") for name in names]
    assert protoc.main(["protoc", f"-I{PROTO}", f"--python_out={folder}", f"--grpc_python_out={folder}", *files]) == 0
    sys.path.insert(0, str(folder))
    return [importlib.import_module(f"{name}_pb2") for name in names]


def vectors(dp, pr, reg, dra, dra_beta, health):
    yield "register", dp.RegisterRequest(version="v1beta1", endpoint="gpuslice.sock", resource_name="nvidia.com/gpu",
                                         options=dp.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True))
    yield "register_plain", dp.RegisterRequest(version="v1beta1", endpoint="a.sock", resource_name="x/y", options=dp.DevicePluginOptions())
    yield "options", dp.DevicePluginOptions(pre_start_required=True)
    numa = lambda *ids: dp.TopologyInfo(nodes=[dp.NUMANode(ID=i) for i in ids])
    yield "devices", dp.ListAndWatchResponse(devices=[
        dp.Device(ID="GPU-1-0", health="Healthy", topology=numa(1)),
        dp.Device(ID="GPU-1-1", health="Unhealthy", topology=numa(0)),
        dp.Device(ID="GPU-2-0", health="Healthy"),
        dp.Device(ID="GPU-3-0", health="Healthy", topology=numa(-1, 1 << 40)),
    ])
    yield "prefer", dp.PreferredAllocationRequest(container_requests=[
        dp.ContainerPreferredAllocationRequest(available_deviceIDs=["b", "a", "c"], must_include_deviceIDs=["a"], allocation_size=2),
        dp.ContainerPreferredAllocationRequest(allocation_size=-1),
    ])
    yield "preferred", dp.PreferredAllocationResponse(container_responses=[
        dp.ContainerPreferredAllocationResponse(deviceIDs=["a", "b"]), dp.ContainerPreferredAllocationResponse()])
    yield "allocate", dp.AllocateRequest(container_requests=[
        dp.ContainerAllocateRequest(devices_ids=["GPU-1-0", "GPU-1-1"]), dp.ContainerAllocateRequest(),
        dp.ContainerAllocateRequest(devices_ids=["Gerät", ""])])
    yield "edits", dp.AllocateResponse(container_responses=[
        dp.ContainerAllocateResponse(
            envs={"NVIDIA_VISIBLE_DEVICES": "void"},
            mounts=[dp.Mount(container_path="/c", host_path="/h", read_only=True), dp.Mount(container_path="/d", host_path="/i")],
            devices=[dp.DeviceSpec(container_path="/dev/x", host_path="/dev/y", permissions="rw")],
            annotations={"a/b": "x"},
            cdi_devices=[dp.CDIDevice(name="v/c=n"), dp.CDIDevice(name="v/c=m")]),
        dp.ContainerAllocateResponse(),
    ])
    yield "pre_start", dp.PreStartContainerRequest(devices_ids=["dev-3", "dev-2"])
    held = lambda resource, *ids: pr.ContainerDevices(
        resource_name=resource, device_ids=ids, topology=pr.TopologyInfo(nodes=[pr.NUMANode(ID=0)]))
    pod = pr.PodResources(name="p", namespace="ns", cpu_ids=[0, 1, 300], memory=[pr.ContainerMemory(memory_type="memory", size=1 << 33)],
                          containers=[
        pr.ContainerResources(name="c", devices=[held("r/x", "id0"), held("r/x", "id1", "id2")], cpu_ids=[5, 1 << 40],
                              dynamic_resources=[pr.DynamicResource(claim_name="cl", claim_namespace="ns", claim_resources=[
                                  pr.ClaimResource(cdi_devices=[pr.CDIDevice(name="v/c=n")], driver_name="d", pool_name="p",
                                                   device_name="x", share_id="")])]),
        pr.ContainerResources(name="plain")])
    yield "pods", pr.ListPodResourcesResponse(pod_resources=[pod, pr.PodResources(name="q", namespace="ns")])
    yield "pod", pr.GetPodResourcesResponse(pod_resources=pod)
    yield "pod_get", pr.GetPodResourcesRequest(pod_name="p", pod_namespace="ns")
    yield "allocatable", pr.AllocatableResourcesResponse(devices=[held("r/x", "id0", "id1")], cpu_ids=[0, 1])
    yield "plugin_info", reg.PluginInfo(type="DRAPlugin", name="d", endpoint="/e", supported_versions=["v1.DRAPlugin", "v1beta1.DRAPlugin"])
    yield "registration_status", reg.RegistrationStatus(plugin_registered=False, error="no")
    yield "dra_prepare", dra.NodePrepareResourcesRequest(claims=[dra.Claim(namespace="default", uid="u-1", name="c1")])
    yield "dra_prepared", dra.NodePrepareResourcesResponse(claims={"u-1": dra.NodePrepareResourceResponse(devices=[
        dra.Device(request_names=["gpu"], pool_name="n1", device_name="hami-gpu-0", cdi_device_ids=["v/c=x"], share_id="s1")])})
    yield "dra_beta_prepared", dra_beta.NodePrepareResourcesResponse(claims={"u-1": dra_beta.NodePrepareResourceResponse(
        devices=[dra_beta.Device(request_names=["gpu"], pool_name="n1", device_name="hami-gpu-0", cdi_device_ids=["v/c=x"])])})
    yield "dra_unprepared", dra.NodeUnprepareResourcesResponse(claims={"u-1": dra.NodeUnprepareResourceResponse(error="no")})
    yield "health", health.NodeWatchResourcesResponse(devices=[health.DeviceHealth(
        device=health.DeviceIdentifier(pool_name="n1", device_name="d0"), health=health.HEALTHY, last_updated_time=1700000000,
        health_check_timeout_seconds=30)])


def text():
    with tempfile.TemporaryDirectory() as folder:
        made = modules(folder, "deviceplugin_v1beta1", "podresources_v1", "pluginregistration_v1", "dra_v1", "dra_v1beta1", "dra_health_v1")
        lines = ["/* Made by make_vectors.py; not to be edited. */", "/* clang-format off */"]
        for name, message in vectors(*made):
            lines.append(f'#define VECTOR_{name.upper()} "{message.SerializeToString().hex()}"')
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
