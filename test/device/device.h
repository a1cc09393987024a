// SPDX-License-Identifier: BSD-3-Clause
/*
 * The memory of an accelerator that does not exist: the program has an arena at addresses that no
 * load, store or system call can use, and only the functions here reach its contents. So a
 * transport that touches device memory by itself ends the process, where on a device it might be
 * slow, or right by chance.
 *
 * device.c is a part of the program. component.c is a component of Open MPI's framework
 * `accelerator` (since 5.0), which finds this arena in the program by the name device_calls.
 *
 * Threads: any, except for device_open.
 * May touch: the C library.
 */
#ifndef ADAPTIB_TEST_MPI_DEVICE_H
#define ADAPTIB_TEST_MPI_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Calls for Open MPI's component. */
typedef struct {
    bool (*is_device)(const void *address);
    /* Copies between any two kinds of memory, which may overlap. */
    void (*copy)(void *to, const void *from, size_t bytes);
    void *(*allocate)(size_t bytes);
    void (*release)(void *address);
    /* Finds the allocation that contains the address. */
    bool (*range)(const void *address, void **base, size_t *bytes);
    /* The number of an allocation; a later one at the same address has another. 0: there are no
     * numbers. */
    uint64_t (*number)(const void *base);
} device_calls_t;

extern const device_calls_t device_calls;

/* Makes the arena, and has Open MPI load the component. Call it before MPI_Init. Returns false if
 * the component was not built, as for Open MPI 4.1. */
bool device_open(void);

/* Allocates device memory; its release does not make room for more. NULL: the arena is full. */
void *device_new(size_t bytes);
/* Lets adapters reach the arena from now on: hsa_amd_portable_export_dmabuf, which an accelerator's
 * library has, gives its memory file. */
void device_export(void);
int hsa_amd_portable_export_dmabuf(const void *address, size_t bytes, int *file, uint64_t *offset);

/* Gives allocations no numbers from now on, as Open MPI's component for an old ROCm does. */
void device_unnumber(void);

/* Makes all of the arena free. Later allocations have the same addresses and other memory: an
 * adapter that still uses a registration of an earlier one reaches what is no longer there.
 * REQUIRES: nothing in the arena is in use. */
void device_reset(void);

/* The program's own copies, which do not count. */
void device_put(void *device, const void *from, size_t bytes);
void device_get(void *to, const void *device, size_t bytes);

/* Bytes that Open MPI has copied out of the arena and into it. */
typedef struct {
    size_t out;
    size_t in;
} device_count_t;

device_count_t device_counted(void);

#endif /* ADAPTIB_TEST_MPI_DEVICE_H */
