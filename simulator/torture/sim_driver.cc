// SPDX-License-Identifier: BSD-3-Clause
// Cores over a simulated world (simulator/torture/sim_driver.h).
#include "simulator/torture/sim_driver.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <span>
#include <utility>

#include "base/random.h"
#include "base/wire.h"
#include "simulator/torture/address_changes.h"
#include "simulator/torture/happenings.h"
#include "simulator/torture/ranks.h"

namespace adaptib::torture {

namespace {

constexpr Nanoseconds kTick{200};

std::uint32_t number(const Program& program, const char* name, std::uint32_t otherwise) {
    for (const Setting& setting : program.world) {
        if (setting.name == name) {
            return static_cast<std::uint32_t>(std::stoul(setting.value));
        }
    }
    return otherwise;
}

void warp(Random& random, Nanoseconds& cost) {
    const std::uint64_t factor = 1 + random.below(8);
    cost = random.below(2) == 0 ? cost / factor : cost * factor;
}

void warp(Random& random, BytesPerSecond& rate) {
    const std::uint64_t factor = 1 + random.below(8);
    rate.value = random.below(2) == 0 ? rate.value / factor : rate.value * factor;
}

// Makes a machine that does not exist: other operations are slow.
void warp(sim::MachineModel& machine, std::uint64_t seed) {
    Random random(seed);
    for (Nanoseconds* cost :
         {&machine.processor.post, &machine.processor.post_receive, &machine.processor.poll_empty,
          &machine.processor.poll_completion, &machine.processor.copy_start,
          &machine.processor.registration, &machine.processor.registration_page,
          &machine.adapter.doorbell, &machine.adapter.work_request, &machine.adapter.receive_work,
          &machine.adapter.ack, &machine.adapter.qp_miss, &machine.wire.cable,
          &machine.wire.switch_latency}) {
        warp(random, *cost);
    }
    for (BytesPerSecond* rate : {&machine.processor.copy_rate, &machine.adapter.engine_rate,
                                 &machine.adapter.port_rate, &machine.adapter.bus_rate}) {
        warp(random, *rate);
    }
}

// Takes ports down and up, or clogs cables, at times and in an order that a seed gives; at the end
// all work.
class Failures final : private sim::Event {
public:
    enum class Kind : std::uint8_t {
        ports,
        swizzle // of the cables of some ports, which stop one by one without a word, and go on in
                // another order (FoundationDB's swizzle-clog)
    };

    // `pace`: mean time between two changes; the maximum is twice that.
    void begin(sim::World& world, std::uint64_t seed, std::uint32_t changes, Nanoseconds pace,
               Kind kind) {
        world_ = &world;
        random_ = Random(seed);
        left_ = changes;
        pace_ = pace;
        kind_ = kind;
        ports_ = host_ports(world);
        next();
    }
    // Some of the changes give ports other addresses instead.
    AddressChanges addresses;
    // The time of the last change so far.
    Nanoseconds last() const { return last_; }

private:
    void happen() override {
        last_ = world_->simulator().now();
        if (left_ == 0) {
            for (const sim::PortIndex port : std::exchange(down_, {})) {
                set(port, true);
            }
            return;
        }
        --left_;
        if (addresses.takes_next()) {
            addresses.change();
        } else if (kind_ == Kind::ports) {
            change_a_port();
        } else {
            swizzle();
        }
        next();
    }
    void set(sim::PortIndex port, bool works) {
        if (works) {
            addresses.on_up(port);
        }
        set_works(*world_, port, kind_ == Kind::ports ? Outage::reported : Outage::silent, works);
    }
    void change_a_port() {
        // Lets the same few fail again and again.
        const std::size_t among = random_.below(2) == 0 ? ports_.size() : (ports_.size() + 2) / 3;
        const sim::PortIndex port = ports_[random_.below(among)];
        const bool was_up = std::erase(down_, port) == 0;
        if (was_up) {
            down_.push_back(port);
        }
        set(port, !was_up);
    }
    void swizzle() {
        if (chosen_ == 0 && down_.empty()) {
            chosen_ = 1 + random_.below(ports_.size());
            for (std::size_t i = 0; i < chosen_; ++i) { // the first ones, in any order
                std::swap(ports_[i], ports_[i + random_.below(ports_.size() - i)]);
            }
        }
        if (chosen_ > 0) {
            down_.push_back(ports_[--chosen_]);
            set(down_.back(), false);
        } else {
            std::swap(down_[random_.below(down_.size())], down_.back());
            set(down_.back(), true);
            down_.pop_back();
        }
    }
    void next() {
        const auto within = static_cast<std::uint64_t>(2 * pace_.count() + 1);
        const auto after = static_cast<std::int64_t>(random_.below(within));
        world_->simulator().schedule(*this, world_->simulator().now() + Nanoseconds{after});
    }

