#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Calls of the system and of libibverbs fail, one at a time: an MPI job (JOBS) runs again and again,
and in one of its processes the first, the second, ... call of one function fails (failing_calls.c):
the first ones, and of later ones those at growing distances. Functions of librdmacm, and those that
a header or dlsym() calls directly (posts, polls, mlx5dv), do not fail.

    failing.py JOB [--only FUNCTION] [--most N] [--lasting]
    failing.py --list

Right is the right result, or an error of which adaptib says what is wrong: no crash, no hang, and
nothing left behind. --lasting: the call and all after it fail. The environment is that of test/run.
"""

import argparse
import errno
import os
import re
import subprocess
import sys
import tempfile
import time

TOP = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BUILD = os.environ.get("ADAPTIB_BUILD_DIR") or os.path.join(TOP, "build")
PROGRAMS = os.path.join(BUILD, "release", "test", "mpi")
LIBRARY = os.path.join(BUILD, "failing", "failing_calls.so")
SECONDS = 60  # for one job
RANK = 1  # where calls fail

MTL = ["--mca", "pml", "cm", "--mca", "mtl", "adaptib", "--mca", "btl", "self"]
BTL = ["--mca", "pml", "ob1", "--mca", "btl", "adaptib,self", "--mca", "osc", "rdma"]
DEVICES = ["--mca", "opal_common_adaptib_fabric", "verbs"]
# A lost peer is waited for shorter than a job may take.
SOON = ["--mca", "opal_common_adaptib_partition_timeout", "8"]
JOBS = {  # name -> (ranks, arguments of mpirun, program and arguments)
    "pingpong": (2, MTL, ["pingpong", "262144"]),
    "pingpong_btl": (2, BTL, ["pingpong", "262144"]),
    "random_traffic": (4, MTL, ["random_traffic", "1", "20"]),
    "random_traffic_btl": (4, BTL, ["random_traffic", "2", "20"]),
    "collectives": (4, MTL, ["collectives", "blocking"]),
    "one_sided_create": (3, BTL, ["one_sided", "create", "20"]),
    "one_sided_allocate": (3, BTL, ["one_sided", "allocate", "20"]),
    "threads": (2, MTL, ["threads", "shared", "3", "20"]),
    "endpoints": (2, MTL, ["endpoints", "2"]),
    "unpinned": (2, MTL, ["unpinned"]),
    "finalize": (3, MTL, ["finalize", "send", "0.1"]),
    "fork": (2, MTL, ["fork"]),
    "spawn": (1, BTL, ["spawn_many", "2", "0"]),
    # Over the virtual adapter, whose environment is that of test/hca/programs.sh.
    "verbs_pingpong": (2, MTL + DEVICES, ["pingpong", "262144"]),
    "verbs_random_traffic_btl": (4, BTL + DEVICES, ["random_traffic", "2", "20"]),
    "verbs_one_sided_create": (3, BTL + DEVICES, ["one_sided", "create", "20"]),
    "verbs_endpoints": (2, MTL + DEVICES, ["endpoints", "2"]),
}

# What a function may fail with, by its pages of the manual and, for those of libibverbs, by the
# drivers (simulator/adapter/drivers.md). Taken in turn.
ERRORS = {
    "mmap": ["ENOMEM", "EAGAIN", "EPERM"],
    "munmap": ["ENOMEM"],
    "madvise": ["EINVAL", "EAGAIN", "ENOMEM"],
    "mremap": ["ENOMEM", "EAGAIN"],
    "aligned_alloc": ["ENOMEM"],
    "ftruncate": ["ENOSPC", "EPERM", "EINTR"],
    "fallocate": ["ENOSPC", "EOPNOTSUPP", "EINTR"],
    "fchmod": ["EPERM"],
    "fstat": ["EACCES", "ENOMEM"],
    "stat": ["ENOENT", "EACCES"],
    "access": ["EACCES"],
    "mkostemp": ["EMFILE", "ENOSPC", "EACCES"],
    "rename": ["EACCES", "ENOSPC"],
    "unlink": ["ENOENT", "EPERM"],
    "open": ["EMFILE", "EACCES", "ENOENT", "ENFILE"],
    "fopen": ["EMFILE", "EACCES"],
    "opendir": ["EMFILE", "EACCES"],
    "read": ["EINTR", "EIO"],
    "write": ["EINTR", "ENOSPC", "EIO"],
    "pwrite": ["EINTR", "ENOSPC"],
    "close": ["EINTR", "EIO"],
    "fcntl": ["EMFILE", "EPERM"],
    "socket": ["EMFILE", "EAFNOSUPPORT", "ENOBUFS", "EPERM"],
    "socketpair": ["EMFILE", "ENFILE"],
    "bind": ["EADDRINUSE", "EACCES"],
    "setsockopt": ["ENOMEM", "ENOPROTOOPT"],
    "sendmsg": ["EAGAIN", "EINTR", "ENOBUFS", "ECONNREFUSED"],
    "sendto": ["EAGAIN", "EINTR", "ENOBUFS", "ECONNREFUSED"],
    "recvmsg": ["EINTR", "EAGAIN", "ENOMEM"],
    "poll": ["EINTR", "ENOMEM"],
    "eventfd": ["EMFILE", "ENOMEM"],
    "process_vm_readv": ["EPERM", "ENOMEM", "ESRCH"],
    "process_vm_writev": ["EPERM", "ENOMEM", "ESRCH"],
    "getrandom": ["EINTR", "ENOSYS"],
    "getifaddrs": ["ENOMEM", "EMFILE"],
    "sched_getaffinity": ["EINVAL"],
    "getrlimit": ["EPERM"],
    "kill": ["EPERM"],
    "prctl": ["EINVAL", "EPERM"],
    "dlopen": ["ENOMEM"],
    "pthread_create": ["EAGAIN", "EPERM"],
    "ibv_get_device_list": ["ENOSYS", "ENOMEM"],
    "ibv_open_device": ["EMFILE", "ENODEV"],
    "ibv_reg_mr": ["ENOMEM", "EAGAIN", "EFAULT"],
    "ibv_reg_mr_iova2": ["ENOMEM", "EAGAIN", "EOPNOTSUPP"],
    "ibv_create_ah": ["ENOMEM", "ETIMEDOUT", "EAGAIN"],
    "ibv_modify_qp": ["EINVAL", "ETIMEDOUT", "ENOMEM"],
    "ibv_resize_cq": ["ENOSYS", "ENOMEM", "EBUSY"],
    "ibv_get_async_event": ["EIO", "EAGAIN"],
    "ibv_get_cq_event": ["EIO", "EAGAIN"],
}
# Jobs that judge what a function leaves behind when it fails.
WITHOUT = {"spawn": ["munmap"]}
OTHERS = ["ENOMEM", "EAGAIN", "EIO"]  # other functions of libibverbs
SYSTEM_CALLS = ["ENOSYS", "EPERM", "EMFILE", "EINVAL"]


def errors_of(function):
    if function.startswith("syscall."):
        return SYSTEM_CALLS
    return ERRORS.get(function, OTHERS)


def numbers(count, most):
    """Which of `count` calls fail: the first ones, then ever fewer, and the last one."""
    chosen, at, step = [], 1, 1
    while at <= count:
        chosen.append(at)
        step = 1 if len(chosen) < most else step * 2
        at += step
    return sorted({*chosen, count})


class Job:
    def __init__(self, name):
        self.name = name
        self.ranks, self.arguments, (program, *rest) = JOBS[name]
        self.program = [os.path.join(PROGRAMS, program), *rest]

    def run(self, variables):
        given = [word for name, value in {**variables, "LD_PRELOAD": LIBRARY}.items()
                 for word in ("-x", f"{name}={value}")]
        command = ["timeout", "-k", "10", str(SECONDS), "mpirun", "--oversubscribe", "-np",
                   str(self.ranks), *self.arguments, *SOON, "-x",
                   f"ADAPTIB_FAILING_RANK={RANK if self.ranks > 1 else 0}", *given, *self.program]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              errors="replace", check=False)
        return done.returncode, done.stdout, command

    def counts(self):
        """function -> calls; the largest of three runs"""
        largest = {}
        with tempfile.TemporaryDirectory() as work:
            path = os.path.join(work, "counts")
            for _ in range(3):
                status, text, command = self.run({"ADAPTIB_FAILING_COUNT": path})
                if status != 0:
                    sys.exit(f"FAILED: no call has failed, and {' '.join(command)}\n{text}")
                with open(path, encoding="ascii") as lines:
                    for line in lines:
                        function, calls = line.split()
                        largest[function] = max(int(calls), largest.get(function, 0))
        return largest


def names():
    """adaptib's names in /dev/shm, but for virtual adapters, which stay."""
    return {name for name in os.listdir("/dev/shm")
            if name.startswith("adaptib") and not name.startswith("adaptib-hca")}


