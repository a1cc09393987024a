// SPDX-License-Identifier: BSD-3-Clause
// Torture: random programs on complete cores, many seeds, on several processors (sim/README.md).
//
// Each job is a process that takes every n-th seed. It keeps its state in memory that it shares
// with the parent. The parent reports progress, and notices a seed that ends its process or never
// ends.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/torture/neighbours.h"
#include "simulator/torture/payload.h"
#include "simulator/torture/program.h"
#include "simulator/torture/run.h"
#include "simulator/torture/shrink.h"

namespace adaptib::torture {

namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::uint64_t kHangSeconds = 120;  // of a processor, for one seed
constexpr std::uint64_t kWaitSeconds = 1200; // for one seed, on a busy machine
constexpr std::uint64_t kProblemsShown = 10; // of one seed
constexpr std::uint64_t kFailuresPerJob = 5; // then the job ends
constexpr std::uint64_t kReportSeconds = 10; // between two lines of progress
constexpr int kShrinkTrials = 10'000;

struct Options {
    std::uint64_t first = 1;
    std::uint64_t last = ~std::uint64_t{0}; // the last seed
    std::uint64_t seconds = 0;              // 0: until the last seed
    std::uint64_t jobs = 1;
    std::string program;               // a file
    std::string around;                // a file, whose program's neighbours are run; empty: none
    std::uint64_t pairs = 0;           // of changes, around that program
    std::uint64_t neighbour = 0;       // the number of the first of each seed's program, and ...
    std::uint64_t neighbours = 0;      // ... of the one behind the last
    std::optional<std::uint64_t> only; // the number of the only neighbour that is wanted
    std::string trace;                 // a file; empty: none
    bool shrink = false;
    bool print = false;
};

struct Numbered {
    std::string name;
    Program program;
};

// The programs of a run, by number, from `first` to `last`.
class Programs {
public:
    virtual ~Programs() = default;
    virtual Numbered at(std::uint64_t number) = 0;
    std::uint64_t first() const { return first_; }
    std::uint64_t last() const { return last_; }

protected:
    Programs(std::uint64_t first, std::uint64_t last) : first_(first), last_(last) {}

private:
    std::uint64_t first_;
    std::uint64_t last_;
};

// Returns how long a process has run on a processor.
std::chrono::seconds processor_time(pid_t process) {
    clockid_t clock{};
    timespec time{};
    const bool known =
        clock_getcpuclockid(process, &clock) == 0 && clock_gettime(clock, &time) == 0;
    return std::chrono::seconds(known ? time.tv_sec : 0);
}

// State of one job; the job writes it, the parent reads it.
struct Progress {
    std::atomic<std::uint64_t> seed{0};
    std::atomic<std::uint64_t> seeds{0}; // done
    std::atomic<std::uint64_t> failed{0};
    std::atomic<std::uint64_t> messages{0};
    std::atomic<std::uint64_t> one_sided{0};
    std::atomic<std::uint64_t> faults{0};
    std::atomic<std::int64_t> nanoseconds{0}; // of virtual time
    std::atomic<std::uint64_t> course{0};     // digest of the courses of all seeds, in any order
};

Outcome run_program(const Program& program, const std::string& trace = {}) {
    std::string problem;
    std::unique_ptr<Driver> driver = torture::open(program, problem, trace);
    if (driver == nullptr) {
        Outcome outcome;
        outcome.problems = {"the cores cannot be made: " + problem};
        return outcome;
    }
    return run(program, std::move(driver));
}

// Those of seeds.
class OfSeeds final : public Programs {
public:
    OfSeeds(std::uint64_t first, std::uint64_t last) : Programs(first, last) {}
    Numbered at(std::uint64_t number) override {
        return {"seed " + std::to_string(number), random_program(number)};
    }
};

// Neighbours of each seed's program with a pair of changes each: those with the numbers `from` to
// before `end`.
class NeighboursOfSeeds final : public Programs {
public:
    NeighboursOfSeeds(std::uint64_t first, std::uint64_t last, std::uint64_t from,
                      std::uint64_t end)
        : Programs(first * (end - from), last * (end - from) + (end - from) - 1), from_(from),
          count_(end - from) {}
    Numbered at(std::uint64_t number) override {
        const std::uint64_t seed = number / count_;
        if (seed != seed_) {
            seed_ = seed;
            const Program program = Neighbours::numbered(random_program(seed));
            neighbours_ = std::make_unique<Neighbours>(program, run_program(program));
        }
        const std::uint64_t its = from_ + number % count_;
        return {"neighbour " + std::to_string(its) + " of seed " + std::to_string(seed),
                neighbours_->pair(seed * kApart + its)};
    }

private:
    static constexpr std::uint64_t kApart = 1'000'003;

