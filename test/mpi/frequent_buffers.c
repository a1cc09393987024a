// SPDX-License-Identifier: BSD-3-Clause
/*
 * Buffers that are sent again and again: each is overwritten as soon as MPI gives it back, and the
 * receiver checks every byte. Non-blocking, blocking and persistent sends, broadcasts, requests
 * that are freed or cancelled; buffers on the heap, on the stack, in read-only pages, in memory
 * that is unmapped, discarded or moved between two sends, and in pages that a forked child has,
 * too; a communicator that asserts reuse.
 */
#define _GNU_SOURCE
#include "check.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    ROUNDS = 60,
    WINDOW = 8,
    PAGE = 4096,
    GARBAGE = 0x5A
};
static const size_t sizes[] = {64, 128, 200, 1000, 1024, 4000, 8000};
enum {
    SIZES = sizeof sizes / sizeof sizes[0]
};

static int peer; /* the ranks form pairs; the last of an odd number takes part in broadcasts only */

static uint64_t key(int sender, size_t bytes, int round, int i)
{
    return key_of(sender, i, bytes, (uint64_t) round);
}

static void receive(size_t bytes, int round, int i, const char *what)
{
    unsigned char in[8192];
    MPI_Status status;

    MPI_Recv(in, (int) sizeof in, MPI_BYTE, peer, i, MPI_COMM_WORLD, &status);
    CHECK_STATUS(&status, peer, i, bytes, what);
    CHECK_BYTES(in, bytes, key(peer, bytes, round, i), what);
}

/* Sends one message from `out`, and overwrites the buffer, as the peer does at the same time. */
static void exchange(unsigned char *out, size_t bytes, int round, const char *what)
{
    MPI_Request request;

    fill(out, bytes, key(check_rank, bytes, round, 0));
    MPI_Isend(out, (int) bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &request);
    receive(bytes, round, 0, what);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    memset(out, GARBAGE, bytes);
}

/* Starts a window of sends, each from a buffer of its own. */
static void send_window(unsigned char *const *out, size_t bytes, int round, MPI_Request *requests)
{
    for (int i = 0; i < WINDOW; ++i) {
        fill(out[i], bytes, key(check_rank, bytes, round, i));
        MPI_Isend(out[i], (int) bytes, MPI_BYTE, peer, i, MPI_COMM_WORLD, &requests[i]);
    }
}

/* Many sends under way at a time; each buffer is overwritten when its own request is complete. */
static void windows(unsigned char *const *out)
{
    static unsigned char in[WINDOW][8192];

    for (int round = 0; round < ROUNDS; ++round) {
        const size_t bytes = sizes[round % SIZES];
        MPI_Request receives[WINDOW];
        MPI_Request requests[WINDOW];

        send_window(out, bytes, round, requests);
        for (int i = 0; i < WINDOW; ++i) {
            MPI_Irecv(in[i], (int) bytes, MPI_BYTE, peer, i, MPI_COMM_WORLD, &receives[i]);
        }
        for (int left = WINDOW; left > 0; --left) {
            int i;

            MPI_Waitany(WINDOW, requests, &i, MPI_STATUS_IGNORE);
            memset(out[i], GARBAGE, bytes);
        }
        MPI_Waitall(WINDOW, receives, MPI_STATUSES_IGNORE);
        for (int i = 0; i < WINDOW; ++i) {
            CHECK_BYTES(in[i], bytes, key(peer, bytes, round, i), "a window");
        }
    }
}

