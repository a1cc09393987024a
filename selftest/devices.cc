// SPDX-License-Identifier: BSD-3-Clause
// The program adaptib_selftest_devices: runs the checks (checks.h) between two processes of an MPI
// job, each of which opens the RDMA devices of its host. adaptib_selftest starts it and reads its
// lines (report.h). MPI carries only what the two processes tell each other about the checks.
// Arguments: names of checks, to run only these.
//
// Exit status: 0, whatever the checks find; 1: nothing could be checked.
// May touch: the headers of this folder, base/, fabric/, tools/, MPI.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "adaptib_config.h"
#include "selftest/checks.h"
#include "selftest/link_counters.h"
#include "selftest/partner.h"
#include "selftest/report.h"
#include "tools/info.h"

namespace adaptib::selftest {

namespace {

// The text of adaptib_info about this host, on one line.
std::string host_facts(const InfoSettings& settings) {
    char* text = nullptr;
    std::size_t length = 0;
    std::FILE* const out = open_memstream(&text, &length);
    const std::array<const char*, 2> arguments{"adaptib_info", "--json"};
    static_cast<void>(run_info(arguments.size(), arguments.data(), settings, out, stderr));
    std::fclose(out);
    std::string line(text, length);
    std::free(text);
    std::replace(line.begin(), line.end(), '\n', ' ');
    return line;
}

// RailInfo as plain data.
struct RailLine {
    std::array<char, 64> name{};
    RailAddress address;
    std::uint32_t capabilities = 0;
    bool places_in_order = false;
    Bytes datagram_bytes = 0;
};

RailLine line_of(const Rail& rail) {
    RailLine out;
    std::snprintf(out.name.data(), out.name.size(), "%s", rail.info().name.c_str());
    out.address = rail.address();
    out.capabilities = rail.info().capabilities;
    out.places_in_order = rail.info().places_in_order;
    out.datagram_bytes = rail.info().datagram_bytes;
    return out;
}

std::vector<RemoteRail> exchange_rails(const Fabric& fabric, Partner& partner) {
    std::vector<RemoteRail> out;
    const std::size_t mine = fabric.rails().size();
    const std::size_t theirs = partner.exchange(mine);
    for (std::size_t i = 0; i < std::max(mine, theirs); ++i) {
        const RailLine line = partner.exchange(i < mine ? line_of(*fabric.rails()[i]) : RailLine{});
        if (i < theirs) {
            RemoteRail remote;
            remote.address = line.address;
            remote.info.name = line.name.data();
            remote.info.capabilities = line.capabilities;
            remote.info.places_in_order = line.places_in_order;
            remote.info.datagram_bytes = line.datagram_bytes;
            out.push_back(remote);
        }
    }
    return out;
}

Outcome unreachable(const Rail& rail, const RemoteRail& remote) {
    const std::string why = rail.why_out_of_reach(remote.address);
    return {Verdict::note, why.empty() ? "another kind of network" : why};
}

class Run {
public:
    // `wanted`: names of the checks; none: all.
    Run(Fabric& fabric, Partner& partner, const Report& report, std::vector<std::string> wanted)
        : fabric_(fabric), partner_(partner), report_(report), wanted_(std::move(wanted)),
          remotes_(exchange_rails(fabric, partner)) {}

    bool wants(const std::string& name) const {
        return wanted_.empty() || std::find(wanted_.begin(), wanted_.end(), name) != wanted_.end();
    }
    void facts();
    // Both go through the pairs of rails in the same order: those of the first process, each with
    // all of the second one.
    void everything();

private:
    bool first() const { return partner_.first(); }
    bool check_paths(Rail& rail, const RemoteRail& remote);
    std::size_t count(bool of_first) const {
        return of_first == first() ? fabric_.rails().size() : remotes_.size();
    }
    void pair(std::size_t of_first, std::size_t of_second);
    Verdict check(const Check& check, Context& context, const std::string& subject);
    void checks_of_pair(Rail& rail, const RemoteRail& remote);
    // "v0:1 -> v1:1": the first process's port, the arrow from the initiator, the second one's.
    std::string subject(const Rail& rail, const RemoteRail& remote, bool forward) const {
        const std::string& mine = rail.info().name;
        const std::string& theirs = remote.info.name;
        return (first() ? mine : theirs) + (forward ? " -> " : " <- ") + (first() ? theirs : mine);
    }

