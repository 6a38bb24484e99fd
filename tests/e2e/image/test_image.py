"""The container image, and the chart on a real node that runs it: kubelet and containerd, nothing played."""

import hashlib
import io
import json
import pathlib
import re
import shutil
import subprocess
import tarfile

import pytest
from kit import helm, node, objects, procs
from kit.cluster import ROOT, bin_dir

MAKE = ROOT / "tools" / "image.py"
SLICE = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 4096}
ONE_CARD = [{"id": "GPU-real-node-0", "count": 10, "devmem": 40960, "devcore": 100, "type": "NVIDIA-A100", "health": True}]


def make_image(out: pathlib.Path) -> pathlib.Path:
    done = subprocess.run([ROOT / "dev", "image", out], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(out)
    return out


@pytest.fixture(scope="module")
def folder():
    made = procs.new_folder()
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="module")
def image(folder):
    return make_image(folder / "image.tar")


def other_image(folder: pathlib.Path, name: str, program: pathlib.Path) -> pathlib.Path:
    """An image of one static program."""
    base = name.rpartition("/")[2].partition(":")[0]
    root = folder / f"{base}-root"
    (root / "usr" / "bin").mkdir(parents=True)
    shutil.copy(program, root / "usr" / "bin" / base)
    out = folder / f"{base}.tar"
    subprocess.run(["python3", MAKE, "archive", root, name, out, base], check=True, stdout=subprocess.DEVNULL)
    return out


def pause(folder: pathlib.Path) -> pathlib.Path:
    source = folder / "pause.c"
    source.write_text("#include <unistd.h>\nint main(void) { for (;;) pause(); }\n")
    subprocess.run(["gcc", "-static", "-Os", "-s", "-o", folder / "pause", source], check=True)
    return other_image(folder, node.PAUSE, folder / "pause")


@pytest.fixture(scope="module")
def real_node(folder, image):
    if why := node.why_not():
        pytest.skip(why)
    made = node.Node(folder, [image, pause(folder), other_image(
        folder, f"registry.k8s.io/kube-scheduler:{kubernetes()}", bin_dir() / "kube-scheduler")])
    yield made.start()
    made.stop()


def kubernetes() -> str:
    return subprocess.run([bin_dir() / "kubelet", "--version"], check=True, capture_output=True, text=True).stdout.split()[1]


def test_the_same_programs_make_the_same_bytes(image, tmp_path):
    assert make_image(tmp_path / "again.tar").read_bytes() == image.read_bytes()


def test_both_indexes_name_what_is_there(image):
    """OCI's and docker's: digests are those of the blobs, computed here."""
    with tarfile.open(image) as tar:
        files = {m.name: tar.extractfile(m).read() for m in tar.getmembers()}
    for name, data in files.items():
        if name.startswith("blobs/"):
            assert name == "blobs/sha256/" + hashlib.sha256(data).hexdigest()

    def blob(descriptor: dict) -> bytes:
        data = files["blobs/" + descriptor["digest"].replace(":", "/")]
        assert len(data) == descriptor["size"]
        return data
    manifest = json.loads(blob(json.loads(files["index.json"])["manifests"][0]))
    config = json.loads(blob(manifest["config"]))
    layers = [blob(layer) for layer in manifest["layers"]]
    assert config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(layer).hexdigest() for layer in layers]
    docker = json.loads(files["manifest.json"])[0]
    assert files[docker["Config"]] == blob(manifest["config"]) and [files[n] for n in docker["Layers"]] == layers
    version = re.search(r"^appVersion: (\S+)", (helm.CHART / "Chart.yaml").read_text(), re.M)[1]
    assert docker["RepoTags"] == [f"gpuslice/gpuslice-scheduler:{version}"]  # as the chart's default names it
    assert config["config"]["User"] == "65532:65532"
    recipe = (ROOT / "deploy" / "Dockerfile").read_text().splitlines()  # says the same
    assert f"USER {config['config']['User']}" in recipe
    assert f"ENTRYPOINT {json.dumps(config['config']['Entrypoint'])}" in recipe


