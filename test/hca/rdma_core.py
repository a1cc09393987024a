#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs rdma-core's own tests over a device of the virtual adapter.

usage: rdma_core.py TESTS DEVICE DRIVER

TESTS: the directory of rdma-core's tests (Debian: python3-pyverbs). DRIVER: the driver of the
device; "none" for one without. Tests that the device has to fail are in LEFT, with the reason; one
of them that passes is a failure, too. Skipped tests are counted by their reasons. The exit status is
0 if nothing else failed and at least as many passed as LEAST says. A test that ends the process
fails all.
"""
import collections
import importlib
import os
import sys
import unittest

# drivers (any: all) -> test -> reason
LEFT = {
    ("any",): {
        "test_imported_rc_ex_rdma_write":
            "opens a context anew by the kernel's descriptor, which a virtual device has not",
    },
    ("bnxt_re", "strict"): {
        "test_resize_cq": "EBUSY until the queue is polled (bnxt_re_resize_cq, Linux 6.12)",
    },
    ("bnxt_re",): {
        "test_qp_ex_rc_atomic_cmp_swp": "has no atomics, which the test does not ask",
        "test_qp_ex_rc_atomic_fetch_add": "has no atomics, which the test does not ask",
    },
    ("siw",): {
        "test_query_rc_qp": "an iWARP queue pair begins in INIT, the adapter's in RESET",
    },
}
LEAST = 30


class Result(unittest.TextTestResult):
    def __init__(self, *args):
        super().__init__(*args)
        self.passed = []

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed.append(test)


def name_of(test):
    return test.id().rsplit(".", 1)[-1]


def left_of(driver):
    """Returns the tests that a driver's device has to fail, with the reasons."""
    return {name: why for drivers, tests in LEFT.items() if driver in drivers or "any" in drivers
            for name, why in tests.items()}


def main():
    if len(sys.argv) != 4 or not os.path.isdir(sys.argv[1]):
        sys.exit(__doc__)
    tests, device, driver = sys.argv[1:]
    sys.path[:0] = [os.path.dirname(os.path.abspath(tests)), tests]
    sys.argv[1:] = ["--dev", device, "--port", "1"]
    from args_parser import parser
    parser.parse_args()
    suite = unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module("tests"))
    result = unittest.TextTestRunner(resultclass=Result, verbosity=2).run(suite)

    left = left_of(driver)
    reasons = collections.Counter(str(why) for _, why in result.skipped)
    for why, count in reasons.most_common():
        print(f"{count} skipped: {why}")
    failed = [(test, text) for test, text in result.failures + result.errors
              if name_of(test) not in left]
    for test, _ in failed:
        print(f"failed: {test.id()}")
    for test in result.passed:
        if name_of(test) in left:
            print(f"passed, and should not have: {test.id()} ({left[name_of(test)]})")
            failed.append((test, ""))
    print(f"{len(result.passed)} passed, {len(result.skipped)} skipped, {len(failed)} failed")
    return 1 if failed or len(result.passed) < LEAST else 0


if __name__ == "__main__":
    sys.exit(main())
