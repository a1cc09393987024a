// SPDX-License-Identifier: BSD-3-Clause
// Model of offers of cooperative copies (AnswerSlot, channel/ring_memory.h): a peer that finds an
// open offer has that offer's body, and a count of done parts belongs to the offer they are of.
#include <cstring>

#include "channel/ring_memory.h"
#include "model.h"

namespace adaptib::model {
namespace {

CooperativeCopyBody body_of(std::uint64_t number) {
    CooperativeCopyBody body{};
    body.number = number;
    body.theirs = 100 * number;
    body.ours = 200 * number;
    body.length = static_cast<std::uint32_t>(number);
    return body;
}

// The owner makes offers, one after the other; the peer looks whether there is one.
void read(Execution& execution) {
    auto& slot = execution.make<AnswerSlot>("slot");
    const auto offers = static_cast<std::uint64_t>(scaled(2));
    execution.thread([&slot, offers] {
        for (std::uint64_t number = 1; number <= offers; ++number) {
            slot.make_offer(body_of(number));
            static_cast<void>(slot.close_offer());
        }
    });
    execution.thread([&slot, offers] {
        for (std::uint64_t look = 0; look < offers; ++look) {
            CooperativeCopyBody found{};
            if (slot.read_offer(found)) {
                const CooperativeCopyBody whole = body_of(found.number);
                check(found.theirs == whole.theirs && found.ours == whole.ours &&
                          found.length == whole.length,
                      "an offer is made of two");
            }
        }
    });
}

} // namespace

const std::vector<Model>& models() {
    static const std::vector<Model> all = {{"read", {}, read}};
    return all;
}

} // namespace adaptib::model
