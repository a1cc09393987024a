// SPDX-License-Identifier: BSD-3-Clause
/*
 * Memory hooks, which report memory that the program is about to unmap, so that the core gives up
 * registrations of it that it has cached (common_adaptib_mca_parts.h): Open MPI's, and those of UCX
 * if the process has that library, since UCX's take the place of Open MPI's in part.
 *
 * Threads: the hooks run in any thread that unmaps memory, also inside free() and munmap().
 */
#include "opal_config.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "opal/constants.h"
#include "opal/mca/base/base.h"
#include "opal/mca/memory/base/base.h"
#include "opal/memoryhooks/memory.h"

#include "common_adaptib_compat.h"
#include "common_adaptib_mca_parts.h"

static _Atomic(opal_common_adaptib_core_t *) told; /* NULL: no core yet, or no more */
static atomic_int telling;                         /* threads that may be using it */
static bool watching = false;

/* A thread counts itself before it takes the core's address, so that memory_to() can wait for it.
 * Without a core no thread counts itself, so that this wait ends however many unmap memory. */
static void tell(const void *base, size_t bytes)
{
    opal_common_adaptib_core_t *core;

    if (NULL == atomic_load(&told)) {
        return;
    }
    (void) atomic_fetch_add(&telling, 1);
    core = atomic_load(&told);
    if (NULL != core) {
        opal_common_adaptib_memory_released(core, base, bytes);
    }
    (void) atomic_fetch_sub(&telling, 1);
}

static void memory_released(void *base, size_t bytes, void *context, bool from_allocator)
{
    (void) context;
    (void) from_allocator;
    tell(base, bytes);
}

/* --------------------------------------------------------------------------------------------- */
/* UCX's memory events (libucm). Its hook of sbrk() goes to the kernel and not through the C
 * library's brk(), which is where Open MPI hears that free() and malloc_trim() shorten the heap.
 * Any library of the process may have loaded UCX, at any time; its hooks may be installed later. */

/* From UCX's header of memory events, the same since UCX 1.3 */
enum {
    UCM_VM_UNMAPPED = 1 << 17,    /* whatever takes pages away, before it does */
    UCM_INSTALL_NOTHING = 1 << 24 /* only hear of what UCX's users have hooks for */
};
enum {
    UCM_OK = 0,
    UCM_UNSUPPORTED = -22 /* by its user's settings there are no hooks */
};
typedef struct {
    void *address;
    size_t bytes;
} ucm_unmapped_t; /* the union's member for UCM_VM_UNMAPPED */
typedef void ucm_callback_t(int kind, ucm_unmapped_t *event, void *context);
typedef signed char ucm_status_t; /* a packed enumeration */
typedef ucm_status_t ucm_set_t(int kinds, int priority, ucm_callback_t *callback, void *context);
typedef void ucm_unset_t(int kinds, ucm_callback_t *callback, void *context);

static struct {
    pthread_mutex_t lock;
    unsigned long long loads; /* of libraries by the process, when it was last looked for UCX */
    void *library;            /* NULL: not found yet */
    bool heard;               /* the handler is set */
    bool refused;             /* UCX would not have it, so that memory may go unnoticed */
} ucx = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void ucx_unmapped(int kind, ucm_unmapped_t *event, void *context)
{
    (void) kind;
    (void) context;
    tell(event->address, event->bytes);
}

static int loads_of(struct dl_phdr_info *info, size_t size, void *loads)
{
    (void) size;
    *(unsigned long long *) loads = info->dlpi_adds;
    return 1; /* the count is that of the process, so the first library is enough */
}

/* Sets the handler if UCX has been loaded. Called with the lock. */
static void look_for_ucx(void)
{
    ucm_set_t *set;
    ucm_status_t status;

    ucx.library = dlopen("libucm.so.0", RTLD_LAZY | RTLD_NOLOAD);
    if (NULL == ucx.library) {
        return;
    }
    ucx.refused = true;
    set = (ucm_set_t *) (intptr_t) dlsym(ucx.library, "ucm_set_event_handler");
    if (NULL != set) {
        status = set(UCM_VM_UNMAPPED | UCM_INSTALL_NOTHING, 0, ucx_unmapped, NULL);
        ucx.heard = UCM_OK == status;
        ucx.refused = !ucx.heard && UCM_UNSUPPORTED != status;
    }
    tell(NULL, SIZE_MAX); /* what happened before was perhaps not heard of */
}

bool opal_common_adaptib_mca_still_watches_memory(void *context)
{
    unsigned long long loads = 0;
    bool refused;

    (void) context;
    (void) dl_iterate_phdr(loads_of, &loads);
    pthread_mutex_lock(&ucx.lock);
    if (NULL == ucx.library && loads != ucx.loads) {
        ucx.loads = loads;
        look_for_ucx();
    }
    refused = ucx.refused;
    pthread_mutex_unlock(&ucx.lock);
    return !refused;
}

static void forget_ucx(void)
{
    ucm_unset_t *unset;

    if (ucx.heard) {
        unset = (ucm_unset_t *) (intptr_t) dlsym(ucx.library, "ucm_unset_event_handler");
        unset(UCM_VM_UNMAPPED, ucx_unmapped, NULL);
    }
    if (NULL != ucx.library) {
        dlclose(ucx.library);
    }
    ucx.library = NULL;
    ucx.heard = ucx.refused = false;
    ucx.loads = 0;
}

/* --------------------------------------------------------------------------------------------- */

/* A forked child has its parent's core, and perhaps locks held by threads that it does not have, or
 * counts of these. */
static void forked(void)
{
    atomic_store(&told, NULL);
    atomic_store(&telling, 0);
}

bool opal_common_adaptib_mca_watch_memory(void *context)
{
    static bool children = false;
    const int needed = OPAL_MEMORY_FREE_SUPPORT | OPAL_MEMORY_MUNMAP_SUPPORT;

    (void) context;
    if (OPAL_SUCCESS != mca_base_framework_open(&opal_memory_base_framework, 0)) {
        return false;
    }
    watching = needed == (needed & opal_mem_hooks_support_level())
               && (children || 0 == pthread_atfork(NULL, NULL, forked))
               && OPAL_SUCCESS == opal_mem_hooks_register_release(memory_released, NULL);
    children = children || watching;
    if (!watching) {
        (void) mca_base_framework_close(&opal_memory_base_framework);
    }
    return watching;
}

/* The caller of the wait is not inside tell(), which calls nothing but the core; that takes a lock
 * only to note a range. */
void opal_common_adaptib_mca_memory_to(opal_common_adaptib_core_t *core)
{
    const struct timespec moment = {.tv_nsec = 10000};

    atomic_store(&told, core);
    while (NULL == core && atomic_load(&telling) > 0) {
        (void) nanosleep(&moment, NULL);
    }
}

void opal_common_adaptib_mca_unwatch_memory(void)
{
    if (watching) {
        forget_ucx();
        (void) opal_mem_hooks_unregister_release(memory_released);
        (void) mca_base_framework_close(&opal_memory_base_framework);
        watching = false;
    }
}
