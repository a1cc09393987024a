// SPDX-License-Identifier: BSD-3-Clause
// The paths of matching that involve wildcards or cancellation.
#include "match/match.h"

#include <new>

#include "base/invariant.h"

namespace adaptib {

PostedReceive* Matcher::arrive_among_wildcards(std::uint32_t context, std::int32_t source,
                                               std::int32_t tag) {
    const Envelope message{context, source, tag};
    ADAPTIB_AUDIT(wildcards_by_class_[1] + wildcards_by_class_[2] + wildcards_by_class_[3] ==
                      wildcards_,
                  "the wildcards of all classes are the wildcards", wildcards_);
    PostedReceive** best = nullptr;
    for (const PatternClass wild : {PatternClass::exact, PatternClass::any_tag,
                                    PatternClass::any_source, PatternClass::any}) {
        const bool any_tag = (static_cast<unsigned>(wild) & 1u) != 0;
        const bool none = wild == PatternClass::exact
                              ? posted_ == wildcards_
                              : wildcards_by_class_[static_cast<std::size_t>(wild)] == 0;
        if (none || (any_tag && message.tag < 0)) {
            continue;
        }
        PostedReceive** const place = receives_.find(generalised(message, wild));
        if (*place != nullptr && (best == nullptr || (*place)->number_ < (*best)->number_)) {
            best = place;
        }
    }
    return best == nullptr ? nullptr : &take_receive(best);
}

bool Matcher::cancel(PostedReceive& receive) {
    if (!receive.queued()) {
        return false;
    }
    ADAPTIB_INVARIANT(posted_ > 0, "a receive that is queued is counted", posted_);
    receives_.remove(receive);
    count_wildcard(receive, kOneLess);
    --posted_;
    ADAPTIB_INVARIANT(wildcards_ <= posted_, "a receive with a wildcard is a posted one",
                      wildcards_, posted_);
    return true;
}

bool Matcher::remove(UnexpectedMessage& message) {
    if (!message.queued()) {
        return false;
    }
    by_envelope_.remove(message);
    forget(message);
    return true;
}

UnexpectedMessage* Matcher::find_by_wildcard(const Envelope& pattern) {
    switch (pattern_class(pattern)) {
    case PatternClass::any_tag: return search(by_source_, pattern);
    case PatternClass::any_source: return search(by_tag_, pattern);
    case PatternClass::any: return search(by_context_, pattern);
    case PatternClass::exact: break;
    }
    return by_envelope_.front(pattern);
}

void Matcher::add_to_indexes(UnexpectedMessage& message) {
    add_to(by_source_, message);
    add_to(by_tag_, message);
    add_to(by_context_, message);
}

void Matcher::remove_from_indexes(UnexpectedMessage& message) {
    const auto remove_from = [&message]<PatternClass kClass>(Index<kClass>& index) {
        if (index.active && MessageKey<kClass>::link(message).linked()) {
            index.table.remove(message);
        }
    };
    remove_from(by_source_);
    remove_from(by_tag_);
    remove_from(by_context_);
}

template <PatternClass kClass>
UnexpectedMessage* Matcher::search(Index<kClass>& index, const Envelope& pattern) {
    index.unused = 0; // before add_to(), which drops an unused index
    if (!index.active) {
        ADAPTIB_INVARIANT(index.table.keys() == 0, "an index that is not active holds no message",
                          index.table.keys());
        index.active = true;
        ++indexes_;
        for_each_unexpected([&](UnexpectedMessage& message) { add_to(index, message); });
        index.unused = 0;
    }
    ADAPTIB_AUDIT(index.table.keys() <= messages_.size(),
                  "an index holds only messages that are queued", index.table.keys());
    return index.table.front(pattern);
}

template <PatternClass kClass>
void Matcher::add_to(Index<kClass>& index, UnexpectedMessage& message) {
    constexpr bool kAnyTag = (static_cast<unsigned>(kClass) & 1u) != 0;
    if (!index.active) {
        return;
    }
    if (++index.unused > kIndexPatience + messages_.size()) {
        ADAPTIB_INVARIANT(indexes_ > 0, "an index that is active is counted", indexes_);
        index.active = false;
        --indexes_;
        index.table.drain([](UnexpectedMessage&) {});
        return;
    }
    new (&MessageKey<kClass>::link(message)) FifoLink<UnexpectedMessage>;
    if (!kAnyTag || message.envelope.tag >= 0) {
        index.table.push_back(message);
    }
}

} // namespace adaptib
