// SPDX-License-Identifier: BSD-3-Clause
/*
 * The fast path of contiguous messages from MPI's calls to the core, past pml/cm's requests.
 *
 * pml/cm makes a request with a convertor for each message, even for one that is sent, or has
 * arrived, before its call returns. That takes longer than the core needs for a message of a few
 * bytes (benchmarks/TUNING.md). So if the MTL serves pml/cm directly, without a component in
 * between that counts or logs messages, this file replaces entries of Open MPI's table of the PML
 * (isend, send, isend_init, irecv, recv, irecv_init): contiguous messages go to the core at once,
 * all others take the replaced entries. pml/monitoring and pml/v hook into the same table.
 *
 * - A send that is done when its call returns has no request but ompi_request_empty, as in pml/ob1.
 *   A message without room, and synchronous sends, go to pml/cm. A message that was refused here
 *   does not try again on that way (mtl_adaptib_send.c).
 * - Buffered sends without room, and persistent ones, have a file of their own
 *   (mtl_adaptib_buffered.h).
 * - A receive has a request of this file's: Open MPI's, and the core's. A non-blocking one retains
 *   its communicator, whose number must not be reused before the request has ended, but does not
 *   retain its datatype.
 * - Other persistent requests and receives of matched probes go to pml/cm.
 *
 * Threads. open and close are called while no thread communicates.
 *
 * May touch: Open MPI's headers and the common glue.
 */
#ifndef MTL_ADAPTIB_SHORTCUT_H
#define MTL_ADAPTIB_SHORTCUT_H

#include "ompi_config.h"

BEGIN_C_DECLS

/* Installs the fast path, once. Does nothing if the parameter `shortcut` is false, if another
 * component than pml/cm is called first, if data may lie in memory that the processor does not
 * reach, or if the job is to survive process failures. Called after the PML has been selected. */
void ompi_mtl_adaptib_shortcut_open(void);

/* Removes the fast path, if it is installed. REQUIRES: the core knows no request of a message
 * (opal_common_adaptib_quiesce_messages). */
void ompi_mtl_adaptib_shortcut_close(void);

END_C_DECLS

#endif /* MTL_ADAPTIB_SHORTCUT_H */
