// SPDX-License-Identifier: BSD-3-Clause
/*
 * Functions that the files of the shared C glue use among themselves, and the components do not.
 *
 *   common_adaptib_mca.c             the core: making it, sharing it, publishing its address
 *   common_adaptib_mca_parameters.c  parameters and counters as Open MPI's variables
 *   common_adaptib_mca_arrays.c      counters by rail and path as arrays of MPI_T
 *   common_adaptib_mca_messages.c    messages to the user
 *   common_adaptib_mca_texts.c       the texts around them
 *   common_adaptib_mca_memory.c      memory that is unmapped
 *   common_adaptib_mca_ended.c       processes that have ended
 *   common_adaptib_mca_events.c      incidents as events of MPI_T
 *   common_adaptib_mca_report.c      reports of all processes, for the first one
 */
#ifndef OPAL_COMMON_ADAPTIB_MCA_PARTS_H
#define OPAL_COMMON_ADAPTIB_MCA_PARTS_H

#include "opal_config.h"

#include "common_adaptib.h"

BEGIN_C_DECLS

/* Most bytes of a message. */
enum {
    OPAL_COMMON_ADAPTIB_MCA_TEXT = 1024
};

/* A message to the user: `before`, the detail, the name of the host, `after`; all in lines. */
typedef struct {
    const char *topic;
    const char *before;
    const char *after;
} opal_common_adaptib_mca_text_t;

/* NULL: there is no such topic. */
const opal_common_adaptib_mca_text_t *opal_common_adaptib_mca_text(const char *topic);

/* Shows the user the text of a topic, with `detail`; once per host. */
void opal_common_adaptib_mca_say_help(const char *topic, const char *detail);
/* Checks, at the start, for a directory in which the processes of a host can see which messages
 * have been shown. */
void opal_common_adaptib_mca_see_session(void);
const char *opal_common_adaptib_mca_host_name(void);

/* Returns false if a parameter's value is refused; a message was given. */
bool opal_common_adaptib_mca_parameters_good(void);

/* Registers the counters by rail and by path as performance variables, with the names of the core's
 * rails. A variable that Open MPI refuses is missing; nothing else depends on it. */
void opal_common_adaptib_mca_register_arrays(opal_common_adaptib_core_t *core);

/* For the core's environment: asks Open MPI to report memory that is unmapped. False: it cannot.
 * Open MPI replaces the first instructions of munmap() and others, and puts them back at the end: a
 * thread inside of them meanwhile crashes, so the core must not have threads yet. */
bool opal_common_adaptib_mca_watch_memory(void *context);
/* Ends that. Call it when the core has been released, or could not be opened. */
void opal_common_adaptib_mca_unwatch_memory(void);
/* Sets the core to report that to. Call it with NULL before the core is released: then it returns
 * once no other thread reports to the core any more. */
void opal_common_adaptib_mca_memory_to(opal_common_adaptib_core_t *core);
/* For the core's environment: sees to it that memory is still reported although the process may
 * have loaded UCX. False: it may not be. */
bool opal_common_adaptib_mca_still_watches_memory(void *context);

/* Sets the core to report ended processes to. Call it with NULL before the core is released. */
void opal_common_adaptib_mca_ended_to(opal_common_adaptib_core_t *core);

/* Registers the kinds of incidents as event types of MPI_T, if this Open MPI has events. One that
 * Open MPI refuses is missing; nothing else depends on it. */
void opal_common_adaptib_mca_register_events(void);
/* For the core's environment: raises the event of an incident. NULL: Open MPI has no events. */
typedef void opal_common_adaptib_mca_incident_t(void *context,
                                                const opal_common_adaptib_incident_t *incident);
opal_common_adaptib_mca_incident_t *opal_common_adaptib_mca_incident_listener(void);

/* Keeps what reports are published by in use, if there will be any, until report_end. */
void opal_common_adaptib_mca_report_begin(void);
void opal_common_adaptib_mca_report_end(void);

/* For the core's environment: publishes the report of this process; looks up that of another one.
 */
int opal_common_adaptib_mca_report_publish(void *context, const void *data, size_t size);
int opal_common_adaptib_mca_report_lookup(void *context, uint64_t name, void **data, size_t *size);

END_C_DECLS

#endif /* OPAL_COMMON_ADAPTIB_MCA_PARTS_H */
