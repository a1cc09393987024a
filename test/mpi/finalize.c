// SPDX-License-Identifier: BSD-3-Clause
/*
 * Ranks that go from their last send straight to MPI_Finalize, while the receivers come later: no
 * message is lost, and no rank waits for ever. Arguments: send|free|synchronous|receive|unreceived,
 * seconds that the receivers wait.
 *
 * "free" frees the request of a non-blocking send and leaves its completion to MPI_Finalize.
 * "receive" frees the requests of receives: some get messages of all sizes at about that time, some
 * never get one. There the test only requires that MPI_Finalize ends. "unreceived" frees the
 * requests of sends that nobody receives: MPI_Finalize ends, and no rank prints anything.
 */
#include "check.h"

#include <time.h>
#include <unistd.h>

enum {
    COUNT = 50
};

/* Small sizes only: a large send without a wait would need its receiver to complete. */
static size_t bytes_of(int i)
{
    static const size_t sizes[] = {0, 1, 8, 100, 1000, 4000};
    return sizes[i % 6];
}

static void sleep_for(double seconds)
{
    struct timespec time = {(time_t) seconds, (long) ((seconds - (double) (time_t) seconds) * 1e9)};
    nanosleep(&time, NULL);
}

static int end_with_receives(void)
{
    static unsigned char in[2 * COUNT][262144], out[COUNT][262144];
    const int to = (check_rank + 1) % check_ranks;
    const int from = (check_rank - 1 + check_ranks) % check_ranks;
    const int last = check_ranks - 1, rank = check_rank;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int i = 0; i < 2 * COUNT; ++i) {
        MPI_Request request;
        MPI_Irecv(in[i], (int) sizeof in[i], MPI_BYTE, from, i, comm, &request);
        MPI_Request_free(&request);
    }
    for (int i = 0; i < COUNT; ++i) {
        MPI_Request request;
        MPI_Isend(out[i], (int) mixed_size((uint64_t) i), MPI_BYTE, to, i, comm, &request);
        MPI_Request_free(&request);
    }
    MPI_Comm_free(&comm); /* takes effect after the last of its requests */
    MPI_Finalize();
    if (rank == last) {
        printf("finalize: ok\n");
    }
    return 0;
}

/* What the ranks print goes to a pipe of each, which must be empty at the end. */
static int end_unreceived(void)
{
    static unsigned char out[1 << 20];
    const int to = (check_rank + 1) % check_ranks, rank = check_rank;
    char text[512];
    int ends[2];
    CHECK(pipe(ends) == 0, "no pipe");
    for (int i = 0; i < COUNT; ++i) {
        MPI_Request request;
        MPI_Isend(out, i % 2 ? sizeof out : 100, MPI_BYTE, to, i, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
    }
    const int before = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    MPI_Finalize();
    dup2(before, STDERR_FILENO);
    close(ends[1]);
    const ssize_t printed = read(ends[0], text, sizeof text - 1);
    if (printed != 0) {
        text[printed > 0 ? printed : 0] = '\0';
        fprintf(stderr, "FAILED finalize, rank %d: MPI_Finalize says: %s\n", rank, text);
        return 1;
    }
    if (rank == 0) {
        printf("finalize: ok\n");
    }
    return 0;
}

int main(int argc, char **argv)
{
    static unsigned char out[COUNT][4096], in[300000], large[200000];
    check_begin(&argc, &argv, "finalize", 1);
    CHECK(argc == 3, "arguments: send|free|synchronous|receive|unreceived, seconds");
    const char *kind = argv[1];
    if (strcmp(kind, "receive") == 0) {
        return end_with_receives();
    }
    if (strcmp(kind, "unreceived") == 0) {
        return end_unreceived();
    }
    /* Rank 0 sends to all others, each other rank to the next; no rank answers. */
    for (int target = check_rank + 1; target < check_ranks; ++target) {
        if (check_rank > 0 && target > check_rank + 1) {
            break;
        }
        for (int i = 0; i < COUNT; ++i) {
            MPI_Request request;
            fill(out[i], bytes_of(i), key_of(check_rank, i, bytes_of(i), 0));
            if (strcmp(kind, "send") == 0) {
                MPI_Send(out[i], (int) bytes_of(i), MPI_BYTE, target, i, MPI_COMM_WORLD);
            } else if (strcmp(kind, "synchronous") == 0) {
                MPI_Ssend(out[i], (int) bytes_of(i), MPI_BYTE, target, i, MPI_COMM_WORLD);
            } else {
                MPI_Isend(out[i], (int) bytes_of(i), MPI_BYTE, target, i, MPI_COMM_WORLD, &request);
                MPI_Request_free(&request);
            }
        }
        if (strcmp(kind, "send") == 0) {
            fill(large, sizeof large, key_of(check_rank, COUNT, sizeof large, 0));
            MPI_Send(large, sizeof large, MPI_BYTE, target, COUNT, MPI_COMM_WORLD);
        }
    }
    if (check_rank > 0) {
        sleep_for(atof(argv[2]));
    }
    for (int source = check_rank - 1; source >= 0; --source) {
        if (source > 0 && source != check_rank - 1) {
            continue;
        }
        for (int i = 0; i < COUNT; ++i) {
            MPI_Status status;
            MPI_Recv(in, sizeof in, MPI_BYTE, source, i, MPI_COMM_WORLD, &status);
            CHECK_STATUS(&status, source, i, bytes_of(i), "before MPI_Finalize");
            CHECK_BYTES(in, bytes_of(i), key_of(source, i, bytes_of(i), 0), "before MPI_Finalize");
        }
        if (strcmp(kind, "send") == 0) {
            MPI_Recv(in, sizeof in, MPI_BYTE, source, COUNT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK_BYTES(in, sizeof large, key_of(source, COUNT, sizeof large, 0),
                        "before MPI_Finalize");
        }
    }
    int rank = check_rank;
    MPI_Finalize();
    if (rank == check_ranks - 1) { /* the last rank has received all its messages */
        printf("finalize: ok\n");
    }
    return 0;
}
