// SPDX-License-Identifier: BSD-3-Clause
// Model of what two queue pairs, whose writes have no order, write into one ring and one credit
// word: a control lane that migrates (connect/lane_migrations.h, core/credit_return.h), and a ring
// that is stored into, posted to, and stored into again (channel/ring_writer.h). Invariants:
//   * when all has arrived, the ring holds each message whole and in order: no earlier write of the
//     other queue pair, nor of this one, comes down on a message;
//   * the credit word then holds the last count.
//
// A device, which carries out what is posted to a queue pair, in that order, is a thread. It reads
// the bytes when they are posted (inline), and writes the first word of a message last.
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "connect/connection_manager.h"
#include "core/credit_return.h"
#include "model.h"
#include "unit/connect/recorded_rails.h"

namespace adaptib::model {
namespace {

constexpr std::uint32_t kUnits = 64; // of the ring
constexpr std::uint32_t kNoMore = 1u << 31;

// Counts of posted and of completed work, by which a queue pair and its device meet.
struct Doorbell {
    std::atomic<std::uint32_t> posted{0}; // with kNoMore, at last
    std::atomic<std::uint32_t> completed{0};
};

class DevicePair final : public QueuePair {
public:
    DevicePair(std::uint32_t number, Doorbell& doorbell)
        : QueuePair(QpType::rc), doorbell_(doorbell) {
        number_ = number;
    }

    bool stores = false; // the ring's memory is mapped, and stores arrive

    // The device's.
    void carry_out() {
        for (std::uint32_t done = 0;;) {
            const std::uint32_t posted = doorbell_.posted.load(std::memory_order_acquire);
            if (done < (posted & ~kNoMore)) {
                carry_out(works_[done]);
                doorbell_.completed.store(++done, std::memory_order_release);
            } else if (posted != done) {
                return;
            } else {
                yield();
            }
        }
    }

    // The process's.
    void post_no_more() {
        doorbell_.posted.store(static_cast<std::uint32_t>(works_.size()) | kNoMore,
                               std::memory_order_release);
    }
    void poll(std::uint32_t rail) {
        if (polled_ == works_.size()) {
            return;
        }
        const std::uint32_t completed = doorbell_.completed.load(std::memory_order_acquire);
        for (; polled_ < completed; ++polled_) {
            if (works_[polled_].wr_id != 0) {
                WorkCompletion completion{};
                completion.wr_id = works_[polled_].wr_id;
                completion.qp_number = number();
                completion.status = WorkStatus::success;
                target_of(completion.wr_id)->on_work_done(rail, completion);
            }
        }
    }

private:
    struct Work {
        std::uint64_t wr_id; // 0: not signaled
        std::byte* to;
        std::vector<std::byte> bytes;
    };

    static void carry_out(const Work& work) {
        if (work.bytes.empty()) {
            return;
        }
        std::uint64_t first = 0;
        std::memcpy(&first, work.bytes.data(), sizeof first);
        if (work.bytes.size() > sizeof first) {
            std::memcpy(work.to + sizeof first, work.bytes.data() + sizeof first,
                        work.bytes.size() - sizeof first);
        }
        store_ring_word(work.to, first, std::memory_order_release);
    }

    Status modify_impl(const QpAttributes&, std::uint32_t) override { return kOk; }
    QpAttributes query_impl() const override { return {}; }
    Status post_receive_impl(const ReceiveWork&) override { return kOk; }
    Status post_send_impl(const SendWork& work) override {
        Work made{(work.flags & kSignaled) != 0 ? work.wr_id : 0,
                  reinterpret_cast<std::byte*>(work.remote_address),
                  {}};
        for (std::uint32_t i = 0; i < work.gather_count; ++i) {
            check((work.flags & kInline) != 0, "work is not inline");
            const auto* const at = static_cast<const std::byte*>(work.gather[i].address);
            made.bytes.insert(made.bytes.end(), at, at + work.gather[i].length);
        }
        works_.push_back(made);
        doorbell_.posted.store(static_cast<std::uint32_t>(works_.size()),
                               std::memory_order_release);
        return kOk;
    }
    void* map_impl(std::uint64_t address, Bytes, std::uint32_t) override {
        return reinterpret_cast<void*>(address);
    }
    bool usable_impl() const override { return stores; }

    Doorbell& doorbell_;
    std::deque<Work> works_;
    std::uint32_t polled_ = 0;
};

// A process with a connection of two lanes to a peer, whose memory is watched.
class Side final : public test::RecordedConnections {
public:
    explicit Side(Execution& execution)
        : lines(execution.memory("ring", std::size_t{kUnits} * kRingUnit, kCacheLine)),
          credit(reinterpret_cast<std::byte*>(&execution.make<std::uint64_t>("credit"))) {
        for (std::uint32_t lane = 0; lane < 2; ++lane) {
            auto made = std::make_unique<DevicePair>(
                lane + 1, execution.make<Doorbell>("lane " + std::to_string(lane)));
            pairs[lane] = made.get();
            peer->lanes.subchannels[lane].qp = std::move(made);
        }
        peer->in.ring_parts = {.lines_bytes = 4096};
        check(
            first_
                .allocate(RingMemory::bytes(peer->in.ring_parts), kLocalWrite, peer->in.ring_memory)
                .ok(),
            "no memory");
        peer->in.credit_address = reinterpret_cast<std::uintptr_t>(credit);
    }

