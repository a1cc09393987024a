// SPDX-License-Identifier: BSD-3-Clause
/*
 * What the MTL and the BTL share of the C glue: the parameter table and the counters as Open MPI
 * knows them, the core made with Open MPI's names and address exchange, messages to the user.
 *
 * Order of calls: register in a component's register function; version_check when it opens; acquire
 * when it initializes; release when it is finalized. All of these are called by one thread at a
 * time (Open MPI selects its components so); say may be called from any thread.
 *
 * May touch: Open MPI's OPAL layer and common_adaptib.h.
 */
#ifndef OPAL_COMMON_ADAPTIB_MCA_H
#define OPAL_COMMON_ADAPTIB_MCA_H

#include "opal_config.h"

#include "opal/mca/mca.h"

#include "common_adaptib.h"

BEGIN_C_DECLS

/* Registers every row of the parameter table as opal_common_adaptib_<name>, once per process, with
 * <type>_adaptib_<name> as a synonym, and every counter as a performance variable of `component`.
 * A value that does not parse is remembered; acquire refuses it.
 * @retval OPAL_SUCCESS, or Open MPI's error when it could not register a row. */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_mca_register(const mca_base_component_t *component);

/* @retval OPAL_ERR_NOT_SUPPORTED  this process runs another Open MPI than adaptib was built for, or
 *                                 one that is too old; a message was given. */
OPAL_COMMON_ADAPTIB_EXPORT int opal_common_adaptib_mca_version_check(void);

/* Checks the parameters, makes (or shares) the core and publishes its address.
 * wanted: the user named adaptib. If not, the core's messages go to the verbose output `stream`
 * until adaptib is selected or named by the other component, since another one may do the work; then
 * they are told. Refused parameters are always told.
 * @retval OPAL_ERR_*  a message was given; *core is not set. */
OPAL_COMMON_ADAPTIB_EXPORT int opal_common_adaptib_mca_acquire(bool threads, bool wanted,
                                                               int stream,
                                                               opal_common_adaptib_core_t **core);

/* Traffic will come: the core's messages are for the user from now on. */
OPAL_COMMON_ADAPTIB_EXPORT void opal_common_adaptib_mca_selected(void);

/* The job's addresses can be looked up: connects whom the parameters want connected from the start. */
OPAL_COMMON_ADAPTIB_EXPORT void
opal_common_adaptib_mca_connect_start(opal_common_adaptib_core_t *core);

OPAL_COMMON_ADAPTIB_EXPORT void opal_common_adaptib_mca_release(opal_common_adaptib_core_t *core);

/* The OPAL_* code for an OPAL_COMMON_ADAPTIB_* value. */
OPAL_COMMON_ADAPTIB_EXPORT int opal_common_adaptib_mca_error(int status);

/* Tells the user, on stderr, in one piece: a report as it is; a notice or a failure with what to
 * know besides, and once per host if several processes have the same to say. */
OPAL_COMMON_ADAPTIB_EXPORT void opal_common_adaptib_mca_say(opal_common_adaptib_severity_t severity,
                                                            const char *text);

/* The core's name for a process. */
static inline uint64_t opal_common_adaptib_mca_name(opal_process_name_t name)
{
    return ((uint64_t) name.jobid << 32) | name.vpid;
}

END_C_DECLS

#endif /* OPAL_COMMON_ADAPTIB_MCA_H */
