// SPDX-License-Identifier: BSD-3-Clause
/*
 * The shared C glue (common_adaptib_mca.h).
 */
#include "opal_config.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "opal/constants.h"
#include "opal/mca/base/base.h"
#include "opal/mca/base/mca_base_pvar.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/mca/base/mca_base_vari.h"
#include "opal/mca/installdirs/installdirs.h"
#include "opal/runtime/opal.h"
#include "opal/runtime/opal_progress.h"
#include "opal/util/error.h"
#include "opal/util/output.h"
#include "opal/util/show_help.h"

#include "common_adaptib_compat.h"
#include "common_adaptib_mca.h"

#define HELP_FILE "help-common-adaptib.txt"

/* Where the core's address stands in the exchange of Open MPI. */
#define ADDRESS_KEY "adaptib.address"

enum {
    TEXT_SIZE = 1024,
    MOST_KEPT = 16, /* messages */
    OLDEST_MAJOR = 4,
    OLDEST_MINOR = 1
};

/* The process's state; no destructors, and the library stays loaded. */
static struct {
    char refusal[TEXT_SIZE]; /* the first value that did not parse; empty if all did */
    int references;          /* components that hold the core */
    bool started;            /* connect_start has been asked for */
    bool session_seen;       /* the job's session directory was there at the start */
} common;

/* ------------------------------------------------------------------------------------------------
 * Messages */

static const char *host_name(void)
{
    return NULL != opal_process_info.nodename ? opal_process_info.nodename : "localhost";
}

/* Open MPI prints an apology instead of the text when it does not find a help file. */
static bool help_file_readable(const char *directory)
{
    char path[OPAL_PATH_MAX];

    if (NULL == directory
        || snprintf(path, sizeof(path), "%s/%s", directory, HELP_FILE) >= (int) sizeof(path)) {
        return false;
    }
    return 0 == access(path, R_OK);
}

static bool help_file_found(void)
{
    static int found = -1;

    if (found < 0) {
        found = help_file_readable(opal_install_dirs.opaldatadir);
#if defined(ADAPTIB_HELP_DIR)
        if (!found && help_file_readable(ADAPTIB_HELP_DIR)) {
            opal_show_help_add_dir(ADAPTIB_HELP_DIR);
            found = true;
        }
#endif
    }
    return found;
}

/* One piece, so that the lines of several processes do not mix. */
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

/* True for the first process of this job on this host that says `text`: it finds no mark in the
 * job's session directory. That goes away with the job: if another process has ended the job by
 * now, it has said why. */
static bool first_to_say(const char *text)
{
    char path[OPAL_PATH_MAX];
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    int mark;

    if (!common.session_seen) {
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
        return EEXIST != errno && ENOENT != errno;
    }
    close(mark);
    return true;
}

/* The help texts are Open MPI's way; its relay to mpirun, which would show the text once for all
 * processes, loses it now and then (most often when the job ends at once, as it does here). So the
 * text goes straight to stderr, once per host. */
static void say_help(const char *topic, const char *detail)
{
    char *text = NULL;

    if (!first_to_say(detail)) {
        return;
    }
    if (help_file_found()) {
        text = opal_show_help_string(HELP_FILE, topic, true, detail, host_name());
    }
    if (NULL == text) {
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
        say_help("notice", text);
        break;
    default:
        say_help("failure", text);
        break;
    }
}

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

/* ------------------------------------------------------------------------------------------------
 * Version */

int opal_common_adaptib_mca_version_check(void)
{
    char detail[TEXT_SIZE];
    int major = 0;
    int minor = 0;

    /* Open MPI's internal structures, which this glue reads, keep their shape within a series. */
    if (2 == sscanf(opal_version_string, "%d.%d", &major, &minor) && OPAL_MAJOR_VERSION == major
        && OPAL_MINOR_VERSION == minor
        && (major > OLDEST_MAJOR || (OLDEST_MAJOR == major && minor >= OLDEST_MINOR))) {
        return OPAL_SUCCESS;
    }
    snprintf(detail, sizeof(detail),
             "It was built for Open MPI %d.%d, and this process runs Open MPI %s.",
             OPAL_MAJOR_VERSION, OPAL_MINOR_VERSION, opal_version_string);
    say_help("wrong version", detail);
    return OPAL_ERR_NOT_SUPPORTED;
}

