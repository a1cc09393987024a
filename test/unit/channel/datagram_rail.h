// SPDX-License-Identifier: BSD-3-Clause
// A rail for datagrams that arrive nowhere: it records what is posted, and the test completes it.
// May touch: base/, fabric/.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/wire.h"
#include "unit/null_rail.h"

namespace adaptib::test {

class DatagramRail final : public NullRail {
public:
    struct Post {
        std::uint64_t wr_id = 0;
        std::uint32_t remote_qp = 0;
        std::uint64_t remote_key = 0;
        std::vector<std::byte> bytes;

        DatagramHeader prefix() const {
            DatagramHeader header;
            std::memcpy(&header, bytes.data(), sizeof header);
            return header;
        }
    };

    explicit DatagramRail(const std::string& name = "d0:1") {
        info_.name = name;
        info_.capabilities = static_cast<std::uint32_t>(Capability::ud);
        info_.datagram_bytes = 512;
    }

    void set_max_gather(std::uint32_t most) { info_.max_gather = most; }
    void promise(Capability c) { info_.capabilities |= static_cast<std::uint32_t>(c); }
    // Ends the oldest send that has not ended.
    void end_send(WorkStatus status = WorkStatus::success) {
        WorkCompletion completion;
        completion.wr_id = sends.at(ended++).wr_id;
        completion.status = status;
        completions.push_back(completion);
    }

    std::vector<Post> sends; // all since the beginning
    std::size_t ended = 0;   // of these
    std::vector<std::uint64_t> receives;
    std::deque<WorkCompletion> completions;
    QpState state = QpState::reset;
    std::uint64_t access_key = 0;
    std::uint32_t allocations = 0;
    int registrations = 0; // that exist
    Status post_result = kOk;
    Status create_result = kOk; // of queue pairs
    Status modify_result = kOk;
    Status memory_result = kOk;
    bool reuses = true;      // queue pairs that were reset
    std::uint32_t pairs = 0; // made

private:
    class Region final : public MemoryRegion {
    public:
        Region(void* address, Bytes length, std::uint32_t key, int* registrations)
            : MemoryRegion(address, length), registrations_(registrations) {
            local_key_ = key;
        }
        ~Region() override {
            if (registrations_ == nullptr) {
                std::free(address_);
            } else {
                --*registrations_;
            }
        }

    private:
        int* registrations_; // null: the memory is the region's own
    };
    class Queue final : public CompletionQueue {
    public:
        explicit Queue(DatagramRail& rail) : rail_(rail) {}

    private:
        std::size_t poll_impl(std::span<WorkCompletion> out) override {
            std::size_t count = 0;
            while (count < out.size() && !rail_.completions.empty()) {
                out[count++] = rail_.completions.front();
                rail_.completions.pop_front();
            }
            return count;
        }
        DatagramRail& rail_;
    };
    class Pair final : public QueuePair {
    public:
        explicit Pair(DatagramRail& rail) : QueuePair(QpType::ud), rail_(rail) {
            number_ = 77 + rail_.pairs++;
        }

    private:
        Status modify_impl(const QpAttributes& attributes, std::uint32_t mask) override {
            if (was_reset_ && attributes.state == QpState::init && !rail_.reuses) {
                return Status::error(Reason::bad_argument);
            }
            was_reset_ = was_reset_ || attributes.state == QpState::reset;
            if (rail_.modify_result.ok()) {
                rail_.state = attributes.state;
                rail_.access_key = (mask & kQpKey) != 0 ? attributes.access_key : rail_.access_key;
            }
            return rail_.modify_result;
        }
        QpAttributes query_impl() const override {
            QpAttributes attributes;
            attributes.state = rail_.state;
            return attributes;
        }
        Status post_send_impl(const SendWork& work) override {
            if (rail_.post_result.ok()) {
                rail_.sends.push_back({work.wr_id, work.remote_qp, work.remote_access_key, {}});
                for (std::uint32_t i = 0; i < work.gather_count; ++i) {
                    const auto* at = static_cast<const std::byte*>(work.gather[i].address);
                    auto& bytes = rail_.sends.back().bytes;
                    bytes.insert(bytes.end(), at, at + work.gather[i].length);
                }
            }
            return rail_.post_result;
        }
        Status post_receive_impl(const ReceiveWork& work) override {
            rail_.receives.push_back(work.wr_id);
            return kOk;
        }
        DatagramRail& rail_;
        bool was_reset_ = false;
    };

    Status allocate_impl(Bytes length, std::uint32_t, std::unique_ptr<MemoryRegion>& out) override {
        if (memory_result.ok()) {
            ++allocations;
            void* const memory = std::aligned_alloc(kCacheLine, length);
            std::memset(memory, 0, length);
            out = std::make_unique<Region>(memory, length, allocations, nullptr);
        }
        return memory_result;
    }
    Status register_impl(void* address, Bytes length, std::uint32_t,
                         std::unique_ptr<MemoryRegion>& out) override {
        if (memory_result.ok()) {
            ++registrations;
            out = std::make_unique<Region>(address, length, 1000, &registrations);
        }
        return memory_result;
    }
    Status create_cq_impl(std::uint32_t, std::unique_ptr<CompletionQueue>& out) override {
        out = std::make_unique<Queue>(*this);
        return kOk;
    }
    Status create_qp_impl(const QpInit&, std::unique_ptr<QueuePair>& out) override {
        if (create_result.ok()) {
            out = std::make_unique<Pair>(*this);
        }
        return create_result;
    }
};

// Address handle that counts how many there are.
class CountedHandle final : public AddressHandle {
public:
    explicit CountedHandle(int& alive) : alive_(alive) { ++alive_; }
    ~CountedHandle() override { --alive_; }

private:
    int& alive_;
};

} // namespace adaptib::test