/* Blocking sends between non-blocking ones from the same buffer. */
static void blocking(unsigned char *out)
{
    for (int round = 0; round < ROUNDS; ++round) {
        const size_t bytes = sizes[round % SIZES];

        exchange(out, bytes, round, "before a blocking send");
        if (check_rank > peer) {
            receive(bytes, round, 1, "a blocking send");
        }
        fill(out, bytes, key(check_rank, bytes, round, 1));
        MPI_Send(out, (int) bytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
        memset(out, GARBAGE, bytes);
        if (check_rank < peer) {
            receive(bytes, round, 1, "a blocking send");
        }
    }
}

static void persistent(unsigned char *const *out)
{
    for (int size = 0; size < SIZES; ++size) {
        const size_t bytes = sizes[size];
        MPI_Request requests[WINDOW];

        for (int i = 0; i < WINDOW; ++i) {
            MPI_Send_init(out[i], (int) bytes, MPI_BYTE, peer, i, MPI_COMM_WORLD, &requests[i]);
        }
        for (int round = 0; round < ROUNDS; ++round) {
            for (int i = 0; i < WINDOW; ++i) {
                fill(out[i], bytes, key(check_rank, bytes, round, i));
            }
            MPI_Startall(WINDOW, requests);
            for (int i = 0; i < WINDOW; ++i) {
                receive(bytes, round, i, "a persistent send");
            }
            MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
            for (int i = 0; i < WINDOW; ++i) {
                memset(out[i], GARBAGE, bytes);
            }
        }
        for (int i = 0; i < WINDOW; ++i) {
            MPI_Request_free(&requests[i]);
        }
    }
}

/* The sender knows from the answer alone that it has its buffers back. */
static void freed(unsigned char *const *out)
{
    for (int round = 0; round < ROUNDS; ++round) {
        const size_t bytes = sizes[round % SIZES];
        MPI_Request request;

        for (int i = 0; i < WINDOW; ++i) {
            fill(out[i], bytes, key(check_rank, bytes, round, i));
            MPI_Isend(out[i], (int) bytes, MPI_BYTE, peer, i, MPI_COMM_WORLD, &request);
            MPI_Request_free(&request);
        }
        for (int i = 0; i < WINDOW; ++i) {
            receive(bytes, round, i, "a freed request");
        }
        MPI_Sendrecv(NULL, 0, MPI_BYTE, peer, 99, NULL, 0, MPI_BYTE, peer, 99, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        for (int i = 0; i < WINDOW; ++i) {
            memset(out[i], GARBAGE, bytes);
        }
    }
}

/* A send cannot be cancelled: each ends as usual, and its buffer is overwritten then. */
static void cancelled(unsigned char *const *out)
{
    static unsigned char in[WINDOW][8192];

    for (int round = 0; round < ROUNDS; ++round) {
        const size_t bytes = sizes[round % SIZES];
        MPI_Request receives[WINDOW];
        MPI_Request requests[WINDOW];

        for (int i = 0; i < WINDOW; ++i) {
            MPI_Irecv(in[i], (int) bytes, MPI_BYTE, peer, i, MPI_COMM_WORLD, &receives[i]);
        }
        send_window(out, bytes, round, requests);
        for (int i = 0; i < WINDOW; ++i) {
            MPI_Cancel(&requests[i]);
        }
        for (int i = 0; i < WINDOW; ++i) {
            MPI_Status status;
            int flag = 1;

            MPI_Wait(&requests[i], &status);
            MPI_Test_cancelled(&status, &flag);
            CHECK(!flag, "a send of %zu bytes was cancelled", bytes);
            memset(out[i], GARBAGE, bytes);
        }
        MPI_Waitall(WINDOW, receives, MPI_STATUSES_IGNORE);
        for (int i = 0; i < WINDOW; ++i) {
            CHECK_BYTES(in[i], bytes, key(peer, bytes, round, i),
                        "a send that was to be cancelled");
        }
    }
}

static void broadcasts(unsigned char *buffer)
{
    for (int round = 0; round < ROUNDS; ++round) {
        const size_t bytes = sizes[round % SIZES];
        const int root = round % check_ranks;

        if (check_rank == root) {
            fill(buffer, bytes, key(root, bytes, round, 7));
        }
        MPI_Bcast(buffer, (int) bytes, MPI_BYTE, root, MPI_COMM_WORLD);
        CHECK_BYTES(buffer, bytes, key(root, bytes, round, 7), "a broadcast");
        memset(buffer, GARBAGE, bytes);
    }
}

static void on_the_stack(void)
{
    for (int round = 0; round < ROUNDS; ++round) {
        unsigned char out[4096];

        exchange(out, sizes[round % 6], round, "on the stack");
    }
}

/* Maps pages at `wanted`, or elsewhere if the library itself has taken the place meanwhile. */
static void *map_at(void *wanted)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    void *at = mmap(wanted, 4 * PAGE, PROT_READ | PROT_WRITE,
                    flags | (NULL == wanted ? 0 : MAP_FIXED_NOREPLACE), -1, 0);

    if (at == MAP_FAILED && errno == EEXIST) {
        at = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
    }

    CHECK(at != MAP_FAILED, "mmap");
    return at;
}

/* Sends twice from each mapping, so that the second send finds what the first has left. */
static void remapped(void)
{
    unsigned char *at = NULL;

    for (int round = 0; round < ROUNDS; ++round) {
        const size_t bytes = sizes[round % SIZES];

        at = map_at(at);
        exchange(at + 100, bytes, 3 * round, "in a new mapping");
        exchange(at + 100, bytes, 3 * round + 1, "again");
        if (round % 4 == 0) {
            CHECK(0 == munmap(at, 4 * PAGE), "munmap");
        } else if (round % 4 == 1) {
            CHECK(0 == madvise(at, 4 * PAGE, MADV_DONTNEED), "madvise");
            exchange(at + 100, bytes, 3 * round + 2, "in discarded pages");
        } else if (round % 4 == 2) {
            const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;

            CHECK(at == mmap(at, 4 * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0), "mmap");
            exchange(at + 100, bytes, 3 * round + 2, "in pages that replace others");
            CHECK(0 == munmap(at, 4 * PAGE), "munmap");
        } else {
            unsigned char *const moved = mremap(at, 4 * PAGE, 8 * PAGE, MREMAP_MAYMOVE);

            CHECK(moved != MAP_FAILED, "mremap");
            exchange(moved + 100, bytes, 3 * round + 2, "in moved pages");
            CHECK(0 == munmap(moved, 8 * PAGE), "munmap");
        }
    }
}

/* The allocator hands the same addresses out again, and unmaps long blocks. */
static void allocated_anew(void)
{
    for (int round = 0; round < ROUNDS; ++round) {
        const size_t bytes = sizes[round % SIZES];
        const size_t room = round % 2 == 0 ? bytes : (size_t) 1 << 20;
        unsigned char *const out = malloc(room);

        exchange(out + room - bytes, bytes, round, "in a block of malloc");
        free(out);
    }
}

/* A communicator whose user promises that buffers are used again; some messages break that. */
static void asserted(unsigned char *const *out)
{
    MPI_Info info;
    MPI_Comm comm;

    MPI_Info_create(&info);
    MPI_Info_set(info, "adaptib_assert_buffer_reuse", "true");
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
    MPI_Info_free(&info);
    for (int round = 0; peer < check_ranks && round < ROUNDS; ++round) {
        const size_t bytes = sizes[round % SIZES];
        unsigned char *const from = out[round % 7 == 0 ? round % WINDOW : 0];
        unsigned char in[8192];
        MPI_Request request;

        fill(from, bytes, key(check_rank, bytes, round, 3));
        MPI_Isend(from, (int) bytes, MPI_BYTE, peer, 3, comm, &request);
        MPI_Recv(in, (int) sizeof in, MPI_BYTE, peer, 3, comm, MPI_STATUS_IGNORE);
        CHECK_BYTES(in, bytes, key(peer, bytes, round, 3), "an asserted buffer");
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        memset(from, GARBAGE, bytes);
    }
    MPI_Comm_free(&comm);
}

/* A child that lives on shares the pages of the buffer until one of them writes: the parent goes on
 * to send from its own. */
static void forked(unsigned char *out)
{
    for (int round = 0; round < 4; ++round) {
        const size_t bytes = sizes[round % SIZES + 2];
        int end[2];
        pid_t child;

        exchange(out, bytes, 3 * round, "before a fork");
        CHECK(0 == pipe(end), "pipe");
        child = fork();
        CHECK(child >= 0, "fork");
        if (child == 0) {
            char byte;

            close(end[1]);
            memset(out, round, bytes);
            while (read(end[0], &byte, 1) > 0) {
            }
            _exit(0);
        }
        close(end[0]);
        exchange(out, bytes, 3 * round + 1, "beside a child");
        exchange(out, bytes, 3 * round + 2, "beside a child, again");
        close(end[1]);
        CHECK(child == waitpid(child, NULL, 0), "waitpid");
    }
}

static void read_only(void)
{
    unsigned char *const at = map_at(NULL);
    const size_t bytes = 2000;

    fill(at, bytes, key(check_rank, bytes, 0, 0));
    CHECK(0 == mprotect(at, 4 * PAGE, PROT_READ), "mprotect");
    for (int i = 0; i < ROUNDS; ++i) {
        MPI_Request request;
        unsigned char in[2000];

        MPI_Isend(at, (int) bytes, MPI_BYTE, peer, i, MPI_COMM_WORLD, &request);
        MPI_Recv(in, (int) bytes, MPI_BYTE, peer, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK_BYTES(in, bytes, key(peer, bytes, 0, 0), "read-only");
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    CHECK(0 == munmap(at, 4 * PAGE), "munmap");
}

int main(int argc, char **argv)
{
    unsigned char *out[WINDOW];

    check_begin(&argc, &argv, "frequent_buffers", 2);
    peer = check_rank ^ 1;
    for (int i = 0; i < WINDOW; ++i) {
        out[i] = malloc(8192);
    }
    if (peer < check_ranks) {
        windows(out);
        blocking(out[0]);
        persistent(out);
        freed(out);
        cancelled(out);
        on_the_stack();
        remapped();
        allocated_anew();
        read_only();
        forked(out[2]);
    }
    broadcasts(out[1]);
    asserted(out);
    for (int i = 0; i < WINDOW; ++i) {
        free(out[i]);
    }
    check_end();
    return 0;
}
