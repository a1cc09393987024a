// SPDX-License-Identifier: BSD-3-Clause
// Several endpoints of this process, beside another process that has one, two or none of them.
//
// Purpose: the fixture of the tests of endpoints.
// May touch: what other_process.h may, and interface/.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/address_record.h"
#include "base/process_name.h"
#include "common_adaptib_two_sided.h"
#include "interface/handle.h"
#include "unit/interface/other_process.h"

namespace adaptib::test {

class Endpoints : public TwoProcesses {
protected:
    // Acquires the core with so many endpoints, and makes the other process with `theirs`.
    void begin(int endpoints, std::uint32_t theirs = 1) {
        process_parameters().endpoints = endpoints;
        ASSERT_EQ(acquire(), kSuccess);
        Options options;
        for (std::uint32_t i = 0; i < theirs; ++i) {
            options.names.push_back(endpoint_name(kOther, i));
        }
        others_.emplace(theirs, std::move(options));
        std::vector<AddressBlob> addresses;
        for (std::uint32_t i = 0; i < theirs; ++i) {
            addresses.push_back(others_->core(i).address());
        }
        published_[kOther] = encode_record(addresses);
        published_[kSelf] = record();
        for (std::uint32_t i = 0; i < opal_common_adaptib_endpoints(core_); ++i) {
            AddressBlob address;
            ASSERT_TRUE(address_in(published_[kSelf], i, address).ok());
            others_->publish(endpoint_name(kSelf, i), std::move(address));
        }
    }
    AddressBlob record() {
        std::size_t size = 0;
        const auto* bytes =
            static_cast<const std::byte*>(opal_common_adaptib_core_address(core_, &size));
        return {bytes, bytes + size};
    }
    opal_common_adaptib_core_t* endpoint(std::uint32_t index) {
        return opal_common_adaptib_endpoint(core_, index);
    }
    opal_common_adaptib_peer_t* peer_at(std::uint32_t mine, std::uint32_t theirs = 0) {
        opal_common_adaptib_peer_t* peer = nullptr;
        EXPECT_EQ(opal_common_adaptib_peer_at(endpoint(mine), kOther, theirs, &peer), kSuccess);
        return peer;
    }
    int receive(std::uint32_t mine, opal_common_adaptib_peer_t* peer, std::int32_t tag, int& word,
                Request& request) {
        return opal_common_adaptib_recv_contig(endpoint(mine), peer, 0, 0, tag, &word, sizeof word,
                                               &request.user);
    }
    int send(std::uint32_t mine, opal_common_adaptib_peer_t* peer, std::int32_t tag, int& word,
             Request& request) {
        const opal_common_adaptib_envelope_t envelope{0, 90, tag};
        const auto data = data_of(&word, sizeof word);
        return opal_common_adaptib_send(endpoint(mine), peer, &envelope, &data,
                                        OPAL_COMMON_ADAPTIB_MODE_STANDARD,
                                        OPAL_COMMON_ADAPTIB_BLOCKING, &request.user);
    }
    // Sends a word from an endpoint of the other process to one of this process.
    void send_here(std::uint32_t theirs, std::uint32_t mine, std::int32_t tag, int& word,
                   TestRequest& request) {
        Peer* here = nullptr;
        Core& core = others_->core(theirs);
        ASSERT_TRUE(core.peers().get(endpoint_name(kSelf, mine), here).ok());
        bool complete = false;
        ASSERT_TRUE(core.protocol()
                        .sends()
                        .send(here, {0, 0, tag}, contiguous(&word, sizeof word), false,
                              OpKind::blocking, request.user, complete)
                        .ok());
        request.done = request.done || complete;
    }
    // Sends a word to an endpoint of the other process, and receives an answer.
    void exchange(std::uint32_t mine, std::uint32_t theirs, int word) {
        opal_common_adaptib_peer_t* peer = peer_at(mine, theirs);
        int there = 0;
        int back = 0;
        TestRequest received;
        TestRequest answered;
        Request sent;
        Request answer;
        ASSERT_TRUE(
            others_->receive(theirs, 90, 1, contiguous(&there, sizeof there), received).ok());
        ASSERT_EQ(receive(mine, peer, 2, back, answer), kSuccess);
        const int code = send(mine, peer, 1, word, sent);
        ASSERT_TRUE(code == kComplete || code == kSuccess);
        ASSERT_TRUE(run_both([&] { return received.done; }));
        EXPECT_EQ(there, word);
        send_here(theirs, mine, 2, there, answered);
        ASSERT_TRUE(run_both([&] {
            return answer.reported > 0 && answered.done && (code == kComplete || sent.reported > 0);
        }));
        EXPECT_EQ(back, word);
        EXPECT_EQ(answer.user.status, kSuccess);
    }
    std::uint32_t passes(std::uint32_t index) { return endpoint(index)->passes.load(); }
    void progress(int passes) {
        for (int pass = 0; pass < passes; ++pass) {
            opal_common_adaptib_progress(core_);
        }
    }
    int count_messages(opal_common_adaptib_severity_t severity) {
        return static_cast<int>(
            std::count_if(messages_.begin(), messages_.end(),
                          [&](const Message& message) { return message.severity == severity; }));
    }
    static const opal_common_adaptib_counter_t& row(std::string_view name) {
        const auto table = counter_table();
        return *std::find_if(table.begin(), table.end(),
                             [&](const auto& each) { return name == each.name; });
    }
};

} // namespace adaptib::test
