// SPDX-License-Identifier: BSD-3-Clause
/*
 * Buffers in the heap that free() gives back to the system and malloc() fetches anew, at the same
 * address and from other pages: a registration cache has to notice. With the argument ucx, UCX's
 * memory hooks are installed at the same time, as other components of Open MPI do. UCX's sbrk does
 * not pass through the function that Open MPI watches.
 */
#include "check.h"
#include "counters.h"

#include <dlfcn.h>
#include <malloc.h>
#include <unistd.h>

enum {
    ROUNDS = 8,
    BYTES = 1 << 20
};

static const char UCX[] = "libucs.so.0"; /* brings libucm along */

static bool has_ucx(void)
{
    void *library = dlopen(UCX, RTLD_LAZY);

    return NULL != library && 0 == dlclose(library);
}

static int heard_by_ucx = 0;

static void count(int kind, void *event, void *context)
{
    (void) kind;
    (void) event;
    (void) context;
    ++heard_by_ucx;
}

/* As users of UCX do: it installs its hooks for whoever asks for events. It says that
 * this failed if Open MPI has taken the place of some of them; that of sbrk is there all the
 * same. */
static void install_ucx(void)
{
    typedef signed char set_t(int kinds, int priority, void (*)(int, void *, void *), void *);
    const int unmapped = 1 << 17, install_nothing = 1 << 24;
    void *library = dlopen(UCX, RTLD_LAZY | RTLD_GLOBAL);
    set_t *set;

    CHECK(NULL != library, "%s", dlerror());
    set = (set_t *) (intptr_t) dlsym(library, "ucm_set_event_handler");
    CHECK(NULL != set, "%s", dlerror());
    if (0 != set(unmapped, 1000, count, NULL)) {
        CHECK(0 == set(unmapped | install_nothing, 1000, count, NULL), "UCX has no events");
    }
}

static void exchange(unsigned char *out, unsigned char *in, int round)
{
    const int peer = 1 - check_rank;
    MPI_Status status;

    fill(out, BYTES, key_of(check_rank, 1, BYTES, (uint64_t) round));
    memset(in, 0, BYTES);
    MPI_Sendrecv(out, BYTES, MPI_BYTE, peer, 1, in, BYTES, MPI_BYTE, peer, 1, MPI_COMM_WORLD,
                 &status);
    CHECK_STATUS(&status, peer, 1, BYTES, "exchange");
    CHECK_BYTES(in, BYTES, key_of(peer, 1, BYTES, (uint64_t) round), "exchange");
}

/* Multiples of 16 bytes up to 4 KiB, then powers of two up to 256 KiB. */
static size_t size_of_piece(int number)
{
    const int small = 256;

    return number < small ? (size_t) (16 * (number + 1) - 8) : (size_t) 8192 << (number - small);
}

/* Leaves free pieces of each size in front of the buffers. What the libraries allocate meanwhile is
 * taken from these: behind the buffers, it would keep the heap from becoming shorter. */
static void make_room(void)
{
    enum {
        SIZES = 256 + 6,
        OF_EACH = 24
    };
    static void *room[SIZES][OF_EACH], *between[SIZES][OF_EACH];

    for (int i = 0; i < SIZES; i++) {
        for (int k = 0; k < OF_EACH; k++) {
            room[i][k] = malloc(size_of_piece(i));
            between[i][k] = malloc(24);
            CHECK(NULL != room[i][k] && NULL != between[i][k], "malloc");
        }
    }
    for (int i = 0; i < SIZES; i++) {
        for (int k = 0; k < OF_EACH; k++) {
            free(room[i][k]);
        }
    }
}

int main(int argc, char **argv)
{
    const bool with_ucx = argc > 1 && 0 == strcmp(argv[1], "ucx");
    static unsigned char first[2][BYTES];
    unsigned char *last = NULL;
    unsigned long long reused = 0, trimmed = 0;
    counter_t forgotten;
    int provided;

    if (with_ucx && !has_ucx()) {
        return check_skip(&argc, &argv);
    }
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    check_begin(&argc, &argv, "trimmed", 2);
    if (with_ucx) {
        install_ucx();
    }
    forgotten = counter_begin("registrations_forgotten");
    /* All of it in the heap, whose end goes back to the system at once. */
    mallopt(M_MMAP_THRESHOLD, 16 * BYTES);
    mallopt(M_TRIM_THRESHOLD, 0);
    mallopt(M_TOP_PAD, 0);
    if (check_rank < 2) {
        exchange(first[0], first[1], 0); /* what adaptib allocates to connect stays in the heap */
        make_room();
    }
    for (int round = 1; check_rank < 2 && round <= ROUNDS; round++) {
        unsigned char *out = malloc(BYTES), *in = malloc(BYTES);
        const char *end = sbrk(0);

        CHECK(NULL != out && NULL != in, "malloc");
        reused += out == last && trimmed > 0;
        last = out;
        exchange(out, in, round);
        free(in);
        free(out);
        trimmed += (const char *) sbrk(0) < end;
    }
    if (check_rank < 2) {
        CHECK(reused > 0,
              "the heap became shorter %llu times, but malloc returned no address again", trimmed);
        CHECK(!with_ucx || heard_by_ucx > 0, "UCX's hooks are not called");
        CHECK(counter_now(&forgotten) >= reused,
              "%llu buffers at an address from before, and %llu registrations forgotten", reused,
              counter_now(&forgotten));
        printf("rank %d: %llu buffers at an address from before\n", check_rank, reused);
    }
    counter_end(&forgotten);
    MPI_T_finalize();
    check_end();
    return 0;
}
