// SPDX-License-Identifier: BSD-3-Clause
// Model of operations that a target is asked for (protocol/intranode/synchronous_rma.cc) and of
// copies by both ends: whichever end wins the race for an operation, or for a part of a copy, it is
// done once, and the initiator returns when it is done.
//
// The initiator's and the target's code are the explorer's; the ring between them, which has a
// model of its own, and the rest of the core are not.
#include <array>
#include <memory>
#include <vector>

#include "model.h"
#include "unit/protocol/two_ends.h"

namespace adaptib::model {
namespace {

using test::HostRail;
using test::TwoEnds;

constexpr std::array<std::uint32_t, 1> kKeys{test::kRemoteKey};

// The slot where target and initiator meet lies in watched memory.
TwoEnds& make(Execution& execution) {
    auto* const made = new TwoEnds;
    execution.at_end([made] { delete made; });
    TwoEnds& ends = *made;
    const Bytes bytes = RingMemory::bytes({.direct = true});
    ends.there->in.ring_memory = std::make_unique<HostRail::Region>(
        execution.memory("initiator's ring", bytes, kCacheLine), bytes);
    ends.here->transfers.answers = &ends.there->in.ring_layout().answer();
    ends.here->transfers.answer_data = ends.there->in.ring_layout().answer_data();
    return ends;
}

// The target looks at its ring now and then.
void attend(TwoEnds& ends, int looks) {
    for (int i = 0; i < looks; ++i) {
        ends.look_at_ring();
        yield();
    }
}

void add(TwoEnds& ends, std::uint64_t& word, std::uint64_t& old) {
    RmaWork work;
    work.opcode = Opcode::fetch_add;
    work.local = &old;
    work.length = sizeof old;
    work.remote_address = reinterpret_cast<std::uintptr_t>(&word);
    work.compare_add = 1;
    check(ends.initiator.execute_atomic(*ends.there, work, ends.whole(), kKeys),
          "an atomic is not executed");
}

// Returns the number of atomics before the first one that the target is asked for.
std::uint64_t alone_at_first() {
    TwoEnds ends;
    std::uint64_t word = 0;
    std::uint64_t old = 0;
    ends.there->transfers.assist_choices = std::make_unique<AssistChoices>();
    while (ends.counters.operations_assisted == 0) {
        add(ends, word, old);
    }
    return old;
}

// An atomic of the target's word, which either the target executes or the initiator.
void atomic(Execution& execution) {
    static const std::uint64_t before = alone_at_first();
    TwoEnds& ends = make(execution);
    auto& word = execution.make<std::uint64_t>("word");
    ends.there->transfers.assist_choices = std::make_unique<AssistChoices>();
    for (std::uint64_t i = 0; i < before; ++i) {
        std::uint64_t old = 0;
        add(ends, word, old);
    }
    ends.attends = false;
    execution.thread([&ends, &word] {
        std::uint64_t old = 0;
        add(ends, word, old);
        check(old == before, "an atomic returns another old value");
    });
    execution.thread([&ends] { attend(ends, 2); });
    execution.after([&ends, &word] {
        check(ends.counters.operations_assisted == 1, "the target was not asked");
        check(word == before + 1, "an atomic was executed twice, or not at all");
    });
}

// A copy of four parts: who copies which part.
class Parts {
public:
    static constexpr Bytes kLength = kMinCooperative;

    void copied(std::uint64_t offset, Bytes length) {
        for (Bytes at = offset; at < offset + length; at += SharedWork::kUnit) {
            ++times_[at / SharedWork::kUnit];
        }
    }
    void expect_once() const {
        for (const int each : times_) {
            check(each == 1, "a part was copied twice, or not at all");
        }
    }

private:
    std::array<int, kLength / SharedWork::kUnit> times_{};
};

class CountingQp final : public QueuePair {
public:
    CountingQp(Parts& parts, std::uint64_t base)
        : QueuePair(QpType::rc), parts_(parts), base_(base) {}

private:
    Status modify_impl(const QpAttributes&, std::uint32_t) override { return kOk; }
    QpAttributes query_impl() const override { return {}; }
    Status post_send_impl(const SendWork&) override { return kOk; }
    Status post_receive_impl(const ReceiveWork&) override { return kOk; }
    Status rma_now_impl(const RmaWork& work) override {
        parts_.copied(work.remote_address - base_, work.length);
        return kOk;
    }
    Status serve_copy_impl(const RmaWork& work) override {
        parts_.copied(reinterpret_cast<std::uint64_t>(work.local) - base_, work.length);
        return kOk;
    }
    bool usable_impl() const override { return true; }

    Parts& parts_;
    const std::uint64_t base_;
};

void cooperative(Execution& execution) {
    TwoEnds& ends = make(execution);
    ends.attends = false;
    auto* const parts = new Parts;
    execution.at_end([parts] { delete parts; });
    static std::array<std::byte, Parts::kLength> ours, theirs;
    const auto base = reinterpret_cast<std::uintptr_t>(theirs.data());
    ends.there->transfers.cooperative_copy_choices = std::make_unique<CooperativeCopyChoices>();
    ends.there->transfers.cooperative_copy_choices->only = CooperativeCopyChoices::kCooperative;
    // The ring goes on over the queue pair that it has.
    QueuePair* const of_ring = ends.there->lanes.subchannels[0].qp.release();
    execution.at_end([of_ring] { delete of_ring; });
    ends.there->lanes.subchannels[0].qp = std::make_unique<CountingQp>(*parts, base);
    ends.here->lanes.subchannels[0].qp = std::make_unique<CountingQp>(*parts, base);
    execution.thread([&ends, base] {
        RmaWork work;
        work.opcode = Opcode::write;
        work.local = ours.data();
        work.length = ours.size();
        work.remote_address = base;
        check(ends.initiator.put_or_get(
                  *ends.there, work.length, [&] { return work; }, ends.whole(), kKeys),
              "a put is not executed");
    });
    execution.thread([&ends] { attend(ends, 2); });
    execution.after([parts] { parts->expect_once(); });
}

} // namespace

const std::vector<Model>& models() {
    static const std::vector<Model> all = {{"atomic", {.preemptions = 2}, atomic},
                                           {"cooperative", {}, cooperative}};
    return all;
}

} // namespace adaptib::model
