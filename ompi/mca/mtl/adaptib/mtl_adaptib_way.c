// SPDX-License-Identifier: BSD-3-Clause
/*
 * The way of a message where a process has several endpoints, and at first contact
 * (mtl_adaptib_way.h).
 */
#include "ompi_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ompi/info/info.h"

#include "mtl_adaptib_way.h"

/* Open MPI exports it, but not in each of its builds. */
#pragma weak ompi_comm_assert_subscribe

/* Kept of a communicator, in c_pml_comm, which pml/cm leaves to the MTL: its key, a bit for each
 * thing by which it is spread, and whether its buffers are used again. */
enum {
    BY_SOURCE = 1,
    BY_TAG = 2,
    REUSES = 4,
    KEY_SHIFT = 3
};

static inline uintptr_t word_of(const struct ompi_communicator_t *comm)
{
    return (uintptr_t) comm->c_pml_comm;
}

/* Open MPI's own messages have negative tags other than MPI_ANY_TAG. */
static bool is_not_spread(int tag)
{
    return tag < 0 && MPI_ANY_TAG != tag;
}

static uint32_t key_of(const struct ompi_communicator_t *comm, int source, int tag)
{
    const uintptr_t word = word_of(comm);
    const uint32_t key = (uint32_t) (word >> KEY_SHIFT);

    if (is_not_spread(tag)) {
        return key;
    }
    return key + (0 != (word & BY_SOURCE) ? (uint32_t) source : 0)
           + (0 != (word & BY_TAG) ? (uint32_t) tag : 0);
}

/* Subscribes to the asserts, so that MPI_Comm_get_info returns them; returns what the communicator
 * is spread by. */
static uintptr_t spread_of(struct ompi_communicator_t *comm)
{
    static const int32_t asserts[] = {
        OMPI_COMM_ASSERT_NO_ANY_SOURCE,
        OMPI_COMM_ASSERT_NO_ANY_TAG,
        OMPI_COMM_ASSERT_ALLOW_OVERTAKE,
#if defined(OMPI_COMM_ASSERT_NO_ACCEL_BUF) /* since 6.0 */
        OMPI_COMM_ASSERT_NO_ACCEL_BUF,
#endif
        OMPI_COMM_ASSERT_EXACT_LENGTH
    };

    if (NULL == ompi_comm_assert_subscribe) {
        return 0;
    }
    for (size_t i = 0; i < sizeof(asserts) / sizeof(asserts[0]); ++i) {
        ompi_comm_assert_subscribe(comm, asserts[i]);
    }
    return (OMPI_COMM_CHECK_ASSERT_NO_ANY_SOURCE(comm) ? BY_SOURCE : 0)
           | (OMPI_COMM_CHECK_ASSERT_NO_ANY_TAG(comm) ? BY_TAG : 0);
}

static bool info_of(const struct ompi_communicator_t *comm, const char *name, char *text,
                    size_t size)
{
    return NULL != comm->super.s_info
           && opal_common_adaptib_info_get(comm->super.s_info, name, text, size);
}

static uintptr_t reuse_of(const struct ompi_communicator_t *comm)
{
    char text[8];

    if (!info_of(comm, "adaptib_assert_buffer_reuse", text, sizeof(text))
        || 0 != strcmp(text, "true")) {
        return 0;
    }
    ompi_mtl_adaptib.reuse_asserted = true;
    return REUSES;
}

void ompi_mtl_adaptib_way_of_comm(struct ompi_communicator_t *comm)
{
    uint32_t key = (uint32_t) OPAL_COMMON_ADAPTIB_COMM_CID(comm);
    char text[16];

    if (info_of(comm, "adaptib_endpoint", text, sizeof(text))) {
        key = (uint32_t) strtoul(text, NULL, 0);
    }
    comm->c_pml_comm = (void *) ((uintptr_t) key << KEY_SHIFT | spread_of(comm) | reuse_of(comm));
}

bool ompi_mtl_adaptib_reuses(const struct ompi_communicator_t *comm)
{
    return 0 != (word_of(comm) & REUSES);
}

bool ompi_mtl_adaptib_is_spread(const struct ompi_communicator_t *comm)
{
    return 0 != (word_of(comm) & (BY_SOURCE | BY_TAG));
}

/* Returns an error, and says why, if messages with the tag are spread by what is wild. */
static int check_wildcards(const struct ompi_communicator_t *comm, bool any_source, int tag)
{
    const uintptr_t wild =
        (any_source ? BY_SOURCE : 0) | (MPI_ANY_TAG == tag ? (uintptr_t) BY_TAG : 0);
    char text[512];
    bool by_source;

    if (is_not_spread(tag) || 0 == (word_of(comm) & wild)) {
        return OMPI_SUCCESS;
    }
    by_source = 0 != (word_of(comm) & wild & BY_SOURCE);
    snprintf(text, sizeof(text),
             "A receive or probe with %s fails on the communicator \"%s\", which was made with the "
             "info key %s: its messages are spread over several endpoints. A later "
             "MPI_Comm_set_info does not change that. Make the communicator without the key, or "
             "start the job with one endpoint (--mca opal_common_adaptib_endpoints 1).",
             by_source ? "MPI_ANY_SOURCE" : "MPI_ANY_TAG", comm->c_name,
             by_source ? "mpi_assert_no_any_source" : "mpi_assert_no_any_tag");
    opal_common_adaptib_mca_say(OPAL_COMMON_ADAPTIB_FAILURE, text);
    return OMPI_ERR_BAD_PARAM;
}

