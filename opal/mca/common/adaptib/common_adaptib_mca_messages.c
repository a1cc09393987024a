// SPDX-License-Identifier: BSD-3-Clause
/*
 * Messages to the user, once for each host.
 */
#include "opal_config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "opal/runtime/opal.h"
#include "opal/util/output.h"
#include "opal/util/printf.h"

#include "common_adaptib_compat.h"
#include "common_adaptib_mca.h"
#include "common_adaptib_mca_parts.h"

static bool session_seen;     /* the job's session directory existed at the start */
static bool outlives_session; /* the job may go on without that directory */

const char *opal_common_adaptib_mca_host_name(void)
{
    return NULL != opal_process_info.nodename ? opal_process_info.nodename : "localhost";
}

/* Writes in one piece, so that the lines of several processes do not mix. */
static void write_all(const char *text)
{
    size_t left = strlen(text);

    while (left > 0) {
        const ssize_t written = write(STDERR_FILENO, text, left);
        if (written < 0 && EINTR != errno) {
            return;
        }
        if (written > 0) {
            text += written;
            left -= (size_t) written;
        }
    }
}

void opal_common_adaptib_mca_see_session(void)
{
    const char *recovery = getenv("OMPI_MCA_orte_enable_recovery");

    session_seen = NULL != opal_process_info.job_session_dir
                   && 0 == access(opal_process_info.job_session_dir, W_OK);
    outlives_session = NULL != recovery && 0 != atoi(recovery);
}

/* True for the first process of this job on this host that has `text` to show: it finds no mark in
 * the job's session directory. That directory goes away with the job: if another process has ended
 * the job by now, that process has said why. Under mpirun --enable-recovery it goes away with the
 * first process that fails, which may have shown nothing, and the job goes on: then each process
 * shows all its messages. */
static bool first_to_say(const char *text)
{
    char path[OPAL_PATH_MAX];
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    int mark;

    if (!session_seen) {
        return true;
    }
    for (; '\0' != *text; text++) {
        hash = (hash ^ (unsigned char) *text) * UINT64_C(0x100000001b3);
    }
    if (snprintf(path, sizeof(path), "%s/adaptib.said.%016" PRIx64,
                 opal_process_info.job_session_dir, hash)
        >= (int) sizeof(path)) {
        return true;
    }
    mark = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (mark < 0) {
        return ENOENT == errno ? outlives_session : EEXIST != errno;
    }
    close(mark);
    return true;
}

/* Open MPI's relay to mpirun, which would show a text once for all processes, sometimes loses it
 * (most often when the job ends at once, as it does here). So the text goes straight to stderr,
 * once per host. */
void opal_common_adaptib_mca_say_help(const char *topic, const char *detail)
{
    static const char line[] =
        "--------------------------------------------------------------------------\n";
    const opal_common_adaptib_mca_text_t *around = opal_common_adaptib_mca_text(topic);
    char *text = NULL;

    if (!first_to_say(detail)) {
        return;
    }
    if (NULL == around
        || opal_asprintf(&text, "%s%s\n%s\n\n  Local host:  %s\n%s%s", line, around->before, detail,
                         opal_common_adaptib_mca_host_name(), around->after, line)
               < 0) {
        opal_output(0, "adaptib: %s: %s", topic, detail);
        return;
    }
    write_all(text);
    free(text);
}

void opal_common_adaptib_mca_say(opal_common_adaptib_severity_t severity, const char *text)
{
    switch (severity) {
    case OPAL_COMMON_ADAPTIB_REPORT:
        write_all(text);
        break;
    case OPAL_COMMON_ADAPTIB_NOTICE:
        opal_common_adaptib_mca_say_help("notice", text);
        break;
    default:
        opal_common_adaptib_mca_say_help("failure", text);
        break;
    }
}

void opal_common_adaptib_mca_unused(const char *component, const char *pml, const char *remedy)
{
    static bool told[2];
    bool *has_told = &told['M' == component[0]];
    char line[OPAL_COMMON_ADAPTIB_MCA_TEXT];

    if (!*has_told && 0 == OPAL_PROC_MY_NAME.vpid) {
        snprintf(line, sizeof(line),
                 "adaptib: the %s is named, but not used, since pml/%s was chosen; add %s\n",
                 component, pml, remedy);
        write_all(line);
    }
    *has_told = true;
}
