// SPDX-License-Identifier: BSD-3-Clause
/*
 * Messages longer than their receive: the receive ends with class MPI_ERR_TRUNCATE, no byte behind
 * its buffer is written, the send completes as usual, and later traffic is not affected; eager and
 * rendezvous, unexpected and posted, Recv, Wait, Waitall, Mrecv, derived types.
 *
 * pml/ob1 of Open MPI 4.1.4 writes behind the buffer when it gets a message by cross-memory attach,
 * so a run over ob1 needs --mca btl_vader_single_copy_mechanism none.
 */
#include "check.h"

static const size_t sent_sizes[] = {1, 100, 4000, 8192, 65536, 1000000, 4194304};
static const size_t rooms[] = {0, 1, 40, 3000, 8000, 60000, 999999};
enum {
    SENT = sizeof sent_sizes / sizeof sent_sizes[0],
    ROOMS = sizeof rooms / sizeof rooms[0]
};

typedef enum {
    BY_RECV,
    BY_WAIT,
    BY_WAITALL,
    BY_MRECV,
    BY_VECTOR,
    WAYS
} way_t;
static const char *const way_names[WAYS] = {"Recv", "Wait", "Waitall", "Mrecv", "vector"};

static int class_of(int code)
{
    int class = -1;
    MPI_Error_class(code, &class);
    return class;
}

static void expect_truncated(int code, const char *what)
{
    CHECK(class_of(code) == MPI_ERR_TRUNCATE, "%s: error class %d, expected MPI_ERR_TRUNCATE (%d)",
          what, class_of(code), MPI_ERR_TRUNCATE);
}

static void by_vector(int peer, size_t room, const char *what)
{
    /* Receives into every other byte; the gaps must stay unchanged. */
    MPI_Datatype every_other;
    MPI_Type_vector((int) room, 1, 2, MPI_BYTE, &every_other);
    MPI_Type_commit(&every_other);
    unsigned char *buffer = guarded_new(2 * room, 0);
    expect_truncated(MPI_Recv(buffer, 1, every_other, peer, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                     what);
    for (size_t i = 1; i < 2 * room; i += 2) {
        CHECK(buffer[i] == CHECK_GUARD_VALUE, "%s: gap at byte %zu overwritten", what, i);
    }
    CHECK_GUARD(buffer, 2 * room, what);
    guarded_free(buffer, 0);
    MPI_Type_free(&every_other);
}

static void receive_short(int peer, size_t room, way_t way, const char *what)
{
    if (way == BY_VECTOR) {
        by_vector(peer, room, what);
        return;
    }
    unsigned char *buffer = guarded_new(room, 1);
    MPI_Status statuses[2];
    MPI_Request requests[2];
    MPI_Message message;
    switch (way) {
    case BY_RECV:
        expect_truncated(
            MPI_Recv(buffer, (int) room, MPI_BYTE, peer, 4, MPI_COMM_WORLD, &statuses[0]), what);
        break;
    case BY_MRECV:
        MPI_Mprobe(peer, 4, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
        expect_truncated(MPI_Mrecv(buffer, (int) room, MPI_BYTE, &message, &statuses[0]), what);
        break;
    case BY_WAIT:
        MPI_Irecv(buffer, (int) room, MPI_BYTE, peer, 4, MPI_COMM_WORLD, &requests[0]);
        expect_truncated(MPI_Wait(&requests[0], &statuses[0]), what);
        CHECK(requests[0] == MPI_REQUEST_NULL, "%s: the request is still there", what);
        break;
    default:
        MPI_Irecv(buffer, (int) room, MPI_BYTE, peer, 4, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(NULL, 0, MPI_BYTE, peer, 999, MPI_COMM_WORLD, &requests[1]);
        statuses[0].MPI_ERROR = MPI_SUCCESS;
        int code = MPI_Waitall(2, requests, statuses);
        CHECK(class_of(code) == MPI_ERR_IN_STATUS, "%s: Waitall gave class %d", what,
              class_of(code));
        expect_truncated(statuses[0].MPI_ERROR, what);
        for (int i = 0; i < 2; ++i) {
            if (requests[i] != MPI_REQUEST_NULL) {
                code = MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
                CHECK(i == 1 && code == MPI_SUCCESS, "%s: request %d ended with class %d", what, i,
                      class_of(code));
            }
        }
        break;
    }
    CHECK_GUARD(buffer, room, what);
    guarded_free(buffer, 1);
}

/* One truncated message, then a good one of the same size. */
static void one(size_t bytes, size_t room, way_t way, bool unexpected, bool synchronous)
{
    char what[120];
    snprintf(what, sizeof what, "%zu bytes into %zu, %s, %s%s", bytes, room, way_names[way],
             unexpected ? "unexpected" : "posted", synchronous ? ", synchronous" : "");
    unsigned char *buffer = guarded_new(bytes, 0);
    uint64_t key = key_of(0, 4, bytes, room);
    if (check_rank == 0) {
        MPI_Request requests[3];
        fill(buffer, bytes, key);
        if (!unexpected) {
            MPI_Recv(NULL, 0, MPI_BYTE, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        if (synchronous) {
            MPI_Issend(buffer, (int) bytes, MPI_BYTE, 1, 4, MPI_COMM_WORLD, &requests[0]);
        } else {
            MPI_Isend(buffer, (int) bytes, MPI_BYTE, 1, 4, MPI_COMM_WORLD, &requests[0]);
        }
        MPI_Isend(NULL, 0, MPI_BYTE, 1, 999, MPI_COMM_WORLD, &requests[1]);
        MPI_Isend(buffer, (int) bytes, MPI_BYTE, 1, 6, MPI_COMM_WORLD, &requests[2]);
        if (unexpected) {
            MPI_Send(NULL, 0, MPI_BYTE, 1, 7, MPI_COMM_WORLD);
        }
        for (int i = 0; i < 3; ++i) {
            int code = MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
            CHECK(code == MPI_SUCCESS, "%s: send %d ended with class %d", what, i, class_of(code));
        }
    } else {
        MPI_Status status;
        if (unexpected) {
            MPI_Recv(NULL, 0, MPI_BYTE, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Send(NULL, 0, MPI_BYTE, 0, 5, MPI_COMM_WORLD);
        }
        receive_short(0, room, way, what);
        if (way != BY_WAITALL) {
            MPI_Recv(NULL, 0, MPI_BYTE, 0, 999, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        int code = MPI_Recv(buffer, (int) bytes, MPI_BYTE, 0, 6, MPI_COMM_WORLD, &status);
        CHECK(code == MPI_SUCCESS, "%s: the message after it ended with class %d", what,
              class_of(code));
        CHECK_STATUS(&status, 0, 6, bytes, what);
        CHECK_BYTES(buffer, bytes, key, what);
    }
    CHECK_GUARD(buffer, bytes, what);
    guarded_free(buffer, 0);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "truncation", 2);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int s = 0; s < SENT && check_rank < 2; ++s) {
        for (int r = 0; r < ROOMS && rooms[r] < sent_sizes[s]; ++r) {
            for (int way = 0; way < WAYS; ++way) {
                one(sent_sizes[s], rooms[r], (way_t) way, false, false);
                one(sent_sizes[s], rooms[r], (way_t) way, true, false);
                one(sent_sizes[s], rooms[r], (way_t) way, r % 2 == 0, true);
            }
        }
    }
    check_end();
    return 0;
}
