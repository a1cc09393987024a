// SPDX-License-Identifier: BSD-3-Clause
#include "selftest/link.h"

#include <algorithm>
#include <array>
#include <thread>

#include "fabric/await_handle.h"

namespace adaptib::selftest {

namespace {

constexpr std::uint32_t kEveryAccess = kRemoteWrite | kRemoteRead;
constexpr std::uint64_t kDatagramKey = 0x5e1f7e57;

std::uint32_t access_of(const Rail& rail) {
    return kEveryAccess | (rail.info().has(Capability::atomic64) ? kRemoteAtomic : 0u);
}

std::byte byte_at(std::uint64_t seed, Bytes place) {
    std::uint64_t z = (seed + 1) * 0x9e3779b97f4a7c15u + (place >> 3) * 0xd1342543de82ef95u;
    z = (z ^ (z >> 31)) * 0xbf58476d1ce4e5b9u;
    return static_cast<std::byte>(z >> (8 * (place & 7)));
}

} // namespace

void require(const Status& status, const std::string& what, const Rail* rail) {
    if (status.ok()) {
        return;
    }
    const std::string text = rail != nullptr ? rail->last_error_text() : "";
    throw Failed(what + " is refused: " + (text.empty() ? reason_text(status.reason()) : text));
}

void require_success(const WorkCompletion& completion, const std::string& what) {
    if (completion.status == WorkStatus::retry_exceeded) {
        throw Failed(what + ": the other end's device does not answer (retry exceeded)");
    }
    if (completion.status != WorkStatus::success) {
        throw Failed(what + " ends with \"" + work_status_text(completion.status) +
                     "\", vendor's code " + std::to_string(completion.vendor_error));
    }
}

void fill(std::byte* at, Bytes length, std::uint64_t seed) {
    for (Bytes place = 0; place < length; ++place) {
        at[place] = byte_at(seed, place);
    }
}

void require_bytes(const std::byte* at, Bytes length, std::uint64_t seed, const std::string& what) {
    for (Bytes place = 0; place < length; ++place) {
        if (at[place] != byte_at(seed, place)) {
            throw Failed(what + ": byte " + std::to_string(place) + " of " +
                         std::to_string(length) + " is wrong");
        }
    }
}

Link::Link(Rail& rail, const RemoteRail& remote, Partner& partner, const LinkOptions& options)
    : rail_(rail), remote_(remote), partner_(partner), type_(options.type),
      path_(rail.path_to(remote.address, options.path)) {
    make(options);
    const std::uint32_t reads = std::clamp(rail.info().max_reads, 1u, 16u);
    const Description mine{reinterpret_cast<std::uintptr_t>(memory()), region_->remote_key(),
                           qp_->number(), reads};
    theirs_ = partner_.exchange(mine);
    if (type_ == QpType::ud) {
        start_datagrams();
    } else {
        connect();
    }
    partner_.meet();
}

void Link::make(const LinkOptions& options) {
    require(rail_.create_cq(options.send_depth + 16, send_queue_), "a completion queue", &rail_);
    require(rail_.create_cq(options.receive_depth + 16, receive_queue_), "a completion queue",
            &rail_);
    if (options.shared_receives) {
        require(rail_.create_srq(options.receive_depth, shared_), "a shared receive queue", &rail_);
    }
    require(rail_.allocate(kLinkMemory, kLocalWrite | access_of(rail_), region_),
            "registration of memory", &rail_);
    make_queue_pair(options);
}

void Link::make_queue_pair(const LinkOptions& options) {
    QpInit init;
    init.type = options.type;
    init.send_cq = send_queue_.get();
    init.receive_cq = receive_queue_.get();
    init.srq = shared_.get();
    init.send_depth = options.send_depth;
    init.receive_depth = options.receive_depth;
    init.max_gather = options.gather;
    init.inline_bytes = options.inline_bytes;
    require(rail_.create_qp(init, qp_), "a queue pair", &rail_);
}

QpAttributes Link::attributes(QpState state) const {
    const std::uint32_t reads = std::clamp(rail_.info().max_reads, 1u, 16u);
    QpAttributes out;
    out.state = state;
    out.access = access_of(rail_);
    out.path = path_;
    out.remote_qp = theirs_.qp_number;
    out.send_psn = (qp_->number() + 1000 * turn_) & 0xffffu;
    out.receive_psn = (theirs_.qp_number + 1000 * turn_) & 0xffffu;
    out.max_reads = std::min(reads, theirs_.reads);
    out.max_target_reads = reads;
    out.timeout = 16; // 0.27 s, seven times: within kPatience
    out.retry_count = 6;
    out.rnr_retry = 7;
    return out;
}

void Link::connect() {
    require(qp_->modify(attributes(QpState::init), kQpState | kQpAccess), "INIT", &rail_);
    require(qp_->modify(attributes(QpState::ready_to_receive),
                        kQpState | kQpPath | kQpRemote | kQpReceiveLimits),
            "RTR", &rail_);
    require(qp_->modify(attributes(QpState::ready_to_send),
                        kQpState | kQpRetry | kQpSendPsn | kQpSendLimits),
            "RTS", &rail_);
}

void Link::start_datagrams() {
    QpAttributes wanted;
    wanted.access_key = kDatagramKey;
    wanted.state = QpState::init;
    require(qp_->modify(wanted, kQpState | kQpKey), "INIT of datagrams", &rail_);
    wanted.state = QpState::ready_to_receive;
    require(qp_->modify(wanted, kQpState), "RTR of datagrams", &rail_);
    wanted.state = QpState::ready_to_send;
    require(qp_->modify(wanted, kQpState | kQpSendPsn), "RTS of datagrams", &rail_);
    require(await_ah(rail_, path_, handle_), "an address handle", &rail_);
}

void Link::reconnect() {
    partner_.meet();
    QpAttributes reset;
    reset.state = QpState::reset;
    require(qp_->modify(reset, kQpState), "RESET of an errored queue pair", &rail_);
    WorkCompletion rest;
    while (sent_within(Nanoseconds{0}, rest) || received_within(Nanoseconds{0}, rest)) {
    }
    ++turn_;
    partner_.meet();
    connect();
    partner_.meet();
}

void Link::post(SendWork work) {
    work.flags |= kSignaled;
    if (type_ == QpType::ud) {
        work.address_handle = handle_.get();
        work.remote_qp = theirs_.qp_number;
        work.remote_access_key = kDatagramKey;
    }
    require(qp_->post_send(work), "a request", &rail_);
}

void Link::post(Opcode opcode, std::uint64_t id, const Gather& gather, Bytes remote_offset) {
    SendWork work;
    work.wr_id = id;
    work.opcode = opcode;
    work.gather = &gather;
    work.gather_count = 1;
    work.remote_address = remote_address(remote_offset);
    work.remote_key = remote_key();
    post(work);
}

void Link::post_receive(std::uint64_t id, Bytes offset, Bytes length) {
    const Gather scatter = gather(offset, length);
    const ReceiveWork work{id, &scatter, 1};
    require(shared_ != nullptr ? shared_->post(work) : qp_->post_receive(work), "a receive",
            &rail_);
}

void Link::run(Opcode opcode, const Gather& gather, Bytes remote_offset) {
    post(opcode, 1, gather, remote_offset);
    require_success(sent(), "a request of " + std::to_string(gather.length) + " bytes");
}

bool Link::within(CompletionQueue& queue, Nanoseconds limit, WorkCompletion& out) const {
    const Nanoseconds end = clock_.now() + limit;
    while (queue.poll({&out, 1}) == 0) {
        if (clock_.now() >= end) {
            return false;
        }
        std::this_thread::yield(); // the partner may share this processor
    }
    return true;
}

bool Link::sent_within(Nanoseconds limit, WorkCompletion& out) {
    return within(*send_queue_, limit, out);
}

bool Link::received_within(Nanoseconds limit, WorkCompletion& out) {
    return within(*receive_queue_, limit, out);
}

WorkCompletion Link::sent() {
    WorkCompletion out;
    if (!sent_within(kPatience, out)) {
        throw Failed("this end's device is silent: no completion of a request, not even an error");
    }
    return out;
}

WorkCompletion Link::received() {
    WorkCompletion out;
    if (!received_within(kPatience, out)) {
        throw Failed("a message did not arrive");
    }
    return out;
}

} // namespace adaptib::selftest
