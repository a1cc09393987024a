// SPDX-License-Identifier: BSD-3-Clause
/*
 * Blocking sends of pml/ob1 (btl_adaptib_waits.h).
 */
#include "ompi_config.h"

#include <string.h>

#include "ompi/mca/pml/pml.h"

#include "btl_adaptib_waits.h"

/* OPAL, to which BTLs belong, knows no PML. */
#pragma weak mca_pml

enum {
    UNTRIED,
    REPLACING,
    REPLACED,
    IMPOSSIBLE
};

static int state = UNTRIED;
static mca_pml_base_module_send_fn_t original;
static __thread unsigned sends; /* blocking ones that this thread is in */

static int waiting_send(const void *buf, size_t count, struct ompi_datatype_t *datatype, int dst,
                        int tag, mca_pml_base_send_mode_t mode, struct ompi_communicator_t *comm)
{
    int rc;

    ++sends;
    rc = original(buf, count, datatype, dst, tag, mode, comm);
    --sends;
    return rc;
}

static __opal_attribute_noinline__ void replace(void)
{
    const char *pml = mca_btl_adaptib_pml();
    int expected = UNTRIED;

    if (!__atomic_compare_exchange_n(&state, &expected, REPLACING, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
        return;
    }
    if (NULL == &mca_pml || NULL == pml || 0 != strcmp(pml, "ob1")) {
        __atomic_store_n(&state, IMPOSSIBLE, __ATOMIC_RELEASE);
        return;
    }
    original = mca_pml.pml_send;
    __atomic_store_n(&mca_pml.pml_send, waiting_send, __ATOMIC_RELEASE);
    __atomic_store_n(&state, REPLACED, __ATOMIC_RELEASE);
}

/* A send that began before the entry was replaced may still be in another thread's call, which does
 * not count it: it then ends with its acknowledgment, once. */
bool mca_btl_adaptib_waits(void)
{
    if (OPAL_LIKELY(REPLACED == __atomic_load_n(&state, __ATOMIC_ACQUIRE))) {
        return sends > 0;
    }
    replace();
    return true;
}

void mca_btl_adaptib_waits_close(void)
{
    if (REPLACED == state && waiting_send == mca_pml.pml_send) {
        mca_pml.pml_send = original;
    }
    state = UNTRIED;
}