    std::uint64_t from_;
    std::uint64_t count_;
    std::uint64_t seed_ = 0;
    std::unique_ptr<Neighbours> neighbours_; // of that seed
};

// All neighbours of a program with one change, and some with two.
class NeighboursOfProgram final : public Programs {
public:
    NeighboursOfProgram(const Neighbours& neighbours, std::uint64_t pairs)
        : Programs(1, neighbours.count() + pairs), neighbours_(neighbours) {}
    Numbered at(std::uint64_t number) override {
        return {"neighbour " + std::to_string(number), number <= neighbours_.count()
                                                           ? neighbours_.at(number - 1)
                                                           : neighbours_.pair(number)};
    }

private:
    const Neighbours& neighbours_;
};

void show(const std::string& title, const Outcome& outcome) {
    std::string text = title + "\n";
    for (std::size_t i = 0; i < outcome.problems.size() && i < kProblemsShown; ++i) {
        text += "    " + outcome.problems[i] + "\n";
    }
    if (outcome.problems.size() > kProblemsShown) {
        text += "    and " + std::to_string(outcome.problems.size() - kProblemsShown) + " more\n";
    }
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
}

// Kind of the first problem, whatever the numbers in it; 0: none.
int kind_of(const Outcome& outcome) {
    std::string text = outcome.problems.empty() ? "" : outcome.problems[0];
    std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
    return text.empty() ? 0 : static_cast<int>(1 + std::hash<std::string>{}(text) % 100);
}

// Returns how the program fails, 0: not at all. Runs it in a process of its own, which it may end,
// or keep for ever.
int failure_apart(const Program& program) {
    const pid_t child = fork();
    if (child == 0) {
        const rlimit limit{kHangSeconds, kHangSeconds};
        setrlimit(RLIMIT_CPU, &limit);
        alarm(kWaitSeconds);
        const int null = ::open("/dev/null", O_WRONLY);
        dup2(null, STDERR_FILENO);
        _exit(kind_of(run_program(program)));
    }
    int status = 0;
    waitpid(child, &status, 0);
    return status;
}

void shrink_and_show(const Program& program, const std::string& name) {
    const int failure = failure_apart(program);
    if (failure == 0) {
        std::printf("it did not fail again\n");
        return;
    }
    const auto fails = [failure](const Program& smaller) {
        return failure_apart(smaller) == failure; // in the same way
    };
    const Program small = shrink(program, fails, kShrinkTrials);
    const std::string file = "torture-" + name + ".program";
    std::ofstream(file) << print(small);
    std::printf("shrunk to %zu operations:\n%s", small.operations.size(), print(small).c_str());
    std::printf("to repeat it: adaptib_sim_torture --program %s\n", file.c_str());
    std::fflush(stdout);
}

void work(const Options& options, Programs& programs, std::uint64_t first, Progress& progress,
          SteadyClock::time_point end) {
    for (std::uint64_t seed = first; seed <= programs.last() && progress.failed < kFailuresPerJob &&
                                     (options.seconds == 0 || SteadyClock::now() < end);
         seed += options.jobs) {
        progress.seed = seed;
        const auto [name, program] = programs.at(seed);
        const Outcome outcome = run_program(program);
        progress.messages += outcome.messages;
        progress.one_sided += outcome.one_sided;
        progress.faults += outcome.faults;
        progress.nanoseconds += outcome.time.count();
        const std::array<std::uint64_t, 2> both{seed, outcome.course};
        Digest digest;
        digest.add(reinterpret_cast<const std::byte*>(both.data()), sizeof both);
        progress.course ^= digest.value();
        if (!outcome.problems.empty()) {
            show(name + " failed", outcome);
            if (options.shrink) {
                progress.seed = 0; // shrinking has no time limit
                shrink_and_show(program, std::to_string(seed));
            }
            ++progress.failed;
        }
        ++progress.seeds;
    }
    progress.seed = 0;
}

class Jobs {
public:
    Jobs(const Options& options, Programs& programs)
        : options_(options), programs_(programs), seen_(options.jobs) {
        void* memory = mmap(nullptr, options.jobs * sizeof(Progress), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) {
            std::perror("mmap");
            std::exit(1);
        }
        progress_ = new (memory) Progress[options.jobs];
    }

