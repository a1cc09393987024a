// SPDX-License-Identifier: BSD-3-Clause
/*
 * Makes the N-th call of a function fail that adaptib's libraries call: loaded by LD_PRELOAD, in
 * place of functions of the C library, libibverbs and librdmacm. Calls by others (Open MPI, the
 * C++ library, the program) go through as they are.
 *
 *   ADAPTIB_FAILING_RANK   the rank it concerns
 *   ADAPTIB_FAILING_COUNT  file that gets a line "FUNCTION CALLS" for each function called, when
 *                          the process ends; nothing fails
 *   ADAPTIB_FAILING        FUNCTION:N:ERRNO, or FUNCTION:N+:ERRNO, where all calls from the N-th on
 *                          fail; ERRNO is a number. A line on stderr says that it has happened.
 *
 * syscall() has the number behind its name: syscall.434.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

struct ibv_ah;
struct ibv_context;
struct ibv_cq;
struct ibv_mr;
struct ibv_pd;
struct ibv_qp;
struct ibv_srq;

enum {
    MOST_FUNCTIONS = 96,
    MOST_RANGES = 16,
    NAME_BYTES = 40
};

struct counted {
    char name[NAME_BYTES];
    atomic_int calls;
};
struct range {
    uintptr_t begin, end;
};

/* Written under `lock`; found without it. */
static struct counted counted[MOST_FUNCTIONS];
static atomic_int counted_size;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Set once, by begin(). */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool concerned;
static const char *count_file;
static char failing[NAME_BYTES];
static int failing_from, failing_errno;
static bool failing_on;

static __thread bool inside; /* this library's own calls are nobody's */

static void write_counts(void)
{
    FILE *file = fopen(count_file, "w");

    for (int i = 0; file != NULL && i < atomic_load(&counted_size); ++i) {
        fprintf(file, "%s %d\n", counted[i].name, atomic_load(&counted[i].calls));
    }
    if (file != NULL) {
        fclose(file);
    }
}

static void begin(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *wanted = getenv("ADAPTIB_FAILING_RANK");
    const char *what = getenv("ADAPTIB_FAILING");
    char plus = 0;

    count_file = getenv("ADAPTIB_FAILING_COUNT");
    concerned = rank != NULL && wanted != NULL && strcmp(rank, wanted) == 0;
    if (!concerned) {
        return;
    }
    if (count_file != NULL) {
        atexit(write_counts);
    } else if (what != NULL
               && sscanf(what, "%39[^:]:%d+:%d", failing, &failing_from, &failing_errno) == 3) {
        failing_on = true;
    } else if (what == NULL
               || sscanf(what, "%39[^:]:%d%c%d", failing, &failing_from, &plus, &failing_errno)
                      != 4) {
        fprintf(stderr, "failing_calls: ADAPTIB_FAILING is not FUNCTION:N:ERRNO\n");
        _exit(2);
    }
}

static int find_range(struct dl_phdr_info *info, size_t size, void *address)
{
    const char *slash = strrchr(info->dlpi_name, '/');

    (void) size;
    if (slash == NULL || strstr(slash, "adaptib") == NULL) {
        return 0;
    }
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        const uintptr_t at = info->dlpi_addr + part->p_vaddr;

        if (part->p_type == PT_LOAD && (part->p_flags & PF_X) != 0 && (uintptr_t) address >= at
            && (uintptr_t) address < at + part->p_memsz) {
            return 1;
        }
    }
    return 0;
}

static struct counted *entry_of(const char *name)
{
    int size = atomic_load(&counted_size);

    for (int i = 0; i < size; ++i) {
        if (strcmp(counted[i].name, name) == 0) {
            return &counted[i];
        }
    }
    pthread_mutex_lock(&lock);
    for (; size < atomic_load(&counted_size); ++size) {
        if (strcmp(counted[size].name, name) == 0) {
            pthread_mutex_unlock(&lock);
            return &counted[size];
        }
    }
    if (size == MOST_FUNCTIONS) {
        abort();
    }
    snprintf(counted[size].name, NAME_BYTES, "%s", name);
    atomic_store(&counted_size, size + 1);
    pthread_mutex_unlock(&lock);
    return &counted[size];
}

/* Returns true, with errno set, if this call has to fail. */
static bool fails(const char *name, void *caller)
{
    int call;
    bool its;

    if (inside) {
        return false;
    }
    inside = true;
    pthread_once(&once, begin);
    its = concerned && dl_iterate_phdr(find_range, caller) == 1;
    if (!its || (count_file == NULL && strcmp(name, failing) != 0)) {
        inside = false;
        return false;
    }
    call = 1 + atomic_fetch_add(&entry_of(name)->calls, 1);
    its = count_file == NULL && (failing_on ? call >= failing_from : call == failing_from);
    if (its && call == failing_from) {
        fprintf(stderr, "failing_calls: %s, call %d: %s\n", name, call, strerror(failing_errno));
    }
    inside = false;
    if (its) {
        errno = failing_errno;
    }
    return its;
}

