"""tools/check_rooms.py on small trees: what it allows, and what it says of the rest."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tools"))
import check_rooms  # noqa: E402


class Tree(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.src = pathlib.Path(self.folder.name)

    def write(self, **files):
        """room__name_h="what it includes, by blanks" or its text, where there is a line break or a brace."""
        for name, text in files.items():
            room, _, stem = name.rpartition("__")
            path = self.src / room.replace("__", "/") / f"{stem[:-2]}.{stem[-1]}"
            path.parent.mkdir(parents=True, exist_ok=True)
            if "{" not in text:
                text = "".join(f'#include "{target}"\n' for target in text.split())
            path.write_text(text)

    def said(self, old=None):
        return list(check_rooms.check(self.src, old or {}))

    def test_one_way(self):
        self.write(control__a_h="model/b.h", model__b_h="base/c.h", base__c_h="")
        self.assertEqual(self.said(), [])
        self.write(model__b_h="control/a.h")
        self.assertEqual(self.said(), ["model/b.h:1: model may not include control/a.h"])

    def test_vendors_by_themselves(self):
        self.write(vendors__x__policy__a_h="vendors/x/policy/b.h", vendors__x__policy__b_h="")
        self.assertEqual(self.said(), [])
        self.write(vendors__y__policy__a_h="vendors/x/policy/b.h")
        self.assertEqual(self.said(), ["vendors/y/policy/a.h:1: vendors/*/policy may not include vendors/x/policy/b.h"])

    def test_engines_name_no_vendor(self):
        self.write(vendors__acme__policy__a_h="", model__a_c="/* acme { */ int f(void) { return 0; }")
        self.assertEqual(self.said(), [])
        self.write(model__a_c="/* a\n * b */\nint is_acme(void) { return 0; }")
        self.assertEqual(self.said(), ["model/a.c:3: an engine names the vendor acme"])
        self.write(model__a_c='const char *f(void) { return "AcmeX"; }')
        self.assertEqual(self.said(), [], "part of another word")

    def test_circle(self):
        self.write(control__a_h="control/b.h", control__b_h="", control__b_c="control/b.h control/c.h",
                   control__c_h="control/a.h")
        self.assertEqual(self.said(), ["control/a, control/b, control/c: includes go round in a circle: "
                                       "control/a control/b control/c"])

    def test_source_counts_for_its_header(self):
        self.write(control__a_h="", control__a_c="control/a.h control/b.h", control__b_h="",
                   control__b_c="control/b.h control/a.h")
        self.assertEqual(self.said(), ["control/a, control/b: includes go round in a circle: control/a control/b"])

    def test_internal_header_is_part_of_its_module(self):
        self.write(control__a_h="", control__a_internal_h="control/a.h", control__a_c="control/a.h control/a_internal.h",
                   control__a_more_c="control/a_internal.h control/b.h", control__b_h="")
        self.assertEqual(self.said(), [])
        self.write(control__b_c="control/b.h control/a.h")
        self.assertEqual(self.said(), ["control/a, control/b: includes go round in a circle: control/a control/b"])

    def test_other_rooms_make_no_circle(self):
        self.write(control__a_h="model/a.h", model__a_h="model/b.h", model__b_h="")
        self.assertEqual(self.said(), [])

    def test_old_circles_do_not_grow(self):
        self.write(hook__a_h="hook/b.h", hook__b_h="", hook__b_c="hook/b.h hook/a.h")
        self.assertEqual(self.said({"hook": "a b"}), [])
        self.write(hook__a_c="hook/a.h hook/c.h", hook__c_h="hook/b.h")
        self.assertEqual(self.said({"hook": "a b"}), ["hook/c: includes go round in a circle: hook/a hook/b hook/c"])

    def test_old_circles_are_struck_off(self):
        self.write(hook__a_h="hook/b.h", hook__b_h="")
        self.assertEqual(self.said({"hook": "a b"}), [
            f"hook/{name}: is in no circle any more: take it off the list of tools/check_rooms.py" for name in "ab"])


if __name__ == "__main__":
    unittest.main()
