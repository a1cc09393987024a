# SPDX-License-Identifier: BSD-3-Clause
"""Pickled objects and numpy buffers through mpi4py: messages, probes, collectives, each checked.

Run under mpirun with 2 ranks or more by the client "mpi4py". The first difference aborts the job.
"""
import sys
import traceback

import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
following, preceding = (rank + 1) % size, (rank - 1) % size


def expect(got, want, what):
    same = numpy.array_equal(got, want) if isinstance(want, numpy.ndarray) else got == want
    if not same:
        raise AssertionError(f"{what}: got {str(got)[:200]}, expected {str(want)[:200]}")


def thing(owner, number):
    """An object whose pickle is small or large, by its number."""
    return {"owner": owner, "number": number, "text": "x" * (number * number * 37),
            "nested": [owner, (number, None, 1.5)], "bytes": bytes([owner]) * (number * 1000)}


def pickled_messages():
    for number in range(0, 60, 3):
        request = world.isend(thing(rank, number), dest=following, tag=number)
        expect(world.recv(source=preceding, tag=number), thing(preceding, number), "isend/recv")
        request.wait()
        got = world.sendrecv(thing(rank, number), dest=preceding, source=following)
        expect(got, thing(following, number), "sendrecv")
    # irecv accepts objects up to the size of its buffer.
    requests = [world.irecv(1 << 20, source=preceding, tag=n) for n in range(8)]
    sends = [world.issend(thing(rank, n), dest=following, tag=n) for n in range(8)]
    for number, request in enumerate(requests):
        expect(request.wait(), thing(preceding, number), "irecv")
    MPI.Request.waitall(sends)


def probed_messages():
    sends = [world.isend(thing(rank, n), dest=following, tag=n) for n in (0, 5, 50)]
    for number in (0, 5, 50):
        status = MPI.Status()
        world.probe(source=MPI.ANY_SOURCE, tag=number, status=status)
        expect((status.Get_source(), status.Get_tag()), (preceding, number), "probe")
        message = world.mprobe(source=preceding, tag=number)
        expect(world.iprobe(source=preceding, tag=number), False, "iprobe behind mprobe")
        expect(message.recv(), thing(preceding, number), "mprobe")
    MPI.Request.waitall(sends)


def buffer_messages():
    for kind in ("u1", "i4", "f8", "c16"):
        for count in (0, 1, 100, 3000, 200000):
            mine = (numpy.arange(count) + rank * 3).astype(kind)
            theirs = (numpy.arange(count) + preceding * 3).astype(kind)
            got = numpy.zeros(count, kind)
            world.Sendrecv(mine, following, 1, got, preceding, 1)
            expect(got, theirs, f"Sendrecv of {count} {kind}")
            got = numpy.zeros(count, kind)
            requests = [world.Irecv(got, preceding, 2), world.Isend(mine, following, 2)]
            MPI.Request.Waitall(requests)
            expect(got, theirs, f"Isend of {count} {kind}")
    # A column of a matrix.
    matrix = numpy.zeros((400, 300))
    matrix[:, 7] = numpy.arange(400) + rank
    column = MPI.DOUBLE.Create_vector(400, 1, 300).Commit()
    got = numpy.full((400, 300), -1.0)
    world.Sendrecv([matrix.ravel()[7:], 1, column], following, 3,
                   [got.ravel()[9:], 1, column], preceding, 3)
    want = numpy.full((400, 300), -1.0)
    want[:, 9] = numpy.arange(400) + preceding
    expect(got, want, "column of a matrix")
    column.Free()
    # Persistent requests.
    out, got = numpy.zeros(5000), numpy.zeros(5000)
    requests = [world.Recv_init(got, preceding, 4), world.Send_init(out, following, 4)]
    for number in range(10):
        out[:] = rank * 100 + number
        MPI.Prequest.Startall(requests)
        MPI.Request.Waitall(requests)
        expect(got, numpy.full(5000, preceding * 100.0 + number), "persistent")
    for request in requests:
        request.Free()


