// SPDX-License-Identifier: BSD-3-Clause
// Matching: decides which receive gets which message.
//
// Purpose: posted and unexpected queues with MPI's rules. An exact match costs the same at any
// depth (hash by envelope, a FIFO per envelope). Wildcard receives are ordered against exact ones
// by the order of posting, unexpected messages among themselves by the order of arrival.
// Rules: ANY_TAG does not match negative tags (they belong to the library's own traffic).
// Posted receives: one table holds them under their pattern. A message fits at most four patterns
// (its own envelope, and with the source, the tag or both made wildcards), so arrive() looks at the
// heads of at most four FIFOs and takes the one posted first; it skips classes of which none is
// posted.
// Unexpected messages: a table holds them by envelope, and a list by arrival. Wildcard searches use
// an index per class. The first search of that class that finds messages queued builds it, later
// messages are added to it, and it is dropped when it was not used for long: a program without
// wildcards never pays for it. Indexes for ANY_TAG do not contain negative tags.
// Ownership: nodes are the caller's (members or bases of its requests and messages). A node is
// linked from the call that queues it until the call that returns or removes it, and must not move,
// die or change its envelope meanwhile. Nothing is allocated per match; tables grow by doubling.
// Errors: none. A table that gets no memory works on with longer chains.
// Threads: one at a time (the core's lock).
// May touch: base/ only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/intrusive_list.h"
#include "base/invariant.h"
#include "base/units.h"
#include "match/envelope.h"
#include "match/keyed_fifos.h"

namespace adaptib {

struct PostedReceive {
    PostedReceive() = default;
    explicit PostedReceive(const Envelope& pattern) : envelope(pattern) {}
    PostedReceive(const PostedReceive&) = delete;
    PostedReceive& operator=(const PostedReceive&) = delete;

    Envelope envelope; // may have wildcards

    bool queued() const { return link_.linked(); }

private:
    friend class Matcher;
    friend struct PatternKey;

    FifoLink<PostedReceive> link_;
    std::uint64_t number_; // order of posting; meaningful while queued
};
static_assert(sizeof(PostedReceive) <= kCacheLine);

struct UnexpectedMessage {
    UnexpectedMessage() = default;
    UnexpectedMessage(const Envelope& sent, Bytes size) : envelope(sent), length(size) {}
    UnexpectedMessage(const UnexpectedMessage&) = delete;
    UnexpectedMessage& operator=(const UnexpectedMessage&) = delete;

private:
    friend class Matcher;
    template <PatternClass> friend struct MessageKey;

    // Set when a wildcard index takes the message, or passes it over; without an index untouched.
    union ClassLinks {
        ClassLinks() {}
        FifoLink<UnexpectedMessage> of[3];
    };
    ClassLinks by_class_;

public:
    // The members that every message uses follow; they take one cache line.
    static constexpr Bytes kInFront = sizeof(ClassLinks);

    Envelope envelope; // no wildcards
    Bytes length = 0;  // of the whole message

    bool queued() const { return by_envelope_.linked(); }

private:
    FifoLink<UnexpectedMessage> by_envelope_;
    ListLink<UnexpectedMessage> by_arrival_;
};
static_assert(sizeof(UnexpectedMessage) == UnexpectedMessage::kInFront + kCacheLine);

// Posted receives are in their table under the pattern itself.
struct PatternKey {
    static FifoLink<PostedReceive>& link(PostedReceive& receive) { return receive.link_; }
    static Envelope key(const Envelope& pattern) { return pattern; }
    static bool same(const Envelope& a, const Envelope& b) { return a == b; }
};

// Messages are in a table under the pattern of one class that fits them.
template <PatternClass kClass> struct MessageKey {
    static FifoLink<UnexpectedMessage>& link(UnexpectedMessage& message) {
        if constexpr (kClass == PatternClass::exact) {
            return message.by_envelope_;
        } else {
            return message.by_class_.of[static_cast<std::size_t>(kClass) - 1];
        }
    }
    static Envelope key(const Envelope& envelope) { return generalised(envelope, kClass); }
    static bool same(const Envelope& a, const Envelope& b) {
        constexpr auto kBits = static_cast<unsigned>(kClass);
        return a.context == b.context && ((kBits & 2u) != 0 || a.source == b.source) &&
               ((kBits & 1u) != 0 || a.tag == b.tag);
    }
};

class Matcher {
public:
    Matcher() = default;
    Matcher(const Matcher&) = delete;
    Matcher& operator=(const Matcher&) = delete;

