// SPDX-License-Identifier: BSD-3-Clause
/*
 * Persistent requests of every mode: started repeatedly with new contents, alone and by Startall,
 * with wildcards, with derived types, tested while inactive, canceled and started again. Argument:
 * once, if each buffered one is started once only (Open MPI's own forget the program's buffer at
 * their first start: pml/cm for every size, pml/ob1 above the eager limit).
 */
#include "check.h"

enum {
    ROUNDS = 40,
    MODES = 4
};
static const size_t sizes[] = {0, 8, 1000, 8192, 9000, 120000};
enum {
    SIZES = sizeof sizes / sizeof sizes[0]
};

static int to, from;
static bool buffered_once;

static void make_send(int mode, unsigned char *buffer, size_t bytes, int tag, MPI_Request *request)
{
    switch (mode) {
    case 0:
        MPI_Send_init(buffer, (int) bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD, request);
        break;
    case 1:
        MPI_Ssend_init(buffer, (int) bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD, request);
        break;
    case 2:
        MPI_Bsend_init(buffer, (int) bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD, request);
        break;
    default: /* ready mode: the caller starts the receives before a barrier */
        MPI_Rsend_init(buffer, (int) bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD, request);
        break;
    }
}

static void all_modes(void)
{
    enum {
        COUNT = SIZES * MODES
    };
    unsigned char *out[COUNT], *in[COUNT];
    MPI_Request sends[COUNT], receives[COUNT];
    MPI_Status statuses[COUNT];
    size_t room = 0;
    for (int i = 0; i < COUNT; ++i) {
        size_t bytes = sizes[i / MODES];
        room += bytes + MPI_BSEND_OVERHEAD + 64;
        out[i] = guarded_new(bytes, 0);
        in[i] = guarded_new(bytes, 0);
        make_send(i % MODES, out[i], bytes, i, &sends[i]);
        MPI_Recv_init(in[i], (int) bytes, MPI_BYTE, from, i, MPI_COMM_WORLD, &receives[i]);
    }
    void *attached = malloc(2 * room);
    int size;
    MPI_Buffer_attach(attached, (int) (2 * room));
    for (int round = 0; round < ROUNDS; ++round) {
        int flag = 0;
        MPI_Test(&receives[round % COUNT], &flag, &statuses[0]);
        CHECK(flag && statuses[0].MPI_SOURCE == MPI_ANY_SOURCE, "an inactive request is not empty");
        if (round % 2 == 0) {
            MPI_Startall(COUNT, receives);
        } else {
            for (int i = COUNT - 1; i >= 0; --i) {
                MPI_Start(&receives[i]);
            }
        }
        for (int i = 0; i < COUNT; ++i) {
            fill(out[i], sizes[i / MODES],
                 key_of(check_rank, i, sizes[i / MODES], (uint64_t) round));
        }
        for (int i = 2; i < COUNT && round > 0 && buffered_once; i += MODES) {
            MPI_Request_free(&sends[i]);
            make_send(2, out[i], sizes[i / MODES], i, &sends[i]);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (round % 3 == 0) {
            for (int i = 0; i < COUNT; ++i) {
                MPI_Start(&sends[i]);
            }
        } else {
            MPI_Startall(COUNT, sends);
        }
        MPI_Waitall(COUNT, receives, statuses);
        MPI_Waitall(COUNT, sends, MPI_STATUSES_IGNORE);
        for (int i = 0; i < COUNT; ++i) {
            size_t bytes = sizes[i / MODES];
            char what[80];
            snprintf(what, sizeof what, "round %d, mode %d, %zu bytes", round, i % MODES, bytes);
            CHECK_STATUS(&statuses[i], from, i, bytes, what);
            CHECK_BYTES(in[i], bytes, key_of(from, i, bytes, (uint64_t) round), what);
            CHECK_GUARD(in[i], bytes, what);
        }
    }
    MPI_Buffer_detach(&attached, &size);
    free(attached);
    for (int i = 0; i < COUNT; ++i) {
        MPI_Request_free(&sends[i]);
        MPI_Request_free(&receives[i]);
        guarded_free(out[i], 0);
        guarded_free(in[i], 0);
    }
}

static void wildcards_and_types(void)
{
    enum {
        INTS = 5000
    };
    MPI_Datatype gaps;
    MPI_Request requests[2];
    int *out = malloc(2 * INTS * sizeof(int)), *in = malloc(2 * INTS * sizeof(int));
    MPI_Type_vector(INTS, 1, 2, MPI_INT, &gaps);
    MPI_Type_commit(&gaps);
    MPI_Recv_init(in, 1, gaps, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[0]);
    MPI_Send_init(out, 1, gaps, to, 44, MPI_COMM_WORLD, &requests[1]);
    for (int round = 0; round < ROUNDS; ++round) {
        MPI_Status statuses[2];
        for (int i = 0; i < 2 * INTS; ++i) {
            out[i] = check_rank * 100000 + i + round;
            in[i] = -1;
        }
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, statuses);
        CHECK(statuses[0].MPI_SOURCE == from && statuses[0].MPI_TAG == 44, "source %d, tag %d",
              statuses[0].MPI_SOURCE, statuses[0].MPI_TAG);
        for (int i = 0; i < 2 * INTS; ++i) {
            int want = i % 2 ? -1 : from * 100000 + i + round;
            CHECK(in[i] == want, "round %d: element %d is %d, expected %d", round, i, in[i], want);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    MPI_Type_free(&gaps);
    free(out);
    free(in);
}

static void cancelled(void)
{
    MPI_Request request;
    int value = -1;
    MPI_Recv_init(&value, 1, MPI_INT, from, 45, MPI_COMM_WORLD, &request);
    for (int round = 0; round < ROUNDS; ++round) {
        MPI_Status status;
        int flag = 0, out = check_rank * 1000 + round;
        MPI_Start(&request);
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &flag);
        CHECK(flag, "a persistent receive without a message was not cancelled");
        MPI_Barrier(MPI_COMM_WORLD); /* all ranks have canceled before any rank sends */
        MPI_Start(&request);
        MPI_Send(&out, 1, MPI_INT, to, 45, MPI_COMM_WORLD);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &flag);
        CHECK(!flag && value == from * 1000 + round, "round %d: %s, value %d, expected %d", round,
              flag ? "cancelled" : "received", value, from * 1000 + round);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Request_free(&request);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "persistent", 2);
    buffered_once = argc > 1 && strcmp(argv[1], "once") == 0;
    to = (check_rank + 1) % check_ranks;
    from = (check_rank - 1 + check_ranks) % check_ranks;
    all_modes();
    wildcards_and_types();
    cancelled();
    check_end();
    return 0;
}
