/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A communicator whose only remote process is a peer of the MTL, for stand-ins.
 *
 * Threads: one at a time.
 * May touch: Open MPI's headers and libraries.
 */
#ifndef ADAPTIB_TEST_UNIT_MTL_ONE_PEER_H
#define ADAPTIB_TEST_UNIT_MTL_ONE_PEER_H

#include "ompi_config.h"

#include "ompi/communicator/communicator.h"

/* Makes the communicator, which one reference keeps. `peer`: the handle of rank 0. */
ompi_communicator_t* one_peer_open(void* peer);
/* Takes it away, whoever still refers to it. */
void one_peer_close(void);
int one_peer_references(void);

#endif /* ADAPTIB_TEST_UNIT_MTL_ONE_PEER_H */
