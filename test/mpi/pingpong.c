// SPDX-License-Identifier: BSD-3-Clause
/*
 * Every pair of ranks, every size around a power of two: blocking ping-pong, non-blocking in both
 * directions at once, and Sendrecv; aligned and odd addresses.
 * Arguments: largest size in bytes (4 MiB if absent).
 */
#include "check.h"

static unsigned char *out, *in;

/* Small messages repeat often enough for the transport to change from datagrams to a connection. */
static int repetitions(size_t bytes)
{
    return bytes <= 16384 ? 24 : bytes <= 262144 ? 6 : 2;
}

static void blocking(int peer, size_t bytes, int salt)
{
    MPI_Status status;
    int tag = 10 + salt;
    unsigned char *from = out + salt % 3, *to = in + salt % 5;
    guarded_reset(in, bytes + 8);
    fill(from, bytes, key_of(check_rank, tag, bytes, (uint64_t) salt));
    if (check_rank < peer) {
        MPI_Send(from, (int) bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD);
        MPI_Recv(to, (int) bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &status);
    } else {
        MPI_Recv(to, (int) bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &status);
        MPI_Send(from, (int) bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD);
    }
    CHECK_STATUS(&status, peer, tag, bytes, "blocking");
    CHECK_BYTES(to, bytes, key_of(peer, tag, bytes, (uint64_t) salt), "blocking");
    for (size_t i = bytes; i < bytes + 3; ++i) {
        CHECK(to[i] == CHECK_GUARD_VALUE, "blocking: byte %zu behind %zu bytes overwritten", i,
              bytes);
    }
}

static void non_blocking(int to_rank, int from_rank, size_t bytes, int salt)
{
    MPI_Request requests[2];
    MPI_Status statuses[2];
    int tag = 200 + salt;
    guarded_reset(in, bytes + 8);
    fill(out, bytes, key_of(check_rank, tag, bytes, (uint64_t) salt));
    if (salt % 2 == 0) {
        MPI_Irecv(in, (int) bytes + 8, MPI_BYTE, from_rank, tag, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(out, (int) bytes, MPI_BYTE, to_rank, tag, MPI_COMM_WORLD, &requests[1]);
    } else {
        MPI_Isend(out, (int) bytes, MPI_BYTE, to_rank, tag, MPI_COMM_WORLD, &requests[1]);
        MPI_Irecv(in, (int) bytes + 8, MPI_BYTE, from_rank, tag, MPI_COMM_WORLD, &requests[0]);
    }
    MPI_Waitall(2, requests, statuses);
    CHECK_STATUS(&statuses[0], from_rank, tag, bytes, "non-blocking");
    CHECK_BYTES(in, bytes, key_of(from_rank, tag, bytes, (uint64_t) salt), "non-blocking");
    for (size_t i = bytes; i < bytes + 8; ++i) {
        CHECK(in[i] == CHECK_GUARD_VALUE, "non-blocking: byte %zu behind %zu overwritten", i,
              bytes);
    }
}

static void exchange(int to_rank, int from_rank, size_t bytes)
{
    MPI_Status status;
    fill(out, bytes, key_of(check_rank, 7, bytes, 0));
    MPI_Sendrecv(out, (int) bytes, MPI_BYTE, to_rank, 7, in, (int) bytes, MPI_BYTE, from_rank, 7,
                 MPI_COMM_WORLD, &status);
    CHECK_STATUS(&status, from_rank, 7, bytes, "Sendrecv");
    CHECK_BYTES(in, bytes, key_of(from_rank, 7, bytes, 0), "Sendrecv");
}

static void all_of(size_t bytes)
{
    for (int i = 0; i < repetitions(bytes); ++i) {
        /* One pair after another; a pair's blocking exchanges do not wait for a third rank. */
        for (int peer = 0; peer < check_ranks; ++peer) {
            if (peer != check_rank) {
                blocking(peer, bytes, i);
            }
        }
        for (int distance = 1; distance < check_ranks; ++distance) {
            int to = (check_rank + distance) % check_ranks;
            int from = (check_rank - distance + check_ranks) % check_ranks;
            non_blocking(to, from, bytes, i);
            exchange(to, from, bytes);
        }
    }
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "pingpong", 2);
    size_t largest = argc > 1 ? strtoull(argv[1], NULL, 0) : (size_t) 4 << 20;
    out = guarded_new(largest + 16, 0);
    in = guarded_new(largest + 16, 0);
    all_of(0);
    for (size_t power = 1; power <= largest; power *= 2) {
        if (power > 2) {
            all_of(power - 1);
        }
        all_of(power);
        all_of(power + 1);
    }
    CHECK_GUARD(in, largest + 16, "after all sizes");
    guarded_free(out, 0);
    guarded_free(in, 0);
    check_end();
    return 0;
}
