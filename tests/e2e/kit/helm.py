"""The real helm on the chart of this repository."""

import os
import pathlib
import subprocess

import yaml

from kit.cluster import ROOT, bin_dir

CHART = ROOT / "deploy" / "helm" / "gpuslice"


class HelmError(Exception):
    """Helm's own words."""


def run(folder: pathlib.Path, *args, kubeconfig: pathlib.Path | None = None, stdin: str | None = None) -> str:
    """helm ARGS with its caches in `folder`; its output."""
    env = dict(os.environ, KUBECONFIG=str(kubeconfig or "/dev/null"))
    for what in ("CACHE", "CONFIG", "DATA"):
        env[f"HELM_{what}_HOME"] = str(folder / "helm" / what.lower())
    done = subprocess.run([bin_dir() / "helm", *map(str, args)], env=env, input=stdin, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
    if done.returncode:
        raise HelmError(done.stderr.strip() or done.stdout.strip())
    return done.stdout


def template(folder: pathlib.Path, values: dict | None = None, *args, release: str = "gpuslice") -> list[dict]:
    """Objects the chart makes of these values, without a cluster; the grant key is somebody else's unless they say."""
    out = run(folder, "template", release, CHART, "-n", "gpuslice-system", "-f", "-", *args,
              stdin=yaml.safe_dump({"grantSigning": {"existingSecret": "gpuslice-grant-key"}, **(values or {})}))
    return [o for o in yaml.safe_load_all(out) if o]


def install(folder: pathlib.Path, kubeconfig: pathlib.Path, release: str, namespace: str, values: dict | None = None,
            *args, verb: str = "install") -> str:
    """Install (or verb="upgrade"); helm's notes. Does not wait: nothing runs pods here."""
    return run(folder, verb, release, CHART, "-n", namespace, "-f", "-", *args, kubeconfig=kubeconfig,
               stdin=yaml.safe_dump(values or {}))


def uninstall(folder: pathlib.Path, kubeconfig: pathlib.Path, release: str, namespace: str) -> None:
    run(folder, "uninstall", release, "-n", namespace, kubeconfig=kubeconfig)


def pick(objects: list[dict], kind: str, name: str | None = None) -> dict:
    """The one object of that kind (and name)."""
    found = [o for o in objects if o["kind"] == kind and (name is None or o["metadata"]["name"] == name)]
    assert len(found) == 1, f"{len(found)} objects {kind} {name or ''}"
    return found[0]
