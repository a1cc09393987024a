// SPDX-License-Identifier: BSD-3-Clause
/*
 * Tells whether the caller of MPI waits for the message that the PML hands to the BTL.
 *
 * A message that the device reads from the user's buffer ends with its acknowledgment, so a
 * blocking send would return a round trip later than with a copy. The BTL's interface does not say
 * which sends are blocking. So pml/ob1's entry for them in Open MPI's table of the PML is replaced
 * by one that notes for the time of its call that this thread waits. That takes some 2 ns a
 * blocking send; the entry is replaced only where messages may be gathered.
 *
 * Threads: any, except close, which is called while no thread communicates.
 *
 * May touch: Open MPI's table of the PML, as the BTL's only header of the OMPI layer.
 */
#ifndef BTL_ADAPTIB_WAITS_H
#define BTL_ADAPTIB_WAITS_H

#include "btl_adaptib.h"

BEGIN_C_DECLS

/* Returns false if the caller of MPI is known not to wait. The first call replaces the entry, and
 * so does not know it yet. With another PML than ob1 the answer is always true. */
bool mca_btl_adaptib_waits(void);

/* Restores the entry. */
void mca_btl_adaptib_waits_close(void);

END_C_DECLS

#endif /* BTL_ADAPTIB_WAITS_H */
