// SPDX-License-Identifier: BSD-3-Clause
// Model of staged copies (protocol/intranode/staged_copy.h): both ends copy through a few units of
// staging memory, while the initiator may give up and copy the rest alone. Invariants:
//   * once the initiator's end is over, what in_place() counts is in place, and all other data can
//     be copied by the initiator alone;
//   * the helper touches neither the staging memory nor its own after that: the initiator uses both
//     at once, and the explorer reports a race if the helper does, too;
//   * an end that looks late takes nothing of a later copy for the one that it knows;
//   * neither end waits for ever.
//
// Of a unit, whose 16 KiB make no difference, only the first word is copied.
#include <cstring>

#include "base/copy.h"
#include "model.h"
#include "protocol/intranode/staged_copy.h"

// In place of base/copy.cc.
void adaptib::copy_others(void* to, const void* from, std::size_t) {
    *static_cast<std::uint64_t*>(to) = *static_cast<const std::uint64_t*>(from);
}

namespace adaptib::model {
namespace {

constexpr Bytes kUnit = SharedWork::kUnit;
constexpr std::uint32_t kDepth = 2; // units of staging memory

// Memory of units, of which each begins with a word.
struct Units {
    std::byte* memory;

    std::uint64_t& operator[](std::uint32_t unit) const {
        return *reinterpret_cast<std::uint64_t*>(memory + unit * kUnit);
    }
};

// Accesses the helper's memory by the rules of a window's key, up to the unit that is refused.
class WindowQp final : public QueuePair {
public:
    WindowQp(Units memory, std::uint32_t refused)
        : QueuePair(QpType::rc), memory_(memory), refused_(refused) {}

private:
    Status modify_impl(const QpAttributes&, std::uint32_t) override { return kOk; }
    QpAttributes query_impl() const override { return {}; }
    Status post_send_impl(const SendWork&) override { return kOk; }
    Status post_receive_impl(const ReceiveWork&) override { return kOk; }
    Status serve_rma_impl(const SendWork& work) override {
        const auto own = reinterpret_cast<std::byte*>(work.remote_address);
        const auto unit = static_cast<std::uint32_t>((own - memory_.memory) / kUnit);
        if (unit >= refused_) {
            return Status::error(Reason::bad_key);
        }
        auto* const staged = static_cast<std::byte*>(work.gather->address);
        copy_others(work.opcode == Opcode::read ? staged : own,
                    work.opcode == Opcode::read ? own : staged, work.gather->length);
        return kOk;
    }
    bool usable_impl() const override { return true; }

    const Units memory_;
    const std::uint32_t refused_;
};

struct Plan {
    Opcode opcode = Opcode::read; // of the initiator
    std::uint32_t units = 3;      // of a copy
    std::uint32_t copies = 1;
    std::uint32_t patience = ~0u; // looks until the initiator closes its offer
    std::uint32_t refused = ~0u;  // unit that the helper cannot access
    int looks = 0;                // of the helper for an offer; 0: it waits for each
};

struct Ends {
    Ends(Execution& execution, const Plan& of)
        : plan(of),
          slot(execution.make<AnswerSlot>("slot")), staging{execution.memory(
                                                        "staging", kDepth * kUnit, kCacheLine)},
          ours{execution.memory("initiator's", of.units * kUnit, kCacheLine)},
          theirs{execution.memory("helper's", of.units * kUnit, kCacheLine)},
          window(theirs, of.refused) {}

    const Units& source() const { return plan.opcode == Opcode::read ? theirs : ours; }
    const Units& destination() const { return plan.opcode == Opcode::read ? ours : theirs; }

