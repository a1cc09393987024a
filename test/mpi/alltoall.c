// SPDX-License-Identifier: BSD-3-Clause
/*
 * All ranks to all ranks, repeatedly: one collective at a time, several non-blocking ones, and by
 * hand with all messages at once; meant for more ranks than processors. Arguments: rounds.
 */
#include "check.h"

enum {
    AT_ONCE = 4
};

static const size_t sizes[] = {1, 8, 100, 1000, 4096, 9000, 65536};
enum {
    SIZES = sizeof sizes / sizeof sizes[0]
};

static uint64_t key(int from, int to, size_t bytes, int salt)
{
    return key_of(from, to, bytes, (uint64_t) salt);
}

static void fill_all(unsigned char *out, size_t bytes, int salt)
{
    for (int to = 0; to < check_ranks; ++to) {
        fill(out + (size_t) to * bytes, bytes, key(check_rank, to, bytes, salt));
    }
}

static void check_all(const unsigned char *in, size_t bytes, int salt, const char *what)
{
    for (int from = 0; from < check_ranks; ++from) {
        CHECK_BYTES(in + (size_t) from * bytes, bytes, key(from, check_rank, bytes, salt), what);
    }
}

static void by_hand(unsigned char *out, unsigned char *in, size_t bytes, int salt)
{
    MPI_Request *requests = malloc(2 * (size_t) check_ranks * sizeof *requests);
    fill_all(out, bytes, salt);
    for (int i = 0; i < check_ranks; ++i) {
        int to = (check_rank + i) % check_ranks;
        MPI_Isend(out + (size_t) to * bytes, (int) bytes, MPI_BYTE, to, salt, MPI_COMM_WORLD,
                  &requests[i]);
    }
    for (int from = 0; from < check_ranks; ++from) {
        MPI_Irecv(in + (size_t) from * bytes, (int) bytes, MPI_BYTE, from, salt, MPI_COMM_WORLD,
                  &requests[check_ranks + from]);
    }
    MPI_Waitall(2 * check_ranks, requests, MPI_STATUSES_IGNORE);
    check_all(in, bytes, salt, "by hand");
    free(requests);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "alltoall", 1);
    int rounds = argc > 1 ? atoi(argv[1]) : 10;
    size_t whole = sizes[SIZES - 1] * (size_t) check_ranks;
    unsigned char *out[AT_ONCE], *in[AT_ONCE];
    for (int i = 0; i < AT_ONCE; ++i) {
        out[i] = malloc(whole);
        in[i] = malloc(whole);
    }
    for (int round = 0; round < rounds; ++round) {
        for (int s = 0; s < SIZES; ++s) {
            MPI_Request requests[AT_ONCE];
            int salt = round * SIZES + s, bytes = (int) sizes[s];
            fill_all(out[0], sizes[s], salt);
            MPI_Alltoall(out[0], bytes, MPI_BYTE, in[0], bytes, MPI_BYTE, MPI_COMM_WORLD);
            check_all(in[0], sizes[s], salt, "Alltoall");
            by_hand(out[0], in[0], sizes[s], salt);
            for (int i = 0; i < AT_ONCE; ++i) {
                fill_all(out[i], sizes[s], salt + i);
                MPI_Ialltoall(out[i], bytes, MPI_BYTE, in[i], bytes, MPI_BYTE, MPI_COMM_WORLD,
                              &requests[i]);
            }
            MPI_Waitall(AT_ONCE, requests, MPI_STATUSES_IGNORE);
            for (int i = 0; i < AT_ONCE; ++i) {
                check_all(in[i], sizes[s], salt + i, "Ialltoall");
            }
        }
    }
    for (int i = 0; i < AT_ONCE; ++i) {
        free(out[i]);
        free(in[i]);
    }
    check_end();
    return 0;
}
