// SPDX-License-Identifier: BSD-3-Clause
/*
 * The tables of parameters and counters, as Open MPI's variables. Also finds values that Open MPI
 * silently misreads.
 */
#include "opal_config.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opal/constants.h"
#include "opal/mca/base/base.h"
#include "opal/mca/base/mca_base_pvar.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/mca/base/mca_base_vari.h"

#include "common_adaptib_compat.h"
#include "common_adaptib_mca.h"
#include "common_adaptib_mca_parts.h"

enum {
    ROWS = 128 /* of the table, at most */
};

/* The first value that did not parse; empty if all did. */
static char refusal[OPAL_COMMON_ADAPTIB_MCA_TEXT];
/* On the ended parameters that are set and have not been told of; empty: none. */
static char ended[OPAL_COMMON_ADAPTIB_MCA_TEXT];

/* The text that the user typed, and where. */
typedef struct {
    const char *framework; /* the name's first part: opal_common, mtl or btl */
    const char *text;      /* NULL: the parameter is not set, or the text is unknown */
    const char *place;
    const char *name; /* in a file; NULL: in the environment */
} typed_t;

static typed_t typed_value(const opal_common_adaptib_parameter_t *row, const char *framework,
                           int index)
{
    const char *const frameworks[] = {"opal_common", framework};
    const mca_base_var_t *var = NULL;
    typed_t typed = {framework, NULL, "the environment or the command line", NULL};

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
        typed.name = value->mbvfv_var;
    }
    return typed;
}

/* True for a number as Open MPI reads it: 1024, 0x400, 1k, of 64 bits. */
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

/* Open MPI silently reads "12abc" as 12, "abc" as 0 and "-1" as 2^64-1. */
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
    default: /* the core checks strings */
        return true;
    }
}

/* Remembers the first value that cannot be read; acquire reports it. */
static void check_typed(const opal_common_adaptib_parameter_t *row, const char *framework,
                        int index, bool refused_by_open_mpi)
{
    static const char *const kinds[] = {
        [OPAL_COMMON_ADAPTIB_TYPE_INT] = "not an integer that can be read",
        [OPAL_COMMON_ADAPTIB_TYPE_SIZE] = "not a size (digits, perhaps with k, m or g)",
        [OPAL_COMMON_ADAPTIB_TYPE_DOUBLE] = "not a number",
        [OPAL_COMMON_ADAPTIB_TYPE_STRING] = "not a text that Open MPI accepts",
    };
    const typed_t typed = typed_value(row, framework, index);

    if ('\0' != refusal[0]
        || (!refused_by_open_mpi && (NULL == typed.text || text_parses(row, typed.text)))) {
        return;
    }
    snprintf(refusal, sizeof(refusal),
             "The parameter %s_adaptib_%s has the value \"%.64s\" (from %s), which is %s. Allowed: "
             "%s%s%s; default: %s. Set it to an allowed value or leave it out.",
             typed.framework, row->name, NULL != typed.text ? typed.text : "?", typed.place,
             kinds[row->type], row->range, '\0' != row->unit[0] ? " " : "", row->unit,
             row->default_text);
}

