// SPDX-License-Identifier: BSD-3-Clause
// KeyedFifos: a FIFO per key, in a hash table that consists of its elements.
//
// Purpose: the one data structure of matching. Finding, appending and removing cost the same,
// however many keys there are and however many elements share one.
// Structure: the first element of each FIFO represents its key: it alone is in a bucket's chain.
// When it leaves, the second takes its place in the chain. There are no key records that could be
// missing, left over or in need of memory.
// Invariants:
//   1. The first element's prev is the last one (itself if alone); the last one's next is null.
//      Hence an element is in the table exactly if its prev is not null, and it is the first of
//      its FIFO exactly if its prev's next is null.
//   2. There are at least about twice as many buckets as keys, unless the system had no memory for
//      them: then chains grow longer, and nothing else changes.
//   3. More than kKeptBuckets buckets are kept only while a sixteenth of them is in use.
// Ownership: elements are the caller's; the table owns its bucket array.
// Threads: not thread safe.
// May touch: base/, match/envelope.h.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "base/invariant.h"
#include "match/envelope.h"

namespace adaptib {

template <class Element> struct FifoLink {
    Element* prev = nullptr;
    // Meaningful while linked.
    Element* next;
    Element* chain; // in the first of a FIFO: next key of the bucket

    bool linked() const { return prev != nullptr; }
};

// Key provides: static FifoLink<Element>& link(Element&);
//      static Envelope key(const Envelope&)                     an element's key
//      static bool same(const Envelope& a, const Envelope& b)   key(a) == key(b), but cheaper
template <class Element, class Key> class KeyedFifos {
public:
    static constexpr std::size_t kFirstBuckets = 32;
    static constexpr std::size_t kKeptBuckets = 32768;

    KeyedFifos() = default;
    KeyedFifos(const KeyedFifos&) = delete;
    KeyedFifos& operator=(const KeyedFifos&) = delete;

    // Returns the link to the first element with this key; `*find(…)` is null if there is none. The
    // link is valid until the table is changed.
    Element** find(const Envelope& envelope) {
        Element** place = bucket(envelope);
        while (*place != nullptr && !Key::same((*place)->envelope, envelope)) {
            place = &Key::link(**place).chain;
        }
        return place;
    }
    Element* front(const Envelope& envelope) const {
        return *const_cast<KeyedFifos*>(this)->find(envelope);
    }

    // REQUIRES: `element` is not in a table through this link.
    void push_back(Element& element) {
        Element** const place = find(element.envelope);
        FifoLink<Element>& own = Key::link(element);
        ADAPTIB_INVARIANT(!own.linked(), "an element is in one table only through a link", keys_);
        own.next = nullptr;
        if (Element* const first = *place; first != nullptr) {
            FifoLink<Element>& head = Key::link(*first);
            own.prev = head.prev;
            Key::link(*head.prev).next = &element;
            head.prev = &element;
        } else {
            own.prev = &element;
            own.chain = nullptr;
            *place = &element;
            if (++keys_ > grow_above_) [[unlikely]] {
                resize(2 * (mask_ + 1));
            }
        }
    }

    // Removes the first element of a FIFO. REQUIRES: `place` is from find() and `*place` not null.
    Element& take_first(Element** place) {
        Element& first = **place;
        FifoLink<Element>& own = Key::link(first);
        Element* const second = own.next;
        ADAPTIB_AUDIT(own.linked() && Key::link(*own.prev).next == nullptr,
                      "the first of a queue names its last one, which has no next", keys_);
        if (second != nullptr) {
            FifoLink<Element>& head = Key::link(*second);
            head.prev = own.prev;
            head.chain = own.chain;
            *place = second;
            own.prev = nullptr;
        } else {
            *place = own.chain;
            own.prev = nullptr;
            if (--keys_ < shrink_below_) [[unlikely]] {
                resize((mask_ + 1) / 4);
            }
        }
        return first;
    }

    // REQUIRES: `element` is in this table.
    void remove(Element& element) {
        FifoLink<Element>& own = Key::link(element);
        ADAPTIB_INVARIANT(own.linked(), "an element that is removed is in the table", keys_);
        if (Key::link(*own.prev).next == nullptr) {
            Element** place = bucket(element.envelope);
            while (*place != &element) {
                place = &Key::link(**place).chain;
            }
            take_first(place);
            return;
        }
        ADAPTIB_AUDIT(Key::link(*own.prev).next == &element,
                      "an element is the next of the one before it", keys_);
        Key::link(*own.prev).next = own.next;
        if (own.next != nullptr) {
            Key::link(*own.next).prev = own.prev;
        } else {
            // The key has a first element, since it has this one.
            // NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker)
            Key::link(**find(element.envelope)).prev = own.prev;
        }
        own.prev = nullptr;
    }

    // Calls visit(Element&) for each element, in order within a key. `visit` must not change the
    // table.
    template <class Visit> void for_each(Visit&& visit) const {
        for (std::size_t i = 0; i <= mask_; ++i) {
            for (Element* first = buckets_[i]; first != nullptr; first = Key::link(*first).chain) {
                for (Element* element = first; element != nullptr;) {
                    Element* const next = Key::link(*element).next;
                    visit(*element);
                    element = next;
                }
            }
        }
    }

    // Removes each element, then calls visit(Element&) with it. `visit` may end the element's life
    // and must not use the table.
    template <class Visit> void drain(Visit&& visit) {
        for (std::size_t i = 0; i <= mask_; ++i) {
            for (Element* first = std::exchange(buckets_[i], nullptr); first != nullptr;) {
                Element* const chain = Key::link(*first).chain;
                for (Element* element = first; element != nullptr;) {
                    Element* const next = Key::link(*element).next;
                    Key::link(*element).prev = nullptr;
                    visit(*element);
                    element = next;
                }
                first = chain;
            }
        }
        keys_ = 0;
        if (shrink_below_ > 0) {
            resize(kFirstBuckets);
        }
    }

    std::size_t keys() const { return keys_; }
    std::size_t buckets() const { return mask_ + 1; }

private:
    Element** bucket(const Envelope& envelope) {
        return &buckets_[envelope_hash(Key::key(envelope)) & mask_];
    }

    // Changes the number of buckets, a power of two; without memory for them nothing changes.
    [[gnu::noinline]] void resize(std::size_t count) {
        std::unique_ptr<Element*[]> fresh(new (std::nothrow) Element*[count]());
        if (!fresh) {
            grow_above_ *= 2; // retry later, not at every call
            shrink_below_ /= 2;
            return;
        }
        ADAPTIB_INVARIANT(std::has_single_bit(count) && count >= kFirstBuckets,
                          "the number of buckets is a power of two", count);
        Element** const old = buckets_;
        const std::size_t old_count = mask_ + 1;
        buckets_ = fresh.get();
        mask_ = count - 1;
        grow_above_ = count / 2;
        shrink_below_ = count > kKeptBuckets ? count / 16 : 0;
        for (std::size_t i = 0; i < old_count; ++i) {
            for (Element* first = old[i]; first != nullptr;) {
                FifoLink<Element>& link = Key::link(*first);
                Element** const place = bucket(first->envelope);
                Element* const rest = link.chain;
                link.chain = *place;
                *place = first;
                first = rest;
            }
        }
        heap_ = std::move(fresh);
        ADAPTIB_AUDIT(chained() == keys_, "each key is in one chain", chained(), keys_);
    }

    // Returns the number of keys that the chains hold.
    std::size_t chained() const {
        std::size_t count = 0;
        for (std::size_t i = 0; i <= mask_; ++i) {
            for (Element* first = buckets_[i]; first != nullptr; first = Key::link(*first).chain) {
                ++count;
            }
        }
        return count;
    }

    std::size_t mask_ = kFirstBuckets - 1;
    Element** buckets_ = first_buckets_;
    std::size_t keys_ = 0;
    std::size_t grow_above_ = kFirstBuckets / 2;
    std::size_t shrink_below_ = 0;
    std::unique_ptr<Element*[]> heap_; // null while first_buckets_ are in use
    Element* first_buckets_[kFirstBuckets] = {};
};

} // namespace adaptib
