// SPDX-License-Identifier: BSD-3-Clause
// The explorer (explorer.h): executions, decisions, and threads as coroutines. memory.h says what
// a thread may see in memory.
//
// This source is compiled without -fsanitize=thread, and its own accesses are none of the model's.
#include "explorer.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "machine.h"
#include "memory.h"

namespace adaptib::model {

namespace {

constexpr std::size_t kStack = 256 * 1024;
constexpr std::size_t kMostSteps = 20'000;
constexpr std::size_t kShownSteps = 160;
constexpr std::uint64_t kClockBegins = 1'000'000'000'000;
constexpr std::uint64_t kLeap = 3'600'000'000'000; // longer than anything waits

// Which threads have ever accessed a byte, in all executions of an exploration.
struct Users {
    std::uint8_t readers = 0, writers = 0;

    bool shared() const {
        const unsigned all = readers | writers;
        return writers != 0 && (all & (all - 1)) != 0;
    }
};

struct Mutex {
    int owner = -1;
    std::uint64_t number = 0; // in the order of their first use
    std::uint64_t uses = 0;
    Knowledge released;
};

enum class State : std::uint8_t { ready, waits_for_mutex, yielded, ended };

struct Thread {
    ucontext_t context{};
    std::byte* stack = nullptr;
    std::function<void()> body;
    State state = State::ready;
    const void* mutex = nullptr; // that it waits for
    std::uint64_t stores_seen = 0;
    bool waited = false; // loads no old value again that it has loaded before
    // Of all that it has done: which places it accessed, and which stores it met there. Executions
    // in which all threads have done the same have come to the same state, in whatever order.
    std::uint64_t done = 0;
    // The same since it waited last, and between the two waits before; and of all until it waited
    // last. A round of waiting that met what the last one met leads nowhere new.
    std::uint64_t since = 0, round = 0, waited_at = 0;
};

// What has led to executions that were tried already: bit 4 * preemptions + stale loads.
using Tried = std::unordered_map<std::uint64_t, std::uint32_t>;
constexpr int kMostBounds = 4; // preemptions, and stale loads + 1: explore() takes no more

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
    std::uint64_t x = a ^ (b + 0x9e3779b97f4a7c15u + (a << 6u) + (a >> 2u));
    x = (x ^ (x >> 30u)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27u)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31u);
}

struct Decision {
    int taken = 0;
    int count = 0;
};

struct Failed {};

struct Step {
    int thread;
    const char* what;
    std::size_t offset;
    int size;
    std::uint64_t value;
    bool old;
};

} // namespace

