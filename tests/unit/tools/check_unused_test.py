"""tools/check_unused.py on objects that were compiled for it."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tools"))
import check_unused  # noqa: E402


class Objects(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.commands = []

    def compile(self, name, text):
        source, output = self.root / name, f"{name.replace('/', '_')}.o"
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(text)
        build = self.root / "build"
        build.mkdir(exist_ok=True)
        subprocess.check_call([os.environ.get("CC", "cc"), "-c", "-O2", "-o", build / output, source])
        self.commands.append({"file": f"../{name}", "output": output})

    def said(self):
        (self.root / "build/compile_commands.json").write_text(json.dumps(self.commands))
        return list(check_unused.unused(self.root / "build", self.root / "src"))

    def test_used_elsewhere(self):
        self.compile("src/a.c", "int gs_a(void) { return 1; } int gs_b; void gs_x_free_p(void) {}")
        self.compile("src/c.c", "int gs_a(void); int main(void) { return gs_a(); }")
        self.compile("tests/t.c", "extern int gs_b; int t(void) { return gs_b; }")
        self.assertEqual(self.said(), [])

    def test_used_at_home_or_nowhere(self):
        self.compile("src/a.c", "int gs_a(int n) { return n ? gs_a(n / 2) + 1 : 0; } int gs_b;\n"
                                "int gs_c(void) { return gs_a(3); }")
        self.compile("src/c.c", "int gs_c(void); int main(void) { return gs_c(); }")
        self.assertEqual(self.said(), ["src/a.c: gs_a is used by no other file: it is dead, or static",
                                       "src/a.c: gs_b is used by no other file: it is dead, or static"])

    def test_not_ours_to_ask(self):
        self.compile("tests/t.c", "int gs_helper(void) { return 0; }")
        self.compile("src/a.c", "int cuInit(unsigned n) { return (int)n; }")
        self.assertEqual(self.said(), [])

    def test_sources_that_are_gone(self):
        self.compile("src/old.c", "int gs_old(void) { return 0; }")
        self.commands.clear()
        self.compile("src/a.c", "int own;")
        self.assertEqual(self.said(), [])


unittest.main()
