// SPDX-License-Identifier: BSD-3-Clause
/*
 * The core of a process, with Open MPI's names and address exchange (common_adaptib_mca.h).
 */
#include "opal_config.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opal/constants.h"
#include "opal/mca/base/base.h"
#include "opal/runtime/opal.h"
#include "opal/runtime/opal_progress.h"
#include "opal/util/error.h"
#include "opal/util/output.h"

#include "common_adaptib_compat.h"
#include "common_adaptib_mca.h"
#include "common_adaptib_mca_parts.h"

/* Key of the core's address in Open MPI's exchange. */
#define ADDRESS_KEY "adaptib.address"

enum {
    MOST_KEPT = 16, /* messages */
    OLDEST_MAJOR = 4,
    OLDEST_MINOR = 1
};

/* The process's state; no destructors, and the library stays loaded. */
static struct {
    int references; /* components that hold the core */
    bool started;   /* connect_start has been asked for */
} common;

int opal_common_adaptib_mca_error(int status)
{
    switch (status) {
    case OPAL_COMMON_ADAPTIB_SUCCESS:
    case OPAL_COMMON_ADAPTIB_COMPLETE:
        return OPAL_SUCCESS;
    case OPAL_COMMON_ADAPTIB_AGAIN:
        return OPAL_ERR_TEMP_OUT_OF_RESOURCE;
    case OPAL_COMMON_ADAPTIB_BAD_PARAM:
        return OPAL_ERR_BAD_PARAM;
    case OPAL_COMMON_ADAPTIB_NO_MEMORY:
        return OPAL_ERR_OUT_OF_RESOURCE;
    case OPAL_COMMON_ADAPTIB_UNREACHABLE:
        return OPAL_ERR_UNREACH;
    case OPAL_COMMON_ADAPTIB_NOT_FOUND:
        return OPAL_ERR_NOT_FOUND;
    case OPAL_COMMON_ADAPTIB_NOT_SUPPORTED:
        return OPAL_ERR_NOT_SUPPORTED;
    default:
        return OPAL_ERROR;
    }
}

int opal_common_adaptib_mca_version_check(void)
{
    char detail[OPAL_COMMON_ADAPTIB_MCA_TEXT];
    int major = 0;
    int minor = 0;

    /* Open MPI's internal structures, which this glue reads, keep their shape within a series. */
    if (2 == sscanf(opal_version_string, "%d.%d", &major, &minor) && OPAL_MAJOR_VERSION == major
        && OPAL_MINOR_VERSION == minor
        && (major > OLDEST_MAJOR || (OLDEST_MAJOR == major && minor >= OLDEST_MINOR))) {
        return OPAL_SUCCESS;
    }
    snprintf(detail, sizeof(detail),
             "adaptib was built for Open MPI %d.%d, but this process runs Open MPI %s.",
             OPAL_MAJOR_VERSION, OPAL_MINOR_VERSION, opal_version_string);
    opal_common_adaptib_mca_say_help("wrong version", detail);
    return OPAL_ERR_NOT_SUPPORTED;
}

/* ------------------------------------------------------------------------------------------------
 * The core's environment */

/* State of the core's messages to the user, for the whole life of the core. Any thread that calls
 * the core may cause a message, and any may be the first that uses a peer. */
static pthread_mutex_t listener_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    bool wanted;   /* the user named adaptib */
    bool selected; /* adaptib carries the job's traffic */
    int stream;
    struct {
        opal_common_adaptib_severity_t severity;
        char *text;
    } kept[MOST_KEPT]; /* messages to show once `wanted` or `selected` becomes true */
    int kept_count;
} listener;

static void listener_forgets(bool says)
{
    for (int i = 0; i < listener.kept_count; ++i) {
        if (says) {
            opal_common_adaptib_mca_say(listener.kept[i].severity, listener.kept[i].text);
        }
        free(listener.kept[i].text);
    }
    listener.kept_count = 0;
}

