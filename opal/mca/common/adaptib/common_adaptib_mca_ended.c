// SPDX-License-Identifier: BSD-3-Clause
/*
 * Ended processes. The runtime that started the job sees its processes end, and tells a process
 * that asks for such events; this file passes them on to the core, so that nothing waits for those
 * processes any longer (common_adaptib_mca_parts.h).
 *
 * Some runtimes report nothing (a job without mpirun, some resource managers): then the core finds
 * out by itself, as far as it can.
 *
 * Threads: the runtime calls in a thread of its own, even after its events are not wanted any more.
 */
#include "opal_config.h"

#include <pthread.h>
#include <string.h>

#include "opal/constants.h"

#include "common_adaptib_compat_events.h"
#include "common_adaptib_mca.h"
#include "common_adaptib_mca_parts.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Protected by `lock`. Always in one of three states: not registered; registering, without an
 * answer of the runtime yet; answered. */
static struct {
    opal_common_adaptib_core_t *core; /* NULL: no core wants the events */
    bool asked;
    bool answered;
    size_t handler;
} told;

static void process_ended(const opal_process_name_t *name)
{
    pthread_mutex_lock(&lock);
    if (NULL != told.core) {
        opal_common_adaptib_process_ended(told.core, opal_common_adaptib_mca_name(*name));
    }
    pthread_mutex_unlock(&lock);
}

/* By now no core may want the events. */
static void on_registered(bool listening, size_t handler)
{
    bool unwanted;

    pthread_mutex_lock(&lock);
    unwanted = listening && NULL == told.core;
    told.asked = listening && !unwanted;
    told.answered = told.asked;
    told.handler = handler;
    pthread_mutex_unlock(&lock);
    if (unwanted) {
        events_ignore(handler);
    }
}

void opal_common_adaptib_mca_ended_to(opal_common_adaptib_core_t *core)
{
    bool begins;
    bool ends;
    size_t handler;

    pthread_mutex_lock(&lock);
    told.core = core;
    begins = NULL != core && !told.asked;
    ends = NULL == core && told.answered;
    told.asked = (told.asked || begins) && !ends;
    told.answered = told.answered && !ends;
    handler = told.handler;
    pthread_mutex_unlock(&lock);
    if (ends) {
        events_ignore(handler);
    } else if (begins && !events_listen()) {
        on_registered(false, 0);
    }
}
