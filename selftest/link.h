// SPDX-License-Identifier: BSD-3-Clause
// Link: a pair of queue pairs, one in each process, with memory that each side may access.
//
// Purpose: checks say what they do on the wire; creating, connecting and waiting with a bound are
// here. Both processes make a link at the same time.
// Ownership: the link owns its queues, its queue pair and its memory; the rail is the caller's.
// Threads: one.
// Errors: Failed, when a call is refused or no completion comes; PartnerEnded.
// May touch: base/, fabric/, the other headers of this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/units.h"
#include "fabric/fabric.h"
#include "selftest/partner.h"

namespace adaptib::selftest {

constexpr Bytes kLinkMemory = kMiB;
// A healthy device completes everything long before; a failing path needs some 2 s to say so.
constexpr Nanoseconds kPatience{3'500'000'000};

// The other process's rail, and what it told about it.
struct RemoteRail {
    RailAddress address;
    RailInfo info; // name, limits and features as its own process sees them
};

struct LinkOptions {
    QpType type = QpType::rc;
    std::uint32_t path = 0;
    std::uint32_t send_depth = 128;
    std::uint32_t receive_depth = 128;
    std::uint32_t gather = 1;
    Bytes inline_bytes = 0;
    bool shared_receives = false;
};

class Link {
public:
    Link(Rail& rail, const RemoteRail& remote, Partner& partner, const LinkOptions& options = {});

    std::byte* memory() const { return static_cast<std::byte*>(region_->address()); }
    Gather gather(Bytes offset, Bytes length) const {
        return {memory() + offset, length, region_->local_key()};
    }
    // Address and key of the partner's memory.
    std::uint64_t remote_address(Bytes offset = 0) const { return theirs_.address + offset; }
    std::uint32_t remote_key() const { return theirs_.key; }
    QueuePair& queue_pair() const { return *qp_; }
    std::uint32_t remote_queue_pair() const { return theirs_.qp_number; }

    // `gathers` has to live until the request is posted.
    void post(Opcode opcode, std::uint64_t id, const Gather& gather, Bytes remote_offset = 0);
    void post(SendWork work);
    void post_receive(std::uint64_t id, Bytes offset, Bytes length);
    // Sends or writes, and waits for the completion.
    void run(Opcode opcode, const Gather& gather, Bytes remote_offset = 0);
    WorkCompletion sent();     // next completion of a request, of any status
    WorkCompletion received(); // next completion of a receive
    // The same, within a time; false: there is none.
    bool sent_within(Nanoseconds limit, WorkCompletion& out);
    bool received_within(Nanoseconds limit, WorkCompletion& out);

    // Resets both queue pairs and connects them again.
    void reconnect();
    // Destroys this side's queue pair.
    void destroy_queue_pair() { qp_.reset(); }
    // Attributes with which this side was connected.
    QpAttributes attributes(QpState state) const;

private:
    struct Description {
        std::uint64_t address;
        std::uint32_t key;
        std::uint32_t qp_number;
        std::uint32_t reads;
    };
    void make(const LinkOptions& options);
    void make_queue_pair(const LinkOptions& options);
    void connect();
    void start_datagrams();
    bool within(CompletionQueue& queue, Nanoseconds limit, WorkCompletion& out) const;

    Rail& rail_;
    const RemoteRail& remote_;
    Partner& partner_;
    MonotonicClock clock_;
    QpType type_;
    PathSpec path_;
    Description theirs_{};
    std::uint32_t turn_ = 0; // connections so far; each uses packet numbers of its own
    std::unique_ptr<CompletionQueue> send_queue_;
    std::unique_ptr<CompletionQueue> receive_queue_;
    std::unique_ptr<SharedReceiveQueue> shared_;
    std::unique_ptr<MemoryRegion> region_;
    std::unique_ptr<AddressHandle> handle_;
    std::unique_ptr<QueuePair> qp_;
};

// Throws Failed with `what` and the reason unless the status is ok.
void require(const Status& status, const std::string& what, const Rail* rail = nullptr);
// Throws Failed unless the completion is a success.
void require_success(const WorkCompletion& completion, const std::string& what);

// Bytes that depend on a seed and their place.
void fill(std::byte* at, Bytes length, std::uint64_t seed);
// Throws Failed, naming the first wrong byte, unless the memory holds them.
void require_bytes(const std::byte* at, Bytes length, std::uint64_t seed, const std::string& what);

} // namespace adaptib::selftest
