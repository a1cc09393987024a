// SPDX-License-Identifier: BSD-3-Clause
/*
 * Ranks fork while they exchange messages. A child that lives on must not change the messages that
 * its parent sends and receives (after copy-on-write the adapter may still use the pages that the
 * child has got). The child touches and unmaps only memory of its own.
 */
#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

enum {
    LARGEST = 300000,
    ROUNDS = 4
};

static unsigned char out[LARGEST], in[LARGEST];
static unsigned char private_memory[65536]; /* never sent */

static void exchange(int round)
{
    static const int sizes[] = {1, 40, 1000, 4000, 5000, 60000, LARGEST};
    const int to = (check_rank + 1) % check_ranks;
    const int from = (check_rank + check_ranks - 1) % check_ranks;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
        for (int repeated = 0; repeated < 6; ++repeated) {
            const int tag = round * 100 + (int) i * 10 + repeated;
            const size_t bytes = (size_t) sizes[i];
            MPI_Status status;

            memset(in, 0, bytes);
            fill(out, bytes, key_of(check_rank, tag, bytes, 0));
            MPI_Sendrecv(out, sizes[i], MPI_BYTE, to, tag, in, sizes[i], MPI_BYTE, from, tag,
                         MPI_COMM_WORLD, &status);
            CHECK_STATUS(&status, from, tag, bytes, "exchange");
            CHECK_BYTES(in, bytes, key_of(from, tag, bytes, 0), "exchange");
        }
    }
}

/* Lives until its input ends. It unmaps memory, for which Open MPI's memory hooks call registration
 * caches. */
static void child(int input)
{
    char byte;

    memset(private_memory, 0x5a, sizeof(private_memory));
    for (int i = 0; i < 64; ++i) {
        char *const block = malloc(1 << 20);

        if (NULL == block) {
            _exit(2);
        }
        memset(block, i, 1 << 20);
        free(block);
    }
    while (read(input, &byte, 1) > 0) {
    }
    for (size_t i = 0; i < sizeof(private_memory); ++i) {
        if (0x5a != private_memory[i]) {
            _exit(1);
        }
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "fork", 2);
    exchange(0);
    for (int round = 1; round <= ROUNDS; ++round) {
        int ends[2];
        int status = -1;
        pid_t pid;

        CHECK(0 == pipe(ends), "no pipe");
        memset(private_memory, round, sizeof(private_memory));
        pid = fork();
        CHECK(pid >= 0, "no fork");
        if (0 == pid) {
            close(ends[1]);
            child(ends[0]);
        }
        close(ends[0]);
        exchange(2 * round - 1); /* while the child lives */
        close(ends[1]);
        CHECK(pid == waitpid(pid, &status, 0) && WIFEXITED(status) && 0 == WEXITSTATUS(status),
              "the child ended with status %d", status);
        for (size_t i = 0; i < sizeof(private_memory); ++i) {
            CHECK(private_memory[i] == round, "byte %zu of our memory is the child's", i);
        }
        exchange(2 * round); /* after its end */
    }
    check_end();
    return 0;
}
