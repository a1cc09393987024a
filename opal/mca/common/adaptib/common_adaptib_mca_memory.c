// SPDX-License-Identifier: BSD-3-Clause
/*
 * Open MPI's memory hooks, which report memory that the program is about to unmap, so that the core
 * gives up registrations of it that it has cached (common_adaptib_mca_parts.h).
 *
 * Threads: the hook runs in any thread that unmaps memory, also inside free() and munmap().
 */
#include "opal_config.h"

#include <pthread.h>
#include <stdatomic.h>

#include "opal/constants.h"
#include "opal/mca/base/base.h"
#include "opal/mca/memory/base/base.h"
#include "opal/memoryhooks/memory.h"

#include "common_adaptib_compat.h"
#include "common_adaptib_mca_parts.h"

static _Atomic(opal_common_adaptib_core_t *) told; /* NULL: no core yet, or no more */
static bool watching = false;

static void memory_released(void *base, size_t bytes, void *context, bool from_allocator)
{
    opal_common_adaptib_core_t *core = atomic_load(&told);

    (void) context;
    (void) from_allocator;
    if (NULL != core) {
        opal_common_adaptib_memory_released(core, base, bytes);
    }
}

/* A forked child has its parent's core, and perhaps locks held by threads that it does not have. */
static void forked(void)
{
    atomic_store(&told, NULL);
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

void opal_common_adaptib_mca_memory_to(opal_common_adaptib_core_t *core)
{
    atomic_store(&told, core);
}

void opal_common_adaptib_mca_unwatch_memory(void)
{
    if (watching) {
        (void) opal_mem_hooks_unregister_release(memory_released);
        (void) mca_base_framework_close(&opal_memory_base_framework);
        watching = false;
    }
}
