// SPDX-License-Identifier: BSD-3-Clause
/*
 * All kinds of traffic between processes with different parameters of adaptib, as the parameter
 * files of several hosts may give them. Each process sets its own before MPI_Init.
 *
 * Arguments: a number of values, then the name of each parameter (without opal_common_adaptib_) and
 * as many values of it. A rank takes the value at its number, modulo that count:
 *
 *   differing 2 shm_rails 1 3 rendezvous get put
 *
 * test/lib/differing.py runs it with every parameter. A process that has not ended after SECONDS
 * aborts the job.
 */
#include "check.h"

#include <signal.h>
#include <unistd.h>

enum {
    SECONDS = 50,
    MOST_RANKS = 16,
    BURST = 60, /* more messages than connect_threshold */
    WORDS = 1000
};

typedef enum {
    CONTIGUOUS,
    SYNCHRONOUS,
    SENT_WITH_GAPS,
    RECEIVED_WITH_GAPS,
    MODES
} send_mode_t;

static void set_parameters(int count, char **arguments)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    int values = count > 1 ? atoi(arguments[1]) : 0;
    for (int i = 2; rank != NULL && values > 0 && i + values < count; i += 1 + values) {
        char name[256];
        snprintf(name, sizeof name, "OMPI_MCA_opal_common_adaptib_%s", arguments[i]);
        setenv(name, arguments[i + 1 + atoi(rank) % values], 1);
    }
}

/* A job that hangs ends with a text of its own. */
static void on_alarm(int signal)
{
    static const char text[] = "FAILED differing: no end\n";
    (void) signal;
    (void) !write(STDERR_FILENO, text, sizeof text - 1);
    _exit(1);
}

/* ------------------------------------------------------------------------------------------------
 * Messages: every rank sends one to every other */

typedef struct {
    unsigned char *in, *out;
} pair_t;

/* With gaps, two bytes of every three are the message. */
static size_t place_of(size_t i)
{
    return i / 2 * 3 + i % 2;
}

static void exchange(size_t bytes, send_mode_t mode, bool unexpected, MPI_Datatype gaps)
{
    MPI_Request requests[2 * MOST_RANKS];
    pair_t pairs[MOST_RANKS];
    size_t span = bytes / 2 * 3 + 1;
    int started = 0;
    for (int peer = 0; peer < check_ranks; ++peer) {
        pair_t *pair = &pairs[peer];
        *pair = (pair_t){guarded_new(span, 0), guarded_new(span, 1)};
        fill(pair->out, bytes, key_of(check_rank, mode, bytes, (uint64_t) peer));
        for (size_t i = bytes; mode == SENT_WITH_GAPS && i-- > 0;) {
            pair->out[place_of(i)] = pair->out[i];
        }
    }
    for (int step = 0; step < 2; ++step) {
        for (int peer = 0; peer < check_ranks; ++peer) {
            MPI_Request *request = &requests[started];
            if (peer == check_rank) {
                continue;
            }
            ++started;
            if ((step == 0) != unexpected) {
                bool packed = mode != RECEIVED_WITH_GAPS;
                MPI_Irecv(pairs[peer].in, packed ? (int) bytes : 1, packed ? MPI_BYTE : gaps, peer,
                          mode, MPI_COMM_WORLD, request);
            } else if (mode == SYNCHRONOUS) {
                MPI_Issend(pairs[peer].out, (int) bytes, MPI_BYTE, peer, mode, MPI_COMM_WORLD,
                           request);
            } else {
                bool packed = mode != SENT_WITH_GAPS;
                MPI_Isend(pairs[peer].out, packed ? (int) bytes : 1, packed ? MPI_BYTE : gaps, peer,
                          mode, MPI_COMM_WORLD, request);
            }
        }
        if (step == 0 && unexpected) {
            progress_for(0.001, MPI_COMM_WORLD);
        }
    }
    MPI_Waitall(started, requests, MPI_STATUSES_IGNORE);
    for (int peer = 0; peer < check_ranks; ++peer) {
        pair_t *pair = &pairs[peer];
        for (size_t i = 0; mode == RECEIVED_WITH_GAPS && i < bytes; ++i) {
            pair->in[i] = pair->in[place_of(i)];
        }
        if (peer != check_rank) {
            CHECK_BYTES(pair->in, bytes, key_of(peer, mode, bytes, (uint64_t) check_rank),
                        "a message");
            CHECK_GUARD(pair->in, span, "a message");
        }
        guarded_free(pair->in, 0);
        guarded_free(pair->out, 1);
    }
}

static void messages(void)
{
    static const size_t sizes[] = {0, 8, 250, 3000, 6000, 40000, 300000, 1500000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
        MPI_Datatype gaps;
        MPI_Type_vector((int) (sizes[i] / 2), 2, 3, MPI_BYTE, &gaps);
        MPI_Type_commit(&gaps);
        for (int mode = 0; mode < MODES; ++mode) {
            exchange(sizes[i], (send_mode_t) mode, i % 2 != 0, gaps);
        }
        MPI_Type_free(&gaps);
    }
}

