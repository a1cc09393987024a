// SPDX-License-Identifier: BSD-3-Clause
// Distances of NUMA nodes (fabric/verbs/locality.h).
#include "fabric/verbs/locality.h"

#include <hwloc.h>
#include <hwloc/distances.h>

#include <algorithm>

namespace adaptib::verbs {

namespace {

constexpr std::uint64_t kLocal = 10;
constexpr std::uint64_t kRemote = 20;

} // namespace

struct Locality::Place {
    Place() : processors(hwloc_bitmap_alloc()), nodes(hwloc_bitmap_alloc()) {}
    ~Place() {
        hwloc_bitmap_free(processors);
        hwloc_bitmap_free(nodes);
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    hwloc_bitmap_t processors; // processors that the process may run on
    hwloc_bitmap_t nodes;      // NUMA nodes of those processors
};

void Locality::Free::operator()(hwloc_topology* topology) const {
    hwloc_topology_destroy(topology);
}

Locality::Locality() : place_(std::make_unique<Place>()) {
    hwloc_topology_t topology = nullptr;
    if (hwloc_topology_init(&topology) != 0) {
        return;
    }
    topology_.reset(topology);
    // Keeps only processors and NUMA nodes; nothing else is needed.
    if (hwloc_topology_set_all_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE) != 0 ||
        hwloc_topology_load(topology) != 0 ||
        hwloc_get_cpubind(topology, place_->processors, HWLOC_CPUBIND_PROCESS) != 0) {
        topology_.reset();
        return;
    }
    hwloc_cpuset_to_nodeset(topology, place_->processors, place_->nodes);
}

Locality::Locality(hwloc_topology* topology, unsigned first_processor, unsigned last_processor)
    : topology_(topology), place_(std::make_unique<Place>()) {
    hwloc_bitmap_set_range(place_->processors, first_processor, static_cast<int>(last_processor));
    hwloc_cpuset_to_nodeset(topology, place_->processors, place_->nodes);
}

Locality::~Locality() = default;

std::uint64_t Locality::distance(int numa_node) const {
    if (numa_node < 0 || topology_ == nullptr) {
        return kLocal;
    }
    const auto node = static_cast<unsigned>(numa_node);
    const std::uint64_t plain = hwloc_bitmap_isset(place_->nodes, node) != 0 ? kLocal : kRemote;
    hwloc_topology_t topology = topology_.get();
    unsigned count = 1;
    hwloc_distances_s* matrix = nullptr;
    hwloc_obj_t to = hwloc_get_numanode_obj_by_os_index(topology, node);
    if (to == nullptr ||
        hwloc_distances_get_by_type(topology, HWLOC_OBJ_NUMANODE, &count, &matrix,
                                    HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0) != 0 ||
        count == 0) {
        return plain;
    }
    std::uint64_t nearest = UINT64_MAX;
    unsigned at = 0;
    hwloc_bitmap_foreach_begin(at, place_->nodes) {
        hwloc_obj_t from = hwloc_get_numanode_obj_by_os_index(topology, at);
        hwloc_uint64_t there = 0;
        hwloc_uint64_t back = 0;
        if (from != nullptr &&
            hwloc_distances_obj_pair_values(matrix, from, to, &there, &back) == 0) {
            nearest = std::min<std::uint64_t>(nearest, there);
        }
    }
    hwloc_bitmap_foreach_end();
    hwloc_distances_release(topology, matrix);
    return nearest == UINT64_MAX ? plain : nearest;
}

} // namespace adaptib::verbs
