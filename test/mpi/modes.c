// SPDX-License-Identifier: BSD-3-Clause
/*
 * Send modes: a synchronous send completes when it is matched and not before; ready sends go into
 * posted receives; buffered sends complete without a receive, and their buffer may be reused.
 */
#include "check.h"

static const size_t sizes[] = {0, 1, 64, 1000, 4096, 8192, 20000, 100000, 1048576};
enum {
    SIZES = sizeof sizes / sizeof sizes[0],
    GO = 900
};

static int peer;

static void synchronous(size_t bytes, bool posted_other)
{
    unsigned char *buffer = guarded_new(bytes, 0);
    MPI_Request request, other;
    if (check_rank == 0) {
        int flag = 0;
        double end;
        fill(buffer, bytes, key_of(0, 1, bytes, 0));
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Issend(buffer, (int) bytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &request);
        MPI_Send(NULL, 0, MPI_BYTE, peer, GO + 1, MPI_COMM_WORLD);
        MPI_Recv(NULL, 0, MPI_BYTE, peer, GO + 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        end = MPI_Wtime() + 0.02;
        while (MPI_Wtime() < end) {
            MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
            CHECK(!flag, "Issend of %zu bytes completed before it was matched", bytes);
        }
        MPI_Send(NULL, 0, MPI_BYTE, peer, GO, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Status status;
        unsigned char dummy[8];
        MPI_Irecv(dummy, 8, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &other); /* does not match */
        MPI_Barrier(MPI_COMM_WORLD);
        if (posted_other) {
            MPI_Probe(0, 1, MPI_COMM_WORLD, &status); /* sees the message, does not match it */
            CHECK_STATUS(&status, 0, 1, bytes, "Probe of a synchronous send");
        }
        MPI_Recv(NULL, 0, MPI_BYTE, 0, GO + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(NULL, 0, MPI_BYTE, 0, GO + 2, MPI_COMM_WORLD);
        MPI_Recv(NULL, 0, MPI_BYTE, 0, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(buffer, (int) bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &status);
        CHECK_STATUS(&status, 0, 1, bytes, "synchronous");
        CHECK_BYTES(buffer, bytes, key_of(0, 1, bytes, 0), "synchronous");
        CHECK_GUARD(buffer, bytes, "synchronous");
        MPI_Cancel(&other);
        MPI_Wait(&other, MPI_STATUS_IGNORE);
    }
    guarded_free(buffer, 0);
}

/* Many synchronous sends at once, into receives that are posted already. */
static void synchronous_posted(size_t bytes)
{
    enum {
        COUNT = 12
    };
    unsigned char *out[COUNT], *in[COUNT];
    MPI_Request requests[2 * COUNT];
    for (int i = 0; i < COUNT; ++i) {
        out[i] = guarded_new(bytes, 0);
        in[i] = guarded_new(bytes, 0);
        fill(out[i], bytes, key_of(check_rank, i, bytes, 3));
        MPI_Irecv(in[i], (int) bytes, MPI_BYTE, peer, i, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < COUNT; ++i) {
        if (i % 3 == 0) {
            requests[COUNT + i] = MPI_REQUEST_NULL;
            MPI_Ssend(out[i], (int) bytes, MPI_BYTE, peer, i, MPI_COMM_WORLD);
        } else {
            MPI_Issend(out[i], (int) bytes, MPI_BYTE, peer, i, MPI_COMM_WORLD,
                       &requests[COUNT + i]);
        }
    }
    MPI_Waitall(2 * COUNT, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < COUNT; ++i) {
        CHECK_BYTES(in[i], bytes, key_of(peer, i, bytes, 3), "Ssend into a posted receive");
        CHECK_GUARD(in[i], bytes, "Ssend into a posted receive");
        guarded_free(out[i], 0);
        guarded_free(in[i], 0);
    }
}

static void ready(size_t bytes)
{
    unsigned char *out = guarded_new(bytes, 0),
                  *in[2] = {guarded_new(bytes, 0), guarded_new(bytes, 0)};
    MPI_Request receives[2], send;
    fill(out, bytes, key_of(check_rank, 1, bytes, 4));
    for (int i = 0; i < 2; ++i) {
        MPI_Irecv(in[i], (int) bytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &receives[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Rsend(out, (int) bytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
    MPI_Irsend(out, (int) bytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &send);
    MPI_Waitall(2, receives, MPI_STATUSES_IGNORE);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    for (int i = 0; i < 2; ++i) {
        CHECK_BYTES(in[i], bytes, key_of(peer, 1, bytes, 4), "ready");
        CHECK_GUARD(in[i], bytes, "ready");
        guarded_free(in[i], 0);
    }
    guarded_free(out, 0);
}

static void buffered(void)
{
    size_t room = 0;
    int size;
    for (int i = 0; i < SIZES; ++i) {
        room += 2 * (sizes[i] + MPI_BSEND_OVERHEAD + 64);
    }
    void *attached = malloc(room), *detached;
    unsigned char *buffer = malloc(sizes[SIZES - 1]);
    for (int round = 0; round < 4; ++round) {
        MPI_Buffer_attach(attached, (int) room);
        for (int i = 0; i < SIZES; ++i) {
            MPI_Request request;
            uint64_t key = key_of(check_rank, i, sizes[i], (uint64_t) round);
            fill(buffer, sizes[i], key);
            MPI_Bsend(buffer, (int) sizes[i], MPI_BYTE, peer, i, MPI_COMM_WORLD);
            memset(buffer, 0, sizes[i]);
            fill(buffer, sizes[i], key + 2);
            MPI_Ibsend(buffer, (int) sizes[i], MPI_BYTE, peer, 100 + i, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            memset(buffer, 0, sizes[i]);
        }
        MPI_Barrier(MPI_COMM_WORLD); /* both ranks have sent, neither has received */
        for (int i = SIZES - 1; i >= 0; --i) {
            uint64_t key = key_of(peer, i, sizes[i], (uint64_t) round);
            MPI_Status status;
            MPI_Recv(buffer, (int) sizes[i], MPI_BYTE, peer, 100 + i, MPI_COMM_WORLD, &status);
            CHECK_STATUS(&status, peer, 100 + i, sizes[i], "Ibsend");
            CHECK_BYTES(buffer, sizes[i], key + 2, "Ibsend");
            MPI_Recv(buffer, (int) sizes[i], MPI_BYTE, peer, i, MPI_COMM_WORLD, &status);
            CHECK_STATUS(&status, peer, i, sizes[i], "Bsend");
            CHECK_BYTES(buffer, sizes[i], key, "Bsend");
        }
        MPI_Buffer_detach(&detached, &size);
        CHECK(detached == attached && size == (int) room, "Buffer_detach gave %p, %d bytes",
              detached, size);
    }
    free(attached);
    free(buffer);
}

/* MPI_Buffer_detach returns only when all messages have left the buffer, which the test then
 * overwrites at once. */
static void detach_delivers(void)
{
    enum {
        BYTES = 300000
    };
    unsigned char *buffer = malloc(BYTES);
    if (check_rank == 0) {
        size_t room = BYTES + MPI_BSEND_OVERHEAD + 64;
        void *attached = malloc(room);
        int size;
        MPI_Buffer_attach(attached, (int) room);
        fill(buffer, BYTES, key_of(0, 8, BYTES, 0));
        MPI_Bsend(buffer, BYTES, MPI_BYTE, peer, 8, MPI_COMM_WORLD);
        MPI_Send(NULL, 0, MPI_BYTE, peer, GO, MPI_COMM_WORLD);
        MPI_Buffer_detach(&attached, &size);
        memset(attached, 0, room);
        free(attached);
    } else {
        MPI_Recv(NULL, 0, MPI_BYTE, 0, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        progress_for(0.02, MPI_COMM_WORLD);
        MPI_Recv(buffer, BYTES, MPI_BYTE, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK_BYTES(buffer, BYTES, key_of(0, 8, BYTES, 0), "Bsend before detach");
    }
    free(buffer);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "modes", 2);
    CHECK(check_ranks == 2, "needs exactly 2 ranks");
    peer = 1 - check_rank;
    for (int i = 0; i < SIZES; ++i) {
        synchronous(sizes[i], false);
        synchronous(sizes[i], true);
        synchronous_posted(sizes[i]);
        ready(sizes[i]);
    }
    buffered();
    for (int i = 0; i < 5; ++i) {
        detach_delivers();
    }
    check_end();
    return 0;
}