def test_nothing_else_is_inside(image):
    """The programs and what they load; nobody but root may change any of it, and nothing changes its user."""
    with tarfile.open(image) as tar:
        layer = max((tar.extractfile(m).read() for m in tar.getmembers() if m.name.startswith("blobs/")), key=len)
    assert len(layer) < 40 << 20
    with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
        members = {m.name: m for m in tar.getmembers()}
    for name, m in members.items():
        assert (m.uid, m.gid) == (0, 0) and not m.mode & 0o6000, name
        assert m.issym() or name == "tmp" or not m.mode & 0o022, name
    programs = {n for n in members if n.startswith("usr/bin/")}
    assert programs == {"usr/bin/gpuslice", "usr/bin/gpuslice-explain", "usr/bin/gpuslice-scheduler"}
    files = {n for n, m in members.items() if m.isreg()} - programs
    for name in files:
        assert re.fullmatch(r"usr/lib\S*/\S+\.so[.\d]*|usr/share/doc/\S+/copyright|etc/(passwd|group|nsswitch\.conf)", name)


def kubectl(real_node, *args, stdin=None) -> str:
    return real_node.run(bin_dir() / "kubectl", *args, stdin=stdin)


def phase(real_node, name: str) -> str:
    return kubectl(real_node, "get", "pod", name, "-o", "jsonpath={.status.phase}")


def test_the_chart_runs_on_a_real_node(real_node):
    """As the README says: image imported, chart installed with its defaults. A pod goes through webhook, filter and
    bind and runs; one without room is explained by the program in the image."""
    real_node.run(bin_dir() / "helm", "install", "gpuslice", helm.CHART, "-n", "kube-system")
    kubectl(real_node, "-n", "kube-system", "rollout", "status", "deployment/gpuslice-scheduler", "--timeout=120s")
    kubectl(real_node, "annotate", "node", node.NAME, f"hami.io/node-nvidia-register={json.dumps(ONE_CARD)}",
            "gpuslice.io/identity=prestart")
    kubectl(real_node, "patch", "node", node.NAME, "--subresource=status", "-p",
            '{"status": {"capacity": {"nvidia.com/gpu": "10"}, "allocatable": {"nvidia.com/gpu": "10"}}}')
    image = json.loads(kubectl(real_node, "-n", "kube-system", "get", "deployment", "gpuslice-scheduler", "-o", "json"))
    image = next(c["image"] for c in image["spec"]["template"]["spec"]["containers"] if c["name"] == "gpuslice-scheduler")
    for name, mem in (("fits", 4096), ("large", 50000)):
        pod = objects.pod(name, {**SLICE, "nvidia.com/gpumem": mem}, restartPolicy="Never")
        pod["spec"]["containers"][0].update(image=image, command=["gpuslice-scheduler", "version"])
        kubectl(real_node, "apply", "-f", "-", stdin=json.dumps(pod))
    procs.until(lambda: phase(real_node, "fits") == "Succeeded", 60, "the pod has run")
    fits = json.loads(kubectl(real_node, "get", "pod", "fits", "-o", "json"))
    assert fits["spec"]["schedulerName"] == "hami-scheduler" and fits["spec"]["nodeName"] == node.NAME
    assert objects.note(fits, "hami.io/vgpu-devices-allocated") == "GPU-real-node-0,NVIDIA,4096,0:;"
    said = kubectl(real_node, "-n", "kube-system", "exec", "deploy/gpuslice-scheduler", "-c", "gpuslice-scheduler", "--",
                   "gpuslice", "explain", "pod", "default/large")
    assert "needs 50000 MiB" in said
    status = json.loads(kubectl(real_node, "-n", "kube-system", "get", "pods", "-o", "json"))["items"]
    assert [c["restartCount"] for p in status for c in p["status"]["containerStatuses"]] == [0, 0]
