// SPDX-License-Identifier: BSD-3-Clause
// The queue of events (simulator/network/simulator.h).
#include "simulator/network/simulator.h"

#include <algorithm>

namespace adaptib::sim {

namespace {

constexpr std::size_t kChildren = 4;

} // namespace

void Simulator::schedule(Event& event, Nanoseconds when) {
    if (event.scheduled()) {
        cancel(event);
    }
    event.simulator_ = this;
    event.when_ = std::max(when, now_);
    heap_.emplace_back();
    sift_up(heap_.size() - 1, {event.when_, sequence_++, &event});
}

void Simulator::cancel(Event& event) {
    if (event.scheduled()) {
        remove(event.slot_);
    }
}

bool Simulator::step() {
    if (heap_.empty()) {
        return false;
    }
    Event& event = *heap_.front().event;
    now_ = heap_.front().when;
    remove(0);
    ++happened_;
    event.happen();
    return true;
}

void Simulator::remove(std::size_t slot) {
    heap_[slot].event->slot_ = Event::kNone;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (slot == heap_.size()) {
        return;
    }
    if (slot > 0 && last.before(heap_[(slot - 1) / kChildren])) {
        sift_up(slot, last);
    } else {
        sift_down(slot, last);
    }
}

void Simulator::sift_up(std::size_t slot, Entry entry) {
    while (slot > 0) {
        const std::size_t parent = (slot - 1) / kChildren;
        if (!entry.before(heap_[parent])) {
            break;
        }
        place(slot, heap_[parent]);
        slot = parent;
    }
    place(slot, entry);
}

void Simulator::sift_down(std::size_t slot, Entry entry) {
    for (;;) {
        const std::size_t first = slot * kChildren + 1;
        if (first >= heap_.size()) {
            break;
        }
        std::size_t least = first;
        for (std::size_t i = first + 1; i < std::min(first + kChildren, heap_.size()); ++i) {
            if (heap_[i].before(heap_[least])) {
                least = i;
            }
        }
        if (!heap_[least].before(entry)) {
            break;
        }
        place(slot, heap_[least]);
        slot = least;
    }
    place(slot, entry);
}

} // namespace adaptib::sim