int ompi_mtl_adaptib_way_from_any(struct ompi_communicator_t *comm, int tag, mtl_adaptib_way_t *way)
{
    way->core = opal_common_adaptib_endpoint(ompi_mtl_adaptib.core,
                                             key_of(comm, 0, tag) % ompi_mtl_adaptib.endpoints);
    way->peer = NULL;
    return check_wildcards(comm, true, tag);
}

static mtl_adaptib_peers_t *table_of(void *entry)
{
    return (mtl_adaptib_peers_t *) ((uintptr_t) entry & ~(uintptr_t) 1);
}

/* Replaces an empty entry; returns the one that is there then, as another thread may be faster. */
static void *set_entry(void **entry, void *made, bool is_table)
{
    void *there = NULL;

    if (__atomic_compare_exchange_n(entry, &there, made, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE)) {
        return made;
    }
    if (is_table) {
        free(table_of(made));
    }
    return there;
}

/* Contacts a process for the first time. */
static int make_entry(struct ompi_proc_t *proc, void **entry)
{
    const uint64_t name = opal_common_adaptib_mca_name(proc->super.proc_name);
    uint32_t theirs = 1;
    uint32_t count;
    mtl_adaptib_peers_t *table;
    opal_common_adaptib_peer_t *peer;
    int rc;

    /* An unknown process has one endpoint, whose look-up says what is wrong. */
    (void) opal_common_adaptib_peer_endpoints(ompi_mtl_adaptib.core, name, &theirs);
    count = theirs > ompi_mtl_adaptib.endpoints ? theirs : ompi_mtl_adaptib.endpoints;
    if (1 == count) {
        rc = opal_common_adaptib_peer_get(ompi_mtl_adaptib.core, name, &peer);
        if (OPAL_COMMON_ADAPTIB_SUCCESS == rc) {
            (void) set_entry(entry, peer, false);
        }
        return rc;
    }
    table = calloc(1, sizeof(*table) + count * sizeof(table->peers[0]));
    if (NULL == table) {
        return OPAL_COMMON_ADAPTIB_NO_MEMORY;
    }
    table->theirs = theirs;
    table->count = count;
    (void) set_entry(entry, (void *) ((uintptr_t) table | 1), true);
    return OPAL_COMMON_ADAPTIB_SUCCESS;
}

static int find_in_table(mtl_adaptib_peers_t *table, struct ompi_proc_t *proc, uint32_t key,
                         mtl_adaptib_way_t *way)
{
    opal_common_adaptib_peer_t **slot = &table->peers[key % table->count];
    int rc;

    way->core =
        opal_common_adaptib_endpoint(ompi_mtl_adaptib.core, key % ompi_mtl_adaptib.endpoints);
    way->peer = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
    if (OPAL_LIKELY(NULL != way->peer)) {
        return OPAL_COMMON_ADAPTIB_SUCCESS;
    }
    rc = opal_common_adaptib_peer_at(way->core, opal_common_adaptib_mca_name(proc->super.proc_name),
                                     key % table->theirs, &way->peer);
    if (OPAL_COMMON_ADAPTIB_SUCCESS == rc) {
        __atomic_store_n(slot, way->peer, __ATOMIC_RELEASE);
    }
    return rc;
}

int ompi_mtl_adaptib_way_with_care(struct ompi_communicator_t *comm, struct ompi_proc_t *proc,
                                   int source, int tag, mtl_adaptib_way_t *way)
{
    void **entry = &proc->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_MTL];
    void *there = __atomic_load_n(entry, __ATOMIC_ACQUIRE);
    int rc = OPAL_COMMON_ADAPTIB_SUCCESS;

    if (NULL == there) {
        rc = make_entry(proc, entry);
        if (OPAL_COMMON_ADAPTIB_SUCCESS != rc) {
            return opal_common_adaptib_mca_error(rc);
        }
        there = __atomic_load_n(entry, __ATOMIC_ACQUIRE);
    }
    if (ompi_mtl_adaptib_is_table(there)) {
        rc = check_wildcards(comm, false, tag);
        if (OMPI_SUCCESS != rc) {
            return rc;
        }
        rc = find_in_table(table_of(there), proc, key_of(comm, source, tag), way);
        return opal_common_adaptib_mca_error(rc);
    }
    way->core = ompi_mtl_adaptib.core;
    way->peer = there;
    return OMPI_SUCCESS;
}

void ompi_mtl_adaptib_ways_release(struct ompi_proc_t *proc)
{
    void *there = __atomic_exchange_n(&proc->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_MTL], NULL,
                                      __ATOMIC_ACQ_REL);
    mtl_adaptib_peers_t *table;

    if (!ompi_mtl_adaptib_is_table(there)) {
        if (NULL != there) {
            opal_common_adaptib_peer_release(ompi_mtl_adaptib.core, there);
        }
        return;
    }
    table = table_of(there);
    for (uint32_t key = 0; key < table->count; ++key) {
        if (NULL != table->peers[key]) {
            opal_common_adaptib_peer_release(
                opal_common_adaptib_endpoint(ompi_mtl_adaptib.core,
                                             key % ompi_mtl_adaptib.endpoints),
                table->peers[key]);
        }
    }
    free(table);
}
