// SPDX-License-Identifier: BSD-3-Clause
/*
 * Messages of a rank to itself, on MPI_COMM_WORLD and MPI_COMM_SELF: every size, receive first and
 * send first, every mode, probes, derived types on one or both sides, order; requests that have
 * ended when a call returns are seen by the first look at them.
 */
#include "check.h"

static MPI_Comm comm;
static int self;

static void one_size(size_t bytes)
{
    unsigned char *out = guarded_new(bytes, 3), *in = guarded_new(bytes, 5);
    MPI_Request requests[2];
    MPI_Status status, statuses[2];
    int flag;
    for (int way = 0; way < 6; ++way) {
        uint64_t key = key_of(self, way, bytes, 9);
        char what[60];
        snprintf(what, sizeof what, "to itself, way %d, %zu bytes", way, bytes);
        fill(out, bytes, key);
        guarded_reset(in, bytes);
        switch (way) {
        case 0: /* receive first */
            MPI_Irecv(in, (int) bytes, MPI_BYTE, self, way, comm, &requests[0]);
            MPI_Isend(out, (int) bytes, MPI_BYTE, self, way, comm, &requests[1]);
            MPI_Waitall(2, requests, statuses);
            status = statuses[0];
            break;
        case 1: /* send first */
            MPI_Isend(out, (int) bytes, MPI_BYTE, self, way, comm, &requests[0]);
            MPI_Probe(MPI_ANY_SOURCE, way, comm, &status);
            CHECK_STATUS(&status, self, way, bytes, "probe of a message to itself");
            MPI_Recv(in, (int) bytes, MPI_BYTE, self, way, comm, &status);
            MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
            break;
        case 2: /* a blocking send into a posted receive */
            MPI_Irecv(in, (int) bytes, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &requests[0]);
            MPI_Send(out, (int) bytes, MPI_BYTE, self, way, comm);
            MPI_Wait(&requests[0], &status);
            break;
        case 3: /* a synchronous send does not complete before it is matched */
            MPI_Issend(out, (int) bytes, MPI_BYTE, self, way, comm, &requests[0]);
            for (int i = 0; i < 20; ++i) {
                MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
                CHECK(!flag, "%s: Issend completed before its receive", what);
            }
            MPI_Recv(in, (int) bytes, MPI_BYTE, self, way, comm, &status);
            MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
            break;
        case 4:
            MPI_Sendrecv(out, (int) bytes, MPI_BYTE, self, way, in, (int) bytes, MPI_BYTE, self,
                         way, comm, &status);
            break;
        default:
            fill(in, bytes, key);
            MPI_Sendrecv_replace(in, (int) bytes, MPI_BYTE, self, way, self, way, comm, &status);
            break;
        }
        CHECK_STATUS(&status, self, way, bytes, what);
        CHECK_BYTES(in, bytes, key, what);
        CHECK_GUARD(in, bytes, what);
    }
    guarded_free(out, 3);
    guarded_free(in, 5);
}

/* Sends blocks of two ints with gaps of one, receives into every other int; or one side is
 * contiguous. */
static void typed(int ints, bool send_typed, bool receive_typed, bool receive_first)
{
    MPI_Datatype pairs, singles;
    MPI_Request requests[2];
    MPI_Type_vector(ints / 2, 2, 3, MPI_INT, &pairs);
    MPI_Type_vector(ints, 1, 2, MPI_INT, &singles);
    MPI_Type_commit(&pairs);
    MPI_Type_commit(&singles);
    int *out = malloc((size_t) ints * 3 * sizeof(int)),
        *in = malloc((size_t) ints * 2 * sizeof(int));
    for (int i = 0; i < ints * 3; ++i) {
        out[i] = -i;
    }
    for (int i = 0; i < ints; ++i) {
        out[send_typed ? i / 2 * 3 + i % 2 : i] = i * 7 + 1;
        in[2 * i] = in[2 * i + 1] = -5;
    }
    for (int step = 0; step < 2; ++step) {
        if ((step == 0) == receive_first) {
            MPI_Irecv(in, receive_typed ? 1 : ints, receive_typed ? singles : MPI_INT, self, 8,
                      comm, &requests[0]);
        } else {
            MPI_Isend(out, send_typed ? 1 : ints, send_typed ? pairs : MPI_INT, self, 8, comm,
                      &requests[1]);
        }
    }
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 2 * ints; ++i) {
        int want = receive_typed ? (i % 2 ? -5 : i / 2 * 7 + 1) : (i < ints ? i * 7 + 1 : -5);
        CHECK(in[i] == want, "%d ints to itself (types %d, %d): element %d is %d, expected %d",
              ints, send_typed, receive_typed, i, in[i], want);
    }
    free(out);
    free(in);
    MPI_Type_free(&pairs);
    MPI_Type_free(&singles);
}

