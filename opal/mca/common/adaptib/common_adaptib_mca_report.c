// SPDX-License-Identifier: BSD-3-Clause
/*
 * Reports of the job's processes at its end, from each to the first one, by PMIx, which the runtime
 * keeps until the processes have ended (common_adaptib_mca_parts.h).
 *
 * Threads: one; the component that is the last to release the core calls.
 */
#include "opal_config.h"

#include <stdlib.h>
#include <string.h>

#include "opal/constants.h"

#include "common_adaptib_compat.h"
#include "common_adaptib_mca.h"
#include "common_adaptib_mca_parts.h"

#define REPORT_KEY "opal_common_adaptib_report"

enum {
    SECONDS = 1 /* to wait for one process */
};

static bool holds;

/* True if the parameter `report` asks for something. */
static bool is_wanted(void)
{
    size_t count = 0;
    const opal_common_adaptib_parameter_t *parameters = opal_common_adaptib_parameters(&count);

    for (size_t i = 0; i < count; ++i) {
        if (0 == strcmp(parameters[i].name, "report")) {
            const char *value = *(char **) parameters[i].storage;

            return NULL != value && 0 != strcmp(value, "none") && 0 != strcmp(value, "0");
        }
    }
    return false;
}

void opal_common_adaptib_mca_report_begin(void)
{
    holds = is_wanted() && opal_common_adaptib_modex_hold();
}

void opal_common_adaptib_mca_report_end(void)
{
    if (holds) {
        opal_common_adaptib_modex_drop();
        holds = false;
    }
}

int opal_common_adaptib_mca_report_publish(void *context, const void *data, size_t size)
{
    int rc;

    (void) context;
    OPAL_MODEX_SEND_STRING(rc, OPAL_COMMON_ADAPTIB_MODEX_GLOBAL, REPORT_KEY, (void *) data, size);
    return OPAL_SUCCESS == rc && opal_common_adaptib_modex_commit() ? OPAL_COMMON_ADAPTIB_SUCCESS
                                                                    : OPAL_COMMON_ADAPTIB_ERROR;
}

int opal_common_adaptib_mca_report_lookup(void *context, uint64_t name, void **data, size_t *size)
{
    const opal_process_name_t process = {.jobid = (opal_jobid_t) (name >> 32),
                                         .vpid = (opal_vpid_t) name};

    (void) context;
    return opal_common_adaptib_modex_get(&process, REPORT_KEY, SECONDS, data, size)
               ? OPAL_COMMON_ADAPTIB_SUCCESS
               : OPAL_COMMON_ADAPTIB_NOT_FOUND;
}