    sim::World* world_ = nullptr;
    Random random_{1};
    std::uint32_t left_ = 0;
    Nanoseconds pace_{0};
    Kind kind_ = Kind::ports;
    Nanoseconds last_{0};
    std::vector<sim::PortIndex> ports_;
    std::vector<sim::PortIndex> down_; // or clogged
    std::size_t chosen_ = 0;           // first ones of ports_ that are still to be clogged
};

// Holds up datagrams with messages of one type, so that what two sides say to each other crosses in
// ways that chance would take long to find.
class SlowType {
public:
    SlowType(MessageType type, std::uint32_t share, Nanoseconds longest)
        : type_(type), share_(share), longest_(longest) {}

    Nanoseconds operator()(std::span<const std::byte> datagram, Random& random) const {
        constexpr std::uint32_t kThousand = 1000;
        MessageHeader header;
        if (datagram.size() < sizeof(DatagramHeader) + sizeof header) {
            return Nanoseconds{0};
        }
        std::memcpy(&header, datagram.data() + sizeof(DatagramHeader), sizeof header);
        if (header.type != type_ || random.below(kThousand) >= share_) {
            return Nanoseconds{0};
        }
        return Nanoseconds{static_cast<std::int64_t>(
            random.below(static_cast<std::uint64_t>(longest_.count()) + 1))};
    }

private:
    MessageType type_;
    std::uint32_t share_; // per thousand
    Nanoseconds longest_;
};

class SimDriver final : public Driver {
public:
    ~SimDriver() override {
        if (!trace_.empty() && !ranks_->write_trace(trace_)) {
            std::fprintf(stderr, "%s cannot be written: %s\n", trace_.c_str(),
                         std::strerror(errno));
        }
    }
    SimDriver() = default;
    SimDriver(const SimDriver&) = delete;
    SimDriver& operator=(const SimDriver&) = delete;