    Fabric& fabric_;
    Partner& partner_;
    const Report& report_;
    const std::vector<std::string> wanted_;
    std::vector<RemoteRail> remotes_;
    std::vector<std::size_t> checked_; // rails of the first process that all checks have met
};

void Run::facts() {
    for (std::size_t side = 0; side < 2; ++side) {
        const bool mine = (side == 0) == first();
        std::ostringstream text;
        for (const auto& rail : fabric_.rails()) {
            const RailInfo& info = rail->info();
            const auto flag = [&](const char* name, Capability capability) {
                text << ' ' << name << '=' << (info.has(capability) ? "yes" : "no");
            };
            text << info.name << " datagram_bytes=" << info.datagram_bytes
                 << " inline_bytes=" << info.inline_bytes << " pieces=" << info.max_gather
                 << " send_depth=" << info.max_send_depth << " completions=" << info.max_cq_depth
                 << " queue_pairs=" << info.max_queue_pairs << " reads=" << info.max_reads
                 << " places_in_order=" << (info.places_in_order ? "yes" : "no");
            flag("srq", Capability::srq);
            flag("atomics", Capability::atomic64);
            flag("dc", Capability::dc);
            flag("migration", Capability::migration);
            text << '\n';
        }
        const std::string theirs = partner_.exchange_text(text.str());
        std::istringstream lines(mine ? text.str() : theirs);
        for (std::string line; std::getline(lines, line);) {
            const std::string name = line.substr(0, line.find(' '));
            std::istringstream words(line.substr(name.size()));
            for (std::string word; words >> word;) {
                const std::size_t equal = word.find('=');
                report_.fact(word.substr(0, equal), "host" + std::to_string(side + 1) + " " + name,
                             word.substr(equal + 1));
            }
        }
    }
}

// Returns the graver verdict of both processes, which then go on alike. A check that ended because
// the other process's did has no outcome of its own.
Verdict Run::check(const Check& check, Context& context, const std::string& subject) {
    Outcome mine;
    bool ended_by_partner = false;
    try {
        mine = check.run(context);
    } catch (const Failed& why) {
        mine = {Verdict::failed, why.what()};
    } catch (const PartnerEnded&) {
        ended_by_partner = true;
    }
    const Outcome theirs = partner_.end(mine);
    Outcome both = joined(mine, theirs);
    if (ended_by_partner && theirs.verdict == Verdict::ok) {
        both = {Verdict::failed, "the check ended early at the other end"};
    }
    report_.check(check.name, subject, both);
    return both.verdict;
}

void Run::checks_of_pair(Rail& rail, const RemoteRail& remote) {
    for (const bool forward : {true, false}) {
        Context context{fabric_, rail, remote, partner_, forward == first(), 0};
        const std::string way = subject(rail, remote, forward);
        for (const Check& each : checks()) {
            if (wants(each.name)) {
                check(each, context, way);
            }
        }
    }
}

// Checks each path both ways; returns false if one does not work.
bool Run::check_paths(Rail& rail, const RemoteRail& remote) {
    const std::uint32_t paths = rail.paths_to(remote.address);
    bool works = true;
    for (std::uint32_t path = 0; path < paths; ++path) {
        for (const bool forward : {true, false}) {
            Context context{fabric_, rail, remote, partner_, forward == first(), path};
            const std::string way = subject(rail, remote, forward) + ", path " +
                                    std::to_string(path + 1) + " of " + std::to_string(paths);
            const bool good = check({"path", check_path}, context, way) != Verdict::failed;
            works = works && good;
        }
    }
    return works;
}

void Run::pair(std::size_t of_first, std::size_t of_second) {
    Rail& rail = *fabric_.rails()[first() ? of_first : of_second];
    const RemoteRail& remote = remotes_[first() ? of_second : of_first];
    if (!rail.is_reachable(remote.address)) {
        report_.check("reach", subject(rail, remote, true), unreachable(rail, remote));
        return;
    }
    const bool works = !wants("path") || check_paths(rail, remote);
    const bool again = std::find(checked_.begin(), checked_.end(), of_first) != checked_.end();
    if (works && !again) {
        checked_.push_back(of_first);
        checks_of_pair(rail, remote);
    }
}

void Run::everything() {
    for (std::size_t i = 0; i < count(true); ++i) {
        // Rails of the same number are most likely on the same network.
        for (std::size_t j = 0; j < count(false); ++j) {
            pair(i, (i + j) % count(false));
        }
    }
}

int run(Partner& partner, std::vector<std::string> wanted) {
    const Report report(partner.first());
    const InfoSettings settings = info_settings();
    const std::string mine = host_facts(settings);
    const std::string theirs = partner.exchange_text(mine);
    report.host(1, mine);
    report.host(2, theirs);
    std::unique_ptr<Fabric> fabric;
    std::string why = "this adaptib was built without libibverbs";
#if ADAPTIB_HAVE_VERBS
    if (settings.options_problem.empty()) {
        static_cast<void>(open_verbs_fabric(settings.options, fabric, why));
    } else {
        why = settings.options_problem;
    }
#endif
    const std::string problem = fabric == nullptr ? why : "";
    const std::string their_problem = partner.exchange_text(problem);
    if (!problem.empty() || !their_problem.empty()) {
        report.fatal(problem.empty() ? "the second process: " + their_problem : problem);
        return 1;
    }
    const LinkCounters before(*fabric);
    Run all(*fabric, partner, report, std::move(wanted));
    all.facts();
    all.everything();
    if (!all.wants("error_counters")) {
        return 0;
    }
    const std::string grown = LinkCounters(*fabric).grown_since(before);
    const std::string their_grown = partner.exchange_text(grown);
    const std::string both =
        grown + (grown.empty() || their_grown.empty() ? "" : "; ") + their_grown;
    report.check("error_counters", "all ports",
                 both.empty() ? Outcome{} : Outcome{Verdict::note, "grew meanwhile: " + both});
    return 0;
}

} // namespace

} // namespace adaptib::selftest

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int status = 1;
    if (size == 2) {
        adaptib::selftest::Partner partner(rank);
        status = adaptib::selftest::run(partner, {argv + 1, argv + argc});
    } else {
        std::fprintf(stderr, "adaptib_selftest_devices: needs two processes, not %d\n", size);
    }
    MPI_Finalize();
    return status;
}