/* ------------------------------------------------------------------------------------------------
 * Parameters */

/* What the user typed, and where. */
typedef struct {
    const char *framework; /* the name's first part: opal_common, mtl or btl */
    const char *text;      /* NULL: nobody set the parameter, or nobody knows how */
    const char *place;
} typed_t;

static typed_t typed_value(const opal_common_adaptib_parameter_t *row, const char *framework,
                           int index)
{
    const char *const frameworks[] = {"opal_common", framework};
    const mca_base_var_t *var = NULL;
    typed_t typed = {framework, NULL, "the environment or the command line"};

    for (size_t i = 0; i < sizeof(frameworks) / sizeof(frameworks[0]); ++i) {
        char name[128];
        const char *text;

        snprintf(name, sizeof(name), "OMPI_MCA_%s_adaptib_%s", frameworks[i], row->name);
        text = getenv(name);
        if (NULL != text) {
            typed.framework = frameworks[i];
            typed.text = text;
        }
    }
    if (NULL == typed.text && OPAL_SUCCESS == mca_base_var_get(index, &var)
        && NULL != var->mbv_file_value) {
        const mca_base_var_file_value_t *value = var->mbv_file_value;
        typed.text = value->mbvfv_value;
        typed.place = value->mbvfv_file;
    }
    return typed;
}

/* A number as Open MPI takes it: 1024, 0x400, 1k, of 64 bits. */
static bool integer_parses(const char *text)
{
    static const char suffixes[] = "kKmMgG";
    char *end = NULL;
    const char *suffix;
    unsigned long long value;

    errno = 0;
    value = strtoull(text, &end, 0);
    if (0 != errno || end == text) {
        return false;
    }
    suffix = '\0' != *end ? strchr(suffixes, *end) : NULL;
    if (NULL != suffix) {
        const unsigned shift = 10 * (unsigned) (1 + (suffix - suffixes) / 2);
        if (0 != value >> (64 - shift) && '-' != *text) {
            return false;
        }
        end++;
    }
    return '\0' == *end;
}

/* Open MPI reads "12abc" as 12, "abc" as 0 and "-1" as 2^64-1, all in silence. */
static bool text_parses(const opal_common_adaptib_parameter_t *row, const char *text)
{
    char *end = NULL;

    while (isspace((unsigned char) *text)) {
        text++;
    }
    switch (row->type) {
    case OPAL_COMMON_ADAPTIB_TYPE_SIZE:
        return '-' != *text && integer_parses(text);
    case OPAL_COMMON_ADAPTIB_TYPE_INT:
        return integer_parses(text);
    case OPAL_COMMON_ADAPTIB_TYPE_DOUBLE:
        (void) strtod(text, &end);
        return end != text && '\0' == *end;
    default: /* booleans are Open MPI's to check, strings are the core's */
        return true;
    }
}

