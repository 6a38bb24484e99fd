"""Write a copy of gate.c with one known fault, for the explorer to find.

usage: break_gate.py FAULT gate.c broken.c
"""

import sys

PENDING = "        uint64_t pending = gs_atomic_load(&d->pending[i], __ATOMIC_SEQ_CST);\n"
HELD = "        uint64_t held = gs_atomic_load(&d->held[i], __ATOMIC_SEQ_CST);\n"

FAULTS = {
    # a reservation can move from pending to held between the two reads
    "held-first": [
        (PENDING + HELD, HELD + PENDING),
    ],
    # the bytes are nowhere for a moment
    "withdraw-first": [
        ("        add_own(self, dev, bytes, charge);\n        GS_STEP",
         "        withdraw(self, dev);\n        add_own(self, dev, bytes, charge);\n        GS_STEP"),
    ],
    # all racers may be refused although one would fit
    "no-order": [
        ("        if (!tally.other && !tally.moved) {", "        if (true) {"),
    ],
    # the count does not see others' announcements
    "no-pending": [
        ("tally->sum += pending + held + extra;", "tally->sum += held + extra;"),
    ],
}


def main():
    fault, source, target = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        text = file.read()
    for old, new in FAULTS[fault]:
        if text.count(old) != 1:
            sys.exit(f"{source}: the text for fault '{fault}' occurs {text.count(old)} times")
        text = text.replace(old, new)
    with open(target, "w", encoding="utf-8") as file:
        file.write(text)


main()
