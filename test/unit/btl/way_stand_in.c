// SPDX-License-Identifier: BSD-3-Clause
/*
 * The stand-in for the core's C interface (way_stand_in.h). Handles of cores and peers are
 * addresses in two tables.
 */
#include "unit/btl/way_stand_in.h"

#include "opal_config.h"

#include <stdlib.h>
#include <string.h>

#include "opal/mca/btl/adaptib/btl_adaptib_way.h"

static char core_table[WAY_MOST_CORES];
static char peer_table[WAY_MOST_CORES][WAY_MOST_CORES]; /* by core, by core of the other process */

static mca_btl_base_endpoint_t *endpoint;
static opal_proc_t process;

mca_btl_adaptib_module_t mca_btl_adaptib;
way_stand_in_t way_stand_in;

static uint32_t number_of(const opal_common_adaptib_core_t *core)
{
    return (uint32_t) ((const char *) core - core_table);
}

opal_common_adaptib_core_t *opal_common_adaptib_endpoint(opal_common_adaptib_core_t *core,
                                                         uint32_t index)
{
    (void) core;
    return (opal_common_adaptib_core_t *) &core_table[index];
}

int opal_common_adaptib_peer_endpoints(opal_common_adaptib_core_t *core, uint64_t name,
                                       uint32_t *count)
{
    (void) core;
    (void) name;
    ++way_stand_in.endpoints_calls;
    if (OPAL_COMMON_ADAPTIB_SUCCESS == way_stand_in.endpoints_code) {
        *count = way_stand_in.theirs;
    }
    return way_stand_in.endpoints_code;
}

int opal_common_adaptib_peer_at(opal_common_adaptib_core_t *core, uint64_t name, uint32_t theirs,
                                opal_common_adaptib_peer_t **peer)
{
    (void) name;
    ++way_stand_in.peer_calls;
    if (OPAL_COMMON_ADAPTIB_SUCCESS == way_stand_in.peer_code) {
        *peer = (opal_common_adaptib_peer_t *) &peer_table[number_of(core)][theirs];
    }
    return way_stand_in.peer_code;
}

void opal_common_adaptib_peer_release(opal_common_adaptib_core_t *core,
                                      opal_common_adaptib_peer_t *peer)
{
    (void) core;
    (void) peer;
    ++way_stand_in.releases;
}

bool way_stand_in_open(uint32_t cores)
{
    memset(&way_stand_in, 0, sizeof(way_stand_in));
    way_stand_in.theirs = 1;
    mca_btl_adaptib.core = (opal_common_adaptib_core_t *) core_table;
    mca_btl_adaptib.cores = cores;
    endpoint = calloc(1, sizeof(*endpoint) + cores * sizeof(endpoint->others[0]));
    if (NULL == endpoint) {
        return false;
    }
    endpoint->peer = (opal_common_adaptib_peer_t *) &peer_table[0][0];
    endpoint->proc = &process;
    return true;
}

void way_stand_in_close(void)
{
    free(endpoint);
    endpoint = NULL;
}

void *way_stand_in_endpoint(void)
{
    return endpoint;
}

way_seen_t way_stand_in_look(bool one_sided)
{
    const mca_btl_adaptib_way_t way = mca_btl_adaptib_way(
        endpoint, one_sided ? MCA_BTL_ADAPTIB_ONE_SIDED : MCA_BTL_ADAPTIB_MESSAGES);
    const size_t at = (size_t) ((char *) way.peer - &peer_table[0][0]);
    const way_seen_t seen = {
        .core = number_of(way.core),
        .theirs = (uint32_t) (at % WAY_MOST_CORES),
        .mixed = at / WAY_MOST_CORES != number_of(way.core),
    };

    return seen;
}

void way_stand_in_release(void)
{
    mca_btl_adaptib_ways_release(endpoint);
}
