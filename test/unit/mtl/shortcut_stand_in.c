// SPDX-License-Identifier: BSD-3-Clause
/*
 * The stand-in for the core below the fast path's receives (shortcut_stand_in.h).
 */
#include "unit/mtl/shortcut_stand_in.h"

#include "ompi_config.h"

#include <string.h>

#include "ompi/datatype/ompi_datatype.h"
#include "ompi/mca/pml/base/base.h"
#include "ompi/mca/pml/pml.h"
#include "ompi/request/request.h"

#include "ompi/mca/mtl/adaptib/mtl_adaptib_request.h"
#include "ompi/mca/mtl/adaptib/mtl_adaptib_shortcut.h"

#include "unit/mtl/one_peer.h"

static uint64_t peer; /* its address is the handle */
static ompi_communicator_t *comm;
static ompi_datatype_t datatype;
static ompi_request_t *receives[SHORTCUT_MOST_RECEIVES];
static opal_common_adaptib_request_t *started[SHORTCUT_MOST_RECEIVES];
static int count;

int opal_common_adaptib_recv_contig(opal_common_adaptib_core_t *core,
                                    opal_common_adaptib_peer_t *from, uint32_t context,
                                    int32_t source, int32_t tag, void *base, size_t bytes,
                                    opal_common_adaptib_request_t *request)
{
    (void) core;
    (void) from;
    (void) context;
    (void) source;
    (void) tag;
    (void) base;
    (void) bytes;
    started[count] = request;
    return OPAL_COMMON_ADAPTIB_SUCCESS;
}

/* Needed to link; no test calls them. */
int opal_common_adaptib_try_send(opal_common_adaptib_core_t *core, opal_common_adaptib_peer_t *to,
                                 uint32_t context, int32_t source, int32_t tag, const void *base,
                                 size_t bytes)
{
    (void) core;
    (void) to;
    (void) context;
    (void) source;
    (void) tag;
    (void) base;
    (void) bytes;
    return OPAL_COMMON_ADAPTIB_AGAIN;
}

int opal_common_adaptib_try_isend(opal_common_adaptib_core_t *core, opal_common_adaptib_peer_t *to,
                                  uint32_t context, int32_t source, int32_t tag, const void *base,
                                  size_t bytes)
{
    return opal_common_adaptib_try_send(core, to, context, source, tag, base, bytes);
}

void opal_common_adaptib_expect_reuse(opal_common_adaptib_core_t *core,
                                      opal_common_adaptib_peer_t *to, const void *base,
                                      size_t bytes)
{
    (void) core;
    (void) to;
    (void) base;
    (void) bytes;
}

bool ompi_mtl_adaptib_reuses(const struct ompi_communicator_t *of)
{
    (void) of;
    return false;
}

int ompi_mtl_adaptib_way_from_any(struct ompi_communicator_t *of, int tag, mtl_adaptib_way_t *way)
{
    (void) of;
    (void) tag;
    (void) way;
    return OMPI_ERROR;
}

int ompi_mtl_adaptib_cancel_request(struct ompi_request_t *request,
                                    opal_common_adaptib_core_t *endpoint,
                                    opal_common_adaptib_request_t *core)
{
    (void) request;
    (void) endpoint;
    (void) core;
    return OMPI_ERROR;
}

/* The fast path is installed only over pml/cm, where no memory is a device's. */
static void choose_components(void)
{
    strcpy(mca_pml_base_selected_component.pmlm_version.mca_component_name, "cm");
#if OMPI_MAJOR_VERSION >= 5
    strcpy(opal_accelerator_base_selected_component.base_version.mca_component_name, "null");
#endif
}

void shortcut_stand_in_open(void)
{
    comm = one_peer_open(&peer);
    datatype.super.flags = OPAL_DATATYPE_FLAG_CONTIGUOUS | OPAL_DATATYPE_FLAG_NO_GAPS;
    count = 0;
    ompi_mtl_adaptib.endpoints = 1;
    ompi_mtl_adaptib.shortcut = true;
    choose_components();
    (void) opal_set_using_threads(true);
}

void shortcut_stand_in_close(void)
{
    (void) opal_set_using_threads(false);
    one_peer_close();
}

bool shortcut_stand_in_begin(void)
{
    ompi_mtl_adaptib_shortcut_open();
    return ompi_mtl_adaptib.shortcut_installed;
}

void shortcut_stand_in_finish(void)
{
    ompi_mtl_adaptib_shortcut_close();
}

int shortcut_stand_in_receive(void)
{
    if (SHORTCUT_MOST_RECEIVES == count
        || OMPI_SUCCESS != mca_pml.pml_irecv(NULL, 0, &datatype, 0, 1, comm, &receives[count])) {
        return -1;
    }
    return count++;
}

void shortcut_stand_in_end(int number)
{
    started[number]->status = OPAL_COMMON_ADAPTIB_SUCCESS;
    started[number]->complete(started[number]);
}

void shortcut_stand_in_free(int number)
{
    (void) receives[number]->req_free(&receives[number]);
}

int shortcut_stand_in_references(void)
{
    return one_peer_references();
}
