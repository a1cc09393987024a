// SPDX-License-Identifier: BSD-3-Clause
// Model of BiasedLock (base/biased_lock.h): one thread at a time has the lock, whatever bias is
// given, revoked and given to another thread meanwhile; and whoever waits gets the lock.
#include "base/biased_lock.h"

#include "model.h"

namespace adaptib::model {
namespace {

constexpr std::uint32_t kBiasAfter = 2;

struct Guarded {
    BiasedLock lock{kBiasAfter};
    int inside = 0; // threads
    int entries = 0;

    // REQUIRES: the caller has the lock; nothing else orders these accesses.
    void enter() {
        check(++inside == 1, "two threads have the lock");
        ++entries;
        --inside;
    }
    void take(int times = 1) {
        for (int i = 0; i < times; ++i) {
            lock.lock();
            enter();
            lock.unlock();
        }
    }
    void bias() {
        for (std::uint32_t i = 0; i <= kBiasAfter; ++i) {
            lock.lock();
            lock.unlock();
        }
    }
};

Guarded& biased(Execution& execution) {
    auto& guarded = execution.make<Guarded>("lock");
    execution.before(1, [&] { guarded.bias(); });
    return guarded;
}

void expect_entries(Execution& execution, Guarded& guarded, int entries) {
    execution.after([&guarded, entries] { check(guarded.entries == entries, "an entry is lost"); });
}

// The owner enters while another thread revokes its bias.
void revoked(Execution& execution) {
    Guarded& guarded = biased(execution);
    execution.thread([&] { guarded.take(2); });
    execution.thread([&] { guarded.take(2); });
    expect_entries(execution, guarded, 4);
}

// The owner enters while another thread revokes its bias, gets the bias, and enters by it.
void moved(Execution& execution) {
    Guarded& guarded = biased(execution);
    execution.thread([&] { guarded.take(1); });
    execution.thread([&] { guarded.take(2 * kBiasAfter + 2); });
    expect_entries(execution, guarded, 1 + 2 * kBiasAfter + 2);
}

// The owner loses the bias, and gets it again, while another thread takes the lock.
void given_back(Execution& execution) {
    Guarded& guarded = biased(execution);
    execution.thread([&] { guarded.take(2 * kBiasAfter + 3); });
    execution.thread([&] { guarded.take(2); });
    expect_entries(execution, guarded, 2 * kBiasAfter + 5);
}

// Attempts leave the owner its bias, or take it.
void tried(Execution& execution) {
    Guarded& guarded = biased(execution);
    const auto attempts = [&guarded] {
        for (int i = 0; i < 2; ++i) {
            if (i == 0 ? guarded.lock.try_lock() : guarded.lock.try_lock_to_help()) {
                guarded.enter();
                guarded.lock.unlock();
            }
        }
    };
    execution.thread([&] { guarded.take(2); });
    execution.thread(attempts);
}

// Three threads, of which two revoke.
void three(Execution& execution) {
    Guarded& guarded = biased(execution);
    for (int i = 0; i < 3; ++i) {
        execution.thread([&] { guarded.take(1); });
    }
    expect_entries(execution, guarded, 3);
}

} // namespace

const std::vector<Model>& models() {
    static const std::vector<Model> all = {{"revoked", {}, revoked},
                                           {"moved", {}, moved},
                                           {"given_back", {}, given_back},
                                           {"tried", {}, tried},
                                           {"three", {}, three}};
    return all;
}

} // namespace adaptib::model