def pickled_collectives(comm):
    me, many = comm.Get_rank(), comm.Get_size()
    for number in (0, 4, 40):
        for root in range(many):
            got = comm.bcast(thing(me, number) if me == root else None, root=root)
            expect(got, thing(root, number), "bcast")
            got = comm.gather(thing(me, number), root=root)
            expect(got, [thing(r, number) for r in range(many)] if me == root else None, "gather")
            parts = [thing(r, number) for r in range(many)] if me == root else None
            expect(comm.scatter(parts, root=root), thing(me, number), "scatter")
            got = comm.reduce([me], op=MPI.SUM, root=root)
            expect(got, list(range(many)) if me == root else None, "reduce")
        expect(comm.allgather(thing(me, number)), [thing(r, number) for r in range(many)], "allgather")
        got = comm.alltoall([(me, r, "y" * number * 500) for r in range(many)])
        expect(got, [(r, me, "y" * number * 500) for r in range(many)], "alltoall")
    expect(comm.allreduce(me + 1), many * (many + 1) // 2, "allreduce")
    expect(comm.scan(me + 1), (me + 1) * (me + 2) // 2, "scan")
    expect(comm.exscan(me + 1), me * (me + 1) // 2 if me else None, "exscan")
    comm.barrier()


def buffer_collectives(comm):
    me, many = comm.Get_rank(), comm.Get_size()
    for count in (1, 50, 4000, 100000):
        index = numpy.arange(count, dtype="i8")
        total = many * index + many * (many - 1) // 2 * 1000
        mine = index + me * 1000
        everyone = numpy.concatenate([index + r * 1000 for r in range(many)])
        for root in range(many):
            got = mine.copy()
            comm.Bcast(got, root)
            expect(got, index + root * 1000, "Bcast")
            got = numpy.zeros(count * many, "i8")
            comm.Gather(mine, got, root)
            expect(got, everyone if me == root else numpy.zeros(count * many, "i8"), "Gather")
            got = numpy.zeros(count, "i8")
            comm.Scatter(everyone if me == root else None, got, root)
            expect(got, mine, "Scatter")
            got = numpy.zeros(count, "i8")
            comm.Reduce(mine, got, MPI.SUM, root)
            expect(got, total if me == root else numpy.zeros(count, "i8"), "Reduce")
        got = numpy.zeros(count, "i8")
        comm.Allreduce(mine, got)
        expect(got, total, "Allreduce")
        comm.Allreduce(mine, got, MPI.MAX)
        expect(got, index + (many - 1) * 1000, "Allreduce MAX")
        got = numpy.zeros(count * many, "i8")
        comm.Allgather(mine, got)
        expect(got, everyone, "Allgather")
        comm.Iallgather(mine, got).Wait()
        expect(got, everyone, "Iallgather")
        out = numpy.concatenate([index + me * 1000 + r for r in range(many)])
        comm.Alltoall(out, got)
        expect(got, numpy.concatenate([index + r * 1000 + me for r in range(many)]), "Alltoall")
        got = numpy.zeros(count, "i8")
        comm.Scan(mine, got)
        expect(got, sum(index + r * 1000 for r in range(me + 1)), "Scan")
        comm.Exscan(mine, got)
        if me:
            expect(got, sum(index + r * 1000 for r in range(me)), "Exscan")
        got = numpy.zeros(count, "i8")
        comm.Reduce_scatter_block(out, got)
        expect(got, total + many * me, "Reduce_scatter_block")
    lengths = [5 + r for r in range(many)]
    got = numpy.zeros(sum(lengths), "i4")
    comm.Allgatherv(numpy.full(5 + me, me, "i4"), [got, lengths])
    expect(got, numpy.concatenate([numpy.full(5 + r, r, "i4") for r in range(many)]), "Allgatherv")
    comm.Barrier()


def main():
    pickled_messages()
    probed_messages()
    buffer_messages()
    halves = world.Split(rank % 2, -rank)
    for comm in (world, halves):
        pickled_collectives(comm)
        buffer_collectives(comm)
    halves.Free()
    world.Barrier()
    if rank == 0:
        print(f"mpi4py_check: ok, {size} ranks", flush=True)


try:
    main()
except BaseException:
    sys.stderr.write(f"FAILED mpi4py, rank {rank} of {size}\n{traceback.format_exc()}")
    sys.stderr.flush()
    world.Abort(1)
