// SPDX-License-Identifier: BSD-3-Clause
// Makes a program from a seed (simulator/torture/program.h).
//
// The choices and their frequencies aim at the places where protocols change: sizes around each
// limit, few tags and contexts so that patterns meet, receives before and after their messages,
// more receives than messages and fewer, bursts to one rank, and waits in between.
#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/wire.h"
#include "simulator/network/machine.h"
#include "simulator/torture/endpoints.h"
#include "simulator/torture/payload.h"
#include "simulator/torture/program.h"
#include "simulator/torture/spread.h"

namespace adaptib::torture {

namespace {

class Maker {
public:
    explicit Maker(std::uint64_t seed) : random_(seed) {}

    Program make() {
        program_.ranks = draw_ranks();
        program_.schedule = random_.next() >> 16;
        draw_settings();
        if (!one_in(3)) {
            draw_world();
            draw_failures();
            draw_address_changes();
            draw_placement();
            draw_breakage();
            draw_slow_type();
        } else if (one_in(2)) {
            draw_faults();
            draw_cm_connects();
        }
        draw_policies();
        draw_atomics();
        draw_interleaving();
        draw_habits();
        const std::uint64_t count =
            one_in(8) ? 300 + random_.below(500) : 10 + random_.below(20 * program_.ranks + 20);
        while (program_.operations.size() < count) {
            draw_step();
        }
        draw_switches();
        draw_computing();
        draw_memory();
        draw_unexpected();
        draw_frequent();
        draw_ends();
        draw_deaths();
        draw_endpoints();
        draw_differences();
        return std::move(program_);
    }

private:
    bool one_in(std::uint64_t n) { return random_.below(n) == 0; }
    template <std::size_t kCount>
    std::uint64_t one_of(const std::array<std::uint64_t, kCount>& values) {
        return values[random_.below(kCount)];
    }

    std::uint32_t draw_ranks() {
        return one_in(40) ? 30 : static_cast<std::uint32_t>(2 + (one_in(2) ? 0 : random_.below(7)));
    }

    void set(const char* name, std::uint64_t value) {
        program_.settings.push_back({name, std::to_string(value)});
    }

