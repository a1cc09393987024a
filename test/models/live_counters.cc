// SPDX-License-Identifier: BSD-3-Clause
// Model of the header of a process's pages of counters (stats/live_counters.h): a program that
// finds it published reads all of it. The counters themselves have no order among each other: a
// reader loads each by itself, whatever its neighbors are.
#include "stats/live_counters.h"

#include "model.h"

namespace adaptib::model {
namespace {

void found(Execution& execution) {
    auto& header = execution.make<LiveHeader>("header");
    execution.thread([&header] { publish(header, 1, 2, 3); });
    execution.thread([&header] {
        for (int look = 0; look < scaled(2); ++look) {
            if (is_published(header)) {
                check(header.table == 1 && header.name == 2 && header.pid == 3,
                      "a header is read half");
            }
        }
    });
}

} // namespace

const std::vector<Model>& models() {
    static const std::vector<Model> all = {{"found", {}, found}};
    return all;
}

} // namespace adaptib::model