/* Remembers the first value that cannot be read; acquire tells of it. */
static void check_typed(const opal_common_adaptib_parameter_t *row, const char *framework,
                        int index, bool refused_by_open_mpi)
{
    static const char *const kinds[] = {
        [OPAL_COMMON_ADAPTIB_TYPE_BOOL] = "neither true nor false",
        [OPAL_COMMON_ADAPTIB_TYPE_INT] = "not an integer that can be read",
        [OPAL_COMMON_ADAPTIB_TYPE_SIZE] = "not a size (digits, perhaps with k, m or g)",
        [OPAL_COMMON_ADAPTIB_TYPE_DOUBLE] = "not a number",
        [OPAL_COMMON_ADAPTIB_TYPE_STRING] = "not a text that Open MPI takes",
    };
    const typed_t typed = typed_value(row, framework, index);

    if ('\0' != common.refusal[0]
        || (!refused_by_open_mpi && (NULL == typed.text || text_parses(row, typed.text)))) {
        return;
    }
    snprintf(
        common.refusal, sizeof(common.refusal),
        "The parameter %s_adaptib_%s has the value \"%.64s\" (from %s), which is %s. Allowed is "
        "%s%s%s, and %s is the default: set it to such a value or leave it out.",
        typed.framework, row->name, NULL != typed.text ? typed.text : "?", typed.place,
        kinds[row->type], row->range, '\0' != row->unit[0] ? " " : "", row->unit,
        row->default_text);
}

static mca_base_var_type_t var_type(opal_common_adaptib_type_t type)
{
    switch (type) {
    case OPAL_COMMON_ADAPTIB_TYPE_BOOL:
        return MCA_BASE_VAR_TYPE_BOOL;
    case OPAL_COMMON_ADAPTIB_TYPE_INT:
        return MCA_BASE_VAR_TYPE_INT;
    case OPAL_COMMON_ADAPTIB_TYPE_SIZE:
        return MCA_BASE_VAR_TYPE_SIZE_T;
    case OPAL_COMMON_ADAPTIB_TYPE_DOUBLE:
        return MCA_BASE_VAR_TYPE_DOUBLE;
    default:
        return MCA_BASE_VAR_TYPE_STRING;
    }
}

/* The memory that Open MPI keeps a row's value in. A string's pointer is freed by Open MPI after
 * components are closed: it has a cell of its own, in this library, which is never unloaded, and the
 * core gets a copy of the string. */
static void *var_storage(const opal_common_adaptib_parameter_t *row)
{
    enum {
        CELLS = 32
    };
    static char *cells[CELLS];
    static int used = 0;

    if (OPAL_COMMON_ADAPTIB_TYPE_STRING != row->type) {
        return row->storage;
    }
    if (CELLS == used) {
        return NULL;
    }
    cells[used] = (char *) row->default_text; /* Open MPI copies it */
    return &cells[used++];
}

static int register_row(const opal_common_adaptib_parameter_t *row)
{
    char help[TEXT_SIZE];
    void *storage = var_storage(row);

    if (NULL == storage) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    snprintf(help, sizeof(help), "%s%s%s (default: %s, range: %s)", row->help,
             '\0' != row->unit[0] ? " Unit: " : "", row->unit, row->default_text, row->range);
    return mca_base_var_register("opal", "opal_common", "adaptib", row->name, help,
                                 var_type(row->type), NULL, 0, 0,
                                 (mca_base_var_info_lvl_t) (OPAL_INFO_LVL_1 + row->level - 1),
                                 MCA_BASE_VAR_SCOPE_READONLY, storage);
}

static int copy_string(const opal_common_adaptib_parameter_t *row, int index)
{
    char **cell = NULL;
    char *copy = NULL;
    int rc;

    rc = mca_base_var_get_value(index, &cell, NULL, NULL);
    if (OPAL_SUCCESS != rc) {
        return rc;
    }
    copy = strdup(NULL != *cell ? *cell : "");
    if (NULL == copy) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    free(*(char **) row->storage);
    *(char **) row->storage = copy;
    return OPAL_SUCCESS;
}

