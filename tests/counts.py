"""Counts what ctest ran: counts.py BUILD prints "N passed, M failed".

A GoogleTest program is one test of ctest and leaves its cases in BUILD/cases/TEST.xml: each case counts. A program that
left no such file, or that failed though its cases did not (a leak found at its end), counts as one failure.
"""
import sys
import xml.etree.ElementTree as xml
from collections import Counter
from pathlib import Path


def ended(case):
    """How a testcase element of GoogleTest's or ctest's file ended."""
    if case.find("failure") is not None or case.get("status") == "fail":
        return "failed"
    if case.get("result", "completed") != "completed" or case.get("status") in ("notrun", "disabled"):
        return "skipped"
    return "passed"


def count(build):
    counts = Counter()
    for test in xml.parse(build / "ctest.xml").getroot().iter("testcase"):
        cases = build / "cases" / f"{test.get('name')}.xml"
        inside = Counter()
        if cases.exists():
            inside.update(ended(case) for case in xml.parse(cases).getroot().iter("testcase"))
        if not cases.exists() or (ended(test) == "failed" and not inside["failed"]):
            inside[ended(test)] += 1
        counts += inside
    return counts


counts = count(Path(sys.argv[1]))
if counts["skipped"]:
    print(f"{counts['skipped']} skipped")
print(f"{counts['passed']} passed, {counts['failed']} failed")
