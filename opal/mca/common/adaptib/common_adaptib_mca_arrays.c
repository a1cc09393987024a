// SPDX-License-Identifier: BSD-3-Clause
/*
 * Counters by rail and by path as arrays for MPI_T (common_adaptib_mca_parts.h). Each array is a
 * family of rows of the counters' table, "rail_bytes_0", "rail_bytes_1" ..., and lies in a category
 * of its own with a variable `names`, which enumerates what the elements belong to: element i of
 * each array is that of the enumeration's item i. The rails are known once the core is open, so the
 * variables come into being in MPI_Init.
 *
 * Threads: one registers; any reads.
 */
#include "opal_config.h"

#include <stdio.h>
#include <string.h>

#include "opal/constants.h"
#include "opal/mca/base/mca_base_pvar.h"
#include "opal/mca/base/mca_base_var_enum.h"
#include "opal/mca/base/mca_base_var_group.h"

#include "common_adaptib_mca_parts.h"

enum {
    MOST_ELEMENTS = 16,
    NAME_BYTES = 64
};

typedef struct {
    const char *category;
    const char *about;  /* the category */
    const char *name;   /* of the array, within the category */
    const char *family; /* names of its rows, without their numbers */
    int elements;
    const opal_common_adaptib_counter_t *rows; /* the first; NULL: not registered */
} array_t;

static array_t arrays[] = {
    {.category = "adaptib_rails",
     .about = "Rails of this process, in the order of the variable names",
     .name = "bytes",
     .family = "rail_bytes_"},
    {.category = "adaptib_paths",
     .about = "Paths to a peer, in the order of the variable names",
     .name = "weights",
     .family = "path_weight_"},
};

static int values_get(const mca_base_pvar_t *pvar, void *value, void *object)
{
    const array_t *array = pvar->ctx;
    unsigned long long *values = value;

    (void) object;
    for (int i = 0; i < array->elements; ++i) {
        values[i] = opal_common_adaptib_counter_value(&array->rows[i]);
    }
    return OPAL_SUCCESS;
}

static int numbers_get(const mca_base_pvar_t *pvar, void *value, void *object)
{
    const array_t *array = pvar->ctx;
    int *numbers = value;

    (void) object;
    for (int i = 0; i < array->elements; ++i) {
        numbers[i] = i;
    }
    return OPAL_SUCCESS;
}

static int tell_elements(mca_base_pvar_t *pvar, mca_base_pvar_event_t event, void *object,
                         int *count)
{
    const array_t *array = pvar->ctx;

    (void) object;
    if (MCA_BASE_PVAR_HANDLE_BIND == event) {
        *count = array->elements;
    }
    return OPAL_SUCCESS;
}

/* The first row of the family; its others follow it. */
static const opal_common_adaptib_counter_t *first_row(const char *family)
{
    size_t count = 0;
    const opal_common_adaptib_counter_t *rows = opal_common_adaptib_counters(&count);
    char name[NAME_BYTES];

    snprintf(name, sizeof(name), "%s0", family);
    for (size_t i = 0; i < count; ++i) {
        if (0 == strcmp(rows[i].name, name)) {
            return &rows[i];
        }
    }
    return NULL;
}

static int register_names(array_t *array, char names[][NAME_BYTES])
{
    mca_base_var_enum_value_t values[MOST_ELEMENTS + 1];
    mca_base_var_enum_t *enumerator = NULL;
    int rc;

    memset(values, 0, sizeof(values));
    for (int i = 0; i < array->elements; ++i) {
        values[i].value = i;
        values[i].string = names[i];
    }
    rc = mca_base_var_enum_create(array->category, values, &enumerator);
    if (OPAL_SUCCESS != rc) {
        return rc;
    }
    rc = mca_base_pvar_register(
        "opal", "common", array->category, "names",
        "What the elements of the arrays of this category belong to, in their order",
        OPAL_INFO_LVL_5, MCA_BASE_PVAR_CLASS_STATE, MCA_BASE_VAR_TYPE_INT, enumerator,
        MCA_BASE_VAR_BIND_NO_OBJECT, MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS,
        numbers_get, NULL, tell_elements, array);
    OBJ_RELEASE(enumerator);
    return rc;
}

static int register_array(array_t *array, char names[][NAME_BYTES])
{
    const opal_common_adaptib_counter_t *row = array->rows;
    char help[OPAL_COMMON_ADAPTIB_MCA_TEXT];
    int rc;

    rc = mca_base_var_group_register("opal", "common", array->category, array->about);
    if (rc < 0) {
        return rc;
    }
    rc = register_names(array, names);
    if (rc < 0) {
        return rc;
    }
    snprintf(help, sizeof(help), "Of each element: %s Unit: %s", row->help, row->unit);
    return mca_base_pvar_register(
        "opal", "common", array->category, array->name, help,
        (mca_base_var_info_lvl_t) (OPAL_INFO_LVL_1 + row->level - 1),
        OPAL_COMMON_ADAPTIB_COUNTER == row->kind ? MCA_BASE_PVAR_CLASS_COUNTER
                                                 : MCA_BASE_PVAR_CLASS_LEVEL,
        MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL, MCA_BASE_VAR_BIND_NO_OBJECT,
        MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, values_get, NULL,
        tell_elements, array);
}

static int name_rails(opal_common_adaptib_core_t *core, char names[][NAME_BYTES])
{
    int count = 0;

    while (count < MOST_ELEMENTS
           && opal_common_adaptib_rail_name(core, (uint32_t) count, names[count], NAME_BYTES)) {
        ++count;
    }
    return count;
}

static int name_paths(char names[][NAME_BYTES])
{
    for (int i = 0; i < MOST_ELEMENTS; ++i) {
        snprintf(names[i], NAME_BYTES, "path %d", i);
    }
    return MOST_ELEMENTS;
}

void opal_common_adaptib_mca_register_arrays(opal_common_adaptib_core_t *core)
{
    char names[MOST_ELEMENTS][NAME_BYTES];

    for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); ++i) {
        array_t *array = &arrays[i];
        array->rows = first_row(array->family);
        array->elements = 0 == i ? name_rails(core, names) : name_paths(names);
        if (NULL != array->rows && array->elements > 0) {
            (void) register_array(array, names);
        }
    }
}
