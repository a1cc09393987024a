// SPDX-License-Identifier: BSD-3-Clause
/*
 * The component structure that Open MPI finds in mca_btl_adaptib.so, and its functions.
 */
#include "opal_config.h"

#include <stdlib.h>

#include "opal/util/output.h"

#include "btl_adaptib.h"
#include "btl_adaptib_way.h"

static int component_register(void);
static int component_open(void);
static int component_close(void);
static mca_btl_base_module_t **component_init(int *count, bool enable_progress_threads,
                                              bool enable_mpi_threads);

mca_btl_base_component_t mca_btl_adaptib_component = {
    .btl_version =
        {
            MCA_BTL_DEFAULT_VERSION("adaptib"),
            .mca_open_component = component_open,
            .mca_close_component = component_close,
            .mca_register_component_params = component_register,
        },
    .btl_data =
        {
            .param_field = MCA_BASE_METADATA_PARAM_NONE,
        },
    .btl_init = component_init,
    .btl_progress = mca_btl_adaptib_progress,
};

#if defined(MCA_BASE_COMPONENT_INIT)
MCA_BASE_COMPONENT_INIT(opal, btl, adaptib)
#endif

/* Registers the parameters of every BTL first: btl_adaptib_eager_limit is one of them, and is no
 * synonym of the core's. */
static int component_register(void)
{
    const int rc =
        mca_btl_base_param_register(&mca_btl_adaptib_component.btl_version, &mca_btl_adaptib.super);

    return OPAL_SUCCESS != rc
               ? rc
               : opal_common_adaptib_mca_register(&mca_btl_adaptib_component.btl_version);
}

static int component_open(void)
{
    return OPAL_SUCCESS == opal_common_adaptib_mca_version_check() ? OPAL_SUCCESS
                                                                   : OPAL_ERR_NOT_AVAILABLE;
}

static int component_close(void)
{
    return OPAL_SUCCESS;
}

bool mca_btl_adaptib_is_named(void)
{
    return opal_common_adaptib_mca_names(opal_btl_base_framework.framework_selection, "adaptib");
}

static void limit(size_t *value, size_t most)
{
    if (*value > most) {
        *value = most;
    }
}

/* Lowers limits that the user may have set to what one active message can hold. */
static void limits_fit(void)
{
    mca_btl_base_module_t *module = &mca_btl_adaptib.super;

    limit(&module->btl_max_send_size, opal_common_adaptib_active_max(mca_btl_adaptib.core));
    limit(&module->btl_eager_limit, module->btl_max_send_size);
    limit(&module->btl_rndv_eager_limit, module->btl_eager_limit);
}

static void listen_to_cores(void)
{
    for (uint32_t index = 0; index < mca_btl_adaptib.cores; ++index) {
        opal_common_adaptib_core_t *core = mca_btl_adaptib_core(index);

        opal_common_adaptib_active_listen(core, mca_btl_adaptib_receive, core);
        opal_common_adaptib_broken_listen(core, mca_btl_adaptib_broken, core);
    }
}

static mca_btl_base_module_t **component_init(int *count, bool enable_progress_threads,
                                              bool enable_mpi_threads)
{
    mca_btl_base_module_t **modules;
    int rc;

    (void) enable_progress_threads;
    *count = 0;
    rc = opal_common_adaptib_mca_acquire(enable_mpi_threads, mca_btl_adaptib_is_named(),
                                         opal_btl_base_framework.framework_output,
                                         &mca_btl_adaptib.core);
    if (OPAL_SUCCESS != rc) {
        return NULL;
    }
    mca_btl_adaptib.cores = opal_common_adaptib_endpoints(mca_btl_adaptib.core);
    mca_btl_adaptib.devices = opal_common_adaptib_has_devices();
    mca_btl_adaptib.gathers = opal_common_adaptib_active_gathers(mca_btl_adaptib.core);
    limits_fit();
    mca_btl_adaptib.limit =
        opal_common_adaptib_mca_user_set(&mca_btl_adaptib_component.btl_version, "eager_limit")
            ? NULL
            : opal_common_adaptib_active_eager(mca_btl_adaptib.core);
    mca_btl_adaptib_follow_limit();
    modules = malloc(sizeof(*modules)); /* the caller frees it */
    rc = mca_btl_adaptib_lists_open();
    if (NULL == modules || OPAL_SUCCESS != rc) {
        opal_output(0, "adaptib: out of memory for the BTL, which is not used (error %d)", rc);
        free(modules);
        (void) mca_btl_adaptib.super.btl_finalize(&mca_btl_adaptib.super);
        return NULL;
    }
    listen_to_cores();
    mca_btl_adaptib_pml_watch();
    modules[0] = &mca_btl_adaptib.super;
    *count = 1;
    return modules;
}
