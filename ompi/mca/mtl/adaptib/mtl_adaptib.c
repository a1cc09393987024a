// SPDX-License-Identifier: BSD-3-Clause
/*
 * The module: its table, peers, progress and end.
 */
#include "ompi_config.h"

#include <limits.h>

#include "ompi/mca/bml/base/base.h"
#include "ompi/mca/pml/base/base.h"
#include "opal/runtime/opal_progress.h"

#include "mtl_adaptib.h"
#include "mtl_adaptib_request.h"
#include "mtl_adaptib_shortcut.h"
#include "mtl_adaptib_survivor.h"
#include "mtl_adaptib_wait.h"
#include "mtl_adaptib_way.h"

mca_mtl_adaptib_module_t ompi_mtl_adaptib = {
    .super =
        {
            .mtl_max_contextid = INT_MAX,
            .mtl_max_tag = INT_MAX,
            .mtl_request_size =
                sizeof(mca_mtl_adaptib_request_t) - sizeof(struct mca_mtl_request_t),
            .mtl_flags = OPAL_COMMON_ADAPTIB_MTL_FLAGS,

            .mtl_add_procs = ompi_mtl_adaptib_add_procs,
            .mtl_del_procs = ompi_mtl_adaptib_del_procs,
            .mtl_finalize = ompi_mtl_adaptib_finalize,

            .mtl_send = ompi_mtl_adaptib_send,
            .mtl_isend = ompi_mtl_adaptib_isend,
            .mtl_irecv = ompi_mtl_adaptib_irecv,
            .mtl_iprobe = ompi_mtl_adaptib_iprobe,
            .mtl_imrecv = ompi_mtl_adaptib_imrecv,
            .mtl_improbe = ompi_mtl_adaptib_improbe,

            .mtl_cancel = ompi_mtl_adaptib_cancel,
            .mtl_add_comm = ompi_mtl_adaptib_add_comm,
            .mtl_del_comm = ompi_mtl_adaptib_del_comm,
        },
};

/* Adds the job's processes of this host to the BTLs that this MTL has prepared, as pml/ob1 would;
 * others follow at their first message. BTLs tell of processes that they lose. */
static void add_to_btls(size_t nprocs, struct ompi_proc_t **procs)
{
    opal_bitmap_t reachable;

    OBJ_CONSTRUCT(&reachable, opal_bitmap_t);
    if (OPAL_SUCCESS == opal_bitmap_init(&reachable, (int) nprocs)) {
        (void) mca_bml.bml_add_procs(nprocs, procs, &reachable);
    }
    OBJ_DESTRUCT(&reachable);
    (void) mca_bml.bml_register_error(ompi_mtl_adaptib_survivors_btl_error);
}

/* Does nothing for a process before the first message to it, unless the parameter `connect` says
 * so. */
int ompi_mtl_adaptib_add_procs(struct mca_mtl_base_module_t *mtl, size_t nprocs,
                               struct ompi_proc_t **procs)
{
    (void) mtl;
    if (ompi_mtl_adaptib.prepared_btls && ompi_mtl_adaptib_survives_failures()) {
        add_to_btls(nprocs, procs);
    }
    ompi_mtl_adaptib.ending = false; /* a session may follow another one */
    ompi_mtl_adaptib.selected = true;
    opal_common_adaptib_mca_selected();
    opal_common_adaptib_core_carries(ompi_mtl_adaptib.core, "messages (MTL, under pml/cm)");
    ompi_mtl_adaptib_shortcut_open();
    ompi_mtl_adaptib_wait_open();
    ompi_mtl_adaptib_survivors_install();
    opal_common_adaptib_mca_connect_start(ompi_mtl_adaptib.core);
    return OMPI_SUCCESS;
}

/* Runs once at the end: Open MPI calls it only from MPI_Finalize, when communicators are gone, and
 * before the component is finalized. */
int ompi_mtl_adaptib_del_procs(struct mca_mtl_base_module_t *mtl, size_t nprocs,
                               struct ompi_proc_t **procs)
{
    (void) mtl;
    ompi_mtl_adaptib.ending = true;
    opal_common_adaptib_quiesce_messages(ompi_mtl_adaptib.core);
    for (size_t i = 0; i < nprocs; ++i) {
        ompi_mtl_adaptib_ways_release(procs[i]);
    }
    return OMPI_SUCCESS;
}

/* The core knows a communicator as a number only. */
int ompi_mtl_adaptib_add_comm(struct mca_mtl_base_module_t *mtl, struct ompi_communicator_t *comm)
{
    (void) mtl;
    ompi_mtl_adaptib_way_of_comm(comm);
    return OMPI_SUCCESS;
}

int ompi_mtl_adaptib_del_comm(struct mca_mtl_base_module_t *mtl, struct ompi_communicator_t *comm)
{
    (void) mtl;
    if (OPAL_UNLIKELY(ompi_mtl_adaptib_survives_failures())) {
        ompi_mtl_adaptib_survivors_drain(comm);
    } else if (NULL != ompi_mtl_adaptib.core) {
        opal_common_adaptib_end_context(ompi_mtl_adaptib.core, ompi_mtl_adaptib_context(comm));
    }
    return OMPI_SUCCESS;
}

int ompi_mtl_adaptib_progress(void)
{
    return opal_common_adaptib_progress(ompi_mtl_adaptib.core);
}

int ompi_mtl_adaptib_finalize(struct mca_mtl_base_module_t *mtl)
{
    (void) mtl;
    if (!ompi_mtl_adaptib.selected && ompi_mtl_adaptib_is_named()) {
        opal_common_adaptib_mca_unused(
            "MTL", mca_pml_base_selected_component.pmlm_version.mca_component_name,
            "--mca pml cm, or raise mtl_adaptib_priority");
    }
    ompi_mtl_adaptib.selected = false;
    ompi_mtl_adaptib_survivors_remove();
    ompi_mtl_adaptib_wait_close();
    ompi_mtl_adaptib_shortcut_close();
    if (ompi_mtl_adaptib.prepared_btls) {
        ompi_mtl_adaptib.prepared_btls = false;
        if (NULL != mca_bml.bml_finalize) { /* there may be no BTL after all */
            (void) mca_bml.bml_finalize();
        }
    }
    if (NULL != ompi_mtl_adaptib.core) {
        opal_progress_unregister(ompi_mtl_adaptib_progress);
        opal_common_adaptib_mca_release(ompi_mtl_adaptib.core);
        ompi_mtl_adaptib.core = NULL;
    }
    return OMPI_SUCCESS;
}