    bool run() {
        const auto begin = SteadyClock::now();
        end_ = begin + std::chrono::seconds(options_.seconds);
        for (std::uint64_t job = 0; job < options_.jobs; ++job) {
            children_.push_back(start(job, programs_.first() + job));
        }
        auto reported = begin;
        while (watch()) {
            usleep(50'000);
            if (SteadyClock::now() - reported > std::chrono::seconds(kReportSeconds)) {
                reported = SteadyClock::now();
                report(begin);
            }
        }
        return report(begin) == 0;
    }

private:
    pid_t start(std::uint64_t job, std::uint64_t seed) {
        std::fflush(stdout);
        const pid_t child = fork();
        if (child == 0) {
            work(options_, programs_, seed, progress_[job], end_);
            std::exit(0); // a leak checker reports here
        }
        return child;
    }
    // Returns false when all have ended.
    bool watch() {
        bool left = false;
        for (std::uint64_t job = 0; job < options_.jobs; ++job) {
            if (children_[job] == 0) {
                continue;
            }
            left = true;
            int status = 0;
            const std::uint64_t seed = progress_[job].seed;
            if (waitpid(children_[job], &status, WNOHANG) == children_[job]) {
                children_[job] = 0;
                if (status != 0) {
                    ended(job, seed, "ended its process with status " + std::to_string(status));
                }
            } else if (seed == 0 || seed != seen_[job].seed) {
                seen_[job] = {seed, processor_time(children_[job]), SteadyClock::now()};
            } else if (hangs(children_[job], seen_[job])) {
                kill(children_[job], SIGKILL);
                waitpid(children_[job], &status, 0);
                children_[job] = 0;
                ended(job, seed, "did not end");
            }
        }
        return left;
    }
    void ended(std::uint64_t job, std::uint64_t seed, const std::string& how) {
        ++progress_[job].failed;
        ++progress_[job].seeds;
        Outcome outcome;
        outcome.problems = {"the program " + how};
        if (seed == 0) {
            show("after all seeds of a job", outcome);
            return;
        }
        const auto [name, program] = programs_.at(seed);
        show(name + " failed", outcome);
        if (options_.shrink) {
            shrink_and_show(program, std::to_string(seed));
        }
        // Continues with the next seed of the job.
        children_[job] = start(job, seed + options_.jobs);
    }
    std::uint64_t report(SteadyClock::time_point begin) {
        std::uint64_t seeds = 0;
        std::uint64_t failed = 0;
        double messages = 0;
        double one_sided = 0;
        std::uint64_t faults = 0;
        std::uint64_t course = 0;
        double hours = 0;
        for (std::uint64_t job = 0; job < options_.jobs; ++job) {
            seeds += progress_[job].seeds;
            failed += progress_[job].failed;
            messages += static_cast<double>(progress_[job].messages);
            one_sided += static_cast<double>(progress_[job].one_sided);
            faults += progress_[job].faults;
            course ^= progress_[job].course;
            hours += static_cast<double>(progress_[job].nanoseconds) / 3600e9;
        }
        const std::chrono::duration<double> took = SteadyClock::now() - begin;
        std::printf("%llu seeds, %llu failed, %.3f million messages, %.3f million one-sided "
                    "operations, %llu faults, %.1f hours of virtual time in %.1f s, "
                    "course %016llx\n",
                    static_cast<unsigned long long>(seeds), static_cast<unsigned long long>(failed),
                    messages / 1e6, one_sided / 1e6, static_cast<unsigned long long>(faults), hours,
                    took.count(), static_cast<unsigned long long>(course));
        std::fflush(stdout);
        return failed;
    }

    struct Seen {
        std::uint64_t seed = 0;
        std::chrono::seconds ran{0}; // the child, when it was first seen with this seed
        SteadyClock::time_point since = SteadyClock::now();
    };
    static bool hangs(pid_t child, const Seen& seen) {
        return processor_time(child) - seen.ran > std::chrono::seconds(kHangSeconds) ||
               SteadyClock::now() - seen.since > std::chrono::seconds(kWaitSeconds);
    }
    const Options& options_;
    Programs& programs_;
    Progress* progress_ = nullptr; // shared with the children
    std::vector<pid_t> children_;  // 0: has ended
    std::vector<Seen> seen_;
    SteadyClock::time_point end_;
};

// Returns false, after a message, if the file holds no program.
bool read_file(const std::string& path, Program& program) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    std::string problem;
    if (!file || !read(text.str(), program, problem)) {
        std::fprintf(stderr, "%s cannot be read: %s\n", path.c_str(), problem.c_str());
        return false;
    }
    return true;
}

// Prints one program, shrinks it, or runs it.
int replay(const Options& options, const Program& program) {
    if (options.print) {
        std::fputs(print(program).c_str(), stdout);
        return 0;
    }
    if (options.shrink) {
        shrink_and_show(program, "again");
        return 0;
    }
    const Outcome outcome = run_program(program, options.trace);
    show(outcome.problems.empty() ? "passed" : "failed", outcome);
    return outcome.problems.empty() ? 0 : 1;
}

// Runs a program's neighbours.
int explore(const Options& options) {
    Program program;
    if (!read_file(options.around, program)) {
        return 2;
    }
    program = Neighbours::prepared(program);
    const Outcome outcome = run_program(program);
    if (!outcome.problems.empty()) {
        show("the program itself failed", outcome);
        return 1;
    }
    const Neighbours neighbours(program, outcome);
    NeighboursOfProgram programs(neighbours, options.pairs);
    if (options.only) {
        return replay(options, programs.at(*options.only).program);
    }
    return Jobs(options, programs).run() ? 0 : 1;
}

[[noreturn]] void usage() {
    std::fputs(
        "adaptib_sim_torture [--seed N | --seeds FROM..[TO]] [--seconds S] [--jobs J]\n"
        "                    [--shrink] [--print] [--neighbours N | FROM..TO]\n"
        "adaptib_sim_torture --around FILE [--pairs N] [--jobs J] [--shrink]\n"
        "adaptib_sim_torture --seed N | --program FILE | --around FILE --neighbour N |\n"
        "                    --seed N --neighbour N    [--print | --shrink | --trace FILE]\n"
        "Without seeds it begins with 1; without seconds and a last seed, it does not end.\n"
        "--print prints a program instead of running it. --around runs all neighbours of a\n"
        "program, in which one more thing happens, and N pairs of things;\n"
        "--neighbours runs N pairs around each seed's program. --trace writes what happened\n"
        "when, for viewers of timelines.\n",
        stderr);
    std::exit(2);
}

std::uint64_t number(std::string_view text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) {
        usage();
    }
    return value;
}

