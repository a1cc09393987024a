// SPDX-License-Identifier: BSD-3-Clause
/*
 * Buffers in pages that a SIGSEGV handler opens at the first access, as collectors and checkpoints
 * make them: the processor can read and write them, while a system call fails. Receive buffers that
 * are write-protected, send buffers that cannot be read, and both; contiguous and not.
 */
#define _GNU_SOURCE
#include "check.h"

#include <signal.h>
#include <sys/mman.h>

enum {
    HALF = 4 << 20,
    PAGE = 4096,
    RECEIVED = 1, /* what is protected */
    SENT = 2
};

static unsigned char *area, *in, *out;
static volatile long faults;

static void on_fault(int number, siginfo_t *info, void *context)
{
    unsigned char *at = info->si_addr;
    (void) number;
    (void) context;
    if (at < area || at >= area + 2 * HALF) {
        signal(SIGSEGV, SIG_DFL);
        return;
    }
    ++faults;
    mprotect((void *) ((size_t) at & ~(size_t) (PAGE - 1)), PAGE, PROT_READ | PROT_WRITE);
}

static void protect(int what)
{
    mprotect(area, 2 * HALF, PROT_READ | PROT_WRITE);
    if (what & RECEIVED) {
        mprotect(in, HALF, PROT_READ);
    }
    if (what & SENT) {
        mprotect(out, HALF, PROT_NONE);
    }
}

/* Both ranks send and receive. The types have `bytes` of data, `apart` every other byte. */
static void exchange(int what, size_t bytes, bool send_apart, bool receive_apart)
{
    const int other = 1 - check_rank, salt = what + 4 * send_apart + 8 * receive_apart;
    const size_t out_step = send_apart ? 2 : 1, in_step = receive_apart ? 2 : 1;
    unsigned char *plain = malloc(bytes);
    MPI_Datatype apart;
    MPI_Request requests[2];
    MPI_Type_vector((int) bytes, 1, 2, MPI_BYTE, &apart);
    MPI_Type_commit(&apart);
    fill(plain, bytes, key_of(check_rank, 1, bytes, (uint64_t) salt));
    for (size_t i = 0; i < bytes; ++i) {
        out[i * out_step] = plain[i];
        in[i * in_step] = 0;
    }
    protect(what);
    MPI_Irecv(in, receive_apart ? 1 : (int) bytes, receive_apart ? apart : MPI_BYTE, other, 1,
              MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, send_apart ? 1 : (int) bytes, send_apart ? apart : MPI_BYTE, other, 1,
              MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    protect(0);
    for (size_t i = 0; i < bytes; ++i) {
        plain[i] = in[i * in_step];
    }
    CHECK_BYTES(plain, bytes, key_of(other, 1, bytes, (uint64_t) salt),
                "in pages that a signal handler opens");
    MPI_Type_free(&apart);
    free(plain);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {100, 5000, 70000, 300000, HALF / 2, HALF};
    struct sigaction action;
    check_begin(&argc, &argv, "write_barrier", 2);
    area = mmap(NULL, 2 * HALF, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(area != MAP_FAILED, "no memory");
    in = area;
    out = area + HALF;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &action, NULL);
    for (int round = 0; round < 3; ++round) {
        for (int what = RECEIVED; what <= (RECEIVED | SENT); ++what) {
            for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
                exchange(what, sizes[i], false, false);
                if (sizes[i] < HALF) {
                    exchange(what, sizes[i], true, false);
                    exchange(what, sizes[i], false, true);
                }
                exchange(0, 1000, false, false); /* the connection is as before */
            }
        }
    }
    CHECK(faults > 0, "no page was protected");
    check_end();
    return 0;
}