static int register_parameter(const opal_common_adaptib_parameter_t *row,
                              const mca_base_component_t *component)
{
    int index = mca_base_var_find("opal", "opal_common", "adaptib", row->name);
    bool refused = false;
    int synonym;

    /* Every BTL has an eager_limit of its own. */
    const bool taken = mca_base_var_find(component->mca_project_name, component->mca_type_name,
                                         component->mca_component_name, row->name)
                       >= 0;

    if (index < 0) {
        index = register_row(row);
    }
    if (OPAL_ERR_VALUE_OUT_OF_BOUNDS == index) {
        /* It is registered, with its default, since Open MPI did not take the value. */
        refused = true;
        index = mca_base_var_find("opal", "opal_common", "adaptib", row->name);
    }
    if (index < 0) {
        return index;
    }
    synonym = taken ? index
                    : mca_base_var_register_synonym(index, component->mca_project_name,
                                                    component->mca_type_name,
                                                    component->mca_component_name, row->name, 0);
    if (synonym < 0 && OPAL_ERR_VALUE_OUT_OF_BOUNDS != synonym) {
        return synonym;
    }
    check_typed(row, component->mca_type_name, index, refused || synonym < 0);
    return OPAL_COMMON_ADAPTIB_TYPE_STRING == row->type ? copy_string(row, index) : OPAL_SUCCESS;
}

/* ------------------------------------------------------------------------------------------------
 * Counters */

static int counter_get(const mca_base_pvar_t *pvar, void *value, void *object)
{
    const opal_common_adaptib_counter_t *row = pvar->ctx;

    (void) object;
    *(unsigned long long *) value = __atomic_load_n(row->value, __ATOMIC_RELAXED);
    return OPAL_SUCCESS;
}

static int register_counter(const opal_common_adaptib_counter_t *row,
                            const mca_base_component_t *component)
{
    char help[TEXT_SIZE];
    int rc;

    snprintf(help, sizeof(help), "%s%s%s", row->help, '\0' != row->unit[0] ? " Unit: " : "",
             row->unit);
    rc = mca_base_component_pvar_register(
        component, row->name, help, (mca_base_var_info_lvl_t) (OPAL_INFO_LVL_1 + row->level - 1),
        OPAL_COMMON_ADAPTIB_LEVEL == row->kind ? MCA_BASE_PVAR_CLASS_LEVEL
                                               : MCA_BASE_PVAR_CLASS_COUNTER,
        MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL, MCA_BASE_VAR_BIND_NO_OBJECT,
        MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, counter_get, NULL, NULL,
        (void *) row);
    return rc < 0 ? rc : OPAL_SUCCESS;
}

int opal_common_adaptib_mca_register(const mca_base_component_t *component)
{
    size_t count = 0;
    const opal_common_adaptib_parameter_t *parameters = opal_common_adaptib_parameters(&count);
    const opal_common_adaptib_counter_t *counters;
    int rc;

    common.session_seen = NULL != opal_process_info.job_session_dir
                          && 0 == access(opal_process_info.job_session_dir, W_OK);
    for (size_t i = 0; i < count; ++i) {
        rc = register_parameter(&parameters[i], component);
        if (OPAL_SUCCESS != rc) {
            return rc;
        }
    }
    counters = opal_common_adaptib_counters(&count);
    for (size_t i = 0; i < count; ++i) {
        rc = register_counter(&counters[i], component);
        if (OPAL_SUCCESS != rc) {
            return rc;
        }
    }
    return OPAL_SUCCESS;
}

/* ------------------------------------------------------------------------------------------------
 * The core's environment */