/* Shows the messages so far and from now on. Open MPI starts BTLs beside an MTL, and before it, so
 * the core may have had messages before. */
static void listener_cares(bool *how)
{
    pthread_mutex_lock(&listener_lock);
    *how = true;
    listener_forgets(true);
    pthread_mutex_unlock(&listener_lock);
}

static void listener_reset(void)
{
    pthread_mutex_lock(&listener_lock);
    listener_forgets(false);
    memset(&listener, 0, sizeof(listener));
    pthread_mutex_unlock(&listener_lock);
}

/* Keeps a message that must not be shown now. REQUIRES: the lock is held. */
static void listener_keeps(opal_common_adaptib_severity_t severity, const char *text)
{
    char *copy = listener.kept_count < MOST_KEPT ? strdup(text) : NULL;

    if (NULL != copy) {
        listener.kept[listener.kept_count].severity = severity;
        listener.kept[listener.kept_count++].text = copy;
    }
    opal_output_verbose(1, listener.stream, "adaptib: %s", text);
}

static void core_message(void *context, opal_common_adaptib_severity_t severity, const char *text)
{
    (void) context;
    pthread_mutex_lock(&listener_lock);
    if (listener.wanted || listener.selected) {
        opal_common_adaptib_mca_say(severity, text);
    } else {
        listener_keeps(severity, text);
    }
    pthread_mutex_unlock(&listener_lock);
}

/* PMIx 5.0.7 may lose the answer to one of two threads that are in PMIx_Get at the same time, and
 * that thread waits for ever. */
static pthread_mutex_t lookup_lock = PTHREAD_MUTEX_INITIALIZER;

static int core_lookup(void *context, uint64_t name, void **address, size_t *size)
{
    opal_process_name_t process;
    uint8_t *bytes = NULL;
    size_t length = 0;
    int rc;

    (void) context;
    process.jobid = (opal_jobid_t) (name >> 32);
    process.vpid = (opal_vpid_t) name;
    pthread_mutex_lock(&lookup_lock);
    OPAL_MODEX_RECV_STRING(rc, ADDRESS_KEY, &process, &bytes, &length);
    pthread_mutex_unlock(&lookup_lock);
    if (OPAL_SUCCESS != rc || NULL == bytes || 0 == length) {
        free(bytes);
        return OPAL_COMMON_ADAPTIB_NOT_FOUND;
    }
    *address = bytes;
    *size = length;
    return OPAL_COMMON_ADAPTIB_SUCCESS;
}

static void core_lookup_release(void *context, void *address)
{
    (void) context;
    free(address);
}

/* The number of processes of the job; 0 if Open MPI does not know. */
static uint32_t job_size(void)
{
    opal_process_name_t job = OPAL_PROC_MY_NAME;
    uint32_t processes = 0;
    uint32_t *value = &processes;
    int rc;

    job.vpid = OPAL_VPID_WILDCARD;
    OPAL_MODEX_RECV_VALUE_OPTIONAL(rc, OPAL_COMMON_ADAPTIB_JOB_SIZE, &job, &value,
                                   OPAL_COMMON_ADAPTIB_UINT32);
    return OPAL_SUCCESS == rc ? processes : 0;
}

/* True if all processes of the job run on this host, as far as Open MPI knows. */
static bool job_on_one_host(void)
{
    return (int64_t) job_size() == (int64_t) opal_process_info.num_local_peers + 1;
}

/* Publishes the core's address. A later value replaces an earlier one: a component that loses the
 * selection takes its core with it, and the next component publishes its own before the processes
 * exchange anything. */
