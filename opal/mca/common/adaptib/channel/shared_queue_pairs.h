// SPDX-License-Identifier: BSD-3-Clause
// Queue pairs that many peers share: a few dynamically connected initiators, and as many targets,
// of each rail.
//
// Purpose: gives a peer a ring and transfers without a queue pair of its own. An initiator sends to
// whatever target a request names. SharedQueuePair is a peer's view of an initiator: a queue pair
// that leads to this peer alone, so that rings, transfers and handshakes need not know the
// difference.
// A peer takes the initiator that the fewest others have, and is given the target that the fewest
// others have: an initiator is connected to one of its peers at a time, and a target that serves
// one initiator may refuse others meanwhile. Among equals, processes begin at different ones.
// Further paths from a port (paths_per_port) have n initiators each, so that a queue pair's number
// tells a peer which path it is.
//
// A failure of an initiator concerns all peers that share it. It is given up then: a holder of a
// view of it cannot post any more, and the next view is of a new initiator, with a new number. The
// initiator knows whose request failed; the requests of the others complete as flushed.
// An unsignaled request occupies a send queue entry until a later completion releases it, maybe
// that of another peer's request. Of all requests one in kSignalEvery is signaled. If its owner did
// not ask for that, its completion goes to the view's `quiet` target, which does nothing but
// identify the peer.
//
// Ownership: views keep their initiator alive, and are destroyed before the pool; a `quiet` target
// outlives its work.
// Threads: one at a time.
// Source: Takagi et al., 2.1 and 3.1 (DC-RDMA).
// May touch: base/, fabric/fabric.h, channel/ring_poster.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/invariant.h"
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
    // Fails the initiator: nothing more reaches the wire; outstanding work completes as flushed.
    void fail();
    // Destroys the queue pair: work that has not completed never does.
    void destroy();
    // Keeps the handle of requests that may be under way until the queue pair is destroyed.
    void keep(std::unique_ptr<AddressHandle> handle) { kept_.push_back(std::move(handle)); }
    // Returns the owner of the request, among the last ones posted; null: nobody.
    const WorkTarget* owner_of(std::uint64_t wr_id) const;

private:
    struct Posted {
        std::uint64_t wr_id = 0;
        const WorkTarget* quiet = nullptr;
    };

    std::vector<std::unique_ptr<AddressHandle>> kept_; // outlive the queue pair
    std::unique_ptr<QueuePair> qp_;                    // null: destroyed
    std::uint32_t number_;
    std::uint32_t unsignaled_ = 0;
    bool failed_ = false;
    std::size_t next_ = 0;
    std::vector<Posted> posted_; // ring buffer, as many as can be outstanding
};

// A view: one peer's way over an initiator, with the target that its requests go to.
class SharedQueuePair final : public QueuePair {
public:
    SharedQueuePair(std::shared_ptr<SharedInitiator> initiator, std::shared_ptr<QueuePair> own,
                    WorkTarget& quiet)
        : QueuePair(QpType::dc_initiator), initiator_(std::move(initiator)),
          own_target_(std::move(own)), quiet_(quiet) {
        number_ = initiator_->number();
    }
    // Work that may still be under way reads memory that goes next: it has to end, for all sharers.
    ~SharedQueuePair() override {
        if (!settled()) {
            initiator_->fail();
            initiator_->keep(std::move(handle_));
        }
    }

    // Sets the destination of the requests. REQUIRES: none has been posted.
    void set_destination(std::unique_ptr<AddressHandle> handle, std::uint32_t target,
                         std::uint64_t key) {
        ADAPTIB_INVARIANT(posts_ == 0, "a view has one destination before its first request",
                          posts_, target);
        handle_ = std::move(handle);
        target_ = target;
        key_ = key;
    }
    // Takes over the destination of the other view. REQUIRES: no request has been posted.
    void take_destination(SharedQueuePair& other) {
        set_destination(std::move(other.handle_), other.target_, other.key_);
    }
    SharedInitiator& initiator() { return *initiator_; }
    // This process's target, for the peer's requests.
    std::uint32_t own_target() const { return own_target_->number(); }
    std::uint64_t posts() const { return posts_; }
    // Records that the first `posts` requests are complete.
    void settle(std::uint64_t posts) {
        ADAPTIB_AUDIT(posts <= posts_, "no more requests are complete than were posted", posts,
                      posts_);
        settled_ = std::max(settled_, posts);
    }
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
        std::uint32_t initiators = 8; // of each rail; and as many targets
        std::uint64_t self = 0;
        std::uint64_t access_key = 0; // of this process's targets; random, never 0
        std::uint8_t answer_timeout = 18;
        std::uint8_t answer_retries = 6;
        std::uint32_t send_depth = 1024; // at most; for the requests of several peers
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

    // Makes a view for that peer and path. Takes an unused initiator and target, else creates one
    // while there are fewer than `initiators`, else takes the one with the fewest views; the last
    // also if there is no room for another one. Errors: of the rail, if there is no initiator.
    // REQUIRES: is_open(rail).
    Status make(std::uint32_t rail, std::uint32_t path, std::uint64_t peer, WorkTarget& quiet,
                std::unique_ptr<QueuePair>& out);
    // Returns null if no initiator in use has that number.
    SharedInitiator* find(std::uint32_t rail, std::uint32_t number) const;
    // Moves a target in the error state back to RTR. It may get another number, which the peers
    // learn when their connections are made anew. Returns false if `number` is no target of the
    // rail.
    bool renew_target(std::uint32_t rail, std::uint32_t number, Status& status);

    // The rail's device was lost and is back: gives up all initiators, and makes the first target
    // anew. Errors: of the rail. REQUIRES: is_open(rail).
    Status make_anew(std::uint32_t rail);

    std::size_t initiators() const; // those that exist and have not failed
    std::uint64_t replaced() const { return replaced_; }

private:
    struct OfRail {
        std::unique_ptr<SharedReceiveQueue> srq;         // of the targets, which need one
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
