// SPDX-License-Identifier: BSD-3-Clause
/*
 * The C glue that the MTL and the BTL share: the parameter table and the counters as Open MPI knows
 * them, the core with Open MPI's names and address exchange, and messages to the user.
 *
 * Order of calls: register in a component's register function; version_check when it opens; acquire
 * when it initializes; release when it is finalized. One thread at a time calls these functions
 * (Open MPI selects its components that way); say may be called from any thread.
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
 * A value that does not parse is remembered, and acquire refuses it.
 * @retval OPAL_SUCCESS, or Open MPI's error when it could not register a row. */
OPAL_COMMON_ADAPTIB_EXPORT int
opal_common_adaptib_mca_register(const mca_base_component_t *component);

/* @retval OPAL_ERR_NOT_SUPPORTED  this process runs another Open MPI than adaptib was built for, or
 *                                 one that is too old; a message was given. */
OPAL_COMMON_ADAPTIB_EXPORT int opal_common_adaptib_mca_version_check(void);

/* Checks the parameters, makes (or shares) the core and publishes its address.
 * wanted: the user named adaptib. If not, the core's messages go to the verbose output `stream` at
 * first, since another component may do the work; they are shown to the user once adaptib is
 * selected, or named through the other component. Refused parameters are always reported.
 * @retval OPAL_ERR_*  a message was given; *core is not set. */
OPAL_COMMON_ADAPTIB_EXPORT int opal_common_adaptib_mca_acquire(bool threads, bool wanted,
                                                               int stream,
                                                               opal_common_adaptib_core_t **core);

/* Tells that traffic will come: from now on the core's messages are shown to the user. */
OPAL_COMMON_ADAPTIB_EXPORT void opal_common_adaptib_mca_selected(void);

/* Writes one line, by the first process of the job: the user named the component ("MTL" or "BTL"),
 * and pml/<pml>, which was chosen, does not use it; `remedy` goes on "add ". Once per component. */
OPAL_COMMON_ADAPTIB_EXPORT void opal_common_adaptib_mca_unused(const char *component,
                                                               const char *pml, const char *remedy);

/* True if a selection of components such as "ob1,cm" (not "^cm"; NULL: none) names `component`. */
OPAL_COMMON_ADAPTIB_EXPORT bool opal_common_adaptib_mca_names(const char *selection,
                                                              const char *component);

/* True if the user has set the parameter <type>_adaptib_<name> of the component. */
OPAL_COMMON_ADAPTIB_EXPORT bool
opal_common_adaptib_mca_user_set(const mca_base_component_t *component, const char *name);

/* Tells that the job's addresses can be looked up: connects the peers that the parameters want
 * connected from the start. */
OPAL_COMMON_ADAPTIB_EXPORT void
opal_common_adaptib_mca_connect_start(opal_common_adaptib_core_t *core);

OPAL_COMMON_ADAPTIB_EXPORT void opal_common_adaptib_mca_release(opal_common_adaptib_core_t *core);

/* The OPAL_* code of an OPAL_COMMON_ADAPTIB_* value. */
OPAL_COMMON_ADAPTIB_EXPORT int opal_common_adaptib_mca_error(int status);

/* Writes a message for the user to stderr, in one piece: a report as it is; a notice or a failure
 * with a text around it, and once per host if several processes have the same message. */
OPAL_COMMON_ADAPTIB_EXPORT void opal_common_adaptib_mca_say(opal_common_adaptib_severity_t severity,
                                                            const char *text);

/* The core's name of a process. */
static inline uint64_t opal_common_adaptib_mca_name(opal_process_name_t name)
{
    return ((uint64_t) name.jobid << 32) | name.vpid;
}

END_C_DECLS

#endif /* OPAL_COMMON_ADAPTIB_MCA_H */
