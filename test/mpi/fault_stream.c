// SPDX-License-Identifier: BSD-3-Clause
/*
 * Endless traffic for the fault tests: each rank sends to the next rank and receives from the one
 * before it without a pause, until it is killed or the time is up. It sends large messages
 * (rendezvous), a stream of small ones (eager), or in addition increments the next rank's counter
 * (atomics), which must count each increment once. Arguments: rendezvous|eager|atomics, seconds,
 * directory. Each rank writes its process number into <directory>/pid.<rank> and, when it has
 * received its first messages, makes <directory>/running.<rank>.
 */
#include "check.h"

#include <unistd.h>

enum {
    WINDOW = 32,
    LARGE = 8 << 20,
    SMALL = 2000
};

static uint64_t counter;
static uint64_t added;
static MPI_Win window_of_counter;

/* Increments the next rank's counter, which no other rank changes. */
static void add_to(int to)
{
    const uint64_t one = 1;

    for (int i = 0; i < WINDOW; ++i) {
        uint64_t old = UINT64_MAX;
        MPI_Fetch_and_op(&one, &old, MPI_UINT64_T, to, 0, MPI_SUM, window_of_counter);
        MPI_Win_flush(to, window_of_counter);
        CHECK(old == added, "the counter was %llu after %llu additions", (unsigned long long) old,
              (unsigned long long) added);
        ++added;
    }
}

static void check_counter(int to, int from)
{
    uint64_t wanted = 0;

    MPI_Win_unlock_all(window_of_counter);
    MPI_Sendrecv(&added, 1, MPI_UINT64_T, to, 2, &wanted, 1, MPI_UINT64_T, from, 2, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(counter == wanted, "%llu additions were counted as %llu", (unsigned long long) wanted,
          (unsigned long long) counter);
    MPI_Win_free(&window_of_counter);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "fault_stream", 2);
    CHECK(argc == 4, "arguments: rendezvous|eager|atomics, seconds, directory");
    bool atomics = strcmp(argv[1], "atomics") == 0;
    bool large = strcmp(argv[1], "rendezvous") == 0;
    size_t bytes = large ? LARGE : SMALL;
    int window = large ? 2 : WINDOW;
    int to = (check_rank + 1) % check_ranks, from = (check_rank - 1 + check_ranks) % check_ranks;
    unsigned char *out = malloc(bytes), *in = malloc(bytes * (size_t) window);
    fill(out, bytes, key_of(check_rank, 1, bytes, 0));
    check_note(argv[3], "pid", (long) getpid());
    if (atomics) {
        MPI_Win_create(&counter, sizeof counter, sizeof counter, MPI_INFO_NULL, MPI_COMM_WORLD,
                       &window_of_counter);
        MPI_Win_lock_all(0, window_of_counter);
    }
    double end = 0; /* set after the first messages */
    int go_on = 1;
    for (long round = 0; go_on; ++round) {
        MPI_Request requests[2 * WINDOW];
        if (atomics) {
            add_to(to);
        }
        for (int i = 0; i < window; ++i) {
            MPI_Irecv(in + (size_t) i * bytes, (int) bytes, MPI_BYTE, from, 1, MPI_COMM_WORLD,
                      &requests[i]);
            MPI_Isend(out, (int) bytes, MPI_BYTE, to, 1, MPI_COMM_WORLD, &requests[window + i]);
        }
        MPI_Waitall(2 * window, requests, MPI_STATUSES_IGNORE);
        CHECK_BYTES(in, bytes, key_of(from, 1, bytes, 0), "stream");
        if (round == 5) {
            check_note(argv[3], "running", round);
            end = MPI_Wtime() + atof(argv[2]);
        }
        if (round % 16 == 15) { /* lets all ranks stop in the same round */
            go_on = MPI_Wtime() < end;
            MPI_Bcast(&go_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
        }
    }
    if (atomics) {
        check_counter(to, from);
    }
    free(out);
    free(in);
    check_end();
    return 0;
}
