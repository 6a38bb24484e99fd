"""usage: suite_targets.py BUILD SUITE: what Ninja has to build for the tests of a suite."""

import json
import os
import subprocess
import sys


def introspect(build, what):
    return json.loads(subprocess.check_output(["meson", "introspect", build, what]))


def main():
    build, suite = sys.argv[1:]
    files = {target["id"]: target["filename"] for target in introspect(build, "--targets")}
    needed = set()
    for test in introspect(build, "--tests"):
        if any(name.split(":")[-1] == suite for name in test["suite"]):
            needed.update(os.path.relpath(file, build) for id in test["depends"] for file in files[id])
    print(*sorted(needed))


main()
