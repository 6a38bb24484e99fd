"""The container image of gpuslice-scheduler, without docker.

  image.py root STAGE DIR            the image's file tree: the staged programs and what they load, nothing else
  image.py archive DIR NAME OUT [PROGRAM]
                                     a tar that `docker load`, `ctr images import`, podman and skopeo read

The same programs and the same NAME give the same bytes: owners, modes and times are set here
(SOURCE_DATE_EPOCH, else the commit's)."""

import hashlib
import io
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAMS = ("gpuslice-scheduler", "gpuslice", "gpuslice-explain") # the last is the second's `explain`
USER = 65532  # as the chart's runAsUser
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
FILES = {
    "etc/passwd": f"root:x:0:0:root:/:/sbin/nologin\ngpuslice:x:{USER}:{USER}::/:/sbin/nologin\n",
    "etc/group": f"root:x:0:\ngpuslice:x:{USER}:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}


def output(*argv) -> str:
    return subprocess.run([str(a) for a in argv], check=True, stdout=subprocess.PIPE, text=True).stdout


def libraries(program: pathlib.Path) -> set[pathlib.Path]:
    """What the dynamic linker loads for a program, itself included."""
    text = output("ldd", program)
    if "not found" in text:
        sys.exit(f"image: {program} lacks a library:\n{text}")
    return {pathlib.Path(path) for path in re.findall(r"(/\S+) \(0x", text)}


def licence_of(library: pathlib.Path) -> pathlib.Path | None:
    """The copyright file of the Debian package a library is from."""
    for path in (library, library.resolve(), pathlib.Path("/usr") / library.relative_to("/")):
        found = subprocess.run(["dpkg", "-S", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        if found:
            text = pathlib.Path("/usr/share/doc") / found.partition(":")[0] / "copyright"
            return text if text.exists() else None
    return None


def make_root(stage: pathlib.Path, out: pathlib.Path) -> None:
    shutil.rmtree(out, ignore_errors=True)
    for folder in ("usr/bin", "usr/lib", "usr/lib64", "etc", "tmp"):
        (out / folder).mkdir(parents=True)
    for name in ("bin", "lib", "lib64"):
        (out / name).symlink_to(f"usr/{name}")
    wanted: set[pathlib.Path] = set()
    for name in PROGRAMS:
        shutil.copy(stage / "bin" / name, out / "usr/bin" / name)
        subprocess.run(["strip", out / "usr/bin" / name], check=True)
        wanted |= libraries(stage / "bin" / name)
    for library in wanted:
        inside = library.relative_to("/usr" if library.is_relative_to("/usr") else "/")
        copy(library.resolve(), out / "usr" / inside)
        if licence := licence_of(library):
            copy(licence, out / licence.relative_to("/"))
    copy(ROOT / "LICENSE", out / "usr/share/doc/gpuslice/copyright")
    for name, text in FILES.items():
        (out / name).write_text(text)


def copy(source: pathlib.Path, target: pathlib.Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)


def epoch() -> int:
    given = os.environ.get("SOURCE_DATE_EPOCH")
    return int(given or output("git", "-C", ROOT, "log", "-1", "--format=%ct"))


def add(tar: tarfile.TarFile, name: str, data: bytes, when: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime, entry.mode = len(data), when, 0o644
    tar.addfile(entry, io.BytesIO(data))


def layer_of(root: pathlib.Path, when: int) -> bytes:
    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mtime = when
        if entry.isdir():
            entry.mode = 0o1777 if entry.name == "tmp" else 0o755
        elif entry.isreg():
            entry.mode = 0o755 if "/bin/" in entry.name or "/ld-" in entry.name else 0o644
        return entry
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path in sorted(root.rglob("*")):
            tar.add(path, str(path.relative_to(root)), recursive=False, filter=plain)
    return out.getvalue()


def descriptor(kind: str, data: bytes, **more) -> dict:
    return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": digest(data), "size": len(data), **more}


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def text_of(value) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def make_archive(root: pathlib.Path, name: str, out: pathlib.Path, program: str = PROGRAMS[0]) -> str:
    """An OCI layout with docker's manifest.json beside it, as `docker save` writes; the image's digest."""
    when = epoch()
    created = output("date", "-u", "-d", f"@{when}", "+%Y-%m-%dT%H:%M:%SZ").strip()
    layer = layer_of(root, when)
    config = text_of({
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()), "os": "linux", "created": created,
        "config": {"User": f"{USER}:{USER}", "Entrypoint": [f"/usr/bin/{program}"], "WorkingDir": "/",
                   "Env": ["PATH=/usr/bin"], "Labels": {"org.opencontainers.image.title": program,
                                                        "org.opencontainers.image.licenses": "Apache-2.0"}},
        "rootfs": {"type": "layers", "diff_ids": [digest(layer)]},
        "history": [{"created": created, "created_by": "./dev image"}]})
    manifest = text_of({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                        "config": descriptor("config.v1+json", config), "layers": [descriptor("layer.v1.tar", layer)]})
    full = name if "." in name.partition("/")[0] or name.startswith("localhost/") else f"docker.io/{name}"
    index = text_of({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [
        descriptor("manifest.v1+json", manifest, annotations={
            "io.containerd.image.name": full, "org.opencontainers.image.ref.name": name.rpartition(":")[2]})]})
    blob = {d: f"blobs/sha256/{digest(d).partition(':')[2]}" for d in (config, layer, manifest)}
    docker = text_of([{"Config": blob[config], "RepoTags": [name], "Layers": [blob[layer]]}])
    out.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(out, "w", format=tarfile.GNU_FORMAT) as tar:
        for data, path in sorted(blob.items(), key=lambda item: item[1]):
            add(tar, path, data, when)
        for path, data in (("index.json", index), ("manifest.json", docker),
                           ("oci-layout", text_of({"imageLayoutVersion": "1.0.0"}))):
            add(tar, path, data, when)
    return digest(manifest)


def main(argv: list[str]) -> None:
    if argv[0] == "root":
        make_root(pathlib.Path(argv[1]), pathlib.Path(argv[2]))
    else:
        print(make_archive(pathlib.Path(argv[1]), argv[2], pathlib.Path(argv[3]), *argv[4:]))


if __name__ == "__main__":
    main(sys.argv[1:])