    bool open(const Program& program, std::string& problem, const std::string& trace) {
        constexpr std::size_t kTraceEvents = 1u << 20u;
        sim::RanksOptions options;
        options.trace_events = trace.empty() ? 0 : kTraceEvents;
        options.ranks = program.ranks;
        options.endpoints = program.endpoints;
        options.one_thread = number(program, "one_thread", 0) != 0;
        options.parameters_of = [&program](std::size_t rank, Parameters& parameters) {
            parameters = program.parameters(static_cast<std::uint32_t>(rank));
        };
        options.keeps_registrations = has_setting(program.settings, "frequent_buffers");
        options.seed = program.schedule;
        if (program.schedule % 2 == 0) { // programs are short, so measurements have to be
            options.measure = {.messages = 4,
                               .every = std::chrono::microseconds{200},
                               .again = std::chrono::microseconds{10}};
        }
        options.world.seed = program.schedule;
        if (!describe(program, options.world, problem)) {
            return false;
        }
        happenings_.read(program.world);
        options.world.fate = [this] { return happenings_.fate(); };
        Random random(program.schedule);
        const sim::Endpoints endpoints(program.ranks, program.endpoints);
        for (std::uint32_t process = 0; process < endpoints.processes(); ++process) {
            const std::uint64_t host = random.below(options.world.topology.hosts.size());
            options.hosts.insert(options.hosts.end(), endpoints.count(process),
                                 static_cast<std::uint32_t>(host));
        }
        options.program = [this](std::size_t rank) {
            if (turn) {
                turn(static_cast<std::uint32_t>(rank));
            }
        };
        if (!program.faults.empty()) {
            for (std::uint32_t rank = 0; rank < program.ranks; ++rank) {
                faulty_.push_back(std::make_unique<Faulty>(*this, fault_plan(program, rank)));
            }
            options.wrap = [this](std::size_t rank, std::unique_ptr<Fabric> below) {
                Faulty& its = *faulty_[rank];
                return fault::with_faults(std::move(below), its.plan, its, its.log,
                                          [this, rank](Nanoseconds when) {
                                              if (ranks_ != nullptr) {
                                                  ranks_->wake(rank, when);
                                              }
                                          });
            };
        }
        ranks_ = sim::Ranks::create(std::move(options), problem);
        const std::uint32_t failing = number(program, "failures", 0);
        // Per thousand. From here on a third or more of all questions, or their answers, are lost,
        // so that paths are taken for down now and then.
        constexpr std::uint32_t kManyLost = 200;
        const bool may_fail = failing > 0 || !program.faults.empty() || happenings_.outages();
        paths_may_fail_ =
            may_fail || happenings_.deaths() || number(program, "datagram_loss", 0) >= kManyLost;
        // A loss of datagrams does not end: where many are lost, each of a chain of messages may
        // wait for the longest time before one is sent again. A path that has failed often is asked
        // every 2 s; DC initiators are replaced when what they have sent is gone.
        ends_within_ = number(program, "datagram_loss", 0) >= kManyLost / 2
                           ? Nanoseconds{std::chrono::minutes{5}}
                       : number(program, "outliving_writes", 0) > 0 ? std::chrono::seconds{5}
                       : may_fail || number(program, "datagram_loss", 0) > 0 ||
                               number(program, "slow_type", 0) != 0 || happenings_.any()
                           ? std::chrono::seconds{3}
                           : Nanoseconds{std::chrono::milliseconds{500}};
        if (happenings_.untold_deaths()) { // nobody answers for the dead
            ends_within_ += patience(program);
        }
        if (const std::uint32_t wanted = number(program, "ends_within", 0); wanted != 0) {
            ends_within_ = std::chrono::milliseconds{wanted};
        }
        if (ranks_ != nullptr && failing > 0) {
            if (const std::uint32_t share = number(program, "address_changes", 0); share > 0) {
                const std::uint64_t seed = program.schedule ^ 0x6c6964;
                const std::uint32_t host = ranks_->process(seed % ranks_->size()).host();
                failures_.addresses.begin(ranks_->world(), host, seed, share);
                meet_all();
            }
            const std::uint32_t pace = number(program, "failure_pace", 100);
            failures_.begin(ranks_->world(), program.schedule, failing,
                            std::chrono::microseconds{pace},
                            number(program, "swizzle", 0) != 0 ? Failures::Kind::swizzle
                                                               : Failures::Kind::ports);
        }
        if (ranks_ != nullptr && happenings_.addresses()) {
            meet_all();
        }
        if (ranks_ != nullptr) {
            happenings_.begin(*ranks_, [this](std::uint32_t rank, bool told) { died(rank, told); });
        }
        trace_ = ranks_ == nullptr ? "" : trace;
        return ranks_ != nullptr;
    }

