// SPDX-License-Identifier: BSD-3-Clause
// A second process of the job, as the core of this process sees it: a core of its own, over shared
// memory, in the same real process.
//
// Purpose: the fixture that tests of peers and active messages share.
// May touch: what process_core.h and unit/core/cores.h may.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "unit/core/cores.h"
#include "unit/interface/process_core.h"

namespace adaptib::test {

class TwoProcesses : public ProcessCore {
protected:
    static constexpr std::uint64_t kOther = kJob << 32; // Cores::name(0)

    // Acquires the core, and makes the other process, or several that differ by `options`.
    void begin(Options options = {}, std::size_t others = 1) {
        ASSERT_EQ(acquire(), OPAL_COMMON_ADAPTIB_SUCCESS);
        ASSERT_EQ(Cores::name(0), kOther);
        others_.emplace(others, std::move(options));
        std::size_t size = 0;
        const auto* address =
            static_cast<const std::byte*>(opal_common_adaptib_core_address(core_, &size));
        others_->publish(kSelf, {address, address + size});
        for (std::size_t i = 0; i < others; ++i) {
            published_[Cores::name(i)] = others_->core(i).address();
        }
    }
    void TearDown() override {
        release();
        ProcessCore::TearDown();
    }
    // Gets the handle of the other process, which has to be reached.
    opal_common_adaptib_peer_t* other() {
        opal_common_adaptib_peer_t* peer = nullptr;
        EXPECT_EQ(opal_common_adaptib_peer_get(core_, kOther, &peer), OPAL_COMMON_ADAPTIB_SUCCESS);
        return peer;
    }
    // Makes progress in both processes until `condition`.
    bool run_both(const std::function<bool()>& condition) {
        return run([&] {
            others_->progress();
            return condition();
        });
    }
    Core& other_core() { return others_->core(0); }

    std::optional<Cores> others_;
};

} // namespace adaptib::test
