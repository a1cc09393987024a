// SPDX-License-Identifier: BSD-3-Clause
/*
 * The stand-ins for Open MPI's memory hooks and for the core (hooks_stand_in.h).
 */
#include "unit/glue/hooks_stand_in.h"

#include "opal_config.h"

#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>

#include "opal/constants.h"
#include "opal/mca/base/base.h"
#include "opal/mca/memory/base/base.h"
#include "opal/memoryhooks/memory.h"

#include "common_adaptib_mca_parts.h"

static char core; /* only its address is used */
static opal_mem_hooks_callback_fn_t *hook;
static atomic_bool held;
static atomic_int inside;
static atomic_int reports;

mca_base_framework_t opal_memory_base_framework;

int mca_base_framework_open(mca_base_framework_t *framework, mca_base_open_flag_t flags)
{
    (void) framework;
    (void) flags;
    return OPAL_SUCCESS;
}

int mca_base_framework_close(mca_base_framework_t *framework)
{
    (void) framework;
    return OPAL_SUCCESS;
}

int opal_mem_hooks_support_level(void)
{
    return OPAL_MEMORY_FREE_SUPPORT | OPAL_MEMORY_MUNMAP_SUPPORT;
}

int opal_mem_hooks_register_release(opal_mem_hooks_callback_fn_t *function, void *context)
{
    (void) context;
    hook = function;
    return OPAL_SUCCESS;
}

int opal_mem_hooks_unregister_release(opal_mem_hooks_callback_fn_t *function)
{
    (void) function;
    hook = NULL;
    return OPAL_SUCCESS;
}

void opal_common_adaptib_memory_released(opal_common_adaptib_core_t *of, const void *base,
                                         size_t bytes)
{
    (void) of;
    (void) base;
    (void) bytes;
    atomic_fetch_add(&inside, 1);
    while (atomic_load(&held)) {
        sched_yield();
    }
    atomic_fetch_add(&reports, 1);
    atomic_fetch_sub(&inside, 1);
}

bool hooks_stand_in_open(void)
{
    atomic_store(&reports, 0);
    if (!opal_common_adaptib_mca_watch_memory(NULL)) {
        return false;
    }
    hooks_stand_in_begin_core();
    return true;
}

void hooks_stand_in_end_core(void)
{
    opal_common_adaptib_mca_memory_to(NULL);
}

void hooks_stand_in_begin_core(void)
{
    opal_common_adaptib_mca_memory_to((opal_common_adaptib_core_t *) &core);
}

void hooks_stand_in_close(void)
{
    hooks_stand_in_end_core();
    opal_common_adaptib_mca_unwatch_memory();
}

void hooks_stand_in_release(void)
{
    hook(&core, sizeof(core), NULL, false);
}

void hooks_stand_in_hold(void)
{
    atomic_store(&held, true);
}

void hooks_stand_in_let_go(void)
{
    atomic_store(&held, false);
}

int hooks_stand_in_inside(void)
{
    return atomic_load(&inside);
}

int hooks_stand_in_reports(void)
{
    return atomic_load(&reports);
}