    std::uint32_t ranks() const override { return static_cast<std::uint32_t>(ranks_->size()); }
    Core& core(std::uint32_t rank) override { return ranks_->core(rank); }
    Counters& counters(std::uint32_t rank) override { return ranks_->counters(rank); }
    const sim::Endpoints& endpoints() const override { return ranks_->endpoints(); }
    std::vector<std::string> messages() override {
        std::vector<std::string> all;
        if (restless_) {
            all.emplace_back("the cores do not come to rest");
        }
        for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
            for (const std::string& text : ranks_->messages(rank)) {
                if (paths_may_fail_ && is_of_paths(text)) {
                    continue;
                }
                all.push_back("rank " + std::to_string(rank) + ": " + text);
            }
        }
        return all;
    }
    void wake(std::uint32_t rank, std::uint64_t ticks) override {
        ranks_->wake(rank, ranks_->now(rank) + kTick * ticks);
    }
    void compute(std::uint32_t rank, std::uint64_t ticks) override {
        const Nanoseconds time = kTick * ticks;
        if (time < kLong) { // part of its turn
            ranks_->process(rank).charge(time);
        } else {
            ranks_->compute(rank, time);
            computes_until_ = std::max(computes_until_, ranks_->now(rank) + time);
        }
    }
    void kill(std::uint32_t rank) override {
        ranks_->kill(rank);
        killed_ = time();
        paths_may_fail_ = true; // to it, where the last that it said was lost
    }
    Nanoseconds time() const override { return ranks_->world().simulator().now(); }
    Nanoseconds held_up_until() const override {
        Nanoseconds last =
            std::max({failures_.last(), happenings_.last(), computes_until_, killed_});
        for (const auto& each : faulty_) {
            last = each->log.entries.empty() ? last : std::max(last, each->log.entries.back().when);
        }
        return last;
    }
    Nanoseconds ends_within() const override { return ends_within_; }
    std::uint64_t faults() const override {
        std::uint64_t sum = ranks_->world().faults();
        for (const auto& each : faulty_) {
            sum += each->log.entries.size();
        }
        return sum;
    }
    std::uint64_t datagrams() const override { return happenings_.datagrams(); }
    bool run(const std::function<bool()>& done) override { return ranks_->run_until(done, kLimit); }
    // Runs until the world stands still, and many passes of the cores start nothing, or until it
    // should have come to that long ago.
    void settle() override {
        constexpr int kIdlePasses = 300;
        constexpr Nanoseconds kRest = std::chrono::minutes{1}; // after the end of all operations
        sim::Simulator& simulator = ranks_->world().simulator();
        const Nanoseconds with_the_gone =
            std::max<Nanoseconds>(std::chrono::seconds{10}, ends_within_);
        const Nanoseconds began = time();
        bool over = false;
        const auto is_over = [&] {
            // Others may ask for the paths of one that is gone for ever.
            if (killed_.count() > 0 || happenings_.deaths()) {
                over = over || time() > std::max(began, held_up_until()) + with_the_gone;
                return over || simulator.idle();
            }
            restless_ =
                restless_ || time() > std::max(began, held_up_until()) + ends_within_ + kRest;
            return restless_ || simulator.idle();
        };
        for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
            if (ranks_->alive(rank)) {
                wake(rank, 0); // for what the run has done for it outside of its turns
            }
        }
        std::size_t events = 1;
        while (!restless_ && !over && (events > 0 || !simulator.idle())) {
            ranks_->run_until(is_over, kLimit);
            events = 0;
            for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
                if (!ranks_->alive(rank)) {
                    continue;
                }
                for (int i = 0; i < kIdlePasses; ++i) {
                    events += progress(rank);
                }
                // Work that began outside of a turn may wait for nothing but time.
                if (const Nanoseconds due = ranks_->core(rank).deadline();
                    due != Nanoseconds::max()) {
                    ranks_->wake(rank, due);
                }
            }
        }
    }

