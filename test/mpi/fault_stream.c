// SPDX-License-Identifier: BSD-3-Clause
/*
 * Endless traffic for the fault tests: each rank sends to the next and receives from the last
 * without a pause, large messages (rendezvous) or a stream of small ones, until it is killed or
 * the time is up. Arguments: rendezvous|eager, seconds, directory. Each rank writes its process
 * number into <directory>/pid.<rank> and, when it has received its first messages, makes
 * <directory>/running.<rank>.
 */
#include "check.h"

#include <unistd.h>

enum {
    WINDOW = 32,
    LARGE = 8 << 20,
    SMALL = 2000
};

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "fault_stream", 2);
    CHECK(argc == 4, "arguments: rendezvous|eager, seconds, directory");
    bool large = strcmp(argv[1], "rendezvous") == 0;
    size_t bytes = large ? LARGE : SMALL;
    int window = large ? 2 : WINDOW;
    int to = (check_rank + 1) % check_ranks, from = (check_rank - 1 + check_ranks) % check_ranks;
    unsigned char *out = malloc(bytes), *in = malloc(bytes * (size_t) window);
    fill(out, bytes, key_of(check_rank, 1, bytes, 0));
    check_note(argv[3], "pid", (long) getpid());
    double end = MPI_Wtime() + atof(argv[2]);
    int go_on = 1;
    for (long round = 0; go_on; ++round) {
        MPI_Request requests[2 * WINDOW];
        for (int i = 0; i < window; ++i) {
            MPI_Irecv(in + (size_t) i * bytes, (int) bytes, MPI_BYTE, from, 1, MPI_COMM_WORLD,
                      &requests[i]);
            MPI_Isend(out, (int) bytes, MPI_BYTE, to, 1, MPI_COMM_WORLD, &requests[window + i]);
        }
        MPI_Waitall(2 * window, requests, MPI_STATUSES_IGNORE);
        CHECK_BYTES(in, bytes, key_of(from, 1, bytes, 0), "stream");
        if (round == 5) {
            check_note(argv[3], "running", round);
        }
        if (round % 16 == 15) { /* all stop in the same round */
            go_on = MPI_Wtime() < end;
            MPI_Bcast(&go_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
        }
    }
    free(out);
    free(in);
    check_end();
    return 0;
}
