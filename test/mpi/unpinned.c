// SPDX-License-Identifier: BSD-3-Clause
/*
 * Buffers in memory that the processor can read and write but the kernel does not pin, so that
 * process_vm_readv and process_vm_writev fail for them: the [vvar] pages, and pages of memfd_secret
 * where the kernel has it. Mapped device memory behaves like this, too. With argument "windows" the
 * test also does puts, gets and accumulates.
 */
#define _GNU_SOURCE
#include "check.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_memfd_secret
#define SYS_memfd_secret 447
#endif

enum {
    BYTES = 1 << 20,
    VVAR_BYTES = 1024
};

static const void *vvar(void)
{
    char line[512];
    unsigned long at = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL, "/proc/self/maps cannot be read");
    while (fgets(line, sizeof line, maps) != NULL) {
        if (strstr(line, "[vvar]") != NULL) {
            sscanf(line, "%lx", &at);
        }
    }
    fclose(maps);
    return (const void *) at;
}

/* Returns null where the kernel has no such memory. */
static unsigned char *secret_new(void)
{
    void *at = MAP_FAILED;
    int fd = (int) syscall(SYS_memfd_secret, 0);
    if (fd >= 0 && ftruncate(fd, BYTES) == 0) {
        at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (fd >= 0) {
        close(fd);
    }
    return at == MAP_FAILED ? NULL : at;
}

/* Sends from the [vvar] pages. Their contents change (the kernel's clock), so only arrival
 * counts. */
static void send_vvar(void)
{
    const void *from = vvar();
    unsigned char in[VVAR_BYTES];
    int have = from != NULL, all = 0;
    MPI_Allreduce(&have, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    for (int i = 0; all && i < 20; ++i) {
        MPI_Status status;
        if (check_rank == 0) {
            MPI_Send(from, VVAR_BYTES, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        } else if (check_rank == 1) {
            MPI_Recv(in, VVAR_BYTES, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &status);
            CHECK_STATUS(&status, 0, 1, VVAR_BYTES, "[vvar]");
        }
    }
}

/* Exchanges messages both ways at once. */
static void exchange(unsigned char *out, unsigned char *in, size_t bytes, int round)
{
    const int peer = 1 - check_rank;
    MPI_Status status;
    fill(out, bytes, key_of(check_rank, 2, bytes, (uint64_t) round));
    memset(in, 0, bytes);
    MPI_Sendrecv(out, (int) bytes, MPI_BYTE, peer, 2, in, (int) bytes, MPI_BYTE, peer, 2,
                 MPI_COMM_WORLD, &status);
    CHECK_STATUS(&status, peer, 2, bytes, "exchange");
    CHECK_BYTES(in, bytes, key_of(peer, 2, bytes, (uint64_t) round), "exchange");
}

static void messages(unsigned char *secret[2], unsigned char *plain[2])
{
    static const size_t sizes[] = {100, 3000, 20000, 65536, 300001, BYTES};
    for (size_t i = 0; i < 10 * (sizeof sizes / sizeof sizes[0]); ++i) {
        const size_t bytes = sizes[i % (sizeof sizes / sizeof sizes[0])];
        exchange(secret[0], plain[1], bytes, (int) (4 * i));
        exchange(plain[0], secret[1], bytes, (int) (4 * i + 1));
        exchange(secret[0], secret[1], bytes, (int) (4 * i + 2));
        exchange(plain[0], plain[1], bytes, (int) (4 * i + 3));
    }
}

/* Each rank puts into its half of the other's window, gets it back, and adds to it. */
static void windows(unsigned char *memory, unsigned char *local)
{
    enum {
        HALF = BYTES / 2
    };
    const int peer = 1 - check_rank;
    const MPI_Aint at = check_rank * HALF;
    uint64_t one = 1, old = 0;
    MPI_Win window;
    MPI_Win_create(memory, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_lock_all(0, window);
    for (int bytes = 8; bytes <= HALF; bytes *= 4) {
        const uint64_t key = key_of(check_rank, 3, (size_t) bytes, 1);
        fill(local, (size_t) bytes, key);
        MPI_Put(local, bytes, MPI_BYTE, peer, at, bytes, MPI_BYTE, window);
        MPI_Win_flush(peer, window);
        memset(local, 0, (size_t) bytes);
        MPI_Get(local, bytes, MPI_BYTE, peer, at, bytes, MPI_BYTE, window);
        MPI_Win_flush(peer, window);
        CHECK_BYTES(local, (size_t) bytes, key, "put and get");
        for (uint64_t i = 0; i < 10; ++i) {
            MPI_Fetch_and_op(&one, &old, MPI_UINT64_T, peer, at, MPI_SUM, window);
            MPI_Win_flush(peer, window);
            CHECK(old == word_of(key, 0) + i, "fetch and op: %llu additions are not seen",
                  (unsigned long long) i);
        }
    }
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
}

int main(int argc, char **argv)
{
    unsigned char *secret[2], *plain[2];
    int have, all = 0;

    check_begin(&argc, &argv, "unpinned", 2);
    CHECK(check_ranks == 2, "needs 2 ranks");
    send_vvar();
    for (int i = 0; i < 2; ++i) {
        secret[i] = secret_new();
        plain[i] = guarded_new(BYTES, 0);
    }
    have = secret[0] != NULL && secret[1] != NULL;
    MPI_Allreduce(&have, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (all) {
        messages(secret, plain);
    } else if (check_rank == 0) {
        printf("unpinned: no memfd_secret here\n");
    }
    if (all && argc > 1 && strcmp(argv[1], "windows") == 0) {
        windows(secret[0], plain[0]);
        windows(secret[0], secret[1]);
        windows(plain[0], secret[1]);
    }
    for (int i = 0; i < 2; ++i) {
        guarded_free(plain[i], 0);
    }
    check_end();
    return 0;
}