// Everything of an exploration.
class Explorer {
public:
    Explorer(const Bounds& bounds, const std::function<void(Execution&)>& program)
        : bounds_(bounds), program_(program) {
        users_.resize(Memory::kBytes);
        found_.resize(Memory::kBytes);
        for (Thread& thread : threads_) {
            thread.stack = static_cast<std::byte*>(
                mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        }
    }
    ~Explorer() {
        for (Thread& thread : threads_) {
            munmap(thread.stack, kStack);
        }
    }
    Explorer(const Explorer&) = delete;
    Explorer& operator=(const Explorer&) = delete;

    Explored run();

    // Of Execution:
    std::byte* memory(const std::string& name, std::size_t bytes, std::size_t alignment) {
        return memory_.take(name, bytes, alignment);
    }
    void thread(std::function<void()> body);
    void after(std::function<void()> check) { after_.push_back(std::move(check)); }
    void at_end(std::function<void()> destroy) { at_end_.push_back(std::move(destroy)); }

    // Of machine.h; only where watches() is true:
    bool watches(const void* at) const { return memory_.has(at); }
    bool active() const { return inside_; }
    void set_active(bool active) { inside_ = active; }
    void plain(const void* at, std::size_t size, bool write);
    std::uint64_t load(const void* at, int size, int order);
    void store(void* at, int size, std::uint64_t value, int order);
    std::uint64_t change(void* at, int size, int order, int order_if_none, const Change& change);
    void fence(int order);
    void fence_all();
    void lock(const void* mutex);
    bool try_lock(const void* mutex);
    void unlock(const void* mutex);
    void wait();
    void pause();
    bool wait_notified(const void* condition, const void* mutex);
    void notify(const void* condition);
    int choose(int count);
    std::uint64_t clock();
    void pass(std::uint64_t nanoseconds);
    void freed(const void* at, std::size_t size);
    int number() const { return now_; }
    const void* identity() const {
        return &threads_[static_cast<std::size_t>(now_ > 0 ? now_ : before_)];
    }
    void set_before(int number) { before_ = number; }
    std::uint64_t ticks() { return ++ticks_; }
    [[noreturn]] void fail(const std::string& text);

private:
    bool execute();
    void begin();
    bool next_decisions();
    int decide(int count);
    bool tried_before();
    void did(std::uint64_t what, std::uint64_t where, std::uint64_t met = 0);
    void point();
    void switch_from_current(bool may_stay);
    void go_to(int thread);
    void leap();
    [[noreturn]] void leave();
    static void enter();
    bool can_run(const Thread& thread) const;
    void note_use(std::size_t offset, int size, bool write);
    std::uint64_t mutex_number(const void* mutex) {
        Mutex& its = mutexes_[mutex];
        its.number = its.number != 0 ? its.number : mutexes_.size();
        return its.number;
    }
    void stored();
    // Fails if the last access was a race.
    void check_memory() {
        if (!memory_.fault().empty()) [[unlikely]] {
            fail(memory_.fault());
        }
    }
    void note(const char* what, std::size_t offset, int size, std::uint64_t value,
              bool old = false);
    Thread& self() { return threads_[static_cast<std::size_t>(now_)]; }

    const Bounds bounds_;
    const std::function<void(Execution&)>& program_;

    // Of the exploration:
    std::vector<Decision> decisions_;
    std::vector<Users> users_; // as far as known when the present pass over all decisions began
    std::vector<Users> found_;
    bool found_shared_ = false; // the next pass has more places for decisions
    Tried tried_;
    Explored out_;

    // Of one execution:
    Memory memory_;
    std::array<Thread, kThreads> threads_;
    bool inside_ = false; // code of the model runs
    int count_ = 0;       // of threads besides 0
    int now_ = 0;
    int before_ = 0;            // thread as which the set-up calls
    std::size_t next_ = 0;      // decision
    bool next_is_load_ = false; // the decision is about a value
    std::size_t steps_ = 0;
    int preemptions_ = 0, stale_ = 0;
    int leaps_ = 0;
    std::uint64_t stores_ = 0, ticks_ = 0, fences_ = 0, clock_ = 0;
    int rounds_of_waiting_ = 0;
    bool abandoned_ = false; // what would follow has been tried
    bool failed_ = false;
    std::string failure_;
    std::map<const void*, Mutex> mutexes_;
    std::vector<std::function<void()>> after_, at_end_;
    std::vector<Step> trace_;
    ucontext_t back_{};
};

namespace {

Explorer* g_explorer = nullptr;

} // namespace

// -------------------------------------------------------------------------------------------------
// Executions

Explored Explorer::run() {
    g_explorer = this;
    const double begin = processor_seconds();
    bool more = true;
    while (more && !failed_) {
        if (execute()) {
            break;
        }
        more = next_decisions();
        // A place that another thread turned out to use has not been a place for decisions so far.
        if (!more && found_shared_) {
            found_shared_ = false;
            users_ = found_;
            decisions_.clear();
            tried_.clear();
            more = true;
        }
        if (more && processor_seconds() - begin > bounds_.seconds) {
            break;
        }
    }
    out_.whole = !more;
    out_.failure = failure_;
    g_explorer = nullptr;
    return out_;
}

// Returns true if the execution failed.
bool Explorer::execute() {
    begin();
    ++out_.executions;
    Execution execution;
    try {
        inside_ = true;
        program_(execution);
        inside_ = false;
        memory_.start_threads(count_);
        now_ = -1;
        switch_from_current(false); // until all have ended, or one has failed
        now_ = 0;
        memory_.end_threads(count_);
        inside_ = true;
        for (std::size_t i = 0; i < after_.size() && !failed_ && !abandoned_; ++i) {
            after_[i]();
        }
        for (std::size_t i = at_end_.size(); i > 0 && !failed_; --i) {
            at_end_[i - 1]();
        }
    } catch (const Failed&) {
        // failure_ says what it is.
    }
    inside_ = false;
    after_.clear();
    at_end_.clear();
    out_.decisions = std::max<std::uint64_t>(out_.decisions, next_);
    return failed_;
}

void Explorer::begin() {
    memory_.begin();
    count_ = now_ = 0;
    next_ = steps_ = 0;
    preemptions_ = stale_ = 0;
    stores_ = ticks_ = 0;
    leaps_ = 0;
    clock_ = kClockBegins;
    rounds_of_waiting_ = 0;
    fences_ = 0;
    abandoned_ = false;
    mutexes_.clear();
    trace_.clear();
    for (Thread& thread : threads_) {
        thread.state = State::ended;
        thread.mutex = nullptr;
        thread.waited = false;
        thread.done = thread.since = thread.round = thread.waited_at = 0;
        thread.body = nullptr;
    }
    threads_[0].state = State::ready;
}

// Prepares the next execution: the last decision that has an alternative takes it.
bool Explorer::next_decisions() {
    while (!decisions_.empty() && decisions_.back().taken + 1 >= decisions_.back().count) {
        decisions_.pop_back();
    }
    if (decisions_.empty()) {
        return false;
    }
    ++decisions_.back().taken;
    return true;
}

int Explorer::decide(int count) {
    if (count <= 1) {
        return 0;
    }
    if (next_ == decisions_.size()) {
        if (tried_before()) {
            abandoned_ = true;
            leave();
        }
        decisions_.push_back({0, count});
    }
    const Decision& decision = decisions_[next_++];
    if (decision.count != count) {
        std::fprintf(stderr, "explorer: the program does not do the same when it runs again\n");
        std::abort();
    }
    return decision.taken;
}

// Returns true if an execution with no more preemptions and stale loads has been in this state; all
// that follows it has been tried then.
bool Explorer::tried_before() {
    if (now_ <= 0) {
        return false;
    }
    std::uint64_t state =
        mix(mix(static_cast<std::uint64_t>(now_), clock_),
            (next_is_load_ ? 1 : 2) + 4 * static_cast<std::uint64_t>(rounds_of_waiting_));
    for (int i = 1; i <= count_; ++i) {
        const Thread& thread = threads_[static_cast<std::size_t>(i)];
        state = mix(state, thread.done);
        state = mix(state, static_cast<std::uint64_t>(thread.state) * 4 +
                               (can_run(thread) ? 2 : 0) + (thread.waited ? 1 : 0));
    }
    std::uint32_t& with = tried_[state];
    for (int p = 0; p <= std::min(preemptions_, kMostBounds); ++p) {
        for (int s = 0; s <= std::min(stale_, kMostBounds - 1); ++s) {
            if ((with >> (4 * p + s) & 1u) != 0) {
                return true;
            }
        }
    }
    with |= 1u << (4 * std::min(preemptions_, kMostBounds) + std::min(stale_, kMostBounds - 1));
    return false;
}

void Explorer::did(std::uint64_t what, std::uint64_t where, std::uint64_t met) {
    if (now_ > 0) {
        Thread& thread = self();
        thread.done = mix(mix(thread.done, what << 32u | where), met);
        thread.since = mix(mix(thread.since, what << 32u | where), met);
    }
}

void Explorer::thread(std::function<void()> body) {
    if (++count_ > kMostThreads) {
        std::fprintf(stderr, "explorer: too many threads\n");
        std::abort();
    }
    Thread& made = threads_[static_cast<std::size_t>(count_)];
    made.body = std::move(body);
    made.state = State::ready;
    getcontext(&made.context);
    made.context.uc_stack.ss_sp = made.stack;
    made.context.uc_stack.ss_size = kStack;
    made.context.uc_link = nullptr;
    makecontext(&made.context, &Explorer::enter, 0);
}

// -------------------------------------------------------------------------------------------------
// Threads

void Explorer::enter() {
    Explorer& explorer = *g_explorer;
    explorer.inside_ = true;
    explorer.self().body();
    explorer.inside_ = false;
    explorer.self().state = State::ended;
    explorer.switch_from_current(false);
    std::abort(); // nothing returns here
}

bool Explorer::can_run(const Thread& thread) const {
    switch (thread.state) {
    case State::ready: return true;
    case State::ended: return false;
    case State::yielded: return thread.stores_seen != stores_;
    case State::waits_for_mutex: {
        const auto at = mutexes_.find(thread.mutex);
        return at == mutexes_.end() || at->second.owner < 0;
    }
    }
    return false;
}

// Another thread may go on here.
void Explorer::point() {
    if (now_ > 0) {
        switch_from_current(true);
    }
}

void Explorer::switch_from_current(bool may_stay) {
    if (++steps_ > kMostSteps) {
        fail("no end after " + std::to_string(kMostSteps) + " steps");
    }
    std::array<int, kThreads> choices{};
    int count = 0;
    if (may_stay) {
        choices[static_cast<std::size_t>(count++)] = now_;
    }
    if (!may_stay || preemptions_ < bounds_.preemptions) {
        for (int i = 1; i <= count_; ++i) {
            if (i != now_ && can_run(threads_[static_cast<std::size_t>(i)])) {
                choices[static_cast<std::size_t>(count++)] = i;
            }
        }
    }
    if (!may_stay && now_ > 0 && can_run(self())) {
        choices[static_cast<std::size_t>(count++)] = now_;
    }
    if (count == 0) {
        bool waits = false, blocked = false;
        for (int i = 1; i <= count_; ++i) {
            Thread& thread = threads_[static_cast<std::size_t>(i)];
            waits = waits || thread.state == State::yielded;
            blocked = blocked || thread.state == State::waits_for_mutex;
        }
        if (!waits && !blocked) { // all have ended
            leave();
        }
        // Those that wait may have seen old values; once more, with the newest.
        if (waits && ++rounds_of_waiting_ > 3 && leaps_ < bounds_.leaps) {
            leap();
        }
        if (!waits || rounds_of_waiting_ > 3) {
            fail("all threads wait for each other");
        }
        for (int i = 1; i <= count_; ++i) {
            Thread& thread = threads_[static_cast<std::size_t>(i)];
            if (thread.state == State::yielded) {
                thread.state = State::ready;
                choices[static_cast<std::size_t>(count++)] = i;
            }
        }
    }
    const int choice = choices[static_cast<std::size_t>(decide(count))];
    if (may_stay && choice != now_) {
        ++preemptions_;
    }
    if (choice != now_) {
        go_to(choice);
    }
}

void Explorer::go_to(int thread) {
    const int before = now_;
    now_ = thread;
    Thread& next = threads_[static_cast<std::size_t>(thread)];
    if (next.state == State::yielded) {
        next.state = State::ready;
    }
    swapcontext(before <= 0 ? &back_ : &threads_[static_cast<std::size_t>(before)].context,
                &next.context);
}

// Goes back to execute(); what the threads have on their stacks is left.
void Explorer::leave() {
    setcontext(&back_);
    std::abort();
}

void Explorer::wait() {
    if (now_ <= 0) {
        return;
    }
    note("waits", 0, 0, 0);
    Thread& thread = self();
    did(1, 0);
    if (thread.since == thread.round) {
        thread.done = thread.waited_at;
    }
    thread.round = std::exchange(thread.since, 0);
    thread.waited_at = thread.done;
    thread.state = State::yielded;
    thread.stores_seen = stores_;
    thread.waited = true;
    switch_from_current(false);
    thread.state = State::ready;
}

void Explorer::pause() {
    if (now_ > 0) {
        note("pauses", 0, 0, 0);
        did(11, 0);
        switch_from_current(false);
    }
}

int Explorer::choose(int count) {
    if (now_ <= 0) {
        return 0;
    }
    did(12, static_cast<std::uint64_t>(count));
    const int chosen = decide(count);
    did(13, static_cast<std::uint64_t>(chosen));
    return chosen;
}

void Explorer::leap() {
    ++leaps_;
    pass(kLeap);
    rounds_of_waiting_ = 0;
}

std::uint64_t Explorer::clock() {
    if (leaps_ < bounds_.leaps && choose(2) == 1) {
        leap();
        note("finds that much time has passed", 0, 0, 0);
    }
    did(14, clock_);
    return clock_;
}

void Explorer::pass(std::uint64_t nanoseconds) {
    did(15, nanoseconds);
    clock_ += nanoseconds;
    ++stores_; // those that wait may look at the clock
}

void Explorer::fail(const std::string& text) {
    failed_ = true;
    failure_ = text + "\n";
    const std::size_t first = trace_.size() > kShownSteps ? trace_.size() - kShownSteps : 0;
    for (std::size_t i = first; i < trace_.size(); ++i) {
        const Step& step = trace_[i];
        char line[200];
        if (step.size == 0) {
            std::snprintf(line, sizeof line, "    thread %d: %s\n", step.thread, step.what);
        } else {
            std::snprintf(line, sizeof line, "    thread %d: %-8s %s: %#llx%s\n", step.thread,
                          step.what, memory_.name_of(step.offset).c_str(),
                          static_cast<unsigned long long>(step.value),
                          step.old ? " (not the newest)" : "");
        }
        failure_ += line;
    }
    if (now_ <= 0) {
        throw Failed{};
    }
    leave();
}

// -------------------------------------------------------------------------------------------------
// Accesses, fences and mutexes

void Explorer::note(const char* what, std::size_t offset, int size, std::uint64_t value, bool old) {
    if (now_ > 0) {
        trace_.push_back({now_, what, offset, size, value, old});
    }
}

void Explorer::note_use(std::size_t offset, int size, bool write) {
    if (now_ <= 0) {
        return;
    }
    const auto bit = static_cast<std::uint8_t>(1u << now_);
    bool shared = false;
    for (int i = 0; i < size; ++i) {
        const std::size_t at = offset + static_cast<std::size_t>(i);
        Users& users = found_[at];
        std::uint8_t& mask = write ? users.writers : users.readers;
        mask = static_cast<std::uint8_t>(mask | bit);
        const bool known = users_[at].shared();
        found_shared_ = found_shared_ || (users.shared() && !known);
        shared = shared || known;
    }
    if (shared) {
        point();
    }
}

// Threads that wait may go on.
void Explorer::stored() {
    if (now_ > 0) {
        ++stores_;
        rounds_of_waiting_ = 0;
    }
}

void Explorer::plain(const void* at, std::size_t size, bool write) {
    const std::size_t begin = memory_.offset_of(at);
    const std::size_t end = std::min(begin + size, Memory::kBytes);
    did(write ? 2 : 3, begin, end);
    if (trace_.empty() || write) {
        note(write ? "writes" : "reads", begin, static_cast<int>(end - begin),
             memory_.newest(begin, end - begin));
    }
    memory_.plain(now_, begin, end, write);
    check_memory();
    if (write) {
        stored();
    }
}

void Explorer::freed(const void* at, std::size_t size) {
    plain(at, size, true);
    const std::size_t begin = memory_.offset_of(at);
    memory_.end(begin, std::min(begin + size, Memory::kBytes));
}

std::uint64_t Explorer::load(const void* at, int size, int order) {
    const std::size_t offset = memory_.offset_of(at);
    note_use(offset, size, false);
    Thread& thread = self();
    // A thread that has waited does not go on waiting because of a value that it knows.
    const int choices = memory_.choices(now_, offset, size, order, thread.waited);
    check_memory();
    const bool may_be_old = now_ > 0 && stale_ < bounds_.stale_loads;
    next_is_load_ = true;
    const int back = may_be_old ? decide(choices) : 0;
    next_is_load_ = false;
    stale_ += back > 0 ? 1 : 0;
    const Memory::Met met = memory_.load(now_, offset, order, back);
    did(4, offset, met.number);
    thread.waited = thread.waited && !met.is_new;
    note("loads", offset, size, met.value, back > 0);
    return met.value;
}

void Explorer::store(void* at, int size, std::uint64_t value, int order) {
    static_cast<void>(change(at, size, order, order, [&](std::uint64_t) {
        return Changed{value, true, false};
    }));
}

std::uint64_t Explorer::change(void* at, int size, int order, int order_if_none,
                               const Change& change) {
    const std::size_t offset = memory_.offset_of(at);
    note_use(offset, size, true);
    const Memory::Met met = memory_.change(now_, offset, size, order, order_if_none, change);
    check_memory();
    did(5, offset, met.number);
    if (met.changed.stores) {
        note(met.changed.loads ? "changes" : "stores", offset, size, met.changed.value);
        stored();
    } else {
        note("compares", offset, size, met.value);
    }
    return met.value;
}

void Explorer::fence(int order) {
    did(6, 0, order == __ATOMIC_SEQ_CST ? ++fences_ : 0);
    memory_.fence(now_, order);
}

// membarrier(2): between begin and end of the call each thread executes a full fence.
void Explorer::fence_all() {
    point();
    const auto fence_of = [this](int thread) {
        Thread& its = threads_[static_cast<std::size_t>(thread)];
        its.done = mix(its.done, 7u + (++fences_ << 8u));
        memory_.fence_total(thread);
    };
    fence_of(now_);
    for (int i = 1; i <= count_; ++i) {
        fence_of(i);
        point();
    }
    fence_of(now_);
    note("membarrier", 0, 0, 0);
}

void Explorer::lock(const void* mutex) {
    point();
    while (mutexes_[mutex].owner >= 0) {
        if (now_ <= 0) {
            fail("a mutex is locked after the threads have ended");
        }
        Thread& thread = self();
        note("waits for a mutex", 0, 0, 0);
        thread.state = State::waits_for_mutex;
        thread.mutex = mutex;
        switch_from_current(false);
        thread.state = State::ready;
    }
    Mutex& taken = mutexes_[mutex];
    taken.owner = now_;
    memory_.acquire(now_, taken.released);
    note("locks a mutex", 0, 0, 0);
    did(8, mutex_number(mutex), ++taken.uses);
}

bool Explorer::try_lock(const void* mutex) {
    point();
    Mutex& taken = mutexes_[mutex];
    did(9, mutex_number(mutex), taken.owner >= 0 ? taken.uses << 1u : (++taken.uses << 1u) + 1);
    if (taken.owner >= 0) {
        note("finds a mutex locked", 0, 0, 0);
        return false;
    }
    taken.owner = now_;
    memory_.acquire(now_, taken.released);
    note("locks a mutex", 0, 0, 0);
    return true;
}

void Explorer::unlock(const void* mutex) {
    point();
    Mutex& taken = mutexes_[mutex];
    if (taken.owner != now_) {
        fail("a mutex is unlocked by a thread that does not have it");
    }
    did(10, mutex_number(mutex));
    taken.owner = -1;
    taken.released = memory_.release(now_);
    stored();
    note("unlocks a mutex", 0, 0, 0);
}

// Whether a thread is notified or its time is over first, its turn decides.
bool Explorer::wait_notified(const void* condition, const void* mutex) {
    const std::uint64_t before = mutexes_[condition].uses;
    unlock(mutex);
    pause();
    const bool notified = mutexes_[condition].uses != before;
    note(notified ? "is notified" : "finds its time over", 0, 0, 0);
    did(16, notified ? 1 : 0);
    lock(mutex);
    return notified;
}

void Explorer::notify(const void* condition) {
    point();
    note("notifies", 0, 0, 0);
    did(17, mutex_number(condition), ++mutexes_[condition].uses);
}

// -------------------------------------------------------------------------------------------------
// explorer.h and machine.h

std::byte* Execution::memory(const std::string& name, std::size_t bytes, std::size_t alignment) {
    return g_explorer->memory(name, bytes, alignment);
}
void Execution::thread(std::function<void()> body) { g_explorer->thread(std::move(body)); }
void Execution::before(int number, const std::function<void()>& f) {
    g_explorer->set_before(number);
    f();
    g_explorer->set_before(0);
}
void Execution::after(std::function<void()> check) { g_explorer->after(std::move(check)); }
void Execution::at_end(std::function<void()> destroy) { g_explorer->at_end(std::move(destroy)); }

// First with narrow bounds: most mistakes need few switches, and are then found soon.
Explored explore(const Bounds& bounds, const std::function<void(Execution&)>& program) {
    Explored out;
    Bounds now = bounds;
    const int most = std::min(bounds.preemptions, kMostBounds);
    for (int i = 0; i <= most; ++i) {
        now.preemptions = i;
        now.stale_loads = std::min(bounds.stale_loads, i == most ? kMostBounds - 1 : 1);
        const double begin = processor_seconds();
        const Explored found = Explorer(now, program).run();
        now.seconds -= processor_seconds() - begin;
        out = {out.executions + found.executions, std::max(out.decisions, found.decisions),
               found.whole, found.failure};
        if (!found.whole || !found.failure.empty()) {
            break;
        }
    }
    return out;
}

void yield() { machine_wait(); }

bool machine_active() { return g_explorer != nullptr && g_explorer->active(); }
bool machine_watches(const void* at) { return machine_active() && g_explorer->watches(at); }

namespace {

// The explorer's own accesses are none of the model's. The thread that returns goes on as the
// model's.
template <typename F> auto within(F&& f) {
    struct Within {
        Within() { g_explorer->set_active(false); }
        ~Within() { g_explorer->set_active(true); }
        Within(const Within&) = delete;
        Within& operator=(const Within&) = delete;
    } here;
    return f(*g_explorer);
}

} // namespace

void fail(const std::string& text) {
    within([&](Explorer& explorer) { explorer.fail(text); });
}

void pause() {
    within([](Explorer& explorer) { explorer.pause(); });
}
int choose(int count) {
    return within([&](Explorer& explorer) { return explorer.choose(count); });
}
void pass(std::uint64_t nanoseconds) {
    within([&](Explorer& explorer) { explorer.pass(nanoseconds); });
}

void machine_plain(const void* at, std::size_t size, bool write) {
    within([&](Explorer& explorer) { explorer.plain(at, size, write); });
}
std::uint64_t machine_load(const void* at, int size, int order) {
    return within([&](Explorer& explorer) { return explorer.load(at, size, order); });
}
void machine_store(void* at, int size, std::uint64_t value, int order) {
    within([&](Explorer& explorer) { explorer.store(at, size, value, order); });
}
std::uint64_t machine_change(void* at, int size, int order, int order_if_none,
                             const Change& change) {
    return within([&](Explorer& explorer) {
        return explorer.change(at, size, order, order_if_none, change);
    });
}
void machine_fence(int order) {
    within([&](Explorer& explorer) { explorer.fence(order); });
}
void machine_fence_all() {
    within([](Explorer& explorer) { explorer.fence_all(); });
}
void machine_lock(const void* mutex) {
    within([&](Explorer& explorer) { explorer.lock(mutex); });
}
bool machine_try_lock(const void* mutex) {
    return within([&](Explorer& explorer) { return explorer.try_lock(mutex); });
}
void machine_unlock(const void* mutex) {
    within([&](Explorer& explorer) { explorer.unlock(mutex); });
}
void machine_wait() {
    within([](Explorer& explorer) { explorer.wait(); });
}
bool machine_wait_notified(const void* condition, const void* mutex) {
    return within([&](Explorer& explorer) { return explorer.wait_notified(condition, mutex); });
}
void machine_notify(const void* condition) {
    within([&](Explorer& explorer) { explorer.notify(condition); });
}
void machine_freed(const void* at, std::size_t size) {
    within([&](Explorer& explorer) { explorer.freed(at, size); });
}
int machine_thread() { return g_explorer->number(); }
std::uint64_t machine_clock() {
    return within([](Explorer& explorer) { return explorer.clock(); });
}
const void* machine_identity() { return g_explorer->identity(); }
std::uint64_t machine_ticks() { return g_explorer->ticks(); }

} // namespace adaptib::model