static mca_base_var_type_t var_type(opal_common_adaptib_type_t type)
{
    switch (type) {
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

static bool has_ended(const opal_common_adaptib_parameter_t *row)
{
    return 0 == row->level;
}

/* The memory that Open MPI stores a row's value in; of an ended parameter, a text that nobody
 * reads. Open MPI frees a string's pointer after components are closed. So a string has a cell of
 * its own in this library, which is never unloaded, and the core gets a copy of the string. A row
 * may be registered again, after MPI_T_finalize for example, and then has the same cell. */
static void *var_storage(const opal_common_adaptib_parameter_t *row)
{
    static char *cells[ROWS];
    size_t count = 0;
    const size_t number = (size_t) (row - opal_common_adaptib_parameters(&count));

    if (OPAL_COMMON_ADAPTIB_TYPE_STRING != row->type && !has_ended(row)) {
        return row->storage;
    }
    if (number >= ROWS) {
        return NULL;
    }
    cells[number] = (char *) row->default_text; /* Open MPI copies it */
    return &cells[number];
}

/* ompi_info does not show an ended parameter. */
static int register_row(const opal_common_adaptib_parameter_t *row)
{
    const bool gone = has_ended(row);
    char help[OPAL_COMMON_ADAPTIB_MCA_TEXT];
    void *storage = var_storage(row);

    if (NULL == storage) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    snprintf(help, sizeof(help), "%s%s%s (default: %s, range: %s)", row->help,
             '\0' != row->unit[0] ? " Unit: " : "", row->unit, row->default_text, row->range);
    return mca_base_var_register(
        "opal", "opal_common", "adaptib", row->name, help,
        gone ? MCA_BASE_VAR_TYPE_STRING : var_type(row->type), NULL, 0,
        gone ? MCA_BASE_VAR_FLAG_INTERNAL : 0,
        gone ? OPAL_INFO_LVL_9 : (mca_base_var_info_lvl_t) (OPAL_INFO_LVL_1 + row->level - 1),
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
    /* Open MPI registers the second component when the first one has opened the core, which holds
     * the copy: it is neither replaced without need, nor freed. */
    if (NULL != *cell && NULL != *(char **) row->storage
        && 0 == strcmp(*cell, *(char **) row->storage)) {
        return OPAL_SUCCESS;
    }
    copy = strdup(NULL != *cell ? *cell : "");
    if (NULL == copy) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    *(char **) row->storage = copy;
    return OPAL_SUCCESS;
}

/* Open MPI gives every BTL a parameter eager_limit, so there is no synonym of that name. */
static bool has_synonym(const opal_common_adaptib_parameter_t *row, const char *framework)
{
    return 0 != strcmp("btl", framework) || 0 != strcmp("eager_limit", row->name);
}

/* Adds what takes the place of an ended parameter that is set, once. */
static void note_ended(const opal_common_adaptib_parameter_t *row, const char *framework, int index)
{
    static bool noted[ROWS];
    size_t count = 0;
    bool *said = &noted[row - opal_common_adaptib_parameters(&count)];
    const typed_t typed = typed_value(row, framework, index);
    const size_t used = strlen(ended);
    char name[128];

    if (NULL == typed.text || *said) {
        return;
    }
    *said = true;
    snprintf(name, sizeof(name), "%s_adaptib_%s", typed.framework, row->name);
    snprintf(ended + used, sizeof(ended) - used,
             "%sThe parameter %s (from %s) has no effect any more. %s Leave it out.",
             used > 0 ? " " : "", NULL != typed.name ? typed.name : name, typed.place, row->help);
}

static int register_synonym(const opal_common_adaptib_parameter_t *row, const char *project,
                            const char *framework, int index, bool refused)
{
    int synonym = mca_base_var_find(project, framework, "adaptib", row->name);

    if (synonym < 0) {
        synonym =
            mca_base_var_register_synonym(index, project, framework, "adaptib", row->name,
                                          has_ended(row) ? MCA_BASE_VAR_SYN_FLAG_INTERNAL : 0);
    }
    if (synonym < 0 && OPAL_ERR_VALUE_OUT_OF_BOUNDS != synonym) {
        return synonym;
    }
    if (has_ended(row)) {
        note_ended(row, framework, index);
    } else {
        check_typed(row, framework, index, refused || synonym < 0);
    }
    return OPAL_SUCCESS;
}

/* Registers the spellings of both components: Open MPI registers the MTL when the BTL has opened
 * the core. */
static int register_parameter(const opal_common_adaptib_parameter_t *row)
{
    static const char *const frameworks[][2] = {{"ompi", "mtl"}, {"opal", "btl"}};
    int index = mca_base_var_find("opal", "opal_common", "adaptib", row->name);
    bool refused = false;

    if (index < 0) {
        index = register_row(row);
    }
    if (OPAL_ERR_VALUE_OUT_OF_BOUNDS == index) {
        /* The row is registered with its default, since Open MPI refused the value. */
        refused = true;
        index = mca_base_var_find("opal", "opal_common", "adaptib", row->name);
    }
    for (int i = 0; index >= 0 && i < 2; ++i) {
        if (has_synonym(row, frameworks[i][1])) {
            const int rc =
                register_synonym(row, frameworks[i][0], frameworks[i][1], index, refused);
            if (OPAL_SUCCESS != rc) {
                return rc;
            }
        }
    }
    if (index < 0) {
        return index;
    }
    return OPAL_COMMON_ADAPTIB_TYPE_STRING == row->type && !has_ended(row) ? copy_string(row, index)
                                                                           : OPAL_SUCCESS;
}

bool opal_common_adaptib_mca_names(const char *selection, const char *component)
{
    const size_t length = strlen(component);

    if (NULL == selection || '^' == selection[0]) {
        return false;
    }
    while ('\0' != *selection) {
        const size_t word = strcspn(selection, ",");
        if (word == length && 0 == strncmp(selection, component, length)) {
            return true;
        }
        selection += word + (',' == selection[word] ? 1 : 0);
    }
    return false;
}

bool opal_common_adaptib_mca_user_set(const mca_base_component_t *component, const char *name)
{
    const int index = mca_base_var_find(component->mca_project_name, component->mca_type_name,
                                        component->mca_component_name, name);
    mca_base_var_source_t source = MCA_BASE_VAR_SOURCE_DEFAULT;

    return index >= 0 && OPAL_SUCCESS == mca_base_var_get_value(index, NULL, &source, NULL)
           && MCA_BASE_VAR_SOURCE_DEFAULT != source;
}

bool opal_common_adaptib_mca_parameters_good(void)
{
    char text[OPAL_COMMON_ADAPTIB_MCA_TEXT];

    if ('\0' != refusal[0]) {
        opal_common_adaptib_mca_say_help("parameter refused", refusal);
        return false;
    }
    if (OPAL_COMMON_ADAPTIB_SUCCESS != opal_common_adaptib_parameters_check(text, sizeof(text))) {
        opal_common_adaptib_mca_say_help("parameter refused", text);
        return false;
    }
    if ('\0' != ended[0]) {
        opal_common_adaptib_mca_say(OPAL_COMMON_ADAPTIB_NOTICE, ended);
        ended[0] = '\0';
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------
 * Counters */

static int counter_get(const mca_base_pvar_t *pvar, void *value, void *object)
{
    const opal_common_adaptib_counter_t *row = pvar->ctx;

    (void) object;
    *(unsigned long long *) value = opal_common_adaptib_counter_value(row);
    return OPAL_SUCCESS;
}

static int register_counter(const opal_common_adaptib_counter_t *row,
                            const mca_base_component_t *component)
{
    char help[OPAL_COMMON_ADAPTIB_MCA_TEXT];
    int rc;

    snprintf(help, sizeof(help), "%s%s%s", row->help, '\0' != row->unit[0] ? " Unit: " : "",
             row->unit);
    rc = mca_base_component_pvar_register(
        component, row->name, help, (mca_base_var_info_lvl_t) (OPAL_INFO_LVL_1 + row->level - 1),
        OPAL_COMMON_ADAPTIB_COUNTER == row->kind ? MCA_BASE_PVAR_CLASS_COUNTER
                                                 : MCA_BASE_PVAR_CLASS_LEVEL,
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

    opal_common_adaptib_mca_see_session();
    for (size_t i = 0; i < count; ++i) {
        rc = register_parameter(&parameters[i]);
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
    opal_common_adaptib_mca_register_events();
    return OPAL_SUCCESS;
}