/* Where the core's messages go; kept for the whole life of the core. */
static struct {
    bool wanted;   /* the user named adaptib */
    bool selected; /* adaptib carries the job's traffic */
    int stream;
    struct {
        opal_common_adaptib_severity_t severity;
        char *text;
    } kept[MOST_KEPT]; /* for when one of the two turns out to be so */
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

/* Open MPI starts BTLs beside an MTL, and before it: what the core had to say then is said now. */
static void listener_cares(bool *how)
{
    *how = true;
    listener_forgets(true);
}

static void listener_reset(void)
{
    listener_forgets(false);
    memset(&listener, 0, sizeof(listener));
}

static void core_message(void *context, opal_common_adaptib_severity_t severity, const char *text)
{
    (void) context;
    if (!listener.wanted && !listener.selected) {
        char *copy = listener.kept_count < MOST_KEPT ? strdup(text) : NULL;

        if (NULL != copy) {
            listener.kept[listener.kept_count].severity = severity;
            listener.kept[listener.kept_count++].text = copy;
        }
        opal_output_verbose(1, listener.stream, "adaptib: %s", text);
        return;
    }
    opal_common_adaptib_mca_say(severity, text);
}

static int core_lookup(void *context, uint64_t name, void **address, size_t *size)
{
    opal_process_name_t process;
    uint8_t *bytes = NULL;
    size_t length = 0;
    int rc;

    (void) context;
    process.jobid = (opal_jobid_t) (name >> 32);
    process.vpid = (opal_vpid_t) name;
    OPAL_MODEX_RECV_STRING(rc, ADDRESS_KEY, &process, &bytes, &length);
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

/* Whether all processes of the job run on this host, as far as Open MPI knows. */
static bool job_on_one_host(void)
{
    return (int64_t) job_size() == (int64_t) opal_process_info.num_local_peers + 1;
}

/* A later value replaces an earlier one: a component that loses the selection takes its core with
 * it, and the next component publishes its own before the processes exchange anything. */
static int publish(opal_common_adaptib_core_t *core)
{
    size_t size = 0;
    const void *address = opal_common_adaptib_core_address(core, &size);
    char detail[TEXT_SIZE];
    int rc;

    OPAL_MODEX_SEND_STRING(rc, OPAL_COMMON_ADAPTIB_MODEX_GLOBAL, ADDRESS_KEY, (void *) address,
                           size);
    if (OPAL_SUCCESS == rc) {
        return OPAL_SUCCESS;
    }
    snprintf(detail, sizeof(detail), "Open MPI says: %s (%d).", opal_strerror(rc), rc);
    say_help("no address", detail);
    return OPAL_ERROR;
}

static bool parameters_good(void)
{
    char text[TEXT_SIZE];

    if ('\0' != common.refusal[0]) {
        say_help("parameter refused", common.refusal);
        return false;
    }
    if (OPAL_COMMON_ADAPTIB_SUCCESS != opal_common_adaptib_parameters_check(text, sizeof(text))) {
        say_help("parameter refused", text);
        return false;
    }
    return true;
}

void opal_common_adaptib_mca_connect_start(opal_common_adaptib_core_t *core)
{
    if (!common.started) {
        common.started = true;
        opal_common_adaptib_connect_start(core, OPAL_PROC_MY_NAME.vpid, job_size());
    }
}

int opal_common_adaptib_mca_acquire(bool threads, bool wanted, int stream,
                                    opal_common_adaptib_core_t **core)
{
    const opal_common_adaptib_environment_t environment = {
        .self = opal_common_adaptib_mca_name(OPAL_PROC_MY_NAME),
        .local_rank = (uint32_t) opal_process_info.my_local_rank,
        .host_name = host_name(),
        .threads = threads || opal_using_threads(),
        .yields = &opal_progress_yield_when_idle,
        .one_host = job_on_one_host(),
        .lookup = core_lookup,
        .lookup_release = core_lookup_release,
        .message = core_message,
        .watch_memory = opal_common_adaptib_mca_watch_memory,
    };
    opal_common_adaptib_core_t *acquired = NULL;
    int rc;

    if (!parameters_good()) {
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
        return opal_common_adaptib_mca_error(rc);
    }
    if (0 == common.references) {
        opal_common_adaptib_mca_memory_to(acquired);
        rc = publish(acquired);
        if (OPAL_SUCCESS != rc) {
            opal_common_adaptib_mca_memory_to(NULL);
            opal_common_adaptib_core_release(acquired);
            return rc;
        }
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
        opal_common_adaptib_mca_memory_to(NULL);
    }
    opal_common_adaptib_core_release(core);
    common.references--;
    common.started = common.started && common.references > 0;
    if (0 == common.references) {
        listener_reset();
    }
}
