// SPDX-License-Identifier: BSD-3-Clause
/*
 * The last rank ends, and all ranks that wait for it get an error soon. Argument: the source of the
 * news.
 *
 *   event   an event of PMIx, as the runtime sends it. Here the rank lives: each other rank raises
 *           the event itself, for itself alone, so that no daemon ends the job because of it.
 *   killed  none: the rank is killed in the middle of traffic
 *
 * Needs PMIx beside MPI (test/clients/fault_ended).
 */
#include "check.h"

#include <pmix.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

enum {
    TAG = 5,
    MANY = 40,
    LARGE = 300000
};

static const double delay = 1; // seconds until the event
static const double soon = 1;  // seconds from the event until all errors are there, at most
static pmix_proc_t ended;
static bool killed;

/* Runs in a thread of its own, as the runtime's events do. */
static void *say_so(void *unused)
{
    pmix_info_t info[2];
    bool yes = true;
    pmix_status_t status;

    usleep((useconds_t) (1e6 * delay));
    PMIX_INFO_LOAD(&info[0], PMIX_EVENT_AFFECTED_PROC, &ended, PMIX_PROC);
    PMIX_INFO_LOAD(&info[1], PMIX_EVENT_NON_DEFAULT, &yes, PMIX_BOOL);
    status = PMIx_Notify_event(PMIX_ERR_PROC_ABORTED, &ended, PMIX_RANGE_PROC_LOCAL, info, 2, NULL,
                               NULL);
    CHECK(status == PMIX_SUCCESS || status == PMIX_OPERATION_SUCCEEDED, "PMIx_Notify_event: %s",
          PMIx_Error_string(status));
    return unused;
}

/* Receives short and long messages until the rank is killed; then, or if it lives, waits for a
 * `byte` that never comes. Returns the error. */
static int receive_all(int rank, char *byte)
{
    static char large[LARGE];
    int code = MPI_SUCCESS;

    while (code == MPI_SUCCESS && killed) {
        code = MPI_Recv(large, LARGE, MPI_BYTE, rank, TAG + 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    return code != MPI_SUCCESS
               ? code
               : MPI_Recv(byte, 1, MPI_BYTE, rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void *kill_me(void *unused)
{
    usleep((useconds_t) (1e6 * delay));
    raise(SIGKILL);
    return unused;
}

static void send_for_ever(void)
{
    static char large[LARGE];
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, kill_me, NULL) == 0, "no thread");
    for (int i = 0;; ++i) {
        for (int to = 0; to + 1 < check_ranks; ++to) {
            MPI_Send(large, i % 4 == 0 ? LARGE : 100, MPI_BYTE, to, TAG + 2, MPI_COMM_WORLD);
        }
    }
}

static void wait_for(int rank)
{
    pthread_t thread;
    char byte = 0;
    double began, took;

    began = MPI_Wtime(); /* before the thread begins to wait */
    CHECK(killed || pthread_create(&thread, NULL, say_so, NULL) == 0, "no thread");
    int code = receive_all(rank, &byte);
    took = MPI_Wtime() - began;
    if (!killed) {
        pthread_join(thread, NULL);
    }
    CHECK(code != MPI_SUCCESS, "the receive has succeeded");
    CHECK(killed || took >= delay, "it has ended after %.3f s, before the event", took);
    CHECK(took < delay + soon, "the receive has ended after %.3f s", took);
    code = MPI_Send(&byte, 1, MPI_BYTE, rank, TAG, MPI_COMM_WORLD);
    CHECK(code != MPI_SUCCESS, "a send to it has succeeded");
}

int main(int argc, char **argv)
{
    pmix_proc_t self;
    char word[16];
    int last;

    check_begin(&argc, &argv, "ended", 2);
    last = check_ranks - 1;
    killed = argc > 1 && strcmp(argv[1], "killed") == 0;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(PMIx_Init(&self, NULL, 0) == PMIX_SUCCESS, "PMIx_Init");
    PMIX_LOAD_PROCID(&ended, self.nspace, (pmix_rank_t) last);
    for (int i = 0; i < MANY; ++i) { /* enough to make a connection with a ring */
        MPI_Sendrecv(word, 8, MPI_BYTE, (check_rank + 1) % check_ranks, TAG + 1, word + 8, 8,
                     MPI_BYTE, (check_rank + check_ranks - 1) % check_ranks, TAG + 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime();
    if (check_rank != last) {
        wait_for(last);
    } else if (killed) {
        send_for_ever();
    }
    printf("rank %d is through\n", check_rank);
    fflush(stdout);
    while (MPI_Wtime() < began + 2 * (delay + soon)) { /* the first rank to exit ends the job */
        usleep(10000);
    }
    _exit(0); /* MPI_Finalize would wait for the rank that has ended */
}
