# SPDX-License-Identifier: BSD-3-Clause
"""MPI windows through mpi4py and numpy: every synchronisation, every operation, each result checked.

Run under mpirun with 2 ranks or more by the client "mpi4py". The first difference aborts the job.
Argument: the thread level to ask for (osc/pt2pt refuses "multiple", which is mpi4py's own).
A window has one part for each rank that writes, and a word for each that counts.
"""
import sys
import traceback

import numpy
import mpi4py

mpi4py.rc.thread_level = sys.argv[1]
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
following, preceding = (rank + 1) % size, (rank - 1) % size

LARGEST = 1 << 17  # doubles of one part
COUNTS = (1, 3, 100, 1000, 20000, LARGEST)
WORDS = 64  # 64-bit words behind the parts
ROUNDS = 50


def expect(got, want, what):
    if not numpy.array_equal(got, want):
        raise AssertionError(f"{what}: got {str(got)[:200]}, expected {str(want)[:200]}")


def values(owner, count, key):
    return numpy.arange(count, dtype="f8") * 0.5 + owner * 1000 + key


class Window:
    """A window and this rank's memory of it, as parts and as words."""

    def __init__(self, kind):
        self.kind = kind
        octets = size * LARGEST * 8 + WORDS * 8
        if kind == "allocate":
            self.win = MPI.Win.Allocate(octets, 1, comm=world)
            memory = numpy.frombuffer(self.win.tomemory(), "u1")
        else:
            memory = numpy.zeros(octets, "u1")
            self.win = MPI.Win.Create(memory, 1, comm=world)
        self.memory = memory  # also keeps it alive
        self.parts = memory[:size * LARGEST * 8].view("f8").reshape(size, LARGEST)
        self.words = memory[size * LARGEST * 8:].view("i8")
        self.clear()

    def clear(self):
        world.Barrier()
        self.local(self._clear)

    def _clear(self):
        self.parts[:] = -1.0
        self.words[:] = 0

    def local(self, function):
        """Calls it while this rank may load and store its own memory; all ranks come along."""
        self.win.Lock(rank, MPI.LOCK_EXCLUSIVE)
        result = function()
        self.win.Unlock(rank)
        world.Barrier()
        return result

    def part(self, owner):
        return self.local(lambda: self.parts[owner].copy())

    def part_at(self, owner, count):
        return (owner * LARGEST * 8, count, MPI.DOUBLE)

    @staticmethod
    def word_at(index, count=1):
        return (size * LARGEST * 8 + index * 8, count, MPI.INT64_T)


# Epochs, which open and close access to one target, and exposure to the rank before this one.
class Fence:
    def __init__(self, window, target):
        self.win = window.win

    def __enter__(self):
        self.win.Fence(MPI.MODE_NOPRECEDE)

    def __exit__(self, *_):
        self.win.Fence(MPI.MODE_NOSUCCEED)


class PostStart:
    def __init__(self, window, target):
        self.win = window.win
        everyone = world.Get_group()
        self.targets, self.origins = everyone.Incl([target]), everyone.Incl([(2 * rank - target) % size])
        everyone.Free()

    def __enter__(self):
        self.win.Post(self.origins)
        self.win.Start(self.targets)

    def __exit__(self, *_):
        self.win.Complete()
        self.win.Wait()
        self.targets.Free()
        self.origins.Free()


class Lock:
    kind = MPI.LOCK_EXCLUSIVE

    def __init__(self, window, target):
        self.win, self.target = window.win, target

    def __enter__(self):
        self.win.Lock(self.target, self.kind)

    def __exit__(self, *_):
        self.win.Unlock(self.target)
        world.Barrier()


class SharedLock(Lock):
    kind = MPI.LOCK_SHARED


class LockAll(Lock):
    def __enter__(self):
        self.win.Lock_all()

    def __exit__(self, *_):
        self.win.Flush(self.target)
        self.win.Unlock_all()
        world.Barrier()


EPOCHS = (Fence, PostStart, Lock, SharedLock, LockAll)


def transfers(window):
    key = 0
    for epoch in EPOCHS:
        for target, origin in ((following, preceding), (rank, rank)):
            for count in COUNTS:
                key += 1
                what = f"{window.kind}, {epoch.__name__}, {count} to {target}"
                out = values(rank, count, key)
                with epoch(window, target):
                    window.win.Put([out, MPI.DOUBLE], target, window.part_at(rank, count))
                want = numpy.full(LARGEST, -1.0)
                want[:count] = values(origin, count, key)
                expect(window.part(origin), want, f"Put, {what}")
                got = numpy.zeros(count)
                with epoch(window, target):
                    window.win.Get([got, MPI.DOUBLE], target, window.part_at(rank, count))
                expect(got, out, f"Get, {what}")
                window.clear()


def strided(window):
    """Every third double of the target, from every second one of ours."""
    here = MPI.DOUBLE.Create_vector(500, 1, 2).Commit()
    there = MPI.DOUBLE.Create_vector(500, 1, 3).Commit()
    out, got = values(rank, 1000, 7), numpy.full(1000, -2.0)
    with Lock(window, following):
        window.win.Put([out, 1, here], following, (rank * LARGEST * 8, 1, there))
    want = numpy.full(LARGEST, -1.0)
    want[:1500:3] = values(preceding, 1000, 7)[::2]
    expect(window.part(preceding), want, "Put of a vector")
    with Lock(window, following):
        window.win.Get([got, 1, here], following, (rank * LARGEST * 8, 1, there))
    want = numpy.full(1000, -2.0)
    want[::2] = out[::2]
    expect(got, want, "Get of a vector")
    here.Free()
    there.Free()
    window.clear()