    void draw_settings() {
        eager_limit_ = one_in(3) ? 4096 : one_of<6>({0, 1, 100, 1024, 4096, 16384});
        set("eager_limit", eager_limit_);
        const std::uint64_t least = round_up(2 * (eager_limit_ + 2 * kCacheLine), 4096);
        const std::uint64_t wanted = one_of<4>({4096, 8192, 16384, 131072});
        ring_bytes_ = std::max(wanted, least);
        set("ring_bytes", ring_bytes_);
        set("verbs_ring_bytes", ring_bytes_);
        set("ring_max", one_of<4>({0, 1, 256, 256}));
        set("connect_threshold", one_of<5>({0, 1, 3, 16, 1'000'000'000}));
        const std::array<const char*, 4> starts{"on_demand", "on_demand", "partial", "static"};
        program_.settings.push_back({"connect", starts[random_.below(4)]});
        set("connect_max", one_in(2) ? 0 : 1 + random_.below(3));
        set("connect_pool", one_of<3>({0, 1, 128}));
        program_.settings.push_back({"rendezvous", one_in(2) ? "get" : "put"});
        block_bytes_ = one_of<4>({1024, 4096, 5000, 65536});
        set("block_bytes", block_bytes_);
        set("block_depth", one_of<3>({1, 2, 4}));
        const std::array<const char*, 4> whole{"binding", "round_robin", "weighted_round_robin",
                                               "window_round_robin"};
        program_.settings.push_back({"multiplexing_policy", whole[random_.below(whole.size())]});
        const std::array<const char*, 8> striped{"none",     "auto",          "even", "weighted",
                                                 "adaptive", "load_balanced", "bss",  "epc"};
        program_.settings.push_back({"striping_policy", striped[random_.below(striped.size())]});
        set("min_stripe", one_of<3>({0, 64, 5000}));
        set("window", one_of<2>({1, 3}));
        program_.settings.push_back({"apm", one_in(4) ? "off" : "auto"});
        set("paths_per_port", one_of<4>({1, 2, 4, 16}));
        set("bss_batch", one_of<3>({0, 1, 2}));
        set("striping_threshold", one_of<3>({1024, 16384, 100'000}));
        set("registration_cache", one_of<4>({0, 8192, 100'000, 1u << 30}));
        set("shm_rails", one_in(2) ? 1 : 1 + random_.below(4));
        program_.settings.push_back({"shm_single_copy", one_in(3) ? "none" : "auto"});
        set("shm_queue_bytes", one_of<2>({65536, 262144}));
        const std::array<const char*, 4> channels{"aqps", "aqps", "rc_on_demand", "ud"};
        program_.settings.push_back({"channel_policy", channels[random_.below(4)]});
        set("channel_period", one_of<3>({1, 5, 1000}));
    }

    void set_world(const char* name, std::uint64_t value) {
        program_.world.push_back({name, std::to_string(value)});
    }
    void draw_world() {
        const auto machines = sim::machines();
        program_.world.push_back(
            {"machine", std::string(machines[random_.below(machines.size())].name)});
        if (one_in(2)) {
            set_world("leaves", 2 + random_.below(3));
            set_world("spines", 1 + random_.below(3));
            set_world("hosts", 1 + random_.below(4));
        } else {
            set_world("hosts", 1 + random_.below(program_.ranks));
        }
        if (one_in(2)) {
            set_world("adapters", 1 + random_.below(2));
            set_world("ports", 1 + random_.below(2));
            set_world("one_network", random_.below(2));
        }
        if (one_in(2)) { // 2^lmc paths between two ports
            set_world("lmc", one_of<4>({1, 2, 3, 5}));
        }
        set_world("warp", one_in(3) ? 0 : 1 + random_.below(1'000'000));
        // Datagrams that are lost, doubled or late: per thousand.
        if (one_in(2)) {
            set_world("datagram_loss", one_of<4>({0, 10, 100, 300}));
            set_world("datagram_twice", one_of<3>({0, 10, 100}));
            set_world("datagram_late", one_of<3>({0, 10, 300}));
        }
    }

    // Draws ports that fail and come back: the number of changes, and their pace in microseconds.
    // Uses the schedule's seed, as draw_cm_connects does.
    void draw_failures() {
        Random random(program_.schedule ^ 0xfa11);
        if (random.below(3) > 0) {
            return;
        }
        constexpr std::array<std::uint64_t, 4> kChanges{1, 4, 20, 100};
        constexpr std::array<std::uint64_t, 5> kPaces{1, 10, 100, 2000, 100'000};
        set_world("failures", kChanges[random.below(kChanges.size())]);
        set_world("failure_pace", kPaces[random.below(kPaces.size())]);
        if (random.below(3) == 0) {
            set_world("swizzle", 1);
        }
        number_datagrams(); // those on a port that goes down are lost
        fails_ = true;
    }
    // Gives ports other LIDs in place of some of these changes, in a third of those worlds: per
    // thousand. Nobody releases a peer there: what has been published for first contact is the
    // address that the peer had at its beginning. Uses the schedule's seed, as draw_cm_connects
    // does.
    void draw_address_changes() {
        Random random(program_.schedule ^ 0x61646472);
        if (!has_setting(program_.world, "failures") || random.below(3) > 0) {
            return;
        }
        constexpr std::array<std::uint64_t, 3> kShares{200, 500, 1000};
        set_world("address_changes", kShares[random.below(kShares.size())]);
        moves_ = true;
        if (random.below(2) == 0) {
            set_world("unchecked_sources", 1);
        }
    }
    // Gives datagrams sequence numbers, without which paths do not fail.
    void number_datagrams() {
        if (!has_setting(program_.world, "datagram_loss")) {
            set_world("datagram_loss", 0);
        }
    }

    // Draws adapters that place the packets of a write in any order. Uses the schedule's seed, as
    // draw_cm_connects does.
    void draw_placement() {
        constexpr std::array<std::uint64_t, 3> kShares{10, 300, 1000};
        Random random(program_.schedule ^ 0x0ddd);
        if (random.below(4) == 0) {
            set_world("scrambled_writes", kShares[random.below(kShares.size())]);
        }
    }

    // Draws what fails in the devices of a third of the worlds, and works when it is tried again:
    // queue pairs break, cannot be made for want of room, or do not connect; posts and completions
    // wait. Uses the schedule's seed, as draw_cm_connects does.
    void draw_breakage() {
        Random random(program_.schedule ^ 0x62726561);
        if (random.below(3) > 0) {
            return;
        }
        const auto draw = [&](const char* name, std::initializer_list<int> thousandths) {
            if (random.below(2) == 0) {
                const int share = thousandths.begin()[random.below(thousandths.size())];
                program_.faults.push_back({name, std::to_string(share)});
            }
        };
        draw("request_fails", {1, 5, 30, 300});
        draw("request_fails_done", {1, 5, 30, 300});
        draw("create_qp_fails", {20, 300});
        draw("modify_fails", {5, 100});
        draw("completion_delayed", {5, 300});
        draw("send_refused", {5, 300});
        constexpr std::array<int, 3> kMilliseconds{1, 100, 2000};
        program_.faults.push_back({"until", std::to_string(kMilliseconds[random.below(3)])});
        number_datagrams();
        fails_ = breaks_ = true;
    }

    // Draws a type of messages that are slower than others, in a third of the worlds. Uses the
    // schedule's seed, as draw_cm_connects does.
    void draw_slow_type() {
        Random random(program_.schedule ^ 0x736c6f77);
        if (random.below(3) > 0) {
            return;
        }
        constexpr std::array<MessageType, 12> kTypes{
            MessageType::connect_request, MessageType::connect_reply, MessageType::connect_confirm,
            MessageType::connect_refuse,  MessageType::connect_close, MessageType::connect_keep,
            MessageType::connect_yield,   MessageType::disconnect,    MessageType::disconnect,
            MessageType::eager,           MessageType::slice,         MessageType::clear_to_send};
        constexpr std::array<std::uint64_t, 3> kShares{100, 500, 1000};
        constexpr std::array<std::uint64_t, 4> kMicroseconds{5, 50, 500, 20'000};
        set_world("slow_type", static_cast<std::uint64_t>(kTypes[random.below(kTypes.size())]));
        set_world("slow_share", kShares[random.below(kShares.size())]);
        set_world("slow_by", kMicroseconds[random.below(kMicroseconds.size())]);
        number_datagrams(); // they overtake each other
    }

    // Draws harmless faults of a network, per thousand.
    void draw_faults() {
        const auto draw = [this](const char* name, std::uint64_t value) {
            program_.faults.push_back({name, std::to_string(value)});
        };
        for (const char* name : {"completion_delayed", "send_refused"}) {
            if (one_in(2)) {
                draw(name, one_of<3>({5, 50, 300}));
            }
        }
        if (one_in(2)) { // otherwise there is nothing to register
            draw("lacks_whole_memory", 1);
        }
        if (one_in(3)) {
            draw("lacks_direct", 1);
        }
    }

    // Draws connections through a connection manager. Uses the schedule's seed, so that older seeds
    // still give the same programs.
    void draw_cm_connects() {
        Random random(program_.schedule);
        if (random.below(3) == 0) {
            program_.faults.push_back({"cm_connects", "1"});
            program_.faults.push_back({"cm_connect_fails", std::to_string(100 * random.below(4))});
        }
    }

    // Draws other policies. Uses the schedule's seed, as the next functions do.
    void draw_policies() {
        Random random(program_.schedule ^ 0x706f6c);
        const std::array<const char*, 4> others{"fixed:rc_ring", "fixed:shared_sendrecv",
                                                "fixed:shared_ring", "dc_on_demand"};
        if (const std::uint64_t which = random.below(16); which < others.size()) {
            program_.settings.push_back({"channel_policy", others[which]});
        }
        draw_sharing(random);
    }

    // Gives half of the networks with failures, and a quarter of the others, dynamically connected
    // queue pairs, which many peers share.
    void draw_sharing(Random& random) {
        const bool shares = random.below(fails_ ? 2 : 4) == 0;
        if (!shares || program_.world.empty()) {
            return;
        }
        for (Setting& setting : program_.world) {
            if (setting.name == "machine") {
                setting.value = "connect-ib";
            }
        }
        const std::array<const char*, 4> policies{"aqps", "dc_on_demand", "fixed:shared_ring",
                                                  "dc_on_demand"};
        program_.settings.push_back({"channel_policy", policies[random.below(policies.size())]});
        constexpr std::array<std::uint64_t, 3> kInitiators{1, 2, 8};
        set("dc_initiators", kInitiators[random.below(kInitiators.size())]);
        if (fails_ && random.below(2) == 0) {
            constexpr std::array<std::uint64_t, 3> kLives{50, 1000, 1'000'000}; // microseconds
            set_world("outliving_writes", 1000);
            set_world("packet_life", kLives[random.below(kLives.size())]);
        }
    }

    // Draws where atomics are executed. If ports fail, atomics of an adapter could end with an
    // error.
    void draw_atomics() {
        Random random(program_.schedule ^ 0x61746f);
        const std::array<const char*, 3> ways{"auto", "adapter", "target"};
        program_.settings.push_back({"atomics", fails_ ? "target" : ways[random.below(3)]});
    }

    // Draws the put/get balance: off, or with a window that is soon full.
    void draw_interleaving() {
        Random random(program_.schedule ^ 0x696e74);
        if (const std::uint64_t which = random.below(3); which < 2) {
            program_.settings.push_back({"interleave", std::to_string(which)});
        }
    }

    // Switches channels while messages are under way, in half of the programs; in some of these
    // before every other operation, and often there and back.
    void draw_switches() {
        Random random(program_.schedule ^ 0x737769);
        if (random.below(2) == 0) {
            return;
        }
        const std::uint64_t every = 1 + random.below(12);
        std::vector<Operation> all;
        for (const Operation& operation : program_.operations) {
            while (random.below(every + 1) == 0) {
                Operation& other = all.emplace_back();
                other.verb = random.below(2) == 0 ? Verb::promote : Verb::demote;
                const bool here = operation.peer >= 0 && random.below(2) == 0;
                other.rank = here ? operation.rank
                                  : static_cast<std::uint32_t>(random.below(program_.ranks));
                other.peer =
                    here ? operation.peer : static_cast<std::int32_t>(random.below(program_.ranks));
            }
            all.push_back(operation);
        }
        program_.operations = std::move(all);
    }

    // Makes ranks compute for long, in a third of the programs: longer than partition_timeout if
    // something else reports that they live: the system, over shared memory, or responders, which
    // half of the networks do not have.
    void draw_computing() {
        Random random(program_.schedule ^ 0x636f6d);
        if (random.below(3) != 0 || program_.operations.empty()) {
            return;
        }
        constexpr std::uint64_t kSecond = 5'000'000; // ticks (sim_driver.cc)
        const bool network = !program_.world.empty();
        const bool responders = random.below(2) == 0;
        if (network) {
            set_world("responders", responders ? 1 : 0);
        } else {
            set("partition_timeout", 1 + random.below(30));
        }
        for (std::uint64_t left = 1 + random.below(3); left > 0; --left) {
            const std::uint64_t at = random.below(program_.operations.size());
            const auto place = program_.operations.begin() + static_cast<std::ptrdiff_t>(at);
            Operation compute = operation_of(Verb::compute, place->rank, 0);
            const bool answers = responders && !moves_; // nobody finds it once it has moved
            compute.amount = kSecond * (1 + random.below(answers || !network ? 900 : 60));
            program_.operations.insert(place, compute);
        }
    }

    // Gives half of the programs over shared memory large rings; half of these lack memory for
    // them, now and then or from some point on.
    void draw_memory() {
        Random random(program_.schedule ^ 0x6d656d);
        if (!program_.world.empty() || random.below(2) == 0) {
            return;
        }
        for (Setting& setting : program_.settings) {
            if (setting.name == "ring_bytes") {
                setting.value = "262144";
            }
        }
        switch (random.below(4)) {
        case 0: set("shm_memory", 300'000 + random.below(700'000)); break;
        case 1:
            program_.faults.push_back({"commit_fails", random.below(2) == 0 ? "200" : "900"});
            break;
        default: break;
        }
    }

    // Draws little room for unexpected messages, in half of the programs.
    void draw_unexpected() {
        Random random(program_.schedule ^ 0x756e6578);
        if (random.below(2) == 0) {
            set("unexpected_memory", std::uint64_t{1} << (8 + random.below(12)));
        }
    }

    // Gathers messages from buffers that are used again, from their first use on or later.
    void draw_frequent() {
        Random random(program_.schedule ^ 0x66726571);
        const std::array<const char*, 4> modes{"always", "always", "auto", "off"};
        program_.settings.push_back({"frequent_buffers", modes[random.below(4)]});
    }

    // Lets processes end before the others, in half of the networks with three ranks or more. Later
    // operations with one that ends are left out.
    void draw_ends() {
        Random random(program_.schedule ^ 0x656e6473);
        if (program_.world.empty() || program_.operations.empty() || program_.ranks < 3 ||
            random.below(2) == 0) {
            return;
        }
        for (std::uint64_t left = 1 + random.below(program_.ranks - 2); left > 0; --left) {
            draw_end(random);
        }
    }
    void draw_end(Random& random) {
        const auto rank = static_cast<std::uint32_t>(random.below(program_.ranks));
        std::vector<Operation>& all = program_.operations;
        const auto at = static_cast<std::ptrdiff_t>(random.below(all.size()));
        all.erase(std::remove_if(all.begin() + at, all.end(),
                                 [rank](const Operation& each) {
                                     return each.rank == rank ||
                                            (has_peer(each) &&
                                             each.peer == static_cast<std::int32_t>(rank));
                                 }),
                  all.end());
        all.insert(all.begin() + at, operation_of(Verb::end, rank, 0));
    }
    // Lets a process die without a word, in some of the networks in which nothing else fails and
    // none ends in good order; of half of the deaths the runtime tells. Only missing answers tell
    // of the others, so datagrams have numbers there.
    void draw_deaths() {
        Random random(program_.schedule ^ 0x646965);
        const std::vector<Operation>& all = program_.operations;
        const bool ends = std::any_of(all.begin(), all.end(),
                                      [](const Operation& each) { return each.verb == Verb::end; });
        if (program_.world.empty() || fails_ || ends || random.below(2) == 0) {
            return;
        }
        const std::uint64_t rank = random.below(program_.ranks);
        const std::uint64_t longest = std::uint64_t{1000} << random.below(24); // ns
        // Without responders who only receives never knows of one of which nobody tells.
        const bool told = program_.lacks_responders() || random.below(2) == 0;
        set_world(((told ? "told_death_" : "death_") + std::to_string(rank)).c_str(),
                  1 + random.below(longest));
        number_datagrams();
        if (const std::uint64_t least = program_.least_patience(); least > 0) {
            set("partition_timeout", least + random.below(20));
        }
    }
    // Gives a third of the programs processes with several endpoints.
    void draw_endpoints() {
        Random random(program_.schedule ^ 0x656e6470);
        if (random.below(3) == 0) {
            spread_over_endpoints(program_, random.next());
        }
    }

    // Gives half of the processes of a third of the programs parameters of their own. Called last,
    // since the operations are drawn around the limits that all have.
    void draw_differences() {
        random_ = Random(program_.schedule ^ 0x64696666);
        if (!one_in(3)) {
            return;
        }
        const sim::Endpoints endpoints(program_.ranks, program_.endpoints);
        std::vector<Setting> all = std::exchange(program_.settings, {});
        for (std::uint32_t rank = 0; rank < program_.ranks; ++rank) {
            if (endpoints.index(rank) == 0) {
                program_.settings.clear();
                if (one_in(2)) {
                    draw_settings();
                    draw_own_ways();
                }
            }
            for (const Setting& setting : program_.settings) {
                all.push_back({setting.name, setting.value, static_cast<std::int32_t>(rank)});
            }
        }
        program_.settings = std::move(all);
    }
    void draw_own_ways() {
        const auto draw = [this](const char* name, std::initializer_list<const char*> words) {
            program_.settings.push_back({name, words.begin()[random_.below(words.size())]});
        };
        draw("small_one_sided", {"auto", "direct"});
        draw("long_copies", {"auto", "alone", "together", "staged"});
        draw("frequent_buffers", {"always", "auto", "off"});
        draw("interleave", {"0", "1", "100"});
        if (!fails_) {
            draw("atomics", {"auto", "adapter", "target"});
        }
    }

    // Draws the habits of this program.
    void draw_habits() {
        contexts_ = static_cast<std::uint32_t>(1 + random_.below(3));
        tags_ = static_cast<std::int32_t>(1 + random_.below(4));
        wild_ = random_.below(4); // out of 4 receives have wildcards
        small_ = one_in(3);
        largest_ = one_in(4) ? kMiB + 100 : 200'000;
        strided_ = one_in(2);
        releases_ = (!program_.world.empty() || program_.faults.empty()) && one_in(2);
        one_sided_ = one_in(3) ? 0 : 1 + random_.below(3);
        window_ = one_in(6) ? kMiB + 4096 : 16384;
        hot_ = one_in(3) ? static_cast<std::int32_t>(random_.below(program_.ranks)) : -1;
        Random random(program_.schedule ^ 0x71756172);
        releases_ = releases_ && !moves_;
        quarrels_ = releases_ && !program_.world.empty() && random.below(2) == 0;
    }

    std::uint64_t draw_bytes() {
        const std::uint64_t limit =
            one_of<8>({eager_limit_, 4096 - 64, 4096, block_bytes_, ring_bytes_ / 2, ring_bytes_,
                       block_bytes_ * 4, 65536});
        std::uint64_t bytes = 0;
        switch (random_.below(small_ ? 3 : 6)) {
        case 0: bytes = random_.below(10); break;
        case 1: bytes = random_.below(130); break;
        case 2: bytes = random_.below(eager_limit_ + 1); break;
        case 3: bytes = limit + random_.below(3) - (limit > 0 ? 1 : 0); break;
        case 4: bytes = limit + random_.below(200) - std::min<std::uint64_t>(limit, 150); break;
        default: bytes = one_in(6) ? kMiB + random_.below(3) - 1 : random_.below(largest_);
        }
        return std::min(bytes, largest_);
    }

    std::uint32_t draw_rank() { return static_cast<std::uint32_t>(random_.below(program_.ranks)); }
    // Seldom returns the rank itself.
    std::int32_t draw_target(std::uint32_t from) {
        std::int32_t to = static_cast<std::int32_t>(from);
        for (int i = 0; to == static_cast<std::int32_t>(from) && i < (one_in(12) ? 1 : 5); ++i) {
            to = hot_ >= 0 && one_in(2) ? hot_ : static_cast<std::int32_t>(draw_rank());
        }
        return to;
    }
    // A negative tag matches only receives that name it.
    std::int32_t draw_tag() {
        return one_in(12) ? -7 : static_cast<std::int32_t>(random_.below(std::uint64_t(tags_)));
    }

    Operation start(Verb verb, std::uint32_t rank) {
        Operation operation;
        operation.verb = verb;
        operation.rank = rank;
        operation.id = ++last_id_;
        return operation;
    }
    void draw_layout(Operation& operation) {
        if (strided_ && one_in(2)) {
            operation.element = one_of<5>({1, 4, 8, 24, 100});
            operation.stride = operation.element + random_.below(2 * operation.element + 1);
        }
    }
    void draw_wait(const Operation& operation) {
        waits_.push_back(operation);
        if (waits_.size() > 30) {
            waits_.erase(waits_.begin());
        }
    }

    Operation draw_send(std::uint32_t rank, std::int32_t to) {
        Operation send = start(one_in(6) ? Verb::ssend : Verb::send, rank);
        send.peer = to;
        send.context = static_cast<std::uint32_t>(random_.below(contexts_));
        send.tag = draw_tag();
        send.bytes = draw_bytes();
        send.at_once = one_in(4) ? 0 : 1;
        draw_layout(send);
        return send;
    }

    // Draws a receive, claim or probe that fits `send`, at times with wildcards or too little room.
    Operation draw_receive(const Operation& send, Verb verb) {
        Operation receive = start(verb, static_cast<std::uint32_t>(send.peer));
        receive.peer = static_cast<std::int32_t>(send.rank);
        receive.context = send.context;
        receive.tag = send.tag;
        if (random_.below(4) < wild_) {
            const std::uint64_t which = 1 + random_.below(3);
            receive.peer = (which & 1) != 0 ? Envelope::kAnySource : receive.peer;
            receive.tag = (which & 2) != 0 && send.tag >= 0 ? Envelope::kAnyTag : receive.tag;
        }
        receive.bytes = one_in(10) ? random_.below(send.bytes + 1) : send.bytes + random_.below(50);
        draw_layout(receive);
        return receive;
    }

    void add(const Operation& operation) {
        program_.operations.push_back(operation);
        if (one_in(12)) {
            program_.operations.push_back(operation_of(Verb::compute, operation.rank, 0));
        }
    }
    Operation operation_of(Verb verb, std::uint32_t rank, std::uint32_t id) {
        Operation operation;
        operation.verb = verb;
        operation.rank = rank;
        operation.id = id;
        operation.amount = verb == Verb::cancel ? 0 : one_of<4>({1, 5, 50, 1000});
        return operation;
    }

    void draw_messages() {
        const std::uint32_t from = draw_rank();
        const std::int32_t to = draw_target(from);
        if (one_in(5)) {
            draw_exchange(from, to);
            return;
        }
        draw_burst(from, to, one_in(10) ? 5 + random_.below(60) : 1 + random_.below(3));
    }
    void draw_burst(std::uint32_t from, std::int32_t to, std::uint64_t burst) {
        std::vector<Operation> sends;
        std::vector<Operation> receives;
        for (std::uint64_t i = 0; i < burst; ++i) {
            sends.push_back(draw_send(from, to));
            if (!one_in(15)) {
                receives.push_back(
                    draw_receive(sends.back(), one_in(8) ? Verb::claim : Verb::receive));
            }
        }
        if (one_in(2)) {
            std::swap(sends, receives);
        }
        for (const auto* list : {&sends, &receives}) {
            for (const Operation& operation : *list) {
                add(operation);
                draw_wait(operation);
            }
        }
    }

    void draw_active() {
        const std::uint32_t from = draw_rank();
        const std::int32_t to = draw_target(from);
        if (static_cast<std::uint32_t>(to) == from) {
            return;
        }
        for (std::uint64_t i = one_in(4) ? 20 : 1; i > 0; --i) {
            Operation active = start(Verb::active, from);
            active.peer = to;
            active.tag = static_cast<std::int32_t>(random_.below(256));
            // An active message that is too long is cut when it is sent.
            active.bytes = one_in(3) ? random_.below(5000) : random_.below(100);
            active.at_once = one_in(3) ? 0 : 1;
            draw_layout(active);
            add(active);
            draw_wait(active);
        }
    }

    void draw_one_sided() {
        const std::uint32_t rank = draw_rank(); // the order of arguments is the compiler's choice
        Operation operation =
            start(static_cast<Verb>(static_cast<int>(Verb::put) + random_.below(4)), rank);
        operation.peer = draw_target(operation.rank);
        if ((breaks_ || moves_) && operation.peer == static_cast<std::int32_t>(operation.rank)) {
            return; // a connection to itself has no other path, and is not repaired
        }
        operation.at_once = one_in(2) ? 0 : 1;
        operation.own_key = one_in(3) ? 1 : 0;
        if (operation.verb == Verb::put || operation.verb == Verb::get) {
            operation.bytes = std::min<std::uint64_t>(draw_bytes(), window_);
            operation.offset = random_.below(window_ - operation.bytes + 1);
        } else {
            operation.tag = static_cast<std::int32_t>(random_.below(one_in(2) ? 1 : kWords));
            operation.amount = operation.verb == Verb::add && one_in(12) ? 0 : random_.next();
        }
        add(operation);
        draw_wait(operation);
    }

    // In two of three cases both sides release each other. Half of the pairs go on at once.
    void draw_release() {
        Operation release = operation_of(Verb::release, draw_rank(), 0);
        release.amount = one_of<3>({0, 50, 1000});
        release.peer = draw_target(release.rank);
        add(release);
        const auto other = static_cast<std::uint32_t>(release.peer);
        if (!one_in(3)) {
            release.peer = static_cast<std::int32_t>(std::exchange(release.rank, other));
            add(release);
        }
        if (one_in(2)) {
            draw_exchange(release.rank, release.peer);
        }
    }

    // Draws a message each way: as neighbors exchange them, both at the same time.
    void draw_exchange(std::uint32_t one, std::int32_t other) {
        draw_burst(one, other, 1 + random_.below(3));
        draw_burst(static_cast<std::uint32_t>(other), static_cast<std::int32_t>(one),
                   1 + random_.below(3));
    }

    void draw_step() {
        if (quarrels_ && !one_in(3)) {
            draw_release();
            return;
        }
        if (random_.below(6) < one_sided_) {
            draw_one_sided();
        } else if (one_in(10)) {
            draw_active();
        } else if (one_in(8)) {
            const std::uint32_t from = draw_rank();
            program_.operations.push_back(
                draw_receive(draw_send(from, draw_target(from)), Verb::probe));
        } else if (releases_ && one_in(4)) {
            draw_release();
        } else if (!waits_.empty() && one_in(3)) {
            const std::size_t which = random_.below(waits_.size());
            const Operation named = waits_[which];
            waits_.erase(waits_.begin() + static_cast<std::ptrdiff_t>(which));
            const bool cancel = named.verb == Verb::receive && one_in(4);
            add(operation_of(cancel ? Verb::cancel : Verb::wait, named.rank, named.id));
        } else {
            draw_messages();
        }
    }

    Random random_;
    Program program_;
    std::uint32_t last_id_ = 0;
    std::uint64_t eager_limit_ = 0;
    std::uint64_t ring_bytes_ = 0;
    std::uint64_t block_bytes_ = 0;
    std::uint32_t contexts_ = 1;
    std::int32_t tags_ = 1;
    std::uint64_t wild_ = 0;
    bool small_ = false;
    bool releases_ = false;
    bool quarrels_ = false; // pairs of ranks release each other all the time
    bool fails_ = false;    // ports or queue pairs fail
    bool breaks_ = false;   // queue pairs fail
    bool moves_ = false;    // ports get other addresses
    std::uint64_t largest_ = 0;
    bool strided_ = false;
    std::uint64_t one_sided_ = 0;
    std::uint64_t window_ = 0;
    std::int32_t hot_ = -1; // a rank that gets half of everything
    std::vector<Operation> waits_;
};

} // namespace

Program random_program(std::uint64_t seed) { return Maker(seed).make(); }

} // namespace adaptib::torture
