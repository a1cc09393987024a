// SPDX-License-Identifier: BSD-3-Clause
// Names of capabilities.
#include "fabric/rail_text.h"

namespace adaptib {

std::string rail_text(const RailInfo& info) {
    struct Name {
        Capability capability;
        const char* text;
    };
    constexpr Name kNames[] = {
        {Capability::rc, "rc"},
        {Capability::ud, "ud"},
        {Capability::dc, "dc"},
        {Capability::srq, "srq"},
        {Capability::rdma_read, "rdma_read"},
        {Capability::rdma_write, "rdma_write"},
        {Capability::write_imm, "write_imm"},
        {Capability::atomic64, "atomic64"},
        {Capability::migration, "migration"},
        {Capability::reliable_ud, "reliable_ud"},
        {Capability::direct, "direct"},
        {Capability::whole_memory, "whole_memory"},
        {Capability::sees_regions, "sees_regions"},
        {Capability::cm_connects, "cm_connects"},
    };
    std::string names;
    for (const Name& each : kNames) {
        if (info.has(each.capability)) {
            names += std::string(names.empty() ? "" : ", ") + each.text;
        }
    }
    return info.name + ": " + names + (info.standby ? ", standby" : "");
}

} // namespace adaptib