static void order(void)
{
    enum {
        COUNT = 500
    };
    MPI_Request requests[COUNT];
    int out[COUNT], in;
    for (int i = 0; i < COUNT; ++i) {
        out[i] = i;
        MPI_Isend(&out[i], 1, MPI_INT, self, i % 2, comm, &requests[i]);
    }
    for (int tag = 1; tag >= 0; --tag) {
        for (int i = tag; i < COUNT; i += 2) {
            MPI_Recv(&in, 1, MPI_INT, i % 3 ? self : MPI_ANY_SOURCE, tag, comm, MPI_STATUS_IGNORE);
            CHECK(in == i, "message %d to itself came where %d was expected", in, i);
        }
    }
    MPI_Waitall(COUNT, requests, MPI_STATUSES_IGNORE);
}

/* A receive that the send ends, and a send that the receive ends: MPI_Testsome sees it at once. */
static void first_look(int bytes)
{
    enum {
        COUNT = 4
    };
    static unsigned char in[COUNT][70000], out[70000];
    MPI_Request requests[COUNT];
    MPI_Message message;
    MPI_Status statuses[COUNT];
    int done, at[COUNT], flag;
    for (int i = 0; i < COUNT; ++i) {
        MPI_Irecv(in[i], bytes, MPI_BYTE, i % 2 ? self : MPI_ANY_SOURCE, i, comm, &requests[i]);
    }
    MPI_Testsome(COUNT, requests, &done, at, statuses);
    CHECK(done == 0, "%d receives are complete before their sends", done);
    MPI_Ssend(out, bytes, MPI_BYTE, self, 2, comm);
    MPI_Testany(COUNT, requests, at, &flag, statuses);
    CHECK(flag && at[0] == 2, "MPI_Testany does not see the receive of %d bytes", bytes);
    for (int i = 0; i < COUNT; i += 3) {
        MPI_Ssend(out, bytes, MPI_BYTE, self, i, comm);
    }
    MPI_Testsome(COUNT, requests, &done, at, statuses);
    CHECK(done == 2, "MPI_Testsome sees %d of 2 receives of %d bytes", done, bytes);
    MPI_Send(out, bytes, MPI_BYTE, self, 1, comm);
    MPI_Testall(COUNT, requests, &flag, statuses);
    CHECK(flag, "MPI_Testall does not see the last receive of %d bytes", bytes);

    for (int i = 0; i < COUNT; ++i) {
        MPI_Issend(out, bytes, MPI_BYTE, self, i, comm, &requests[i]);
    }
    MPI_Testsome(COUNT, requests, &done, at, statuses);
    CHECK(done == 0, "%d synchronous sends are complete before their receives", done);
    MPI_Recv(in[0], bytes, MPI_BYTE, self, 0, comm, MPI_STATUS_IGNORE);
    MPI_Testsome(COUNT, requests, &done, at, statuses);
    CHECK(done == 1 && at[0] == 0, "MPI_Testsome does not see the send of %d bytes", bytes);
    MPI_Mprobe(MPI_ANY_SOURCE, 1, comm, &message, MPI_STATUS_IGNORE);
    MPI_Mrecv(in[1], bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    MPI_Testsome(COUNT, requests, &done, at, statuses);
    CHECK(done == 1 && at[0] == 1, "after MPI_Mrecv the send of %d bytes is not seen", bytes);
    MPI_Recv(in[2], bytes, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE);
    MPI_Recv(in[3], bytes, MPI_BYTE, MPI_ANY_SOURCE, 3, comm, MPI_STATUS_IGNORE);
    MPI_Testall(COUNT, requests, &flag, statuses);
    CHECK(flag, "MPI_Testall does not see the last sends of %d bytes", bytes);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "self", 1);
    for (int i = 0; i < 2; ++i) {
        comm = i == 0 ? MPI_COMM_WORLD : MPI_COMM_SELF;
        self = i == 0 ? check_rank : 0;
        one_size(0);
        for (size_t power = 1; power <= (size_t) 4 << 20; power *= 2) {
            one_size(power - 1);
            one_size(power);
            one_size(power + 1);
        }
        for (int way = 0; way < 8; ++way) {
            typed(10, way & 1, way & 2, way & 4);
            typed(3000, way & 1, way & 2, way & 4);
            typed(400000, way & 1, way & 2, way & 4);
        }
        order();
        for (int bytes = 0; bytes <= 70000; bytes += 35000) {
            first_look(bytes);
        }
    }
    check_end();
    return 0;
}
