// SPDX-License-Identifier: BSD-3-Clause
// GrowingRing: a FIFO queue that grows by doubling, up to an optional limit, and never shrinks:
// once it has held its largest load, it allocates no more.
// Threads: none of its own.
// May touch: nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace adaptib {

template <class T> class GrowingRing {
public:
    explicit GrowingRing(std::size_t limit = ~std::size_t{0}) : limit_(limit) {}

    bool empty() const { return count_ == 0; }
    bool full() const { return count_ >= limit_; }
    std::size_t size() const { return count_; }
    T& operator[](std::size_t i) { return slots_[(head_ + i) & (slots_.size() - 1)]; }
    T& front() { return (*this)[0]; }

    // Adds a slot at the end, which still holds its previous content. REQUIRES: not full.
    T& push() {
        if (count_ == slots_.size()) {
            grow();
        }
        ++count_;
        return (*this)[count_ - 1];
    }
    void pop() {
        head_ = (head_ + 1) & (slots_.size() - 1);
        --count_;
    }
    void clear() { head_ = count_ = 0; }

    // Removes the elements for which `predicate` is true; keeps the order of the others.
    template <class Predicate> void remove_if(Predicate&& predicate) {
        std::size_t kept = 0;
        for (std::size_t i = 0; i < count_; ++i) {
            if (!predicate((*this)[i])) {
                if (kept != i) {
                    (*this)[kept] = std::move((*this)[i]);
                }
                ++kept;
            }
        }
        count_ = kept;
    }

private:
    void grow() {
        std::vector<T> larger(std::max<std::size_t>(8, slots_.size() * 2));
        for (std::size_t i = 0; i < count_; ++i) {
            larger[i] = std::move((*this)[i]);
        }
        slots_ = std::move(larger);
        head_ = 0;
    }

    std::vector<T> slots_;
    std::size_t head_ = 0;
    std::size_t count_ = 0;
    std::size_t limit_;
};

} // namespace adaptib
