// SPDX-License-Identifier: BSD-3-Clause
// Queue pairs that many peers share: a few dynamically connected initiators, and as many targets, of each rail.
//
// Purpose: a ring in a peer's memory, and transfers to it, without a queue pair for it. An initiator sends to
// whatever target a request names; SharedQueuePair is what a peer sees of one: a queue pair that leads to this peer
// alone, so that rings, transfers and handshakes need not know the difference.
// A peer takes the initiator that fewest others have, and is given the target that fewest others have: an initiator is
// connected to one of its peers at a time, and a target that serves one initiator may refuse others meanwhile. Where
// that leaves a choice, processes begin at different ones. Further paths from a port (paths_per_port) have n initiators
// each, so that a peer knows by a queue pair's number which path it is.
//
// What goes wrong with an initiator concerns all who share it. It is given up then: whoever still has a view of it
// finds that nothing can be posted any more, and the next view is of a new one, with a new number. Whose
// request it was that failed, the initiator knows: the others' came back flushed.
// A slot of the send queue that an unsignaled request takes is given back by a later completion, maybe of another
// peer's request: one request in kSignalEvery of all is signaled, and if its owner did not ask for that, its
// completion goes to the view's `quiet` target, which has nothing to do but to be told apart.
//
// Ownership: views keep their initiator alive, and go before the pool; a `quiet` target outlives its work.
// Threads: one at a time.
// Source: Takagi et al., 2.1 and 3.1 (DC-RDMA).
// May touch: base/, fabric/fabric.h, channel/ring.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/units.h"
#include "base/work_target.h"
#include "fabric/fabric.h"

namespace adaptib {

class SharedInitiator {
public:
    SharedInitiator(std::unique_ptr<QueuePair> qp, std::uint32_t depth)
        : qp_(std::move(qp)), number_(qp_->number()), posted_(depth) {}

    std::uint32_t number() const { return number_; }
    bool usable() const { return qp_ != nullptr && !failed_ && qp_->usable(); }
    bool failed() const { return failed_; }
    Status post(SendWork work, WorkTarget& quiet);
    QpAttributes query() const;
    // Nothing more reaches the wire; what is outstanding comes back flushed.
    void fail();
    // And nothing comes back any more, if it did not.
    void destroy();
    // Whose request that is, of the last ones posted; null: nobody's.
    const WorkTarget* owner_of(std::uint64_t wr_id) const;

private:
    struct Posted {
        std::uint64_t wr_id = 0;
        const WorkTarget* quiet = nullptr;
    };

    std::unique_ptr<QueuePair> qp_; // null: destroyed
    std::uint32_t number_;
    std::uint32_t unsignaled_ = 0;
    bool failed_ = false;
    std::size_t next_ = 0;
    std::vector<Posted> posted_; // as many as can be outstanding, in turn
};

// A view: one peer's way over an initiator, and which target its requests come to.
class SharedQueuePair final : public QueuePair {
public:
    SharedQueuePair(std::shared_ptr<SharedInitiator> initiator, std::shared_ptr<QueuePair> own,
                    WorkTarget& quiet)
        : QueuePair(QpType::dc_initiator), initiator_(std::move(initiator)),
          own_target_(std::move(own)), quiet_(quiet) {
        number_ = initiator_->number();
    }
    // What may still be under way reads memory that goes next: it has to end, for all.
    ~SharedQueuePair() override {
        if (!settled()) {
            initiator_->fail();
        }
    }

