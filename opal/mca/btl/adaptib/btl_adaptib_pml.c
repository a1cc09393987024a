// SPDX-License-Identifier: BSD-3-Clause
/*
 * The PML above the BTL: tells the user if a component that the user named is not used.
 *
 * Open MPI initializes BTLs before it chooses a PML, and then tells them nothing, so the choice is
 * looked up in one of the first passes of progress. OPAL, to which BTLs belong, knows no PML: the
 * symbol is weak, and nothing is said where it is missing.
 */
#include "opal_config.h"

#include <stdlib.h>
#include <string.h>

#include "opal/runtime/opal_progress.h"

#include "btl_adaptib.h"

/* Begins with this structure: it is an mca_pml_base_component_t. */
extern mca_base_component_t mca_pml_base_selected_component __attribute__((weak));

const char *mca_btl_adaptib_pml(void)
{
    const mca_base_component_t *selected = &mca_pml_base_selected_component;

    return NULL != selected && '\0' != selected->mca_component_name[0]
               ? selected->mca_component_name
               : NULL;
}

/* --mca mtl adaptib. Without pml/cm, the framework of the MTLs is not there. */
static bool mtl_is_named(void)
{
    return opal_common_adaptib_mca_names(getenv("OMPI_MCA_mtl"), "adaptib");
}

/* True for pml/cm, over which osc/rdma may use the BTL, and for PMLs that lie above another one. */
static bool may_use_us(const char *pml)
{
    return opal_common_adaptib_mca_names("cm,monitoring,v", pml);
}

static int look_at_pml(void)
{
    const char *pml = mca_btl_adaptib_pml();

    if (NULL == pml) {
        return 0;
    }
    mca_btl_adaptib_pml_forget();
    if (may_use_us(pml)) {
        return 0;
    }
    if (mtl_is_named()) {
        opal_common_adaptib_mca_unused("MTL", pml, "--mca pml cm");
    }
    if (mca_btl_adaptib_is_named() && 0 != strcmp(pml, "ob1")) {
        opal_common_adaptib_mca_unused("BTL", pml, "--mca pml ob1");
    }
    return 0;
}

void mca_btl_adaptib_pml_watch(void)
{
    if (mca_btl_adaptib_is_named() || mtl_is_named()) {
        (void) opal_progress_register(look_at_pml);
    }
}

void mca_btl_adaptib_pml_forget(void)
{
    (void) opal_progress_unregister(look_at_pml);
}