    // Queues `receive`, unless an unexpected message fits: then the earliest of those is removed
    // and returned, and `receive` is not queued. REQUIRES: `receive` is not queued.
    UnexpectedMessage* post(PostedReceive& receive) {
        UnexpectedMessage* const message = take(receive.envelope);
        if (message == nullptr) {
            queue(receive);
        }
        return message;
    }
    // The second half of post(). REQUIRES: take(receive.envelope) has just returned null.
    [[gnu::always_inline]] void queue(PostedReceive& receive) {
        receive.number_ = next_number_++;
        count_wildcard(receive, 1);
        receives_.push_back(receive);
        ++posted_;
        ADAPTIB_AUDIT(wildcards_ <= posted_ && receives_.keys() <= posted_,
                      "each pattern, and each wildcard, is of a receive that is queued", posted_,
                      wildcards_, receives_.keys());
        peak_posted_ = posted_ > peak_posted_ ? posted_ : peak_posted_;
    }

    // Removes and returns the first posted receive, in order of posting, that the message fits; or
    // null. REQUIRES: `message` has no wildcards.
    [[gnu::always_inline]] PostedReceive* arrive(const Envelope& message) {
        ADAPTIB_AUDIT(pattern_class(message) == PatternClass::exact, "a message has no wildcards",
                      message.source, message.tag);
        if (posted_ == 0) {
            return nullptr;
        }
        if (wildcards_ != 0) [[unlikely]] {
            return arrive_among_wildcards(message.context, message.source, message.tag);
        }
        PostedReceive** const place = receives_.find(message);
        if (*place == nullptr) {
            return nullptr;
        }
        --posted_;
        return &receives_.take_first(place);
    }

    // Queues a message for which arrive() has just returned null. REQUIRES: it is not queued and
    // has no wildcards.
    void add_unexpected(UnexpectedMessage& message) {
        ADAPTIB_AUDIT(pattern_class(message.envelope) == PatternClass::exact,
                      "a message has no wildcards", message.envelope.source, message.envelope.tag);
        by_envelope_.push_back(message);
        messages_.push_back(message);
        peak_unexpected_ =
            messages_.size() > peak_unexpected_ ? messages_.size() : peak_unexpected_;
        if (indexed()) {
            add_to_indexes(message);
        }
    }

    // Probe: returns the earliest unexpected message that fits `pattern`, or null; it stays queued.
    UnexpectedMessage* find(const Envelope& pattern) {
        if (messages_.empty()) {
            return nullptr;
        }
        if (pattern_class(pattern) == PatternClass::exact) {
            return by_envelope_.front(pattern);
        }
        return find_by_wildcard(pattern);
    }

    // Matched probe: likewise, but removes the message.
    [[gnu::always_inline]] UnexpectedMessage* take(const Envelope& pattern) {
        return messages_.empty() ? nullptr
                                 : take_queued(pattern.context, pattern.source, pattern.tag);
    }

    // Removes a receive from the queue; false if it was not in it (matched before, or never
    // posted).
    bool cancel(PostedReceive& receive);

    // Likewise for a message.
    bool remove(UnexpectedMessage& message);

    std::size_t posted() const { return posted_; }
    std::size_t unexpected() const { return messages_.size(); }
    std::size_t peak_posted() const { return peak_posted_; }
    std::size_t peak_unexpected() const { return peak_unexpected_; }

    // Calls visit(PostedReceive&) for each queued receive, those with the same pattern in order of
    // posting. `visit` must not call the matcher.
    template <class Visit> void for_each_posted(Visit&& visit) const { receives_.for_each(visit); }

    // Calls visit(UnexpectedMessage&) for each in order of arrival. `visit` may remove the message
    // it is called with, and no other.
    template <class Visit> void for_each_unexpected(Visit&& visit) const {
        for (UnexpectedMessage* message = messages_.front(); message != nullptr;) {
            UnexpectedMessage* const next = messages_.next(*message);
            visit(*message);
            message = next;
        }
    }

