// SPDX-License-Identifier: BSD-3-Clause
/*
 * The first message of a rank reaches another rank that cannot answer yet, or ever. Argument:
 *
 * descriptors     Rank 1 has used up its file descriptors, as programs with many open files do,
 *                 while the other ranks send to it: an eager message, a synchronous one, and a
 *                 large one. It gets the eager message meanwhile, the others once it has closed
 *                 files.
 * address_space   The address space is limited so that no rank can map all others. Rank 0 receives
 *                 from all.
 * undumpable      The ranks forbid each other access to their memory (PR_SET_DUMPABLE) and drop the
 *                 capability to access it in spite of that.
 * setuid          All ranks become another user, which also forbids them access to each other.
 * one_setuid      Only rank 1 becomes another user.
 * refused         Rank 0 is undumpable, and rank 1 may not ask it for its memory either (no
 *                 socketpair): a synchronous send and a receive of rank 0 end with an error.
 */
#define _GNU_SOURCE
#include "check.h"

#include <fcntl.h>
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    LARGE = 1000000,
    MOST_FILES = 4096
};

static void limit(int which, rlim_t value)
{
    struct rlimit limits;
    CHECK(getrlimit(which, &limits) == 0, "a limit cannot be read");
    limits.rlim_cur = value;
    CHECK(setrlimit(which, &limits) == 0, "a limit cannot be set");
}

static void probe_for(double seconds)
{
    const double begin = MPI_Wtime();
    while (MPI_Wtime() - begin < seconds) {
        int flag;
        MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        usleep(1000);
    }
}

static void receive_without_descriptors(unsigned char *in)
{
    static int files[MOST_FILES];
    int count = 0;
    limit(RLIMIT_NOFILE, 128);
    while (count < MOST_FILES && (files[count] = open("/dev/null", O_RDONLY)) >= 0) {
        ++count;
    }
    CHECK(count > 0 && count < MOST_FILES, "%d files were opened", count);
    probe_for(0.5); /* the other ranks send meanwhile */
    for (int i = 1; i < check_ranks; ++i) {
        int value = -1;
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(value == 4711, "got %d", value);
    }
    probe_for(1.5); /* long enough for the notice that names the missing descriptors */
    while (count > 0) {
        close(files[--count]);
    }
    for (int i = 1; i < check_ranks; ++i) {
        MPI_Status status;
        MPI_Recv(in, LARGE, MPI_BYTE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status);
        CHECK_STATUS(&status, status.MPI_SOURCE, 1, LARGE, "large");
        CHECK_BYTES(in, LARGE, key_of(status.MPI_SOURCE, 1, LARGE, 0), "large");
        MPI_Recv(in, LARGE, MPI_BYTE, status.MPI_SOURCE, 2, MPI_COMM_WORLD, &status);
        CHECK_STATUS(&status, status.MPI_SOURCE, 2, 100, "synchronous");
        CHECK_BYTES(in, 100, key_of(status.MPI_SOURCE, 2, 100, 0), "synchronous");
    }
}

static void descriptors(void)
{
    unsigned char *data = malloc(LARGE);
    if (check_rank == 1) {
        receive_without_descriptors(data);
    } else {
        int value = 4711;
        MPI_Request request;
        unsigned char small[100];
        usleep(300000);
        MPI_Send(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
        fill(data, LARGE, key_of(check_rank, 1, LARGE, 0));
        fill(small, 100, key_of(check_rank, 2, 100, 0));
        MPI_Isend(data, LARGE, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
        MPI_Ssend(small, 100, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    free(data);
}

static void address_space(void)
{
    int value = check_rank, sum = 0;
    if (check_rank != 0) {
        MPI_Send(&value, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
        return;
    }
    for (int i = 1; i < check_ranks; ++i) {
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sum += value;
    }
    CHECK(sum == check_ranks * (check_ranks - 1) / 2, "the sum is %d", sum);
}

static void drop_the_right_to_look(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    CHECK(syscall(SYS_capget, &header, data) == 0, "capabilities cannot be read");
    data[CAP_TO_INDEX(CAP_SYS_PTRACE)].effective &= ~CAP_TO_MASK(CAP_SYS_PTRACE);
    CHECK(syscall(SYS_capset, &header, data) == 0, "a capability cannot be dropped");
}

static void become_closed(void)
{
    drop_the_right_to_look();
    CHECK(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0, "PR_SET_DUMPABLE is refused");
}

static void become_another_user(void)
{
    const int nobody = 65534;
    CHECK(setgroups(0, NULL) == 0 && setgid(nobody) == 0 && setuid(nobody) == 0,
          "rank %d cannot become another user: run this as root", check_rank);
}

/* Sends the first messages between all pairs: first one to rank 0, which receives from any source;
 * then large ones, both ways at once, which the kernel refuses to copy now. */
static void talk(void)
{
    unsigned char *out = malloc(LARGE), *in = malloc(LARGE);
    address_space();
    for (int distance = 1; distance < check_ranks; ++distance) {
        const int to = (check_rank + distance) % check_ranks;
        const int from = (check_rank + check_ranks - distance) % check_ranks;
        MPI_Request request;
        MPI_Status status;
        fill(out, LARGE, key_of(check_rank, distance, LARGE, 0));
        MPI_Issend(out, LARGE, MPI_BYTE, to, distance, MPI_COMM_WORLD, &request);
        MPI_Recv(in, LARGE, MPI_BYTE, from, distance, MPI_COMM_WORLD, &status);
        CHECK_STATUS(&status, from, distance, LARGE, "large");
        CHECK_BYTES(in, LARGE, key_of(from, distance, LARGE, 0), "large");
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    free(out);
    free(in);
}

/* Makes socketpair fail from now on, as a seccomp profile may do. */
static void forbid_socketpairs(void)
{
    int pair[2];
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socketpair, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
              && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0,
          "a seccomp filter is refused");
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == -1 && errno == EACCES,
          "socketpairs are allowed");
}

static void refused(void)
{
    int value = 4711, answer = 0;
    if (check_rank != 0) {
        drop_the_right_to_look();
        forbid_socketpairs();
        probe_for(3);
        return;
    }
    CHECK(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0, "PR_SET_DUMPABLE is refused");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    usleep(300000);
    CHECK(MPI_Ssend(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD) != MPI_SUCCESS,
          "a message was taken that cannot be answered");
    CHECK(MPI_Recv(&answer, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE) != MPI_SUCCESS,
          "an answer has come");
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "address_space") == 0) {
        limit(RLIMIT_AS, (rlim_t) 400000 * 1024); /* MPI itself maps half of that */
    }
    check_begin(&argc, &argv, "first_contact", 2);
    if (strcmp(what, "descriptors") == 0) {
        descriptors();
    } else if (strcmp(what, "address_space") == 0) {
        address_space();
    } else if (strcmp(what, "undumpable") == 0) {
        become_closed();
        talk();
    } else if (strcmp(what, "setuid") == 0) {
        become_another_user();
        talk();
    } else if (strcmp(what, "one_setuid") == 0) {
        if (check_rank == 1) {
            become_another_user();
        }
        talk();
    } else if (strcmp(what, "refused") == 0) {
        refused();
    } else {
        FAIL("argument: descriptors|address_space|undumpable|setuid|one_setuid|refused");
    }
    check_end();
    return 0;
}
