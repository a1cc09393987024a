// SPDX-License-Identifier: BSD-3-Clause
// Candidate puts for each byte, and the chain of atomics (simulator/torture/memory_model.h).
#include "simulator/torture/memory_model.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "simulator/torture/payload.h"

namespace adaptib::torture {

namespace {

bool ended_well(const char* kind, std::uint32_t id, Time completed, int status,
                std::vector<std::string>& problems) {
    const std::string what = kind + (" " + std::to_string(id));
    if (completed == kNever) {
        problems.push_back(what + " never completed");
    } else if (status != OPAL_COMMON_ADAPTIB_SUCCESS) {
        problems.push_back(what + " ended with status " + std::to_string(status));
    } else {
        return true;
    }
    return false;
}

// -------------------------------------------------------------------------------------------------
// Puts and gets

bool covers(const MovedData& put, Bytes from, Bytes to) {
    return put.offset <= from && to <= put.offset + put.bytes;
}

// Returns the possible contents of the bytes [from, to), which no put covers in part, for a read
// between two times.
std::vector<const std::byte*> candidates(const std::vector<const MovedData*>& puts, Bytes from,
                                         Bytes to, const std::byte* first, Time started,
                                         Time completed) {
    std::vector<const MovedData*> possible; // null: the first content
    Time replaced = 0; // puts that completed before this time have been replaced
    for (const MovedData* put : puts) {
        if (covers(*put, from, to) && put->completed < started) {
            replaced = std::max(replaced, put->started);
        }
    }
    std::vector<const std::byte*> found;
    if (replaced == 0) {
        found.push_back(first + from);
    }
    for (const MovedData* put : puts) {
        if (covers(*put, from, to) && put->started < completed && put->completed >= replaced) {
            found.push_back(payload(put->payload) + (from - put->offset));
        }
    }
    return found;
}

void check_read(const MovedData& read, const std::string& what,
                const std::vector<const MovedData*>& puts, const std::byte* first,
                std::vector<std::string>& problems) {
    const Bytes end = read.offset + read.bytes;
    std::set<Bytes> cuts{read.offset, end};
    std::vector<const MovedData*> near;
    for (const MovedData* put : puts) {
        if (put->offset < end && read.offset < put->offset + put->bytes) {
            near.push_back(put);
            cuts.insert(std::max(read.offset, put->offset));
            cuts.insert(std::min(end, put->offset + put->bytes));
        }
    }
    for (auto cut = cuts.begin(); std::next(cut) != cuts.end(); ++cut) {
        const Bytes from = *cut;
        const Bytes to = *std::next(cut);
        const std::byte* got = read.data + (from - read.offset);
        const auto possible = candidates(near, from, to, first, read.started, read.completed);
        for (Bytes i = 0; i < to - from;) {
            if (possible.size() == 1 && std::memcmp(got, possible[0], to - from) == 0) {
                break;
            }
            if (std::none_of(possible.begin(), possible.end(),
                             [&](const std::byte* bytes) { return bytes[i] == got[i]; })) {
                problems.push_back(what + ": byte " + std::to_string(from + i) +
                                   " of the memory of rank " + std::to_string(read.target) +
                                   " is of no put that it could be of");
                return;
            }
            ++i;
        }
    }
}

void check_moves(const MemoryHistory& history, std::vector<std::string>& problems) {
    std::vector<std::vector<const MovedData*>> puts(history.memory.size());
    for (const MovedData& put : history.puts) {
        ended_well("put", put.id, put.completed, put.status, problems);
        puts[put.target].push_back(&put);
    }
    for (const MovedData& get : history.gets) {
        if (ended_well("get", get.id, get.completed, get.status, problems)) {
            check_read(get, "get " + std::to_string(get.id), puts[get.target],
                       payload(history.memory[get.target].payload), problems);
        }
    }
    for (std::uint32_t rank = 0; rank < history.memory.size(); ++rank) {
        const ExposedMemory& memory = history.memory[rank];
        MovedData all;
        all.target = rank;
        all.bytes = memory.bytes;
        all.data = memory.data;
        all.started = all.completed = kNever - 1;
        if (memory.bytes > 0) {
            check_read(all, "at the end", puts[rank], payload(memory.payload), problems);
        }
    }
}

// -------------------------------------------------------------------------------------------------
// Atomics

bool changes(const AtomicUpdate& update) {
    return update.swap ? update.old == update.compare && update.operand != update.old
                       : update.operand != 0;
}

// The values are random, so no value comes twice, and each value was changed by one atomic only.
void check_chain(const std::vector<const AtomicUpdate*>& updates, std::uint64_t last,
                 const std::string& where, std::vector<std::string>& problems) {
    std::map<std::uint64_t, std::vector<const AtomicUpdate*>> readers;
    std::map<std::uint64_t, const AtomicUpdate*> changed;
    for (const AtomicUpdate* update : updates) {
        if (!changes(*update)) {
            readers[update->old].push_back(update);
        } else if (!changed.emplace(update->old, update).second) {
            problems.push_back("atomic " + std::to_string(update->id) + " of " + where +
                               " changed a value that another one had changed");
            return;
        }
    }
    std::uint64_t value = 0;
    Time now = 0;
    std::size_t seen = 0;
    const auto happens = [&](const AtomicUpdate& update, Time not_before) {
        const Time when = std::max(not_before, update.started);
        ++seen;
        if (when >= update.completed) {
            problems.push_back("atomic " + std::to_string(update.id) + " of " + where +
                               " saw a value that was there only after it had completed");
        }
        return when;
    };
    for (;;) {
        Time end = now;
        for (const AtomicUpdate* reader : readers[value]) {
            end = std::max(end, happens(*reader, now));
        }
        const auto next = changed.find(value);
        if (next == changed.end()) {
            break;
        }
        const AtomicUpdate& update = *next->second;
        now = happens(update, end);
        value = update.swap ? update.operand : value + update.operand;
        changed.erase(next);
    }
    if (seen != updates.size()) {
        problems.push_back(std::to_string(updates.size() - seen) + " atomics of " + where +
                           " saw values that were never there");
    } else if (value != last) {
        problems.push_back(where + " is " + std::to_string(last) + " at the end instead of " +
                           std::to_string(value));
    }
}

} // namespace

std::vector<std::string> check(const MemoryHistory& history) {
    std::vector<std::string> problems;
    check_moves(history, problems);
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<const AtomicUpdate*>> words;
    bool whole = true;
    for (const AtomicUpdate& update : history.atomics) {
        whole = ended_well("atomic", update.id, update.completed, update.status, problems) && whole;
        words[{update.target, update.word}].push_back(&update);
    }
    if (!whole) {
        return problems; // the effect of the atomics is not known
    }
    for (std::uint32_t rank = 0; rank < history.memory.size(); ++rank) {
        const auto& last = history.memory[rank].words;
        for (std::uint32_t word = 0; word < last.size(); ++word) {
            check_chain(words[{rank, word}], last[word],
                        "word " + std::to_string(word) + " of rank " + std::to_string(rank),
                        problems);
        }
    }
    return problems;
}

} // namespace adaptib::torture
