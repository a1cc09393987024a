// SPDX-License-Identifier: BSD-3-Clause
/*
 * The communicator of the MTL's stand-ins (one_peer.h).
 */
#include "unit/mtl/one_peer.h"

#include "ompi/group/group.h"
#include "ompi/proc/proc.h"

static ompi_proc_t process;
static ompi_proc_t *processes[] = {&process};
static ompi_group_t group;
static ompi_communicator_t comm;

ompi_communicator_t *one_peer_open(void *peer)
{
    process.proc_endpoints[OMPI_PROC_ENDPOINT_TAG_MTL] = peer;
    group.grp_flags = OMPI_GROUP_DENSE;
    group.grp_proc_count = 1;
    group.grp_proc_pointers = processes;
    OBJ_CONSTRUCT(&comm.super, opal_infosubscriber_t);
    comm.c_remote_group = &group;
    return &comm;
}

void one_peer_close(void)
{
    ((opal_object_t *) &comm)->obj_reference_count = 1; /* also if a test has failed */
    OBJ_DESTRUCT(&comm.super);
}

int one_peer_references(void)
{
    return ((opal_object_t *) &comm)->obj_reference_count;
}
