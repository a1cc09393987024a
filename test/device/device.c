// SPDX-License-Identifier: BSD-3-Clause
/*
 * The arena: a memory file that is mapped twice, without any access where the program and Open MPI
 * see it, and with access where only this file does.
 */
#define _GNU_SOURCE /* memfd_create */
#include "device/device.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    ALIGNMENT = 256,
    MOST_ALLOCATIONS = 4096
};

static const size_t ARENA_BYTES = (size_t) 256 << 20;

static struct {
    char *device; /* as others see it */
    char *shadow; /* the same contents */
    size_t used;
    size_t starts[MOST_ALLOCATIONS];
    size_t count;
    unsigned resets;
    int file;
    bool exports;
    bool unnumbered;
    device_count_t counted;
} arena;

static bool is_device(const void *address)
{
    const uintptr_t at = (uintptr_t) address, base = (uintptr_t) arena.device;

    return at >= base && at - base < ARENA_BYTES;
}

static void *reachable(const void *address)
{
    return is_device(address) ? arena.shadow + ((const char *) address - arena.device)
                              : (void *) (uintptr_t) address;
}

static void copy(void *to, const void *from, size_t bytes)
{
    if (is_device(from)) {
        __atomic_add_fetch(&arena.counted.out, bytes, __ATOMIC_RELAXED);
    }
    if (is_device(to)) {
        __atomic_add_fetch(&arena.counted.in, bytes, __ATOMIC_RELAXED);
    }
    memmove(reachable(to), reachable(from), bytes);
}

void *device_new(size_t bytes)
{
    const size_t whole = (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
    const size_t start = __atomic_fetch_add(&arena.used, whole, __ATOMIC_RELAXED);
    const size_t index = __atomic_fetch_add(&arena.count, 1, __ATOMIC_RELAXED);

    if (start + whole > ARENA_BYTES || index >= MOST_ALLOCATIONS) {
        return NULL;
    }
    arena.starts[index] = start;
    return arena.device + start;
}

static void release(void *address)
{
    (void) address;
}

static uint64_t number(const void *base)
{
    const uint64_t first = (uint64_t) arena.resets << 32;

    return arena.unnumbered ? 0 : first + (uint64_t) ((const char *) base - arena.device) + 1;
}

int hsa_amd_portable_export_dmabuf(const void *address, size_t bytes, int *file, uint64_t *offset)
{
    if (!is_device(address) || !arena.exports) {
        return 1;
    }
    (void) bytes;
    *file = dup(arena.file);
    *offset = (uint64_t) ((const char *) address - arena.device);
    return *file < 0;
}

static bool range(const void *address, void **base, size_t *bytes)
{
    const size_t offset = (size_t) ((const char *) address - arena.device);
    size_t start = 0, end = arena.used;

    if (!is_device(address) || offset >= end) {
        return false;
    }
    for (size_t i = 0; i < arena.count; ++i) {
        if (arena.starts[i] <= offset && arena.starts[i] > start) {
            start = arena.starts[i];
        }
        if (arena.starts[i] > offset && arena.starts[i] < end) {
            end = arena.starts[i];
        }
    }
    *base = arena.device + start;
    *bytes = end - start;
    return true;
}

const device_calls_t device_calls = {
    .is_device = is_device,
    .copy = copy,
    .allocate = device_new,
    .release = release,
    .range = range,
    .number = number,
};

void device_export(void)
{
    arena.exports = true;
}

void device_unnumber(void)
{
    arena.unnumbered = true;
}

void device_put(void *device, const void *from, size_t bytes)
{
    memcpy(reachable(device), from, bytes);
}

void device_get(void *to, const void *device, size_t bytes)
{
    memcpy(to, reachable(device), bytes);
}

device_count_t device_counted(void)
{
    return arena.counted;
}

/* The component lies beside the program. */
static bool name_component(void)
{
    const char *searched = getenv("OMPI_MCA_mca_base_component_path");
    char program[PATH_MAX] = "", file[PATH_MAX + 64], path[4 * PATH_MAX];
    char *end;

    if (readlink("/proc/self/exe", program, sizeof program - 1) < 0
        || (end = strrchr(program, '/')) == NULL) {
        return false;
    }
    *end = '\0';
    snprintf(file, sizeof file, "%s/../device/.libs/mca_accelerator_adaptibtest.so", program);
    if (access(file, R_OK) != 0) {
        return false;
    }
    snprintf(path, sizeof path, "%s%s%s/../device/.libs", searched != NULL ? searched : "",
             searched != NULL ? ":" : "", program);
    return setenv("OMPI_MCA_mca_base_component_path", path, 1) == 0;
}

/* Maps the memory file at `at`; anywhere, if that is NULL. */
static char *map(char *at, int access)
{
    void *mapped =
        mmap(at, ARENA_BYTES, access, MAP_SHARED | (at != NULL ? MAP_FIXED : 0), arena.file, 0);

    if (mapped == MAP_FAILED) {
        abort();
    }
    return mapped;
}

/* Gives the arena new memory, at the addresses of the old one, if any. */
static void new_memory(void)
{
    arena.file = memfd_create("adaptib-device", MFD_CLOEXEC);
    if (arena.file < 0 || ftruncate(arena.file, (off_t) ARENA_BYTES) != 0) {
        abort();
    }
    arena.device = map(arena.device, PROT_NONE);
    arena.shadow = map(arena.shadow, PROT_READ | PROT_WRITE);
}

bool device_open(void)
{
    new_memory();
    return name_component();
}

void device_reset(void)
{
    arena.used = 0;
    arena.count = 0;
    ++arena.resets;
    close(arena.file);
    new_memory();
}
