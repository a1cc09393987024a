// SPDX-License-Identifier: BSD-3-Clause
// Runner: the user of the cores in one run, and its record.
//
// Purpose: carries out a program's operations (operations.cc) when their ranks have their turns
// (run.cc), and records the events for the models. It is a demanding user: it overwrites the buffer
// of a send or put at once when that completes, and (half of the programs) sends the next message
// from the same memory; digests the buffer of a receive at completion, and
// checks all buffers, and the memory beside them, at the end.
// Threads: one.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "simulator/torture/buffer.h"
#include "simulator/torture/driver.h"
#include "simulator/torture/memory_model.h"
#include "simulator/torture/model.h"
#include "simulator/torture/program.h"
#include "simulator/torture/run.h"

namespace adaptib::torture {

class Runner final : private Listener {
public:
    Runner(const Program& program, std::unique_ptr<Driver> driver);
    Outcome outcome();

private:
    // A started operation. Atomics have their result in it, so its address repeats, too.
    struct Live {
        static void* operator new(std::size_t bytes) { return take_block(bytes); }
        static void operator delete(void* live, std::size_t bytes) { give_block(live, bytes); }

        UserRequest user{}; // first member: completion finds the others through it
        Runner* runner = nullptr;
        const Operation* operation = nullptr;
        std::int32_t peer = Envelope::kAnySource; // as far as known
        std::size_t record = 0;                   // index in the history's list for that verb
        Buffer buffer;
        Registration key;
        std::uint64_t old = 0;    // atomics
        std::uint64_t digest = 0; // receives: of the received bytes
        bool done = false;
    };
    // Steps of a process that ends in good order: it disconnects from peers, tells the others.
    enum class Ending : std::uint8_t { none, disconnecting, leaving, gone };
    struct Rank {
        std::vector<const Operation*> list;
        std::size_t next = 0;
        std::uint64_t most_connections = 0; // connect_max; 0: any number
        std::uint64_t turns = 0;            // turns that the present operation has had
        std::uint64_t pause = 0;            // ticks before its next turn, if it waits for long
        Ending ending = Ending::none;
        Nanoseconds ending_since{0}; // when that step began
        bool died = false;
        // Ranks of whose end the runtime is about to tell this one.
        std::vector<std::uint32_t> untold;
        // Ranks that release an endpoint of this process once it is gone.
        std::vector<std::pair<std::uint32_t, std::uint32_t>> released_late;
        std::vector<std::byte> memory;
        Remote memory_remote{};
        std::vector<std::uint64_t> words;
        Remote words_remote{};
        std::vector<Buffer> spare; // contiguous ones of sends that have ended
    };

    void problem(const std::string& text) { outcome_.problems.push_back(text); }
    Time now() { return ++now_; }
    std::uint64_t payload_of(const Operation& operation) const {
        return program_.schedule * 1'000'003 + operation.id;
    }

    // run.cc
    void expose();
    void expose(std::uint32_t rank, void* base, Bytes bytes, std::uint32_t access, Remote& remote);
    void on_turn(std::uint32_t rank);
    void look_at_connections(std::uint32_t rank);
    bool step(Rank& self, const Operation& operation);
    bool moving();
    void settle();
    bool receive_what_is_left();
    bool receive_what_is_left(std::uint32_t rank, std::int32_t source);
    void look_at_buffers();
    void look_at_ranks();
    void look_at_the_end();
    void ask_the_models();

    // endings.cc
    bool end(Rank& self, const Operation& operation);
    void enter(Rank& self, Ending step);
    bool is_over(std::uint32_t process);
    bool cancels_or_waits(std::uint32_t process);
    bool connects(std::uint32_t process);
    bool all_arrived(std::uint32_t rank) const;
    bool has_got_all_active(std::uint32_t rank, std::uint32_t from) const;
    void disconnect(std::uint32_t process);
    bool has_sent_all(const Rank& first, std::uint32_t process);
    void drop_messages_about_the_gone(std::vector<std::string>& said) const;

    // deaths.cc
    void on_death(std::uint32_t rank, bool told);
    void note_death(std::uint32_t rank, bool told);
    bool died(std::int32_t rank) const {
        return rank >= 0 && ranks_[static_cast<std::size_t>(rank)].died;
    }
    bool concerns_the_dead(const Live& live) const {
        return died(static_cast<std::int32_t>(live.operation->rank)) || died(live.peer);
    }
    void tell_of_the_dead(std::uint32_t rank);
    void wait_for_the_dead(std::uint32_t rank);
    bool is_connected_with_the_dead(std::uint32_t rank);
    bool waits_for_the_dead(std::uint32_t rank);
    bool waits_for_the_dead();
    void settle_the_dead();
    void judge_what_came_of_the_dead();
    void forget_the_dead();
    void forget_memory_of_the_dead();

    // operations.cc
    Live* find(std::uint32_t id);
    Live& make(const Operation& operation, Bytes bytes);
    void started(Live& live, const Started& how);
    void send(const Operation& operation);
    void reuse_buffer(Live& live);
    void give_back_buffer(Live& live);
    Received& record_receive(Live& live, const Operation& operation, const Envelope& pattern);
    void receive(const Operation& operation);
    void cancel(Live& live);
    void note_probe(const Operation& operation, const Envelope& pattern, bool found,
                    const Found& what);
    void probe(const Operation& operation);
    bool claim(const Operation& operation, const Envelope& pattern, Bytes room);
    void send_active(const Operation& operation);
    bool release(Rank& self, const Operation& operation);
    bool is_done_with(std::uint32_t self, std::uint32_t peer) const;
    void on_active(std::uint32_t rank, std::uint64_t from, std::uint8_t tag, const std::byte* bytes,
                   Bytes length) override;
    bool one_sided(const Operation& operation);
    OneSidedOperation describe(Live& live, const Operation& operation);
    void record_one_sided(Live& live, const Operation& operation);
    void on_completed(Live& live);
    void complete_receive(Live& live, Time time);

    const Program& program_;
    std::unique_ptr<Driver> driver_;
    Random random_;
    Time now_ = 0;
    Nanoseconds begun_{0}; // when the last operation began, and when the last one ended, by the
    Nanoseconds ended_{0}; // driver's time
    std::size_t left_;     // operations not yet begun
    std::vector<std::string> said_before_; // by the cores, before the program begins
    bool has_died_ = false;
    bool has_atomics_ = false; // all rails have them; otherwise only target-assisted ones are run
    std::vector<Rank> ranks_;
    std::vector<std::unique_ptr<OpenWindow>> keys_;
    std::vector<std::unique_ptr<Live>> lives_;
    std::map<std::uint32_t, Live*> by_id_;
    // Values of the atomics' words.
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> last_seen_;
    std::vector<Operation> drains_; // claims at the end, one per rank
    History history_;
    MemoryHistory memory_;
    Outcome outcome_;
};

// The envelope that a receive, probe or claim asks for.
inline Envelope pattern_of(const Operation& operation) {
    return {operation.context, operation.peer, operation.tag};
}

inline bool is_atomic(Verb verb) { return verb == Verb::add || verb == Verb::swap; }

} // namespace adaptib::torture