def names_left(before):
    """The new ones that stay for two seconds."""
    for _ in range(20):
        new = names() - before
        if not new:
            break
        time.sleep(0.1)
    return new


def fault_of(status, text):
    """What is wrong with the end of a job, or None."""
    crash = re.search(r"Segmentation fault|Bus error|Floating point|terminate called|"
                      r"invariant does not hold", text)
    ended_by_itself = re.search(r"^FAILED|Error in MPI_|An error occurred in MPI|MPI_ABORT", text,
                                re.MULTILINE)
    if "PMIx_server_finalize" in text:  # Open MPI's mpirun crashes now and then when a job has failed
        crash = None
    wrong = re.search(r"^FAILED .*", text, re.MULTILINE)
    if status in (124, 137):
        return f"no end within {SECONDS} s"
    if status != 0 and (crash or ("Aborted" in text and not ended_by_itself)):
        return f"crash ({crash.group(0) if crash else 'Aborted'})"
    if status != 0 and wrong and not re.search(r"MPI_ERR|error", wrong.group(0)):
        return f"a wrong result ({wrong.group(0)})"
    if status != 0 and "adaptib reports an error" not in text:
        return "an error without a word of adaptib"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", choices=JOBS, nargs="?")
    parser.add_argument("--list", action="store_true", help="prints the names of all jobs")
    parser.add_argument("--only", help="this function alone")
    parser.add_argument("--most", type=int, default=4, help="calls tried one by one (default: 4)")
    parser.add_argument("--lasting", action="store_true")
    options = parser.parse_args()
    if options.list or options.job is None:
        print("\n".join(JOBS))
        return 0
    job = Job(options.job)
    wrong = tried = ended = 0
    for function, count in sorted(job.counts().items()):
        if options.only not in (None, function) or function in WITHOUT.get(job.name, []):
            continue
        errors = errors_of(function)
        for i, number in enumerate(numbers(count, options.most)):
            name = errors[i % len(errors)]
            before = names()
            what = (f"{function}:{number}{'+' if options.lasting else ''}:"
                    f"{getattr(errno, name)}")
            status, text, command = job.run({"ADAPTIB_FAILING": what})
            if "failing_calls: " not in text:
                continue  # this time there were fewer calls
            tried += 1
            ended += status != 0
            fault = fault_of(status, text)
            left = names_left(before)
            if fault is None and left:
                fault = f"left behind: {left}"
            outcome = "FAILED" if fault else "ok" if status == 0 else "ended"
            print(f"{outcome}: {function}, call {number} of {count}, {name}"
                  f"{': ' + fault if fault else ''}", flush=True)
            wrong += fault is not None
            if status != 0 or fault:
                print(f"{' '.join(command)}\nexit status {status}\n{text}", flush=True)
    print(f"{job.name}: {tried} calls failed in turn, {ended} jobs ended with a message, {wrong} wrong")
    return 1 if wrong or tried == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
