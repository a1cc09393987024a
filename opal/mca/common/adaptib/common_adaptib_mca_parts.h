// SPDX-License-Identifier: BSD-3-Clause
/*
 * What the files of the shared C glue need of each other, and the components do not.
 *
 *   common_adaptib_mca.c             the core: made, shared, its address published
 *   common_adaptib_mca_parameters.c  parameters and counters as Open MPI's variables
 *   common_adaptib_mca_messages.c    messages to the user
 *   common_adaptib_mca_memory.c      memory that is unmapped
 *   common_adaptib_mca_ended.c       processes that have ended
 */
#ifndef OPAL_COMMON_ADAPTIB_MCA_PARTS_H
#define OPAL_COMMON_ADAPTIB_MCA_PARTS_H

#include "opal_config.h"

#include "common_adaptib.h"

BEGIN_C_DECLS

/* Bytes of a message. */
enum {
    OPAL_COMMON_ADAPTIB_MCA_TEXT = 1024
};

/* Tells the user what a topic of the help file says, with `detail`; once per host. */
void opal_common_adaptib_mca_say_help(const char *topic, const char *detail);
/* At the start: whether there is a place where the processes of a host can see who has said what. */
void opal_common_adaptib_mca_see_session(void);
const char *opal_common_adaptib_mca_host_name(void);

/* False: one of the parameters' values is refused; a message was given. */
bool opal_common_adaptib_mca_parameters_good(void);

/* The core's environment: asks Open MPI to tell of memory that is unmapped. False: it cannot. */
bool opal_common_adaptib_mca_watch_memory(void *context);
/* The core that is told of it; NULL before it is released, which also ends the asking. */
void opal_common_adaptib_mca_memory_to(opal_common_adaptib_core_t *core);

/* The core that is told of processes that end; NULL before it is released. */
void opal_common_adaptib_mca_ended_to(opal_common_adaptib_core_t *core);

END_C_DECLS

#endif /* OPAL_COMMON_ADAPTIB_MCA_PARTS_H */
