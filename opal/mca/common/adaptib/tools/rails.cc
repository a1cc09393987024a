// SPDX-License-Identifier: BSD-3-Clause
// The work of adaptib_rails (tools/rails.h).
//
// A process's rail states are words of its shared segment (fabric/shm/layout.h), which this tool
// finds through /proc.
// May touch: base/, fabric/shm/layout.h, the system.
#include "tools/rails.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/shm/layout.h"
#include "tools/help.h"
#include "tools/process_files.h"

namespace adaptib {
namespace {

using namespace adaptib::shm;

constexpr const char* kUsage =
    "usage: adaptib_rails list           [--pid N] [--job KEY]\n"
    "       adaptib_rails down RAIL      [--pid N] [--job KEY]\n"
    "       adaptib_rails up RAIL        [--pid N] [--job KEY]\n"
    "       adaptib_rails slow RAIL RATE [--pid N] [--job KEY]\n"
    "RAIL: shm0, shm1, ... or all. RATE: bytes per second, with kB, MB or GB (powers of 1000).\n"
    "KEY: hexadecimal, as list shows it. Without --pid and --job: every process of yours.\n"
    "--help: this text.\n";

// The mapped first page of a process's segment.
class Segment {
public:
    Segment(std::uint32_t pid, const std::string& path, bool of_any) : pid_(pid) {
        const int fd = open_process_file(path, O_RDWR, of_any);
        if (fd < 0) {
            error_ = errno;
            return;
        }
        struct stat file {};
        if (fstat(fd, &file) == 0 && file.st_size >= static_cast<off_t>(kPage)) {
            void* at = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
            header_ = at == MAP_FAILED ? nullptr : static_cast<Header*>(at);
        }
        close(fd);
    }
    ~Segment() {
        if (header_ != nullptr) {
            munmap(header_, kPage);
        }
    }
    Segment(Segment&& other) noexcept
        : pid_(other.pid_), error_(other.error_), header_(other.header_) {
        other.header_ = nullptr;
    }
    Segment& operator=(Segment&&) = delete;

