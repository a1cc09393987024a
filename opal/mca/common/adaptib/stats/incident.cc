// SPDX-License-Identifier: BSD-3-Clause
#include "stats/incident.h"

#include <array>
#include <cstddef>

namespace adaptib {

std::string_view incident_text(IncidentKind kind) {
    constexpr std::array kNames{
#define ADAPTIB_INCIDENT(kind, name, help) std::string_view(name),
        ADAPTIB_INCIDENTS(ADAPTIB_INCIDENT)
#undef ADAPTIB_INCIDENT
    };
    return kNames[static_cast<std::size_t>(kind)];
}

std::span<const opal_common_adaptib_incident_kind_t> incident_table() {
    static constexpr std::array kRows{
#define ADAPTIB_INCIDENT(kind, name, help) opal_common_adaptib_incident_kind_t{#kind, help},
        ADAPTIB_INCIDENTS(ADAPTIB_INCIDENT)
#undef ADAPTIB_INCIDENT
    };
    return kRows;
}

} // namespace adaptib