    // Where its requests go. Before the first.
    void aim(std::unique_ptr<AddressHandle> handle, std::uint32_t target, std::uint64_t key) {
        handle_ = std::move(handle);
        target_ = target;
        key_ = key;
    }
    // The same way, if that one has it already. Before the first request.
    void aim_as(SharedQueuePair& other) {
        aim(std::move(other.handle_), other.target_, other.key_);
    }
    SharedInitiator& initiator() { return *initiator_; }
    // This process's, for the peer's requests.
    std::uint32_t own_target() const { return own_target_->number(); }
    std::uint64_t posts() const { return posts_; }
    // The first so many are known to be complete.
    void settle(std::uint64_t posts) { settled_ = std::max(settled_, posts); }
    bool settled() const { return settled_ == posts_; }

private:
    Status modify_impl(const QpAttributes& attributes, std::uint32_t mask) override;
    QpAttributes query_impl() const override { return initiator_->query(); }
    Status post_send_impl(const SendWork& work) override;
    Status post_receive_impl(const ReceiveWork&) override {
        return Status::error(Reason::bad_argument);
    }
    bool usable_impl() const override { return initiator_->usable(); }

    std::shared_ptr<SharedInitiator> initiator_;
    std::shared_ptr<QueuePair> own_target_;
    WorkTarget& quiet_;
    std::unique_ptr<AddressHandle> handle_;
    std::uint32_t target_ = 0;
    std::uint64_t key_ = 0;
    std::uint64_t posts_ = 0;
    std::uint64_t settled_ = 0;
};

class SharedQueuePairs {
public:
    struct Options {
        std::uint32_t initiators = 8; // of each rail; and targets
        std::uint64_t self = 0;
        std::uint64_t access_key = 0; // of this process's targets; random, never 0
        std::uint8_t answer_timeout = 18;
        std::uint8_t answer_retries = 6;
        std::uint32_t send_depth = 1024; // at most; the requests of several peers
        Bytes inline_bytes = 0;          // at most
    };

    SharedQueuePairs(const Options& options, std::span<Rail* const> rails,
                     std::span<const std::unique_ptr<CompletionQueue>> cqs);
    ~SharedQueuePairs();

    // Makes the rail's first target. REQUIRES: Capability::dc. Errors: of the rail.
    Status open(std::uint32_t rail);
    bool is_open(std::uint32_t rail) const {
        return rail < rails_.size() && !rails_[rail].targets.empty();
    }
    std::uint64_t access_key() const { return options_.access_key; }

    // For that peer and path. Initiator and target are made until there are so many; if there is no room for another
    // one, it is one that is there. Errors: of the rail, if there is no initiator. REQUIRES: is_open(rail).
    Status make(std::uint32_t rail, std::uint32_t path, std::uint64_t peer, WorkTarget& quiet,
                std::unique_ptr<QueuePair>& out);
    // Null: none that is in use has that number.
    SharedInitiator* find(std::uint32_t rail, std::uint32_t number) const;
    // False: it is no target of the rail's. Else it is in the error state, and is moved back; it may get another number,
    // which others learn when they have their connections made anew.
    bool renew_target(std::uint32_t rail, std::uint32_t number, Status& status);

    std::size_t initiators() const; // that are there
    std::uint64_t replaced() const { return replaced_; }

private:
    struct OfRail {
        std::unique_ptr<SharedReceiveQueue> srq;         // of the targets, which want one
        std::vector<std::shared_ptr<QueuePair>> targets; // null: not made; the first always is
        std::vector<std::shared_ptr<SharedInitiator>> initiators; // path by path
    };

    std::size_t first_for(std::uint64_t peer) const {
        return (options_.self + peer) % options_.initiators;
    }
    Status make_target(std::uint32_t rail, std::shared_ptr<QueuePair>& out);
    std::shared_ptr<QueuePair> target_for(std::uint32_t rail, std::uint64_t peer);
    Status begin_target(std::uint32_t rail, QueuePair& target);
    Status make_initiator(std::uint32_t rail, std::shared_ptr<SharedInitiator>& out);

    Options options_;
    std::span<Rail* const> all_;
    std::span<const std::unique_ptr<CompletionQueue>> cqs_;
    std::vector<OfRail> rails_;
    std::uint64_t replaced_ = 0;
};

} // namespace adaptib
