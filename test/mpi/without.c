// SPDX-License-Identifier: BSD-3-Clause
/*
 * Runs a program without the named system calls: they fail with ENOSYS, by a seccomp filter that
 * children inherit, as in a container whose profile does not know the calls.
 * Usage: without CALL[,CALL...] program [argument...], CALL: memfd_create, fallocate. Exit status
 * 77 if the filter cannot be installed.
 */
#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int install(unsigned number)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return -1;
    }
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

/* True if the filter is installed and has the effect that the test relies on. */
static int is_gone(const char *call)
{
    errno = 0;
    if (strcmp(call, "memfd_create") == 0) {
        return install(SYS_memfd_create) == 0 && memfd_create("x", 0) == -1 && errno == ENOSYS;
    }
    if (strcmp(call, "fallocate") == 0) {
        return install(SYS_fallocate) == 0 && fallocate(-1, 0, 0, 1) == -1 && errno == ENOSYS;
    }
    fprintf(stderr, "without: %s is not among the calls that it knows\n", call);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: without call[,call...] program [argument...]\n");
        return 2;
    }
    for (char *call = strtok(argv[1], ","); call != NULL; call = strtok(NULL, ",")) {
        if (!is_gone(call)) {
            fprintf(stderr, "without: no seccomp filter here: %s\n", strerror(errno));
            return 77;
        }
    }
    execvp(argv[2], argv + 2);
    fprintf(stderr, "without: %s cannot be run: %s\n", argv[2], strerror(errno));
    return 2;
}
