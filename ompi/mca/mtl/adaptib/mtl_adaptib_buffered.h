// SPDX-License-Identifier: BSD-3-Clause
/*
 * Buffered sends: MPI_Bsend, MPI_Ibsend and MPI_Bsend_init.
 *
 * pml/cm has its own, which the fast path (mtl_adaptib_shortcut.h) replaces by these, since those
 * of Open MPI 4.1.4 and 5.0 have faults that programs do not meet over pml/ob1: from its second
 * start on, a persistent request sends what its first start copied; and a process with several
 * threads may complete a request twice, and crash.
 *
 * A message without room is copied into the buffer that the program has attached, and sent from
 * there; its place is given back, and its communicator released, when the core has done with it.
 * So each call is complete when it returns, and only persistent ones have a request.
 *
 * Threads: any.
 *
 * May touch: Open MPI's headers and the common glue.
 */
#ifndef MTL_ADAPTIB_BUFFERED_H
#define MTL_ADAPTIB_BUFFERED_H

#include "mtl_adaptib.h"

BEGIN_C_DECLS

/* Copies and sends a message. Returns MPI_ERR_BUFFER if it does not fit the attached buffer. */
int ompi_mtl_adaptib_bsend(const void *buf, size_t count, ompi_datatype_t *datatype, int dst,
                           int tag, ompi_communicator_t *comm);

/* Makes a persistent request. Its start is a send through Open MPI's table of the PML. A start that
 * fails completes the request with an error, so that no wait for it hangs. */
int ompi_mtl_adaptib_bsend_init(const void *buf, size_t count, ompi_datatype_t *datatype, int dst,
                                int tag, ompi_communicator_t *comm, ompi_request_t **request);

END_C_DECLS

#endif /* MTL_ADAPTIB_BUFFERED_H */
