// SPDX-License-Identifier: BSD-3-Clause
/*
 * The component structure that Open MPI finds in mca_mtl_adaptib.so, and its functions.
 */
#include "ompi_config.h"

#include "ompi/mca/bml/base/base.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/mca/btl/base/base.h"
#include "opal/runtime/opal_progress.h"
#include "opal/util/output.h"

#include "mtl_adaptib.h"
#include "mtl_adaptib_data.h"
#include "mtl_adaptib_wait.h"

static int component_register(void);
static int component_open(void);
static int component_close(void);
static int component_query(mca_base_module_t **module, int *priority);
static mca_mtl_base_module_t *component_init(OPAL_COMMON_ADAPTIB_MTL_INIT_ARGS);

mca_mtl_base_component_t mca_mtl_adaptib_component = {
    .mtl_version =
        {
            MCA_MTL_BASE_VERSION_2_0_0,

            .mca_component_name = "adaptib",
            MCA_BASE_MAKE_VERSION(component, OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION,
                                  OMPI_RELEASE_VERSION),
            .mca_open_component = component_open,
            .mca_close_component = component_close,
            .mca_query_component = component_query,
            .mca_register_component_params = component_register,
        },
    .mtl_data =
        {
            .param_field = MCA_BASE_METADATA_PARAM_NONE,
        },
    .mtl_init = component_init,
};

#if defined(MCA_BASE_COMPONENT_INIT)
MCA_BASE_COMPONENT_INIT(ompi, mtl, adaptib)
#endif

/* pml/cm's priority is that of its MTL. pml/ob1 has 20, pml/ucx 51: adaptib runs only if the user
 * names it (or gives it a higher priority). */
enum {
    PRIORITY = 10,
    PRIORITY_IF_NAMED = 60
};

static int component_priority = PRIORITY;

static int component_register(void)
{
    int rc = mca_base_component_var_register(
        &mca_mtl_adaptib_component.mtl_version, "priority",
        "Priority of the adaptib MTL, which pml/cm adopts as its own; pml/ob1 has 20. If mtl names "
        "adaptib (--mca mtl adaptib) and this parameter is not set, the priority is 60, so that "
        "adaptib is used. (default: 10, range: -2147483648..2147483647)",
        MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, OPAL_INFO_LVL_3, MCA_BASE_VAR_SCOPE_READONLY,
        &component_priority);

    if (rc >= 0) {
        ompi_mtl_adaptib.shortcut = true;
        rc = mca_base_component_var_register(
            &mca_mtl_adaptib_component.mtl_version, "shortcut",
            "Fast path of contiguous messages. true: MPI calls hand them to adaptib directly, "
            "without requests of pml/cm. false: all messages go through pml/cm. (default: true, "
            "range: true|false)",
            MCA_BASE_VAR_TYPE_BOOL, NULL, 0, 0, OPAL_INFO_LVL_6, MCA_BASE_VAR_SCOPE_READONLY,
            &ompi_mtl_adaptib.shortcut);
    }
    return rc < 0 ? rc : opal_common_adaptib_mca_register(&mca_mtl_adaptib_component.mtl_version);
}

static int component_open(void)
{
    return OPAL_SUCCESS == opal_common_adaptib_mca_version_check() ? OMPI_SUCCESS
                                                                   : OMPI_ERR_NOT_AVAILABLE;
}

static int component_close(void)
{
    return OMPI_SUCCESS;
}

bool ompi_mtl_adaptib_is_named(void)
{
    return opal_common_adaptib_mca_names(ompi_mtl_base_framework.framework_selection, "adaptib");
}

static int component_query(mca_base_module_t **module, int *priority)
{
    *module = (mca_base_module_t *) &ompi_mtl_adaptib.super;
    *priority = component_priority;
    if (ompi_mtl_adaptib_is_named()
        && !opal_common_adaptib_mca_user_set(&mca_mtl_adaptib_component.mtl_version, "priority")) {
        *priority = PRIORITY_IF_NAMED;
    }
    return OMPI_SUCCESS;
}

static bool user_wants_us(void)
{
    const int index = mca_base_var_find("ompi", "pml", NULL, NULL);
    char **pml = NULL;

    if (ompi_mtl_adaptib_is_named()) {
        return true;
    }
    return index >= 0 && OPAL_SUCCESS == mca_base_var_get_value(index, &pml, NULL, NULL)
           && NULL != pml && opal_common_adaptib_mca_names(*pml, "cm");
}

/* Initializes the job's BTLs: for osc/rdma, if the user named ours; in a job that survives failures
 * Open MPI tells of them over BTLs. The BTL reports its own failure. */
static void prepare_btls(bool enable_progress_threads, bool enable_mpi_threads)
{
    if (OPAL_COMMON_ADAPTIB_MTL_PREPARES_BTLS && !mca_bml_base_inited()
        && (ompi_mtl_adaptib_survives_failures()
            || opal_common_adaptib_mca_names(opal_btl_base_framework.framework_selection,
                                             "adaptib"))) {
        ompi_mtl_adaptib.prepared_btls =
            OMPI_SUCCESS == mca_bml_base_init(enable_progress_threads, enable_mpi_threads);
    }
}

static mca_mtl_base_module_t *component_init(OPAL_COMMON_ADAPTIB_MTL_INIT_ARGS)
{
    int rc;

    OPAL_COMMON_ADAPTIB_MTL_INIT_NO_DEVICES;
    rc = opal_common_adaptib_mca_acquire(enable_mpi_threads, user_wants_us(),
                                         ompi_mtl_base_framework.framework_output,
                                         &ompi_mtl_adaptib.core);
    if (OPAL_SUCCESS != rc) {
        return NULL;
    }
    rc = opal_progress_register(ompi_mtl_adaptib_progress);
    if (OPAL_SUCCESS != rc) {
        opal_common_adaptib_mca_release(ompi_mtl_adaptib.core);
        ompi_mtl_adaptib.core = NULL;
        opal_output(
            0, "adaptib: Open MPI refused the progress function; the MTL is not used (error %d)",
            rc);
        return NULL;
    }
    opal_common_adaptib_use_accelerators(ompi_mtl_adaptib.core, &ompi_mtl_adaptib_accelerators);
    ompi_mtl_adaptib.endpoints = opal_common_adaptib_endpoints(ompi_mtl_adaptib.core);
    prepare_btls(enable_progress_threads, enable_mpi_threads);
    return &ompi_mtl_adaptib.super;
}