/* Declares real, the function in whose place this library has the one of that name. */
#define REAL(name)                                                                                 \
    static __typeof__(name) *real;                                                                 \
    if (real == NULL) {                                                                            \
        real = (__typeof__(name) *) dlsym(RTLD_NEXT, #name);                                       \
    }

/* Defines a function that returns `bad` where it has to fail. */
#define CALL(type, name, bad, parameters, arguments)                                               \
    type name parameters                                                                           \
    {                                                                                              \
        REAL(name);                                                                                \
        return fails(#name, __builtin_return_address(0)) ? (bad) : real arguments;                 \
    }
/* The same, where an error is what the function returns. */
#define CODE(name, parameters, arguments) CALL(int, name, errno, parameters, arguments)

CALL(void *, mmap, MAP_FAILED, (void *at, size_t n, int p, int f, int fd, off_t o),
     (at, n, p, f, fd, o))
CALL(int, munmap, -1, (void *at, size_t n), (at, n))
CALL(int, madvise, -1, (void *at, size_t n, int advice), (at, n, advice))
CALL(void *, aligned_alloc, NULL, (size_t a, size_t n), (a, n))
CALL(int, ftruncate, -1, (int fd, off_t n), (fd, n))
CALL(int, fallocate, -1, (int fd, int mode, off_t at, off_t n), (fd, mode, at, n))
CALL(int, fchmod, -1, (int fd, mode_t mode), (fd, mode))
CALL(int, fstat, -1, (int fd, struct stat *s), (fd, s))
CALL(int, stat, -1, (const char *path, struct stat *s), (path, s))
CALL(int, access, -1, (const char *path, int mode), (path, mode))
CALL(int, mkostemp, -1, (char *path, int flags), (path, flags))
CALL(int, rename, -1, (const char *from, const char *to), (from, to))
CALL(int, unlink, -1, (const char *path), (path))
CALL(FILE *, fopen, NULL, (const char *path, const char *mode), (path, mode))
CALL(DIR *, opendir, NULL, (const char *path), (path))
CALL(ssize_t, read, -1, (int fd, void *to, size_t n), (fd, to, n))
CALL(ssize_t, write, -1, (int fd, const void *from, size_t n), (fd, from, n))
CALL(ssize_t, pwrite, -1, (int fd, const void *from, size_t n, off_t at), (fd, from, n, at))
CALL(int, socket, -1, (int domain, int type, int protocol), (domain, type, protocol))
CALL(int, socketpair, -1, (int domain, int type, int protocol, int pair[2]),
     (domain, type, protocol, pair))
CALL(int, bind, -1, (int fd, const struct sockaddr *name, socklen_t n), (fd, name, n))
CALL(int, setsockopt, -1, (int fd, int level, int option, const void *value, socklen_t n),
     (fd, level, option, value, n))
CALL(ssize_t, sendmsg, -1, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
CALL(ssize_t, sendto, -1,
     (int fd, const void *from, size_t n, int flags, const struct sockaddr *to, socklen_t length),
     (fd, from, n, flags, to, length))
CALL(ssize_t, recvmsg, -1, (int fd, struct msghdr *message, int flags), (fd, message, flags))
CALL(int, poll, -1, (struct pollfd * fds, nfds_t n, int timeout), (fds, n, timeout))
CALL(int, eventfd, -1, (unsigned int value, int flags), (value, flags))
CALL(ssize_t, process_vm_readv, -1,
     (pid_t pid, const struct iovec *to, unsigned long to_size, const struct iovec *from,
      unsigned long from_size, unsigned long flags),
     (pid, to, to_size, from, from_size, flags))
CALL(ssize_t, process_vm_writev, -1,
     (pid_t pid, const struct iovec *from, unsigned long from_size, const struct iovec *to,
      unsigned long to_size, unsigned long flags),
     (pid, from, from_size, to, to_size, flags))
CALL(ssize_t, getrandom, -1, (void *to, size_t n, unsigned int flags), (to, n, flags))
CALL(int, getifaddrs, -1, (struct ifaddrs * *list), (list))
CALL(int, sched_getaffinity, -1, (pid_t pid, size_t n, cpu_set_t *set), (pid, n, set))
CALL(int, getrlimit, -1, (__rlimit_resource_t what, struct rlimit *limit), (what, limit))
CALL(int, kill, -1, (pid_t pid, int signal), (pid, signal))
CALL(void *, dlopen, NULL, (const char *name, int flags), (name, flags))
CODE(pthread_create,
     (pthread_t * thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument),
     (thread, attributes, run, argument))

CALL(void *, ibv_get_device_list, NULL, (int *count), (count))
CALL(void *, ibv_open_device, NULL, (void *device), (device))
CALL(void *, ibv_alloc_pd, NULL, (struct ibv_context * context), (context))
CALL(void *, ibv_reg_mr, NULL, (struct ibv_pd * pd, void *at, size_t n, int access),
     (pd, at, n, access))
CALL(void *, ibv_reg_mr_iova2, NULL,
     (struct ibv_pd * pd, void *at, size_t n, uint64_t iova, unsigned int access),
     (pd, at, n, iova, access))
CALL(void *, ibv_create_comp_channel, NULL, (struct ibv_context * context), (context))
CALL(void *, ibv_create_cq, NULL,
     (struct ibv_context * context, int depth, void *user, void *channel, int vector),
     (context, depth, user, channel, vector))
CALL(void *, ibv_create_srq, NULL, (struct ibv_pd * pd, void *attributes), (pd, attributes))
CALL(void *, ibv_create_qp, NULL, (struct ibv_pd * pd, void *attributes), (pd, attributes))
CALL(void *, ibv_create_ah, NULL, (struct ibv_pd * pd, void *attributes), (pd, attributes))
CODE(ibv_query_device, (struct ibv_context * context, void *out), (context, out))
CODE(ibv_query_port, (struct ibv_context * context, uint8_t port, void *out), (context, port, out))
CALL(int, ibv_query_pkey, -1,
     (struct ibv_context * context, uint8_t port, int index, uint16_t *out),
     (context, port, index, out))
CODE(_ibv_query_gid_ex,
     (struct ibv_context * context, uint32_t port, uint32_t index, void *out, uint32_t flags,
      size_t size),
     (context, port, index, out, flags, size))
CODE(ibv_modify_qp, (struct ibv_qp * qp, void *attributes, int mask), (qp, attributes, mask))
CODE(ibv_query_qp, (struct ibv_qp * qp, void *out, int mask, void *init), (qp, out, mask, init))
CODE(ibv_modify_srq, (struct ibv_srq * srq, void *attributes, int mask), (srq, attributes, mask))
CODE(ibv_resize_cq, (struct ibv_cq * cq, int depth), (cq, depth))
CALL(int, ibv_get_async_event, -1, (struct ibv_context * context, void *out), (context, out))
CALL(int, ibv_get_cq_event, -1, (void *channel, void *out, void **user), (channel, out, user))
CODE(ibv_dereg_mr, (struct ibv_mr * region), (region))
CODE(ibv_destroy_ah, (struct ibv_ah * handle), (handle))
CODE(ibv_destroy_qp, (struct ibv_qp * qp), (qp))
CODE(ibv_destroy_cq, (struct ibv_cq * cq), (cq))
CODE(ibv_destroy_srq, (struct ibv_srq * srq), (srq))
CODE(ibv_dealloc_pd, (struct ibv_pd * pd), (pd))

/* The descriptor is closed all the same, as Linux does. */
int close(int fd)
{
    REAL(close);
    const int result = real(fd);
    return fails("close", __builtin_return_address(0)) ? -1 : result;
}

int open(const char *path, int flags, ...)
{
    va_list more;
    mode_t mode;

    va_start(more, flags);
    mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0;
    va_end(more);
    REAL(open);
    return fails("open", __builtin_return_address(0)) ? -1 : real(path, flags, mode);
}

int fcntl(int fd, int command, ...)
{
    va_list more;
    void *argument;

    va_start(more, command);
    argument = va_arg(more, void *);
    va_end(more);
    REAL(fcntl);
    return fails("fcntl", __builtin_return_address(0)) ? -1 : real(fd, command, argument);
}

void *mremap(void *at, size_t old_size, size_t new_size, int flags, ...)
{
    va_list more;
    void *target;

    va_start(more, flags);
    target = va_arg(more, void *);
    va_end(more);
    REAL(mremap);
    return fails("mremap", __builtin_return_address(0))
               ? MAP_FAILED
               : real(at, old_size, new_size, flags, target);
}

int prctl(int option, ...)
{
    unsigned long arguments[4];
    va_list more;

    va_start(more, option);
    for (int i = 0; i < 4; ++i) {
        arguments[i] = va_arg(more, unsigned long);
    }
    va_end(more);
    REAL(prctl);
    return fails("prctl", __builtin_return_address(0))
               ? -1
               : real(option, arguments[0], arguments[1], arguments[2], arguments[3]);
}

long syscall(long number, ...)
{
    char name[NAME_BYTES];
    long arguments[6];
    va_list more;

    va_start(more, number);
    for (int i = 0; i < 6; ++i) {
        arguments[i] = va_arg(more, long);
    }
    va_end(more);
    REAL(syscall);
    snprintf(name, sizeof name, "syscall.%ld", number);
    return fails(name, __builtin_return_address(0))
               ? -1
               : real(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
                      arguments[5]);
}