/* Many short messages each way, whose order counts. */
static void bursts(void)
{
    int in[MOST_RANKS][BURST], out[BURST], started = 0;
    static MPI_Request requests[2 * MOST_RANKS * BURST];
    for (int i = 0; i < BURST; ++i) {
        out[i] = check_rank * BURST + i;
        for (int peer = 0; peer < check_ranks; ++peer) {
            if (peer != check_rank) {
                MPI_Irecv(&in[peer][i], 1, MPI_INT, peer, 9, MPI_COMM_WORLD, &requests[started++]);
                MPI_Isend(&out[i], 1, MPI_INT, peer, 9, MPI_COMM_WORLD, &requests[started++]);
            }
        }
    }
    MPI_Waitall(started, requests, MPI_STATUSES_IGNORE);
    for (int peer = 0; peer < check_ranks; ++peer) {
        for (int i = 0; i < BURST && peer != check_rank; ++i) {
            CHECK(in[peer][i] == peer * BURST + i, "message %d of rank %d is number %d", i, peer,
                  in[peer][i] - peer * BURST);
        }
    }
}

static void collectives(void)
{
    enum {
        BYTES = 200000
    };
    int sum = 0, in[MOST_RANKS], out[MOST_RANKS];
    unsigned char *bytes = guarded_new(BYTES, 0);
    for (int root = 0; root < check_ranks; ++root) {
        if (root == check_rank) {
            fill(bytes, BYTES, key_of(root, 0, BYTES, 1));
        }
        MPI_Bcast(bytes, BYTES, MPI_BYTE, root, MPI_COMM_WORLD);
        CHECK_BYTES(bytes, BYTES, key_of(root, 0, BYTES, 1), "a broadcast");
        out[root] = check_rank * MOST_RANKS + root;
    }
    guarded_free(bytes, 0);
    MPI_Allreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == check_ranks * (check_ranks - 1) / 2, "the sum of all ranks is %d", sum);
    MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD);
    for (int peer = 0; peer < check_ranks; ++peer) {
        CHECK(in[peer] == peer * MOST_RANKS + check_rank, "rank %d has sent %d", peer, in[peer]);
    }
}

/* ------------------------------------------------------------------------------------------------
 * One-sided: each rank has a word that all count in, and WORDS for each rank to put */

static void one_sided(void)
{
    static long put[WORDS], got[WORDS];
    size_t words = 1 + WORDS * (size_t) check_ranks;
    long one = 1, before, *memory = calloc(words, sizeof *memory);
    MPI_Win window;
    CHECK(memory != NULL, "no memory for a window");
    MPI_Win_create(memory, (MPI_Aint) (words * sizeof *memory), sizeof *memory, MPI_INFO_NULL,
                   MPI_COMM_WORLD, &window);
    MPI_Win_lock_all(0, window);
    for (int count = 1; count <= WORDS; count *= 10) {
        for (int peer = 0; peer < check_ranks; ++peer) {
            MPI_Aint place = 1 + WORDS * check_rank;
            for (int i = 0; i < count; ++i) {
                put[i] = check_rank * 1000000L + peer * 10000 + count + i;
            }
            MPI_Put(put, count, MPI_LONG, peer, place, count, MPI_LONG, window);
            MPI_Win_flush(peer, window);
            MPI_Get(got, count, MPI_LONG, peer, place, count, MPI_LONG, window);
            MPI_Fetch_and_op(&one, &before, MPI_LONG, peer, 0, MPI_SUM, window);
            MPI_Win_flush(peer, window);
            CHECK(memcmp(put, got, (size_t) count * sizeof *put) == 0,
                  "%d words put to rank %d read otherwise", count, peer);
            MPI_Accumulate(put, count, MPI_LONG, peer, place, count, MPI_LONG, MPI_SUM, window);
            MPI_Win_flush(peer, window);
        }
    }
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, window);
    CHECK(memory[0] == 4L * check_ranks, "%ld counted, not %d", memory[0], 4 * check_ranks);
    for (int peer = 0; peer < check_ranks; ++peer) {
        for (int i = 0; i < WORDS; ++i) {
            long want = 2 * (peer * 1000000L + check_rank * 10000 + WORDS + i);
            long is = memory[1 + WORDS * peer + i];
            CHECK(is == want, "word %d of rank %d is %ld, not %ld", i, peer, is, want);
        }
    }
    MPI_Win_unlock(check_rank, window);
    MPI_Win_free(&window);
    free(memory);
}

int main(int argc, char **argv)
{
    set_parameters(argc, argv);
    signal(SIGALRM, on_alarm);
    alarm(SECONDS);
    check_begin(&argc, &argv, "differing", 2);
    CHECK(check_ranks <= MOST_RANKS, "takes %d ranks at most", MOST_RANKS);
    messages();
    bursts();
    collectives();
    one_sided();
    check_end();
    return 0;
}
