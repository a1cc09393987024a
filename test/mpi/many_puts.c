// SPDX-License-Identifier: BSD-3-Clause
/*
 * Many short operations in one epoch, most of which wait for room: the time of each must not depend
 * on their number. Rank 0 starts them and ends the epoch; the last rank is their target. The test
 * runs first some, then many more operations, and compares the times per operation. Times on a busy
 * machine vary, so each is the best of several tries, and the bound is far above such variations.
 * It is far below the ratio of the numbers, by which the time would grow if each operation had to
 * look at the others. The number of times that one-sided operations had to wait (performance
 * variable transfer_stalls) is bounded, too. Arguments: put|get|send, some, many (1000000, for
 * example, for a soak).
 */
#include "counters.h"

#include <time.h>

enum {
    BYTES = 4,
    TRIES = 3,
    MOST_STALLS = 4, /* per operation */
    TAG = 5
};

static const double most_growth = 4;
static const double short_time = 1e-7; /* seconds per operation; below, no ratio is checked */

static unsigned char *memory, *local;
static MPI_Win window;

/* The time from the first operation to the flush of all. */
static double time_one_sided(bool put, int count, int target)
{
    const double start = MPI_Wtime();
    for (int i = 0; i < count; ++i) {
        if (put) {
            MPI_Put(local + (size_t) i * BYTES, BYTES, MPI_BYTE, target, (MPI_Aint) i * BYTES,
                    BYTES, MPI_BYTE, window);
        } else {
            MPI_Get(local + (size_t) i * BYTES, BYTES, MPI_BYTE, target, (MPI_Aint) i * BYTES,
                    BYTES, MPI_BYTE, window);
        }
    }
    MPI_Win_flush(target, window);
    return MPI_Wtime() - start;
}

static double one_sided(bool put, int count, int target, uint64_t salt)
{
    const size_t bytes = (size_t) count * BYTES;
    const bool source = put ? check_rank == 0 : check_rank == target;
    double took = 0;

    memset(put ? memory : local, 0, bytes);
    if (source) {
        fill(put ? local : memory, bytes, key_of(0, TAG, bytes, salt));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0) {
        counter_t counter = counter_begin("transfer_stalls");
        took = time_one_sided(put, count, target);
        const unsigned long long stalls = counter_now(&counter);
        CHECK(stalls <= (unsigned long long) count * MOST_STALLS,
              "%d operations had to wait %llu times", count, stalls);
        counter_end(&counter);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == (put ? target : 0)) {
        CHECK_BYTES(put ? memory : local, bytes, key_of(0, TAG, bytes, salt), "many");
    }
    return took;
}

/* The target sleeps until most sends are started. The time ends when the target reports that it has
 * all messages: the PML may complete a send that it still has queued. */
static double sends(int count, int target, uint64_t salt)
{
    const size_t bytes = (size_t) count * BYTES;
    MPI_Request *requests = malloc((size_t) count * sizeof *requests);
    double took = 0;

    CHECK(requests != NULL, "no memory for %d requests", count);
    if (check_rank == 0) {
        fill(local, bytes, key_of(0, TAG, bytes, salt));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0) {
        const double start = MPI_Wtime();
        for (int i = 0; i < count; ++i) {
            MPI_Isend(local + (size_t) i * BYTES, BYTES, MPI_BYTE, target, TAG, MPI_COMM_WORLD,
                      &requests[i]);
        }
        MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
        MPI_Recv(NULL, 0, MPI_BYTE, target, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        took = MPI_Wtime() - start;
    } else if (check_rank == target) {
        const struct timespec away = {.tv_sec = count / 5000000, .tv_nsec = count % 5000000 * 200L};
        nanosleep(&away, NULL);
        for (int i = 0; i < count; ++i) {
            MPI_Irecv(memory + (size_t) i * BYTES, BYTES, MPI_BYTE, 0, TAG, MPI_COMM_WORLD,
                      &requests[i]);
        }
        MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
        MPI_Send(NULL, 0, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
        CHECK_BYTES(memory, bytes, key_of(0, TAG, bytes, salt), "many");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    free(requests);
    return took;
}

static double best_of(const char *kind, int count, int target)
{
    double best = 0;

    for (int i = 0; i < TRIES; ++i) {
        const uint64_t salt = (uint64_t) count * TRIES + (uint64_t) i;
        const double took = strcmp(kind, "send") == 0
                                ? sends(count, target, salt)
                                : one_sided(strcmp(kind, "put") == 0, count, target, salt);
        best = i == 0 || took < best ? took : best;
    }
    return best / count;
}

int main(int argc, char **argv)
{
    int provided;

    check_begin(&argc, &argv, "many_puts", 2);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    CHECK(argc == 4, "arguments: put|get|send, some, many");
    const char *kind = argv[1];
    const int some = atoi(argv[2]), many = atoi(argv[3]), target = check_ranks - 1;
    CHECK(strcmp(kind, "put") == 0 || strcmp(kind, "get") == 0 || strcmp(kind, "send") == 0,
          "'%s' is not put|get|send", kind);
    CHECK(some > 0 && many >= some, "some: %d, many: %d", some, many);
    local = malloc((size_t) many * BYTES);
    memory = malloc((size_t) many * BYTES);
    CHECK(local != NULL && memory != NULL, "no memory");
    /* Creates the window over this program's memory: Open MPI would share memory of its own within
     * a host, and not use the BTL. */
    const bool uses_window = strcmp(kind, "send") != 0;
    if (uses_window) {
        MPI_Win_create(memory, (MPI_Aint) many * BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
        MPI_Win_lock_all(0, window);
    }
    best_of(kind, some, target); /* makes the connection */
    const double few = best_of(kind, some, target), all = best_of(kind, many, target);
    if (check_rank == 0) {
        printf("%s: %d operations: %.0f ns each, %d: %.0f ns each\n", kind, some, 1e9 * few, many,
               1e9 * all);
        CHECK(all < short_time || all < most_growth * few,
              "%d operations of an epoch take %.0f ns each, %d take %.0f ns each", some, 1e9 * few,
              many, 1e9 * all);
    }
    if (uses_window) {
        MPI_Win_unlock_all(window);
        MPI_Win_free(&window);
    }
    free(memory);
    free(local);
    MPI_T_finalize();
    check_end();
    return 0;
}