    // True for a segment of this format that belongs to the process itself: a forked child also
    // holds its parent's.
    bool valid() const {
        return header_ != nullptr && header_->magic.load(std::memory_order_acquire) == kMagic &&
               header_->version == kLayoutVersion && header_->pid == pid_ && header_->rails >= 1 &&
               header_->rails <= kMaxRails;
    }
    bool forbidden() const { return error_ == EACCES || error_ == EPERM; }
    std::uint32_t pid() const { return pid_; }
    Header& header() const { return *header_; }

private:
    std::uint32_t pid_;
    int error_ = 0;
    Header* header_ = nullptr;
};

struct Command {
    std::string verb;
    std::optional<std::uint32_t> rail; // none: all
    std::uint64_t rate = 0;
    std::optional<std::uint32_t> pid;
    std::optional<std::uint64_t> job;
};

std::optional<std::uint64_t> parse_rate(const char* text) {
    char* end = nullptr;
    const double value = std::strtod(text, &end);
    double factor = 0;
    const std::string_view unit = end;
    if (unit.empty() || unit == "B") {
        factor = 1;
    } else if (unit == "kB" || unit == "KB") {
        factor = 1e3;
    } else if (unit == "MB") {
        factor = 1e6;
    } else if (unit == "GB") {
        factor = 1e9;
    }
    const double rate = value * factor;
    if (end == text || !(rate >= 1) || rate > static_cast<double>(kRailRateMask)) {
        return std::nullopt;
    }
    return static_cast<std::uint64_t>(rate);
}

// Each returns false, with the reason in `why`, if the text is wrong.
bool parse_rail(const char* text, Command& out, std::string& why) {
    if (std::strcmp(text, "all") == 0) {
        return true;
    }
    const auto index = std::strncmp(text, "shm", 3) == 0 ? number_of(text + 3, 10) : std::nullopt;
    if (!index || *index >= kMaxRails) {
        why = std::string("'") + text + "' is not a rail";
        return false;
    }
    out.rail = static_cast<std::uint32_t>(*index);
    return true;
}

// Takes --pid and --job out of the arguments; the others, in order, are `words`.
bool parse_options(int argc, const char* const* argv, Command& out, std::vector<const char*>& words,
                   std::string& why) {
    for (int i = 1; i < argc; ++i) {
        const bool pid = std::strcmp(argv[i], "--pid") == 0;
        if (!pid && std::strcmp(argv[i], "--job") != 0) {
            words.push_back(argv[i]);
            continue;
        }
        const auto value = i + 1 < argc ? number_of(argv[i + 1], pid ? 10 : 16) : std::nullopt;
        if (!value || (pid && *value > UINT32_MAX)) {
            why = std::string(argv[i]) + " needs a number";
            return false;
        }
        ++i;
        if (pid) {
            out.pid = static_cast<std::uint32_t>(*value);
        } else {
            out.job = *value;
        }
    }
    return true;
}

bool parse(int argc, const char* const* argv, Command& out, std::string& why) {
    std::vector<const char*> words;
    if (!parse_options(argc, argv, out, words, why)) {
        return false;
    }
    if (words.empty()) {
        why = "what?";
        return false;
    }
    out.verb = words[0];
    const bool list = out.verb == "list";
    const bool slow = out.verb == "slow";
    if (!list && !slow && out.verb != "down" && out.verb != "up") {
        why = "'" + out.verb + "' is not a command";
        return false;
    }
    if (words.size() != (list ? 1u : slow ? 3u : 2u)) {
        why = "'" + out.verb + "' takes " + (list ? "no" : slow ? "two" : "one") + " argument(s)";
        return false;
    }
    if (!list && !parse_rail(words[1], out, why)) {
        return false;
    }
    if (slow) {
        const auto rate = parse_rate(words[2]);
        if (!rate) {
            why = std::string("'") + words[2] + "' is not a rate";
            return false;
        }
        out.rate = *rate;
    }
    return true;
}

// True for a memfd, or, on systems without memfds (fabric/shm/segment_file.h), an unlinked file in
// /dev/shm; the segment's header tells for sure.
bool may_be_segment(std::string_view target) {
    return target.starts_with("/memfd:adaptib-") ||
           (target.starts_with("/dev/shm/") && target.ends_with(" (deleted)"));
}

std::vector<Segment> find(const Command& command, bool& forbidden) {
    std::vector<Segment> found;
    for_each_open_file(
        command.pid, [&](std::uint32_t pid, const std::string& path, std::string_view target) {
            if (!may_be_segment(target)) {
                return;
            }
            Segment segment(pid, path, command.pid.has_value());
            forbidden = forbidden || segment.forbidden();
            if (segment.valid() && (!command.job || segment.header().job_key == *command.job)) {
                found.push_back(std::move(segment));
            }
        });
    return found;
}

void print(const Segment& segment, std::FILE* out) {
    const std::uint32_t rails = std::min(segment.header().rails, kMaxRails);
    for (std::uint32_t rail = 0; rail < rails; ++rail) {
        const std::uint64_t word = segment.header().rail[rail].word.load(std::memory_order_acquire);
        const std::uint64_t rate = word & kRailRateMask;
        std::fprintf(out, "pid %u  job %llx  shm%u  %s", segment.pid(),
                     static_cast<unsigned long long>(segment.header().job_key), rail,
                     (word & kRailDown) != 0 ? "down" : "active");
        if (rate != 0) {
            std::fprintf(out, "  slowed to %.3f MB/s", static_cast<double>(rate) / 1e6);
        }
        std::fprintf(out, "\n");
    }
}

// Returns true if the process has the rail.
bool change(const Segment& segment, const Command& command, std::uint32_t rail) {
    if (rail >= segment.header().rails) {
        return false;
    }
    std::atomic<std::uint64_t>& word = segment.header().rail[rail].word;
    std::uint64_t old = word.load(std::memory_order_acquire);
    for (;;) {
        std::uint64_t fresh = old | kRailDown;
        if (command.verb == "up") {
            fresh = old & ~(kRailDown | kRailRateMask);
        } else if (command.verb == "slow") {
            fresh = (old & ~(kRailDown | kRailRateMask)) | command.rate;
        }
        if (word.compare_exchange_weak(old, fresh, std::memory_order_acq_rel)) {
            return true;
        }
    }
}

} // namespace

int run_rails(int argc, const char* const* argv, std::FILE* out, std::FILE* complaints) {
    Command command;
    std::string what;
    if (wants_help(argc, argv)) {
        std::fputs(kUsage, out);
        return 0;
    }
    if (!parse(argc, argv, command, what)) {
        std::fprintf(complaints, "adaptib_rails: %s\n%s", what.c_str(), kUsage);
        return 2;
    }
    bool forbidden = false;
    const std::vector<Segment> segments = find(command, forbidden);
    if (segments.empty()) {
        std::fprintf(complaints, "adaptib_rails: %s\n",
                     forbidden ? "not allowed to open the segments that were found"
                               : "no process with adaptib's shared-memory rails was found");
        return 1;
    }
    std::size_t changed = 0;
    for (const Segment& segment : segments) {
        if (command.verb == "list") {
            print(segment, out);
            ++changed;
            continue;
        }
        for (std::uint32_t rail = 0; rail < kMaxRails; ++rail) {
            if (!command.rail || *command.rail == rail) {
                changed += change(segment, command, rail) ? 1 : 0;
            }
        }
    }
    if (changed == 0) {
        std::fprintf(complaints,
                     "adaptib_rails: no process has that rail; see adaptib_rails list\n");
        return 1;
    }
    return 0;
}

} // namespace adaptib