def requests(window):
    outs = [values(rank, 300, n) for n in range(20)]
    gots = [numpy.zeros(300) for _ in outs]
    places = [((rank * LARGEST + n * 300) * 8, 300, MPI.DOUBLE) for n in range(20)]
    with LockAll(window, following):
        MPI.Request.Waitall([window.win.Rput([out, MPI.DOUBLE], following, place)
                             for out, place in zip(outs, places)])
        window.win.Flush(following)
        MPI.Request.Waitall([window.win.Rget([got, MPI.DOUBLE], following, place)
                             for got, place in zip(gots, places)])
        for out, got in zip(outs, gots):
            expect(got, out, "Rput, Rget")
    expect(window.part(preceding)[:6000], numpy.concatenate([values(preceding, 300, n) for n in range(20)]),
           "Rput")
    window.clear()


def accumulates(window):
    """All ranks add to, and take the largest of, the same elements of each rank."""
    for epoch in (Lock, SharedLock, LockAll):
        for count in (1, 1000):
            for target in range(size):
                with epoch(window, target):
                    window.win.Accumulate([numpy.full(count, rank + 1, "i8"), MPI.INT64_T], target,
                                          (0, count, MPI.INT64_T), MPI.SUM)
            before = numpy.full(count, -1.0).view("i8")
            expect(window.part(0)[:count].view("i8"), before + size * (size + 1) // 2,
                   f"Accumulate of {count}, {epoch.__name__}")
            window.clear()
    for count in (1, 1000):
        with Fence(window, 0):
            for target in range(size):
                window.win.Accumulate([numpy.full(count, float(rank)), MPI.DOUBLE], target,
                                      window.part_at(0, count), MPI.MAX)
        expect(window.part(0)[:count], numpy.full(count, size - 1.0), "Accumulate MAX")
        window.clear()
    # The sums that the ranks' operations return are all different, and the final sum is complete.
    found = numpy.zeros(10, "i8")
    with Lock(window, 0):
        window.win.Get_accumulate([numpy.full(10, 1 << rank, "i8"), MPI.INT64_T], [found, MPI.INT64_T], 0,
                                  window.word_at(0, 10), MPI.SUM)
    everyone = numpy.zeros((size, 10), "i8")
    world.Allgather(found, everyone)
    for column in everyone.T:
        expect(len(set(column)), size, "Get_accumulate: different sums")
        expect(all(not value & (1 << r) for r, value in enumerate(column)), True, "Get_accumulate: own part")
    total = window.local(lambda: window.words[:10].copy())
    expect(total, numpy.full(10, (1 << size) - 1 if rank == 0 else 0, "i8"), "Get_accumulate: all sums")
    window.clear()


def counters(window):
    """Everybody draws tickets of rank 0, and of its own neighbour: no number comes twice."""
    for target in (0, size - 1):
        drawn = numpy.zeros(ROUNDS, "i8")
        one, got = numpy.ones(1, "i8"), numpy.zeros(1, "i8")
        window.win.Lock_all()
        for number in range(ROUNDS):
            window.win.Fetch_and_op([one, MPI.INT64_T], [got, MPI.INT64_T], target, window.word_at(5)[0],
                                    MPI.SUM)
            window.win.Flush(target)
            drawn[number] = got[0]
        window.win.Unlock_all()
        expect((numpy.diff(drawn) > 0).all(), True, "Fetch_and_op: ascending")
        everyone = numpy.zeros(ROUNDS * size, "i8")
        world.Allgather(drawn, everyone)
        expect(numpy.sort(everyone), numpy.arange(ROUNDS * size), "Fetch_and_op: tickets")
        window.clear()


def swaps(window):
    """A spin lock of compare-and-swap around a count that is read, changed and written."""
    # In a created window, rank 0's own swaps in its own memory need not be atomic with those of
    # other ranks (docs/known-issues.md).
    takers = range(size) if window.kind == "allocate" else range(1, size)
    rounds, win = 20, window.win
    free, mine, got = numpy.zeros(1, "i8"), numpy.full(1, rank + 1, "i8"), numpy.zeros(1, "i8")
    win.Lock_all()
    for _ in range(rounds if rank in takers else 0):
        while True:
            win.Compare_and_swap([mine, MPI.INT64_T], [free, MPI.INT64_T], [got, MPI.INT64_T], 0,
                                 window.word_at(1)[0])
            win.Flush(0)
            if got[0] == 0:
                break
        count = numpy.zeros(1, "i8")
        win.Get([count, MPI.INT64_T], 0, window.word_at(9))
        win.Flush(0)
        count += 1
        win.Put([count, MPI.INT64_T], 0, window.word_at(9))
        win.Flush(0)
        win.Compare_and_swap([free, MPI.INT64_T], [mine, MPI.INT64_T], [got, MPI.INT64_T], 0,
                             window.word_at(1)[0])
        win.Flush(0)
        expect(got[0], rank + 1, "Compare_and_swap: the lock was ours")
    win.Unlock_all()
    world.Barrier()
    words = window.local(lambda: window.words.copy())
    if rank == 0:
        expect((words[1], words[9]), (0, rounds * len(takers)), "Compare_and_swap: count")
    window.clear()


def main():
    for kind in ("allocate", "create"):
        window = Window(kind)
        for part in (transfers, strided, requests, accumulates, counters, swaps):
            part(window)
        window.win.Free()
    world.Barrier()
    if rank == 0:
        print(f"mpi4py_one_sided: ok, {size} ranks", flush=True)


try:
    main()
except BaseException:
    sys.stderr.write(f"FAILED mpi4py_one_sided, rank {rank} of {size}\n{traceback.format_exc()}")
    sys.stderr.flush()
    world.Abort(1)