    const Plan plan;
    AnswerSlot& slot;
    Units staging, ours, theirs;
    WindowQp window;
};

// As SynchronousRma::transfer_staged and pump_staged.
void initiate(Ends& ends, std::uint64_t number) {
    const Plan& plan = ends.plan;
    CooperativeCopyBody body{};
    body.number = number;
    body.theirs = reinterpret_cast<std::uintptr_t>(ends.theirs.memory);
    body.length = static_cast<std::uint32_t>(plan.units * kUnit);
    body.opcode =
        static_cast<std::uint8_t>(plan.opcode == Opcode::read ? Opcode::write : Opcode::read);
    body.staging_units = kDepth;
    RmaWork work;
    work.opcode = plan.opcode;
    work.local = ends.ours.memory;
    work.length = body.length;
    ends.slot.make_offer(body);
    StagedCopy copy(work, number, ends.slot, ends.staging.memory, kDepth);
    std::uint32_t looks = 0;
    for (StagedStep step = copy.step(); step != StagedStep::over; step = copy.step()) {
        check(step != StagedStep::bad, "the slot is inconsistent");
        if (step == StagedStep::waits) {
            if (looks++ == plan.patience) {
                copy.close();
            } else {
                yield();
            }
        }
    }
    for (auto unit = static_cast<std::uint32_t>(copy.in_place() / kUnit); unit < plan.units;
         ++unit) {
        ends.destination()[unit] = ends.source()[unit];
    }
    for (std::uint32_t unit = 0; unit < plan.units; ++unit) {
        check(ends.destination()[unit] == unit + 1, "data is not in place");
        ends.destination()[unit] = 0;
    }
    for (std::uint32_t unit = 0; unit < kDepth; ++unit) {
        ends.staging[unit] = 0; // it is another copy's from now on
    }
}

// As RmaTarget::step_crossing, take_offer and serve_staged.
void help(Ends& ends) {
    std::uint64_t last = 0;
    for (int looks = 0; ends.plan.looks == 0 ? last < ends.plan.copies : looks < ends.plan.looks;
         ++looks) {
        CooperativeCopyBody body;
        if (!ends.slot.read_offer(body) || body.number == last) {
            yield();
            continue;
        }
        last = body.number;
        StagedOffer offer(body, ends.slot, &ends.window, ends.staging.memory,
                          ends.plan.refused == ~0u ? ends.theirs.memory : nullptr);
        StagedStep step = offer.stands() ? StagedStep::moved : StagedStep::over;
        for (; step != StagedStep::over; step = offer.step()) {
            if (step == StagedStep::waits) {
                yield();
            }
        }
    }
}

void run(Execution& execution, const Plan& plan) {
    auto* const ends = new Ends(execution, plan);
    execution.at_end([ends] { delete ends; });
    execution.before(1, [ends] {
        for (std::uint32_t unit = 0; unit < ends->plan.units; ++unit) {
            ends->source()[unit] = unit + 1;
        }
    });
    execution.thread([ends] {
        for (std::uint64_t number = 1; number <= ends->plan.copies; ++number) {
            initiate(*ends, number);
        }
    });
    execution.thread([ends] { help(*ends); });
}

std::uint32_t times(int few) { return static_cast<std::uint32_t>(scaled(few)); }

// The helper fills all units, and the initiator empties them.
void get(Execution& execution) { run(execution, {.units = times(3)}); }

// The other way round.
void put(Execution& execution) { run(execution, {.opcode = Opcode::write, .units = times(3)}); }

// The initiator gives up as soon as it has to wait, and makes another offer.
void given_up_get(Execution& execution) {
    run(execution, {.units = 2, .copies = times(2), .patience = 0, .looks = 2});
}

void given_up_put(Execution& execution) {
    run(execution,
        {.opcode = Opcode::write, .units = 2, .copies = times(2), .patience = 0, .looks = 2});
}

// The helper cannot access its memory from a unit on.
void refused(Execution& execution) { run(execution, {.units = 3, .refused = 1}); }

} // namespace

const std::vector<Model>& models() {
    static const std::vector<Model> all = {{"given_up_put", {}, given_up_put},
                                           {"given_up_get", {}, given_up_get},
                                           {"get", {}, get},
                                           {"put", {}, put},
                                           {"refused", {}, refused}};
    return all;
}

} // namespace adaptib::model