    // Empties a queue: removes each node, then calls `visit` with it, which may end its life. For
    // shutdown; `visit` must not call the matcher.
    template <class Visit> void drain_posted(Visit&& visit) {
        posted_ = 0;
        wildcards_ = 0;
        for (std::size_t& count : wildcards_by_class_) {
            count = 0;
        }
        receives_.drain(visit);
    }
    template <class Visit> void drain_unexpected(Visit&& visit) {
        while (UnexpectedMessage* const message = messages_.front()) {
            remove(*message);
            visit(*message);
        }
    }

private:
    template <PatternClass kClass> struct Index {
        KeyedFifos<UnexpectedMessage, MessageKey<kClass>> table;
        bool active = false;
        std::size_t unused = 0; // messages queued since the last search
    };

    // An index is dropped when more than this number of messages, plus as many as are queued, were
    // added since its last search. Rebuilding it costs less than what was added, so the cost per
    // message stays constant, however searches are spread.
    static constexpr std::size_t kIndexPatience = 4096;
    static constexpr std::size_t kOneLess = ~std::size_t{0};

    // Counts a receive that is queued or removed.
    void count_wildcard(const PostedReceive& receive, std::size_t by) {
        const PatternClass wild = pattern_class(receive.envelope);
        if (wild != PatternClass::exact) [[unlikely]] {
            wildcards_ += by;
            wildcards_by_class_[static_cast<std::size_t>(wild)] += by;
        }
    }

    bool indexed() const { return indexes_ > 0; }

    PostedReceive& take_receive(PostedReceive** place) {
        PostedReceive& receive = receives_.take_first(place);
        count_wildcard(receive, kOneLess);
        --posted_;
        return receive;
    }

    // Takes the envelope as scalars, so that it stays in registers.
    UnexpectedMessage* take_queued(std::uint32_t context, std::int32_t source, std::int32_t tag) {
        const Envelope pattern{context, source, tag};
        if (pattern_class(pattern) == PatternClass::exact) {
            UnexpectedMessage** const place = by_envelope_.find(pattern);
            if (*place == nullptr) {
                return nullptr;
            }
            UnexpectedMessage& message = by_envelope_.take_first(place);
            forget(message);
            return &message;
        }
        UnexpectedMessage* const message = find(pattern);
        if (message != nullptr) {
            remove(*message);
        }
        return message;
    }

    // Completes the removal of a message that has left by_envelope_.
    void forget(UnexpectedMessage& message) {
        messages_.remove(message);
        ADAPTIB_AUDIT(by_envelope_.keys() <= messages_.size(),
                      "each envelope is of a message that is queued", messages_.size());
        if (indexed()) {
            remove_from_indexes(message);
        }
    }

    PostedReceive* arrive_among_wildcards(std::uint32_t context, std::int32_t source,
                                          std::int32_t tag);
    UnexpectedMessage* find_by_wildcard(const Envelope& pattern);
    void add_to_indexes(UnexpectedMessage& message);
    void remove_from_indexes(UnexpectedMessage& message);

    template <PatternClass kClass>
    UnexpectedMessage* search(Index<kClass>& index, const Envelope& pattern);
    template <PatternClass kClass> void add_to(Index<kClass>& index, UnexpectedMessage& message);

    KeyedFifos<PostedReceive, PatternKey> receives_;
    std::size_t posted_ = 0;
    std::size_t wildcards_ = 0;              // posted receives with a wildcard
    std::size_t wildcards_by_class_[4] = {}; // the same by PatternClass
    std::uint64_t next_number_ = 0;
    std::size_t peak_posted_ = 0;
    std::size_t peak_unexpected_ = 0;

    KeyedFifos<UnexpectedMessage, MessageKey<PatternClass::exact>> by_envelope_;
    IntrusiveList<UnexpectedMessage, &UnexpectedMessage::by_arrival_> messages_;
    unsigned indexes_ = 0; // number of active ones among the following
    Index<PatternClass::any_tag> by_source_;
    Index<PatternClass::any_source> by_tag_;
    Index<PatternClass::any> by_context_;
};

} // namespace adaptib
