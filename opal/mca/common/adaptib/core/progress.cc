// SPDX-License-Identifier: BSD-3-Clause
// Progress of the core (core/core.h gives the order).
#include <algorithm>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "base/copy.h"
#include "base/spin.h"
#include "channel/ring_credit.h"
#include "core/core.h"

namespace adaptib {

namespace {

constexpr std::size_t kRingBudget = 16; // messages of one ring per pass
constexpr std::size_t kDatagramBudget = 16;
constexpr std::size_t kCompletionBudget = 64;
constexpr std::uint64_t kIdlePolls = 20000;     // without a message; then a ring is polled in turn
constexpr std::size_t kAlwaysHot = 4;           // rings that each pass polls in any case
constexpr std::uint64_t kDatagramEvery = 8;     // passes, while rings are busy
constexpr std::uint64_t kCompletionsEvery = 16; // passes, while none is awaited: errors, signals
constexpr std::uint64_t kRareEvery = 32; // passes that poll rings alone, while nothing arrives
constexpr std::uint64_t kUnusedEvery =
    64; // passes: queues of a fabric, not the first, without peers
constexpr std::uint64_t kTimedCredits = 16; // of so many one is timed, once a period has samples
constexpr std::uint64_t kHousekeepingEvery = 1024;
// Passes between two timings of channels: until a period has enough samples, and after that.
constexpr std::uint64_t kTimedEagerly = 8;
constexpr std::uint64_t kTimedEvery = 4 * kHousekeepingEvery;
constexpr std::uint64_t kKeepAliveEvery = 64 * kHousekeepingEvery;
constexpr std::uint64_t kPassesPerAwaited = 8; // at least, as keep_alive() visits each request

// Loads one member of a header that lies in a ring.
template <typename T> T load_header_member(const std::byte* header, std::size_t offset) {
    T value{};
    std::memcpy(&value, header + offset, sizeof value);
    return load_member(value);
}

// Checks a message that a ring's reader has found. REQUIRES: it fits the ring.
bool acceptable(const MessageHeader& header, const std::byte* body) {
    if (header.type == MessageType::eager) [[likely]] {
        return is_envelope(header);
    }
    if (header.type == MessageType::active) {
        return true;
    }
    return is_sequenced(header.type) && check_message(header, body, header.length);
}

// False if the peer may be gone: once it has begun to disconnect, it may go as soon as it hears
// that this side does, too. Until then it takes part in transfers under way, and needs credit,
// since their messages may be more than the ring holds.
bool takes_credit(const Peer& peer) {
    const bool needs = !peer.disconnect_received || (peer.users > 0 && !peer.disconnect_sent);
    return needs && peer.state != ConnectState::closing && peer.state != ConnectState::failed;
}

// True if the credit word lies in memory that is mapped here, and no credit posted earlier can
// arrive after a store.
bool stores_credit(const Peer& peer) {
    return peer.answers != nullptr && peer.credits_posted == 0 && peer.ring_out != nullptr &&
           peer.ring_out->stores();
}

} // namespace

std::size_t Core::progress(bool again) {
    ++tick_;
    return tick_ == timers_at_ ? pass_with_timers(again) : pass(again);
}

// Most passes find nothing, or only messages. Those read one line of each ring, and what
// nothing_else() checks.
[[gnu::always_inline]] inline std::size_t Core::pass(bool again) {
    const std::size_t events = hot_rings_are_silent() ? 0 : poll_hot_rings();
    const bool idle = events == 0;
    if (idle && deferring_ != nullptr) [[unlikely]] {
        release_deferred();
    }
    if (tick_ % (idle ? kRareEvery : kDatagramEvery) != 0 && (!idle || is_idle()) && nothing_else())
        [[likely]] {
        return idle && again ? look_again() : events;
    }
    return events + look_after_others(idle);
}

// From one pass to the next it takes 30 ns, which delays a message that arrives meanwhile. So a
// caller that only waits gets further polls of the rings here. A caller that does something else
// between two passes (MPI_Test, a flush) is not kept.
inline std::size_t Core::look_again() {
    if (ticks() - idle_ended_ < environment_.tight_ticks) [[likely]] {
        for (std::uint32_t left = looks_again_; left > 0; --left) {
            look_once_more();
            if (!hot_rings_are_silent()) {
                ++counters_.found_idle;
                return poll_hot_rings();
            }
        }
    }
    idle_ended_ = ticks();
    return 0;
}

inline bool Core::nothing_else() const {
    return cold_.empty() && disconnected_.empty() && !protocol_->has_work() &&
           !connections_->has_work();
}

// Everything but the busy rings.
[[gnu::noinline]] std::size_t Core::look_after_others(bool idle) {
    std::size_t events = cold_.empty() ? 0 : poll_cold_ring();
    if (tick_ % kDatagramEvery == 0 || (idle && events == 0 && !is_idle())) {
        events += poll_datagrams();
    }
    if (protocol_->transfers().work_outstanding() || tick_ % kCompletionsEvery == 0 ||
        connections_->measurement().active()) {
        events += poll_completions();
        protocol_->transfers().on_polled();
        connections_->measurement().on_polled();
    }
    if (protocol_->retry_due()) [[unlikely]] {
        events += protocol_->retry();
    }
    if (connections_->retry_due() || connections_->closing()) [[unlikely]] {
        if (connections_->cm_connects().active() && tick_ % kCompletionsEvery == 0) {
            poll_events();
        }
        connections_->retry();
    }
    if (!disconnected_.empty()) [[unlikely]] {
        tear_down_peers();
    }
    return events;
}

// Times channels before the pass, when they have gone unpolled for longest, and runs timers after
// it, when all that has arrived is known. Timers run as often as without timing: if they ran more
// often, more acknowledgments would go as datagrams of their own.
[[gnu::noinline]] std::size_t Core::pass_with_timers(bool again) {
    std::size_t events = 0;
    timers_at_ += kTimersEvery;
    if (meter_ != nullptr) {
        const bool rings = meter_->wants_rings() && !hot_.empty();
        const bool queue = meter_->wants_queue() && !hot_.empty();
        const std::uint64_t every = rings || queue ? kTimedEagerly : kTimersEvery;
        timers_at_ = tick_ - tick_ % every + every;
        const bool timed = rings || (queue && !is_idle()) || tick_ % kTimedEvery == 0;
        events = timed ? time_channels() : 0;
    }
    events += pass(again);
    if (tick_ % kTimersEvery != 0) {
        return events;
    }
    run_timers();
    cool_rings();
    const bool yields = environment_.yields != nullptr && *environment_.yields;
    looks_again_ =
        yields || hot_.empty() ? 0 : idle_looks_ / static_cast<std::uint32_t>(hot_.size());
    if (tick_ % kHousekeepingEvery == 0) {
        housekeeping();
    }
    return events;
}

// True if no fabric in use has anything to poll for.
inline bool Core::is_idle() const {
    const PollHint* const poll_hint = fabrics_.front().poll_hint;
    return poll_hint != nullptr && poll_hint->idle() && (fabrics_.size() == 1 || others_idle());
}

bool Core::others_idle() const {
    return std::none_of(fabrics_.begin() + 1, fabrics_.end(), [](const Attached& attached) {
        return attached.used && (attached.poll_hint == nullptr || !attached.poll_hint->idle());
    });
}

// A fabric without peers gets only first messages, so it is polled rarely; not so the first fabric,
// the cheapest to poll.
std::size_t Core::poll_datagrams() {
    std::size_t events = fabrics_[0].datagrams->poll(fabrics_[0].receiver, kDatagramBudget);
    for (std::size_t i = 1; i < fabrics_.size(); ++i) {
        if (fabrics_[i].used || tick_ % kUnusedEvery == 0) {
            events += fabrics_[i].datagrams->poll(fabrics_[i].receiver, kDatagramBudget);
        }
    }
    return events;
}

std::size_t Core::poll_completions() {
    std::size_t events = 0;
    for (Attached& attached : fabrics_) {
        if (attached.used) {
            for (CompletionFilter& filter : attached.filters) {
                events += filter.poll(kCompletionBudget);
            }
        }
    }
    return events;
}

// Reads all rings without a branch, so that lines that other processors have written are loaded at
// the same time.
inline bool Core::hot_rings_are_silent() const {
    bool silent = true;
    for (const HotRing& ring : hot_) {
        silent &= ring.has_nothing();
    }
    return silent;
}

std::size_t Core::poll_hot_rings() {
    std::size_t events = 0;
    HotRing* end = hot_.data() + hot_.size();
    for (HotRing* ring = hot_.data(); ring < end; ++ring) {
        if (ring->has_nothing()) [[likely]] {
            continue;
        }
        Peer& peer = *ring->peer;
        const std::ptrdiff_t place = ring - hot_.data();
        const std::size_t taken = poll_ring(peer);
        events += taken;
        ring = hot_.data() + place; // a message may add or remove rings
        end = hot_.data() + hot_.size();
        if (ring < end && ring->peer == &peer) {
            ring->next = peer.ring_in->credit_due() ? nullptr : peer.ring_in->next();
            peer.busy_at = taken > 0 ? tick_ : peer.busy_at;
        }
    }
    return events;
}

void Core::heat_ring(Peer& peer) {
    peer.busy_at = tick_;
    hot_.emplace_back(peer);
}

// Moves rings in which nothing has arrived for long to those that are polled in turn.
void Core::cool_rings() {
    for (std::size_t i = 0; i < hot_.size() && hot_.size() > kAlwaysHot;) {
        if (tick_ - hot_[i].peer->busy_at <= kIdlePolls) {
            ++i;
            continue;
        }
        cold_.push_back(hot_[i].peer);
        hot_[i] = hot_.back();
        hot_.pop_back();
    }
}

std::size_t Core::poll_cold_ring() {
    next_cold_ = next_cold_ + 1 < cold_.size() ? next_cold_ + 1 : 0;
    Peer& peer = *cold_[next_cold_];
    const std::size_t taken = poll_ring(peer);
    if (taken > 0 && std::erase(cold_, &peer) > 0) {
        heat_ring(peer);
    }
    return taken;
}

// Takes the most frequent messages here, from registers: eager and active ones whose sequence
// number is the next. Leaves all others to poll_with_care.
std::size_t Core::poll_ring(Peer& peer) {
    RingReader& ring = *peer.ring_in;
    bool looked = false; // the credit has been checked since the last message
    std::size_t taken = 0;
    for (; taken < kRingBudget; ++taken) {
        const std::uint64_t head = ring.head();
        if (head == 0) {
            break;
        }
        if (ring.has_deferred()) [[unlikely]] {
            release_deferred();
        }
        if (!with_ring_kind(head, [&]<std::uint64_t kKind>() {
                return take_short<kKind>(peer, ring, head);
            })) [[unlikely]] {
            looked = !poll_with_care(peer, ring);
            if (looked) {
                break;
            }
        }
    }
    if (!looked && ring.credit_due() && takes_credit(peer)) [[unlikely]] {
        return_credit(peer);
    }
    if (taken > 0 && peer.ring_out != nullptr) {
        peer.ring_out->answered();
    }
    if (taken > 0 && ring.posted() && peer.ring_out != nullptr) [[unlikely]] {
        counters_.credit_carried += exchange_credit(ring, *peer.ring_out) ? 1 : 0;
    }
    return taken;
}

// Returns false if the message was left untouched.
template <std::uint64_t kKind>
[[gnu::always_inline]] inline bool Core::take_short(Peer& peer, RingReader& ring,
                                                    std::uint64_t head) {
    RingReader::Short found;
    if (!ring.take_short<kKind>(head, found) || !Protocol::has_its_turn(peer, found.sequence))
        [[unlikely]] {
        return false;
    }
    if constexpr (kKind == kRingCompact || kKind == kRingRetainedActive) {
        protocol_->on_active_in_turn(peer, found.flags, found.body, found.length);
    } else {
        const std::byte* at = ring.next();
        const Envelope envelope{
            load_header_member<std::uint32_t>(at, offsetof(MessageHeader, context)),
            load_header_member<std::int32_t>(at, offsetof(MessageHeader, source)),
            load_header_member<std::int32_t>(at, offsetof(MessageHeader, tag))};
        if (!is_envelope(envelope.source, envelope.tag)) [[unlikely]] {
            return false;
        }
        protocol_->on_eager_in_turn(peer, envelope, found.body, found.length);
    }
    ++counters_.ring_received;
    release_or_defer<kKind>(peer, ring, found);
    return true;
}

// Releasing a long slot writes one word per cache line. In a ping-pong with the peer, reply first
// and release afterwards, so that the reply does not queue behind those stores.
template <std::uint64_t kKind>
[[gnu::always_inline]] inline void Core::release_or_defer(Peer& peer, RingReader& ring,
                                                          const RingReader::Short& found) {
    if constexpr (ring_kind_is_retained(kKind)) {
        const bool exchanges = peer.next_send - peer.sent_by_then == 1;
        peer.sent_by_then = peer.next_send;
        if (exchanges && ring.may_defer_release(found)) {
            if (deferring_ != nullptr) [[unlikely]] {
                release_deferred();
            }
            ring.defer_release<kKind>(found);
            deferring_ = &peer;
            return;
        }
    }
    ring.consume_short<kKind>(found);
}

void Core::release_deferred() { std::exchange(deferring_, nullptr)->ring_in->release_deferred(); }

// Takes any other message. Returns false if there is none.
bool Core::poll_with_care(Peer& peer, RingReader& ring) {
    if (ring.has_deferred()) [[unlikely]] {
        release_deferred();
    }
    if (peer.state == ConnectState::failed) [[unlikely]] {
        return false; // messages before it may be missing
    }
    MessageHeader header;
    const std::byte* body = nullptr;
    const RingReader::Found found = ring.poll(header, body);
    if (ring.credit_due() && takes_credit(peer)) [[unlikely]] {
        return_credit(peer);
    }
    if (found == RingReader::Found::nothing) {
        return false;
    }
    if (found == RingReader::Found::garbage || !acceptable(header, body)) [[unlikely]] {
        on_garbage(peer);
        return false;
    }
    ++counters_.ring_received;
    hand_over(peer, header, body);
    ring.consume(header.sequence);
    return true;
}

// Handles a message, and keeps the time for that out of the channel's, since it is the same for all
// channels.
void Core::hand_over(Peer& peer, const MessageHeader& header, const std::byte* body) {
    if (stopwatch_ == nullptr) [[likely]] {
        protocol_->on_message(peer, header, body);
        return;
    }
    const Nanoseconds start = environment_.clock->now();
    protocol_->on_message(peer, header, body);
    stopwatch_->aside += environment_.clock->now() - start + stopwatch_->clock;
}

// Nothing behind a malformed message can be trusted, or delivered, since delivery is in order.
void Core::on_garbage(Peer& peer) {
    if (peer.state != ConnectState::failed) {
        ++counters_.bad_packets;
        protocol_->on_peer_failed(peer, "its ring holds a malformed message");
    }
}

// All that will ever arrive in the ring is there: takes it.
void Core::on_ring_final(Peer& peer) {
    while (peer.ring_in.has_value() && peer.state != ConnectState::failed && poll_ring(peer) > 0) {
    }
    if (deferring_ == &peer) { // the ring may be reused, so leave it empty
        release_deferred();
    }
}

// A count that cannot be written now is written in the next pass.
void Core::return_credit(Peer& peer) {
    Subchannel& subchannel = peer.subchannels[connections_->chosen_subchannel(peer)];
    if (subchannel.qp == nullptr || peer.lane_migration.paused ||
        peer.state == ConnectState::repairing || peer.state == ConnectState::requested) {
        return; // the credit will use another queue pair; a new ring begins with new counts
    }
    const bool timed = meter_ != nullptr &&
                       (meter_->wants_credits() || counters_.credit_returns % kTimedCredits == 0);
    const Nanoseconds start = timed ? environment_.clock->now() : Nanoseconds{0};
    if (stores_credit(peer)) [[likely]] {
        store_ring_word(RingMemory::credit_before(*peer.answers), peer.ring_in->consumed(),
                        std::memory_order_release);
    } else if (!post_credit(peer, subchannel)) {
        return;
    }
    peer.ring_in->credit_returned();
    ++counters_.credit_returns;
    if (timed) {
        const Nanoseconds end = environment_.clock->now();
        meter_->add_credit(end - start, environment_.clock->now() - end);
    }
}

// Posts unsignaled writes, but for one in kSignalEvery, whose completion frees the others'
// send-queue entries. An adapter that does not send inline reads the count from a copy beside our
// own credit, maybe late: then it sends a later count, which is as true.
bool Core::post_credit(Peer& peer, Subchannel& subchannel) {
    std::uint64_t consumed = peer.ring_in->consumed();
    Gather gather{&consumed, sizeof consumed, 0};
    SendWork work;
    work.opcode = Opcode::write;
    work.flags = kInline | kPublish;
    if (rails_[subchannel.local_rail]->info().inline_bytes < sizeof consumed) {
        std::byte* kept = peer.ring_layout().told();
        store_ring_word(kept, consumed, std::memory_order_release);
        gather.address = kept;
        gather.local_key = peer.ring_registration.local_key(subchannel.local_rail);
        work.flags = kPublish;
    }
    if (++peer.credits_posted % kSignalEvery == 0) {
        work.flags |= kSignaled;
    }
    work.gather = &gather;
    work.gather_count = 1;
    work.remote_address = peer.credit_address;
    work.remote_key = subchannel.remote_memory_key;
    return subchannel.qp->post_send(work).ok();
}

// Returns the sender of a datagram, maybe at first contact; null if it is not who it claims to be,
// or if nothing is known of it.
Peer* Core::sender_of(std::uint32_t fabric, std::uint64_t from, std::uint64_t from_key) {
    Peer* peer = peers_.find(from);
    if (peer == nullptr && !make_peer(from, Why::datagram, peer).ok()) {
        ++counters_.bad_packets;
        return nullptr;
    }
    if (peer->route.fabric != fabric) { // the datagram is for its amo_peer, if it may have one
        Peer* amo_peer = amo_peers_.find(from);
        if (amo_peer == nullptr && fabric == last_fabric()) {
            static_cast<void>(make_amo_peer(*peer, Why::datagram, amo_peer));
        }
        peer = amo_peer != nullptr && amo_peer->route.fabric == fabric ? amo_peer : nullptr;
    }
    if (peer == nullptr || peer->address.key != from_key) {
        ++counters_.bad_packets;
        return nullptr;
    }
    if (peer->datagram.handle == nullptr && !peer->datagram.coming &&
        peer->state != ConnectState::failed) {
        static_cast<void>(wake_peer(*peer, Why::datagram, peer->address));
    }
    return peer;
}

void Core::on_datagram(std::uint32_t fabric, std::uint64_t from, std::uint64_t from_key,
                       const MessageHeader& header, const std::byte* body) {
    Peer* peer = sender_of(fabric, from, from_key);
    if (peer == nullptr) {
        return;
    }
    if (is_sequenced(header.type)) {
        hand_over(*peer, header, body);
    } else {
        connections_->on_handshake(*peer, header, body);
    }
}

void Core::housekeeping() {
    protocol_->update_levels();
    if (meter_ != nullptr && tick_ % kTimedEvery == 0) {
        note_costs();
    }
    connections_->limit().note_activity();
    poll_events();
    if (tick_ % kKeepAliveEvery == 0 && tick_ >= keep_alive_at_) {
        keep_alive();
        keep_alive_at_ = tick_ + kPassesPerAwaited * protocol_->awaited();
    }
}

// A peer that has died sends neither credit nor answers, so a request that waits for it would wait
// forever. Writing our credit to it again does no harm, and fails if it is gone. Visits all
// requests in one go.
void Core::keep_alive() {
    std::unordered_set<const Peer*> awaited;
    const Peer* last = nullptr; // many requests in a row are of one peer
    protocol_->for_each_awaited([&](const Peer& peer) {
        if (&peer != last) {
            awaited.insert(&peer);
            last = &peer;
        }
    });
    for_each_peer([&](Peer& peer) {
        const bool waited_for =
            peer.has_pending() || peer.users > 0 || peer.one_sided > 0 || awaited.contains(&peer);
        if (peer.state == ConnectState::open && waited_for && peer.ring_in.has_value() &&
            !peer.disconnect_received) {
            return_credit(peer);
        }
    });
}

// Fails the peers that lose data with a rail that is down: datagrams under way, or messages in a
// ring, if these cannot move to another path.
void Core::fail_peers_on(std::uint32_t rail) {
    const std::string& name = rails_[rail]->info().name;
    for_each_peer([&](Peer& peer) {
        const bool connected =
            peer.state == ConnectState::open || peer.state == ConnectState::closing;
        const std::size_t chosen = connected ? connections_->chosen_subchannel(peer) : 0;
        const bool ring = connected && peer.subchannels[chosen].local_rail == rail &&
                          !rides_out(peer, chosen, rail);
        const bool datagrams = !moves_datagrams(peer) && rail == peer.route.local.first;
        if (peer.state != ConnectState::failed && (datagrams || (ring && !peer.repairable))) {
            protocol_->on_peer_failed(peer, "rail " + name + " is down");
        }
    });
}

// Replaces a rail's DC target, which all peers write over, after a bad request has failed it. The
// peers retry until it is back.
bool Core::renew_target(std::uint32_t rail, std::uint32_t qp_number) {
    Status status = kOk;
    if (shared_ == nullptr || !shared_->renew_target(rail, qp_number, status)) {
        return false;
    }
    if (!status.ok()) {
        environment_.message(Severity::failure,
                             "Rail " + rails_[rail]->info().name + " of host " + environment_.host +
                                 " has lost its dynamically connected target (" +
                                 reason_text(status.reason()) + "): peers can no longer reach it.");
    }
    return true;
}

// The LID, GID or partition of a rail has changed. Queue pairs and address handles still have the
// old one, so all paths over the rail are made anew, as after a port error. They are probed at
// once; what is sent over them tells the rail's new address. Many such events change nothing (a
// further address of the host).
void Core::on_address_changed(Attached& attached, std::uint32_t rail) {
    const std::uint32_t index = attached.rails.first + rail;
    const RailAddress now = rails_[index]->address();
    RailAddress& told = attached.addresses[rail];
    if (now.size == told.size && now.bytes == told.bytes) {
        return;
    }
    told = now;
    if (attached.answerer != nullptr) {
        attached.answerer->set_address(rail, now);
    }
    if (rail < attached.datagrams->ports()) {
        attached.datagrams->renew(rail);
    }
    if (paths_->on()) {
        paths_->rail_failed(index, "its address has changed");
        paths_->rail_restored(index);
    } else {
        environment_.message(Severity::notice, "The address of rail " + rails_[index]->info().name +
                                                   " of host " + environment_.host +
                                                   " has changed.");
    }
}

void Core::poll_events() {
    for (Attached& attached : fabrics_) {
        poll_events(attached);
        report_notices(attached);
    }
}

// Passes the fabric's notices on; it may have some only once there is a peer.
void Core::report_notices(Attached& attached) {
    const std::vector<std::string>& notices = attached.fabric->notices();
    while (attached.notices_reported < notices.size()) {
        environment_.message(Severity::notice, notices[attached.notices_reported++]);
    }
}

void Core::poll_events(Attached& attached) {
    Event event;
    while (attached.fabric->poll_event(event)) {
        if (event.rail >= attached.rails.count) {
            continue; // a rail beyond kMaxRails, which is not used
        }
        const std::uint32_t index = attached.rails.first + event.rail;
        const std::string& rail = rails_[index]->info().name;
        switch (event.kind) {
        case EventKind::port_error:
        case EventKind::device_fatal: {
            const bool port = event.kind == EventKind::port_error;
            if (migration_ != nullptr) {
                migration_->rail_failed(index);
            }
            paths_->rail_failed(index, port ? "the port went down" : "the device failed");
            if (!paths_->on()) {
                environment_.message(Severity::notice,
                                     "Rail " + rail + " of host " + environment_.host +
                                         (port ? " went down." : "'s device failed."));
            }
            fail_peers_on(index);
            break;
        }
        case EventKind::port_active:
            paths_->rail_restored(index);
            if (migration_ != nullptr) {
                migration_->rail_restored(index);
            }
            if (!paths_->on()) {
                environment_.message(Severity::notice, "Rail " + rail + " of host " +
                                                           environment_.host + " is up again.");
            }
            break;
        case EventKind::qp_fatal:
            if (renew_target(index, event.qp_number) ||
                attached.datagrams->on_fatal(event.rail, event.qp_number)) {
                break;
            }
            if (paths_->on()) {
                on_path_failed(index, event.qp_number, WorkStatus::flushed, 0);
            }
            break;
        case EventKind::armed:
        case EventKind::path_migrated:
        case EventKind::path_migration_error:
            if (migration_ != nullptr) {
                migration_->on_event(event.kind, index, event.qp_number,
                                     [this](Peer& peer, std::size_t subchannel) {
                                         paths_->report_success(peer, subchannel);
                                     });
            }
            break;
        case EventKind::address_changed: on_address_changed(attached, event.rail); break;
        case EventKind::cm_connected:
            connections_->cm_connects().on_connected(index, event.qp_number);
            break;
        case EventKind::peer_changed: on_peers_changed(); break;
        case EventKind::cm_failed:
            connections_->cm_connects().on_failed(index, event.qp_number,
                                                  rails_[index]->last_error_text());
            break;
        default: break;
        }
    }
}

} // namespace adaptib