static int publish(opal_common_adaptib_core_t *core)
{
    size_t size = 0;
    const void *address = opal_common_adaptib_core_address(core, &size);
    char detail[OPAL_COMMON_ADAPTIB_MCA_TEXT];
    int rc;

    OPAL_MODEX_SEND_STRING(rc, OPAL_COMMON_ADAPTIB_MODEX_GLOBAL, ADDRESS_KEY, (void *) address,
                           size);
    if (OPAL_SUCCESS == rc) {
        return OPAL_SUCCESS;
    }
    snprintf(detail, sizeof(detail), "Open MPI reports: %s (error %d).", opal_strerror(rc), rc);
    opal_common_adaptib_mca_say_help("no address", detail);
    return OPAL_ERROR;
}

void opal_common_adaptib_mca_connect_start(opal_common_adaptib_core_t *core)
{
    if (!common.started) {
        common.started = true;
        opal_common_adaptib_connect_start(core, OPAL_PROC_MY_NAME.vpid, job_size());
    }
}

/* The threads of a core have ended when its last user has released it. */
static void unwatch_memory(void)
{
    if (0 == common.references) {
        opal_common_adaptib_mca_unwatch_memory();
    }
}

int opal_common_adaptib_mca_acquire(bool threads, bool wanted, int stream,
                                    opal_common_adaptib_core_t **core)
{
    static const bool always = true;
    const opal_common_adaptib_environment_t environment = {
        .self = opal_common_adaptib_mca_name(OPAL_PROC_MY_NAME),
        .local_rank = (uint32_t) opal_process_info.my_local_rank,
        .local_processes = (uint32_t) opal_process_info.num_local_peers + 1,
        .host_name = opal_common_adaptib_mca_host_name(),
        .threads = threads ? &always : &opal_uses_threads, /* a later session may raise the level */
        .yields = &opal_progress_yield_when_idle,
        .one_host = job_on_one_host(),
        .processes = job_size(),
        .lookup = core_lookup,
        .lookup_release = core_lookup_release,
        .message = core_message,
        .report_publish = opal_common_adaptib_mca_report_publish,
        .report_lookup = opal_common_adaptib_mca_report_lookup,
        .watch_memory = opal_common_adaptib_mca_watch_memory,
        .still_watches_memory = opal_common_adaptib_mca_still_watches_memory,
        .incident = opal_common_adaptib_mca_incident_listener(),
    };
    opal_common_adaptib_core_t *acquired = NULL;
    int rc;

    if (!opal_common_adaptib_mca_parameters_good()) {
        return OPAL_ERR_BAD_PARAM;
    }
    if (0 == common.references) {
        listener_reset();
        listener.stream = stream;
    }
    if (wanted) {
        listener_cares(&listener.wanted);
    }
    rc = opal_common_adaptib_core_acquire(&environment, &acquired);
    if (OPAL_COMMON_ADAPTIB_SUCCESS != rc) {
        unwatch_memory();
        return opal_common_adaptib_mca_error(rc);
    }
    if (0 == common.references) {
        opal_common_adaptib_mca_memory_to(acquired);
        rc = publish(acquired);
        if (OPAL_SUCCESS != rc) {
            opal_common_adaptib_mca_memory_to(NULL);
            opal_common_adaptib_core_release(acquired);
            unwatch_memory();
            return rc;
        }
        opal_common_adaptib_mca_ended_to(acquired);
        opal_common_adaptib_mca_register_arrays(acquired);
        opal_common_adaptib_mca_report_begin();
    }
    common.references++;
    *core = acquired;
    return OPAL_SUCCESS;
}

void opal_common_adaptib_mca_selected(void)
{
    listener_cares(&listener.selected);
}

void opal_common_adaptib_mca_release(opal_common_adaptib_core_t *core)
{
    if (1 == common.references) {
        opal_common_adaptib_mca_ended_to(NULL);
        opal_common_adaptib_mca_memory_to(NULL);
    }
    opal_common_adaptib_core_release(core);
    common.references--;
    common.started = common.started && common.references > 0;
    if (0 == common.references) {
        opal_common_adaptib_mca_report_end();
        listener_reset();
    }
    unwatch_memory();
}