    // The process sends messages.
    void open_ring() {
        RingTarget& target = peer->connection.remote_ring;
        target = {reinterpret_cast<std::uintptr_t>(lines), 0, kUnits, kRingInline};
        const auto* own = reinterpret_cast<const std::uint64_t*>(peer->in.ring_layout().credit());
        peer->out.ring = std::make_unique<RingWriter>(first_, *pairs[0], target, own,
                                                      wr_id_of(&peer->connection.ring_work));
        check(peer->out.ring->prepare(), "no mirror");
    }
    void send(Bytes length) {
        MessageHeader header;
        header.type = MessageType::eager;
        header.length = static_cast<std::uint32_t>(length);
        header.sequence = sent++;
        std::byte* to = nullptr;
        for (; (to = peer->out.ring->reserve(length)) == nullptr; pass()) {
            yield();
        }
        std::memset(to, 1, length);
        check(peer->out.ring->commit(header).ok(), "a message is refused");
    }
    // The peer's, when all has arrived.
    void expect_all() {
        RingReader reader(lines, kUnits);
        for (std::uint32_t i = 0; i < sent; ++i) {
            MessageHeader header;
            const std::byte* body = nullptr;
            check(reader.poll(header, body) == RingReader::Found::message, "a message is lost");
            check(header.sequence == i, "a message is not the next one");
            reader.consume(i);
        }
    }

    // The process takes a message, which makes credit due.
    void take() {
        if (!peer->in.ring.has_value()) {
            peer->in.ring.emplace(peer->in.ring_layout().lines(), 2);
        }
        MessageHeader header;
        header.type = MessageType::eager;
        header.sequence = taken;
        std::byte* const at = peer->in.ring_layout().lines() + taken++ % 2 * kRingUnit;
        std::memcpy(at + 8, reinterpret_cast<const std::byte*>(&header) + 8, sizeof header - 8);
        store_ring_word(at, header.head_word(), std::memory_order_relaxed);
        const std::byte* body = nullptr;
        check(peer->in.ring->poll(header, body) == RingReader::Found::message, "no message");
        peer->in.ring->consume(header.sequence);
    }

    void migrate() { connections.migrate_control_lane(*peer, 1); }
    // As the core's progress.
    void pass() {
        pairs[0]->poll(0);
        pairs[1]->poll(1);
        connections.retry();
        if (peer->in.ring.has_value() && peer->in.ring->credit_due()) {
            credit_return.return_credit(*peer);
        }
    }
    void end() {
        for (; connections.closing() || (peer->in.ring.has_value() && peer->in.ring->credit_due());
             pass()) {
            yield();
        }
        pairs[0]->post_no_more();
        pairs[1]->post_no_more();
    }

    std::byte* lines;
    std::byte* credit;
    std::array<DevicePair*, 2> pairs{};
    std::uint32_t sent = 0;
    std::uint32_t taken = 0;

    std::unique_ptr<Peer> peer = open_peer(1);
    ConnectionManager connections{recorded_context({}).options, rails_, queues_, world_.counters,
                                  events_};
    CreditReturn credit_return{connections, rails_, nullptr, world_.clock, world_.counters};

private:
    void TestBody() override {}
};

Side& make(Execution& execution, int lanes) {
    auto* const side = new Side(execution);
    execution.at_end([side] { delete side; });
    for (int lane = 0; lane < lanes; ++lane) {
        execution.thread(
            [side, lane] { side->pairs[static_cast<std::size_t>(lane)]->carry_out(); });
    }
    return *side;
}

// Behind a retained message, each posted one needs a zero behind it, written before.
void begin_to_post(Side& side) {
    side.pairs[0]->stores = true;
    side.open_ring();
    side.send(kRetainedFrom);
    side.pairs[0]->stores = false;
    side.send(0);
}

// The ring migrates to a lane that is posted to, or stored into.
void migrate_ring(Execution& execution, bool stores) {
    Side& side = make(execution, 2);
    execution.before(3, [&side] { begin_to_post(side); });
    execution.thread([&side, stores] {
        side.pairs[1]->stores = stores;
        side.migrate();
        side.pass();
        for (int i = 0; i < scaled(1); ++i) {
            side.send(0);
        }
        side.end();
    });
    execution.after([&side] { side.expect_all(); });
}
void posted(Execution& execution) { migrate_ring(execution, false); }
void stored(Execution& execution) { migrate_ring(execution, true); }

// The lane comes back.
void stored_again(Execution& execution) {
    Side& side = make(execution, 1);
    execution.before(2, [&side] { begin_to_post(side); });
    execution.thread([&side] {
        side.pairs[0]->stores = true;
        side.send(0);
        side.end();
    });
    execution.after([&side] { side.expect_all(); });
}

// Credit migrates.
void credit(Execution& execution) {
    Side& side = make(execution, 2);
    execution.thread([&side] {
        side.take();
        side.pass();
        side.migrate();
        for (int i = 0; i < scaled(2); ++i) {
            side.take();
            side.pass();
        }
        side.end();
    });
    execution.after(
        [&side] { check(load_ring_word(side.credit) == side.taken, "the last count is lost"); });
}

} // namespace

const std::vector<Model>& models() {
    static const std::vector<Model> all = {{"stored_again", {}, stored_again},
                                           {"credit", {}, credit},
                                           {"posted", {}, posted},
                                           {"stored", {}, stored}};
    return all;
}

} // namespace adaptib::model
