// SPDX-License-Identifier: BSD-3-Clause
/*
 * Endless one-sided traffic for the fault tests: each rank puts to the next, gets from it, or adds
 * to its counter without a pause, until it is killed or the time is up. Arguments: put|get|add,
 * seconds, directory. Each rank writes its process number into <directory>/pid.<rank> and, when its
 * first operations are over, makes <directory>/running.<rank>.
 */
#include "check.h"

#include <unistd.h>

enum {
    LARGE = 8 << 20,
    ADDS = 20
};

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "fault_one_sided", 2);
    CHECK(argc == 4, "arguments: put|get|add, seconds, directory");
    const bool add = strcmp(argv[1], "add") == 0, get = strcmp(argv[1], "get") == 0;
    const int to = (check_rank + 1) % check_ranks;
    /* Open MPI does not share the memory of a created window, so all operations go over the BTL. */
    unsigned char *memory = malloc(LARGE), *local = malloc(LARGE);
    int64_t one = 1, old = 0;
    MPI_Win win;
    CHECK(memory != NULL && local != NULL, "no memory");
    memset(memory, 0, LARGE);
    fill(memory + 64, LARGE - 64, key_of(check_rank, 1, LARGE, 0));
    fill(local, LARGE, key_of(check_rank, 2, LARGE, 0));
    check_note(argv[3], "pid", (long) getpid());
    MPI_Win_create(memory, LARGE, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_lock_all(0, win);
    double end = MPI_Wtime() + atof(argv[2]);
    for (long round = 0; MPI_Wtime() < end; ++round) {
        if (add) {
            for (int i = 0; i < ADDS; ++i) {
                MPI_Fetch_and_op(&one, &old, MPI_INT64_T, to, 0, MPI_SUM, win);
                MPI_Win_flush(to, win);
                CHECK(old == round * ADDS + i, "the counter is %ld", (long) old);
            }
        } else if (get) {
            MPI_Get(local, LARGE - 64, MPI_BYTE, to, 64, LARGE - 64, MPI_BYTE, win);
            MPI_Win_flush(to, win);
            CHECK_BYTES(local, LARGE - 64, key_of(to, 1, LARGE, 0), "a get");
        } else {
            MPI_Put(local, LARGE, MPI_BYTE, to, 0, LARGE, MPI_BYTE, win);
            MPI_Win_flush(to, win);
        }
        if (round == 5) {
            check_note(argv[3], "running", round);
        }
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    free(memory);
    free(local);
    check_end();
    return 0;
}
