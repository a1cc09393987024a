// SPDX-License-Identifier: BSD-3-Clause
/*
 * The short way of contiguous messages from MPI's calls to the core, past pml/cm's requests.
 *
 * pml/cm makes a request with a convertor for each message, also for one that is sent, or has come, before its call returns. That
 * is more than the core takes for a message of a few bytes (test/bench/TUNING.md). So where the MTL serves pml/cm itself, and no
 * component that counts or logs messages in between, four entries of Open MPI's table of the PML (isend, send, irecv, recv) are
 * replaced: what is contiguous goes to the core at once, all else where it went before. pml/monitoring and pml/v hook in at the same
 * table.
 *
 * - A send that is done when its call returns has no request of its own but ompi_request_empty, as in pml/ob1. What finds no room,
 *   synchronous and buffered sends are pml/cm's.
 * - A receive has a request of this file's: Open MPI's, and the core's. A non-blocking one holds its communicator, whose number must
 *   not be another's before the request has ended, and nothing of its datatype.
 * - Persistent requests and receives of matched probes are pml/cm's.
 *
 * Threads. open and close are called while nobody communicates.
 *
 * May touch: Open MPI's headers and the common glue.
 */
#ifndef MTL_ADAPTIB_SHORTCUT_H
#define MTL_ADAPTIB_SHORTCUT_H

#include "ompi_config.h"

BEGIN_C_DECLS

/* Puts the short way in, once; does nothing where something else than pml/cm is asked first, or where data may lie in memory that
 * the processor does not reach. Called when the PML has been selected. */
void ompi_mtl_adaptib_shortcut_open(void);

/* Takes it out again, if it is in. REQUIRES: the core knows no request of a message (opal_common_adaptib_messages_end). */
void ompi_mtl_adaptib_shortcut_close(void);

END_C_DECLS

#endif /* MTL_ADAPTIB_SHORTCUT_H */
