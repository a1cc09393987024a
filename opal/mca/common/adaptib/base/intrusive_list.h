// SPDX-License-Identifier: BSD-3-Clause
// IntrusiveList: a doubly linked list whose links are members of its elements.
//
// Purpose: queues that never allocate and from whose middle an element is removed in O(1).
//     struct Task { ListLink<Task> link; };
//     IntrusiveList<Task, &Task::link> tasks;
// The link may be in a part of the element: IntrusiveList<Task, &Task::part, &Part::link>.
// Invariant: the linked elements form a ring (the last one's next is the first), so an element is
//   in a list exactly if its next is not null.
// Ownership: elements are the caller's; one must not move or die while it is linked. The list never
//   touches its elements when it is destroyed.
// Threads: not thread safe.
// May touch: base/.
#pragma once

#include <cstddef>

#include "base/invariant.h"

namespace adaptib {

template <class T> struct ListLink {
    T* next = nullptr;
    T* prev = nullptr;

    bool linked() const { return next != nullptr; }
};

template <class T, auto... kPath> class IntrusiveList {
public:
    IntrusiveList() = default;
    IntrusiveList(const IntrusiveList&) = delete;
    IntrusiveList& operator=(const IntrusiveList&) = delete;

    bool empty() const { return first_ == nullptr; }
    std::size_t size() const { return size_; }

    // Null if the list is empty.
    T* front() const { return first_; }
    T* back() const { return first_ == nullptr ? nullptr : link(*first_).prev; }

    // The neighbor, null at the end. REQUIRES: `element` is in this list.
    T* next(const T& element) const {
        T* const after = link(element).next;
        return after == first_ ? nullptr : after;
    }
    T* prev(const T& element) const { return &element == first_ ? nullptr : link(element).prev; }

    // REQUIRES: `element` is in no list through this link.
    void push_back(T& element) { insert_before_first(element); }
    void push_front(T& element) {
        insert_before_first(element);
        first_ = &element;
    }

    // REQUIRES: `element` is in this list.
    void remove(T& element) {
        ListLink<T>& own = link(element);
        ADAPTIB_INVARIANT(own.linked(), "an element that is removed is in the list", size_);
        ADAPTIB_AUDIT(link(*own.prev).next == &element && link(*own.next).prev == &element,
                      "the neighbors of an element name it", size_);
        if (own.next == &element) {
            first_ = nullptr;
        } else {
            link(*own.prev).next = own.next;
            link(*own.next).prev = own.prev;
            if (first_ == &element) {
                first_ = own.next;
            }
        }
        own = ListLink<T>{};
        --size_;
    }

    // Null if the list is empty.
    T* pop_front() {
        T* const element = first_;
        if (element != nullptr) {
            remove(*element);
        }
        return element;
    }

private:
    static ListLink<T>& link(T& element) { return (element.*....*kPath); }
    static const ListLink<T>& link(const T& element) { return (element.*....*kPath); }

    // In a ring the place before the first is the place after the last.
    void insert_before_first(T& element) {
        ListLink<T>& own = link(element);
        ADAPTIB_INVARIANT(!own.linked(), "an element is in one list only", size_);
        if (first_ == nullptr) {
            first_ = &element;
            own.next = own.prev = &element;
        } else {
            T* const last = link(*first_).prev;
            own.next = first_;
            own.prev = last;
            link(*last).next = &element;
            link(*first_).prev = &element;
        }
        ++size_;
    }

    T* first_ = nullptr;
    std::size_t size_ = 0;
};

} // namespace adaptib
