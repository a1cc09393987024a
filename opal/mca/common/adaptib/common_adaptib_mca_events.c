// SPDX-License-Identifier: BSD-3-Clause
/*
 * Incidents as events of MPI_T (common_adaptib_mca_parts.h), where Open MPI has them: since 6.0.
 * Each kind is an event type, "opal_common_adaptib_path_failed" and so on, whose instances have the
 * elements of event_t in that order. Tools find them once Open MPI has registered its components,
 * in MPI_T_init_thread or MPI_Init.
 *
 * Threads: one registers; several may raise.
 */
#include "opal_config.h"

#include "adaptib_config.h"
#include "common_adaptib_mca_parts.h"

#if ADAPTIB_HAVE_MPIT_EVENTS

#include <stddef.h>
#include <stdio.h>

#include "opal/constants.h"
#include "opal/mca/base/mca_base_event.h"
#include "opal/mca/base/mca_base_pvar.h"
#include "opal/mca/base/mca_base_var.h"

enum {
    MOST_KINDS = 32,
    TICKS_PER_SECOND = 1000000000 /* of Open MPI's own clock, by which events have their time */
};

typedef struct {
    int32_t rank; /* as in opal_common_adaptib_incident_t */
    int32_t job;
    int32_t rail;
    int32_t endpoint;
    uint64_t lasted_ns;
} event_t;

static const mca_base_var_type_t element_types[] = {
    MCA_BASE_VAR_TYPE_INT32_T, MCA_BASE_VAR_TYPE_INT32_T,  MCA_BASE_VAR_TYPE_INT32_T,
    MCA_BASE_VAR_TYPE_INT32_T, MCA_BASE_VAR_TYPE_UINT64_T,
};
static const ptrdiff_t element_offsets[] = {
    offsetof(event_t, rank),     offsetof(event_t, job),       offsetof(event_t, rail),
    offsetof(event_t, endpoint), offsetof(event_t, lasted_ns),
};

static mca_base_event_t *events[MOST_KINDS]; /* by kind; NULL: Open MPI has refused it */

static void raise_event(void *context, const opal_common_adaptib_incident_t *incident)
{
    const event_t event = {
        .rank = incident->rank,
        .job = incident->job,
        .rail = incident->rail,
        .endpoint = (int32_t) incident->endpoint,
        .lasted_ns = incident->lasted_ns,
    };

    (void) context;
    if (incident->kind < MOST_KINDS && NULL != events[incident->kind]) {
        mca_base_event_raise(events[incident->kind], NULL, &event);
    }
}

static mca_base_event_t *register_event(const opal_common_adaptib_incident_kind_t *kind,
                                        mca_base_event_source_t *source)
{
    char help[OPAL_COMMON_ADAPTIB_MCA_TEXT];
    mca_base_event_t *event = NULL;
    int index;

    snprintf(help, sizeof(help),
             "%s Elements: rank of the peer in its job, number of its job, rail of this process "
             "(-1: none), endpoint of this process, nanoseconds since an interruption began.",
             kind->help);
    index = mca_base_event_register(
        "opal", "opal_common", "adaptib", kind->name, help, OPAL_INFO_LVL_4,
        (int) (sizeof(element_types) / sizeof(element_types[0])), element_types, element_offsets,
        NULL, MCA_BASE_VAR_BIND_NO_OBJECT, 0, source, NULL);
    if (index < 0 || OPAL_SUCCESS != mca_base_event_get_by_index(index, &event)) {
        return NULL;
    }
    return event;
}

/* Endpoints raise events independently of each other, so those of a source are in no order. */
void opal_common_adaptib_mca_register_events(void)
{
    mca_base_event_source_t *source = NULL;
    size_t count = 0;
    const opal_common_adaptib_incident_kind_t *kinds = opal_common_adaptib_incident_kinds(&count);
    const int index = mca_base_event_source_register(
        "adaptib", "Rails, paths and peers of the transport adaptib",
        MCA_BASE_EVENT_SOURCE_UNORDERED, TICKS_PER_SECOND, OPAL_COUNT_MAX, NULL, true, NULL);

    if (index < 0 || OPAL_SUCCESS != mca_base_event_source_get_by_index(index, &source)) {
        return;
    }
    for (size_t i = 0; i < count && i < MOST_KINDS; ++i) {
        events[i] = register_event(&kinds[i], source);
    }
}

opal_common_adaptib_mca_incident_t *opal_common_adaptib_mca_incident_listener(void)
{
    return raise_event;
}

#else /* this Open MPI has no events */

void opal_common_adaptib_mca_register_events(void)
{
}

opal_common_adaptib_mca_incident_t *opal_common_adaptib_mca_incident_listener(void)
{
    return NULL;
}

#endif