Options parse(const std::vector<std::string_view>& arguments) {
    Options options;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const std::string_view name = arguments[i];
        if (name == "--shrink" || name == "--print") {
            (name == "--shrink" ? options.shrink : options.print) = true;
            continue;
        }
        if (++i == arguments.size()) {
            usage();
        }
        const std::string_view value = arguments[i];
        if (name == "--seed") {
            options.first = options.last = number(value);
        } else if (name == "--seeds") {
            const std::size_t dots = value.find("..");
            if (dots == std::string_view::npos) {
                usage();
            }
            options.first = number(value.substr(0, dots));
            if (value.size() > dots + 2) {
                options.last = number(value.substr(dots + 2));
            }
        } else if (name == "--seconds") {
            options.seconds = number(value);
        } else if (name == "--jobs") {
            options.jobs = std::max<std::uint64_t>(1, number(value));
        } else if (name == "--around") {
            options.around = value;
        } else if (name == "--pairs") {
            options.pairs = number(value);
        } else if (name == "--neighbours") {
            const std::size_t dots = value.find("..");
            const bool range = dots != std::string_view::npos;
            options.neighbour = range ? number(value.substr(0, dots)) : 0;
            options.neighbours = range ? number(value.substr(dots + 2)) + 1 : number(value);
        } else if (name == "--neighbour") {
            options.only = number(value);
            options.neighbours = std::max(options.neighbours, *options.only + 1);
        } else if (name == "--program") {
            options.program = value;
        } else if (name == "--trace") {
            options.trace = value;
        } else {
            usage();
        }
    }
    return options;
}

int torture(const Options& options) {
    if (!options.around.empty()) {
        return explore(options);
    }
    if (!options.program.empty()) {
        Program program;
        return read_file(options.program, program) ? replay(options, program) : 2;
    }
    const std::unique_ptr<Programs> programs =
        options.neighbours == 0
            ? std::unique_ptr<Programs>(new OfSeeds(options.first, options.last))
            : std::make_unique<NeighboursOfSeeds>(options.first, options.last, options.neighbour,
                                                  options.neighbours);
    if (options.print || !options.trace.empty() || options.only) {
        const std::uint64_t number = programs->first() + options.only.value_or(0);
        return replay(options, programs->at(number).program);
    }
    return Jobs(options, *programs).run() ? 0 : 1;
}

} // namespace

} // namespace adaptib::torture

int main(int count, char** arguments) {
    return adaptib::torture::torture(adaptib::torture::parse({arguments + 1, arguments + count}));
}
