// SPDX-License-Identifier: BSD-3-Clause
// Names of the rails of each kind of fabric.
#include "core/setup_text.h"

namespace adaptib {

namespace {

std::string rails_text(const AttachedFabrics& fabrics, bool of_devices) {
    std::string names;
    for (const AttachedFabric& each : fabrics.all()) {
        for (std::uint32_t i = each.rails.first; each.device == of_devices && i < each.rails.end();
             ++i) {
            names += (names.empty() ? "" : ", ") + fabrics.rails()[i]->info().name;
        }
    }
    return names;
}

} // namespace

std::string setup_text(const AttachedFabrics& fabrics, const Parameters& parameters) {
    const std::string within = rails_text(fabrics, false);
    const std::string between = rails_text(fabrics, true);
    const std::string hosts = within.empty() ? "within the host and between hosts: " + between
                                             : "within the host: " + within + "; between hosts: " +
                                                   (between.empty() ? "nothing" : between);
    return hosts + "; multiplexing " + parameters.multiplexing_policy + ", striping " +
           parameters.striping_policy;
}

} // namespace adaptib
