// SPDX-License-Identifier: BSD-3-Clause
/*
 * Buffers in memory that is unmapped after use and mapped anew at the same address, from other
 * pages: a registration cache has to notice. In between, the test uses a buffer that stays mapped,
 * so that the cache also keeps registrations.
 */
#include "check.h"

#include <sys/mman.h>

enum {
    ROUNDS = 24,
    BYTES = 1 << 20,
    OFFSET = 4096 + 64 /* offset of the buffer in its mapping */
};

static void *map_at(void *wanted)
{
    void *at = mmap(wanted, BYTES + 2 * OFFSET, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | (NULL == wanted ? 0 : MAP_FIXED), -1, 0);
    CHECK(at != MAP_FAILED, "mmap");
    return at;
}

/* Exchanges messages both ways at once, so that each side sends from and receives into such
 * memory. */
static void exchange(unsigned char *out, unsigned char *in, size_t bytes, int round)
{
    const int peer = 1 - check_rank;
    MPI_Status status;
    fill(out, bytes, key_of(check_rank, 1, bytes, (uint64_t) round));
    memset(in, 0, bytes);
    MPI_Sendrecv(out, (int) bytes, MPI_BYTE, peer, 1, in, (int) bytes, MPI_BYTE, peer, 1,
                 MPI_COMM_WORLD, &status);
    CHECK_STATUS(&status, peer, 1, bytes, "exchange");
    CHECK_BYTES(in, bytes, key_of(peer, 1, bytes, (uint64_t) round), "exchange");
}

int main(int argc, char **argv)
{
    unsigned char *kept = NULL, *kept_in = NULL;
    void *out = NULL, *in = NULL;

    check_begin(&argc, &argv, "remapped", 2);
    if (check_rank < 2) {
        kept = guarded_new(BYTES, 0);
        kept_in = guarded_new(BYTES, 0);
        for (int round = 0; round < ROUNDS; round++) {
            out = map_at(out);
            in = map_at(in);
            exchange((unsigned char *) out + OFFSET, (unsigned char *) in + OFFSET,
                     (size_t) (BYTES >> (round % 4)), 2 * round);
            exchange(kept, kept_in, BYTES, 2 * round + 1);
            /* In odd rounds the new mapping itself replaces the old one. */
            if (round % 2 == 0) {
                CHECK(0 == munmap(out, BYTES + 2 * OFFSET), "munmap");
                CHECK(0 == munmap(in, BYTES + 2 * OFFSET), "munmap");
            }
        }
        guarded_free(kept, 0);
        guarded_free(kept_in, 0);
    }
    check_end();
    return 0;
}