private:
    static constexpr Nanoseconds kLong = std::chrono::milliseconds{1};
    static constexpr Nanoseconds kLimit = std::chrono::hours{1};

    // Lets all ranks know each other: one that has another address tells those that it knows.
    void meet_all() {
        for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
            for (std::uint32_t other = 0; other < ranks(); ++other) {
                if (rank != other) {
                    static_cast<void>(ranks_->peer(rank, other));
                }
            }
        }
    }

    static bool describe(const Program& program, sim::WorldOptions& world, std::string& problem) {
        std::string name;
        for (const Setting& setting : program.world) {
            name = setting.name == "machine" ? setting.value : name;
        }
        const sim::MachineModel* machine = sim::machine(name);
        if (machine == nullptr) {
            problem = "there is no machine \"" + name + "\"";
            return false;
        }
        world.machine = *machine;
        if (const std::uint32_t seed = number(program, "warp", 0); seed != 0) {
            warp(world.machine, seed);
        }
        constexpr std::uint32_t kReliable = ~0u;
        world.machine.offers.reliable_ud = number(program, "datagram_loss", kReliable) == kReliable;
        if (!world.machine.offers.reliable_ud) {
            world.datagram_loss = number(program, "datagram_loss", 0) / 1000.0;
            world.datagram_twice = number(program, "datagram_twice", 0) / 1000.0;
            world.datagram_late = number(program, "datagram_late", 0) / 1000.0;
        }
        if (const std::uint32_t type = number(program, "slow_type", 0); type != 0) {
            world.detour =
                SlowType(static_cast<MessageType>(type), number(program, "slow_share", 0),
                         std::chrono::microseconds{number(program, "slow_by", 0)});
        }
        world.scrambled_writes = number(program, "scrambled_writes", 0) / 1000.0;
        world.outliving_writes = number(program, "outliving_writes", 0) / 1000.0;
        if (world.outliving_writes > 0) {
            world.packet_life =
                std::chrono::microseconds{number(program, "packet_life", 1'000'000)};
        }
        world.checks_sources = number(program, "unchecked_sources", 0) == 0;
        world.responders = number(program, "responders", 1) != 0;
        const std::uint32_t hosts = number(program, "hosts", 2);
        const std::uint32_t leaves = number(program, "leaves", 0);
        const sim::HostModel host{number(program, "adapters", 1), number(program, "ports", 1),
                                  number(program, "one_network", 0) != 0};
        const sim::LinkModel links = sim::links_of(world.machine);
        const std::uint32_t lmc = number(program, "lmc", 0);
        world.topology = leaves == 0 ? sim::crossbar(hosts, host, links, lmc)
                                     : sim::fat_tree(leaves, number(program, "spines", 1), hosts,
                                                     host, links, lmc);
        return sim::Routes::compute(world.topology, world.routes, problem);
    }

    // Longer than it takes to give a process up that has died.
    static Nanoseconds patience(const Program& program) {
        int longest = 0;
        for (std::uint32_t rank = 0; rank < program.ranks; ++rank) {
            longest = std::max(longest, program.parameters(rank).partition_timeout);
        }
        return std::chrono::seconds{longest + 5};
    }

    // True for messages about paths that fail and come back.
    static bool is_of_paths(const std::string& text) {
        return text.starts_with("path ") || text.starts_with("rail ") ||
               text.find(" further path") != std::string::npos ||
               text.find(" was made anew over ") != std::string::npos ||
               text.find(" look alike") != std::string::npos ||
               text.find("There is no room for another ") != std::string::npos ||
               text.find(" carry nothing ") != std::string::npos;
    }

    // The faults of a rank's fabric, by the world's clock.
    struct Faulty final : Clock {
        Faulty(const SimDriver& owner, fault::FaultPlan its)
            : driver(owner), plan(std::move(its)) {}
        Nanoseconds now() const override {
            return driver.ranks_ == nullptr ? Nanoseconds{0} : driver.time();
        }

        const SimDriver& driver;
        fault::FaultPlan plan;
        fault::FaultLog log;
    };

    std::vector<std::unique_ptr<Faulty>> faulty_; // empty: none has faults
    std::unique_ptr<sim::Ranks> ranks_;
    std::string trace_; // path; empty: none
    bool paths_may_fail_ = false;
    bool restless_ = false; // the world does not stand still
    Failures failures_;     // ends before the world
    Happenings happenings_; // ends before the world
    Nanoseconds computes_until_{0};
    Nanoseconds killed_{0}; // a process, the last time
    Nanoseconds ends_within_{0};
};

} // namespace

std::unique_ptr<Driver> open_sim(const Program& program, std::string& problem,
                                 const std::string& trace) {
    auto driver = std::make_unique<SimDriver>();
    return driver->open(program, problem, trace) ? std::move(driver) : nullptr;
}

} // namespace adaptib::torture
