"""Print `passed failed skipped` of a JUnit XML report."""

import sys
import xml.etree.ElementTree as ET

total = failed = skipped = 0
for suite in ET.parse(sys.argv[1]).getroot().iter("testsuite"):
    total += int(suite.get("tests", 0))
    failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
    skipped += int(suite.get("skipped", 0))
print(total - failed - skipped, failed, skipped)
